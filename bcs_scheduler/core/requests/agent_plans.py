"""Plans of cordons and drains: where taskgroups would move, and which work would wait.

The plan compares two dry runs: one of the work that waits, as things stand, and one of this work together with the
taskgroups to be moved, without the agents in question. All taskgroups count as moved in the second one, because a drain
moves them one after the other until none is left. With a policy, the policy decides; with `simple`, the demands are
matched in slices.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import NamedTuple

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.controllers.cluster import stand_ins
from bcs_scheduler.core.interface.requests import PlanAgents
from bcs_scheduler.core.placement.placer import Foreseen, Mode, avoiding
from bcs_scheduler.core.placement.rebalancing import demands_of, take_out
from bcs_scheduler.core.requests.answers import Data
from offers.matching.explain import TAKEN
from offers.model import Demand, Diagnosis, MatchResult, Occupant
from store.records import TaskGroup
from transactions import explain, occupancy
from transactions.base import Slot
from transactions.rules import disruptions
from transactions.rules.draining import remaining_work
from transactions.rules.lifecycle import is_ready_or_finished

AT_ONCE = 16
"""Number of demands that are matched in one turn; about a millisecond for each at 5,000 agents."""
MOST_MOVED = 1000
"""Number of taskgroups of a request that are planned."""
MOST_WAITING = 1000
"""Number of waiting slots that are planned beside the taskgroups."""


class _Question(NamedTuple):
    """The work that a plan is about."""

    away: dict[str, str]
    """Keys of the settings by the id of the agents that are left out."""
    waiting: list[Demand[Slot]]
    """Open demands, up to `MOST_WAITING` slots."""
    moved: list[Demand[Slot]]
    gone: list[Occupant]
    """The taskgroups of `moved` as they are counted now."""
    home: dict[str, str]
    """Keys of the settings by the ids of these taskgroups."""
    blockers: dict[str, str]
    """Reasons why taskgroups must wait at first, by their ids."""


def plan(turn: TurnContext, command: PlanAgents) -> Data:
    """Returns the data of the reply: `agents` has a plan by the key of each agent (its parts: `AgentPlan` of the API's
    views), `evict` the taskgroups that the policy would end to make room."""
    turn.cut()
    data: Data = {"agents": {}, "evict": [], "dryRun": True}
    rest = _plan(turn, command, data)
    if rest is not None:
        turn.later(rest)
    return data


def accepts_drain(turn: TurnContext, agents: Sequence[str]) -> Generator[None, None, bool]:
    """True if `plan` of a drain of these agents, given by key, moves all their taskgroups. The plan is made in steps,
    and nothing changes."""
    turn.cut()
    data: Data = {"agents": {}, "evict": [], "dryRun": True}
    rest = _plan(turn, PlanAgents(agents=tuple(agents), drain=True), data)
    if rest is not None:
        yield from rest
    return not any(plan_of["stay"] or plan_of["unplanned"] for plan_of in data["agents"].values())


def _plan(turn: TurnContext, command: PlanAgents, data: Data) -> Iterator[None] | None:
    """Writes the plan into `data`; the steps that still have to be made for it, or None."""
    groups = _groups(turn, command, data)
    away = {identity: key for key in command.agents for identity in turn.agents_named(key)}
    waiting = _waiting(turn)
    if not turn.placer.has_policy:
        try:
            asked = _question(turn, away, waiting, groups)
        finally:
            turn.uow.rollback()
        if len(asked.waiting) + len(asked.moved) > AT_ONCE:
            return _match(turn, asked, data)
        _match_at_once(turn, asked, data)
        return None
    before = _decided(turn, waiting, frozenset()) if away else Foreseen(MatchResult([], []))
    try:
        # The policy looks at the records, so the taskgroups are gone from them while it decides.
        asked = _question(turn, away, waiting, groups)
        _write(data, asked, before, _decided(turn, [*asked.waiting, *asked.moved], frozenset(away)))
    finally:
        turn.uow.rollback()
    return None


def _groups(turn: TurnContext, command: PlanAgents, data: Data) -> list[tuple[str, TaskGroup]]:
    """The taskgroups that a drain would move, each with the key of its agent. Begins the plans of the agents."""
    found: list[tuple[str, TaskGroup]] = []
    for key in command.agents:
        work = remaining_work(turn.state, turn.agents_named(key), (), turn.now)
        plan_of: Data = {"move": [], "stay": [], "daemonsets": len(work.daemonsets), "unplanned": 0, "pending": []}
        data["agents"][key] = plan_of
        if command.drain:
            # Taskgroups that are ending have their transactions, which look for other places already.
            left = [(key, group) for group in work.left if not group.killing_since]
            room = MOST_MOVED - len(found)
            found += left[:room]
            plan_of["unplanned"] = max(0, len(left) - room)
    return found


def _waiting(turn: TurnContext) -> list[Demand[Slot]]:
    found: list[Demand[Slot]] = []
    room = MOST_WAITING
    for demand in turn.engine.demands.values():
        if room <= 0:
            break
        if not (demand.per_agent or demand.promised):
            found.append(demand._replace(slots=demand.slots[: max(room, demand.min_members)]))
            room -= len(demand.slots)
    return found


def _question(
    turn: TurnContext, away: dict[str, str], waiting: list[Demand[Slot]], groups: Sequence[tuple[str, TaskGroup]]
) -> _Question:
    """Judges the disruption budgets in the order of a drain. Leaves the taskgroups ended in the unit of work, which the
    caller undoes."""
    blockers: dict[str, str] = {}
    waits: list[TaskGroup] = []
    rules = disruptions.at(turn.context)
    # Before any taskgroup counts as moved: they still use their quotas while stand-ins start.
    first = {
        key: stand_ins.foreseen(turn, application)
        for key in dict.fromkeys(group.application_key for _, group in groups)
        if (application := turn.state.applications.get(key)) is not None
    }
    for _, group in sorted(groups, key=lambda entry: is_ready_or_finished(entry[1])):
        words = (is_ready_or_finished(group) and first.get(group.application_key)) or rules.reason(group, "drain")
        if words:
            blockers[group.id] = words
            waits.append(group)
        else:
            take_out(turn, group)
    for group in waits:
        take_out(turn, group)
    moved = demands_of(turn, "drain", [group for _, group in groups])
    gone = [occupancy.counted_only(turn.state, group) for _, group in groups]
    return _Question(away, waiting, moved, gone, {group.id: key for key, group in groups}, blockers)


# --- dry runs -----------------------------------------------------------------------------------------------------


def _decided(turn: TurnContext, demands: Sequence[Demand[Slot]], without: frozenset[str]) -> Foreseen:
    """The decisions of the policy, role by role."""
    result: MatchResult[Slot] = MatchResult([], [])
    evicted: list[str] = []
    for role in dict.fromkeys(demand.role for demand in demands):
        found = turn.placer.foresee([demand for demand in demands if demand.role == role], without)
        result.placements.extend(found.result.placements)
        result.diagnoses.extend(found.result.diagnoses)
        evicted += found.evicted
    return Foreseen(result, tuple(evicted))


def _match_at_once(turn: TurnContext, asked: _Question, data: Data) -> None:
    """Like `_match`, without a copy of the offers."""
    if not asked.away:
        return
    before = turn.placer.plan(asked.waiting, Mode.DRY_RUN)
    after = turn.placer.suppose(_without_agents(asked), asked.gone)
    _write(data, asked, Foreseen(before), Foreseen(after))


def _without_agents(asked: _Question) -> list[Demand[Slot]]:
    without = frozenset(asked.away)
    return [avoiding(demand, without) for demand in (*asked.waiting, *asked.moved)]


def _match(turn: TurnContext, asked: _Question, data: Data) -> Iterator[None]:
    """Matches the demands one after the other, first without and then with the change."""
    if not asked.away:
        return
    before = yield from _gather(turn.placer.one_by_one(asked.waiting))
    after = yield from _gather(turn.placer.one_by_one(_without_agents(asked), asked.gone))
    _write(data, asked, before, after)


def _gather(steps: Iterable[MatchResult[Slot] | None]) -> Generator[None, None, Foreseen]:
    result: MatchResult[Slot] = MatchResult([], [])
    for found in steps:
        if found is not None:
            result.placements.extend(found.placements)
            result.diagnoses.extend(found.diagnoses)
        yield
    return Foreseen(result)


# --- the answer ---------------------------------------------------------------------------------------------------


def _of_others(diagnosis: Diagnosis) -> Diagnosis:
    """The diagnosis without the agents that the plan leaves out."""
    others = {reason: number for reason, number in diagnosis.reasons.items() if reason != TAKEN}
    return diagnosis._replace(agents=diagnosis.agents - diagnosis.reasons.get(TAKEN, 0), reasons=others)


def _write(data: Data, asked: _Question, before: Foreseen, after: Foreseen) -> None:
    plans: dict[str, Data] = data["agents"]
    reasons = {diagnosis.demand: explain.reasons(_of_others(diagnosis)) for diagnosis in after.result.diagnoses}
    places = {placement.slot.replaces: placement for placement in after.result.placements}
    for demand in asked.moved:
        for slot in demand.slots:
            plan_of, place = plans[asked.home[slot.replaces]], places.get(slot.replaces)
            if place is None:
                plan_of["stay"].append({"taskgroup": slot.replaces, "reason": reasons.get(demand.id, "")})
            else:
                new = {"agent": place.agent_id, "hostname": place.hostname}
                plan_of["move"].append(
                    {"taskgroup": slot.replaces, **new, "waits": asked.blockers.get(slot.replaces, "")}
                )
    had: dict[str, Counter[str]] = defaultdict(Counter)
    for placement in before.result.placements:
        had[placement.demand][placement.agent_id] += 1
    kept = Counter(placement.demand for placement in after.result.placements)
    for demand in asked.waiting:
        lost = had[demand.id].total() - kept[demand.id]
        for agent, number in had[demand.id].items():
            taken = min(lost, number) if agent in asked.away else 0
            if taken > 0:
                lost -= taken
                plans[asked.away[agent]]["pending"].append(
                    {
                        "application": demand.application,
                        "transaction": demand.id,
                        "taskgroups": taken,
                        "reason": reasons.get(demand.id, ""),
                    }
                )
    data["evict"] = list(after.evicted)
