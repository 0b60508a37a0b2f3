"""Rebalancing: moves taskgroups toward fewer agents or more even agents, within the disruption budgets.

The moves are planned in slices on a copy of the offers (the planner: offers.rebalancing), and then begun one after the
other. A taskgroup moves only if its new agent has room now and, with a policy, if the policy would place the taskgroup
there. While taskgroups wait for a place, no taskgroup moves: the room is theirs.

The plan may take several turns. So each move is examined again when it begins: its taskgroup, its new agent, its room
and its gain.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from typing import Any, Literal

import msgspec

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.interface.requests import Rebalance
from bcs_scheduler.core.placement.placer import Trial
from offers import rebalancing
from offers.ledger.holds import TARGET_SECONDS
from offers.model import Demand
from store.records import ReschedulePayload, TaskGroup
from transactions import occupancy, resource_request
from transactions.base import Refused, Slot, Step
from transactions.kinds import reschedule
from transactions.rules import disruptions
from transactions.rules.application_types import bound_to_agents
from transactions.rules.disruptions import BudgetName
from transactions.rules.gangs import is_admitted
from transactions.rules.lifecycle import is_ready
from transactions.text import counted

Data = dict[str, Any]
Stop = Literal["TaskgroupsWait", "MovesInProgress", "LargeLoss", "MoveLimit", "GainBelowBound"]

GATHER = 2.0
"""Seconds before a plan for which offers are gathered: declined ones come again soon after the request."""
AGENTS_AT_ONCE = 64
"""Agents whose taskgroups are summed up in one step."""
TRANSACTIONS_AT_ONCE = 2000
"""Active transactions examined in one step."""

WORDS: dict[Stop, str] = {
    "TaskgroupsWait": "taskgroups wait for a place, and the room is theirs",
    "MovesInProgress": "moves of an earlier rebalancing have not ended",
    "LargeLoss": "lost taskgroups are not replaced after a large loss, so none is moved",
    "MoveLimit": "the limit of moves is reached",
    "GainBelowBound": "no further move that is allowed gains enough",
}


def run(turn: TurnContext, command: Rebalance) -> Data:
    """Returns the data of the reply, which follows in slices: `moves` (taskgroup, agents with host names, gain),
    `refused` (moves that could not begin after all), `stopped` (code) with `message`, and the measure of the cluster
    `before` and `after` all moves (offers.rebalancing). Raises Refused (invalid)."""
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
    ended = tuple(msgspec.structs.replace(task, status="Killed", ended=True) for task in group.tasks)
    turn.uow.put(msgspec.structs.replace(group, tasks=ended, killing_since=turn.now))


def demands_of(turn: TurnContext, identity: str, groups: Iterable[TaskGroup]) -> list[Demand[Slot]]:
    """The demands of taskgroups that move, whose ids begin with `identity`. Taskgroups whose version does not exist any
    more are left out."""
    alike: dict[tuple[str, str], list[TaskGroup]] = defaultdict(list)
    for group in groups:
        alike[group.application_key, group.version].append(group)
    ctx, moved = turn.context, list[Demand[Slot]]()
    for number, ((key, name), members) in enumerate(alike.items()):
        version = turn.state.version(key, name)
        if version is not None:
            step = Step(slots=tuple(Slot(group.index, group.id, moves=True) for group in members))
            demands = resource_request.demands(identity, version, step, ctx.options.role, ctx.overhead)
            moved += [demand._replace(id=f"{identity}.{number}.{part}") for part, demand in enumerate(demands)]
    return moved


def _work(turn: TurnContext, command: Rebalance, data: Data, *, quiet: bool = False) -> Iterator[None]:
    since = turn.rebalancings
    stopped = _obstacle(turn) or (yield from _earlier_moves(turn))
    chosen: list[rebalancing.Move] = []
    loads: dict[str, rebalancing.Load] = {}
    if not stopped:
        yield from _summed_up(turn, loads)
        data["before"] = rebalancing.measure(loads.values())
        yield from turn.placer.read_changes()
        trial = yield from turn.placer.rehearsal()
        moves = rebalancing.moves(list(loads.values()), command.goal, command.gain, _admission(turn, trial))
        for move in moves:
            if move is not None:
                chosen.append(move)
                if len(chosen) >= command.moves:
                    stopped = "MoveLimit"
                    break
            yield
    begun = _Begun(turn, command)
    for number, move in enumerate(chosen):
        if turn.rebalancings != since:
            obstacle: Stop | None = "MovesInProgress"
        else:
            obstacle = _obstacle(turn, begun.transactions)
        if obstacle:
            stopped = obstacle
            for late in chosen[number:]:
                _undo(loads, late, data, WORDS[obstacle])
            break
        if refusal := begun.begin(move, data):
            _undo(loads, move, data, refusal)
        elif not command.dry_run:
            since = turn.note_rebalancing()
        yield
    if chosen or loads:
        data["after"] = rebalancing.measure(loads.values())
        data["agentsInUse"] = sum(any(load.used) for load in loads.values())
    stopped = stopped or "GainBelowBound"
    data.update(stopped=stopped, message=WORDS[stopped])
    if not command.dry_run and (data["moves"] or not quiet):
        words = f"{command.goal}: {counted(len(data['moves']), 'move')}; {WORDS[stopped]}"
        turn.record_event("framework", turn.state.framework.id, "RebalanceFinished", words)


def _undo(loads: dict[str, rebalancing.Load], move: rebalancing.Move, data: Data, reason: str) -> None:
    """Takes a planned move back that does not begin."""
    loads[move.source].add(move.unit.amounts)
    loads[move.target].add(move.unit.amounts, -1)
    data["refused"].append({"taskgroup": move.unit.name, "reason": reason})


def _obstacle(turn: TurnContext, own: Collection[str] = ()) -> Stop | None:
    """The reason why nothing moves now; None: there is none. `own`: ids of transactions whose slots may wait."""
    if turn.state.framework.halt is not None:
        return "LargeLoss"
    engine = turn.engine
    demands = [demand for name in own if (demand := engine.demands.get(name)) is not None]
    expected = sum(len(demand.slots) for demand in demands) + sum(map(engine.planned, own))
    return "TaskgroupsWait" if engine.pending > expected else None


def _earlier_moves(turn: TurnContext) -> Generator[None, None, Stop | None]:
    """A reason if taskgroups of an earlier rebalancing have not been replaced: the room on their new agents still looks
    free. None: all have been."""
    for number, transaction in enumerate(list(turn.state.active_transactions()), 1):
        payload = transaction.payload
        moves = isinstance(payload, ReschedulePayload) and bool(payload.rebalanced)
        if moves and transaction.taskgroup in turn.state.taskgroups:
            return "MovesInProgress"
        if number % TRANSACTIONS_AT_ONCE == 0:
            yield
    return None


def _summed_up(turn: TurnContext, loads: dict[str, rebalancing.Load]) -> Iterator[None]:
    """Adds the agents of known size with their taskgroups to `loads`, by id."""
    for number, (agent_id, total) in enumerate(list(turn.pool.totals.items()), 1):
        load = rebalancing.Load(agent_id, total, (0,) * len(total))
        for group in turn.state.groups_on(agent_id).values():
            if group.ended:
                continue
            amounts = _amounts(group)
            load.add(amounts)
            if _may_move(turn, group):
                load.units[group.id] = rebalancing.Unit(group.id, (group.application_key, group.version), amounts)
        loads[agent_id] = load
        if number % AGENTS_AT_ONCE == 0:
            yield


def _amounts(group: TaskGroup) -> tuple[int, ...]:
    return group.resources.cpus, group.resources.mem


def _may_move(turn: TurnContext, group: TaskGroup) -> bool:
    """True for ready taskgroups that are bound to no agent. Those that are never restarted would lose their work. Those
    of gangs, groups and reservations stay: their room is gathered for all of them together."""
    application = turn.state.applications.get(group.application_key)
    version = turn.state.version(group.application_key, group.version)
    if application is None or version is None or bound_to_agents(application) or not is_ready(group):
        return False
    newest = turn.state.version(application.key, application.version) or version
    together = bool(application.group) or any(either.min_available > 1 for either in (version, newest))
    held = is_admitted(application.annotations) or is_admitted(version.annotations)
    return version.restart_policy.policy != "Never" and not together and not held


def _admission(turn: TurnContext, statement: Trial) -> Callable[[rebalancing.Unit, str], bool]:
    """The judgement about moves, which counts those that it has admitted."""
    spent: Counter[BudgetName] = Counter()
    budgets: dict[str, int] = {}
    agreed: dict[tuple[str, str], bool] = {}
    """Answers of the policy by application and version."""

    def admits(unit: rebalancing.Unit, target: str) -> bool:
        group = turn.state.taskgroups.get(unit.name)
        if group is None or not _may_move(turn, group):
            return False
        key = group.application_key
        if key not in budgets:
            budgets[key] = disruptions.allowance(turn.context, key)
        demand, budget = _demand(turn, group, target), disruptions.budget_of(turn.context, key)
        if spent[budget] >= budgets[key] or demand is None:
            return False
        before = statement.savepoint()
        statement.set_aside((occupancy.counted_only(turn.state, group),))
        admitted = bool(statement.plan([demand]).placements) and _policy_agrees(turn, group, demand, agreed)
        if admitted:
            spent[budget] += 1
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
    step = Step(slots=(Slot(group.index, group.id, moves=True),), only_agents=frozenset((target,)))
    return resource_request.demand(f"rebalance.{group.id}", version, step, ctx.options.role, ctx.overhead)


def _policy_agrees(
    turn: TurnContext, group: TaskGroup, demand: Demand[Slot], agreed: dict[tuple[str, str], bool]
) -> bool:
    """True if the policy would place the taskgroup, and end no other one for this. A policy that decides by queues
    alone is asked once for each version: the answer is the same for every agent."""
    policy, kind = turn.placer.policy_of(demand.role), (group.application_key, group.version)
    if policy is None:
        return True
    if policy.by_queues and kind in agreed:
        return agreed[kind]
    turn.cut()
    try:
        take_out(turn, group)
        foreseen = turn.placer.foresee([demand])
    finally:
        turn.uow.rollback()
    agreed[kind] = bool(foreseen.result.placements) and not foreseen.evicted
    return agreed[kind]


class _Begun:
    """The moves of a rebalancing that have begun, and the beginning of the next ones."""

    def __init__(self, turn: TurnContext, command: Rebalance) -> None:
        self._turn, self._command = turn, command
        self._moves: dict[str, rebalancing.Move] = {}
        """The moves that have begun, by id of the taskgroup."""
        self.transactions: set[str] = set()
        """The ids of their transactions; empty in a dry run."""

    def begin(self, move: rebalancing.Move, data: Data) -> str:
        """Begins a move. Returns the reason if the move is not possible any more; empty if the move has begun."""
        turn, name = self._turn, move.unit.name
        group, rows = turn.state.taskgroups.get(name), turn.pool.rows_of(move.target)
        if group is None or not rows or move.target not in turn.pool.totals:
            return "the taskgroup or its new agent is gone"
        if not _may_move(turn, group):
            return "the taskgroup may not move any more"
        if self._gain(move) < self._command.gain:
            return "the move does not gain enough any more"
        if not self._has_room(group, move.target):
            return "the new agent has no room any more"
        target = rows[0].hostname
        if not self._command.dry_run:
            try:
                transaction = reschedule.rebalance(turn.context, group, target, TARGET_SECONDS, self._command.goal)
            except Refused as refused:
                return refused.message
            self.transactions.add(transaction.id)
            turn.count("rebalance_moves", (self._command.goal,), 1)
            turn.checkpoint()
        self._moves[name] = move
        places = {"source": move.source, "sourceHost": group.hostname, "target": move.target, "targetHost": target}
        data["moves"].append({"taskgroup": name, **places, "gain": round(move.gain, 6)})
        return ""

    def _gain(self, move: rebalancing.Move) -> float:
        """The gain as the two agents are now, with the moves that have begun at their ends."""
        source, target = self._load(move.source), self._load(move.target)
        return rebalancing.gain(self._command.goal, move.unit, source, target)

    def _load(self, agent: str) -> rebalancing.Load:
        turn = self._turn
        total = turn.pool.totals.get(agent, (0, 0))
        load = rebalancing.Load(agent, total, (0,) * len(total))
        for group in turn.state.groups_on(agent).values():
            if not group.ended and group.id not in self._moves:
                load.add(_amounts(group))
        for group in self._toward(agent):
            load.add(_amounts(group))
        return load

    def _toward(self, agent: str) -> list[TaskGroup]:
        """The taskgroups that move to an agent and have not been replaced there."""
        groups = self._turn.state.taskgroups
        names = [name for name, move in self._moves.items() if move.target == agent]
        return [group for name in names if (group := groups.get(name)) is not None and not group.ended]

    def _has_room(self, group: TaskGroup, target: str) -> bool:
        """True if the target can take the taskgroup now, beside those that move there already."""
        turn = self._turn
        with turn.placer.trial() as trial:
            for other in (*self._toward(target), group):
                demand = _demand(turn, other, target)
                trial.set_aside((occupancy.counted_only(turn.state, other),))
                if demand is None or not trial.plan([demand]).placements:
                    return False
        return True
