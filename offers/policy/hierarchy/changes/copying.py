"""A copy of a tree that shares only immutable values with the original."""

from __future__ import annotations

from offers.dimensions import amounts
from offers.policy.amounts import added, difference
from offers.policy.hierarchy.configuration.partition import QueueConfig
from offers.policy.hierarchy.state.application import Application
from offers.policy.hierarchy.state.queue import Queue
from offers.policy.hierarchy.tree import Tree


def copied(tree: Tree) -> Tree:
    """A tree in the same state. Decisions in the copy do not change the original."""
    copy = Tree(tree.partition, [(node.name, node.total) for node in tree.nodes], tree.nodes.admits)
    copy.allowance = tree.allowance
    for node in tree.nodes:
        other = copy.nodes.by_name[node.name]
        other.is_schedulable = node.is_schedulable
        used = added(*[dict(one.allocation.ask.request) for one in node.running])
        copy.nodes.use(node.name, amounts(difference(difference(node.total, node.free), used)), 1)
    for queue in tree.queues.values():
        _copy_queue(copy, queue)
    for application in tree.applications.values():
        _copy_application(copy, application)
    for victim in tree.leaving.values():
        copy.leave(victim)
    for node in tree.nodes:
        for ask in node.promises.values():
            copy.promise(ask.application, ask.name, node.name)
    for queue in tree.queues.values():
        copy.queues[queue.name].state = queue.state
    for leaf in copy.root.leaves():
        leaf.place_path()
    return copy


def _copy_queue(copy: Tree, queue: Queue) -> None:
    other = copy.queues.get(queue.name)
    if other is None:
        assert queue.parent is not None
        config: QueueConfig = queue.config._replace(queues=())
        other = copy.grow(config, copy.queues[queue.parent.name])
    other.max, other.guaranteed, other.is_temporary = queue.max, queue.guaranteed, queue.is_temporary
    other.above_since = queue.above_since
    other.resize(copy.total)


def _copy_application(copy: Tree, application: Application) -> None:
    other = Application(
        application.name, application.queue, application.submitted, application.user, application.user_groups
    )
    copy.submit(other, forced=True)
    for allocation in application.allocations.values():
        copy.recover(allocation)
    for group in application.groups.values():
        for _, _, ask in group.asks:
            copy.ask(ask)
    other.oldest = application.oldest
    other.preempted_at, other.reserved_at = dict(application.preempted_at), dict(application.reserved_at)
    copy.renew(other, other.priorities.greatest(), None)
