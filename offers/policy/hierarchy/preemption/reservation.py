"""Reservations: room on a node is held for an ask that no node has room for, until the room is there.

An ask that waits for a node, and is older than `PATIENCE`, reserves the node that lacks the least, if the room there is
known to become enough: units are leaving, or their ends are near by the estimate of running times. Amounts that never
go, such as those of daemonsets, do not count. One ask has one reservation, and one node holds one. Other work gets the
room that the reservation leaves, and asks that outrank the one that reserves get all room (`precedence`).

Reservations keep room from others that could use it at once. So a node is reserved for `MOST_IN_WINDOW` seconds of any
`WINDOW` at most, and a tenth of the nodes at a time; where there are three or more, one. A reservation that has lasted
as long as its node may be reserved ends, and no ask of the application with the same request reserves a node for
`LONGEST`: others get their turn.

An ask that needs one node takes the node at once: reservations of other asks on the node end, and allocations there
that are not more important are preempted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from fractions import Fraction
from heapq import heapify, heappop
from typing import NamedTuple

from offers.dimensions import share
from offers.ledger.holds import LONGEST, PATIENCE, SHORTEST
from offers.policy.amounts import Vector
from offers.policy.hierarchy.preemption.preemption import TRIES, Losses, groups_of, never
from offers.policy.hierarchy.state.application import RequestClass
from offers.policy.hierarchy.state.blocks import fits_request
from offers.policy.hierarchy.state.model import Allocation, Ask, Preemption
from offers.policy.hierarchy.state.nodes import Node
from offers.policy.hierarchy.tree import LOOKED_AT, Tree

MOST = 10
"""Reservations of asks without victims in a tree at a time."""
PART, LEAST_NODES = 10, 3
"""One of so many nodes is reserved at a time at most; where there are so many nodes, one may be."""
NOTHING: Mapping[str, Vector] = {}


class Reserved(NamedTuple):
    """A node that an ask has reserved. `until`: the moment at which the reservation ends at the latest, unless earlier
    reservations of the node are forgotten before; seconds of the clock of the asks."""

    ask: Ask
    node: str
    until: float


def reservations(tree: Tree, now: float) -> list[Reserved]:
    """The reservations of asks without victims, by name of the node. `now`: seconds of the clock of the asks."""
    return [
        Reserved(ask, name, now + max(0.0, tree.closings.left(name, now)))
        for name, node in sorted(tree.nodes.reserving.items())
        for ask in node.reserving.values()
    ]


def most_of(nodes: int) -> int:
    """The number of nodes that may be reserved at a time, of so many."""
    return min(MOST, max(nodes // PART, 1 if nodes >= LEAST_NODES else 0))


def reserve(
    tree: Tree, now: float, soon: Mapping[str, Vector] = NOTHING, is_over: Callable[[], bool] = never
) -> list[Allocation]:
    """Makes the reservations that are due, the oldest asks first, and returns them: each ask with its node. `now`:
    seconds of the clock of the asks. `soon`: by name of the node, amounts that are expected to become free within
    `LONGEST`. The work is bounded: `TRIES` searches among the nodes on which something ends. `is_over`: True once the
    time is over; the next call continues."""
    return tree.part("reservations", now, lambda: _reserving(tree, soon), is_over)


def _reserving(tree: Tree, soon: Mapping[str, Vector]) -> Iterator[Allocation | None]:
    """Yields the reservations of `reserve`; None between steps. The tree may change meanwhile."""
    if _is_full(tree):
        return
    places: dict[str, dict[str, int]] = {}
    leaving = [victim.node for victim in tree.leaving.values()]
    for number, name in enumerate(dict.fromkeys((*leaving, *soon)), 1):
        if number % LOOKED_AT == 0:
            yield None
        if _may_be_reserved(tree, name):
            places[name] = _known(tree.nodes.by_name[name], soon)
    due: list[tuple[float, str, Ask]] = []
    for step in _due(tree, _most(places.values())) if places else ():
        if step is None:
            yield None
        else:
            due.append((step.created, step.id, step))
    heapify(due)
    for _ in range(TRIES):
        if not due or _is_full(tree):
            return
        ask = heappop(due)[2]
        if not _waits(tree, ask):
            continue
        best = _best(tree, ask, places)
        if best is None:
            tree.applications[ask.application].pause(ask.request, tree.now, SHORTEST)
            yield None
            continue
        del places[best]
        tree.promise(ask.application, ask.name, best, reserves=True)
        tree.closings.begin(best, tree.now)
        yield Allocation(ask, best)


def _is_full(tree: Tree) -> bool:
    """True if as many nodes are reserved as may be."""
    return len(tree.nodes.reserving) >= most_of(len(tree.nodes.by_name))


def _due(tree: Tree, most: dict[str, int]) -> Iterator[Ask | None]:
    """Yields the first asks that wait for a node: one of each class that may fit the greatest room; None between
    steps."""
    for number, request_class in enumerate(list(tree.nodes.waiting), 1):
        if number % LOOKED_AT == 0:
            yield None
        if (
            request_class.alternative.promised
            or request_class.leaf.is_stopped
            or not fits_request(request_class.request, most)
        ):
            continue
        for ask in _ready(tree, request_class):
            yield ask
            if ask is not None:
                break


def _waits(tree: Tree, ask: Ask) -> bool:
    """True if an ask is pending, and no node is promised to it."""
    owner = tree.applications.get(ask.application)
    group = None if owner is None else owner.asks.get(ask.name)
    return group is not None and not group.alike.promised and any(first is ask for *_, first in group.asks[:1])


def _may_be_reserved(tree: Tree, name: str) -> bool:
    """True if a node may be reserved for an ask without victims."""
    node = tree.nodes.by_name.get(name)
    return (
        node is not None
        and not node.promises
        and (tree.terms.kept is None or name not in tree.terms.kept.amounts)
        and tree.closings.left(name, tree.now) >= SHORTEST
    )


def _most(vectors: Iterable[Vector]) -> dict[str, int]:
    """The greatest amounts of several vectors."""
    most: dict[str, int] = {}
    for room in vectors:
        for name, amount in room.items():
            most[name] = max(amount, most.get(name, 0))
    return most


def _known(node: Node, soon: Mapping[str, Vector]) -> dict[str, int]:
    """The amounts that are free or are known to become free: at most the total less the lasting amounts."""
    near = soon.get(node.name, {})
    return {
        name: min(node.room(name) + near.get(name, 0), total - node.lasting.get(name, 0))
        for name, total in node.total.items()
    }


def _best(tree: Tree, ask: Ask, places: Mapping[str, dict[str, int]]) -> str | None:
    """The place that lacks the least for an ask, as a share of the request, then the lowest name; None if the known
    room suffices nowhere."""
    best: tuple[Fraction, str] | None = None
    for name, known in places.items():
        node = tree.nodes.by_name.get(name)
        if node is None or node.promises:
            continue  # it has changed since it was looked at
        if not fits_request(ask.request, known) or not tree.nodes.is_admitted(ask.constraint, name):
            continue
        lacks = (share(max(0, amount - node.free.get(dimension, 0)), amount) for dimension, amount in ask.request)
        best = min(best or (Fraction(2), ""), (max(lacks, default=Fraction(0)), name))
    return None if best is None else best[1]


def expire(
    tree: Tree, now: float, soon: Mapping[str, Vector] = NOTHING, is_over: Callable[[], bool] = never
) -> list[Ask]:
    """Ends the promises that have lasted too long and whose victims are gone, and the reservations of nodes whose room
    is not known to become enough any more. Returns the asks of the former, and of reservations that have lasted too
    long. `now`, `soon`, `is_over`: as for `reserve`."""
    return tree.part("promises", now, lambda: _expiring(tree, soon), is_over)


def _expiring(tree: Tree, soon: Mapping[str, Vector]) -> Iterator[Ask | None]:
    """Yields the asks of `expire`; None between steps. The tree may change meanwhile."""
    tree.closings.settle(tree.nodes.reserving, tree.now)
    for node in list(tree.nodes.reserving.values()):
        for ask in list(node.reserving.values()):
            lasts = tree.closings.left(node.name, tree.now) > 0
            if lasts and fits_request(ask.request, _known(node, soon)):
                continue
            if not lasts:
                tree.applications[ask.application].pause(ask.request, tree.now, LONGEST)
            tree.forget_promise(ask.application, ask.name)
            if not lasts:
                yield ask
    tree.closings.settle(tree.nodes.reserving, tree.now)
    looked_at = 0
    for node in sorted(tree.nodes.promising.values(), key=lambda node: node.name):
        for ask in [ask for ask in node.promises.values() if ask.id not in node.reserving]:
            looked_at += 1
            if looked_at % LOOKED_AT == 0:
                yield None
            if ask.id not in node.promises or any(node.leaving.values()):
                continue
            owner = tree.applications[ask.application]
            if tree.now - owner.reserved_at.setdefault(ask.name, tree.now) >= LONGEST:
                owner.pause(ask.request, tree.now, LONGEST)
                owner.preempted_at[ask.name] = tree.now + LONGEST
                tree.forget_promise(ask.application, ask.name)
                yield ask


def take_node(tree: Tree, request_class: RequestClass) -> Preemption | None:
    """Takes the node that the first ask of a class needs: ends the reservations of others there, and preempts. Returns
    the preemption, which is noted in the tree; None if no allocations make enough room, or none are needed."""
    first = request_class.members.first()
    node = tree.nodes.by_name.get(request_class.alternative.required_node)
    if first is None or node is None:
        return None
    ask = first.asks[0][2]
    for other in list(node.promises.values()):
        if not other.required_node:
            tree.forget_promise(other.application, other.name)
    lacks = {name: amount - node.room(name) for name, amount in ask.request if amount > node.room(name)}
    losses = Losses(tree, ask.application)
    victims: list[Allocation] = []
    for order, allocation, _ in node.running:
        if not lacks:
            break
        other = allocation.ask
        if other.is_spared or order[3] in tree.leaving or other.priority > ask.priority:
            continue
        lost = Counter(victim.ask.application for victim in victims)
        working = Counter(victim.ask.application for victim in victims if victim.ask.id not in tree.idle)
        if losses.unit(allocation, lost, working) != (allocation,):
            continue
        if other.application == ask.application or not any(name in lacks for name, _ in other.request):
            continue
        victims.append(allocation)
        for name, amount in other.request:
            if name in lacks:
                lacks[name] -= amount
                if lacks[name] <= 0:
                    del lacks[name]
    if lacks or not victims or not tree.partition.preemption or not ask.may_preempt:
        return None
    preemption = Preemption(ask, node.name, tuple(victims), tree.root.name)
    tree.preempt(preemption)
    return preemption


def take_nodes(
    tree: Tree, without: Collection[str] = frozenset(), is_over: Callable[[], bool] = never
) -> list[Preemption]:
    """Takes the nodes that asks need, at most `TRIES` in a cycle. Returns the preemptions. `without`: applications that
    may not preempt. `is_over`: True once the time is over; the next call continues."""
    return tree.part("nodes", tree.now, lambda: _taking(tree, without), is_over)


def _taking(tree: Tree, without: Collection[str]) -> Iterator[Preemption | None]:
    """Yields the preemptions of `take_nodes`; None between steps. The tree may change meanwhile."""
    looked_at = number = 0
    for node in list(tree.nodes):
        for request_class in list(node.waiting) if node.waiting else ():
            looked_at += 1
            if looked_at % LOOKED_AT == 0:
                yield None
            first = request_class.members.first()
            if request_class.waits is not node.waiting or request_class.alternative.promised or first is None:
                continue
            if first.application.name in without or request_class.leaf.is_stopped:
                continue
            result = take_node(tree, request_class)
            if result is not None:
                number += 1
                yield result
            if number >= TRIES:
                return


def _ready(tree: Tree, request_class: RequestClass) -> Iterator[Ask | None]:
    """Yields the asks of a class that may reserve a node; None between steps."""
    for number, group in enumerate(groups_of(request_class), 1):
        if number % LOOKED_AT == 0:
            yield None
        if tree.terms.lacking.get(group.application.name, 0) > MOST:
            continue  # the gang could not get all its nodes
        created, _, ask = group.asks[0]
        if tree.now - created >= PATIENCE and not (group.application.pauses(ask.request, tree.now) or tree.serves(ask)):
            yield ask
