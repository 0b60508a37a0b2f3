"""Rooms of victims that are promised to no ask, and are promised again.

A promise ends without its room in two cases. A new leader has a new tree: the records of the evictions name the
application that gets the room of a victim, not the ask. And an ask may find room on another node earlier. Without
another promise, the next ask would choose another victim, although room comes already, and other work would take the
room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import NamedTuple

from offers.policy.hierarchy.preemption.regaining import first_asks, give, has_room, may_take, waiting
from offers.policy.hierarchy.preemption.reservation import LONGEST
from offers.policy.hierarchy.preemption.tries import RETRY, has_victims
from offers.policy.hierarchy.state.application import Application
from offers.policy.hierarchy.state.model import Ask
from offers.policy.hierarchy.state.queue import Queue
from offers.policy.hierarchy.tree import Tree


class Vacated(NamedTuple):
    """The room of a victim: the application that gets the room, and the node. `since`: the moment from which the tree
    expects the room, for `LONGEST`; seconds of the clock of the asks."""

    application: str
    node: str
    since: float


def renew(tree: Tree, vacated: Iterable[Vacated], now: float) -> list[Vacated]:
    """Promises the nodes of victims to asks of the applications that get the room, or else of their queues, as far as
    the guarantees of the queues go. Returns the victims whose node or room is not there yet, and is still expected.
    For each of them that is younger than `RETRY`, one ask does not preempt. `now`: seconds of the clock of the asks."""
    candidates: dict[Queue, list[Ask]] = {}
    missing = [one for one in vacated if not _renewed(tree, one, candidates, now) and now - one.since < LONGEST]
    young = Counter(one.application for one in missing if now - one.since < RETRY)
    for name in young.keys() & tree.applications.keys():
        owner = tree.applications[name]
        for ask in islice(_waiting(owner), young[name]):
            owner.preempted_at.setdefault(ask.name, now)
    return missing


def _renewed(tree: Tree, vacated: Vacated, candidates: dict[Queue, list[Ask]], now: float) -> bool:
    """Promises the node of a victim to an ask; False if there is no node, no room or no such ask. `candidates`: asks
    that have waited long enough to preempt, by leaf; filled when they are needed."""
    owner, node = tree.applications.get(vacated.application), tree.nodes.by_name.get(vacated.node)
    if owner is None or node is None or not tree.partition.preemption:
        return False
    leaf = tree.queues[owner.queue]
    if leaf.is_stopped or all(node.room(name) <= 0 for name in node.total):
        return False
    if leaf not in candidates:
        candidates[leaf] = list(waiting(tree, leaf, now))
    for ask in chain(first_asks(owner), candidates[leaf]):
        if has_victims(tree.applications[ask.application].asks[ask.name], ask.name):
            continue
        if has_room(node, ask.request) and may_take(tree, leaf, ask, node):
            give(tree, node, ask)
            return True
    return False


def _waiting(owner: Application) -> Iterator[Ask]:
    """Yields the asks that have no victims."""
    return (ask for group in owner.groups.values() for _, name, ask in group.asks if not has_victims(group, name))
