"""Nodes of a tree that come, go and change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from offers.dimensions import Amounts
from offers.policy.amounts import Vector, added
from offers.policy.hierarchy.state.nodes import Node
from offers.policy.hierarchy.tree import Tree


def set_nodes(tree: Tree, totals: Mapping[str, Vector]) -> None:
    """Gives nodes other totals, and adds those that are not known. Costs with all nodes and applications, however many
    nodes change. Raises ValueError if an amount is negative or too large; the nodes before this one are changed."""
    nodes = tree.nodes
    with nodes.settling():
        for name, total in totals.items():
            if name in nodes.by_name:
                nodes.resize(nodes.by_name[name], total)
            else:
                nodes.add(Node(name, total))
    resize(tree)
    tree.wake(list(nodes.missing))
    for name in totals:
        tree.wake_on(nodes.by_name[name])


def remove_nodes(tree: Tree, names: Iterable[str]) -> None:
    """Removes nodes; promises on them end. Costs as `set_nodes`. Raises KeyError for an unknown node, ValueError if one
    has allocations; the nodes before this one are removed."""
    for name in names:
        node = tree.nodes.by_name[name]
        if node.running:
            raise ValueError(f"node {name}: {len(node.running)} allocations have not ended")
        for ask in list(node.promises.values()):
            tree.forget_promise(ask.application, ask.name)
        waiting = list(node.waiting)
        tree.nodes.remove(name)
        tree.wake(waiting)
    resize(tree)


def occupy(tree: Tree, name: str, before: Amounts, after: Amounts) -> None:
    """Others than the applications have `after` on a node in place of `before`, and the node may meet other constraints
    than before: one change of the node. Raises KeyError for an unknown node."""
    node = tree.nodes.by_name[name]
    if before != after:
        for resource, amount in before:
            node.free[resource] = node.free.get(resource, 0) + amount
        for resource, amount in after:
            node.free[resource] = node.free.get(resource, 0) - amount
        tree.nodes.changed(node)
    conditions_changed(tree, name)


def expect(tree: Tree, name: str, amounts: Amounts) -> None:
    """The amounts that others than the applications have on a node, and that become free by themselves: they count as
    room that is leaving. Raises KeyError for an unknown node."""
    node = tree.nodes.by_name[name]
    if amounts != node.coming:
        tree.nodes.leave(name, node.coming, -1)
        node.coming = amounts
        tree.nodes.leave(name, amounts, 1)


def conditions_changed(tree: Tree, name: str) -> None:
    """Notes that a node may meet other constraints than before, with the same amounts. Raises KeyError for an unknown
    node."""
    tree.wake_on(tree.nodes.by_name[name])


def resize(tree: Tree) -> None:
    """Renews the figures that depend on the total of the cluster."""
    tree.total = added(*[node.total for node in tree.nodes])
    for queue in tree.queues.values():
        queue.resize(tree.total)
    for leaf in tree.root.leaves():
        for application in leaf.applications.values():
            tree.renew(application, application.priorities.greatest(), None)
        leaf.place_path()
