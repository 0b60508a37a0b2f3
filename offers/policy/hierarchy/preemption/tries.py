"""Preemption towards guarantees: which asks may try, and how often.

An ask may try if preemption is on, the ask may preempt others, waits for no victims, needs no particular node, has
waited for the `preemption.delay` of its leaf, and has not tried in the last `RETRY` seconds. So an ask whose promise
was lost with the node, or whose victims were not ended, tries again; a promise that was not kept in time has a longer
pause (`reservation.LONGEST`). An ask that has reserved a node may try, unless so much is leaving there that it needs no
victims. It keeps the reservation if it finds none. The asks of a leaf have at most `TRIES` tries in a round, and asks
that must fail as another one did, in this round or before (`Fruitless`), are passed over. A round that takes too long
continues later: each leaf has its turn before the next round begins.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator
from heapq import heapify, heappop
from math import inf

from offers.policy.hierarchy.preemption.promises import Promise, promise_again, promises_to
from offers.policy.hierarchy.preemption.victims import Check, never, plan
from offers.policy.hierarchy.state.application import Alternative, Group, RequestClass, alternative_of
from offers.policy.hierarchy.state.model import Ask, Preemption
from offers.policy.hierarchy.state.queue import Queue, QueueState, goal_of
from offers.policy.hierarchy.tree import LOOKED_AT, Tree
from offers.policy.obstacles import Attempt, Obstacle, in_vain

RETRY = 15.0
"""Seconds between two tries of one ask."""
TRIES = 10
"""Tries of the asks of one leaf in one round, and of one class."""
MOST_HALTED = 8
"""Searches that may be halted at a time. A further one takes the place of the first, which begins anew."""


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
    return [found for found in preempting(tree, now, check, without, is_over) if found is not None]


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
    for found in present.steps:
        yield found
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
        causes = (self._tree.nodes.waiting, *(queue.waiting for queue in leaf.path))
        order: list[tuple[tuple[object, ...], RequestClass]] = []
        for one in list(leaf.classes.values()):
            if self._is_step():
                yield None
            if one.waits in causes and not one.alternative.required_node and _may_help(leaf, one):
                order.append((first_key(one), one))
        heapify(order)  # the first ones are tried: a whole order would cost more
        refused: set[tuple[RequestClass, int]] = set()
        tries = 0
        while order:
            one = heappop(order)[1]
            for ask in self._asks(one, refused):
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
                    elif ask.application not in self._tree.paused:
                        # Asks of an application that makes a pause may have fewer victims than those of others.
                        refused.add((one, ask.priority))
                    yield result
                    if tries >= TRIES:
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

    def _asks(self, one: RequestClass, refused: Collection[tuple[RequestClass, int]]) -> Iterator[Ask | None]:
        """Yields the asks of a class that may try; None between steps."""
        tree, tried = self._tree, 0
        for group in groups_of(one):
            if self._is_step():
                yield None
            if tried >= TRIES:
                return
            if not _may_try(tree, group, self.without) or _is_fruitless(tree, one.leaf, group, self.now):
                continue
            latest = self.now - delay_of(one.leaf)
            for created, name, ask in list(group.asks):
                if created > latest or (one, ask.priority) in refused or tried >= TRIES:
                    break
                late = self.now - group.application.preempted_at.get(name, -inf) >= RETRY
                if late and self._is_pending(ask) and not has_victims(group, name):
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
    if _comes(tree, application.asks[ask.name], ask) or _is_fruitless(tree, leaf, application.asks[ask.name], now):
        return None
    reserved: list[Promise] = []
    if ask.name in application.reserves:
        reserved = [promise for promise in promises_to(tree, ask.application) if promise.ask is ask]
        tree.forget_promise(ask.application, ask.name)
    kind = _kind(application.asks[ask.name])
    result, result_of_try, fruitless, halted = plan(tree, leaf, ask, now, check, is_over, halted)
    if halted is None:
        application.preempted_at[ask.name] = now
        leaf.tried[kind] = result_of_try
    else:
        if len(tree.halted) >= MOST_HALTED:
            del tree.halted[next(iter(tree.halted))]
        tree.halted[ask.id] = halted
    if result is not None:
        tree.preempt(result)
    else:
        promise_again(tree, reserved)
    if fruitless is not None and not reserved and ask.application not in tree.paused:
        leaf.fruitless[kind] = fruitless
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
    found = leaf.tried.get(_kind(group))
    created = next(ask.created for _, one, ask in group.asks if one == name)
    if found is None and now - created < delay_of(leaf):
        return in_vain(now, Obstacle.NOT_OLD_ENOUGH, until=created + delay_of(leaf))
    if found is None and group.request_class is not None and not _may_help(leaf, group.request_class):
        return in_vain(now, Obstacle.OWN_GUARANTEE, [leaf.name])
    return found


def _kind(group: Group) -> tuple[Alternative, int]:
    """Asks of one leaf that are of one kind have the same results."""
    return alternative_of(group)._replace(promised=""), group.alike.priority


def _is_fruitless(tree: Tree, leaf: Queue, group: Group, now: float) -> bool:
    """True if the asks of a group must fail as one that was alike did."""
    known = leaf.fruitless.get(_kind(group)) if leaf.fruitless else None
    return known is not None and known.holds(tree, now)


def _forget_tries(leaf: Queue) -> None:
    """Drops the results of asks that are gone."""
    if len(leaf.tried) > 2 * len(leaf.classes):
        kinds = {one._replace(promised="") for one in leaf.classes}
        leaf.tried = {kind: result for kind, result in leaf.tried.items() if kind[0] in kinds}
        leaf.fruitless = {kind: result for kind, result in leaf.fruitless.items() if kind[0] in kinds}


def has_victims(group: Group, name: str) -> bool:
    """True if an ask has preempted and waits for its node."""
    return group.alike.promised != "" and name not in group.application.reserves


def delay_of(leaf: Queue) -> float:
    """Seconds that asks of a leaf wait before they preempt."""
    return leaf.config.properties.preemption_delay


def waiting_asks(tree: Tree, one: RequestClass, latest: float) -> Iterator[Ask]:
    """Yields the asks of a class that may preempt, have no victims, and were made at `latest` or before, in seconds."""
    for group in groups_of(one):
        for created, name, ask in list(group.asks) if _may_try(tree, group) else ():
            if created > latest:
                break
            if not has_victims(group, name):
                yield ask


def groups_of(one: RequestClass) -> Iterator[Group]:
    """Yields the groups of a class in their order. The class may change meanwhile."""
    last = None
    while found := one.members.after(last, LOOKED_AT):
        last = found[-1][0]
        for _, group in found:
            if group.request_class is one:
                yield group


def _may_try(tree: Tree, group: Group, without: Collection[str] = frozenset()) -> bool:
    """True if the asks of a group may preempt one by one. `without`: applications that may not."""
    name = group.application.name
    # The victims of a gang are chosen for all its members (gangs.attempts).
    return group.alike.may_preempt and name not in without and tree.lacking.get(name, 0) <= 1


def first_key(one: RequestClass) -> tuple[object, ...]:
    """The key of the order in which the classes of a leaf try. The class has asks."""
    first = one.members.first()
    assert first is not None and first.key is not None
    return first.key


def _may_help(leaf: Queue, one: RequestClass) -> bool:
    """False if the leaf itself would exceed its guarantee, so that no victim of another leaf can help."""
    goal = goal_of(leaf, [name for name, amount in one.request if amount > 0])
    if goal is not leaf:
        return goal is not None
    return leaf.stays_within_guarantee(one.request)
