"""Preemption: an ask of a queue below its guarantee gets the room of victims. The parts have the order of the work.

**Tries.** An ask may try if preemption is on, the ask may preempt others, waits for no victims,
needs no particular node, has waited for the `preemption.delay` of its leaf, and makes no pause. It makes one of `RETRY`
seconds after a try that made room, so that it tries again if its promise was lost with the node, or if its victims were
not ended; a promise that was not kept in time has a longer one (`LONGEST`). A try in vain that depends on
budgets is followed by a pause of all asks that are alike; one that depends on nothing but the tree, by none: a pause
would depend on whether the result is remembered. An ask that has reserved a node may try, unless so much is leaving
there that it needs no victims. It keeps the reservation if it finds none. The asks of a leaf have at most `TRIES` tries
in a round, and asks that must fail as another one did, in this round or before (`Fruitless`), are passed over. If a
leaf has used up its tries, the other asks come first in the next round. A round that takes too long continues later:
each leaf has its turn before the next round begins.

**Scope.** The search is bounded by the first queue above the ask that is a preemption fence, or whose
maximum is in the way, or by root (`Scope`). Priorities are compared where the branches of the ask and of the victim
meet: each queue below that place adds its offset to the priority that it shows, and a priority fence shows its offset
alone.

**Candidates.** A candidate is an allocation whose leaf is in the scope, whose priority is not above the one of the ask,
that needs no particular node, and that is not being preempted already. A victim is taken if it reduces a shortage and
no queue with a guarantee, on its path and not on the path of the ask, falls below the guarantee in the resources of the
ask, as far as its application may lose it (`Losses`). The ask must fit the node and every maximum on its path
afterwards.

The nearest queue on the path of the ask with a guarantee for one of its resources must not exceed the guarantee with
the ask. Victims below that queue count only if a queue between it and the ask has a guarantee of its own: otherwise two
leaves without guarantees would take the room of each other without end (YUNIKORN-2769, YUNIKORN-2795). This is a
condition of the search, and no number of victims that must be taken: if it holds only without the candidates below the
queue, victims are chosen among these, and no more of them than the ask needs.

**Choice.** On one node the least important victims are taken first: those that admit preemption, those that
are no originator, those that do not work, the lowest priority as shown at the fence, single ones before whole gangs,
the newest. If small ones use up all that may be lost, the first one that suffices alone begins, also for a maximum.
Victims without which the others suffice are given back, the most important one first.
All nodes are compared by `Cost`. So a node that needs no victims comes first: its room is leaving already, or the ask
waits until others of its queue have left. If a maximum is in the way, victims on any node may make room below the
maximum.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from heapq import heapify, heappop, nsmallest
from itertools import chain, groupby, islice, repeat
from math import inf, prod
from typing import NamedTuple

import numpy as np

from offers.dimensions import Amounts
from offers.ledger.holds import RETRY
from offers.policy.hierarchy.configuration.partition import Fencing, GangPreemption, Partition, PreemptionPolicy
from offers.policy.hierarchy.state.application import Group, Kind, RequestClass, alternative_of
from offers.policy.hierarchy.state.columns import Array, Key, Numbers, State
from offers.policy.hierarchy.state.model import Allocation, Ask, Preemption
from offers.policy.hierarchy.state.nodes import Node, Running
from offers.policy.hierarchy.state.queue import Queue, QueueState, goal_of
from offers.policy.hierarchy.tree import LOOKED_AT, Tree
from offers.policy.obstacles import NAMED, Attempt, Obstacle, Tally, in_vain

TRIES = 10
"""Tries of the asks of one leaf in one round, and of one class."""
MOST_HALTED = 8
"""Searches that may be halted at a time. A further one takes the place of the first, which begins anew."""
MOST_KEPT = 16
"""Sets of resources for which the leaves that can lose nothing are kept."""
LOWEST = -(1 << 62)
"""Below every priority: the importance of no victim, and of allocations that do not work."""
NO_BOUND = 1 << 62
"""Above every priority, and every number of victims."""
NEAR = 1e-9
"""The part of sums of amounts by which they may be wrong: they are floating-point numbers."""
MADE_AT_ONCE = 1024
"""Candidates on several nodes that are made before the next ones are."""
AT_A_TIME = 64
"""Nodes that a search looks at before it looks at the time."""
CHOSEN_AGAIN = 64
"""Nodes that are looked at before the nodes of a search are chosen again; a quarter of them the first time."""
Place = tuple[bool, str]
"""The place of a node in a search: those that need victims come after the others; and the name."""
BEGIN: Place = (False, "")
END: Place = (True, "\U0010ffff")
"""Before and behind all nodes."""
Check = Callable[[Ask, str, tuple[Allocation, ...]], bool]
"""True if a node admits an ask once some allocations have gone, as far as more than amounts is concerned."""
Order = tuple[bool, bool, int, float, str]
"""The order in which candidates are taken."""


def never() -> bool:
    """The time is never over."""
    return False


# --- tries ------------------------------------------------------------------------------------------------------------


def preempt(
    tree: Tree,
    now: float,
    check: Check | None = None,
    without: Collection[str] = frozenset(),
    is_over: Callable[[], bool] = never,
) -> list[Preemption]:
    """One round of preemption, or a part of it: the preemptions, which are noted in the tree. `now`: seconds of the
    clock of the asks. `check`: a further condition on nodes; None admits every node. `without`: applications that may
    not try. `is_over`: True once the time is over; the next call continues with `tree.behind`."""
    return [preemption for preemption in preempting(tree, now, check, without, is_over) if preemption is not None]


def preempting(
    tree: Tree,
    now: float,
    check: Check | None = None,
    without: Collection[str] = frozenset(),
    is_over: Callable[[], bool] = never,
) -> Iterator[Preemption | None]:
    """Yields the result of each try, as `preempt`; None for a try in vain, and between steps of the work."""
    if not tree.partition.preemption or tree.root.state is QueueState.STOPPED:
        tree.behind = None
        return
    if tree.behind is None:
        tree.behind = Round(tree)
    present = tree.behind
    present.now, present.check, present.without, present.is_over = now, check, without, is_over
    for preemption in present.steps:
        yield preemption
        if is_over():
            return
    tree.behind = None


class Round:
    """A round of preemption, which may take several turns. The figures of a turn are set before its part."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self.now = 0.0
        self.check: Check | None = None
        self.without: Collection[str] = frozenset()
        self.is_over: Callable[[], bool] = never
        self._looked_at = 0
        self.steps = self._run()
        """Results of tries; None for a try in vain, and after `LOOKED_AT` queues, classes or groups without a try."""

    def _is_step(self) -> bool:
        """Counts something that was looked at; True if the time is to be looked at."""
        self._looked_at += 1
        return self._looked_at % LOOKED_AT == 0

    def _run(self) -> Iterator[Preemption | None]:
        for leaf in list(self._tree.queues.values()):
            if self._is_step():
                yield None
            if leaf.is_leaf and leaf.classes and self._tree.queues.get(leaf.name) is leaf and not leaf.is_stopped:
                yield from self._of_leaf(leaf)

    def _of_leaf(self, leaf: Queue) -> Iterator[Preemption | None]:
        """Tries for the asks of a leaf, in their order."""
        _forget_tries(leaf)
        behind, leaf.passed = leaf.passed, set()
        causes = (self._tree.nodes.waiting, *(queue.waiting for queue in leaf.path))
        order: list[tuple[tuple[object, ...], RequestClass]] = []
        for request_class in list(leaf.classes.values()):
            if self._is_step():
                yield None
            if (
                request_class.waits in causes
                and not request_class.alternative.required_node
                and _may_help(leaf, request_class)
            ):
                order.append(((request_class in behind, *first_key(request_class)), request_class))
        heapify(order)  # the first ones are tried: a whole order would cost more
        refused: set[tuple[RequestClass, int]] = set()
        passed: set[RequestClass] = set()
        tries = 0
        while order:
            request_class = heappop(order)[1]
            passed.add(request_class)
            for ask in self._asks(request_class, refused):
                if ask is not None:
                    while (result := attempt(self._tree, ask, self.now, self.check, self.is_over)) is None:
                        if ask.id not in self._tree.halted:
                            break
                        yield None
                        if not self._is_pending(ask):
                            break
                    tries += 1
                    if result is not None:
                        refused.clear()
                    elif ask.application not in self._tree.terms.paused:
                        # Asks of an application that makes a pause may have fewer victims than those of others.
                        refused.add((request_class, ask.priority))
                    yield result
                    if tries >= TRIES:
                        leaf.passed = passed
                        return
                else:
                    yield None

    def _is_pending(self, ask: Ask) -> bool:
        owner = self._tree.applications.get(ask.application)
        group = None if owner is None else owner.asks.get(ask.name)
        if group is None:
            return False
        place = bisect_left(group.asks, (ask.created, ask.name))
        return place < len(group.asks) and group.asks[place][2] is ask

    def _asks(self, request_class: RequestClass, refused: Collection[tuple[RequestClass, int]]) -> Iterator[Ask | None]:
        """Yields the asks of a class that may try; None between steps."""
        tree, tried = self._tree, 0
        for group in groups_of(request_class):
            if self._is_step():
                yield None
            if tried >= TRIES:
                return
            if not _may_try(tree, group, self.without) or _is_fruitless(tree, request_class.leaf, group, self.now):
                continue
            latest = self.now - delay_of(request_class.leaf)
            for created, name, ask in list(group.asks):
                if created > latest or (request_class, ask.priority) in refused or tried >= TRIES:
                    break
                late = self.now - group.application.preempted_at.get(name, -inf) >= RETRY
                if late and self._is_pending(ask) and not has_victims(group, name) and not tree.serves(ask):
                    tried += 1
                    yield ask


