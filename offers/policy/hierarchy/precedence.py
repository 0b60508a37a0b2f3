"""The use of room of a node that is kept for others. Cycles, searches for victims, and the loop that places work in
held room (`core.placement.aging`) ask this module alone.

| room is kept by | its owner | an ask with a promise there | asks that outrank the owner | others |
|---|---|---|---|---|
| a promise: victims leave, or a queue gets room back | the room | its own promise | nothing | nothing |
| `Terms.kept`, for old work | the rest | its own promise | the rest | nothing |
| a reservation without victims | the rest | its own promise | the rest | nothing |

The rest is the room without that of all promises. Room that is leaving and that old work still lacks counts as its
room: others do not expect it.

Asks outrank the owners of room, if they belong to other applications and (`outranks`)

* the nearest queue with a guarantee stays within it with all of them together, and lies below the place where their
  branch of the tree meets that of the owner: a guarantee that both share prefers none of them, or
* each has a higher priority than the owner, where their branches meet.

An ask with victims is no further ask: its queue expects it already, and it has the room that they leave. So the other
asks of its application are judged without it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from offers.dimensions import Amounts
from offers.policy.hierarchy.configuration.partition import Fencing
from offers.policy.hierarchy.state.queue import Queue, goal_of


class Side(NamedTuple):
    """An application that owns room, or an ask that wants the room. `leaf`: its queue; `request`: of the ask."""

    application: str
    leaf: Queue
    priority: int
    request: Amounts = ()


def outranks(asks: Iterable[Side], owners: Sequence[Side]) -> bool:
    """True if asks without victims may use, all together, room that is kept for others; False without owners."""
    names = {owner.application for owner in owners}
    return bool(owners) and all(
        name not in names and _outrank(list(of_one), owners)
        for name, of_one in groupby(sorted(asks, key=_application), key=_application)
    )


_application = attrgetter("application")


def _outrank(asks: list[Side], owners: Sequence[Side]) -> bool:
    """`asks`: of one application."""
    together = Counter[str]()
    for ask in asks:
        together.update(dict(ask.request))
    goal = goal_of(asks[0].leaf, [name for name, amount in together.items() if amount > 0])
    is_owed = goal is not None and goal.stays_within_guarantee(tuple(together.items()))
    return all(
        (is_owed and goal not in owner.leaf.path) or all(is_higher(ask, owner) for ask in asks) for owner in owners
    )


def is_higher(ask: Side, owner: Side) -> bool:
    """True if the priority of an ask is higher than that of an owner where their branches of the tree meet. Each queue
    below that place adds its offset; a fence shows its offset alone."""
    return _shown(ask, owner.leaf) > _shown(owner, ask.leaf)


def _shown(side: Side, beside: Queue) -> int:
    priority = side.priority
    for queue in side.leaf.path:
        if queue in beside.path:
            break
        properties = queue.config.properties
        priority = properties.priority_offset + (0 if properties.priority_policy is Fencing.FENCE else priority)
    return priority
