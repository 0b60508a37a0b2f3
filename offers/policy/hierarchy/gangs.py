"""Runs of a tree in which a gang gets places for as many asks as it lacks members, or for none.

The asks of a gang that finds too little room are set aside until `restore`: they leave the tree, and the nodes that are
promised to them stay held. So a gang whose victims end one after the other keeps the room of the first until the last
has ended, and no other work takes the room in between.

Victims are chosen for a whole gang. If the room that is free, the room that is promised and the victims together do not
suffice, no victim is ended. If they do, the gang gets promises for the free room, too. The work of a cycle is bounded:
after `TRIES` tries or searches no further gang tries, gangs that must fail as another one did are passed over, and a
gang that lacks more than `MOST_SEARCHES` places beyond the free room, or more than `MOST_PLACES` in all, preempts
nothing. If the time of a turn is over
between two searches or within one, the gang gives everything back, and keeps the names of the nodes that were found.
In the next turn it takes these again, as far as they still do, and continues.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from itertools import chain
from math import inf

from offers.dimensions import NOTHING, Amounts
from offers.ledger.holds import RETRY
from offers.policy.amounts import Vector
from offers.policy.hierarchy.cluster import occupy
from offers.policy.hierarchy.maintenance import keep
from offers.policy.hierarchy.preemption.preemption import TRIES, Check, attempt, delay_of, has_victims, never, only_on
from offers.policy.hierarchy.preemption.promises import (
    Promise,
    Vacated,
    always,
    promise_again,
    promises,
    promises_to,
    renew,
)
from offers.policy.hierarchy.state.application import Alike, Application
from offers.policy.hierarchy.state.model import Allocation, Ask, Preemption
from offers.policy.hierarchy.steps import withdraw_all
from offers.policy.hierarchy.tree import Tree

MOST_SEARCHES = 50
"""Searches for victims of one gang. A search among 50,000 allocations on 5,000 nodes takes some 10 ms."""
MOST_PLACES = 512
"""Places of one gang that tries to preempt: it takes the free room and gives it back, some 50 microseconds for each
place. A gang that lacks more preempts nothing."""


class Attempts:
    """The runs of one tree. `lacking`, in all methods: the number of asks that must find places at the same time, by
    application; others are placed one by one."""

    def __init__(self, tree: Tree, vacated: Iterable[Vacated] = ()) -> None:
        """`vacated`: room of victims of another tree or leader, for applications of this tree."""
        self.tree = tree
        self.vacated = list(vacated)
        """Rooms of victims that no ask has been promised again, and that are still expected."""
        self.left: list[tuple[str, str]] = []
        """Applications, and the nodes of their promises that have ended since the latest `renew`: another node had room
        earlier, or the ask is gone."""
        self.unfinished = False
        """The latest run ended because it had made as many allocations as it may."""
        self.is_behind = False
        """The time was over before all gangs that are due could preempt."""
        self._aside: dict[str, list[tuple[Ask, float]]] = {}
        """The asks that are set aside, by application, with the moments of their latest tries to preempt, in seconds;
        minus infinity if there was none."""
        self._held: dict[str, list[Promise]] = {}
        """The promises to asks that are set aside; other work cannot use their room."""
        self._begun: dict[str, list[str]] = {}
        """The nodes that were found for the first members of gangs whose searches continue in the next turn."""
        self._tried: dict[str, float] = {}
        """The moment at which each gang was considered for preemption the last time; seconds."""

    @property
    def is_begun(self) -> bool:
        """True if the search for the members of a gang continues in the next turn."""
        return bool(self._begun)

    def moved(self, tree: Tree) -> Attempts:
        """The attempts of a tree that takes the place of this one. No asks are set aside."""
        attempts = Attempts(tree, self.vacated)
        attempts.left, attempts._tried = self.left, self._tried
        return attempts

    def run(self, lacking: Mapping[str, int], most: int | None = None) -> list[Allocation]:
        """Places asks until none can be placed, or until `most` are placed and no gang is incomplete (None: no bound);
        `unfinished` tells whether this bound ended the run."""
        self.tree.begin(self.tree.terms._replace(lacking=lacking))
        present = promises(self.tree)
        promised: defaultdict[str, list[Promise]] = defaultdict(list)
        for promise in present:
            promised[promise.ask.application].append(promise)
        made: dict[str, list[Allocation]] = {}
        order: list[Allocation] = []
        self.unfinished = False
        while True:
            for allocation in self.tree.run():
                name = allocation.ask.application
                if name not in made and self._is_hopeless(name, lacking.get(name, 0)):
                    self._set_aside(name, [allocation], promised[name])
                    continue
                made.setdefault(name, []).append(allocation)
                order.append(allocation)
                if most is not None and len(order) >= most and not any(_short(made, lacking)):
                    self.unfinished = True
                    break
            short = list(_short(made, lacking))
            if not short:
                self.leave(_not_taken(present, order))
                return order
            for name in short:
                self._set_aside(name, made.pop(name), promised[name])
            order = [allocation for allocation in order if allocation.ask.application in made]

    def preempt(
        self,
        lacking: Mapping[str, int],
        now: float,
        check: Check | None = None,
        without: Collection[str] = frozenset(),
        is_over: Callable[[], bool] = never,
    ) -> list[Preemption]:
        """Makes room for gangs after a run that has ended, and notes the preemptions in the tree. `now`: seconds of the
        clock of the asks. `check`: a further condition on a node once victims have gone; None admits every node.
        `without`: applications that may not preempt. `is_over`: True once the time is over: the other gangs are due the
        next time."""
        self.tree.begin(self.tree.terms._replace(lacking=lacking))
        self.is_behind = False
        if not self.tree.partition.preemption:
            return []
        if len(self._tried) > 2 * len(lacking):
            self._tried = {name: tried for name, tried in self._tried.items() if name in lacking}
        preemptions: list[Preemption] = []
        refused: set[Hashable] = set()
        tries = searches = 0
        due = self._due({name: number for name, number in lacking.items() if name not in without}, now)
        for name in sorted(due, key=self._order):
            alike = (self.tree.applications[name].queue, lacking[name], self._kinds(name))
            if alike in refused:
                self._tried[name] = now
                continue
            if tries >= TRIES or searches >= TRIES:
                break
            if tries and is_over():
                self.is_behind = True
                break
            tries += 1
            made, used = self._preempt(name, lacking[name], now, check, is_over)
            searches += used
            if name in self._begun:
                self.is_behind = True
                break
            self._tried[name] = now
            preemptions += made
            if made:
                refused.clear()
            elif name not in self.tree.terms.paused:
                refused.add(alike)
        return preemptions

    def leave(self, ended: Iterable[Promise]) -> None:
        """Promises with victims have ended: the next `renew` promises their room again."""
        self.left += [(promise.ask.application, promise.node) for promise in ended]

    def renew(self, now: float, is_shown: Callable[[str], bool] = always) -> None:
        """Promises the room of victims to other asks of the same applications: room of a former leader, and of promises
        that have ended. `now`: seconds of the clock of the asks. `is_shown`: True if the free room of a node
        is known."""
        self.vacated += [Vacated(name, node, now) for name, node in self.left]
        self.left.clear()
        self.vacated = renew(self.tree, self.vacated, now, is_shown)
        for vacated in self.vacated:
            if now - vacated.since < RETRY:
                self._tried.setdefault(vacated.application, now)

    def restore(self) -> None:
        """Returns the asks that are set aside to the tree, with their promises."""
        for name in list(self._aside):
            self._restore(name)

    def _is_hopeless(self, name: str, lacking: int) -> bool:
        """True if a gang of which the first ask is placed cannot get enough room for the others now."""
        others = lacking - 1
        return others > 0 and most_that_fit(self.tree, self.tree.applications[name], others) < others

    # --- asks that are set aside ----------------------------------------------------------------------------------

    def _set_aside(self, name: str, made: Iterable[Allocation], promised: list[Promise]) -> None:
        """Takes all asks of an application out of the tree, with its latest allocations. `promised`: the promises
        before these allocations."""
        tree = self.tree
        for allocation in made:
            tree.release(name, allocation.ask.name)
            tree.ask(allocation.ask)
        application = tree.applications[name]
        asks = [ask for group in application.groups.values() for _, _, ask in group.asks]
        self._aside.setdefault(name, []).extend((ask, application.preempted_at.get(ask.name, -inf)) for ask in asks)
        withdraw_all(tree, name)
        for promise in promised:
            occupy(tree, promise.node, NOTHING, promise.ask.request)
        self._held.setdefault(name, []).extend(promised)

    def _restore(self, name: str) -> None:
        held = self._held.pop(name, [])
        for promise in held:
            occupy(self.tree, promise.node, promise.ask.request, NOTHING)
        asks = self._aside.pop(name, [])
        self.tree.ask_all(ask for ask, _ in asks)
        tried = {ask.name: moment for ask, moment in asks if moment > -inf}
        self.tree.applications[name].preempted_at.update(tried)
        promise_again(self.tree, held)

    # --- victims ----------------------------------------------------------------------------------------------------

    def _due(self, lacking: Mapping[str, int], now: float) -> Iterator[str]:
        """Yields the gangs that may try to preempt now."""
        for name, number in lacking.items():
            if number < 2 or now - self._tried.get(name, -inf) < RETRY or self._is_served(name):
                continue
            application = self.tree.applications.get(name)
            first = next(self._asks(name), None) if application is not None else None
            if application is None or first is None:
                continue
            leaf = self.tree.queues[application.queue]
            if now - first.created < delay_of(leaf):
                continue
            promised = self._held.get(name) or promises_to(self.tree, name)
            are_leaving = sum(not promise.reserves for promise in promised) >= number
            if number > MOST_PLACES or are_leaving or not any(queue.guaranteed for queue in leaf.path):
                self._tried[name] = now
            else:
                yield name

    def _is_served(self, name: str) -> bool:
        """True if others end for the members of a gang that it lacks, to fill room that is kept for them."""
        kept = self.tree.terms.kept
        return kept is not None and name in kept.served

    def _asks(self, name: str) -> Iterator[Ask]:
        """Yields the first ask of each group, or all that are set aside."""
        if name in self._aside:
            return (ask for ask, _ in self._aside[name])
        return (group.asks[0][2] for group in self.tree.applications[name].groups.values())

    def _kinds(self, name: str) -> frozenset[Hashable]:
        return frozenset((ask.request, ask.constraint, ask.priority, ask.may_preempt) for ask in self._asks(name))

    def _order(self, name: str) -> tuple[int, float, str]:
        return -max(ask.priority for ask in self._asks(name)), self.tree.applications[name].since, name

    def _search(
        self, name: str, asks: list[Ask], now: float, check: Check | None, is_over: Callable[[], bool]
    ) -> tuple[list[Preemption], int]:
        """Preemptions for asks of a gang, up to the first one in vain, and the number of searches. The gang is in
        `_begun` if the time was over."""
        tree, tried = self.tree, self.tree.applications[name].preempted_at
        begun, preemptions = self._begun.pop(name, []), list[Preemption]()
        for number, ask in enumerate(asks):
            result = None
            if number < len(begun):
                tree.halted[ask.id], kept = only_on(ask, begun[number]), tree.halted.pop(ask.id, None)
                result = attempt(tree, ask, now, check)
                if result is None:
                    tried.pop(ask.name, None)
                    if kept is not None:
                        tree.halted[ask.id] = kept
            if result is None:
                result = attempt(tree, ask, now, check, is_over)
            if result is not None:
                preemptions.append(result)
            if ask.id in tree.halted or (
                result is not None and number >= len(begun) and ask is not asks[-1] and is_over()
            ):
                self._begun[name] = [preemption.node for preemption in preemptions]
                for preemption in preemptions:
                    tried.pop(preemption.ask.name, None)
                return preemptions, number + 1
            if result is None:
                return preemptions, number + 1
        return preemptions, len(asks)

    def _placed(self, name: str, lacking: int) -> tuple[list[Allocation], list[Allocation]]:
        """Places the asks of a gang for which there is room, as many as it lacks at most. Returns all allocations, and
        those of the gang."""
        placed: list[Allocation] = []
        mine: list[Allocation] = []
        for allocation in self.tree.run():
            placed.append(allocation)
            if allocation.ask.application == name:
                mine.append(allocation)
            if len(mine) >= lacking or len(placed) >= 2 * MOST_PLACES:
                break
        return placed, mine

    def _preempt(
        self, name: str, lacking: int, now: float, check: Check | None, is_over: Callable[[], bool]
    ) -> tuple[list[Preemption], int]:
        """The preemptions for one gang, and the number of searches. None, and the gang is in `_begun`, if the time was
        over before the last search."""
        tree = self.tree
        self._restore(name)
        before = promises(tree)
        kept = [promise for promise in before if promise.ask.application == name]
        placed, mine = self._placed(name, lacking)
        renew(tree, [Vacated(name, promise.node, now) for promise in _not_taken(kept, mine)], now)
        needed = lacking - len(mine) - sum(not promise.reserves for promise in promises_to(tree, name))
        asks = _waiting(tree.applications[name])[: max(0, needed) if needed <= MOST_SEARCHES else 0]
        preemptions, searches = self._search(name, asks, now, check, is_over)

        def forget(some: Iterable[Promise]) -> None:
            for promise in some:
                tree.forget_promise(name, promise.ask.name)

        if len(preemptions) < needed:
            for result in reversed(preemptions):
                tree.forget_promise(name, result.ask.name)
                for victim in result.victims:
                    keep(tree, victim)
            preemptions = []
        for allocation in placed:
            tree.release(allocation.ask.application, allocation.ask.name)
            tree.ask(allocation.ask)
        if preemptions or (needed <= 0 and not all(promise.reserves for promise in kept)):
            forget([promise for promise in promises_to(tree, name) if promise.reserves])
            promise_again(tree, [Promise(allocation.ask, allocation.node) for allocation in mine])
        else:
            forget(promises_to(tree, name))
            promise_again(tree, kept)
        promise_again(tree, [promise for promise in before if promise.ask.application != name])
        self._set_aside(name, [], promises_to(tree, name))
        return preemptions, searches


def _waiting(application: Application) -> list[Ask]:
    """The asks without victims, the most important first, then the oldest."""
    groups = application.groups.values()
    asks = [ask for group in groups for _, name, ask in group.asks if not has_victims(group, name)]
    return sorted(asks, key=lambda ask: (-ask.priority, ask.created, ask.name))


def _not_taken(promised: Iterable[Promise], made: Iterable[Allocation]) -> list[Promise]:
    """The promises with victims of asks that have found room on another node."""
    nodes = {allocation.ask.id: allocation.node for allocation in made}
    return [
        promise
        for promise in promised
        if not promise.reserves and nodes.get(promise.ask.id, promise.node) != promise.node
    ]


def _short(made: Mapping[str, list[Allocation]], lacking: Mapping[str, int]) -> Iterator[str]:
    """The applications whose gangs have fewer places than they lack."""
    return (name for name, allocations in made.items() if len(allocations) < lacking.get(name, 0))


def most_that_fit(tree: Tree, application: Application, needed: int) -> int:
    """At least the number of pending asks of an application that could be placed now, where only numbers below `needed`
    are exact bounds: more is not counted. Each group of equal asks is counted as if all room were left to the group.

    A gang above this bound needs no attempt, which places all asks of a gang and sets them aside if there are too few
    places. The bound costs as much as the search for one node, and at most one look at each node."""
    headrooms, number = tree.headrooms(application), 0
    for alike, group in application.groups.items():
        most = min(len(group.asks), needed - number)
        for headroom in headrooms:
            most = _times(headroom, alike.request, most)
        number += most if alike.promised else _on_nodes(tree, alike, most)
        if number >= needed:
            break
    return number


def _on_nodes(tree: Tree, alike: Alike, most: int) -> int:
    """At least the number of asks for which the nodes have room; `most` at most."""
    request, constraint = alike.request, alike.constraint
    if alike.required_node:
        node = tree.nodes.has_room(alike.required_node, request, constraint)
        return 0 if node is None else _times(node.free, request, most)
    number = 0
    # A promise may end with a place for its ask within the same run: all free room of such nodes counts.
    held = (node for node in tree.nodes if node.promises)
    plain = (node for node in tree.nodes.ordered.fitting(request) if not node.promises)
    for node in chain(plain, held):
        if number >= most:
            break
        if tree.nodes.is_admitted(constraint, node.name):
            number += _times(node.free, request, most - number)
    return number


def _times(room: Vector, request: Amounts, most: int) -> int:
    """The number of times that a request fits a room, `most` at most. Resources that the room does not name have no
    limit."""
    for name, amount in request:
        if amount > 0 and name in room:
            most = min(most, max(room[name] // amount, 0))
    return most
