"""Queues that come and go: placement rules create them for applications, and they leave when they are empty."""

from __future__ import annotations

from offers.policy.hierarchy.configuration.partition import NONE, QueueConfig, Template
from offers.policy.hierarchy.placement import Submission, nearest, queue_for
from offers.policy.hierarchy.state.application import Application
from offers.policy.hierarchy.state.queue import Queue, QueueState
from offers.policy.hierarchy.tree import Tree


def place(tree: Tree, name: str, submitted: float, given: Submission) -> Application:
    """Submits an application to the queue that the placement rules give, which is created if a rule says so, and
    returns the application. `submitted`: seconds of the clock of the asks. Raises NotPlaced if no queue takes the
    application, ValueError if its name is known."""
    if name in tree.applications:
        raise ValueError(f"application {name}: exists already")
    queue = queue_for(tree.queues, tree.partition.rules, given)
    if queue not in tree.queues:
        create(tree, queue)
    application = Application(name, queue, submitted, given.user, given.groups)
    tree.submit(application, forced=given.forced)
    return application


def create(tree: Tree, name: str) -> Queue:
    """Creates a temporary leaf with the full name, and the parents that are missing, and returns the leaf. The leaf
    gets the child template of the nearest queue above that has one. Raises ValueError if a leaf is above."""
    above = nearest(tree.queues, name)
    if above.is_leaf:
        raise ValueError(f"queue {name}: {above.name} is a leaf")
    missing = name.removeprefix(f"{above.name}.").split(".")
    for part in missing[:-1]:
        above = tree.grow(QueueConfig(part, is_parent=True), above)
        above.is_temporary = True
    leaf = tree.grow(_templated(missing[-1], above), above)
    leaf.is_temporary = True
    return leaf


def _templated(name: str, above: Queue) -> QueueConfig:
    """The configuration of a created leaf below a queue."""
    template = next((queue.config.template for queue in above.path if queue.config.template is not None), Template())
    return QueueConfig(
        name,
        guaranteed=template.guaranteed,
        max=template.max,
        max_applications=template.max_applications,
        properties=template.properties,
    )


def renew(queue: Queue) -> None:
    """Gives a created leaf the present child template of the queues above; does nothing for other queues."""
    if queue.is_temporary and queue.is_leaf and queue.state is not QueueState.DRAINING and queue.parent is not None:
        queue.config = _templated(queue.config.name, queue.parent)
        queue.guaranteed, queue.max = queue.config.guaranteed, queue.config.max


def finish(tree: Tree, name: str) -> None:
    """Removes an application that has no allocations, and the temporary queues that become empty. Raises KeyError for
    an unknown application, ValueError if it has allocations."""
    queue = tree.queues[tree.applications[name].queue]
    tree.finish(name)
    prune(tree, queue)


def prune(tree: Tree, queue: Queue) -> None:
    """Removes a temporary queue that is empty, and its parents that become empty."""
    while queue.is_temporary and not queue.children and not queue.applications and queue.parent is not None:
        parent = queue.parent
        del parent.children[queue.config.name], tree.queues[queue.name]
        queue = parent


def retire(queue: Queue) -> None:
    """Lets a queue that is no longer configured drain: it takes no applications, schedules those that it has, and is
    removed when empty. Its guarantee ends, so that the other queues may use it."""
    queue.is_temporary = True
    queue.guaranteed = NONE
    queue.state = QueueState.DRAINING
