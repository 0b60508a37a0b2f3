"""Quota preemption: a queue whose maximum was lowered below its usage gives the excess back.

The excess of a queue is taken from its own allocations once the usage has been above the maximum for the
`quota.preemption.delay` of the queue. A parent spreads its excess over its children in proportion to their usage above
their guarantees. No queue falls below its guarantee, and an allocation that is larger than the rest of the excess
stays, so the taken amount may be less than the excess. Applications lose no more than they may (`losses`).
"""

from __future__ import annotations

from collections.abc import Iterator

from offers.policy.hierarchy.preemption.losses import Losses
from offers.policy.hierarchy.state.model import Allocation, add_to
from offers.policy.hierarchy.state.queue import Queue
from offers.policy.hierarchy.tree import Tree
from offers.policy.obstacles import Obstacle

Excess = dict[str, int]
"""Amounts above 0 by resource."""


def give_back(tree: Tree, now: float) -> list[Allocation]:
    """The allocations that end now because a maximum was lowered; they are noted in the tree as leaving. `now`: seconds
    of one clock."""
    return list(giving_back(tree, now))


def giving_back(tree: Tree, now: float) -> Iterator[Allocation]:
    """Yields the allocations of `give_back` one by one, as they are noted in the tree."""
    if tree.partition.quota_preemption:
        for child in sorted(tree.root.children.values(), key=_name):
            yield from _below(tree, child, now)


def _below(tree: Tree, queue: Queue, now: float) -> Iterator[Allocation]:
    delay = queue.config.properties.quota_preemption_delay
    excess = {name: over for name, most in queue.max.items() if (over := _usage(queue, name) - most) > 0}
    if not excess or not delay:
        queue.above_since = None
    elif queue.above_since is None:
        queue.above_since = now
    elif now - queue.above_since >= delay:
        yield from _take(tree, queue, excess, dict(excess), queue)
    for child in sorted(queue.children.values(), key=_name):
        yield from _below(tree, child, now)


def _take(tree: Tree, queue: Queue, share: Excess, left: Excess, top: Queue) -> Iterator[Allocation]:
    """Takes the share of a queue. `left`: the excess of `top`, which all its leaves reduce."""
    if queue.is_leaf:
        yield from _from_leaf(tree, queue, share, left, top)
        return
    children = sorted(queue.children.values(), key=_name)
    shares: dict[Queue, Excess] = {child: {} for child in children}
    for name, amount in share.items():
        for child, part in zip(children, spread(amount, [above(child, name) for child in children]), strict=True):
            if part:
                shares[child][name] = part
    for child, part_of_child in shares.items():
        if part_of_child:
            yield from _take(tree, child, part_of_child, left, top)
    if queue is top:
        # Allocations are not divided, so shares may be left: an allocation that fits the rest may end, wherever it is.
        for leaf in sorted(queue.leaves(), key=_name):
            yield from _from_leaf(tree, leaf, dict(left), left, top)


def _from_leaf(tree: Tree, leaf: Queue, share: Excess, left: Excess, top: Queue) -> Iterator[Allocation]:
    guarded = leaf.path[: leaf.path.index(top) + 1]
    allocations = (one for owner in leaf.applications.values() for one in owner.allocations.values())
    for victim in sorted(allocations, key=lambda one: (one.ask.id not in tree.idle, one.order_of_loss)):
        if not share or not left:
            return
        if victim.ask.is_spared or victim.ask.id in tree.leaving:
            continue
        unit = Losses(tree).unit(victim, 0, 0)
        if isinstance(unit, Obstacle) or any(one.ask.is_spared for one in unit):
            continue
        amounts: dict[str, int] = {}
        for one in unit:
            add_to(amounts, one.ask.request, 1)
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
        for one in unit:
            tree.leave(one)
        for figures in (share, left):
            for name, amount in amounts.items():
                if name in figures:
                    figures[name] -= amount
                    if not figures[name]:
                        del figures[name]
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
