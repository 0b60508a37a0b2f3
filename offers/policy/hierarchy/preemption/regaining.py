"""Room that the allocations of a queue give back while the queue is below its guarantee.

An allocation that fails leaves its queue below the guarantee. Asks of the queue that may preempt would choose victims
at once, although room comes back. So the node is promised to an ask of the same application, or else to the first ask
of the queue that may preempt. Reservations of other asks on the node end: an allocation that they bring there would be
preempted afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice

from offers.policy.hierarchy.preemption.tries import TRIES, delay_of, first_key, has_victims, waiting_asks
from offers.policy.hierarchy.state.application import Application
from offers.policy.hierarchy.state.blocks import fits_request
from offers.policy.hierarchy.state.model import Allocation, Ask
from offers.policy.hierarchy.state.nodes import Node
from offers.policy.hierarchy.state.queue import Queue, is_owed
from offers.policy.hierarchy.tree import Tree


def regain(tree: Tree, ended: Iterable[tuple[Queue, Allocation]], now: float) -> list[Allocation]:
    """Promises the nodes of allocations that have ended and were not preempted to asks of their leaves. `ended`: leaves
    with their allocations; the node has the room, or the allocation is leaving. `now`: seconds of the clock of the
    asks. Returns the asks with their nodes."""
    made: list[Allocation] = []
    candidates: dict[Queue, list[Ask]] = {}
    for leaf, allocation in ended if tree.partition.preemption else ():
        node, request = tree.nodes.by_name.get(allocation.node), allocation.ask.request
        if node is None or leaf.is_stopped or not _is_short(leaf, allocation.ask) or not has_room(node, request):
            continue
        if leaf not in candidates:
            candidates[leaf] = list(waiting(tree, leaf, now))
        room = dict(request)
        for ask in chain(_own(tree, allocation.ask.application), candidates[leaf]):
            if fits_request(ask.request, room) and may_take(tree, leaf, ask, node):
                candidates[leaf] = [one for one in candidates[leaf] if one is not ask]
                give(tree, node, ask)
                made.append(Allocation(ask, node.name))
                break
    return made


def _own(tree: Tree, application: str) -> Iterator[Ask]:
    """Yields the first asks of an application that is no gang."""
    found = tree.applications.get(application)
    if found is not None and tree.lacking.get(application, 0) <= 1:
        yield from first_asks(found)


def first_asks(owner: Application) -> Iterator[Ask]:
    """Yields the first ask of each group of an application that has no victims."""
    for group in list(owner.groups.values()):
        yield from islice((ask for _, name, ask in group.asks if not has_victims(group, name)), 1)


def waiting(tree: Tree, leaf: Queue, now: float) -> Iterator[Ask]:
    """Yields the first asks of each class of a leaf that have waited long enough to preempt, and have no victims.
    `now`: seconds of the clock of the asks."""
    for one in sorted((one for one in leaf.classes.values() if one.members.first() is not None), key=first_key):
        yield from islice(waiting_asks(tree, one, now - delay_of(leaf)), TRIES)


def _is_short(leaf: Queue, ask: Ask) -> bool:
    """True if no queue exceeds its maximum with an ask, and the nearest one with a guarantee does not exceed that."""
    return is_owed(leaf, ask.request) and not any(queue.excess(ask.request) for queue in leaf.path)


def has_room(node: Node, request: Iterable[tuple[str, int]]) -> bool:
    """True if a node has room for a request once its victims have left and the reservations there have ended."""
    return node.is_schedulable and all(node.room(name) >= amount for name, amount in request)


def may_take(tree: Tree, leaf: Queue, ask: Ask, node: Node) -> bool:
    """True if a node suits an ask, and no queue exceeds its guarantee or a maximum with the ask."""
    return (
        ask.required_node in ("", node.name)
        and _is_short(leaf, ask)
        and tree.nodes.is_admitted(ask.constraint, node.name)
        and tree.limit_of(tree.applications[ask.application], ask.request) is None
    )


def give(tree: Tree, node: Node, ask: Ask) -> None:
    """Promises a node to an ask. The reservations of the node end, and that of the ask."""
    for one in (*node.reserving.values(), ask):
        if one.name in tree.applications[one.application].reserves:
            tree.forget_promise(one.application, one.name)
    tree.promise(ask.application, ask.name, node.name)
