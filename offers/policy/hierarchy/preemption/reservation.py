"""Reservations: a node is held for an ask that no node has room for, until the room is there.

An ask that waits for a node, and is older than `PATIENCE`, reserves the node that lacks the least; one ask has one
reservation, one node holds one, and nothing else is placed on the node meanwhile. A reservation that is older than
`LONGEST` ends, and no ask of the application with the same request reserves a node for as long: otherwise such asks
would hold nodes one after the other, and smaller work would never be placed there. An ask that needs one node takes
the node at once: reservations of other asks on the node end, and allocations there that are not more important are
preempted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from fractions import Fraction

from offers.dimensions import share
from offers.policy.hierarchy.preemption.tries import TRIES
from offers.policy.hierarchy.state.application import RequestClass
from offers.policy.hierarchy.state.model import Allocation, Ask, Preemption
from offers.policy.hierarchy.state.nodes import Node
from offers.policy.hierarchy.tree import Tree

PATIENCE = 2.0
"""Seconds after which an ask reserves a node."""
LONGEST = 60.0
"""Seconds that a promise of a node lasts without victims that are still leaving, and the pause after a promise that
was not kept: of the request before the next reservation, and of the ask before the next try to preempt."""
MOST = 10
"""Reservations of asks without victims in a tree at a time: each keeps a node from all other work."""


def reserve(tree: Tree, now: float) -> list[Allocation]:
    """Makes the reservations that are due, and returns them: each ask with its node. `now` is seconds of the clock of
    the asks."""
    made: list[Allocation] = []
    held = sum(len(node.promises) for node in tree.nodes)
    for one in list(tree.nodes.waiting):
        if held + len(made) >= MOST:
            break
        if one.alternative.promised or one.leaf.is_stopped:
            continue
        ask = next(_ready(tree, one, now), None)
        node = best(tree, ask) if ask is not None else None
        if ask is not None and node is not None:
            owner = tree.applications[ask.application]
            owner.reserved_at[ask.name] = now
            tree.promise(ask.application, ask.name, node.name, reserves=True)
            made.append(Allocation(ask, node.name))
    return made


def best(tree: Tree, ask: Ask) -> Node | None:
    """The node that lacks the least for an ask, as a share of the request, then the lowest name; None if no node
    is large enough and free of promises."""
    found: tuple[Fraction, str] | None = None
    for node in tree.nodes:
        if node.promises or not node.is_schedulable or not tree.nodes.is_admitted(ask.constraint, node.name):
            continue
        if any(amount > node.total.get(name, 0) for name, amount in ask.request):
            continue
        lacks = (share(max(0, amount - node.free.get(name, 0)), amount) for name, amount in ask.request)
        found = min(found or (Fraction(2), ""), (max(lacks, default=Fraction(0)), node.name))
    return None if found is None else tree.nodes.by_name[found[1]]


def expire(tree: Tree, now: float) -> list[Ask]:
    """Ends the promises that have lasted too long and whose victims are gone. Returns their asks. `now` is seconds."""
    ended: list[Ask] = []
    for node in tree.nodes:
        if not node.promises or any(node.leaving.values()):
            continue
        for ask in list(node.promises.values()):
            owner = tree.applications[ask.application]
            if now - owner.reserved_at.setdefault(ask.name, now) >= LONGEST:
                owner.pause(ask.request, now, LONGEST)
                if ask.name not in owner.reserves:
                    owner.preempted_at[ask.name] = now + LONGEST
                tree.forget_promise(ask.application, ask.name)
                ended.append(ask)
    return ended


def take_node(tree: Tree, one: RequestClass) -> Preemption | None:
    """Takes the node that the first ask of a class needs: ends the reservations of others there, and preempts. Returns
    the preemption, which is noted in the tree; None if no allocations make enough room, or none are needed."""
    first = one.members.first()
    node = tree.nodes.by_name.get(one.alternative.required_node)
    if first is None or node is None:
        return None
    ask = first.asks[0][2]
    for other in list(node.promises.values()):
        if not other.required_node:
            tree.forget_promise(other.application, other.name)
    lacks = {name: amount - node.room(name) for name, amount in ask.request if amount > node.room(name)}
    victims: list[Allocation] = []
    for order, allocation, _ in node.running:
        if not lacks:
            break
        other = allocation.ask
        if other.required_node or order[3] in tree.leaving or other.priority > ask.priority:
            continue
        lost = sum(victim.ask.application == other.application for victim in victims)
        if tree.allowance is not None and tree.allowance(other.application) <= lost:
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
    found = Preemption(ask, node.name, tuple(victims), tree.root.name)
    tree.preempt(found)
    return found


def take_nodes(tree: Tree, without: Collection[str] = frozenset()) -> list[Preemption]:
    """Takes the nodes that asks need, at most `TRIES` in a cycle. Returns the preemptions. `without`: applications that
    may not preempt."""
    found: list[Preemption] = []
    waiting = [
        one
        for node in tree.nodes
        for one in list(node.waiting)
        if one.alternative.required_node and not one.alternative.promised
    ]
    for one in waiting:
        first = one.members.first()
        if first is None or first.application.name in without:
            continue
        if len(found) < TRIES and not one.leaf.is_stopped:
            result = take_node(tree, one)
            if result is not None:
                found.append(result)
    return found


def _ready(tree: Tree, one: RequestClass, now: float) -> Iterator[Ask]:
    for group in one.members:
        if tree.lacking.get(group.application.name, 0) > MOST:
            continue  # the gang could not get all its nodes
        created, _, ask = group.asks[0]
        if now - created >= PATIENCE and not group.application.pauses(ask.request, now):
            yield ask
