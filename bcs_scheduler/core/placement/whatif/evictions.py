"""Changes that end or move taskgroups: preemption of less important ones, and drains of agents that are used again.

The taskgroups are set aside on the copy of the offers, so that the trial sees their room. The number of taskgroups that
are looked at is bounded, so the cost does not grow with the taskgroups of the cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import NamedTuple

import msgspec

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.placement.rebalancing import demands_of
from bcs_scheduler.core.placement.whatif.search import Lever, Strengths
from offers.dimensions import THOUSANDTHS
from offers.ledger.offered import OfferPool
from offers.model import Demand, Occupant
from store.records import TaskGroup, Version
from transactions import occupancy
from transactions.base import Slot
from transactions.rules import disruptions
from transactions.rules.disruptions import BudgetName

PREEMPT, DRAIN = "preemptTaskgroups", "drainAgent"
"""Codes of the kinds of changes."""
AT_ONCE = 1000
"""Applications that are looked at in one step."""
SEEN = 512
"""Agents with taskgroups that may be preempted, those of the least important applications first."""
AGENTS = 128
"""Agents among these whose taskgroups are looked at, those with the most free room."""
OF_APPLICATION = 64
"""Taskgroups of one application that lead to an agent, at most."""
DRAINS = 6
"""Agents whose drain is tried, those with the fewest taskgroups."""
MOVED = 32
"""Taskgroups of an agent whose drain is tried, at most."""

Amounts = dict[str, int]


class Ended(NamedTuple):
    """Facts of a lever that preempts: taskgroups in steps, each of which makes room for one more slot."""

    steps: tuple[tuple[TaskGroup, ...], ...]
    occupants: dict[str, Occupant]
    """The taskgroups with their resources, by id."""

    def first(self, strength: int) -> list[TaskGroup]:
        """The taskgroups of the first steps."""
        return [group for step in self.steps[:strength] for group in step]


class Drained(NamedTuple):
    """Facts of a lever that drains an agent and then uses the agent again."""

    agent_id: str
    name: str
    groups: tuple[TaskGroup, ...]
    occupants: tuple[Occupant, ...]
    demands: tuple[Demand[Slot], ...]
    """The demands of the taskgroups that move."""


@contextmanager
def ended(turn: TurnContext, facts: Ended, strength: int) -> Iterator[None]:
    """A block within one turn in which the taskgroups of the first steps have ended. The records are undone at its
    end."""
    groups = facts.first(strength)
    put_back = turn.pool.set_aside([facts.occupants[group.id] for group in groups])
    try:
        with turn.uow.held():
            for group in groups:
                present = turn.state.taskgroups.get(group.id)
                if present is not None and not present.ended:
                    tasks = tuple(msgspec.structs.replace(task, status="Killed", ended=True) for task in present.tasks)
                    turn.uow.put(
                        msgspec.structs.replace(
                            present, tasks=tasks, status="Killed", killing_since=turn.now, ended_at=turn.now
                        )
                    )
            yield
    finally:
        put_back()


def freed(
    levers: Sequence[Lever], strengths: Strengths, hidden: frozenset[str]
) -> tuple[list[Occupant], list[Demand[Slot]]]:
    """The taskgroups that are gone with the changes, and the demands of those that need another place first. `hidden`:
    agents of the copy that are not there with these changes."""
    gone: list[Occupant] = []
    drained = [levers[number].facts for number, strength in strengths.items() if strength and _is(levers[number])]
    for number, strength in strengths.items():
        facts = levers[number].facts
        if isinstance(facts, Ended):
            gone += [facts.occupants[group.id] for group in facts.first(strength)]
    away = hidden.union(facts.agent_id for facts in drained)
    moved = [
        demand._replace(except_agents=demand.except_agents | away) for facts in drained for demand in facts.demands
    ]
    return [*gone, *(occupant for facts in drained for occupant in facts.occupants)], moved


def _is(lever: Lever) -> bool:
    return isinstance(lever.facts, Drained)


def levers_of(turn: TurnContext, pool: OfferPool, demand: Demand[Slot]) -> Generator[None, None, list[Lever]]:
    """The levers that end or move taskgroups. `pool`: the copy of the offers."""
    levers = yield from _preempting(turn, pool, demand)
    return [*levers, *_draining(turn, pool, demand)]


# --- preemption ---------------------------------------------------------------------------------------------------


def _preempting(turn: TurnContext, pool: OfferPool, demand: Demand[Slot]) -> Generator[None, None, list[Lever]]:
    own = _version(turn, demand.application)
    if own is None or own.preemption_policy == "Never":
        return []
    budgets = _Budgets(turn)
    priority: dict[str, int] = {}
    queue = turn.queues.queue_of(demand.role, demand.application)
    policy = turn.placer.policy_of(demand.role)
    paused = policy.paused(demand.application) if policy is not None else {}
    keys = list(turn.state.applications)
    for start in range(0, len(keys), AT_ONCE):
        for key in keys[start : start + AT_ONCE]:
            version = _version(turn, key)
            if version is None or version.priority >= own.priority or key == demand.application or key in paused:
                continue
            if turn.queues.queue_of(demand.role, key) == queue:
                priority[key] = version.priority
        yield
    by_agent = _chosen(turn, pool, demand, priority, budgets)
    yield
    weights = _weights(pool)
    steps: list[tuple[int, int, float, str, tuple[TaskGroup, ...]]] = []  # policies compare agents in the same way
    for agent_id, members in by_agent.items():
        if _admits(turn, demand, agent_id, members[0][2].hostname):
            for step in _steps(_free(pool, agent_id, demand.role), demand, members):
                highest = max(priority[group.application_key] for group in step)
                held = [pair for group in step for pair in _amounts(group.resources).items()]
                parts = sum(weights.get(name, 0.0) * amount for name, amount in held)
                steps.append((highest, len(step), parts, agent_id, step))
    steps.sort(key=lambda entry: entry[:4])
    chosen = list(_within(budgets, [step for *_, step in steps]))[: len(demand.slots)]
    if not chosen:
        return []
    occupants = {group.id: occupancy.occupant(turn.state, turn.agents, group) for step in chosen for group in step}
    return [Lever(PREEMPT, len(chosen), 5, facts=Ended(tuple(chosen), occupants))]


def _weights(pool: OfferPool) -> dict[str, float]:
    """Factors by name that make amounts parts of the cores and the memory of all agents."""
    cpus, mem = (sum(total[d] for total in pool.totals.values()) for d in (0, 1))
    return {name: 1 / amount for name, amount in (("cpus", cpus), ("mem", mem)) if amount}


def _version(turn: TurnContext, key: str) -> Version | None:
    application = turn.state.applications.get(key)
    return turn.state.version(key, application.version) if application is not None else None


class _Budget(NamedTuple):
    """Numbers of taskgroups that an application may lose. `ready`: of ready ones, by its disruption budget, which other
    applications may spend, too (`_Budgets.name_of`); `members`: of all, by the minimum of its gang."""

    ready: int
    members: int


class _Budgets(dict[str, _Budget]):
    """The budgets by application."""

    def __init__(self, turn: TurnContext) -> None:
        super().__init__()
        self._turn = turn
        self.rules = disruptions.at(turn.context)

    def __missing__(self, key: str) -> _Budget:
        version, members = _version(self._turn, key), len(self._turn.state.groups_of(key))
        least = version.min_available if version is not None and version.min_available > 1 else 0
        return self.setdefault(key, _Budget(disruptions.allowance(self._turn.context, key), members - least))

    def name_of(self, key: str) -> BudgetName:
        """The disruption budget of an application."""
        return disruptions.budget_of(self._turn.context, key)

    def price(self, group: TaskGroup) -> int:
        """Number of ready taskgroups that the end of the taskgroup spends."""
        application = self._turn.state.applications[group.application_key]
        return int(disruptions.is_serving(application, group))

    def admits(self, group: TaskGroup) -> bool:
        """True if the taskgroup may be ended, by itself."""
        budget = self[group.application_key]
        if budget.members < 1 or budget.ready < self.price(group):
            return False
        return self.rules.protection(group, "evict") is None


def _chosen(
    turn: TurnContext, pool: OfferPool, demand: Demand[Slot], priority: dict[str, int], budgets: _Budgets
) -> dict[str, list[tuple[int, int, TaskGroup]]]:
    """Taskgroups that may be preempted by agent, with prices and priorities. `priority`: by application."""
    seen: dict[str, None] = {}
    for key in sorted(priority, key=lambda key: (priority[key], key)):
        if len(seen) >= SEEN:
            break
        unready = turn.state.readiness.unready(key)
        if budgets[key].members > 0 and (budgets[key].ready > 0 or unready):
            for group in islice(chain(unready.values(), turn.state.groups_of(key).values()), OF_APPLICATION):
                seen[group.agent_id] = None
    need = _amounts(demand.request)

    def room(agent_id: str) -> float:
        free = _free(pool, agent_id, demand.role)
        return min((min(free.get(name, 0), amount) / amount for name, amount in need.items()), default=0.0)

    chosen: dict[str, list[tuple[int, int, TaskGroup]]] = {}
    for agent_id in sorted(seen, key=lambda agent: (-room(agent), agent))[:AGENTS]:
        members = [
            (budgets.price(group), priority[group.application_key], group)
            for group in turn.state.groups_on(agent_id).values()
            if group.application_key in priority and (group.role or "*") == demand.role and budgets.admits(group)
        ]
        if members:
            chosen[agent_id] = members
    return chosen


def _steps(
    free: Amounts, demand: Demand[Slot], members: list[tuple[int, int, TaskGroup]]
) -> Iterator[tuple[TaskGroup, ...]]:
    """Sets of taskgroups of one agent, each of which makes room for one more slot beside those before."""
    members = sorted(members, key=lambda member: (member[0], member[1], -member[2].created_at, member[2].id))
    need = _amounts(demand.request)
    for _ in demand.slots:
        lacks = {name: amount - free.get(name, 0) for name, amount in need.items() if amount > free.get(name, 0)}
        step = _fewest([group for _, _, group in members], lacks)
        if step is None:
            return
        taken = {group.id for group in step}
        members = [member for member in members if member[2].id not in taken]
        for group in step:
            for name, amount in _amounts(group.resources).items():
                free[name] = free.get(name, 0) + amount
        free = {name: amount - need.get(name, 0) for name, amount in free.items()}
        if step:
            yield step


def _fewest(groups: Sequence[TaskGroup], lacks: Amounts) -> tuple[TaskGroup, ...] | None:
    """The least important taskgroups that hold the missing amounts, without those that can stay; None if all do not
    suffice. `groups`: the least important first."""
    left, chosen = lacks, list[TaskGroup]()
    for group in groups:
        if not left:
            break
        if left.keys() & _amounts(group.resources).keys():
            chosen.append(group)
            left = _rest(lacks, chosen)
    if left:
        return None
    for group in reversed(chosen):
        others = [other for other in chosen if other is not group]
        if not _rest(lacks, others):
            chosen = others
    return tuple(chosen)


def _rest(lacks: Amounts, groups: Sequence[TaskGroup]) -> Amounts:
    """The amounts that lack beside those of the taskgroups."""
    held = [_amounts(group.resources) for group in groups]
    rest = {name: amount - sum(amounts.get(name, 0) for amounts in held) for name, amount in lacks.items()}
    return {name: amount for name, amount in rest.items() if amount > 0}


def _within(budgets: _Budgets, steps: Sequence[tuple[TaskGroup, ...]]) -> Iterator[tuple[TaskGroup, ...]]:
    """The steps that the budgets allow together, in their order."""
    spent, lost = Counter[BudgetName](), Counter[str]()
    for step in steps:
        ready, members = spent.copy(), lost.copy()
        for group in step:
            ready[budgets.name_of(group.application_key)] += budgets.price(group)
            members[group.application_key] += 1
        concerned = {group.application_key for group in step}
        if all(
            ready[budgets.name_of(key)] <= budgets[key].ready and members[key] <= budgets[key].members
            for key in concerned
        ):
            spent, lost = ready, members
            yield step


def _amounts(record: object) -> Amounts:
    return {name: int(getattr(record, name)) for name in THOUSANDTHS.names if getattr(record, name)}


def _free(pool: OfferPool, agent_id: str, role: str) -> Amounts:
    row = pool.row(agent_id, role)
    if row is None or not row.open:
        return {}
    return {name: row.amounts[pool.table.line_of[name]] for name in THOUSANDTHS.names}


def _admits(turn: TurnContext, demand: Demand[Slot], agent_id: str, hostname: str) -> bool:
    """False if the agent is cordoned or drained, or its attributes do not meet the constraints."""
    known = turn.agents.agents.get(agent_id)
    if known is None:
        return agent_id not in demand.except_agents
    setting = turn.state.agent_settings.get(known.key)
    if agent_id in demand.except_agents or (setting is not None and setting.disabled):
        return False
    return demand.rules.could_admit({**known.attributes, "hostname": hostname})


# --- drains -------------------------------------------------------------------------------------------------------


def _draining(turn: TurnContext, pool: OfferPool, demand: Demand[Slot]) -> list[Lever]:
    """The agents with the fewest taskgroups that would have room for a slot if they were empty."""
    need = _amounts(demand.request)
    sized = [
        (len(turn.state.groups_on(agent.id)), agent.id, agent)
        for agent in turn.agents.agents.values()
        if _is_large(turn.pool.totals.get(agent.id), need)
    ]
    levers: list[Lever] = []
    for number, agent_id, agent in sorted(sized, key=lambda candidate: candidate[:2]):
        if number > MOVED or len(levers) == DRAINS:
            break
        groups = tuple(group for group in turn.state.groups_on(agent_id).values() if not group.ended)
        if (
            groups
            and _admits(turn, demand, agent_id, agent.hostname)
            and all(_moves(turn, member) for member in groups)
        ):
            moved = demands_of(turn, f"drain.{agent_id}", groups)
            held = [_amounts(group.resources) for group in groups]
            free = _free(pool, agent_id, demand.role)
            room = {name: free.get(name, 0) + sum(amounts.get(name, 0) for amounts in held) for name in need}
            whole = sum(len(part.slots) for part in moved) == len(groups)
            if whole and all(room[name] >= amount for name, amount in need.items()):
                occupants = tuple(occupancy.occupant(turn.state, turn.agents, group) for group in groups)
                facts = Drained(agent_id, agent.key, groups, occupants, tuple(moved))
                levers.append(Lever(DRAIN, 1, 3, facts.name, facts))
    return levers


def _is_large(total: tuple[int, int] | None, need: Amounts) -> bool:
    """False if an empty agent with these cores and this memory has no room for a slot; None: the size is not known."""
    return total is not None and total[0] >= need.get("cpus", 0) and total[1] >= need.get("mem", 0)


def _moves(turn: TurnContext, group: TaskGroup) -> bool:
    """False for taskgroups that a drain would not move now."""
    return disruptions.at(turn.context).judge(group, "drain").refusal is None
