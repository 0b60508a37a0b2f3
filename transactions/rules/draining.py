"""Emptying an agent: which of its taskgroups may be moved now, and the blockers of the others. Pure.

A taskgroup is moved by a RESCHEDULE: it ends, and a new one takes its place elsewhere. Its application must not fall
below the taskgroups that its owner wants ready: instances less the bound of its updates. Failures and other drains use
the same room, because the ready taskgroups are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from store.advice import advise
from store.records import Application, Deployment, DrainPhase, ReschedulePayload, TaskGroup, Transaction
from store.state.reader import StateReader
from transactions import text
from transactions.kinds.update import default_bound
from transactions.rules.application_types import bound_to_agents, lasting
from transactions.rules.taskgroups.lifecycle import READY, is_ready, is_ready_or_finished

SHOWN: Mapping[DrainPhase, Literal["draining", "drained", "failed"]] = {
    "Pending": "draining",
    "Moving": "draining",
    "Done": "drained",
    "Failed": "failed",
}
"""Phases of a drain as users and metrics see them."""
UPDATING = ("Update", "UpdatePaused", "UpdateSuspend")


class RemainingWork(NamedTuple):
    """The taskgroups of an agent that is being drained."""

    left: tuple[TaskGroup, ...]
    """Still there and to be moved; those that are ending included."""
    daemonsets: tuple[TaskGroup, ...]
    """Taskgroups of daemonsets that have not ended."""
    arriving: tuple[str, ...]
    """Taskgroups (``namespace/application-index``) that have been moved and are not ready again."""


def remaining_work(state: StateReader, agent_ids: Iterable[str], moves: Iterable[Transaction]) -> RemainingWork:
    """Returns the taskgroups that a drain of these agents still has to move or to wait for. `moves`: the RESCHEDULEs of
    the drain. Any thread may call."""
    left: list[TaskGroup] = []
    daemonsets: list[TaskGroup] = []
    for agent_id in sorted(agent_ids):
        for group in list(state.groups_on(agent_id).values()):
            if not group.ended:
                application = state.applications.get(group.application_key)
                stays = application is not None and bound_to_agents(application)
                (daemonsets if stays else left).append(group)
    arriving = [name for move in moves if (name := _arriving(state, move))]
    return RemainingWork(tuple(sorted(left, key=lambda group: group.id)), tuple(daemonsets), tuple(arriving))


def drained_agent(transaction: Transaction) -> str:
    """Returns the key of the settings of the drained agent that the transaction moves a taskgroup away from; empty if
    the transaction does not belong to a drain."""
    return transaction.payload.drained if isinstance(transaction.payload, ReschedulePayload) else ""


def _arriving(state: StateReader, move: Transaction) -> str:
    """Name of the taskgroup that this move is bringing to another agent; empty if there is none (any more)."""
    index = int(move.taskgroup.partition(".")[0])
    name = f"{move.application_key}-{index}"
    if move.active:
        return name
    for group in list(state.groups_of(move.application_key).values()):
        if group.index == index and not is_ready_or_finished(group) and not _settled(state, group):
            return name
    return ""


def _settled(state: StateReader, group: TaskGroup) -> bool:
    """True if the taskgroup has ended and no transaction replaces it."""
    active = state.active_of(group.application_key).values()
    return group.ended and not any(transaction.taskgroup == group.id for transaction in list(active))


def blocker(state: StateReader, group: TaskGroup) -> str:
    """Explains why the taskgroup must not be ended now for the sake of its application; empty if it may be ended."""
    application = state.applications.get(group.application_key)
    if application is None:
        return ""
    if group.unreachable_since:
        return "its agent is unreachable"
    for running in list(state.active_of(application.key).values()):
        if not running.taskgroup:
            return f"{text.named(running.type, running.id)} works on {application.key}"
        if running.taskgroup == group.id:
            return f"it is being replaced already ({text.named(running.type, running.id)})"
    deployment = state.deployments.get(application.deployment_key)
    if application.rolling or (deployment is not None and deployment.status in UPDATING):
        return f"deployment {application.deployment_key} is being updated{_way_on(deployment)}"
    bound = bound_of(state, application)
    beyond = stand_ins_of(state, deployment) if deployment is not None else 0
    if bound + beyond < 1:
        return f"{application.key} allows no taskgroup to be unavailable (maxUnavailable 0)"
    groups = list(state.groups_of(application.key).values())
    if is_ready_or_finished(group):
        counted = is_ready if lasting(application) else is_ready_or_finished
        instances = application.instances - beyond
        ready, least = sum(map(counted, groups)), instances - bound
        if ready - 1 < least:
            wanted = text.counted(instances, "taskgroup")
            words = f"{ready} of {wanted} of {application.key} {text.are(ready)} ready, {least} must stay so"
            return f"{words}; {advise('explain_waiting', name=application.name, namespace=application.namespace)}"
    elif group.status in READY:
        # It runs and may work although its checks fail, so it is treated as in an update.
        changing = sum(1 for other in groups if other.status not in READY or other.killing_since)
        if changing >= bound + beyond:
            return f"{text.counted(changing, 'taskgroup')} of {application.key} {text.are(changing)} changing already"
    return ""


def _way_on(deployment: Deployment | None) -> str:
    """Words for an operation that ends the halt of an update; empty if the update is not halted."""
    if deployment is None or deployment.status not in ("UpdatePaused", "UpdateSuspend"):
        return ""
    return f"; {advise('resume' if deployment.rolling_back else 'resume_or_cancel')}"


def surging(state: StateReader, application: Application) -> Deployment | None:
    """The deployment of an application of which a drain starts new taskgroups before it ends the present ones; None if
    there is none, or if the deployment is being updated."""
    deployment = state.deployments.get(application.deployment_key)
    if deployment is None or deployment.status != "Running" or application.rolling:
        return None
    strategy = deployment.strategy
    first = strategy.order == "CreateFirst" or strategy.max_unavailable < 1
    return deployment if first and strategy.max_surge > 0 else None


def stand_ins_of(state: StateReader, deployment: Deployment) -> int:
    """Number of taskgroups that the deployment has beyond its own number while a drain moves others: its application
    wants them, the deployment does not."""
    application = state.applications.get(deployment.application_key)
    if application is None or application.rolling or deployment.status != "Running":
        return 0
    return max(0, application.instances - deployment.instances)


def bound_of(state: StateReader, application: Application) -> int:
    """Greatest number of taskgroups of the application that may be unavailable because the scheduler ends them."""
    deployment = state.deployments.get(application.deployment_key)
    if deployment is not None:
        return deployment.strategy.max_unavailable
    version = state.version(application.key, application.version)
    return (version.max_unavailable if version is not None else 0) or default_bound(application.instances)
