"""Quota preemption: a queue whose maximum was lowered below its usage gives the excess back.

The excess of a queue is taken from its own allocations once the usage has been above the maximum for the
`quota.preemption.delay` of the queue. A parent spreads its excess over its children in proportion to their usage above
their guarantees. No queue falls below its guarantee, and an allocation that is larger than the rest of the excess
stays, so the taken amount may be less than the excess. Applications lose no more than they may (`Losses`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import merge

from offers.policy.hierarchy.preemption.preemption import Losses, never
from offers.policy.hierarchy.state.model import Allocation, add_to
from offers.policy.hierarchy.state.queue import Queue
from offers.policy.hierarchy.tree import LOOKED_AT, Tree
from offers.policy.obstacles import Obstacle

Excess = dict[str, int]
"""Amounts above 0 by resource."""


def give_back(tree: Tree, now: float, is_over: Callable[[], bool] = never) -> list[Allocation]:
    """The allocations that end now because a maximum was lowered; they are noted in the tree as leaving. `now`: seconds
    of one clock. `is_over`: True once the time is over; the next call continues."""
    return tree.part("quota", now, lambda: giving_back(tree), is_over)


def giving_back(tree: Tree, at: float | None = None) -> Iterator[Allocation | None]:
    """Yields the allocations of `give_back` as they are noted in the tree; None between steps of the work. The tree may
    change meanwhile. `at`: the time in seconds; None: that of each step is `tree.now`."""
    if not tree.partition.quota_preemption:
        return
    for number, queue in enumerate(_below(tree.root), 1):
        if number % LOOKED_AT == 0:
            yield None
        if tree.queues.get(queue.name) is not queue:
            continue
        delay = queue.config.properties.quota_preemption_delay
        excess, now = _excess(queue), tree.now if at is None else at
        if not excess or not delay:
            queue.above_since = None
        elif queue.above_since is None:
            queue.above_since = now
        elif now - queue.above_since >= delay:
            yield from _take_share(tree, queue, excess, queue)


def _below(queue: Queue) -> Iterator[Queue]:
    """Yields the queues below a queue, each before its children, in the order of their names. Queues may come and go
    meanwhile."""
    rest = sorted(queue.children.values(), key=_name, reverse=True)
    while rest:
        child = rest.pop()
        yield child
        rest += sorted(child.children.values(), key=_name, reverse=True)


def _excess(queue: Queue) -> Excess:
    return {name: over for name, most in queue.max.items() if (over := _usage(queue, name) - most) > 0}


def _take_share(tree: Tree, queue: Queue, share: Excess, top: Queue) -> Iterator[Allocation | None]:
    """Takes the share of a queue of the excess of `top`."""
    if queue.is_leaf:
        yield from _from_leaf(tree, queue, share, top)
        return
    children = sorted(queue.children.values(), key=_name)
    shares: dict[Queue, Excess] = {}
    for name, amount in share.items():
        weights: list[int] = []
        for number, child in enumerate(children, 1):
            weights.append(above(child, name))
            if number % LOOKED_AT == 0:
                yield None
        for child, part in zip(children, spread(amount, weights), strict=True):
            if part:
                shares.setdefault(child, {})[name] = part
    for child in children:
        if child in shares:
            yield from _take_share(tree, child, shares[child], top)
    if queue is top:
        # Allocations are not divided, so shares may be left: an allocation that fits the rest may end, wherever it is.
        for number, leaf in enumerate(_below(queue), 1):
            if number % LOOKED_AT == 0:
                yield None
            if leaf.is_leaf and leaf.requests:
                if not (left := _excess(top)):
                    return
                yield from _from_leaf(tree, leaf, left, top)


def _by_loss(tree: Tree, leaf: Queue) -> Iterator[Allocation | None]:
    """Yields the allocations of a leaf in the order in which they end: those that do not work first. None between
    steps: allocations may come and go meanwhile; some may be left out then."""
    idle: list[Allocation] = []
    for identity, queue in tree.idle.items():
        owner, _, name = identity.rpartition("/")
        if queue == leaf.name and owner in leaf.applications and name in leaf.applications[owner].allocations:
            idle.append(leaf.applications[owner].allocations[name])
    yield from sorted(idle, key=lambda application: application.order_of_loss)
    nodes = tree.nodes.by_name
    for number, running in enumerate(merge(*(nodes[name].running for name in list(leaf.places))), 1):
        if number % LOOKED_AT == 0:
            yield None
        if running.leaf is leaf and running.allocation.ask.id not in tree.idle:
            yield running.allocation


def _from_leaf(tree: Tree, leaf: Queue, share: Excess, top: Queue) -> Iterator[Allocation | None]:
    guarded = leaf.path[: leaf.path.index(top) + 1]
    for victim in _by_loss(tree, leaf):
        if victim is None:
            yield None
            continue
        if not share or tree.queues.get(leaf.name) is not leaf or not (left := _excess(top)):
            return
        owner = tree.applications.get(victim.ask.application)
        if owner is None or owner.allocations.get(victim.ask.name) is not victim:
            continue  # ended in between
        if victim.ask.is_spared or victim.ask.id in tree.leaving:
            continue
        unit = Losses(tree).unit(victim)
        if isinstance(unit, Obstacle) or any(allocation.ask.is_spared for allocation in unit):
            continue
        amounts: dict[str, int] = {}
        for allocation in unit:
            add_to(amounts, allocation.ask.request, 1)
        if not any(name in share and name in left for name in amounts) or any(
            amounts.get(name, 0) > most for figures in (share, left) for name, most in figures.items()
        ):
            continue
        if any(
            name in queue.guaranteed and _usage(queue, name) - amount < queue.guaranteed[name]
            for queue in guarded
            for name, amount in amounts.items()
        ):
            continue
        for allocation in unit:
            tree.leave(allocation)
        for name, amount in amounts.items():
            if name in share:
                share[name] -= amount
                if not share[name]:
                    del share[name]
        yield from unit


def spread(amount: int, weights: list[int]) -> list[int]:
    """Integer parts of an amount in proportion to weights; the rest of the rounding goes, one each, to the first parts.
    No part exceeds its weight; the sum is the amount, or the sum of the weights if that is less."""
    whole = sum(weights)
    amount = min(amount, whole)
    parts = [amount * weight // whole if whole else 0 for weight in weights]
    rest = amount - sum(parts)
    for number, weight in enumerate(weights):
        if rest and parts[number] < weight:
            parts[number] += 1
            rest -= 1
    return parts


def above(queue: Queue, name: str) -> int:
    """The usage of a resource above the guarantee, without allocations that are leaving; 0 if there is none."""
    return max(0, _usage(queue, name) - queue.guaranteed.get(name, 0))


def _usage(queue: Queue, name: str) -> int:
    return queue.allocated.get(name, 0) - queue.leaving.get(name, 0)


def _name(queue: Queue) -> str:
    return queue.name
