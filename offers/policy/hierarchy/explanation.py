"""The cause that holds a pending ask back, and the obstacles that keep asks waiting although their queue is below its
guarantee, for users."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from offers.dimensions import Amounts, amounts
from offers.policy.amounts import difference
from offers.policy.hierarchy.preemption.preemption import has_victims, last_try
from offers.policy.hierarchy.preemption.reservation import reservations
from offers.policy.hierarchy.state.application import Group
from offers.policy.hierarchy.state.queue import Queue, QueueState, goal_of
from offers.policy.hierarchy.tree import Tree
from offers.policy.obstacles import Attempt, Obstacle, Tally, in_vain
from offers.policy.waiting import WaitCode


class Cause(NamedTuple):
    """The cause of a wait. `where`: the full name of a queue, or the name of a node; empty for `TURN` and `NODES`.
    `whose`: the user or the group of a limit, else empty. `lacks`: the amounts by which the request exceeds the
    rest; empty if the cause is none of amounts. `limit`: the number of applications of a limit of applications; None
    for other causes."""

    kind: WaitCode
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
            return Cause(WaitCode.TURN)
        if not alike.required_node and tree.nodes.find(alike.request, alike.constraint) is not None:
            return Cause(WaitCode.TURN)
        there = tree.nodes.by_name.get(only)
        free = {} if there is None else there.free if alike.promised else there.open
        kind = WaitCode.PROMISED_NODE if alike.promised else WaitCode.REQUIRED_NODE
        return Cause(kind, only, lacks=_lacks(alike.request, free))
    if tree.nodes.find(alike.request, alike.constraint) is None:
        return Cause(WaitCode.NODES)
    return Cause(WaitCode.TURN)


def cause_in_queues(tree: Tree, application: str, name: str) -> Cause | None:
    """The queue or limit for which a pending ask waits; None if no queue below root and no limit holds it back. Costs
    with the depth of the tree. Raises KeyError if there is no such ask."""
    owner = tree.applications[application]
    request, leaf = owner.asks[name].alike.request, tree.queues[owner.queue]

    def bounded(queue: Queue) -> Amounts:
        return tuple(entry for entry in request if entry[0] in queue.max)

    for queue in leaf.path:
        most = queue.config.max_applications
        if queue.state is QueueState.STOPPED:
            return Cause(WaitCode.QUEUE_STOPPED, queue.name)
        if not owner.allocations and most is not None and queue.running >= most:
            return Cause(WaitCode.QUEUE_APPLICATIONS, queue.name, limit=most)
        if queue.exceeded(request):
            return Cause(WaitCode.QUEUE_MAXIMUM, queue.name, lacks=_lacks(bounded(queue), queue.headroom()))
        if not owner.asks[name].alike.promised and queue.exceeded_beside_promises(request):
            later = {resource: most - queue.expected(resource) for resource, most in queue.max.items()}
            return Cause(WaitCode.QUEUE_KEPT, queue.name, lacks=_lacks(bounded(queue), later))
    kept, withheld = tree.terms.kept, tree.withheld(owner, owner.asks[name])
    if kept is not None and withheld is not None:
        lacks = _lacks(bounded(withheld), difference(withheld.headroom(), kept.sums()))
        return Cause(WaitCode.QUEUE_KEPT, withheld.name, lacks=lacks)
    for tracker in owner.trackers:
        waiting = tracker.refuses(request, bool(owner.allocations))
        if waiting is tracker.waiting_new:
            return Cause(WaitCode.LIMIT_APPLICATIONS, tracker.queue, tracker.name, limit=tracker.limit.max_applications)
        if waiting is not None:
            named = tuple(entry for entry in request if entry[0] in tracker.limit.max_resources)
            return Cause(WaitCode.LIMIT_RESOURCES, tracker.queue, tracker.name, _lacks(named, tracker.headroom()))
    return None


def _lacks(request: Amounts, room: dict[str, int]) -> Amounts:
    return amounts({name: amount - room.get(name, 0) for name, amount in request if amount > room.get(name, 0)})


def attempt_of(tree: Tree, application: str, now: float) -> Attempt | None:
    """The latest attempt to make room for the asks of an application; None if none was due: a queue or limit holds them
    back, or the queue is not below its guarantee and no reservation keeps them from a node. `now`: seconds of the clock
    of the asks. Costs with the depth of the tree and the number of reservations. Raises KeyError for an unknown
    application."""
    owner = tree.applications[application]
    waiting = [(group, name) for group in owner.groups.values() for _, name, _ in group.asks[:1]]
    group, name = min(waiting, key=lambda waiter: has_victims(*waiter), default=(None, ""))
    if group is None or cause_in_queues(tree, application, name) is not None or group.alike.required_node:
        return None
    leaf = tree.queues[owner.queue]
    request = group.alike.request
    if has_victims(group, name):
        node = tree.nodes.by_name.get(group.alike.promised)
        leaving = 0 if node is None else sum(order[3] in tree.leaving for order, _, _ in node.running)
        began = owner.reserved_at.get(name, now)
        return Attempt(began, evicted=leaving, agent=group.alike.promised)
    if reserved := _reserved(tree, group, now):
        return reserved.attempt(now)
    goal = goal_of(leaf, [dimension for dimension, amount in request if amount > 0])
    below = goal is not None and any(
        goal.expected(dimension) < goal.guaranteed[dimension]
        for dimension, amount in request
        if amount and dimension in goal.guaranteed
    )
    if not below:
        return None
    assert goal is not None
    if not tree.partition.preemption or tree.root.state is QueueState.STOPPED or not group.alike.may_preempt:
        return in_vain(now, Obstacle.NOT_ALLOWED)
    if goal is leaf and not leaf.stays_within_guarantee(request):
        return in_vain(now, Obstacle.OWN_GUARANTEE, [leaf.name])
    paused = owner.preempted_at.get(name, -inf)
    if paused > now:
        return in_vain(now, Obstacle.PAUSED, until=paused)
    attempt = last_try(tree, application, name, now)
    return None if attempt is None or attempt.evicted else attempt  # the victims of another ask, or they were not ended


def _reserved(tree: Tree, group: Group, now: float) -> Tally:
    """The reservations of other applications that alone keep an ask from nodes with room."""
    tally = Tally()
    if not tree.nodes.reserving:
        return tally
    for reservation in reservations(tree, now):
        node = tree.nodes.by_name[reservation.node]
        fits = all(amount <= node.free.get(name, 0) for name, amount in group.alike.request)
        if reservation.ask.application == group.application.name or not fits:
            continue
        if tree.nodes.is_admitted(group.alike.constraint, node.name):
            tally.count(Obstacle.RESERVED, 1, reservation.ask.application, reservation.until)
    return tally
