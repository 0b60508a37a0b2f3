"""One allocation of a tree, or the removal of asks, with all figures and keys that change.

After a repeated allocation, only the usage, the first ask of a group and the keys above this group are different: the
application has started, no room was promised, and the application keeps its priority and its place in the leaf. Then
only these are renewed. All other allocations renew everything that the application determines.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from offers.policy.hierarchy.configuration.partition import SortPolicy
from offers.policy.hierarchy.state.application import Application, Group, RequestClass
from offers.policy.hierarchy.state.model import Allocation, add_to
from offers.policy.hierarchy.state.nodes import Node

if TYPE_CHECKING:
    from offers.policy.hierarchy.tree import Tree


def allocate(tree: Tree, request_class: RequestClass, group: Group, node: Node) -> Allocation:
    """Places the first ask of a group on a node. `request_class`: the class of the group."""
    if _may_repeat(request_class, group):
        return _repeated(tree, request_class, group, node)
    application = group.application
    before = application.priorities.greatest()
    allocation = Allocation(tree.remove_ask(application, group, 0), node.name)
    _count(tree, application, [allocation])
    tree.renew(application, before, group)
    return allocation


def _may_repeat(request_class: RequestClass, group: Group) -> bool:
    """True if the class of the group stays the same with an allocation."""
    alternative = request_class.alternative
    return alternative.started and not alternative.promised and group.application.counts_as_started


def _repeated(tree: Tree, request_class: RequestClass, group: Group, node: Node) -> Allocation:
    application, leaf, request = group.application, request_class.leaf, request_class.request
    before = application.priorities.greatest()
    ask = application.remove(group)
    allocation = Allocation(ask, node.name)
    tree.touch(leaf)
    tree.nodes.use(node.name, request, 1)
    application.allocations[ask.name] = allocation
    add_to(application.allocated, request, 1)
    for queue in leaf.path:
        pending, allocated = queue.pending, queue.allocated
        for name, amount in request:
            pending[name] -= amount
            allocated[name] = allocated.get(name, 0) + amount
    leaf.note(allocation, 1)
    tree.nodes.note(allocation, leaf)
    for tracker in application.trackers:
        tracker.use(request, 1)
    if application.priorities.greatest() != before or not _keeps_place(application, request_class):
        tree.renew(application, before, group)
        return allocation
    group.place(request_class if group.asks else None)
    leaf.place_class(request_class)
    leaf.place_keys()
    return allocation


def _keeps_place(application: Application, request_class: RequestClass) -> bool:
    """True if the application keeps its place in its leaf. Without shares in the order, only a priority moves it."""
    leaf = request_class.leaf
    if leaf.config.properties.sort_policy is not SortPolicy.FAIR:
        return True
    return leaf.key_of(application) == application.key


def recover_all(tree: Tree, name: str, allocations: Sequence[Allocation]) -> None:
    """Adds allocations of an application that run already. Raises KeyError for an unknown application or node; nothing
    is changed then."""
    application = tree.applications[name]
    if allocations:
        _count(tree, application, allocations)
        tree.renew(application, application.priorities.greatest(), None)


def _count(tree: Tree, application: Application, allocations: Sequence[Allocation]) -> None:
    """Counts allocations, and takes their room on the nodes. The caller renews the application."""
    nodes = [tree.nodes.by_name[allocation.node] for allocation in allocations]
    leaf = tree.queues[application.queue]
    tree.touch(leaf)
    started = not application.allocations
    sums: dict[str, int] = {}
    for node, allocation in zip(nodes, allocations, strict=True):
        request, free = allocation.ask.request, node.free
        for resource, amount in request:
            free[resource] = free.get(resource, 0) - amount
            sums[resource] = sums.get(resource, 0) + amount
        application.allocations[allocation.ask.name] = allocation
        leaf.note(allocation, 1)
        tree.nodes.note(allocation, leaf)
    whole = tuple(sums.items())
    for figures in (application.allocated, *(queue.allocated for queue in leaf.path)):
        add_to(figures, whole, 1)
    for tracker in application.trackers:
        tracker.use(whole, 1)
        tracker.running += started
    for node in dict.fromkeys(nodes):
        tree.nodes.changed(node)
    if started:
        tree.count_started(leaf, 1)


def rename(tree: Tree, name: str, pairs: Iterable[tuple[str, Allocation]]) -> None:
    """Allocations of an application continue under other asks, each on the same node and with the same amounts: planned
    placements were launched. `pairs`: the name of the ask before, and the allocation now. Raises KeyError if there is
    no such allocation, ValueError if an allocation is leaving or has another node or other amounts; nothing is changed
    then."""
    application = tree.applications[name]
    allocations = [(application.allocations[before], after) for before, after in pairs]
    for before, after in allocations:
        if (before.node, before.ask.request) != (after.node, after.ask.request) or before.ask.id in tree.leaving:
            raise ValueError(f"allocation {before.ask.id} cannot continue as {after.ask.id}")
    leaf = tree.queues[application.queue]
    tree.touch(leaf)
    for before, _ in allocations:
        tree.nodes.forget(before, leaf)
        del application.allocations[before.ask.name]
    for before, after in allocations:
        application.allocations[after.ask.name] = after
        tree.nodes.note(after, leaf)
        if before.ask.priority != after.ask.priority:
            leaf.note(before, -1)
            leaf.note(after, 1)


def withdraw_all(tree: Tree, name: str) -> None:
    """Removes all pending asks of an application, group by group. Raises KeyError for an unknown application."""
    application = tree.applications[name]
    for group in list(application.groups.values()):
        before = application.priorities.greatest()
        while group.asks:
            tree.remove_ask(application, group, len(group.asks) - 1)
        tree.renew(application, before, group)