def attempt(
    tree: Tree, ask: Ask, now: float, check: Check | None = None, is_over: Callable[[], bool] = never
) -> Preemption | None:
    """One try of one pending ask; a result is noted in the tree. None if the ask may not try now, or in vain. Raises
    KeyError if the ask is not pending. `now` is seconds. `is_over`: True once the time is over: the ask is then in
    `tree.halted`, and its next try continues the search."""
    halted = tree.halted.pop(ask.id, None)
    application = tree.applications[ask.application]
    leaf = tree.queues[application.queue]
    tried = application.preempted_at.get(ask.name, -inf)
    if not tree.partition.preemption or not ask.may_preempt or ask.required_node or now - tried < RETRY:
        return None
    if leaf.is_stopped or has_victims(application.asks[ask.name], ask.name) or now - ask.created < delay_of(leaf):
        return None
    if tree.limit_of(application, ask.request) is not None:
        return None
    if tree.withheld(application, application.asks[ask.name]) is not None:
        return None
    if _comes(tree, application.asks[ask.name], ask) or _is_fruitless(tree, leaf, application.asks[ask.name], now):
        return None
    reserved, since = "", application.reserved_at.get(ask.name)
    if ask.name in application.reserves:
        reserved = application.asks[ask.name].alike.promised
        tree.forget_promise(ask.application, ask.name)
    kind = _kind(tree, application.asks[ask.name])
    result, result_of_try, fruitless, halted = plan(tree, leaf, ask, now, check, is_over, halted)
    if halted is None:
        leaf.tried[kind] = result_of_try
        if fruitless is not None and not reserved and ask.application not in tree.terms.paused:
            leaf.fruitless[kind] = fruitless
        else:
            application.preempted_at[ask.name] = now
    else:
        if len(tree.halted) >= MOST_HALTED:
            del tree.halted[next(iter(tree.halted))]
        tree.halted[ask.id] = halted
    if result is not None:
        tree.preempt(result)
    elif reserved:
        if since is not None:
            application.reserved_at[ask.name] = since
        tree.promise(ask.application, ask.name, reserved, reserves=True)
    return result


def _comes(tree: Tree, group: Group, ask: Ask) -> bool:
    """True if an ask has reserved a node that has room for it once everything has left that is leaving."""
    node = tree.nodes.by_name.get(group.alike.promised)
    return node is not None and all(amount <= node.room(name) for name, amount in ask.request)


def last_try(tree: Tree, application: str, name: str, now: float) -> Attempt | None:
    """The result of the latest try of a pending ask, or of one that is alike in the same leaf; None if there was none.
    An ask that may not try yet has this as its result. Raises KeyError if the ask is not pending. `now`: seconds of the
    clock of the asks."""
    owner = tree.applications[application]
    group, leaf = owner.asks[name], tree.queues[owner.queue]
    latest = leaf.tried.get(_kind(tree, group))
    if latest is None and (delay := delay_of(leaf)) > 0:
        created = next(ask.created for _, asking, ask in group.asks if asking == name)
        if now - created < delay:
            return in_vain(now, Obstacle.NOT_OLD_ENOUGH, until=created + delay)
    if latest is None and group.request_class is not None and not _may_help(leaf, group.request_class):
        return in_vain(now, Obstacle.OWN_GUARANTEE, [leaf.name])
    return latest


def _kind(tree: Tree, group: Group) -> Kind:
    # The victims for a member of a gang are chosen beside those for the members before.
    name = group.application.name
    gang = name if tree.terms.lacking.get(name, 0) > 1 else ""
    return alternative_of(group)._replace(promised=""), group.alike.priority, gang


def _is_fruitless(tree: Tree, leaf: Queue, group: Group, now: float) -> bool:
    """True if the asks of a group must fail as one that was alike did."""
    known = leaf.fruitless.get(_kind(tree, group)) if leaf.fruitless else None
    return known is not None and known.holds(tree, now)


def _forget_tries(leaf: Queue) -> None:
    """Drops the results of asks that are gone."""
    if len(leaf.tried) > 2 * len(leaf.classes):
        kinds = {alternative._replace(promised="") for alternative in leaf.classes}
        leaf.tried = {kind: result for kind, result in leaf.tried.items() if kind[0] in kinds}
        leaf.fruitless = {kind: result for kind, result in leaf.fruitless.items() if kind[0] in kinds}


def has_victims(group: Group, name: str) -> bool:
    """True if an ask has preempted and waits for its node."""
    return group.alike.promised != "" and name not in group.application.reserves


def delay_of(leaf: Queue) -> float:
    """Seconds that asks of a leaf wait before they preempt."""
    return leaf.config.properties.preemption_delay


def waiting_asks(tree: Tree, request_class: RequestClass, latest: float) -> Iterator[Ask]:
    """Yields the asks of a class that may preempt, have no victims, and were made at `latest` or before, in seconds."""
    for group in groups_of(request_class):
        for created, name, ask in list(group.asks) if _may_try(tree, group) else ():
            if created > latest:
                break
            if not has_victims(group, name):
                yield ask


