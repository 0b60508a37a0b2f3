"""The work of a partition that is due from time to time, beside the cycles."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from offers.policy.amounts import Vector
from offers.policy.hierarchy.preemption.preemption import Check, never, preempt
from offers.policy.hierarchy.preemption.quota import give_back
from offers.policy.hierarchy.preemption.reservation import NOTHING, expire, reserve, take_nodes
from offers.policy.hierarchy.state.application import RequestClass
from offers.policy.hierarchy.state.model import Allocation, Ask, Preemption
from offers.policy.hierarchy.state.queue import goal_of
from offers.policy.hierarchy.tree import Tree


class Maintenance(NamedTuple):
    """The decisions of one round; all are noted in the tree. `preemptions`: their victims are to be ended, for an ask.
    `given_back`: allocations that are to be ended because a maximum was lowered. `reserved`: asks with the nodes that
    are held for them. `again`: asks may be placed on nodes that others have reserved. `is_unfinished`: the time was
    over before all was done."""

    preemptions: tuple[Preemption, ...]
    given_back: tuple[Allocation, ...]
    reserved: tuple[Allocation, ...]
    again: bool = False
    is_unfinished: bool = False


def keep(tree: Tree, victim: Allocation) -> None:
    """Notes that a victim was not ended after all. The latest promises on the node for which there will be no room end,
    and their asks may try other nodes. Raises KeyError for an unknown allocation."""
    tree.release(victim.ask.application, victim.ask.name)
    tree.recover(victim)
    node = tree.nodes.by_name[victim.node]
    for ask in reversed([ask for ask in node.promises.values() if ask.id not in node.reserving]):
        kept = tree.terms.kept.amounts.get(node.name, {}) if tree.terms.kept is not None else {}
        if all(node.room(name) + kept.get(name, 0) >= 0 for name in node.promised):
            break
        tree.forget_promise(ask.application, ask.name)


def spare(tree: Tree, preemptions: Collection[Preemption]) -> list[Preemption]:
    """The preemptions of a round, without the victims that those of later asks have made needless: a large one may free
    room for all. These stay, the most important first, as far as maxima and the guarantee towards which the ask
    preempts admit it. A gang that leaves as a whole leaves."""
    if len(preemptions) < 2:
        return list(preemptions)
    victims = [(victim, preemption.ask) for preemption in preemptions for victim in preemption.victims]
    staying = set[str]()
    for victim, ask in sorted(victims, key=lambda pair: _importance(tree, pair[0]), reverse=True):
        if _can_stay(tree, victim, ask):
            tree.stay(victim)
            staying.add(victim.ask.id)
    if not staying:
        return list(preemptions)
    return [
        preemption._replace(victims=tuple(victim for victim in preemption.victims if victim.ask.id not in staying))
        for preemption in preemptions
    ]


def _importance(tree: Tree, victim: Allocation) -> tuple[bool, bool, bool, int, float, str]:
    ask = victim.ask
    return (not ask.preemptable, ask.originator, ask.id not in tree.idle, ask.priority, -ask.created, ask.id)


def _can_stay(tree: Tree, victim: Allocation, ask: Ask) -> bool:
    request, node = victim.ask.request, tree.nodes.by_name[victim.node]
    owner = tree.applications[victim.ask.application]
    if any(amount > node.room(name) for name, amount in request):
        return False
    if owner.least > 1 and owner.leaving == len(owner.allocations):
        return False
    goal = goal_of(tree.queues[tree.applications[ask.application].queue], [name for name, _ in ask.request])
    return not any(
        queue.excess(request) or (queue is goal and not queue.stays_within_guarantee(request))
        for queue in tree.queues[owner.queue].path
    )


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
    expire(tree, now, soon, is_over)
    better = tree.part("betters", now, lambda: _betters(tree), is_over)
    tree.wake(request_class for request_class in dict.fromkeys(better) if request_class.waits is tree.nodes.waiting)
    given_back = give_back(tree, now, is_over)
    preemptions = [*take_nodes(tree, without, is_over), *preempt(tree, now, check, without, is_over)]
    reserved = reserve(tree, now, soon, is_over)
    is_unfinished = bool(tree.rests) or tree.behind is not None
    return Maintenance(tuple(preemptions), tuple(given_back), tuple(reserved), bool(better), is_unfinished)


def _betters(tree: Tree) -> Iterator[RequestClass | None]:
    """Yields the requests that may use reserved nodes; None between steps."""
    for node in list(tree.nodes.reserving.values()):
        if node.reserving:
            yield from tree.betters(node)
