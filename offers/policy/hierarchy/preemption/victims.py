"""The search for victims for one ask of a queue below its guarantee.

The rules: an allocation can be a victim if its leaf is in the scope of the ask, if its priority is not above the one of
the ask, if it needs no particular node, and if it is not being preempted already. A victim is taken if it reduces a
shortage and no queue with a guarantee, on its path and not on the path of the ask, falls below the guarantee in the
resources of the ask, as far as its application may lose it (`losses`). The ask must fit the node and every maximum on
its path afterwards.

The nearest queue on the path of the ask with a guarantee for one of its resources must not exceed the guarantee with
the ask. Victims below that queue count only if a queue between it and the ask has a guarantee of its own: otherwise two
leaves without guarantees would take the room of each other without end (YUNIKORN-2769, YUNIKORN-2795). This is a
condition of the search, and no number of victims that must be taken: if it holds only without the candidates below the
queue, victims are chosen among these, and no more of them than the ask needs.

On one node the least important victims are taken first: those that admit preemption, those that are no originator,
those that do not work, the lowest priority as shown at the fence, single ones before whole gangs, the newest. If small
ones use up all that may be lost, the first one that suffices alone begins, also for a maximum. Victims without which
the others suffice are given back, the most important one first.
All nodes are compared by `Cost`. If a maximum is in the way, victims on any node may make room below the maximum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from heapq import nsmallest
from itertools import chain, groupby
from math import inf, prod
from typing import NamedTuple

from offers.dimensions import Amounts
from offers.policy.hierarchy.preemption.losses import Losses
from offers.policy.hierarchy.preemption.memory import FORGOTTEN, Fruitless
from offers.policy.hierarchy.preemption.scope import Importance, importance_at, scope_of
from offers.policy.hierarchy.state.model import Allocation, Ask, Preemption
from offers.policy.hierarchy.state.nodes import Node, Running
from offers.policy.hierarchy.state.queue import Queue, goal_of
from offers.policy.hierarchy.tree import Tree
from offers.policy.obstacles import NAMED, Attempt, Obstacle, Tally, in_vain

MOST_KEPT = 16
"""Sets of resources for which the leaves that can lose nothing are kept."""
LOWEST = -(1 << 62)
"""Below every priority: the importance of no victim, and of allocations that do not work."""

Check = Callable[[Ask, str, tuple[Allocation, ...]], bool]
"""True if a node admits an ask once some allocations have gone, as far as more than amounts is concerned."""

Order = tuple[bool, bool, int, float, str]
"""The order in which candidates are taken."""


class Cost(NamedTuple):
    """The cost of a choice of victims; the least is chosen. `opt_out`, `originator`: True if a victim asks to be taken
    after all others, or is one; `importance`: the highest priority of a victim, as it is shown at the fence; `amount`:
    the sum of their amounts as shares of the cluster, in one unit."""

    opt_out: bool
    originator: bool
    importance: int
    number: int
    amount: int
    node: str


class Safe(NamedTuple):
    """The leaves that can lose nothing, because each of their allocations is needed for their own guarantee. `changes`:
    those of root at that moment; `size`: number of allocations; `greatest`: the leaves with the most of them."""

    changes: int
    leaves: frozenset[Queue]
    size: int
    greatest: tuple[Queue, ...]

    @classmethod
    def of(cls, changes: int, leaves: Collection[Queue]) -> Safe:
        """Makes it of leaves."""
        greatest = nsmallest(NAMED, leaves, key=lambda one: (-one.size, one.name))
        return cls(changes, frozenset(leaves), sum(one.size for one in leaves), tuple(greatest))


def safe_leaves(tree: Tree, wanted: Collection[str]) -> Safe:
    """The leaves that can lose nothing to an ask that wants these resources. They are looked for again only after a
    change of the tree."""
    names = frozenset(wanted)
    found = tree.safe.get(names)
    if found is None or found.changes != tree.root.changes:
        leaves = [leaf for leaf in tree.root.leaves() if leaf.requests and _loses_nothing(leaf, names)]
        if len(tree.safe) > MOST_KEPT:
            tree.safe.clear()
        found = tree.safe[names] = Safe.of(tree.root.changes, leaves)
    return found


def _loses_nothing(leaf: Queue, names: Collection[str]) -> bool:
    spares = [
        (leaf, name, leaf.allocated.get(name, 0) - leaf.leaving.get(name, 0) - least)
        for name, least in leaf.guaranteed.items()
        if name in names
    ]
    return bool(spares) and not any(_leaves_enough(request, spares) for request in leaf.requests)


class Planned(NamedTuple):
    """A preemption, or None with the memory of the try; and the attempt."""

    preemption: Preemption | None
    attempt: Attempt
    fruitless: Fruitless | None = None


def plan(tree: Tree, leaf: Queue, ask: Ask, now: float, check: Check | None = None) -> Planned:
    """The preemption for an ask of a leaf. `now`: the moment of the try, seconds. `check`: None admits every node."""
    wanted = {name: amount for name, amount in ask.request if amount > 0}
    goal = goal_of(leaf, wanted)
    if goal is None:
        attempt = in_vain(now, Obstacle.OWN_GUARANTEE, [leaf.name])
        return Planned(None, attempt, Fruitless(tree.partition, leaf, leaf.changes, None, inf))
    search = Search(tree, leaf, goal, ask, wanted)
    found = search.run(check) if search.is_possible() else None
    if found is None:
        attempt = search.in_vain(now)
        return Planned(None, attempt, search.memory(attempt))
    return Planned(found, Attempt(now, (), len(found.victims), found.node))


class Search:
    """The search of one ask. Shortages are amounts above 0 by resource."""

    def __init__(self, tree: Tree, leaf: Queue, goal: Queue, ask: Ask, wanted: dict[str, int]) -> None:
        """`goal`: the nearest queue on the path with a guarantee for a resource of the ask."""
        self.ask, self._tree, self._wanted = ask, tree, wanted
        self._losses = Losses(tree, ask.application)
        self._weights = weights(tree.total)
        self._goal, self._path, self._is_checked = goal, leaf.path, False
        safe = safe_leaves(tree, wanted)
        self._fence, leaves, self._met = scope_of(leaf, ask.request, ask.priority, safe.leaves)
        self._count_safe(safe, leaf)
        self._above: dict[str, int] = {}
        for queue in leaf.path:
            for name, amount in queue.excess(ask.request).items():
                self._above[name] = max(amount, self._above.get(name, 0))
        self._is_limited = any(queue.excess(ask.request) for queue in leaf.path[:-1])
        """A maximum below root is in the way, so victims on other nodes than the one of the ask may do. The maximum of
        root is in the way only where the nodes are full."""
        over = {
            name: goal.expected(name) + amount - goal.guaranteed[name]
            for name, amount in wanted.items()
            if name in goal.guaranteed
        }
        self._over = {name: amount for name, amount in over.items() if amount > 0}
        siblings = any(queue.guaranteed for queue in leaf.path[: leaf.path.index(goal)])
        self._sources: dict[Queue, _Source] = {}
        for one, greatest in leaves.items():
            if not (siblings if goal in one.path else not self._over):
                if not self._over:
                    self._met.count(Obstacle.OUTSIDE, one.size, one.name)
                continue
            source = _Source.of(one, greatest, leaf, self._fence, wanted, tree)
            if source is None:
                self._met.count(Obstacle.GUARANTEE, one.size, one.name)
            else:
                self._sources[one] = source
        self._is_entitled = True
        self._floor = Cost(
            False,
            False,
            min((source.lowest for source in self._sources.values()), default=LOWEST),
            1,
            min((self._weight(request) for one in self._sources for request in one.requests), default=0),
            "",
        )
        """No choice of victims costs less, on the first of all nodes."""

    def _count_safe(self, safe: Safe, leaf: Queue) -> None:
        """Counts the allocations of the leaves below the fence that can lose nothing; their greatest ones are named."""
        if self._fence.parent is not None:
            safe = Safe.of(safe.changes, [one for one in safe.leaves if self._fence in one.path])
        rest = safe.size - (leaf.size if leaf in safe.leaves else 0)
        for one in safe.greatest:
            if one is not leaf:
                self._met.count(Obstacle.GUARANTEE, one.size, one.name)
                rest -= one.size
        if rest:
            self._met.count(Obstacle.GUARANTEE, rest)

    def _weight(self, request: Amounts) -> int:
        return sum(amount * self._weights.get(name, 0) for name, amount in request)

    def is_possible(self) -> bool:
        """False if no choice of victims can help: there are no candidates, or the queue with the guarantee would exceed
        it even without all candidates below it."""
        if not self._sources or not self._over:
            self._is_entitled = not self._over
            return bool(self._sources)
        over = dict(self._over)
        nodes = self._tree.nodes.by_name
        for place in {place for leaf in self._sources for place in leaf.places}:
            for running in nodes[place].running:
                if self._candidate(running) is not None:
                    _reduce(over, dict(running.allocation.ask.request))
        self._is_entitled = not over
        return not over

    def in_vain(self, now: float) -> Attempt:
        """The attempt, after a run without a result. `now`: its moment, seconds."""
        if not self._is_entitled:
            return in_vain(now, Obstacle.OWN_GUARANTEE, [self._goal.name])
        return self._met.attempt(now) if self._met else in_vain(now, Obstacle.NO_CANDIDATE, [self._fence.name])

    def memory(self, attempt: Attempt) -> Fruitless:
        """The memory of the search after a run in vain."""
        tree, codes = self._tree, {met.code for met in attempt.met}
        limiting = (queue for queue in self._path[:-1] if queue.excess(self.ask.request))
        top = min((self._fence, self._goal, *limiting), key=lambda queue: len(queue.path))
        depends = self._is_checked or Obstacle.BUDGET in codes
        until = attempt.at + FORGOTTEN if depends else inf
        return Fruitless(tree.partition, top, top.changes, tree.freed if self._sources else None, until)

    def run(self, check: Check | None) -> Preemption | None:
        """The best preemption; None if there is none."""
        nodes = self._tree.nodes
        best: tuple[Cost, _Taken] | None = None
        partial: tuple[Cost, _Taken] | None = None
        places = set().union(*(leaf.places for leaf in self._sources))
        for node in nodes:
            name = node.name
            if name not in places:
                continue
            taken = self._on(node, None if self._is_limited or best is None else best[0])
            if taken is None:
                continue
            if taken.above:
                here = self._on(node, None, whole=False)
                if here is not None:
                    here.trim()
                    found = self._cost(here, name), here
                    if (partial is None or found[0] < partial[0]) and self._is_admitted(name, here, check):
                        partial = found
                continue
            taken.trim()
            cost = self._cost(taken, name)
            if taken.units and (best is None or cost < best[0]) and self._is_admitted(name, taken, check):
                best = cost, taken
                if cost[:5] == self._floor[:5] and not self._is_limited:
                    break
        if self._is_limited or (best is None and self._above):
            best = min(
                (one for one in (best, self._spread(partial, check)) if one is not None), default=None, key=_cost
            )
        if best is None:
            return None
        return Preemption(self.ask, best[0].node, tuple(best[1].victims), self._fence.name)

    def _is_admitted(self, name: str, taken: _Taken | None, check: Check | None) -> bool:
        victims = () if taken is None else tuple(taken.victims)
        admitted = self._tree.nodes.is_admitted(self.ask.constraint, name)
        if admitted and (check is None or check(self.ask, name, victims)):
            return True
        self._is_checked = self._is_checked or admitted
        self._met.count(Obstacle.APART)
        return False

    def _cost(self, taken: _Taken, node: str) -> Cost:
        victims = taken.victims
        return Cost(
            any(not victim.ask.preemptable for victim in victims),
            any(victim.ask.originator for victim in victims),
            max((taken.importance[victim.ask.id] for victim in victims), default=LOWEST),
            len(victims),
            sum(self._weight(victim.ask.request) for victim in victims),
            node,
        )

    def _on(self, node: Node, best: Cost | None, *, whole: bool = True) -> _Taken | None:
        """Takes victims on one node; None if their room does not suffice for the ask, or if they cannot cost less than
        `best`. `whole`: also takes victims for the maxima of queues."""
        short: dict[str, int] = {}
        least, amount_at_least = 1, 0
        for name, amount in self._wanted.items():
            lack = amount - node.room(name)
            largest = node.largest.get(name, 0)
            if amount > node.total.get(name, 0) or not node.is_schedulable or (lack > 0 and not largest):
                if whole:
                    self._met.count(Obstacle.APART)
                return None
            if lack > 0:
                least = max(least, -(-lack // largest))
                amount_at_least += lack * self._weights.get(name, 0)
                short[name] = lack
        if short and not self._may_suffice(node, short):
            if whole:
                self._met.count(Obstacle.APART)
            return None
        if best is not None and best[:3] == self._floor[:3]:
            amount_at_least = max(amount_at_least, least * self._floor.amount)
            if (least, amount_at_least) >= best[3:5]:
                return None
        candidates = sorted(self._candidates(node, self._met if whole else None), key=_order)
        taken = _Taken(short, self._above if whole else {})
        self._take(taken, candidates, node.name, self._met if whole else None)
        if taken.missed:
            taken = self._with_one(node.name, candidates, taken, _Taken(short, taken.exceeded))
        if taken.short:
            if whole:
                self._met.count(Obstacle.APART)
            return None
        return taken

    def _may_suffice(self, node: Node, short: Mapping[str, int]) -> bool:
        """False if all allocations of the sources on a node together are too small. A bound that costs little: most
        nodes of a search in vain end here."""
        sources, losses = self._sources, self._losses
        blocked: list[tuple[Obstacle, str]] = []
        for name, lack in short.items():
            blocked.clear()
            for _, allocation, leaf in node.running:
                if leaf in sources:
                    obstacle = losses.obstacle(allocation)
                    if obstacle is not None:
                        blocked.append((obstacle, allocation.ask.application))
                        continue
                    for one, amount in allocation.ask.request:
                        if one == name:
                            lack -= amount
                    if lack <= 0:
                        break
            if lack > 0:
                for found, owner in blocked:
                    self._met.count(found, 1, owner)
                return False
        return True

    def _candidates(self, node: Node, met: Tally | None = None) -> Iterator[_Candidate]:
        for running in node.running:
            source = self._candidate(running, met)
            if source is not None:
                yield _Candidate(source.order(running.allocation), running.allocation, source)

    def _with_one(self, node: str, candidates: Collection[_Candidate], failed: _Taken, begin: _Taken) -> _Taken:
        """Begins with one victim that makes the node large enough alone, or enough room below the maxima if the
        failed choice lacks this: smaller ones before it may have used up the amount that its queue can lose.
        `begin`: the victims that stay in any case. `failed`, if nothing is short or there is no such victim."""
        if not failed.short and not failed.above:
            return failed
        lacking = begin.short if failed.short else {**begin.above, **begin.short}
        for one in candidates:
            ask = one.allocation.ask
            amounts = dict(ask.request)
            is_enough = all(amounts.get(name, 0) >= lack for name, lack in lacking.items())
            if not is_enough and self._tree.applications[ask.application].spare is None:
                continue
            taken = begin.copy()
            self._take(taken, (one,), node)
            if len(taken.units) > len(begin.units) and not taken.short and (failed.short or not taken.above):
                self._take(taken, (other for other in candidates if other is not one), node)
                return taken
        return failed

    def _candidate(self, running: Running, met: Tally | None = None) -> _Source | None:
        """The source of a victim, if the allocation can be one; None otherwise, and `met` counts the obstacle."""
        order, allocation, leaf = running
        source = self._sources.get(leaf)
        if source is None:
            return None
        ask = allocation.ask
        if order[3] in self._tree.leaving:
            obstacle = Obstacle.LEAVING
        elif ask.is_spared:
            obstacle = Obstacle.CRITICAL
        elif source.greatest is not None and ask.priority > source.greatest:
            obstacle = Obstacle.PRIORITY
        elif source.refused and ask.request in source.refused:
            obstacle = Obstacle.GUARANTEE
        else:
            return source
        if met is not None:
            met.count(obstacle, 1, leaf.name if obstacle is Obstacle.GUARANTEE else "")
        return None

    def _take(
        self,
        taken: _Taken,
        candidates: Iterable[_Candidate],
        node: str,
        met: Tally | None = None,
    ) -> None:
        """Takes candidates until nothing is short; of equally important ones, whole gangs after all others.
        `met`: counts the obstacles of those that may not end; None counts nothing."""
        for _, alike in groupby(candidates, _importance):
            gangs: list[_Candidate] = []
            for one, is_later in chain(((one, False) for one in alike), ((one, True) for one in gangs)):
                if not (taken.short or taken.above):
                    return
                if one.allocation.ask.id in taken.importance or not taken.is_useful(one.allocation, node):
                    continue
                owner = one.allocation.ask.application
                unit = self._losses.unit(one.allocation, taken.by_application[owner], taken.working[owner])
                obstacle: Obstacle | None = None
                if isinstance(unit, Obstacle):
                    obstacle = unit
                elif len(unit) > 1 and not is_later:
                    gangs.append(one)
                elif len(unit) > 1 and not self._may_all_end(unit, one.source):
                    obstacle = Obstacle.GANG
                elif not taken.take(unit, one, node):
                    obstacle = Obstacle.GUARANTEE
                if obstacle is not None:
                    taken.missed = True
                    if met is not None:
                        until = self._losses.paused_until(owner) if obstacle is Obstacle.PAUSED else 0.0
                        whose = one.source.leaf.name if obstacle is Obstacle.GUARANTEE else owner
                        met.count(obstacle, 1, whose, until)

    def _may_all_end(self, unit: Iterable[Allocation], source: _Source) -> bool:
        """True if all members of a gang can be victims. They belong to one leaf."""
        most = source.greatest
        return all(not one.ask.is_spared and (most is None or one.ask.priority <= most) for one in unit)

    def _spread(self, partial: tuple[Cost, _Taken] | None, check: Check | None) -> tuple[Cost, _Taken] | None:
        """The best choice with victims on several nodes, because a maximum is in the way. `partial`: the victims on the
        node on which the fewest are needed for its room, with their cost; None if victims make no node large
        enough."""
        for node in self._tree.nodes:
            if partial is not None and partial[0] < Cost(False, False, LOWEST, 0, 0, node.name):
                break
            fits = node.is_schedulable and all(amount <= node.room(one) for one, amount in self._wanted.items())
            if fits and self._is_admitted(node.name, None, check):
                partial = Cost(False, False, LOWEST, 0, 0, node.name), _Taken({}, {})
                break
        if partial is None:
            return None
        name = partial[0].node
        taken = partial[1].going_on(self._above)
        nodes = self._tree.nodes.by_name
        places = {place for leaf in self._sources for place in leaf.places}
        begin = taken.copy()
        everywhere = sorted((one for place in places for one in self._candidates(nodes[place])), key=_order)
        self._take(taken, everywhere, name, self._met)
        if taken.missed:
            taken = self._with_one(name, everywhere, taken, begin)
        if taken.above:
            return None
        taken.trim()
        if not taken.units or not self._is_admitted(name, taken, check):
            return None
        return self._cost(taken, name), taken


def _cost(one: tuple[Cost, _Taken]) -> Cost:
    return one[0]


def weights(total: Mapping[str, int]) -> dict[str, int]:
    """Factors with which amounts by resource become comparable: shares of a total, in one unit."""
    whole = prod(amount for amount in total.values() if amount > 0)
    return {name: whole // amount for name, amount in total.items() if amount > 0}


class _Source(NamedTuple):
    """The victims of one leaf. `greatest`: their greatest priority, None for every priority; `importance`: the
    priorities that they show at the fence; `lowest`: the least of these; `spares`: queue, resource and the amount used
    beyond the guarantee; `refused`: requests of allocations none of which may be lost. `idle` has the ids of
    allocations that do not work."""

    leaf: Queue
    greatest: int | None
    importance: Importance
    lowest: int
    spares: list[tuple[Queue, str, int]]
    refused: frozenset[Amounts]
    idle: Mapping[str, str]

    @classmethod
    def of(
        cls, leaf: Queue, greatest: int | None, asking: Queue, fence: Queue, wanted: Mapping[str, int], tree: Tree
    ) -> _Source | None:
        """The victims in a leaf for a leaf that asks; None if there are none."""
        spares = [
            (queue, name, queue.allocated.get(name, 0) - queue.leaving.get(name, 0) - queue.guaranteed[name])
            for queue in leaf.path
            if queue not in asking.path
            for name in wanted
            if name in queue.guaranteed
        ]
        refused = frozenset(request for request in leaf.requests if not _leaves_enough(request, spares))
        if len(refused) == len(leaf.requests):
            return None
        importance = importance_at(fence, leaf)
        lowest = LOWEST if leaf.name in tree.idle_queues else importance.of(leaf.least_priority())
        return cls(leaf, greatest, importance, lowest, spares, refused, tree.idle)

    def importance_of(self, ask: Ask) -> int:
        """The importance of an allocation of the leaf; `LOWEST` if the allocation does not work."""
        return LOWEST if ask.id in self.idle else self.importance.of(ask.priority)

    def order(self, allocation: Allocation) -> Order:
        """The place of an allocation of the leaf among the candidates."""
        ask = allocation.ask
        return (not ask.preemptable, ask.originator, self.importance_of(ask), -ask.created, ask.id)


def _leaves_enough(request: Amounts, spares: list[tuple[Queue, str, int]]) -> bool:
    amounts = dict(request)
    return all(amounts.get(name, 0) <= spare for _, name, spare in spares)


class _Candidate(NamedTuple):
    """An allocation that can be a victim."""

    order: Order
    allocation: Allocation
    source: _Source


def _importance(one: _Candidate) -> tuple[bool, bool, int]:
    return one.order[:3]


def _order(one: _Candidate) -> Order:
    return one.order


class _Unit(NamedTuple):
    """Victims that end together, or not at all. `order`: that of the most important one."""

    order: Order
    victims: tuple[Allocation, ...]
    here: dict[str, int]
    """The amounts of those on the node."""
    everywhere: dict[str, int]


class _Taken:
    """Victims, and the shortages that are left: of the node, and of maxima."""

    __slots__ = (
        "above",
        "by_application",
        "exceeded",
        "importance",
        "lost",
        "missed",
        "needed",
        "short",
        "units",
        "working",
    )

    def __init__(self, short: Mapping[str, int], above: Mapping[str, int]) -> None:
        self.short, self.above = dict(short), dict(above)
        self.needed, self.exceeded = dict(short), dict(above)
        """The shortages before the first victim."""
        self.units: list[_Unit] = []
        self.importance: dict[str, int] = {}
        """The importance of each victim, by id."""
        self.by_application: Counter[str] = Counter()
        self.working: Counter[str] = Counter()
        """Number of victims that work, by application."""
        self.missed = False
        """True if a candidate was passed over because of the victims before it, or for its application."""
        self.lost: dict[tuple[Queue, str], int] = {}

    @property
    def victims(self) -> list[Allocation]:
        """All victims, in the order in which they were taken."""
        return [victim for unit in self.units for victim in unit.victims]

    def is_useful(self, allocation: Allocation, node: str) -> bool:
        """True if an allocation reduces a shortage."""
        here = allocation.node == node
        return any((here and name in self.short) or name in self.above for name, _ in allocation.ask.request)

    def take(self, victims: tuple[Allocation, ...], one: _Candidate, node: str) -> bool:
        """Adds a unit of victims; with a whole gang, members that were taken before join it. False, and nothing is
        changed, if a guarantee is in the way."""
        new = [victim for victim in victims if victim.ask.id not in self.importance]
        name, amounts = one.allocation.ask.application, _sum(new)
        spares = one.source.spares
        if any(amounts.get(kind, 0) + self.lost.get((queue, kind), 0) > spare for queue, kind, spare in spares):
            return False
        for queue, kind, _ in spares:
            self.lost[queue, kind] = self.lost.get((queue, kind), 0) + amounts.get(kind, 0)
        if len(new) < len(victims):
            self.units = [unit for unit in self.units if unit.victims[0].ask.application != name]
        here = _sum(victim for victim in victims if victim.node == node)
        order = one.order if len(victims) == 1 else max(map(one.source.order, victims))
        self.units.append(_Unit(order, victims, here, _sum(victims)))
        self.by_application[name] += len(new)
        for victim in new:
            self.importance[victim.ask.id] = one.source.importance_of(victim.ask)
            self.working[name] += victim.ask.id not in one.source.idle
        _reduce(self.short, _sum(victim for victim in new if victim.node == node))
        _reduce(self.above, amounts)
        return True

    def copy(self) -> _Taken:
        """The same victims."""
        found = _Taken(self.needed, self.exceeded)
        found.short, found.above = dict(self.short), dict(self.above)
        found.units, found.importance, found.lost = list(self.units), dict(self.importance), dict(self.lost)
        found.by_application, found.working = Counter(self.by_application), Counter(self.working)
        return found

    def going_on(self, above: Mapping[str, int]) -> _Taken:
        """The same victims, which are to make room below maxima, too."""
        found = self.copy()
        found.short, found.above, found.exceeded = {}, dict(above), dict(above)
        for unit in self.units:
            _reduce(found.above, unit.everywhere)
        return found

    def trim(self) -> None:
        """Gives back units of victims without which the others suffice, the most important one first."""
        shortages = (self.needed, self.exceeded)
        surplus = [{name: -amount for name, amount in shortage.items()} for shortage in shortages]
        kept = list(self.units)
        for unit in kept:
            for figures, amounts in zip(surplus, (unit.here, unit.everywhere), strict=True):
                for name in figures:
                    figures[name] += amounts.get(name, 0)
        for unit in sorted(self.units, key=_unit_order, reverse=True):
            pairs = list(zip(surplus, (unit.here, unit.everywhere), strict=True))
            if all(figures[name] >= amounts.get(name, 0) for figures, amounts in pairs for name in figures):
                for figures, amounts in pairs:
                    for name in figures:
                        figures[name] -= amounts.get(name, 0)
                kept.remove(unit)
        self.units = kept


def _unit_order(unit: _Unit) -> Order:
    return unit.order


def _sum(allocations: Iterable[Allocation]) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in allocations:
        for name, amount in one.ask.request:
            found[name] = found.get(name, 0) + amount
    return found


def _reduce(shortage: dict[str, int], amounts: Mapping[str, int]) -> None:
    for name in list(shortage):
        shortage[name] -= amounts.get(name, 0)
        if shortage[name] <= 0:
            del shortage[name]