def groups_of(request_class: RequestClass) -> Iterator[Group]:
    """Yields the groups of a class in their order. The class may change meanwhile."""
    last = None
    while members := request_class.members.after(last, LOOKED_AT):
        last = members[-1][0]
        for _, group in members:
            if group.request_class is request_class:
                yield group


def _may_try(tree: Tree, group: Group, without: Collection[str] = frozenset()) -> bool:
    """True if the asks of a group may preempt one by one. `without`: applications that may not."""
    name = group.application.name
    # The victims of a gang are chosen for all its members (`gangs.Attempts`).
    return group.alike.may_preempt and name not in without and tree.terms.lacking.get(name, 0) <= 1


def first_key(request_class: RequestClass) -> tuple[object, ...]:
    """The key of the order in which the classes of a leaf try. The class has asks."""
    first = request_class.members.first()
    assert first is not None and first.key is not None
    return first.key


def _may_help(leaf: Queue, request_class: RequestClass) -> bool:
    """False if the leaf itself would exceed its guarantee, so that no victim of another leaf can help."""
    goal = goal_of(leaf, [name for name, amount in request_class.request if amount > 0])
    if goal is not leaf:
        return goal is not None
    return leaf.stays_within_guarantee(request_class.request)


# --- scope ------------------------------------------------------------------------------------------------------------


class Scope(NamedTuple):
    """The queue that bounds the search. `leaves`: the greatest priority of a victim in each leaf; None: victims of
    every priority. `met`: the obstacles of the other leaves."""

    fence: Queue
    leaves: dict[Queue, int | None]
    met: Tally


def scope_of(leaf: Queue, request: Amounts, priority: int, safe: Collection[Queue] = ()) -> Scope:
    """The queues in which an ask of a leaf, with its request and priority, may find victims. `safe`: leaves that are
    passed over."""
    leaves: dict[Queue, int | None] = {}
    met = Tally()
    shown, below = priority, leaf
    for queue in leaf.path:
        if queue is not leaf:
            _collect((child for child in queue.children.values() if child is not below), shown, leaves, met, safe)
        properties = queue.config.properties
        shown = properties.priority_offset + (0 if properties.priority_policy is Fencing.FENCE else shown)
        below = queue
        if properties.preemption_policy is PreemptionPolicy.FENCE or queue.excess(request):
            break
    return Scope(below, leaves, met)


def _collect(
    queues: Iterable[Queue],
    shown: int | None,
    leaves: dict[Queue, int | None],
    met: Tally,
    safe: Collection[Queue],
) -> None:
    for queue in queues:
        if queue in safe:
            continue
        properties = queue.config.properties
        if properties.preemption_policy is PreemptionPolicy.DISABLED:
            _count(met, Obstacle.OUTSIDE, queue)
            continue
        greatest = shown
        if greatest is not None and properties.priority_policy is Fencing.FENCE:
            if properties.priority_offset > greatest:
                _count(met, Obstacle.PRIORITY, queue)
                continue
            greatest = None
        elif greatest is not None:
            greatest -= properties.priority_offset
        if not queue.is_leaf:
            _collect(queue.children.values(), greatest, leaves, met, safe)
        elif queue.places and (greatest is None or queue.least_priority() <= greatest):
            leaves[queue] = greatest
        else:
            _count(met, Obstacle.PRIORITY, queue)


def _count(met: Tally, obstacle: Obstacle, queue: Queue) -> None:
    """Counts all allocations below a queue."""
    number = sum(leaf.size for leaf in queue.leaves())
    if number:
        met.count(obstacle, number, queue.name)


class Importance(NamedTuple):
    """The priority that the allocations of a leaf show at a fence: their own with an offset, or, if a priority fence is
    between, the same for all of them."""

    offset: int
    is_fixed: bool

    def of(self, priority: int) -> int:
        """The importance of an allocation with a priority."""
        return self.offset if self.is_fixed else self.offset + priority


def importance_at(fence: Queue, leaf: Queue) -> Importance:
    """The priorities that the allocations of a leaf below a queue show there."""
    offset, is_fixed = 0, False
    for queue in leaf.path:
        if queue is fence:
            break
        properties = queue.config.properties
        if properties.priority_policy is Fencing.FENCE:
            offset, is_fixed = properties.priority_offset, True
        else:
            offset += properties.priority_offset
    return Importance(offset, is_fixed)


# --- losses -----------------------------------------------------------------------------------------------------------


class Losses:
    """The allocations that one search has chosen, beside those that are leaving already. A gang that would fall below
    its minimum loses nothing, or all that it has in one step, as `preemption.gangs` of its queue says. A whole gang
    spends one of the disruption budget: it does not work with less."""

    def __init__(self, tree: Tree, beneficiary: str = "") -> None:
        """`beneficiary`: the application that gets the room; empty: none, a maximum was lowered."""
        self._tree = tree
        self._paused = tree.terms.paused.get(beneficiary, {})
        self._allowances: dict[str, int] = {}
        self._budgets: dict[str, tuple[str, ...]] = {}
        self._obstacles: dict[tuple[str, bool], Obstacle | None] = {}
        self.blocked: dict[str, Obstacle] = {}
        """The applications that `obstacle` has found to lose nothing, whichever allocation."""

    def allowance(self, application: str) -> int:
        """The number of allocations that the disruption budget of an application admits before those of this search."""
        admitted = self._allowances.get(application)
        if admitted is None:
            allowance = self._tree.terms.allowance
            admitted = self._allowances[application] = NO_BOUND if allowance is None else allowance(application)
        return admitted

    def _elsewhere(self, application: str, working: Mapping[str, int]) -> int:
        """The number of those that work, of other applications with the budget of this one. `working`: by
        application."""
        if not working:
            return 0
        budget = self._budgets.get(application)
        if budget is None:
            budget = self._budgets[application] = self._tree.terms.budget_of(application)
        return 0 if len(budget) == 1 else sum(working.get(other, 0) for other in budget if other != application)

    def obstacle(self, allocation: Allocation) -> Obstacle | None:
        """The obstacle of an allocation before the search has chosen others of its application; None if it may end,
        alone or with its gang."""
        kind = allocation.ask.application, allocation.ask.id in self._tree.idle
        if kind not in self._obstacles:
            unit = self.unit(allocation)
            obstacle = self._obstacles[kind] = unit if isinstance(unit, Obstacle) else None
            if obstacle is not None and (
                obstacle is not Obstacle.BUDGET or not self.has_idle(allocation.ask.application)
            ):
                self.blocked[allocation.ask.application] = obstacle
        return self._obstacles[kind]

    def note_torn(self, application: str) -> None:
        """Notes that a gang may not end as a whole: it loses nothing, unless it has more than its minimum."""
        if (self._tree.applications[application].spare or 0) <= 0:
            self.blocked[application] = Obstacle.GANG

    def has_idle(self, application: str) -> bool:
        """True if allocations of the queue of an application do not work: they end beside the budget."""
        return self._tree.applications[application].queue in self._tree.idle_queues

    def paused_until(self, application: str) -> float:
        """The moment from which allocations of an application may end for the beneficiary again, in seconds; 0: they
        may end now."""
        return self._paused.get(application, 0.0)

    def unit(
        self,
        allocation: Allocation,
        lost: Mapping[str, int] = {},
        working: Mapping[str, int] = {},
    ) -> tuple[Allocation, ...] | Obstacle:
        """The allocations that end together with one: itself, or all of its gang that are not leaving; or the obstacle.
        `lost`: number of allocations that the search has chosen, by application; `working`: of those among them that
        work."""
        application = self._tree.applications[allocation.ask.application]
        if application.name in self._paused:
            return Obstacle.PAUSED
        name, spare = application.name, application.spare
        allowance = self.allowance(name) - self._elsewhere(name, working)
        if spare is not None and spare <= lost.get(name, 0):
            if self._tree.queues[application.queue].gang_preemption is not GangPreemption.WHOLE:
                return Obstacle.GANG
            if allowance < 1:
                return Obstacle.BUDGET
            leaving = self._tree.leaving
            return tuple(member for member in application.allocations.values() if member.ask.id not in leaving)
        is_free = allocation.ask.id in self._tree.idle
        return (allocation,) if is_free or working.get(name, 0) < allowance else Obstacle.BUDGET


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
        greatest = nsmallest(NAMED, leaves, key=lambda leaf: (-leaf.size, leaf.name))
        return cls(changes, frozenset(leaves), sum(leaf.size for leaf in leaves), tuple(greatest))


