"""Promises: the nodes that a tree holds for asks until there is room.

The victims of an ask leave one node, and the node is promised to the ask. Two kinds of room are promised beside that:

*Room that the allocations of a queue give back while the queue is below its guarantee* (`regain`). An allocation that
fails leaves its queue below the guarantee. Asks of the queue that may preempt would choose victims at once, although
room comes back. So the node is promised to an ask of the same application, or else to the first ask of the queue that
may preempt. Reservations of other asks on the node end: an allocation that they bring there would be preempted
afterwards.

*Rooms of victims that are promised to no ask* (`renew`). A promise ends without its room in three cases. A new leader
has a new tree: the records of the evictions name the application that gets the room of a victim, not the ask. An ask
may find room on another node earlier. And the operation of an ask may end: its update is cancelled, or its time is
over. Without another promise, the next ask would choose another victim, although room comes already, and other work
would take the room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import NamedTuple

from offers.ledger.holds import LONGEST, RETRY
from offers.policy.hierarchy.preemption.preemption import TRIES, delay_of, first_key, has_victims, waiting_asks
from offers.policy.hierarchy.state.application import Application
from offers.policy.hierarchy.state.blocks import fits_request
from offers.policy.hierarchy.state.model import Allocation, Ask
from offers.policy.hierarchy.state.nodes import Node
from offers.policy.hierarchy.state.queue import Queue, is_owed
from offers.policy.hierarchy.tree import Tree

NOTHING: Mapping[str, int] = {}

# --- promises that are made again -------------------------------------------------------------------------------------


class Promise(NamedTuple):
    """An ask to which a node is promised. `tried`, `reserved`: the moments of the latest try to preempt, and from which
    the promise is counted, seconds; None: there was none. `reserves`: the ask has not preempted."""

    ask: Ask
    node: str
    tried: float | None = None
    reserved: float | None = None
    reserves: bool = False


def promises(tree: Tree) -> list[Promise]:
    """The promises of a tree."""
    promising = sorted(tree.nodes.promising.items())
    return [_promise(tree, ask, name) for name, node in promising for ask in node.promises.values()]


def promises_to(tree: Tree, application: str) -> list[Promise]:
    """The promises to the asks of an application. Raises KeyError for an unknown one."""
    promised = [group for group in tree.applications[application].groups.values() if group.alike.promised]
    return [_promise(tree, ask, group.alike.promised) for group in promised for _, _, ask in group.asks]


def _promise(tree: Tree, ask: Ask, node: str) -> Promise:
    owner = tree.applications[ask.application]
    tried, reserved = owner.preempted_at.get(ask.name), owner.reserved_at.get(ask.name)
    return Promise(ask, node, tried, reserved, ask.name in owner.reserves)


def promise_again(tree: Tree, kept: Iterable[Promise]) -> None:
    """Renews promises, except those to asks that are gone or have another promise, and those of nodes that are gone."""
    for ask, node, tried, reserved, reserves in kept:
        owner = tree.applications.get(ask.application)
        group = owner.asks.get(ask.name) if owner is not None else None
        if owner is None or group is None or group.alike.promised or node not in tree.nodes.by_name:
            continue
        if tried is not None:
            owner.preempted_at[ask.name] = tried
        if reserved is not None:
            owner.reserved_at[ask.name] = reserved
        tree.promise(ask.application, ask.name, node, reserves=reserves)


def hand_over(tree: Tree, before: Iterable[Promise], asks: Iterable[Ask]) -> list[Promise]:
    """Passes promises on from asks that are gone to asks of the same application with equal requests and constraints.
    `before`: the promises before the asks went; `asks`: the asks that came; the first one is served first. Promises for
    which there is no such ask end; those with victims are returned. An ask that came in the place of one of the same
    name has its promise."""
    rest, ended = list(asks), list[Promise]()
    for promise in before:
        gone = promise.ask
        if gone.name in tree.applications[gone.application].asks:
            promise_again(tree, [promise])
            continue
        alike = (ask for ask in rest if (ask.request, ask.constraint) == (gone.request, gone.constraint))
        taker = next(alike, None)
        if taker is not None:
            rest.remove(taker)
            promise_again(tree, [promise._replace(ask=taker)])
        elif not promise.reserves:
            ended.append(promise)
    return ended


# --- room that is given back ------------------------------------------------------------------------------------------


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
                candidates[leaf] = [candidate for candidate in candidates[leaf] if candidate is not ask]
                give(tree, node, ask)
                made.append(Allocation(ask, node.name))
                break
    return made


def _own(tree: Tree, application: str) -> Iterator[Ask]:
    """Yields the first asks of an application that is no gang."""
    owner = tree.applications.get(application)
    if owner is not None and tree.terms.lacking.get(application, 0) <= 1:
        yield from first_asks(owner)


def first_asks(owner: Application) -> Iterator[Ask]:
    """Yields the first ask of each group of an application that has no victims."""
    for group in list(owner.groups.values()):
        yield from islice((ask for _, name, ask in group.asks if not has_victims(group, name)), 1)


def waiting(tree: Tree, leaf: Queue, now: float) -> Iterator[Ask]:
    """Yields the first asks of each class of a leaf that have waited long enough to preempt, and have no victims.
    `now`: seconds of the clock of the asks."""
    for request_class in sorted(
        (request_class for request_class in leaf.classes.values() if request_class.members.first() is not None),
        key=first_key,
    ):
        yield from islice(waiting_asks(tree, request_class, now - delay_of(leaf)), TRIES)


def _is_short(leaf: Queue, ask: Ask) -> bool:
    """True if no queue exceeds its maximum with an ask, and the nearest one with a guarantee does not exceed that."""
    return is_owed(leaf, ask.request) and not any(queue.excess(ask.request) for queue in leaf.path)


def has_room(node: Node, request: Iterable[tuple[str, int]], beside: Mapping[str, int] = NOTHING) -> bool:
    """True if a node has room for a request once its victims have left and the reservations there have ended. `beside`:
    kept room that counts too, below 0 if it is not for the request (`Tree.beside`)."""
    return all(node.room(name) + beside.get(name, 0) >= amount for name, amount in request)


def may_take(tree: Tree, leaf: Queue, ask: Ask, node: Node) -> bool:
    """True if a node suits an ask and has room for it, and no queue exceeds its guarantee or a maximum with the ask.
    Room that old work still lacks there is for those that outrank it."""
    return (
        ask.required_node in ("", node.name)
        and _is_short(leaf, ask)
        and tree.nodes.is_admitted(ask.constraint, node.name)
        and tree.limit_of(tree.applications[ask.application], ask.request) is None
        and has_room(node, ask.request, tree.beside(leaf, ask).get(node.name, NOTHING))
    )


def give(tree: Tree, node: Node, ask: Ask) -> None:
    """Promises a node to an ask. The reservations of the node end, and that of the ask."""
    for holder in (*node.reserving.values(), ask):
        if holder.name in tree.applications[holder.application].reserves:
            tree.forget_promise(holder.application, holder.name)
    tree.promise(ask.application, ask.name, node.name)


# --- room of victims without a promise --------------------------------------------------------------------------------


def always(_: str) -> bool:
    """The room of every node is known."""
    return True


class Vacated(NamedTuple):
    """The room of a victim: the application that gets the room, and the node. `since`: the moment from which the tree
    expects the room, for `LONGEST`; seconds of the clock of the asks. `until`: before this moment the time does not
    pass while the node cannot show the room."""

    application: str
    node: str
    since: float
    until: float = 0.0


def renew(
    tree: Tree, vacated: Iterable[Vacated], now: float, is_shown: Callable[[str], bool] = always
) -> list[Vacated]:
    """Promises the nodes of victims to asks of the applications that get the room, or else of their queues, as far as
    the guarantees of the queues go. Returns the victims whose node or room is not there yet, and is still expected.
    For each of them that is younger than `RETRY`, one ask does not preempt. `now`: seconds of the clock of the asks.
    `is_shown`: True if the free room of a node is known."""
    candidates: dict[Queue, list[Ask]] = {}
    rest = [
        _awaited(tree, vacated_node, now, is_shown)
        for vacated_node in vacated
        if not _renewed(tree, vacated_node, candidates, now)
    ]
    missing = [vacated_node for vacated_node in rest if now - vacated_node.since < LONGEST]
    young = Counter(vacated_node.application for vacated_node in missing if now - vacated_node.since < RETRY)
    for name in young.keys() & tree.applications.keys():
        owner = tree.applications[name]
        for ask in islice(_without_victims(owner), young[name]):
            owner.preempted_at.setdefault(ask.name, now)
    return missing


def _awaited(tree: Tree, vacated: Vacated, now: float, is_shown: Callable[[str], bool]) -> Vacated:
    """The same room; its time begins now if something still leaves the node, as for a promise, or if the room cannot be
    known."""
    node = tree.nodes.by_name.get(vacated.node)
    leaves = node is not None and any(node.leaving.values())
    if leaves or (now < vacated.until and not is_shown(vacated.node)):
        return vacated._replace(since=now)
    return vacated


def _renewed(tree: Tree, vacated: Vacated, candidates: dict[Queue, list[Ask]], now: float) -> bool:
    """Promises the node of a victim to an ask; False if there is no node, no room or no such ask. `candidates`: asks
    that have waited long enough to preempt, by leaf; filled when they are needed."""
    owner, node = tree.applications.get(vacated.application), tree.nodes.by_name.get(vacated.node)
    if owner is None or node is None or not tree.partition.preemption:
        return False
    leaf = tree.queues[owner.queue]
    if leaf.is_stopped or all(node.room(name) <= 0 for name in node.total):
        return False
    if leaf not in candidates:
        candidates[leaf] = list(waiting(tree, leaf, now))
    for ask in chain(first_asks(owner), candidates[leaf]):
        if has_victims(tree.applications[ask.application].asks[ask.name], ask.name):
            continue
        if may_take(tree, leaf, ask, node):
            give(tree, node, ask)
            return True
    return False


def _without_victims(owner: Application) -> Iterator[Ask]:
    """Yields the asks that have no victims."""
    return (ask for group in owner.groups.values() for _, name, ask in group.asks if not has_victims(group, name))
