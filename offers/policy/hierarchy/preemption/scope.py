"""The part of the tree in which an ask may look for victims.

The search is bounded by the first queue above the ask that is a preemption fence, or whose maximum is in the way, or by
root. Priorities are compared where the branches of the ask and of the victim meet: each queue below that place adds its
offset to the priority that it shows, and a priority fence shows its offset alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from offers.dimensions import Amounts
from offers.policy.hierarchy.configuration.partition import Fencing, PreemptionPolicy
from offers.policy.hierarchy.state.queue import Queue
from offers.policy.obstacles import Obstacle, Tally


class Scope(NamedTuple):
    """The queue that bounds the search. `leaves`: the greatest priority of a victim in each leaf; None: victims of
    every priority. `met`: the obstacles of the other leaves."""

    fence: Queue
    leaves: dict[Queue, int | None]
    met: Tally


def scope_of(leaf: Queue, request: Amounts, priority: int, safe: Collection[Queue] = ()) -> Scope:
    """The queues in which an ask of a leaf, with its request and priority, may find victims. `safe`: leaves that are
    passed over."""
    leaves: dict[Queue, int | None] = {}
    met = Tally()
    shown, below = priority, leaf
    for queue in leaf.path:
        if queue is not leaf:
            _collect((one for one in queue.children.values() if one is not below), shown, leaves, met, safe)
        properties = queue.config.properties
        shown = properties.priority_offset + (0 if properties.priority_policy is Fencing.FENCE else shown)
        below = queue
        if properties.preemption_policy is PreemptionPolicy.FENCE or queue.excess(request):
            break
    return Scope(below, leaves, met)


def _collect(
    queues: Iterable[Queue],
    shown: int | None,
    leaves: dict[Queue, int | None],
    met: Tally,
    safe: Collection[Queue],
) -> None:
    for queue in queues:
        if queue in safe:
            continue
        properties = queue.config.properties
        if properties.preemption_policy is PreemptionPolicy.DISABLED:
            _count(met, Obstacle.OUTSIDE, queue)
            continue
        greatest = shown
        if greatest is not None and properties.priority_policy is Fencing.FENCE:
            if properties.priority_offset > greatest:
                _count(met, Obstacle.PRIORITY, queue)
                continue
            greatest = None
        elif greatest is not None:
            greatest -= properties.priority_offset
        if not queue.is_leaf:
            _collect(queue.children.values(), greatest, leaves, met, safe)
        elif queue.places and (greatest is None or queue.least_priority() <= greatest):
            leaves[queue] = greatest
        else:
            _count(met, Obstacle.PRIORITY, queue)


def _count(met: Tally, obstacle: Obstacle, queue: Queue) -> None:
    """Counts all allocations below a queue."""
    number = sum(leaf.size for leaf in queue.leaves())
    if number:
        met.count(obstacle, number, queue.name)


class Importance(NamedTuple):
    """The priority that the allocations of a leaf show at a fence: their own with an offset, or, if a priority fence is
    between, the same for all of them."""

    offset: int
    is_fixed: bool

    def of(self, priority: int) -> int:
        """The importance of an allocation with a priority."""
        return self.offset if self.is_fixed else self.offset + priority


def importance_at(fence: Queue, leaf: Queue) -> Importance:
    """The priorities that the allocations of a leaf below a queue show there."""
    offset, is_fixed = 0, False
    for queue in leaf.path:
        if queue is fence:
            break
        properties = queue.config.properties
        if properties.priority_policy is Fencing.FENCE:
            offset, is_fixed = properties.priority_offset, True
        else:
            offset += properties.priority_offset
    return Importance(offset, is_fixed)