def safe_leaves(tree: Tree, dimensions: Collection[str]) -> Safe:
    """The leaves that can lose nothing to an ask that wants these resources. They are looked for again only after a
    change of the tree."""
    names = frozenset(dimensions)
    safe = tree.safe.get(names)
    if safe is None or safe.changes != tree.root.changes:
        leaves = [leaf for leaf in tree.root.leaves() if leaf.requests and _loses_nothing(leaf, names)]
        if len(tree.safe) > MOST_KEPT:
            tree.safe.clear()
        safe = tree.safe[names] = Safe.of(tree.root.changes, leaves)
    return safe


def _loses_nothing(leaf: Queue, names: Collection[str]) -> bool:
    spares = [
        (leaf, name, leaf.allocated.get(name, 0) - leaf.leaving.get(name, 0) - least)
        for name, least in leaf.guaranteed.items()
        if name in names
    ]
    return bool(spares) and not any(_leaves_enough(request, spares) for request in leaf.requests)


# --- search -----------------------------------------------------------------------------------------------------------


class Planned(NamedTuple):
    """A preemption, or None with the memory of the try; and the attempt. `halted`: the time was over before the search
    had an answer; None: it has one."""

    preemption: Preemption | None
    attempt: Attempt
    fruitless: Fruitless | None = None
    halted: Halted | None = None


class Halted(NamedTuple):
    """A search that continues in a later turn. `ask`: its id; `passed`: the last node that was looked at;
    `chosen`: the nodes with the best choices so far, which are looked at again, because they may have changed; `met`:
    the obstacles on the nodes; `began`: `Tree.freed` and the changes of root at the begin; `blocked`: applications that
    can lose nothing, as the search for victims on several nodes has found so far."""

    ask: str
    passed: Place
    chosen: tuple[str, ...]
    met: Tally
    began: tuple[int, int]
    blocked: Mapping[str, Obstacle] = {}


def only_on(ask: Ask, node: str) -> Halted:
    """The place at which the search of an ask looks at one node only."""
    return Halted(ask.id, END, (node,), Tally(), (-1, -1))


def plan(
    tree: Tree,
    leaf: Queue,
    ask: Ask,
    now: float,
    check: Check | None = None,
    is_over: Callable[[], bool] = never,
    halted: Halted | None = None,
) -> Planned:
    """The preemption for an ask of a leaf. `now`: the moment of the try, seconds. `check`: None admits every node.
    `is_over`: True once the time is over: the search stops then, after some nodes at least. `halted`: the place to
    continue at."""
    needed = {name: amount for name, amount in ask.request if amount > 0}
    goal = goal_of(leaf, needed)
    if goal is None:
        attempt = in_vain(now, Obstacle.OWN_GUARANTEE, [leaf.name])
        return Planned(None, attempt, Fruitless(tree.partition, leaf, leaf.changes, None, inf))
    began = tree.freed, tree.root.changes
    search = Search(tree, leaf, goal, ask, needed)
    preemption = search.run(check, is_over, halted) if search.is_possible() else None
    if isinstance(preemption, Halted):
        return Planned(None, search.in_vain(now), None, preemption)
    if preemption is None:
        attempt = search.in_vain(now)
        return Planned(None, attempt, search.memory(attempt) if halted is None or halted.began == began else None)
    return Planned(preemption, Attempt(now, (), len(preemption.victims), preemption.node))


