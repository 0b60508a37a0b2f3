"""The work of a partition that is due from time to time, beside the cycles."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from offers.policy.hierarchy.preemption.quota import give_back
from offers.policy.hierarchy.preemption.reservation import expire, reserve, take_nodes
from offers.policy.hierarchy.preemption.tries import preempt
from offers.policy.hierarchy.preemption.victims import Check
from offers.policy.hierarchy.state.model import Allocation, Ask, Preemption
from offers.policy.hierarchy.tree import Tree


class Maintenance(NamedTuple):
    """The decisions of one round; all are noted in the tree. `preemptions`: their victims are to be ended, for an ask.
    `given_back`: allocations that are to be ended because a maximum was lowered. `reserved`: asks with the nodes that
    are held for them. `expired`: asks whose promised node was not free in time."""

    preemptions: tuple[Preemption, ...]
    given_back: tuple[Allocation, ...]
    reserved: tuple[Allocation, ...]
    expired: tuple[Ask, ...]


def keep(tree: Tree, victim: Allocation) -> None:
    """Notes that a victim was not ended after all. The latest promises on the node for which there will be no room end,
    and their asks may try other nodes. Raises KeyError for an unknown allocation."""
    tree.release(victim.ask.application, victim.ask.name)
    tree.recover(victim)
    node = tree.nodes.by_name[victim.node]
    for ask in reversed(list(node.promises.values())):
        if all(node.room(name) >= 0 for name in node.promised):
            break
        tree.forget_promise(ask.application, ask.name)


def maintain(tree: Tree, now: float, check: Check | None = None, without: Collection[str] = frozenset()) -> Maintenance:
    """One round: promises expire, lowered maxima are enforced, asks preempt towards guarantees, the others reserve
    nodes. `now`: seconds of the clock of the asks. `check`: a further condition on a node once victims have gone; None
    admits every node. `without`: applications that may not preempt."""
    expired = expire(tree, now)
    given_back = give_back(tree, now)
    preemptions = [*take_nodes(tree, without), *preempt(tree, now, check, without)]
    reserved = reserve(tree, now)
    return Maintenance(tuple(preemptions), tuple(given_back), tuple(reserved), tuple(expired))
