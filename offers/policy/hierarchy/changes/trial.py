"""A dry trial: the effect that another configuration would have, found on a copy of the tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import inf
from typing import NamedTuple

from offers.dimensions import Amounts, amounts
from offers.policy.hierarchy.changes.applying import apply
from offers.policy.hierarchy.changes.copying import copied
from offers.policy.hierarchy.configuration.partition import Partition
from offers.policy.hierarchy.explanation import Cause, cause_of
from offers.policy.hierarchy.preemption.quota import give_back
from offers.policy.hierarchy.preemption.tries import RETRY, preempt
from offers.policy.hierarchy.preemption.victims import Check
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


def trial(
    tree: Tree,
    partition: Partition,
    now: float,
    check: Check | None = None,
    states: Mapping[str, QueueState] | None = None,
) -> Trial:
    """The effect of a configuration once all delays have passed; the tree is not changed. `now`: seconds of the clock
    of the asks. `check`: a further condition on nodes, as for `preempt`; None admits every node. `states`: the states
    of queues with the configuration, by full name; None: as they are. Raises CannotChange as `apply` does."""
    before, after = copied(tree), copied(tree)
    draining = apply(after, partition)
    for name, state in (states or {}).items():
        if name in after.queues and after.queues[name].state is not state:
            after.set_state(name, state)
    _settle(before, now, check)
    victims = _settle(after, now, check)
    waits, moved_on = [], []
    for name in sorted(tree.applications):
        asks, earlier = after.applications[name].asks, len(before.applications[name].asks)
        if len(asks) > earlier:
            cause = cause_of(after, name, next(iter(asks)))
            queue = after.queues.get(cause.where)
            used, most = (amounts(queue.allocated), amounts(queue.max)) if queue is not None else ((), ())
            waits.append(Wait(name, len(asks), earlier, cause, used, most))
        elif len(asks) < earlier:
            moved_on.append(name)
    return Trial(tuple(waits), tuple(moved_on), tuple(victims), tuple(draining))


def _settle(tree: Tree, now: float, check: Check | None) -> list[Victim]:
    """Lets a tree place and preempt until nothing changes; victims end at once and do not come back. They spend the
    allowance of the tree."""
    spent: Counter[str] = Counter()
    allowance, ending = tree.allowance, set(tree.leaving)
    if allowance is not None:
        tree.allowance = lambda name: allowance(name) - spent[name] - _chosen(tree, ending, name)
    found = [Victim(one, None) for moment in (now, inf) for one in give_back(tree, moment)]
    _end(tree, found, spent)
    later = now + max((leaf.config.properties.preemption_delay for leaf in tree.root.leaves()), default=0.0)
    for number in range(1, ROUNDS + 1):
        for _ in tree.run():
            pass
        made = preempt(tree, later + number * RETRY, check)
        victims = [Victim(one, preemption.ask) for preemption in made for one in preemption.victims]
        if not victims:
            break
        found += victims
        _end(tree, victims, spent)
    return found


def _chosen(tree: Tree, ending: set[str], application: str) -> int:
    """The number of victims of an application that were chosen and have not ended."""
    chosen = (victim for identity, victim in tree.leaving.items() if identity not in ending)
    return sum(victim.ask.application == application for victim in chosen)


def _end(tree: Tree, victims: list[Victim], spent: Counter[str]) -> None:
    for one in victims:
        spent[one.allocation.ask.application] += 1
        tree.release(one.allocation.ask.application, one.allocation.ask.name)
