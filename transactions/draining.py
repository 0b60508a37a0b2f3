"""Emptying an agent: which of its taskgroups may be moved now, and what keeps the others. Pure.

A taskgroup is moved by a RESCHEDULE: it ends, and a new one takes its place elsewhere. Its application must not fall
below the taskgroups that its owner wants ready: instances less the bound of its updates. Whatever else uses up that
room, failures and other drains included, counts, because the taskgroups that are ready are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from offers.model import Census
from store.records import Application, TaskGroup, Transaction
from store.state import State
from transactions.lifecycle import READY, is_ready, serves
from transactions.update import default_bound

UPDATING = ("Update", "UpdatePaused", "UpdateSuspend")


class Outlook(NamedTuple):
    """The taskgroups of an agent that is being drained."""

    left: tuple[TaskGroup, ...]
    """Still there and to be moved; those that are ending included."""
    daemonsets: tuple[TaskGroup, ...]
    """Taskgroups of daemonsets that have not ended."""
    arriving: tuple[str, ...]
    """Taskgroups (``namespace/application-index``) that have been moved and are not ready again."""


def outlook(state: State, agent_ids: Iterable[str], moves: Iterable[Transaction]) -> Outlook:
    """`moves`: the RESCHEDULEs of the drain. Any thread may ask."""
    left: list[TaskGroup] = []
    daemonsets: list[TaskGroup] = []
    for agent_id in sorted(agent_ids):
        for group in list(state.groups_on(agent_id).values()):
            if not group.ended:
                application = state.applications.get(f"{group.namespace}/{group.application}")
                daemon = application is not None and application.type == "daemonset"
                (daemonsets if daemon else left).append(group)
    arriving = [name for move in moves if (name := _arriving(state, move))]
    return Outlook(tuple(sorted(left, key=lambda group: group.id)), tuple(daemonsets), tuple(arriving))


def _arriving(state: State, move: Transaction) -> str:
    """Name of the taskgroup that is on its way by this move; empty if none is (any more)."""
    index = int(move.taskgroup.partition(".")[0])
    name = f"{move.namespace}/{move.application}-{index}"
    if move.active:
        return name
    for group in list(state.groups_of(f"{move.namespace}/{move.application}").values()):
        if group.index == index and not is_ready(group) and not _settled(state, group):
            return name
    return ""


def _settled(state: State, group: TaskGroup) -> bool:
    """It has ended and nobody replaces it."""
    active = state.active_of(f"{group.namespace}/{group.application}").values()
    return group.ended and not any(transaction.taskgroup == group.id for transaction in list(active))


def hindrance(state: State, group: TaskGroup) -> str:
    """Why the taskgroup must not be ended now for the sake of its application, in words; empty if it may."""
    application = state.applications.get(f"{group.namespace}/{group.application}")
    if application is None:
        return ""
    if group.unreachable_since:
        return "its agent is out of reach"
    for running in list(state.active_of(application.key).values()):
        if running.type != "RESCHEDULE":
            return f"{running.type} {running.id} works on {application.key}"
        if running.taskgroup == group.id:
            return f"it is being replaced already ({running.id})"
    deployment = state.deployments.get(f"{application.namespace}/{application.deployment}")
    if application.rolling or (deployment is not None and deployment.status in UPDATING):
        return f"deployment {application.namespace}/{application.deployment} is being updated"
    bound = bound_of(state, application)
    if bound < 1:
        return f"{application.key} allows no taskgroup to be unavailable (maxUnavailable 0)"
    groups = list(state.groups_of(application.key).values())
    if is_ready(group):
        counted = serves if application.deployment or application.type == "daemonset" else is_ready
        ready, least = sum(map(counted, groups)), application.instances - bound
        if ready - 1 < least:
            return f"{ready} of {application.instances} taskgroups of {application.key} are ready, {least} must stay so"
    elif group.status in READY:
        # It runs and may serve although its checks say otherwise, so it is treated as an update does.
        changing = sum(1 for other in groups if other.status not in READY or other.killing_since)
        if changing >= bound:
            return f"{changing} taskgroups of {application.key} are changing already"
    return ""


def bound_of(state: State, application: Application) -> int:
    """How many taskgroups may be unavailable by our own act."""
    deployment = state.deployments.get(f"{application.namespace}/{application.deployment}")
    if deployment is not None:
        return deployment.strategy.max_unavailable
    version = state.version(application.key, application.version)
    return (version.max_unavailable if version is not None else 0) or default_bound(application.instances)


class WithoutGroup:
    """The census as it is when one taskgroup has ended (offers.model.Census)."""

    def __init__(self, census: Census, group: TaskGroup) -> None:
        self._census = census
        self._group = group
        self._application = f"{group.namespace}/{group.application}"

    def attribute_counts(self, application: str, attribute: str) -> Mapping[str | float, int]:
        counts = self._census.attribute_counts(application, attribute)
        value: str | float | None = None
        if attribute == "hostname":
            value = self._group.hostname
        elif (known := self._group.attributes.get(attribute)) is not None:
            value = known.text if known.number is None else known.number
        if application != self._application or value is None:
            return counts
        less = Counter(dict(counts))
        less[value] -= 1
        return +less

    def total(self, application: str) -> int:
        return self._census.total(application) - (application == self._application)

    def agents_with_label(self, pair: str, except_application: str) -> frozenset[str]:
        return self._census.agents_with_label(pair, except_application)

    def extended_used(self, agent_id: str, name: str) -> int:
        used = self._census.extended_used(agent_id, name)
        return used - self._group.extended.get(name, 0) if agent_id == self._group.agent_id else used
