"""Runs of a tree in which a gang gets places for as many asks as it lacks members, or for none.

The asks of a gang that finds too little room are set aside until `restore`: they leave the tree, and the nodes that are
promised to them stay held. So a gang whose victims end one after the other keeps the room of the first until the last
has ended, and no other work takes the room in between.

Victims are chosen for a whole gang. If the room that is free, the room that is promised and the victims together do not
suffice, no victim is ended. If they do, the gang gets promises for the free room, too. A gang that lacks more than
`MOST_TRIES` places beyond the free room preempts nothing, so the work of a cycle is bounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import inf

from offers.policy.hierarchy.cluster import occupy
from offers.policy.hierarchy.gangs.bound import most_that_fit
from offers.policy.hierarchy.maintenance import keep
from offers.policy.hierarchy.preemption.promises import Promise, promise_again, promises_to
from offers.policy.hierarchy.preemption.tries import RETRY, attempt, delay_of
from offers.policy.hierarchy.preemption.victims import Check
from offers.policy.hierarchy.state.application import Application
from offers.policy.hierarchy.state.model import Allocation, Ask, Preemption
from offers.policy.hierarchy.steps import withdraw_all
from offers.policy.hierarchy.tree import Tree

MOST_TRIES = 50
"""Searches for victims of gangs in one cycle. A search among 50,000 allocations on 5,000 nodes takes some ms."""


class Attempts:
    """The runs of one tree. `lacking`, in all methods: the number of asks that must find places at the same time, by
    application; others are placed one by one."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.unfinished = False
        """The latest run ended because it had made as many allocations as it may."""
        self._aside: dict[str, list[tuple[Ask, float]]] = {}
        """The asks that are set aside, by application, with the moments of their latest tries to preempt, in seconds;
        minus infinity if there was none."""
        self._held: dict[str, list[Promise]] = {}
        """The promises to asks that are set aside; other work cannot use their room."""
        self._gangs: set[str] = set()
        """The applications that lack members."""
        self._tried: dict[str, float] = {}
        """The moment of the last try to preempt for each gang that lacks members; seconds."""

    def run(self, lacking: Mapping[str, int], most: int | None = None) -> list[Allocation]:
        """Places asks until none can be placed, or until `most` are placed and no gang is incomplete (None: no bound);
        `unfinished` tells whether this bound ended the run."""
        self._note(lacking)
        promised = {name: promises_to(self.tree, name) for name in lacking if name in self.tree.applications}
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
                return order
            for name in short:
                self._set_aside(name, made.pop(name), promised[name])
            order = [allocation for allocation in order if allocation.ask.application in made]

    def preempt(self, lacking: Mapping[str, int], now: float, check: Check | None = None) -> list[Preemption]:
        """Makes room for gangs after a run that has ended, and notes the preemptions in the tree. `now`: seconds of the
        clock of the asks. `check`: a further condition on a node once victims have gone; None admits every node."""
        self._note(lacking)
        self._tried = {name: tried for name, tried in self._tried.items() if name in lacking}
        found: list[Preemption] = []
        tries = MOST_TRIES
        for name in sorted(self._due(lacking, now), key=self._order):
            if tries <= 0:
                break
            made, used = self._preempt(name, lacking[name], tries, now, check)
            tries -= used
            found += made
        return found

    def restore(self) -> None:
        """Returns the asks that are set aside to the tree, with their promises."""
        for name in list(self._aside):
            self._restore(name)

    def _note(self, lacking: Mapping[str, int]) -> None:
        """Asks of gangs do not preempt one by one."""
        gangs = {name for name, number in lacking.items() if number > 1}
        for name in (*(self._gangs - gangs), *gangs):
            application = self.tree.applications.get(name)
            if application is not None:
                application.lacks = lacking.get(name, 0)
        self._gangs = gangs

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
            occupy(tree, promise.node, promise.ask.request, 1)
        self._held.setdefault(name, []).extend(promised)

    def _restore(self, name: str) -> None:
        held = self._held.pop(name, [])
        for promise in held:
            occupy(self.tree, promise.node, promise.ask.request, -1)
        asks = self._aside.pop(name, [])
        self.tree.ask_all(ask for ask, _ in asks)
        tried = {ask.name: moment for ask, moment in asks if moment > -inf}
        self.tree.applications[name].preempted_at.update(tried)
        promise_again(self.tree, held)

    # --- victims ----------------------------------------------------------------------------------------------------

    def _due(self, lacking: Mapping[str, int], now: float) -> Iterator[str]:
        """Yields the gangs that may try to preempt now."""
        for name in self._gangs if self.tree.partition.preemption else ():
            application = self.tree.applications.get(name)
            if application is None or not (application.asks or name in self._aside):
                continue
            if now - self._tried.get(name, -inf) < RETRY:
                continue
            if not any(queue.guaranteed for queue in self.tree.queues[application.queue].path):
                continue
            if not self._is_old_enough(application, now):
                continue
            promised = self._held.get(name) or promises_to(self.tree, name)
            if sum(not promise.reserves for promise in promised) < lacking[name]:
                yield name  # otherwise, the victims are leaving

    def _is_old_enough(self, application: Application, now: float) -> bool:
        aside = [ask.created for ask, _ in self._aside.get(application.name, ())]
        created = aside or [group.asks[0][0] for group in application.groups.values()]
        return now - min(created) >= delay_of(self.tree.queues[application.queue])

    def _order(self, name: str) -> tuple[int, float, str]:
        application = self.tree.applications[name]
        aside = [ask.priority for ask, _ in self._aside.get(name, ())]
        return -max(aside or [group.alike.priority for group in application.groups.values()]), application.since, name

    def _preempt(
        self, name: str, lacking: int, most: int, now: float, check: Check | None
    ) -> tuple[list[Preemption], int]:
        """The preemptions for one gang, and the number of tries; at most `most`."""
        tree = self.tree
        self._tried[name] = now
        self._restore(name)
        kept = promises_to(tree, name)
        for promise in kept:
            if promise.reserves:
                tree.forget_promise(name, promise.ask.name)
        placed = list(tree.run())
        needed = lacking - len(placed) - len(promises_to(tree, name))
        found: list[Preemption] = []
        tries = 1
        for ask in _waiting(tree.applications[name])[: needed if needed <= most else 0]:
            result = attempt(tree, ask, now, check)
            if result is None:
                break
            found.append(result)
            tries += 1
        if len(found) < needed:
            for result in reversed(found):
                tree.forget_promise(name, result.ask.name)
                for victim in result.victims:
                    keep(tree, victim)
            found = []
        for allocation in placed:
            tree.release(allocation.ask.application, allocation.ask.name)
            tree.ask(allocation.ask)
        promise_again(tree, [promise for promise in kept if not (found and promise.reserves)])
        if found:
            promise_again(tree, [Promise(one.ask, one.node) for one in placed])
        self._set_aside(name, [], promises_to(tree, name))
        return found, tries


def _waiting(application: Application) -> list[Ask]:
    """The asks without a promise, the most important first, then the oldest."""
    groups = [group for group in application.groups.values() if not group.alike.promised]
    asks = [ask for group in groups for _, _, ask in group.asks]
    return sorted(asks, key=lambda ask: (-ask.priority, ask.created, ask.name))


def _short(made: Mapping[str, list[Allocation]], lacking: Mapping[str, int]) -> Iterator[str]:
    """The applications whose gangs have fewer places than they lack."""
    return (name for name, found in made.items() if len(found) < lacking.get(name, 0))
