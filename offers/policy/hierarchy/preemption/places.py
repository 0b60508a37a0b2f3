"""Places for given asks, with the victims that make their room: for work that has waited for long.

The rules are those of a try to preempt (`preemption.preemption`), except its pause between two tries. The caller ends
the victims as their disruption budgets admit, and keeps the room of each.
"""

from __future__ import annotations

from collections.abc import Sequence

from offers.policy.hierarchy.preemption.preemption import Check, delay_of, has_victims, only_on, plan
from offers.policy.hierarchy.state.model import Ask, Preemption
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
    node = tree.nodes.by_name.get(only) if only else tree.nodes.find(ask.request, ask.constraint)
    if only and node is None:
        return None
    beside = tree.beside(leaf, ask).get(only, {})
    if node is not None and all(amount <= node.room(name) + beside.get(name, 0) for name, amount in ask.request):
        tree.promise(ask.application, ask.name, node.name)
        return Preemption(ask, node.name, (), leaf.name)
    preemption = plan(tree, leaf, ask, now, check, halted=only_on(ask, only) if only else None).preemption
    if preemption is not None:
        tree.preempt(preemption)
    return preemption