class Search:
    """The search of one ask. Shortages are amounts above 0 by resource."""

    def __init__(self, tree: Tree, leaf: Queue, goal: Queue, ask: Ask, needed: dict[str, int]) -> None:
        """`goal`: the nearest queue on the path with a guarantee for a resource of the ask."""
        self.ask, self.tree, self.needed = ask, tree, needed
        self.losses = Losses(tree, ask.application)
        self._weights = weights(tree.total)
        self._goal, self._path, self._is_checked = goal, leaf.path, False
        self.beside = tree.beside(leaf, ask)
        """See `Tree.beside`."""
        safe = safe_leaves(tree, needed)
        self._fence, leaves, self._met = scope_of(leaf, ask.request, ask.priority, safe.leaves)
        self._count_safe(safe, leaf)
        self.above: dict[str, int] = {}
        """The amounts by which the ask would exceed maxima of its queues: victims on other nodes than the one of the
        ask may do for these."""
        for queue in leaf.path:
            for name, amount in queue.excess(ask.request).items():
                self.above[name] = max(amount, self.above.get(name, 0))
        over = {
            name: goal.expected(name) + amount - goal.guaranteed[name]
            for name, amount in needed.items()
            if name in goal.guaranteed
        }
        self._over = {name: amount for name, amount in over.items() if amount > 0}
        siblings = any(queue.guaranteed for queue in leaf.path[: leaf.path.index(goal)])
        self.sources: dict[Queue, _Source] = {}
        for losing, greatest in leaves.items():
            if not (siblings if goal in losing.path else not self._over):
                if not self._over:
                    self._met.count(Obstacle.OUTSIDE, losing.size, losing.name)
                continue
            source = _Source.of(losing, greatest, leaf, self._fence, needed, tree)
            if source is None:
                self._met.count(Obstacle.GUARANTEE, losing.size, losing.name)
            else:
                self.sources[losing] = source
        self._is_entitled = True
        self._floor = Cost(
            False,
            False,
            min((source.lowest for source in self.sources.values()), default=LOWEST),
            1,
            min((self._weight(request) for losing in self.sources for request in losing.requests), default=0),
            "",
        )
        """No choice of victims costs less, on the first of all nodes."""

    def _count_safe(self, safe: Safe, leaf: Queue) -> None:
        """Counts the allocations of the leaves below the fence that can lose nothing; their greatest ones are named."""
        if self._fence.parent is not None:
            safe = Safe.of(safe.changes, [safe_leaf for safe_leaf in safe.leaves if self._fence in safe_leaf.path])
        rest = safe.size - (leaf.size if leaf in safe.leaves else 0)
        for safe_leaf in safe.greatest:
            if safe_leaf is not leaf:
                self._met.count(Obstacle.GUARANTEE, safe_leaf.size, safe_leaf.name)
                rest -= safe_leaf.size
        if rest:
            self._met.count(Obstacle.GUARANTEE, rest)

    def _weight(self, request: Amounts) -> int:
        return sum(amount * self._weights.get(name, 0) for name, amount in request)

    @cached_property
    def judged(self) -> Judged:
        """The running allocations. The tree does not change during a search."""
        return Judged(self)

    def is_possible(self) -> bool:
        """False if no node can suit: there are no candidates although some have to leave, or the queue with the
        guarantee would exceed it even without all candidates below it."""
        if not self.sources or not self._over:
            self._is_entitled = not self._over
            return bool(self.sources) or not (self._over or self.above)
        over = dict(self._over)
        columns = self.tree.nodes.columns
        requests, counts = np.unique(columns.request[: columns.used][self.judged.can_end], return_counts=True)
        for request, number in zip(requests.tolist(), counts.tolist(), strict=True):
            amounts = columns.requests.keys[request]
            _reduce(over, {name: number * amount for name, amount in amounts or ()})
        self._is_entitled = not over
        return not over

    def in_vain(self, now: float) -> Attempt:
        """The attempt, after a run without a result. `now`: its moment, seconds."""
        if not self._is_entitled:
            return in_vain(now, Obstacle.OWN_GUARANTEE, [self._goal.name])
        return self._met.attempt(now) if self._met else in_vain(now, Obstacle.NO_CANDIDATE, [self._fence.name])

    def memory(self, attempt: Attempt) -> Fruitless:
        """The memory of the search after a run in vain."""
        tree, codes = self.tree, {met.code for met in attempt.met}
        limiting = (queue for queue in self._path if queue.excess(self.ask.request))
        top = min((self._fence, self._goal, *limiting), key=lambda queue: len(queue.path))
        depends = self._is_checked or Obstacle.BUDGET in codes
        until = attempt.at + RETRY if depends else inf
        by_room = bool(self.sources) or not (self._over or self.above)
        return Fruitless(tree.partition, top, top.changes, tree.freed if by_room else None, until)

    def run(
        self, check: Check | None, is_over: Callable[[], bool] = never, halted: Halted | None = None
    ) -> Preemption | Halted | None:
        """The best preemption; None if there is none. `is_over`, `halted`: as for `plan`."""
        best: tuple[Cost, _Taken] | None = None
        partial: tuple[Cost, _Taken] | None = None
        began = halted.began if halted is not None else (self.tree.freed, self.tree.root.changes)
        beside, self._met = self._met, halted.met if halted is not None else Tally()
        prospects = Prospects(self, beside, halted)
        for node in prospects:
            name = node.name
            taken = self._on(node, None if self.above or best is None else best[0])
            if taken is not None and self.above:
                partial = self._partial(node, taken, partial, check)
            if taken is not None and not taken.above:
                taken.trim()
                cost = self._cost(taken, name)
                is_better = (taken.units or not self._over) and (best is None or cost < best[0])
                if is_better and self._is_admitted(name, taken, check):
                    best = cost, taken
                    is_least = cost[:5] == self._floor[:5] and not self.above and prospects.passed[0]
                    if is_least or not taken.units:
                        break
            prospects.has_choice = best is not None or partial is not None
            if prospects.number and prospects.number % AT_A_TIME == 0 and is_over():
                chosen = tuple(choice[0].node for choice in (best, partial) if choice is not None)
                return Halted(self.ask.id, prospects.passed, chosen, self._met, began)
        if self.above:
            known = halted.blocked if halted is not None else {}
            spread, over = None, known if prospects.number and is_over() else None
            if over is None:
                spread, over = self._on_several(partial, check, is_over, known)
            if over is not None:
                chosen = tuple(choice[0].node for choice in (best, partial) if choice is not None)
                return Halted(self.ask.id, END, chosen, self._met, began, over)
            best = min((choice for choice in (best, spread) if choice is not None), default=None, key=_cost)
        if best is None:
            self._met.add(beside)
            return None
        return Preemption(self.ask, best[0].node, tuple(best[1].victims), self._fence.name)

    def _is_admitted(self, name: str, taken: _Taken | None, check: Check | None) -> bool:
        victims = () if taken is None else tuple(taken.victims)
        admitted = self.tree.nodes.is_admitted(self.ask.constraint, name)
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
        for name, amount in self.needed.items():
            lack = amount - self._room(node, name)
            largest = node.largest.get(name, 0)
            if amount > node.total.get(name, 0) or (lack > 0 and not largest):
                if whole:
                    self._met.count(Obstacle.APART)
                return None
            if lack > 0:
                least = max(least, -(-lack // largest))
                amount_at_least += lack * self._weights.get(name, 0)
                short[name] = lack
        if short and best is not None and best[:3] == self._floor[:3]:
            amount_at_least = max(amount_at_least, least * self._floor.amount)
            if (least, amount_at_least, node.name) >= best[3:]:
                return None
        if short and not self._may_suffice(node, short):
            if whole:
                self._met.count(Obstacle.APART)
            return None
        candidates = sorted(self._candidates(node, self._met if whole else None), key=_order)
        taken = _Taken(short, self.above if whole else {})
        self._add_victims(taken, candidates, node.name, self._met if whole else None)
        if taken.missed:
            taken = self._with_one(node.name, lambda *_: candidates, taken, _Taken(short, taken.exceeded))
        if taken.short:
            if whole:
                self._met.count(Obstacle.APART)
            return None
        return taken

    def _room(self, node: Node, name: str) -> int:
        """`Node.room`, with the kept room."""
        room = node.room(name)
        return room + self.beside[node.name].get(name, 0) if node.name in self.beside else room

    def _may_suffice(self, node: Node, short: Mapping[str, int]) -> bool:
        """False if all allocations of the sources on a node together are too small. A bound that costs little: most
        nodes of a search in vain end here."""
        sources, losses = self.sources, self.losses
        blocked: list[tuple[Obstacle, str]] = []
        for name, lack in short.items():
            blocked.clear()
            for _, allocation, leaf in node.running:
                if leaf in sources:
                    obstacle = losses.obstacle(allocation)
                    if obstacle is not None:
                        blocked.append((obstacle, allocation.ask.application))
                        continue
                    for dimension, amount in allocation.ask.request:
                        if dimension == name:
                            lack -= amount
                    if lack <= 0:
                        break
            if lack > 0:
                for reason, owner in blocked:
                    self._met.count(reason, 1, owner, losses.paused_until(owner))
                return False
        return True

    def _candidates(self, node: Node, met: Tally | None = None) -> Iterator[_Candidate]:
        for running in node.running:
            source = self._candidate(running, met)
            if source is not None:
                yield _Candidate(source.order(running.allocation), running.allocation, source)

    def _with_one(self, node: str, candidates: _Candidates, failed: _Taken, begin: _Taken) -> _Taken:
        """Begins with one victim that makes the node large enough alone, or enough room below the maxima if the
        failed choice lacks this: smaller ones before it may have used up the amount that its queue can lose.
        `begin`: the victims that stay in any case. `failed`, if nothing is short or there is no such victim."""
        if not failed.short and not failed.above:
            return failed
        lacking = begin.short if failed.short else {**begin.above, **begin.short}
        for candidate in candidates(begin, lacking):
            ask = candidate.allocation.ask
            amounts = dict(ask.request)
            is_enough = all(amounts.get(name, 0) >= lack for name, lack in lacking.items())
            if not is_enough and self.tree.applications[ask.application].spare is None:
                continue
            taken = begin.copy()
            self._add_victims(taken, (candidate,), node)
            if len(taken.units) > len(begin.units) and not taken.short and (failed.short or not taken.above):
                self._add_victims(taken, candidates(taken, None), node)  # passes over victims
                return taken
            if len(taken.units) == len(begin.units):
                begin.blocked.update(taken.blocked)
                begin.kept |= taken.kept
        return failed

    def _candidate(self, running: Running, met: Tally | None = None) -> _Source | None:
        """The source of a victim, if the allocation can be one; None otherwise, and `met` counts the obstacle."""
        order, allocation, leaf = running
        source = self.sources.get(leaf)
        if source is None:
            return None
        ask = allocation.ask
        if order[3] in self.tree.leaving:
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

    def _add_victims(
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
            later: set[str] = set()
            for candidate, is_later in chain(
                ((candidate, False) for candidate in alike), ((candidate, True) for candidate in gangs)
            ):
                if not (taken.short or taken.above):
                    return
                if candidate.allocation.ask.id in taken.importance or not taken.is_useful(candidate.allocation, node):
                    continue
                owner = candidate.allocation.ask.application
                if owner in later and not is_later:
                    gangs.append(candidate)
                    continue
                known = taken.blocked.get(owner)
                unit = known or self.losses.unit(candidate.allocation, taken.by_application, taken.working)
                obstacle: Obstacle | None = None
                if isinstance(unit, Obstacle):
                    obstacle = unit
                    if known is None and not self.losses.has_idle(owner):
                        taken.blocked[owner] = unit
                        self.losses.obstacle(candidate.allocation)
                elif len(unit) > 1 and not self._may_all_end(unit, candidate.source):
                    obstacle = taken.blocked[owner] = Obstacle.GANG
                    self.losses.note_torn(owner)
                elif len(unit) > 1 and not is_later:
                    gangs.append(candidate)
                    later.add(owner)
                elif not taken.add(unit, candidate, node):
                    obstacle = Obstacle.GUARANTEE
                    if len(unit) == 1:
                        taken.kept.add((candidate.source.leaf, candidate.allocation.ask.request))
                    else:
                        taken.blocked[owner] = obstacle
                if obstacle is not None:
                    taken.missed = True
                    if met is not None:
                        whose = candidate.source.leaf.name if obstacle is Obstacle.GUARANTEE else owner
                        met.count(obstacle, 1, whose, self.losses.paused_until(owner))

    def _may_all_end(self, unit: Iterable[Allocation], source: _Source) -> bool:
        """True if all members of a gang can be victims. They belong to one leaf."""
        most = source.greatest
        return all(
            not allocation.ask.is_spared and (most is None or allocation.ask.priority <= most) for allocation in unit
        )

    def _partial(
        self, node: Node, taken: _Taken, before: tuple[Cost, _Taken] | None, check: Check | None
    ) -> tuple[Cost, _Taken] | None:
        """The best choice so far for the room of a node alone, beside victims on other nodes. `taken`: that for the
        maxima, too; `before`: the best one on the nodes before."""
        if taken.above or not taken.needed:
            here = self._on(node, None, whole=False) if taken.needed else _Taken({}, {})
            if here is not None:
                here.trim()
                choice = self._cost(here, node.name), here
                if (before is None or choice[0] < before[0]) and self._is_admitted(node.name, here, check):
                    return choice
        return before

    def _on_several(
        self,
        partial: tuple[Cost, _Taken] | None,
        check: Check | None,
        is_over: Callable[[], bool],
        known: Mapping[str, Obstacle],
    ) -> tuple[tuple[Cost, _Taken] | None, Mapping[str, Obstacle] | None]:
        """Like `_spread`. The second result: None, or the applications that can lose nothing, if the search
        continues later. `known`: those that were found before."""
        met, self._met = self._met, Tally()
        self.losses.blocked.update(known)
        try:
            choice = self._spread(partial, check, is_over)
        except _TimeOver:
            if len(self.losses.blocked) > len(known):
                self._met = met
                return None, dict(self.losses.blocked)
            self._met.clear()
            choice = self._spread(partial, check, never)  # the next turn would not come further, either
        met.add(self._met)
        self._met = met
        return choice, None

    def _spread(
        self, partial: tuple[Cost, _Taken] | None, check: Check | None, is_over: Callable[[], bool]
    ) -> tuple[Cost, _Taken] | None:
        """The best choice with victims on several nodes, because a maximum is in the way. `partial`: the victims on the
        node on which the fewest are needed for its room, with their cost; None if victims make no node large enough.
        Raises _TimeOver."""
        if partial is None:
            return None
        name = partial[0].node
        taken = partial[1].going_on(self.above)
        begin = taken.copy()
        everywhere = Everywhere(self, is_over)
        self._add_victims(taken, everywhere.candidates(taken, None, self._met), name, self._met)
        if taken.missed:
            taken = self._with_one(name, everywhere.candidates, taken, begin)
        if taken.above:
            return None
        taken.trim()
        if not taken.units or not self._is_admitted(name, taken, check):
            return None
        return self._cost(taken, name), taken


class Judged:
    """The running allocations as a search sees them, one entry per row of the columns. `can_end`: candidates, as
    `Search` judges; `is_source`: allocations of the leaves of the search."""

    def __init__(self, search: Search) -> None:
        columns = search.tree.nodes.columns
        self.columns = columns
        most = np.full(len(columns.leaves), -NO_BOUND, dtype=np.int64)
        spares = {name: np.full(len(most), inf) for name in search.needed}
        for leaf, source in search.sources.items():
            number = columns.leaves.of[leaf]
            most[number] = NO_BOUND if source.greatest is None else source.greatest
            for _, name, spare in source.spares:
                spares[name][number] = min(spare, spares[name][number])
        used = columns.used
        self.leaf, self.node = columns.leaf[:used], columns.node[:used]
        self.application, self.request = columns.application[:used], columns.request[:used]
        state, greatest = columns.state[:used], most[self.leaf]
        self.is_source = (greatest > -NO_BOUND) & (state != State.GONE)
        left = self.is_source.copy()
        self.by_obstacle: dict[Obstacle, Array] = {}
        for obstacle, met in (
            (Obstacle.LEAVING, state == State.LEAVES),
            (Obstacle.CRITICAL, state == State.SPARED),
            (Obstacle.PRIORITY, columns.priority[:used] > greatest),
        ):
            self.by_obstacle[obstacle] = left & met
            left &= ~met
        kept = np.zeros(used, dtype=bool)
        for name, most_lost in spares.items():
            if (most_lost < inf).any():
                kept |= columns.amounts(name)[self.request] > most_lost[self.leaf]
        self.by_obstacle[Obstacle.GUARANTEE] = left & kept
        self.can_end = left & ~kept


class Everywhere:
    """The candidates on all nodes that use a resource of which a maximum is in the way, in the order of loss. They are
    made in portions, as they are needed. Candidates that must fail as others did are passed over in columns, so that a
    search costs little for each of them."""

    def __init__(self, search: Search, is_over: Callable[[], bool] = never) -> None:
        """`is_over`: True once the time is over."""
        judged = search.judged
        self._search, self._judged, self._is_over, columns = search, judged, is_over, judged.columns
        helps = np.zeros(len(columns.requests), dtype=bool)
        for name in search.above:
            helps |= columns.amounts(name)[: len(helps)] > 0
        rows = np.flatnonzero(judged.can_end & helps[judged.request])
        offset, is_fixed = (np.zeros(len(columns.leaves), dtype=np.int64) for _ in range(2))
        for leaf, source in search.sources.items():
            offset[columns.leaves.of[leaf]], is_fixed[columns.leaves.of[leaf]] = source.importance
        importance = offset[judged.leaf] + np.where(is_fixed[judged.leaf], 0, columns.priority[: columns.used])
        importance[[row for identity in search.tree.idle if (row := columns.rows.get(identity)) is not None]] = LOWEST
        keys = -columns.created[rows], importance[rows], columns.later[rows]
        order = np.lexsort(keys)
        self._rows = rows[order]
        differs = np.logical_or.reduce([np.diff(key[order]) != 0 for key in keys])
        self._ends = np.append(np.flatnonzero(differs) + 1, len(rows))
        """Behind each row that does not stand beside the next one by its id alone."""

    def candidates(
        self, taken: _Taken, least: Mapping[str, int] | None, met: Tally | None = None
    ) -> Iterator[_Candidate]:
        """Yields the candidates without those of which `taken` knows that they must fail; `met` counts the obstacles of
        these. `least`: amounts that a candidate has to have, unless it belongs to a gang; None: any."""
        search, columns, begin = self._search, self._judged.columns, 0
        rows = self._rows
        if least is not None:
            is_enough = np.ones(len(columns.requests), dtype=bool)
            for name, amount in least.items():
                is_enough &= columns.amounts(name)[: len(is_enough)] >= amount
            applications, keys = search.tree.applications, columns.applications.keys
            is_gang = np.array([name is not None and applications[name].spare is not None for name in keys], dtype=bool)
            chosen = is_enough[self._judged.request] | is_gang[self._judged.application]
        passed = _Passed(self._judged, taken, search.losses.blocked)
        made = 0
        while begin < len(rows):
            if made and self._is_over():
                raise _TimeOver
            end = int(self._ends[np.searchsorted(self._ends, min(begin + MADE_AT_ONCE, len(rows)))])
            portion = passed.without(rows[begin:end])
            if least is not None:
                portion = portion[chosen[portion]]
            yield from sorted(map(self._candidate, portion.tolist()), key=_order)
            begin, made = end, made + len(portion)
        if met is not None:
            passed.count(met, search)

    def _candidate(self, row: int) -> _Candidate:
        leaf, allocation = (
            self._judged.columns.leaves.keys[self._judged.leaf[row]],
            self._judged.columns.allocations[row],
        )
        assert leaf is not None and allocation is not None
        source = self._search.sources[leaf]
        return _Candidate(source.order(allocation), allocation, source)


class _TimeOver(Exception):
    """The time of a turn is over before a search for victims on several nodes has an answer."""


class _Passed:
    """The rows that a search passes over because they must fail as others did."""

    def __init__(self, judged: Judged, taken: _Taken, blocked: Mapping[str, Obstacle]) -> None:
        """`blocked`: applications that are known to lose nothing, beside those that `taken` knows; both may grow."""
        columns = judged.columns
        self._judged, self._columns, self._taken, self._blocked = judged, columns, taken, blocked
        self._known = [0, 0]
        self._is_blocked = np.zeros(len(columns.applications), dtype=bool)
        self._of_application = np.zeros(len(columns.applications), dtype=np.int64)
        self._of_leaf = np.zeros(len(columns.leaves), dtype=np.int64)

    def without(self, rows: Array) -> Array:
        """The rows that are left, of some."""
        numbers = self._columns.applications.of
        for at, names in enumerate((self._blocked, self._taken.blocked)):
            if len(names) > self._known[at]:
                new = islice(names, self._known[at], None)
                self._is_blocked[[numbers[name] for name in new if name in numbers]] = True
                self._known[at] = len(names)
        if any(self._known):
            applications = self._judged.application[rows]
            failing = self._is_blocked[applications]
            self._of_application += np.bincount(applications[failing], minlength=len(self._of_application))
            rows = rows[~failing]
        if self._taken.kept:
            size, leaves = len(self._columns.requests), self._judged.leaf[rows]
            kinds = leaves.astype(np.int64) * size + self._judged.request[rows]
            of = self._columns.leaves.of, self._columns.requests.of
            failing = np.isin(kinds, [of[0][leaf] * size + of[1][request] for leaf, request in self._taken.kept])
            self._of_leaf += np.bincount(leaves[failing], minlength=len(self._of_leaf))
            rows = rows[~failing]
        return rows

    def count(self, met: Tally, search: Search) -> None:
        """Counts the obstacles of the rows that were passed over."""
        for name, number in _counted(self._columns.applications, self._of_application):
            obstacle = self._taken.blocked.get(name) or self._blocked[name]
            whose = search.tree.applications[name].queue if obstacle is Obstacle.GUARANTEE else name
            met.count(obstacle, number, whose, search.losses.paused_until(name))
        for leaf, number in _counted(self._columns.leaves, self._of_leaf):
            met.count(Obstacle.GUARANTEE, number, leaf.name)


def _counted(keys: Numbers[Key], counts: Array) -> Iterator[tuple[Key, int]]:
    """The keys with their counts, by number, without those that have none."""
    numbers = np.flatnonzero(counts)
    return zip(keys.names(numbers), counts[numbers].tolist(), strict=True)


class Prospects:
    """The nodes on which victims of a search may make enough room: those that are free enough once all candidates there
    have gone. The ones that need no victims come first. The other nodes are passed over without a look, and their
    obstacles are counted.

    Candidates whose application may lose nothing are known only once they were looked at, so the nodes are chosen again
    from time to time without these."""

    def __init__(self, search: Search, met: Tally, halted: Halted | None) -> None:
        """`met`: counts the obstacles of the nodes that are passed over. `halted`: where the search continues."""
        self._search, self._met = search, met
        self.passed = halted.passed if halted is not None else BEGIN
        """The latest node."""
        self._again = halted.chosen if halted is not None else ()
        self.number = 0
        """Nodes so far, without those that are looked at again."""
        self.has_choice = False
        """The search has a choice of victims."""

    def __iter__(self) -> Iterator[Node]:
        nodes = self._search.tree.nodes
        for name in self._again:
            if name in nodes.by_name:
                yield nodes.by_name[name]
        if self.passed == END:
            return
        if self._again and not self.has_choice:
            self._again, self.passed = (), BEGIN  # the other nodes were passed because these were better
        columns, search = nodes.columns, self._search
        free = {name: columns.room(name, nodes.by_name) for name in search.needed}
        lacks = {name: search.needed[name] - room - NEAR * np.abs(room) for name, room in free.items()}
        for kept, amounts in search.beside.items():
            for name in lacks if kept in nodes.by_name else ():
                lacks[name][columns.nodes.of[kept]] -= amounts.get(name, 0)
        blocked = search.losses.blocked
        left = free = np.logical_and.reduce([lack <= 0 for lack in lacks.values()])
        if search.sources:
            judged = search.judged
            left = left | (np.bincount(judged.node[judged.is_source], minlength=len(columns.nodes)) > 0)
            left = self._chosen(left, lacks)
        numbers, known, since = columns.nodes.of, len(blocked), CHOSEN_AGAIN * 3 // 4
        for needs, name in self._places(left & free, left & ~free):
            if not left[numbers[name]]:
                continue
            since += 1
            if since > CHOSEN_AGAIN and len(blocked) > known:
                left, known, since = self._chosen(left, lacks), len(blocked), 0
                if not left[numbers[name]]:
                    continue
            self.passed = needs, name
            left[numbers[name]] = False
            if name not in self._again:
                self.number += 1
                yield nodes.by_name[name]

    def _places(self, free: Array, others: Array) -> Iterator[Place]:
        """Yields the nodes behind the latest one: those that need no victims, then the others."""
        names, (needed, name) = self._search.tree.nodes.columns.nodes.names, self.passed
        for needs, mask in ((False, free), (True, others)):
            if needs >= needed:
                order = sorted(names(np.flatnonzero(mask)))
                yield from zip(repeat(needs), order[bisect_right(order, name) if needs == needed else 0 :])

    def _chosen(self, left: Array, lacks: Mapping[str, Array]) -> Array:
        """The nodes that may make enough room; counts the obstacles of the others. `left`: True for each, by
        number; `lacks`: their shortages."""
        judged, columns = self._search.judged, self._search.judged.columns
        can_end = judged.can_end & ~self._blocked()
        node, request = judged.node[can_end], judged.request[can_end]
        helps = left.copy()
        for name, lack in lacks.items():
            freed = np.bincount(node, weights=columns.amounts(name)[request], minlength=len(helps))
            helps &= lack <= freed * (1 + NEAR)
        dropped = left & ~helps
        if not dropped.any():
            return helps
        met, there = self._met, dropped[judged.node]
        met.count(Obstacle.APART, int(dropped.sum()))
        for obstacle in (Obstacle.LEAVING, Obstacle.CRITICAL, Obstacle.PRIORITY):
            if met_there := int((judged.by_obstacle[obstacle] & there).sum()):
                met.count(obstacle, met_there)
        counts = np.bincount(judged.leaf[judged.by_obstacle[Obstacle.GUARANTEE] & there])
        for number, leaf in zip(counts[counts > 0], columns.leaves.names(np.flatnonzero(counts)), strict=True):
            met.count(Obstacle.GUARANTEE, int(number), leaf.name)
        losses = self._search.losses
        counts = np.bincount(judged.application[judged.can_end & ~can_end & there])
        for number, name in zip(counts[counts > 0], columns.applications.names(np.flatnonzero(counts)), strict=True):
            met.count(losses.blocked[name], int(number), name, losses.paused_until(name))
        return helps

    def _blocked(self) -> Array:
        """True for the rows of applications that are known to lose nothing."""
        judged, known = self._search.judged, self._search.losses.blocked
        is_blocked = np.zeros(len(judged.columns.applications), dtype=bool)
        for name in known:
            is_blocked[judged.columns.applications.of[name]] = True  # it runs: an allocation was looked at
        return is_blocked[judged.application]


# --- choice -----------------------------------------------------------------------------------------------------------


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


def _cost(choice: tuple[Cost, _Taken]) -> Cost:
    return choice[0]


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
        cls, leaf: Queue, greatest: int | None, asking: Queue, fence: Queue, needed: Mapping[str, int], tree: Tree
    ) -> _Source | None:
        """The victims in a leaf for a leaf that asks; None if there are none."""
        spares = [
            (queue, name, queue.allocated.get(name, 0) - queue.leaving.get(name, 0) - queue.guaranteed[name])
            for queue in leaf.path
            if queue not in asking.path
            for name in needed
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


_Candidates = Callable[["_Taken", Mapping[str, int] | None], Iterable[_Candidate]]
"""The candidates of a search, without those that must fail after some victims, or are less than amounts."""


def _importance(candidate: _Candidate) -> tuple[bool, bool, int]:
    return candidate.order[:3]


def _order(candidate: _Candidate) -> Order:
    return candidate.order


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
        "blocked",
        "by_application",
        "exceeded",
        "importance",
        "kept",
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
        self.blocked: dict[str, Obstacle] = {}
        """The applications that are known to lose nothing more."""
        self.kept: set[tuple[Queue, Amounts]] = set()
        """The leaves that are known to lose no allocation of a request any more: their guarantee is in the way."""

    @property
    def victims(self) -> list[Allocation]:
        """All victims, in the order in which they were taken."""
        return [victim for unit in self.units for victim in unit.victims]

    def is_useful(self, allocation: Allocation, node: str) -> bool:
        """True if an allocation reduces a shortage."""
        here = allocation.node == node
        return any((here and name in self.short) or name in self.above for name, _ in allocation.ask.request)

    def add(self, victims: tuple[Allocation, ...], candidate: _Candidate, node: str) -> bool:
        """Adds a unit of victims; with a whole gang, members that were taken before join it. False, and nothing is
        changed, if a guarantee is in the way."""
        new = [victim for victim in victims if victim.ask.id not in self.importance]
        name, amounts = candidate.allocation.ask.application, _sum(new)
        spares = candidate.source.spares
        if any(amounts.get(kind, 0) + self.lost.get((queue, kind), 0) > spare for queue, kind, spare in spares):
            return False
        for queue, kind, _ in spares:
            self.lost[queue, kind] = self.lost.get((queue, kind), 0) + amounts.get(kind, 0)
        if len(new) < len(victims):
            self.units = [unit for unit in self.units if unit.victims[0].ask.application != name]
        here = _sum(victim for victim in victims if victim.node == node)
        order = candidate.order if len(victims) == 1 else max(map(candidate.source.order, victims))
        self.units.append(_Unit(order, victims, here, _sum(victims)))
        self.by_application[name] += len(new)
        for victim in new:
            self.importance[victim.ask.id] = candidate.source.importance_of(victim.ask)
            self.working[name] += victim.ask.id not in candidate.source.idle
        _reduce(self.short, _sum(victim for victim in new if victim.node == node))
        _reduce(self.above, amounts)
        return True

    def copy(self) -> _Taken:
        """The same victims."""
        copied = _Taken(self.needed, self.exceeded)
        copied.short, copied.above = dict(self.short), dict(self.above)
        copied.units, copied.importance, copied.lost = list(self.units), dict(self.importance), dict(self.lost)
        copied.by_application, copied.working = Counter(self.by_application), Counter(self.working)
        copied.blocked, copied.kept = dict(self.blocked), set(self.kept)
        return copied

    def going_on(self, above: Mapping[str, int]) -> _Taken:
        """The same victims, which are to make room below maxima, too."""
        copied = self.copy()
        copied.short, copied.above, copied.exceeded = {}, dict(above), dict(above)
        for unit in self.units:
            _reduce(copied.above, unit.everywhere)
        return copied

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
    sums: dict[str, int] = {}
    for allocation in allocations:
        for name, amount in allocation.ask.request:
            sums[name] = sums.get(name, 0) + amount
    return sums


def _reduce(shortage: dict[str, int], amounts: Mapping[str, int]) -> None:
    for name in list(shortage):
        shortage[name] -= amounts.get(name, 0)
        if shortage[name] <= 0:
            del shortage[name]


# --- results in vain --------------------------------------------------------------------------------------------------


class Fruitless(NamedTuple):
    """A try in vain. `until`: asks that are alike make a pause until then, seconds; infinity: they make none, and the
    try depends on nothing but the tree: it must be in vain again until something changes there. `top`: the queue
    below which nothing may change; `changes`: of that queue; `freed`: that of the tree, or None if the room of nodes
    does not matter."""

    partition: Partition
    top: Queue
    changes: int
    freed: int | None
    until: float

    def holds(self, tree: Tree, now: float) -> bool:
        """True if asks that are alike do not try. `now`: seconds."""
        if self.until < inf:
            return now < self.until
        return (
            self.partition is tree.partition
            and self.changes == self.top.changes
            and (self.freed is None or self.freed == tree.freed)
        )
