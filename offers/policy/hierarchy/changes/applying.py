"""Gives a tree another configuration while applications run.

Queues that are no longer configured drain and are removed when they are empty; queues that return are active again.
Running tasks continue: a lower maximum only keeps new work away, and quota preemption may take the excess.
"""

from __future__ import annotations

from offers.errors import BadDocument, Problem
from offers.policy.hierarchy.changes.copying import Steps, finished
from offers.policy.hierarchy.configuration.partition import Partition, QueueConfig
from offers.policy.hierarchy.queues import prune, renew, retire
from offers.policy.hierarchy.state.limits import Trackers
from offers.policy.hierarchy.state.queue import Queue, QueueState
from offers.policy.hierarchy.tree import Tree


class CannotChange(BadDocument):
    """A configuration does not suit the applications that exist. The paths are full names of queues."""


def apply(tree: Tree, partition: Partition) -> list[str]:
    """Gives a tree another configuration. Returns the full names of the queues that drain from now on. Raises
    CannotChange, with the tree unchanged, if a queue with applications would become a parent, or a queue above
    applications a leaf."""
    return finished(applying(tree, partition))


def applying(tree: Tree, partition: Partition) -> Steps[list[str]]:
    """Like `apply`, in steps. The tree must not be used between the steps."""
    problems = list(conflicts(partition.root, tree.root))
    if problems:
        raise CannotChange(problems)
    yield from _forget_order(tree)
    tree.partition = partition
    tree.safe.clear()
    tree.nodes.reorder(partition.node_order, partition.weights)
    yield
    draining: list[str] = []
    _update(tree, partition.root, tree.root, draining)
    for queue in list(tree.queues.values()):
        if queue.name in tree.queues:
            prune(tree, queue)
    for queue in tree.queues.values():
        renew(queue)
        queue.resize(tree.total)
    yield from _renew_limits(tree)
    yield from _renew_order(tree)
    return [name for name in draining if name in tree.queues]


def conflicts(config: QueueConfig, queue: Queue) -> list[Problem]:
    """The reasons for which a configuration does not suit the applications of a queue and of those below."""
    found: list[Problem] = []
    if queue.is_leaf and config.is_parent and queue.applications:
        found.append(Problem(queue.name, f"becomes a parent, but has {len(queue.applications)} applications"))
    if not queue.is_leaf and not config.is_parent and any(leaf.applications for leaf in queue.leaves()):
        found.append(Problem(queue.name, "becomes a leaf, but queues below have applications"))
    for child in config.queues:
        if child.name in queue.children:
            found += conflicts(child, queue.children[child.name])
    return found


def _forget_order(tree: Tree) -> Steps[None]:
    """Takes all requests out of their classes: keys of two configurations do not compare."""
    for leaf in tree.root.leaves():
        for application in leaf.applications.values():
            for group in application.groups.values():
                group.place(None)
            yield
        for one in list(leaf.classes.values()):
            leaf.place_class(one)
        leaf.place_path()


def _update(tree: Tree, config: QueueConfig, queue: Queue, draining: list[str]) -> None:
    was_retired = queue.is_temporary and queue.state is QueueState.DRAINING
    queue.config, queue.guaranteed, queue.is_temporary = config, config.guaranteed, False
    if queue.parent is not None:
        queue.max = config.max
    if was_retired:
        queue.state = QueueState.ACTIVE
    wanted = {child.name: child for child in config.queues}
    for name, child in list(queue.children.items()):
        if name not in wanted and not child.is_temporary:
            for one in (child, *_below(child)):
                if not one.is_temporary:
                    retire(one)
                    draining.append(one.name)
    for name, entry in wanted.items():
        if name in queue.children:
            _update(tree, entry, queue.children[name], draining)
        else:
            tree.grow(entry, queue)


def _below(queue: Queue) -> list[Queue]:
    return [one for child in queue.children.values() for one in (child, *_below(child))]


def _renew_limits(tree: Tree) -> Steps[None]:
    tree.trackers = Trackers()
    for application in tree.applications.values():
        application.trackers = tree.trackers.of(tree.queues[application.queue], application)
        for tracker in application.trackers:
            tracker.running += bool(application.allocations)
            tracker.use(tuple(application.allocated.items()), 1)
        yield


def _renew_order(tree: Tree) -> Steps[None]:
    tree.version += 1
    for application in tree.applications.values():
        application.key = ()
        tree.renew(application, application.priorities.greatest(), None)
        yield
    for leaf in tree.root.leaves():
        leaf.place_path()
