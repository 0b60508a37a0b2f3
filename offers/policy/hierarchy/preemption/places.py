"""Places for given asks, with the victims that make their room: for work that has waited for long.

The rules are those of a try to preempt (`preemption.preemption`), except its pause between two tries. The caller ends
the victims as their disruption budgets admit, and keeps the room of each.
"""

from __future__ import annotations

from collections.abc import Sequence

from offers.policy.hierarchy.preemption.preemption import Check, delay_of, has_victims, only_on, plan
from offers.policy.hierarchy.preemption.promises import has_room
from offers.policy.hierarchy.state.model import Ask, Preemption
from offers.policy.hierarchy.state.nodes import Node
from offers.policy.hierarchy.state.queue import Queue
from offers.policy.hierarchy.tree import Tree


def places(
    tree: Tree,
    asks: Sequence[Ask],
    nodes: Sequence[str],
    now: float,
    check: Check | None = None,
) -> list[Preemption] | None:
    """The node and the victims for each of some pending asks of one application, which are noted in the tree; None if
    the rules do not give room to all of them. `tree`: a copy for this question. `nodes`: the only node of each; empty:
    any nodes. `now`: seconds. `check`: as for `plan`. Raises KeyError if an ask is not pending."""
    if not _may_preempt(tree, asks, now):
        return None
    made: list[Preemption] = []
    for number, ask in enumerate(asks):
        preemption = _place(tree, ask, nodes[number] if nodes else "", now, check)
        if preemption is None:
            return None
        made.append(preemption)
    return made


def _may_preempt(tree: Tree, asks: Sequence[Ask], now: float) -> bool:
    for ask in asks:
        owner = tree.applications[ask.application]
        leaf = tree.queues[owner.queue]
        may_not = leaf.is_stopped or not ask.may_preempt or ask.required_node or now - ask.created < delay_of(leaf)
        if may_not or has_victims(owner.asks[ask.name], ask.name) or tree.limit_of(owner, ask.request) is not None:
            return False
    return tree.partition.preemption


def _place(tree: Tree, ask: Ask, only: str, now: float, check: Check | None) -> Preemption | None:
    """Promises an ask the node where victims cost least, or one with room; None if there is none."""
    owner = tree.applications[ask.application]
    leaf = tree.queues[owner.queue]
    if owner.asks[ask.name].alike.promised:
        tree.forget_promise(ask.application, ask.name)
    node = _with_room(tree, leaf, ask, only)
    if node is not None:
        tree.promise(ask.application, ask.name, node.name)
        return Preemption(ask, node.name, (), leaf.name)
    if only and only not in tree.nodes.by_name:
        return None
    preemption = plan(tree, leaf, ask, now, check, halted=only_on(ask, only) if only else None).preemption
    if preemption is not None:
        tree.preempt(preemption)
    return preemption


def _with_room(tree: Tree, leaf: Queue, ask: Ask, only: str) -> Node | None:
    """A node with room for an ask beside the room that is kept for it; None if there is none. `only`: the only one;
    empty: any, those with kept room first."""
    beside = tree.beside(leaf, ask)
    for name in (only,) if only else beside:
        node = tree.nodes.by_name.get(name)
        has = node is not None and has_room(node, ask.request, beside.get(name, {}))
        if has and tree.nodes.is_admitted(ask.constraint, name):
            return node
    return None if only else tree.nodes.find(ask.request, ask.constraint)
