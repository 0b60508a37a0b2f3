"""Drains of agents as operators see them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bcs_scheduler.api.views.agents import drain_state
from bcs_scheduler.wire.times import rfc3339
from store.records import AgentSetting
from store.state.reader import StateReader
from transactions.kinds.registry import kind_of
from transactions.rules.disruptions import Disruptions
from transactions.rules.draining import moves_of, remaining_work


class Blocked(msgspec.Struct, frozen=True, kw_only=True):
    """A taskgroup that must stay for now, for the sake of its application."""

    taskgroup: str
    reason: str


class PlannedMove(msgspec.Struct, frozen=True, kw_only=True):
    """A taskgroup that a drain would move. `agent`: id of the new agent. `waits`: why the taskgroup does not move at
    first (stand-ins that start before, disruption budget, an operation in progress); empty if it moves at once."""

    taskgroup: str
    agent: str
    hostname: str
    waits: str


class LostPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Waiting work that would find a place on an agent now, and none without the agent. `taskgroups`: their number."""

    application: str
    transaction: str
    taskgroups: int
    reason: str


class AgentPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of a cordon or a drain on an agent. `move`, `stay`: taskgroups of a drain with and without a place
    elsewhere; `evict`: taskgroups that the policy would end to make room, for all agents of the request;
    `daemonsets`: number of taskgroups of daemonsets on the agent; `unplanned`: number of taskgroups beyond the limit of
    a plan."""

    move: list[PlannedMove]
    stay: list[Blocked]
    pending: list[LostPlace]
    evict: list[str]
    daemonsets: int
    unplanned: int


class DrainView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`state`: draining, drained or failed. `left`: taskgroups that are still there and to be moved, those that are
    ending included; `moving`: on their way, until they are ready elsewhere; `daemonsets`: taskgroups of daemonsets on
    the agent. `message` also names taskgroups that have no place elsewhere. Times not set are empty."""

    inner_ip: str = msgspec.field(name="innerIP")
    state: str
    message: str
    left: int
    moving: list[str]
    blocked: list[Blocked]
    daemonsets: int
    at_once: int
    end_daemonsets: bool
    since: str
    deadline: str
    done: str


def show_drain(state: StateReader, setting: AgentSetting, agent_ids: Iterable[str], now: float) -> DrainView | None:
    """Shows the drain of an agent; None if the agent is not being drained. `agent_ids`: the Mesos agents of the
    setting. `now`: Unix seconds."""
    drain = setting.drain
    if drain is None:
        return None
    found = remaining_work(state, agent_ids, moves_of(state, setting.agent, drain.since), now)
    rules = Disruptions(state, kind_of, now)
    waiting = [] if drain.done_at else [group for group in found.left if not group.killing_since]
    return DrainView(
        inner_ip=setting.agent,
        state=drain_state(drain),
        message=drain.message,
        left=len(found.left),
        moving=list(found.arriving),
        blocked=[Blocked(taskgroup=g.id, reason=reason) for g in waiting if (reason := rules.reason(g, "drain"))],
        daemonsets=len(found.daemonsets),
        at_once=drain.at_once,
        end_daemonsets=drain.daemonsets,
        since=rfc3339(drain.since),
        deadline=rfc3339(drain.deadline) if drain.deadline else "",
        done=rfc3339(drain.done_at) if drain.done_at else "",
    )
