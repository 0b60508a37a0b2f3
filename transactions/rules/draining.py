"""Emptying an agent: the taskgroups that are left there or on their way, and the stand-ins of deployments. Pure.

A taskgroup is moved by a RESCHEDULE: it ends, and a new one takes its place elsewhere.
`transactions.rules.disruptions` answers whether it may be ended now.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from store.records import Application, Deployment, DrainPhase, ReschedulePayload, TaskGroup, Transaction
from store.state.reader import StateReader
from transactions.rules.application_types import bound_to_agents
from transactions.rules.lifecycle import is_ready_or_finished

SHOWN: Mapping[DrainPhase, Literal["draining", "drained", "failed"]] = {
    "Pending": "draining",
    "Moving": "draining",
    "Done": "drained",
    "Failed": "failed",
}
"""Phases of a drain as users and metrics see them."""


HELD = 60.0
"""Seconds after the end of a taskgroup for which its move takes one of the places of a drain."""


class RemainingWork(NamedTuple):
    """The taskgroups of an agent that is being drained."""

    left: tuple[TaskGroup, ...]
    """Still there and to be moved; those that are ending included."""
    daemonsets: tuple[TaskGroup, ...]
    """Taskgroups of daemonsets that have not ended."""
    arriving: tuple[str, ...]
    """Taskgroups (``namespace/application-index``) that were ready, have been moved, and are not ready again."""
    places: int
    """Number of the places of the drain that moves take: those of `arriving` that ended no longer than `HELD` seconds
    ago."""
    held_until: float
    """Unix seconds at which the next of these places is free again, even if the move has not ended; infinity: none."""


def remaining_work(
    state: StateReader, agent_ids: Iterable[str], moves: Iterable[Transaction], now: float
) -> RemainingWork:
    """Returns the taskgroups that a drain of these agents still has to move or to wait for. `moves`: the RESCHEDULEs of
    the drain. `now`: Unix seconds. Any thread may call."""
    left: list[TaskGroup] = []
    daemonsets: list[TaskGroup] = []
    for agent_id in sorted(agent_ids):
        for group in list(state.groups_on(agent_id).values()):
            if not group.ended:
                application = state.applications.get(group.application_key)
                stays = application is not None and bound_to_agents(application)
                (daemonsets if stays else left).append(group)
    arriving: list[str] = []
    held: list[float] = []
    for move in moves:
        name, since = _arriving(state, move)
        if name:
            arriving.append(name)
            held.append(since + HELD)
    held = [until for until in held if now < until]
    left.sort(key=lambda group: group.id)
    return RemainingWork(tuple(left), tuple(daemonsets), tuple(arriving), len(held), min(held, default=math.inf))


def drained_agent(transaction: Transaction) -> str:
    """Returns the key of the settings of the drained agent that the transaction moves a taskgroup away from; empty if
    the transaction does not belong to a drain."""
    return transaction.payload.drained if isinstance(transaction.payload, ReschedulePayload) else ""


def moves_of(state: StateReader, agent: str, since: float = 0.0) -> list[Transaction]:
    """The RESCHEDULEs that were begun at `since` (Unix seconds) or later to drain an agent, in the order of their ids.
    `agent`: key of its settings. Costs with the drains of this agent. Any thread may call."""
    found = [state.transactions.get(identity) for identity in sorted(state.indexes.drained_from(agent))]
    return [move for move in found if move is not None and move.created_at >= since]


def _arriving(state: StateReader, move: Transaction) -> tuple[str, float]:
    """The name of the taskgroup that this move is bringing to another agent, and Unix seconds since which the old one
    has been gone (infinity: it is there). The name is empty if there is none (any more)."""
    if ReschedulePayload.of(move).unready:
        return "", 0.0
    index = int(move.taskgroup.partition(".")[0])
    name = f"{move.application_key}-{index}"
    old = state.taskgroups.get(move.taskgroup)
    if old is not None and not old.ended:
        return name, math.inf
    if move.active:
        return name, old.ended_at if old is not None else move.created_at
    for group in state.unready_of(move.application_key):
        if group.index == index and not is_ready_or_finished(group) and not _settled(state, group):
            return name, group.created_at
    return "", 0.0


def _settled(state: StateReader, group: TaskGroup) -> bool:
    """True if the taskgroup has ended and no transaction replaces it."""
    active = state.active_of(group.application_key).values()
    return group.ended and not any(transaction.taskgroup == group.id for transaction in list(active))


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
