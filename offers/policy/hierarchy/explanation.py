"""The cause that holds a pending ask back, and the change that would end the wait."""

from __future__ import annotations

from typing import NamedTuple

from offers.dimensions import Amounts, amounts
from offers.policy.hierarchy.state.queue import QueueState
from offers.policy.hierarchy.tree import Tree
from offers.policy.holds import Hold


class Cause(NamedTuple):
    """The cause of a wait. `where`: the full name of a queue, or the name of a node; empty for `TURN` and `NODES`.
    `whose`: the user or the group of a limit, else empty. `lacks`: the amounts by which the request exceeds the
    rest; empty if the cause is none of amounts. `limit`: the number of applications of a limit of applications; None
    for other causes."""

    kind: Hold
    where: str = ""
    whose: str = ""
    lacks: Amounts = ()
    limit: int | None = None


def cause_of(tree: Tree, application: str, name: str) -> Cause:
    """The first cause that holds a pending ask back, from the leaf upwards and then to the nodes. Raises KeyError if
    there is no such ask."""
    owner = tree.applications[application]
    alike = owner.asks[name].alike
    cause = cause_in_queues(tree, application, name)
    if cause is not None:
        return cause
    if alike.promised or alike.required_node:
        only = alike.promised or alike.required_node
        if tree.nodes.has_room(only, alike.request, alike.constraint, in_turn=not alike.promised) is not None:
            return Cause(Hold.TURN)
        if not alike.required_node and tree.nodes.find(alike.request, alike.constraint) is not None:
            return Cause(Hold.TURN)
        there = tree.nodes.by_name.get(only)
        free = {} if there is None else there.free if alike.promised else there.open
        kind = Hold.PROMISED_NODE if alike.promised else Hold.REQUIRED_NODE
        return Cause(kind, only, lacks=_lacks(alike.request, free))
    if tree.nodes.find(alike.request, alike.constraint) is None:
        return Cause(Hold.NODES)
    return Cause(Hold.TURN)


def cause_in_queues(tree: Tree, application: str, name: str) -> Cause | None:
    """The queue or limit for which a pending ask waits; None if no queue below root and no limit holds it back. Costs
    with the depth of the tree. Raises KeyError if there is no such ask."""
    owner = tree.applications[application]
    request, leaf = owner.asks[name].alike.request, tree.queues[owner.queue]
    for queue in leaf.path:
        most = queue.config.max_applications
        if queue.state is QueueState.STOPPED:
            return Cause(Hold.QUEUE_STOPPED, queue.name)
        if not owner.allocations and most is not None and queue.running >= most:
            return Cause(Hold.QUEUE_APPLICATIONS, queue.name, limit=most)
        if queue.parent is not None and queue.exceeded(request):  # the maximum of root is the room of all nodes
            named = tuple(entry for entry in request if entry[0] in queue.max)
            return Cause(Hold.QUEUE_MAXIMUM, queue.name, lacks=_lacks(named, queue.room()))
    for tracker in owner.trackers:
        waiting = tracker.refuses(request, bool(owner.allocations))
        if waiting is tracker.waiting_new:
            return Cause(Hold.LIMIT_APPLICATIONS, tracker.queue, tracker.name, limit=tracker.limit.max_applications)
        if waiting is not None:
            named = tuple(entry for entry in request if entry[0] in tracker.limit.max_resources)
            return Cause(Hold.LIMIT_RESOURCES, tracker.queue, tracker.name, _lacks(named, tracker.room()))
    return None


def _lacks(request: Amounts, room: dict[str, int]) -> Amounts:
    return amounts({name: amount - room.get(name, 0) for name, amount in request if amount > room.get(name, 0)})
