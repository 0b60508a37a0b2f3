"""Rebalancing: moves taskgroups toward fewer agents or more even agents, within the disruption budgets.

The moves are planned in slices on a copy of the offers (the planner: offers.rebalancing), and then begun one after the
other. A taskgroup moves only if its new agent has room now and, with a policy, if the policy would place the taskgroup
there. While taskgroups wait for a place, no taskgroup moves: the room is theirs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator
from typing import Any, Literal

import msgspec

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.interface.plans import Rebalance
from bcs_scheduler.core.placement.placer import TrialPlan
from offers.model import Demand
from offers.rebalancing import planner
from store.records import ReschedulePayload, TaskGroup
from transactions.base import Refused, Slot, Step
from transactions.kinds import reschedule
from transactions.resources import occupancy, resource_request
from transactions.rules import evictions
from transactions.rules.application_types import bound_to_agents
from transactions.rules.taskgroups.lifecycle import is_ready
from transactions.text import counted

Data = dict[str, Any]
Stop = Literal["TaskgroupsWait", "MovesInProgress", "MoveLimit", "GainBelowBound"]

HOLD = 60.0
"""Seconds for which a moved taskgroup waits for its new agent, before any other agent may take it."""
AGENTS_AT_ONCE = 64
"""Agents whose taskgroups are summed up in one step."""

WORDS: dict[Stop, str] = {
    "TaskgroupsWait": "taskgroups wait for a place, and the room is theirs",
    "MovesInProgress": "moves of an earlier rebalancing have not ended",
    "MoveLimit": "the limit of moves is reached",
    "GainBelowBound": "no further move that is allowed gains enough",
}


def run(turn: TurnContext, command: Rebalance) -> Data:
    """Returns the data of the reply, which follows in slices: `moves` (taskgroup, agents with host names, gain),
    `refused` (moves that could not begin after all), `stopped` (code) with `message`, and the measure of the cluster
    `before` and `after` all moves (offers.rebalancing.planner). Raises Refused (invalid)."""
    if command.moves < 1 or not command.gain > 0:
        raise Refused("invalid", "the number of moves and the gain must be above 0")
    data: Data = {"goal": command.goal, "moves": [], "refused": [], "stopped": "", "message": ""}
    data.update(before=0.0, after=0.0, agentsInUse=0, dryRun=command.dry_run)
    turn.later(_work(turn, command, data))
    return data


def rounds(turn: TurnContext, command: Rebalance) -> Iterator[None]:
    """The work of `run` without an answer, step by step. An event reports it only if a taskgroup moves."""
    data: Data = {"moves": [], "refused": []}
    yield from _work(turn, command, data, quiet=True)


def take_out(turn: TurnContext, group: TaskGroup) -> None:
    """Makes a taskgroup ended in the unit of work, for plans that are undone."""
    ended = tuple(msgspec.structs.replace(task, status="Killed") for task in group.tasks)
    turn.uow.put(msgspec.structs.replace(group, tasks=ended, killing_since=turn.now))


def _work(turn: TurnContext, command: Rebalance, data: Data, *, quiet: bool = False) -> Iterator[None]:
    stopped: Stop = "GainBelowBound"
    chosen: list[planner.Move] = []
    loads = yield from _loads(turn)
    if turn.engine.pending:
        stopped = "TaskgroupsWait"
    elif loads is None:
        stopped = "MovesInProgress"
    else:
        data["before"] = planner.measure(loads)
        trial = yield from turn.placer.rehearsal()
        for move in planner.moves(loads, command.goal, command.gain, _admission(turn, trial)):
            if move is not None:
                chosen.append(move)
                if len(chosen) >= command.moves:
                    stopped = "MoveLimit"
                    break
            yield
        data["after"] = planner.measure(loads)
        data["agentsInUse"] = sum(any(load.used) for load in loads)
    for move in chosen:
        _begin(turn, command, move, data)
        yield
    data.update(stopped=stopped, message=WORDS[stopped])
    if not command.dry_run and (data["moves"] or not quiet):
        words = f"{command.goal}: {counted(len(data['moves']), 'move')}; {WORDS[stopped]}"
        turn.record_event("framework", turn.state.framework.id, "RebalanceFinished", words)


def _loads(turn: TurnContext) -> Generator[None, None, list[planner.Load] | None]:
    """The agents of known size with their taskgroups. None if taskgroups are being ended for an earlier rebalancing:
    the room on their new agents still looks free."""
    state, found = turn.state, []
    for number, (agent_id, total) in enumerate(list(turn.pool.totals.items())):
        load = planner.Load(agent_id, total, (0,) * len(total))
        for group in state.groups_on(agent_id).values():
            if group.ended:
                continue
            if group.killing_since and _moves_already(turn, group):
                return None
            amounts = (group.resources.cpus, group.resources.mem)
            load.add(amounts)
            if _may_move(turn, group):
                load.units[group.id] = planner.Unit(group.id, (group.application_key, group.version), amounts)
        found.append(load)
        if number % AGENTS_AT_ONCE == AGENTS_AT_ONCE - 1:
            yield
    return found


def _moves_already(turn: TurnContext, group: TaskGroup) -> bool:
    for transaction in turn.state.active_of(group.application_key).values():
        payload = transaction.payload
        if transaction.taskgroup == group.id and isinstance(payload, ReschedulePayload) and payload.rebalanced:
            return True
    return False


def _may_move(turn: TurnContext, group: TaskGroup) -> bool:
    """True for ready taskgroups that are bound to no agent. Those that are never restarted would lose their work."""
    application = turn.state.applications.get(group.application_key)
    version = turn.state.version(group.application_key, group.version)
    if application is None or version is None or bound_to_agents(application) or not is_ready(group):
        return False
    return version.restart_policy.policy != "Never"


def _admission(turn: TurnContext, trial: TrialPlan) -> Callable[[planner.Unit, str], bool]:
    """The judgement about moves, which counts those that it has admitted."""
    spent: Counter[str] = Counter()
    budgets: dict[str, int] = {}

    def admits(unit: planner.Unit, target: str) -> bool:
        group = turn.state.taskgroups.get(unit.name)
        if group is None or group.ended or group.killing_since:
            return False
        key = group.application_key
        if key not in budgets:
            budgets[key] = evictions.allowance(turn.context, key)
        demand = _demand(turn, group, target)
        if spent[key] >= budgets[key] or demand is None:
            return False
        statement = trial.statement
        before = statement.savepoint()
        statement.set_aside((occupancy.counted_only(turn.state, group),))
        admitted = bool(statement.plan([demand]).placements) and _policy_agrees(turn, group, demand)
        if admitted:
            spent[key] += 1
        else:
            statement.undo(before)
        statement.keep(before)
        return admitted

    return admits


def _demand(turn: TurnContext, group: TaskGroup, target: str) -> Demand[Slot] | None:
    """The demand for a place on the target; None if the version of the taskgroup does not exist any more."""
    version = turn.state.version(group.application_key, group.version)
    if version is None:
        return None
    ctx = turn.context
    step = Step(slots=(Slot(group.index, group.id),), only_agents=frozenset((target,)))
    return resource_request.demand(f"rebalance.{group.id}", version, step, ctx.options.role, ctx.overhead)


def _policy_agrees(turn: TurnContext, group: TaskGroup, demand: Demand[Slot]) -> bool:
    """True if the policy would place the taskgroup, and end no other one for this."""
    if turn.placer.policy is None:
        return True
    turn.cut()
    try:
        take_out(turn, group)
        foreseen = turn.placer.foresee([demand])
    finally:
        turn.uow.rollback()
    return bool(foreseen.result.placements) and not foreseen.evicted


def _begin(turn: TurnContext, command: Rebalance, move: planner.Move, data: Data) -> None:
    """Begins a move, unless its taskgroup has changed meanwhile."""
    group = turn.state.taskgroups.get(move.unit.name)
    rows = turn.pool.rows_of(move.target)
    if group is None or not rows:
        data["refused"].append({"taskgroup": move.unit.name, "reason": "the taskgroup or its new agent is gone"})
        return
    target = rows[0].hostname
    if not command.dry_run:
        try:
            reschedule.rebalance(turn.context, group, target, HOLD, command.goal)
        except Refused as refused:
            data["refused"].append({"taskgroup": move.unit.name, "reason": refused.message})
            return
        turn.count("rebalance_moves", (command.goal,), 1)
        turn.checkpoint()
    places = {"source": move.source, "sourceHost": group.hostname, "target": move.target, "targetHost": target}
    data["moves"].append({"taskgroup": group.id, **places, "gain": round(move.gain, 6)})
