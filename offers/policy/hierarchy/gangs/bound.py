"""A bound for the number of asks that could be placed: a gang above the bound needs no attempt.

An attempt places all asks of a gang, and sets them aside if there are too few places. The bound costs as much as the
search for one node, and at most one look at each node.
"""

from __future__ import annotations

from itertools import chain

from offers.dimensions import Amounts
from offers.policy.amounts import Vector
from offers.policy.hierarchy.state.application import Alike, Application
from offers.policy.hierarchy.tree import Tree


def most_that_fit(tree: Tree, application: Application, needed: int) -> int:
    """At least the number of pending asks of an application that could be placed now, where only numbers below `needed`
    are exact bounds: more is not counted. Each group of equal asks is counted as if all room were left to the group."""
    rooms = [queue.room() for queue in tree.queues[application.queue].path]
    rooms += [tracker.room() for tracker in application.trackers]
    number = 0
    for alike, group in application.groups.items():
        most = min(len(group.asks), needed - number)
        for room in rooms:
            most = _times(room, alike.request, most)
        number += most if alike.promised else _on_nodes(tree, alike, most)
        if number >= needed:
            break
    return number


def _on_nodes(tree: Tree, alike: Alike, most: int) -> int:
    """At least the number of asks for which the nodes have room; `most` at most."""
    request, constraint = alike.request, alike.constraint
    if alike.required_node:
        node = tree.nodes.has_room(alike.required_node, request, constraint)
        return 0 if node is None else _times(node.free, request, most)
    number = 0
    # A promise may end with a place for its ask within the same run: all free room of such nodes counts.
    held = (node for node in tree.nodes if node.promises)
    plain = (node for node in tree.nodes.ordered.fitting(request) if not node.promises)
    for node in chain(plain, held):
        if number >= most:
            break
        if tree.nodes.is_admitted(constraint, node.name):
            number += _times(node.free, request, most - number)
    return number


def _times(room: Vector, request: Amounts, most: int) -> int:
    """The number of times that a request fits a room, `most` at most. Resources that the room does not name have no
    limit."""
    for name, amount in request:
        if amount > 0 and name in room:
            most = min(most, max(room[name] // amount, 0))
    return most
