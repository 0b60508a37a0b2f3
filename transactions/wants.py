"""What workloads want together, whether it runs yet or not: what the quota of a namespace bounds.

An application wants its instances times what one taskgroup of its newest version needs. A deployment stands for its
applications: while it moves from one definition to another, all its taskgroups and the surge count, at the greater need
of the two sides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from store.definition import Amounts
from store.records import Application, Deployment, Quota
from store.state import State
from transactions import needs

R = TypeVar("R")
MOVING = ("Update", "UpdatePaused", "UpdateSuspend")
"""Statuses of a deployment in which both sides may be there."""


class Wants(NamedTuple):
    """Scalars in thousandths."""

    cpus: int = 0
    mem: int = 0
    disk: int = 0
    taskgroups: int = 0

    def plus(self, other: Wants) -> Wants:
        return Wants(*(a + b for a, b in zip(self, other, strict=True)))

    def minus(self, other: Wants) -> Wants:
        return Wants(*(a - b for a, b in zip(self, other, strict=True)))


NOTHING = Wants()


def of_application(state: State, application: Application) -> Wants:
    """Nothing for one that belongs to a deployment, which wants in its place."""
    if application.type != "daemonset" and f"{application.namespace}/{application.deployment}" in state.deployments:
        return NOTHING
    version = state.version(application.key, application.version)
    return _times(application.instances, needs.total(version)) if version is not None else NOTHING


def of_deployment(state: State, deployment: Deployment) -> Wants:
    sides = []
    counts = [deployment.instances]
    for name in (deployment.application, deployment.successor):
        application = state.applications.get(f"{deployment.namespace}/{name}") if name else None
        version = state.version(application.key, application.version) if application is not None else None
        if version is not None:
            sides.append(needs.total(version))
    revision = state.revisions.get(deployment.revision_key)
    if revision is not None:
        sides.append(needs.total(revision.version))
    surge = deployment.strategy.max_surge
    following = state.revisions.get(f"{deployment.key}/{deployment.following}")
    if following is not None:
        sides.append(needs.total(following.version))
        counts.append(following.instances)
        surge = max(surge, following.strategy.max_surge)
    if deployment.updating or deployment.status in MOVING:
        counts.append(deployment.previous_instances or deployment.instances)
        # Never is there more than all of one side beside all of the other.
        counts.append(max(counts) + min(surge, sorted(counts)[-2]))
    most = Amounts(
        cpus=max((side.cpus for side in sides), default=0),
        mem=max((side.mem for side in sides), default=0),
        disk=max((side.disk for side in sides), default=0),
    )
    return _times(max(counts), most)


def of_namespace(state: State, namespace: str) -> Wants:
    """The sum over what is in the namespace. Costs nothing for what is in others; any thread may ask."""
    total = NOTHING
    for application in _those("application", state, state.applications, namespace):
        total = total.plus(of_application(state, application))
    for deployment in _those("deployment", state, state.deployments, namespace):
        total = total.plus(of_deployment(state, deployment))
    return total


def _those(kind: str, state: State, table: Mapping[str, R], namespace: str) -> list[R]:
    """The records of a kind in the namespace."""
    return [record for key in list(state.indexes.keys_in(kind, namespace)) if (record := table.get(key)) is not None]


def bounds(quota: Quota) -> tuple[tuple[str, int | None], ...]:
    """In the order of Wants."""
    return (
        ("cpus", quota.cpus),
        ("mem", quota.mem),
        ("disk", quota.disk),
        ("taskgroups", quota.taskgroups),
    )


def _times(count: int, amounts: Amounts) -> Wants:
    return Wants(count * amounts.cpus, count * amounts.mem, count * amounts.disk, count)
