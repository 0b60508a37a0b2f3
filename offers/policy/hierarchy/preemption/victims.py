"""The search for victims for one ask of a queue below its guarantee.

The rules: an allocation can be a victim if its leaf is in the scope of the ask, if its priority is not above the one of
the ask, if it needs no particular node, and if it is not being preempted already. A victim is taken if it reduces a
shortage and no queue with a guarantee, on its path and not on the path of the ask, falls below the guarantee in the
resources of the ask. The ask must fit the node and every maximum on its path afterwards.

The nearest queue on the path of the ask with a guarantee for one of its resources must not exceed the guarantee with
the ask. Victims below that queue count only if a queue between it and the ask has a guarantee of its own: otherwise two
leaves without guarantees would take the room of each other without end (YUNIKORN-2769, YUNIKORN-2795). This is a
condition of the search, and no number of victims that must be taken: if it holds only without the candidates below the
queue, victims are chosen among these, and no more of them than the ask needs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from heapq import merge
from typing import NamedTuple

from offers.dimensions import Amounts
from offers.policy.hierarchy.preemption.scope import scope_of
from offers.policy.hierarchy.state.model import Allocation, Ask, Preemption
from offers.policy.hierarchy.state.nodes import Node, Nodes, Running
from offers.policy.hierarchy.state.queue import Queue, goal_of

UNBOUNDED = 1 << 62

Allowance = Callable[[str], int]
"""The number of allocations of an application, given by name, that may still be taken."""

Check = Callable[[Ask, str, tuple[Allocation, ...]], bool]
"""True if a node admits an ask once some allocations have gone, as far as more than amounts is concerned."""


def plan(
    nodes: Nodes,
    leaf: Queue,
    ask: Ask,
    leaving: Collection[str],
    check: Check | None = None,
    allowance: Allowance | None = None,
) -> Preemption | None:
    """The preemption that gives an ask of a leaf its room: the node with the fewest victims, then with the lowest name.
    None if no preemption is allowed or useful. `leaving`: the ids of allocations that are being preempted. `check`:
    None admits every node. `allowance`: None bounds no application."""
    wanted = {name: amount for name, amount in ask.request if amount > 0}
    goal = goal_of(leaf, wanted)
    if goal is None:
        return None
    search = Search(leaf, goal, ask, wanted, leaving, allowance)
    return search.run(nodes, check) if search.is_possible(nodes) else None


class Search:
    """The search of one ask. Shortages are amounts above 0 by resource."""

    def __init__(
        self,
        leaf: Queue,
        goal: Queue,
        ask: Ask,
        wanted: dict[str, int],
        leaving: Collection[str],
        allowance: Allowance | None = None,
    ) -> None:
        """`goal`: the nearest queue on the path with a guarantee for a resource of the ask. `allowance`: None bounds no
        application."""
        self.ask, self._wanted, self._leaving, self._allowance = ask, wanted, leaving, allowance
        self._fence, leaves = scope_of(leaf, ask.request, ask.priority)
        self._above: dict[str, int] = {}
        for queue in leaf.path:
            for name, amount in queue.excess(ask.request).items():
                self._above[name] = max(amount, self._above.get(name, 0))
        over = {
            name: goal.expected(name) + amount - goal.guaranteed[name]
            for name, amount in wanted.items()
            if name in goal.guaranteed
        }
        self._over = {name: amount for name, amount in over.items() if amount > 0}
        siblings = any(queue.guaranteed for queue in leaf.path[: leaf.path.index(goal)])
        self._sources = {
            one: source
            for one, greatest in leaves.items()
            if (siblings if goal in one.path else not self._over)
            and (source := _Source.of(one, greatest, leaf, wanted)) is not None
        }

    def is_possible(self, nodes: Nodes) -> bool:
        """False if no choice of victims can help: there are no candidates, or the queue with the guarantee would exceed
        it even without all candidates below it."""
        if not self._sources or not self._over:
            return bool(self._sources)
        over = dict(self._over)
        for place in {place for leaf in self._sources for place in leaf.places}:
            for running in nodes.by_name[place].running:
                if self._candidate(running) is not None:
                    _reduce(over, dict(running.allocation.ask.request))
        return not over

    def run(self, nodes: Nodes, check: Check | None) -> Preemption | None:
        """The best preemption; None if there is none."""
        best: Preemption | None = None
        partial: tuple[int, str] | None = None
        fewest = UNBOUNDED
        for name in sorted({name for leaf in self._sources for name in leaf.places}):
            taken = self._on(nodes.by_name[name], fewest - 1)
            if taken is None:
                continue
            if taken.above:
                found = (taken.sufficed, name)
                if best is None and (partial is None or found < partial):
                    partial = found
                continue
            taken.trim()
            if taken.victims and len(taken.victims) < fewest and self._is_admitted(nodes, name, taken, check):
                best = Preemption(self.ask, name, tuple(taken.victims), self._fence.name)
                fewest = len(taken.victims)
                if fewest == 1:
                    break
        if best is not None or not self._above:
            return best
        return self._spread(nodes, partial, check)

    def _is_admitted(self, nodes: Nodes, name: str, taken: _Taken, check: Check | None) -> bool:
        admitted = nodes.is_admitted(self.ask.constraint, name)
        return admitted and (check is None or check(self.ask, name, tuple(taken.victims)))

    def _on(self, node: Node, useful: int, *, whole: bool = True) -> _Taken | None:
        """Takes victims on one node; None if their room does not suffice for the ask, or if more than `useful` are
        needed. `whole`: also takes victims for the maxima of queues."""
        short: dict[str, int] = {}
        for name, amount in self._wanted.items():
            lack = amount - node.room(name)
            if amount > node.total.get(name, 0):
                return None
            if lack > 0:
                if lack > useful * node.largest.get(name, 0):
                    return None
                short[name] = lack
        taken = _Taken(short, dict(self._above))
        self._take(taken, node.running, node.name, whole)
        if taken.short and taken.missed:
            taken = self._with_one(node, taken, whole)
        return None if taken.short else taken

    def _with_one(self, node: Node, failed: _Taken, whole: bool) -> _Taken:
        """Begins with one victim that makes the node large enough alone: smaller ones before it may have used up the
        amount that its queue can lose. `failed`, if there is none."""
        for running in node.running:
            request = dict(running.allocation.ask.request)
            if all(request.get(name, 0) >= amount for name, amount in failed.needed.items()):
                taken = _Taken(dict(failed.needed), dict(self._above))
                self._take(taken, (running,), node.name, whole)
                if not taken.short:
                    self._take(taken, (one for one in node.running if one is not running), node.name, whole)
                    return taken
        return failed

    def _candidate(self, running: Running) -> _Source | None:
        """The source of a victim, if the allocation can be one; None otherwise."""
        order, allocation, leaf = running
        source = self._sources.get(leaf)
        if source is None or order[3] in self._leaving:
            return None
        ask = allocation.ask
        if (
            (source.greatest is not None and ask.priority > source.greatest)
            or (source.refused and ask.request in source.refused)
            or ask.required_node
        ):
            return None
        return source

    def _take(self, taken: _Taken, candidates: Iterable[Running], node: str, whole: bool) -> None:
        for running in candidates:
            if not (taken.short or (whole and taken.above)):
                return
            source = self._candidate(running)
            if source is None or not taken.is_useful(running.allocation, node, whole):
                continue
            ask = running.allocation.ask
            within = self._allowance is None or taken.of(ask.application) < self._allowance(ask.application)
            if within and taken.may_lose(ask.request, source.spares):
                taken.take(running.allocation, node, source)
            else:
                taken.missed = True

    def _spread(self, nodes: Nodes, partial: tuple[int, str] | None, check: Check | None) -> Preemption | None:
        """A preemption with victims on several nodes, because a maximum is in the way. `partial`: the
        number of victims on the best node and its name; None if victims make no node large enough."""
        for node in nodes:
            if partial is not None and partial <= (0, node.name):
                break
            if all(amount <= node.room(one) for one, amount in self._wanted.items()):
                partial = (0, node.name)
        if partial is None:
            return None
        name = partial[1]
        taken = self._on(nodes.by_name[name], UNBOUNDED, whole=False)
        if taken is None:
            return None
        own = {one.ask.id for one in taken.victims}
        places = {place for leaf in self._sources for place in leaf.places}
        rest = merge(*(nodes.by_name[place].running for place in sorted(places)), key=_order)
        self._take(taken, (one for one in rest if one.order[3] not in own), name, True)
        if taken.above:
            return None
        taken.trim()
        victims = tuple(taken.victims)
        if not victims or not self._is_admitted(nodes, name, taken, check):
            return None
        return Preemption(self.ask, name, victims, self._fence.name)


class _Source(NamedTuple):
    """The victims of one leaf. `greatest`: their greatest priority, None for every priority; `spares`: queue, resource
    and the amount used beyond the guarantee; `refused`: requests of allocations none of which may be lost."""

    greatest: int | None
    spares: list[tuple[Queue, str, int]]
    refused: frozenset[Amounts]

    @classmethod
    def of(cls, leaf: Queue, greatest: int | None, asking: Queue, wanted: dict[str, int]) -> _Source | None:
        """The victims in a leaf for a leaf that asks; None if there are none."""
        spares = [
            (queue, name, queue.allocated.get(name, 0) - queue.leaving.get(name, 0) - queue.guaranteed[name])
            for queue in leaf.path
            if queue not in asking.path
            for name in wanted
            if name in queue.guaranteed
        ]
        refused = frozenset(request for request in leaf.requests if not _leaves_enough(request, spares))
        return None if len(refused) == len(leaf.requests) else cls(greatest, spares, refused)


def _leaves_enough(request: Amounts, spares: list[tuple[Queue, str, int]]) -> bool:
    amounts = dict(request)
    return all(amounts.get(name, 0) <= spare for _, name, spare in spares)


class _Taken:
    """Victims, and the shortages that are left: of the node, and of maxima."""

    __slots__ = ("_above", "_here", "above", "lost", "missed", "needed", "short", "sufficed", "victims")

    def __init__(self, short: dict[str, int], above: dict[str, int]) -> None:
        self.short, self.above = short, above
        self.needed, self._above = dict(short), dict(above)
        """The shortages before the first victim."""
        self.victims: list[Allocation] = []
        self._here: list[bool] = []
        self.sufficed = 0
        """The number of victims that were needed for the node alone."""
        self.missed = False
        """True if a candidate was passed over because of the victims before it."""
        self.lost: dict[tuple[Queue, str], int] = {}

    def is_useful(self, allocation: Allocation, node: str, whole: bool) -> bool:
        """True if an allocation reduces a shortage."""
        here = allocation.node == node
        return any(
            (here and name in self.short) or (whole and name in self.above) for name, _ in allocation.ask.request
        )

    def of(self, application: str) -> int:
        """Number of victims of an application."""
        return sum(victim.ask.application == application for victim in self.victims)

    def may_lose(self, request: Amounts, spares: list[tuple[Queue, str, int]]) -> bool:
        """True if no guarantee is hurt. `spares`: the amounts that queues use beyond their guarantees."""
        amounts = dict(request)
        return all(amounts.get(name, 0) + self.lost.get((queue, name), 0) <= spare for queue, name, spare in spares)

    def take(self, allocation: Allocation, node: str, source: _Source) -> None:
        """Adds a victim."""
        amounts = dict(allocation.ask.request)
        for queue, name, _ in source.spares:
            self.lost[queue, name] = self.lost.get((queue, name), 0) + amounts.get(name, 0)
        self.victims.append(allocation)
        self._here.append(allocation.node == node)
        if self.short:
            self.sufficed = len(self.victims)
        if allocation.node == node:
            _reduce(self.short, amounts)
        _reduce(self.above, amounts)

    def trim(self) -> None:
        """Gives back victims without which the others suffice, the most important one first."""
        shortages = (self.needed, self._above)
        surplus = [{name: -amount for name, amount in shortage.items()} for shortage in shortages]
        shares = [
            [
                (figures, name, amount)
                for figures, counts in zip(surplus, (here, True), strict=True)
                if counts
                for name, amount in victim.ask.request
                if name in figures
            ]
            for victim, here in zip(self.victims, self._here, strict=True)
        ]
        for figures, name, amount in (entry for share in shares for entry in share):
            figures[name] += amount
        kept: list[Allocation] = []
        for victim, share in zip(reversed(self.victims), reversed(shares), strict=True):
            if all(figures[name] >= amount for figures, name, amount in share):
                for figures, name, amount in share:
                    figures[name] -= amount
            else:
                kept.append(victim)
        self.victims = kept[::-1]


def _reduce(shortage: dict[str, int], amounts: dict[str, int]) -> None:
    for name in list(shortage):
        shortage[name] -= amounts.get(name, 0)
        if shortage[name] <= 0:
            del shortage[name]


def _order(running: Running) -> tuple[bool, bool, float, str]:
    return running.order
