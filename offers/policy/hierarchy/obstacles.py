"""The obstacles that keep asks waiting although their queue is below its guarantee, for users."""

from __future__ import annotations

from math import inf

from offers.policy.hierarchy.explanation import cause_in_queues
from offers.policy.hierarchy.preemption.preemption import has_victims, last_try
from offers.policy.hierarchy.preemption.reservation import reservations
from offers.policy.hierarchy.state.application import Group
from offers.policy.hierarchy.state.queue import QueueState, goal_of
from offers.policy.hierarchy.tree import Tree
from offers.policy.obstacles import Attempt, Obstacle, Tally, in_vain


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
