"""The work of a partition that is due from time to time, beside the cycles."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from offers.policy.amounts import Vector
from offers.policy.hierarchy.preemption.quota import give_back
from offers.policy.hierarchy.preemption.reservation import NOTHING, expire, reserve, take_nodes
from offers.policy.hierarchy.preemption.tries import preempt
from offers.policy.hierarchy.preemption.victims import Check, never
from offers.policy.hierarchy.state.application import RequestClass
from offers.policy.hierarchy.state.model import Allocation, Ask, Preemption
from offers.policy.hierarchy.tree import Tree


class Maintenance(NamedTuple):
    """The decisions of one round; all are noted in the tree. `preemptions`: their victims are to be ended, for an ask.
    `given_back`: allocations that are to be ended because a maximum was lowered. `reserved`: asks with the nodes that
    are held for them. `expired`: asks whose promised node was not free in time. `again`: asks may be placed on nodes
    that others have reserved. `is_unfinished`: the time was over before all was done."""

    preemptions: tuple[Preemption, ...]
    given_back: tuple[Allocation, ...]
    reserved: tuple[Allocation, ...]
    expired: tuple[Ask, ...]
    again: bool = False
    is_unfinished: bool = False


def keep(tree: Tree, victim: Allocation) -> None:
    """Notes that a victim was not ended after all. The latest promises on the node for which there will be no room end,
    and their asks may try other nodes. Raises KeyError for an unknown allocation."""
    tree.release(victim.ask.application, victim.ask.name)
    tree.recover(victim)
    node = tree.nodes.by_name[victim.node]
    for ask in reversed([ask for ask in node.promises.values() if ask.id not in node.reserving]):
        if all(node.room(name) >= 0 for name in node.promised):
            break
        tree.forget_promise(ask.application, ask.name)


def maintain(
    tree: Tree,
    now: float,
    check: Check | None = None,
    without: Collection[str] = frozenset(),
    soon: Mapping[str, Vector] = NOTHING,
    is_over: Callable[[], bool] = never,
) -> Maintenance:
    """One round: promises expire, lowered maxima are enforced, asks preempt towards guarantees, the others reserve
    nodes. An ask that may use a reserved node with room is tried in the next cycle, and preempts nothing. `now`:
    seconds of the clock of the asks. `check`: a further condition on a node once victims have gone; None admits every
    node. `without`: applications that may not preempt. `soon`: by name of the node, amounts that are expected to become
    free within `LONGEST`. `is_over`: True once the time is over: each kind of work makes a step, and the next call
    continues."""
    expired = expire(tree, now, soon, is_over)
    better = tree.part("betters", now, lambda: _betters(tree), is_over)
    tree.wake(one for one in dict.fromkeys(better) if one.waits is tree.nodes.waiting)
    given_back = give_back(tree, now, is_over)
    preemptions = [*take_nodes(tree, without, is_over), *preempt(tree, now, check, without, is_over)]
    reserved = reserve(tree, now, soon, is_over)
    is_unfinished = bool(tree.rests) or tree.behind is not None
    return Maintenance(
        tuple(preemptions), tuple(given_back), tuple(reserved), tuple(expired), bool(better), is_unfinished
    )


def _betters(tree: Tree) -> Iterator[RequestClass | None]:
    """Yields the requests that may use reserved nodes; None between steps."""
    for node in list(tree.nodes.reserving.values()):
        if node.reserving:
            yield from tree.betters(node)
