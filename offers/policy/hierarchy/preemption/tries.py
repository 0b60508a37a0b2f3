"""Preemption towards guarantees: which asks may try, and how often.

An ask may try if preemption is on, the ask may preempt others, waits for no victims, needs no particular node, has
waited for the `preemption.delay` of its leaf, and has not tried in the last `RETRY` seconds. So an ask whose promise
was lost with the node, or whose victims were not ended, tries again; a promise that was not kept in time has a longer
pause (`reservation.LONGEST`). An ask that has reserved a node may try, unless so much is leaving there that it needs no
victims. It keeps the reservation if it finds none. The asks of a leaf have at most `TRIES` tries in a round, and asks
that must fail as another one did, in this round or before (`memory`), are passed over. A round that takes too long
continues later: each leaf has its turn before the next round begins.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import islice
from math import inf

from offers.policy.hierarchy.preemption.promises import Promise, promise_again, promises_to
from offers.policy.hierarchy.preemption.victims import Check, plan
from offers.policy.hierarchy.state.application import Alternative, Group, RequestClass, alternative_of
from offers.policy.hierarchy.state.model import Ask, Preemption
from offers.policy.hierarchy.state.queue import Queue, QueueState, goal_of
from offers.policy.hierarchy.tree import Tree
from offers.policy.obstacles import Attempt, Obstacle, in_vain

RETRY = 15.0
"""Seconds between two tries of one ask."""
TRIES = 10
"""Tries of the asks of one leaf in one cycle."""


def never() -> bool:
    """The time is never over."""
    return False


def preempt(
    tree: Tree,
    now: float,
    check: Check | None = None,
    without: Collection[str] = frozenset(),
    is_over: Callable[[], bool] = never,
) -> list[Preemption]:
    """One round of preemption, or a part of it: the preemptions, which are noted in the tree. `now`: seconds of the
    clock of the asks. `check`: a further condition on nodes; None admits every node. `without`: applications that may
    not try. `is_over`: True once the time is over; `tree.behind` then has the leaves that the next call begins with."""
    return [found for found in preempting(tree, now, check, without, is_over) if found is not None]


def preempting(
    tree: Tree,
    now: float,
    check: Check | None = None,
    without: Collection[str] = frozenset(),
    is_over: Callable[[], bool] = never,
) -> Iterator[Preemption | None]:
    """Yields the result of each try, as `preempt`; None for a try in vain."""
    behind = tree.behind
    if not tree.partition.preemption or tree.root.state is QueueState.STOPPED:
        behind.clear()
        return
    if not behind:
        behind.extend((leaf.name, 0) for leaf in tree.root.leaves())
    worked = False
    while behind:
        name, tries = behind[0]
        leaf = tree.queues.get(name)
        if leaf is not None and leaf.is_leaf and leaf.classes:
            _forget_tries(leaf)
            refused: set[tuple[RequestClass, int]] = set()
            for one, ask in list(_candidates(tree, leaf, now, without)):
                if tries >= TRIES:
                    break
                if (one, ask.priority) in refused:
                    continue
                if worked and is_over():
                    return
                worked = True
                tries += 1
                behind[0] = name, tries
                result = attempt(tree, ask, now, check)
                if result is not None:
                    refused.clear()
                elif ask.application not in tree.paused:  # else asks of other applications may have other victims
                    refused.add((one, ask.priority))
                yield result
            if worked and is_over():
                behind.popleft()
                return
        behind.popleft()


def attempt(tree: Tree, ask: Ask, now: float, check: Check | None = None) -> Preemption | None:
    """One try of one pending ask; a result is noted in the tree. None if the ask may not try now, or in vain. Raises
    KeyError if the ask is not pending. `now` is seconds."""
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
    application.preempted_at[ask.name] = now
    reserved: list[Promise] = []
    if ask.name in application.reserves:
        reserved = [promise for promise in promises_to(tree, ask.application) if promise.ask is ask]
        tree.forget_promise(ask.application, ask.name)
    kind = _kind(application.asks[ask.name])
    result, leaf.tried[kind], fruitless = plan(tree, leaf, ask, now, check)
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


def _candidates(tree: Tree, leaf: Queue, now: float, without: Collection[str]) -> Iterator[tuple[RequestClass, Ask]]:
    """Yields asks of a leaf that may try, in their order: of each class as many as a cycle may try."""
    if leaf.is_stopped:
        return
    causes = (tree.nodes.waiting, *(queue.waiting for queue in leaf.path))
    blocked = [one for one in leaf.classes.values() if one.waits in causes and not one.alternative.required_node]
    latest = now - delay_of(leaf)
    for one in sorted((one for one in blocked if _may_help(leaf, one)), key=first_key):
        for ask in islice(_ready(tree, one, latest, now, without), TRIES):
            yield one, ask


def _ready(tree: Tree, one: RequestClass, latest: float, now: float, without: Collection[str]) -> Iterator[Ask]:
    """Yields the asks of a class that were made at `latest` or before, and have not tried lately. Times are seconds."""
    for ask in waiting_asks(tree, one, latest, without, lambda group: _is_fruitless(tree, one.leaf, group, now)):
        if now - tree.applications[ask.application].preempted_at.get(ask.name, -inf) >= RETRY:
            yield ask


def waiting_asks(
    tree: Tree,
    one: RequestClass,
    latest: float,
    without: Collection[str] = frozenset(),
    passes: Callable[[Group], bool] | None = None,
) -> Iterator[Ask]:
    """Yields the asks of a class that may preempt, have no victims, and were made at `latest` or before, in seconds.
    `without`: applications that are passed over. `passes`: True for groups that are passed over; None: for none."""
    for group in one.members:
        if group.application.name in without or not group.alike.may_preempt:
            continue
        if passes is not None and passes(group):
            continue
        if tree.lacking.get(group.application.name, 0) > 1:
            continue  # victims are chosen for the whole gang (gangs.attempts)
        for created, name, ask in group.asks:
            if created > latest:
                break
            if not has_victims(group, name):
                yield ask


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
