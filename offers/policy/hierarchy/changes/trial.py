"""A dry trial: the effect that another configuration would have, found on a copy of the tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import inf
from typing import NamedTuple

from offers.dimensions import Amounts, amounts
from offers.ledger.holds import RETRY
from offers.policy.hierarchy.changes.applying import applying
from offers.policy.hierarchy.changes.copying import STEP, Captured, Steps, copying
from offers.policy.hierarchy.configuration.partition import Partition
from offers.policy.hierarchy.explanation import Cause, cause_of
from offers.policy.hierarchy.preemption.preemption import Check, preempting
from offers.policy.hierarchy.preemption.quota import giving_back
from offers.policy.hierarchy.state.model import Allocation, Ask
from offers.policy.hierarchy.state.queue import QueueState
from offers.policy.hierarchy.tree import Tree

ROUNDS = 100
"""Rounds of preemption at most, each `RETRY` seconds after the one before."""


class Wait(NamedTuple):
    """An application with more asks that wait than with the present configuration. `cause`: the cause of the first.
    `used`, `most`: usage and maximum of the queue of the cause; empty if the cause is no queue."""

    application: str
    asks: int
    before: int
    cause: Cause
    used: Amounts = ()
    most: Amounts = ()


class Victim(NamedTuple):
    """An allocation that would be preempted. `beneficiary`: the ask that gets the room; None if a maximum was lowered
    below the usage."""

    allocation: Allocation
    beneficiary: Ask | None


class Trial(NamedTuple):
    """The effect of a configuration. `draining`: queues that are no longer configured and still have applications.
    `moved_on`: applications with fewer asks that wait than with the present configuration."""

    waits: tuple[Wait, ...]
    moved_on: tuple[str, ...]
    preempted: tuple[Victim, ...]
    draining: tuple[str, ...]


def trying(
    present: Captured,
    partition: Partition,
    now: float,
    check: Check | None = None,
    states: Mapping[str, QueueState] | None = None,
) -> Steps[Trial]:
    """Returns the trial of a tree in a captured state, made in steps. `now`: seconds of the clock of the asks. `check`:
    None admits every node. `states`: the states of queues by full name; None: as they are. Raises CannotChange."""
    before = yield from copying(present)
    after = yield from copying(present)
    draining = yield from applying(after, partition)
    for name, state in (states or {}).items():
        if name in after.queues and after.queues[name].state is not state:
            after.set_state(name, state)
    yield
    yield from _settle(before, now, check)
    victims = yield from _settle(after, now, check)
    waits, moved_on = [], []
    for name in sorted(one.name for one in present.applications):
        asks, earlier = after.applications[name].asks, len(before.applications[name].asks)
        if len(asks) > earlier:
            cause = cause_of(after, name, next(iter(asks)))
            queue = after.queues.get(cause.where)
            used, most = (amounts(queue.allocated), amounts(queue.max)) if queue is not None else ((), ())
            waits.append(Wait(name, len(asks), earlier, cause, used, most))
        elif len(asks) < earlier:
            moved_on.append(name)
        if len(waits) % STEP == 1:
            yield
    return Trial(tuple(waits), tuple(moved_on), tuple(victims), tuple(draining))


def _settle(tree: Tree, now: float, check: Check | None) -> Steps[list[Victim]]:
    """Lets a tree place and preempt until nothing changes; victims end at once and do not come back. They spend the
    allowance of the tree."""
    spent: Counter[tuple[str, ...]] = Counter()
    """Victims by budget, those that have not ended included."""
    allowance, budget_of = tree.terms.allowance, tree.terms.budget_of
    if allowance is not None:
        tree.begin(tree.terms._replace(allowance=lambda name: allowance(name) - spent[budget_of(name)]))
    found: list[Victim] = []
    for moment in (now, inf):
        for one in giving_back(tree, moment):
            if one is None:
                yield
                continue
            spent[budget_of(one.ask.application)] += one.ask.id not in tree.idle
            found.append(Victim(one, None))
            if len(found) % STEP == 0:
                yield
    yield from _end(tree, found)
    later = now + max((leaf.config.properties.preemption_delay for leaf in tree.root.leaves()), default=0.0)
    for number in range(1, ROUNDS + 1):
        for placed, _ in enumerate(tree.run(), 1):
            if placed % STEP == 0:
                yield
        victims: list[Victim] = []
        for made in preempting(tree, later + number * RETRY, check):
            if made is not None:
                works = (one.ask for one in made.victims if one.ask.id not in tree.idle)
                spent.update(budget_of(ask.application) for ask in works)
                victims += [Victim(one, made.ask) for one in made.victims]
            yield
        if not victims:
            break
        found += victims
        yield from _end(tree, victims)
    return found


def _end(tree: Tree, victims: list[Victim]) -> Steps[None]:
    for number, one in enumerate(victims, 1):
        tree.release(one.allocation.ask.application, one.allocation.ask.name)
        if number % STEP == 0:
            yield
