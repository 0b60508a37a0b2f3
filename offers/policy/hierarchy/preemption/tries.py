"""Preemption towards guarantees: which asks may try, and how often.

An ask may try if preemption is on, the ask may preempt others, has no promise of a node, needs no particular node, has
waited for the `preemption.delay` of its leaf, and has not tried in the last `RETRY` seconds. So an ask whose promise
was lost with the node, or whose victims were not ended, tries again; a promise that was not kept in time has a longer
pause (`reservation.LONGEST`). The asks of a leaf have at most `TRIES` tries in a cycle, and asks that must fail as
another one did are passed over, so the work of a cycle is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from math import inf

from offers.policy.hierarchy.preemption.victims import Check, goal_of, plan
from offers.policy.hierarchy.state.application import RequestClass
from offers.policy.hierarchy.state.model import Ask, Preemption
from offers.policy.hierarchy.state.queue import Queue, QueueState
from offers.policy.hierarchy.tree import Tree

RETRY = 15.0
"""Seconds between two tries of one ask."""
TRIES = 10
"""Tries of the asks of one leaf in one cycle."""


def preempt(tree: Tree, now: float, check: Check | None = None) -> list[Preemption]:
    """One cycle of preemption: the preemptions, which are noted in the tree. `now`: seconds of the clock of the asks.
    `check`: a further condition on nodes; None admits every node."""
    return [found for found in preempting(tree, now, check) if found is not None]


def preempting(tree: Tree, now: float, check: Check | None = None) -> Iterator[Preemption | None]:
    """Yields the result of each try of one cycle, as `preempt`; None for a try in vain."""
    if not tree.partition.preemption or tree.root.state is QueueState.STOPPED:
        return
    for leaf in tree.root.leaves():
        tries = 0
        refused: set[tuple[RequestClass, int]] = set()
        for one, ask in list(_candidates(tree, leaf, now)):
            if tries >= TRIES:
                break
            if (one, ask.priority) in refused:
                continue
            tries += 1
            result = attempt(tree, ask, now, check)
            if result is None:
                refused.add((one, ask.priority))
            else:
                refused.clear()
            yield result


def attempt(tree: Tree, ask: Ask, now: float, check: Check | None = None) -> Preemption | None:
    """One try of one pending ask; a result is noted in the tree. None if the ask may not try now, or in vain. Raises
    KeyError if the ask is not pending. `now` is seconds."""
    application = tree.applications[ask.application]
    leaf = tree.queues[application.queue]
    tried = application.preempted_at.get(ask.name, -inf)
    if not tree.partition.preemption or not ask.may_preempt or ask.required_node or now - tried < RETRY:
        return None
    if _is_stopped(leaf) or application.asks[ask.name].alike.promised or now - ask.created < _delay(leaf):
        return None
    if tree.limit_of(application, ask.request) is not None:
        return None
    application.preempted_at[ask.name] = now
    result = plan(tree.nodes, leaf, ask, tree.leaving, check, tree.allowance)
    if result is not None:
        tree.preempt(result)
    return result


def _is_stopped(leaf: Queue) -> bool:
    return any(queue.state is QueueState.STOPPED for queue in leaf.path)


def _delay(leaf: Queue) -> float:
    return leaf.config.properties.preemption_delay


def _candidates(tree: Tree, leaf: Queue, now: float) -> Iterator[tuple[RequestClass, Ask]]:
    """Yields asks of a leaf that may try, in their order: of each class as many as a cycle may try."""
    if _is_stopped(leaf):
        return
    causes = (tree.nodes.waiting, *(queue.waiting for queue in leaf.path))
    blocked = [
        one
        for one in leaf.classes.values()
        if one.waits in causes and not one.alternative.required_node and not one.alternative.promised
    ]
    latest = now - _delay(leaf)
    for one in sorted((one for one in blocked if _may_help(leaf, one)), key=_first_key):
        for ask in islice(_ready(one, latest, now), TRIES):
            yield one, ask


def _ready(one: RequestClass, latest: float, now: float) -> Iterator[Ask]:
    """Yields the asks of a class that were made at `latest` or before, and have not tried lately. Times are seconds."""
    for group in one.members:
        if not group.alike.may_preempt:
            continue
        tried = group.application.preempted_at
        for created, name, ask in group.asks:
            if created > latest:
                break
            if now - tried.get(name, -inf) >= RETRY:
                yield ask


def _first_key(one: RequestClass) -> tuple[object, ...]:
    first = one.members.first()
    assert first is not None and first.key is not None
    return first.key


def _may_help(leaf: Queue, one: RequestClass) -> bool:
    """False if the leaf itself would exceed its guarantee, so that no victim of another leaf can help."""
    wanted = {name: amount for name, amount in one.request if amount > 0}
    goal = goal_of(leaf, wanted)
    if goal is not leaf:
        return goal is not None
    return all(
        leaf.expected(name) + amount <= leaf.guaranteed[name]
        for name, amount in wanted.items()
        if name in leaf.guaranteed
    )
