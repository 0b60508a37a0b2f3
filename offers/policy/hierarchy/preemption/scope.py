"""The part of the tree in which an ask may look for victims.

The search is bounded by the first queue above the ask that is a preemption fence, or whose maximum is in the way, or by
root. Priorities are compared where the branches of the ask and of the victim meet: each queue below that place adds its
offset to the priority that it shows, and a priority fence shows its offset alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from offers.dimensions import Amounts
from offers.policy.hierarchy.configuration.partition import Fencing, PreemptionPolicy
from offers.policy.hierarchy.state.queue import Queue


class Scope(NamedTuple):
    """The queue that bounds the search. `leaves`: the greatest priority of a victim in each leaf; None: victims of
    every priority."""

    fence: Queue
    leaves: dict[Queue, int | None]


def scope_of(leaf: Queue, request: Amounts, priority: int) -> Scope:
    """The queues in which an ask of a leaf, with its request and priority, may find victims."""
    leaves: dict[Queue, int | None] = {}
    shown, below = priority, leaf
    for queue in leaf.path:
        if queue is not leaf:
            _collect((one for one in queue.children.values() if one is not below), shown, leaves)
        properties = queue.config.properties
        shown = properties.priority_offset + (0 if properties.priority_policy is Fencing.FENCE else shown)
        below = queue
        if properties.preemption_policy is PreemptionPolicy.FENCE or queue.excess(request):
            break
    return Scope(below, leaves)


def _collect(queues: Iterable[Queue], shown: int | None, leaves: dict[Queue, int | None]) -> None:
    for queue in queues:
        properties = queue.config.properties
        if properties.preemption_policy is PreemptionPolicy.DISABLED:
            continue
        greatest = shown
        if greatest is not None and properties.priority_policy is Fencing.FENCE:
            if properties.priority_offset > greatest:
                continue
            greatest = None
        elif greatest is not None:
            greatest -= properties.priority_offset
        if not queue.is_leaf:
            _collect(queue.children.values(), greatest, leaves)
        elif queue.places and (greatest is None or queue.least_priority() <= greatest):
            leaves[queue] = greatest
