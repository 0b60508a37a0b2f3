"""What-if: the changes that would give the open taskgroups of an application places (docs/decisions/0055-what-if.md).

The search works on a copy of the offers, in slices, for `SECONDS` at most by the time of the turns. Nothing changes.
The matcher finds the changes; of these, the policies `session` and `hierarchical` admit those with which they place all
taskgroups, too. If agents have room and a queue, a gang or the policy holds the taskgroups back, the answer has
`heldBack`, and limits of queues are raised on trial. If a limit is the cause, smaller requests are tried beside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.placement.whatif import estimate, evictions, limits
from bcs_scheduler.core.placement.whatif.evictions import DRAIN, PREEMPT, Drained, Ended, ended, freed
from bcs_scheduler.core.placement.whatif.levers import (
    ADD,
    DROP,
    GRANULES,
    REDUCE,
    UNCORDON,
    Agents,
    agents_present,
    applied,
    prepare,
)
from bcs_scheduler.core.placement.whatif.search import Budget, Lever, Places, Solution, Strengths, Try, search, try_on
from bcs_scheduler.core.requests import agent_plans
from bcs_scheduler.core.requests.answers import Data, Handlers
from offers.dimensions import THOUSANDTHS, recorded
from offers.ledger.offered import OfferPool
from offers.model import Demand, Placement
from store.ids import object_key
from transactions.base import Refused, Slot

SECONDS = 1.0
"""Seconds that a search lasts at most, by the times of the turns."""
TRIALS = 2000
"""Trials of a search at most."""
SOLUTIONS = 10
"""Sets of changes that are reported, the cheapest ones."""


def what_if(turn: TurnContext, command: requests.AskWhatIf) -> Data:
    """Returns the open taskgroups, and later the sets of changes that would give all of them places. Raises Refused
    (not_found)."""
    key = object_key(command.namespace, command.name)
    if key not in turn.state.applications:
        raise Refused("not_found", f"application {command.name} does not exist in namespace {command.namespace}")
    active = sorted(turn.state.active_of(key))
    open_demands = [
        open_demand for identity in active if (open_demand := turn.engine.demands.get(identity)) is not None
    ]
    # Taskgroups of one demand are alike. The largest demand is examined.
    demand = max(open_demands, key=lambda open_demand: len(open_demand.slots), default=None)
    data: Data = {
        "open": sum(len(open_demand.slots) for open_demand in open_demands),
        "examined": len(demand.slots) if demand is not None else 0,
        "transaction": demand.id if demand is not None else "",
        "agents": turn.pool.agents,
        "heldBack": False,
        "limited": False,
        "complete": True,
        "refused": 0,
        "solutions": [],
        "when": None,
        "partition": None,
    }
    decided = turn.placer.decided_by(demand.role) if demand is not None else None
    if decided is not None:
        data["partition"] = {"policy": decided.policy, "roles": list(decided.roles), "name": decided.name}
    if demand is not None:
        turn.later(_answer(turn, demand, data, changes=command.changes))
    return data


def _answer(turn: TurnContext, demand: Demand[Slot], data: Data, *, changes: bool) -> Iterator[None]:
    budget = Budget(lambda: turn.now, turn.now + SECONDS, TRIALS)
    yield from turn.placer.read_changes()
    pool = yield from turn.placer.copied()
    tried, levers = prepare(pool, demand, _overhead(turn), turn.pool)
    yield
    data["limited"] = _is_limited(turn, demand)
    if data["limited"] or (yield from try_on(turn, pool, tried)) is not None:
        data["heldBack"] = True
        data["when"] = estimate.until_below_limit(turn, demand)
        if not changes:
            return
        suffices = yield from limits.search(turn, demand)
        data["solutions"] = [_shown_limits(suffices, _partition(turn, demand))] if suffices is not None else []
        if data["limited"]:
            smaller = [lever for lever in levers if lever.kind == REDUCE]
            within = partial(_attempt_within, limits.limits_of(turn, demand), turn, pool, tried, smaller)
            yield from _search(turn, demand, smaller, within, budget, data)
        return
    data["when"] = yield from estimate.until_room(turn, pool, tried)
    if not changes:
        return
    levers += yield from evictions.levers_of(turn, pool, tried)
    yield from _search(turn, demand, levers, partial(_attempt, turn, pool, tried, levers), budget, data)


def _search(
    turn: TurnContext, demand: Demand[Slot], levers: Sequence[Lever], attempt: Try[Places], budget: Budget, data: Data
) -> Generator[None, None, None]:
    """Adds the sets of changes that suffice, and counts those that the policy or the dry run of a drain refuses."""
    solutions, data["complete"] = yield from search(levers, attempt, budget)
    for solution in solutions[:SOLUTIONS]:
        if (yield from _is_admitted(turn, demand, levers, solution.strengths)):
            data["solutions"].append(_shown(turn, demand, levers, solution))
        else:
            data["refused"] += 1


def _is_limited(turn: TurnContext, demand: Demand[Slot]) -> bool:
    """True if a limit of the queue keeps slots of the demand back, with any number of agents."""
    if turn.placer.policy_of(demand.role) is None or demand.per_agent or demand.promised:
        return False
    if limits.are_exceeded(limits.limits_of(turn, demand), demand):
        return True
    turn.cut()
    short = turn.placer.foresee([demand]).result.diagnoses
    return any(diagnosis.held_back is not None and diagnosis.held_back.at_limit for diagnosis in short)


def _is_admitted(
    turn: TurnContext, demand: Demand[Slot], levers: Sequence[Lever], strengths: Strengths
) -> Generator[None, None, bool]:
    """False for changes that the matcher finds sufficient and that a dry run refuses: that of the drain, or that of the
    policy, which may give the room to other work first. The decisions after a drain are not tried."""
    chosen = {number: strength for number, strength in strengths.items() if strength}
    drained = [levers[number].facts.name for number in chosen if levers[number].kind == DRAIN]
    if drained and not (yield from agent_plans.accepts_drain(turn, drained)):
        return False
    if turn.placer.policy_of(demand.role) is None or demand.per_agent or demand.promised:
        return True
    of_demand = {number: strength for number, strength in chosen.items() if levers[number].kind in (REDUCE, DROP)}
    changed = applied(demand, levers, of_demand)
    if limits.are_exceeded(limits.limits_of(turn, changed), changed):
        return False
    if drained:
        return True
    turn.cut()
    with _made(turn, demand, levers, chosen):
        foreseen = turn.placer.foresee([changed])
    yield
    return len(foreseen.result.placements) == len(demand.slots)


@contextmanager
def _made(
    turn: TurnContext, demand: Demand[Slot], levers: Sequence[Lever], strengths: Strengths
) -> Generator[None, None, None]:
    """A block within one turn in which the agents of the chosen levers are there, and taskgroups have ended."""
    with ExitStack() as undone:
        for number, strength in strengths.items():
            facts = levers[number].facts
            if isinstance(facts, Agents):
                undone.enter_context(agents_present(turn.pool, facts, strength, demand.role))
            elif isinstance(facts, Ended):
                undone.enter_context(ended(turn, facts, strength))
        yield


def _attempt_within(
    known: Sequence[limits.Limit],
    turn: TurnContext,
    pool: OfferPool,
    demand: Demand[Slot],
    levers: list[Lever],
    strengths: Strengths,
) -> Generator[None, None, Places | None]:
    """Like `_attempt`; None, too, if the changed demand exceeds a limit."""
    if limits.are_exceeded(known, applied(demand, levers, strengths)):
        return None
    return (yield from _attempt(turn, pool, demand, levers, strengths))


def _attempt(
    turn: TurnContext, pool: OfferPool, demand: Demand[Slot], levers: list[Lever], strengths: Strengths
) -> Generator[None, None, Places | None]:
    changed = applied(demand, levers, strengths)
    gone, moved = freed(levers, strengths, changed.except_agents)
    return try_on(turn, pool, changed, gone, moved)


def _shown(turn: TurnContext, demand: Demand[Slot], levers: Sequence[Lever], solution: Solution[Places]) -> Data:
    places = solution.result
    return {
        "changes": [_change(turn, demand, levers[number], strength) for number, strength in solution.strengths.items()],
        "placed": len(places.own),
        "agents": _agents(places.own),
        "moves": [{"taskgroup": placement.slot.replaces, "hostname": placement.hostname} for placement in places.moved],
        "evict": [],
    }


def _partition(turn: TurnContext, demand: Demand[Slot]) -> Data:
    """The partition of the queues of a demand, if several partitions have a tree of queues."""
    decided = turn.placer.decided_by(demand.role)
    named = decided is not None and decided.name in turn.queues.trees and len(turn.queues.trees) > 1
    return {"partition": decided.name} if decided is not None and named else {}


def _shown_limits(sufficient: limits.Suffices, partition: Data) -> Data:
    """The answer of raised limits."""
    result = sufficient.foreseen.result
    before = {limit.queue: limit.most for limit in sufficient.before}
    return {
        "changes": [
            {
                "kind": limits.RAISE,
                "queue": queue,
                **partition,
                "limits": [_raised(name, before[queue][name], amount) for name, amount in amounts.items()],
            }
            for queue, amounts in sufficient.raised.items()
        ],
        "placed": len(result.placements),
        "agents": _agents(result.placements),
        "moves": [],
        "evict": list(sufficient.foreseen.evicted),
    }


def _raised(name: str, before: int, after: int) -> Data:
    displayed = recorded(name).displayed
    return {"resource": name, "from": displayed(before), "to": displayed(after)}


def _agents(places: Sequence[Placement[Slot]]) -> list[Data]:
    names = Counter(placement.hostname for placement in places)
    return [{"hostname": name, "taskgroups": count} for name, count in sorted(names.items())]


def _change(turn: TurnContext, demand: Demand[Slot], lever: Lever, strength: int) -> Data:
    """The code of a change with its parameters. Amounts are cores or MB."""
    shown: Data = {"kind": lever.kind}
    if lever.kind == REDUCE:
        before = getattr(demand.request, lever.part)
        after = before - strength * GRANULES[lever.part] - _overhead(turn)[lever.part]
        displayed = THOUSANDTHS.get(lever.part).displayed
        requested = _requested(turn, demand, lever.part)
        return {**shown, "resource": lever.part, "from": displayed(requested), "to": displayed(after)}
    if lever.kind == DROP:
        return {**shown, "constraint": lever.part}
    if lever.kind == PREEMPT:
        victims: Ended = lever.facts
        return {**shown, "taskgroups": [group.id for group in victims.first(strength)]}
    if lever.kind == DRAIN:
        drained: Drained = lever.facts
        return {**shown, "agents": [drained.name], "taskgroups": [group.id for group in drained.groups]}
    facts: Agents = lever.facts
    if lever.kind == UNCORDON:
        return {**shown, "agents": list(facts.names[:strength])}
    size = facts.size
    assert lever.kind == ADD and size is not None
    attributes = {name: value for name, value in size.attributes if isinstance(value, str | float | int)}
    return {**shown, "count": strength, "size": THOUSANDTHS.displayed(size), "attributes": attributes}


def _overhead(turn: TurnContext) -> dict[str, int]:
    """The greatest part of a request that the containers do not have, by resource: a container that is reduced may be
    too small to spare the cores of the executor (`Overhead.sparing`)."""
    amounts = turn.options.traits.overhead
    return {"cpus": amounts.cpus, "mem": amounts.mem, "disk": amounts.disk}


def _requested(turn: TurnContext, demand: Demand[Slot], name: str) -> int:
    """Thousandths that the containers of a taskgroup request together."""
    transaction = turn.state.transactions.get(demand.id)
    version = turn.state.version(demand.application, transaction.version) if transaction is not None else None
    if version is None:
        return int(getattr(demand.request, name))
    return sum(int(getattr(container.requests, name)) for container in version.containers)


HANDLERS: Handlers = {requests.AskWhatIf: what_if}
