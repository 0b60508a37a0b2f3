"""The nodes that a tree has promised to asks, to be renewed after work that uses the promises and is taken back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from offers.policy.hierarchy.state.model import Ask
from offers.policy.hierarchy.tree import Tree


class Promise(NamedTuple):
    """An ask to which a node is promised. `tried`, `reserved`: the moments of the latest try to preempt, and from which
    the promise is counted, seconds; None: there was none. `reserves`: the ask has not preempted."""

    ask: Ask
    node: str
    tried: float | None = None
    reserved: float | None = None
    reserves: bool = False


def promises(tree: Tree) -> list[Promise]:
    """The promises of a tree."""
    return [_promise(tree, ask, node.name) for node in tree.nodes for ask in node.promises.values()]


def promises_to(tree: Tree, application: str) -> list[Promise]:
    """The promises to the asks of an application. Raises KeyError for an unknown one."""
    promised = [group for group in tree.applications[application].groups.values() if group.alike.promised]
    return [_promise(tree, ask, group.alike.promised) for group in promised for _, _, ask in group.asks]


def _promise(tree: Tree, ask: Ask, node: str) -> Promise:
    owner = tree.applications[ask.application]
    tried, reserved = owner.preempted_at.get(ask.name), owner.reserved_at.get(ask.name)
    return Promise(ask, node, tried, reserved, ask.name in owner.reserves)


def promise_again(tree: Tree, kept: Iterable[Promise]) -> None:
    """Renews promises, except those to asks that are gone or have another promise, and those of nodes that are gone."""
    for ask, node, tried, reserved, reserves in kept:
        owner = tree.applications.get(ask.application)
        group = owner.asks.get(ask.name) if owner is not None else None
        if owner is None or group is None or group.alike.promised or node not in tree.nodes.by_name:
            continue
        if tried is not None:
            owner.preempted_at[ask.name] = tried
        if reserved is not None:
            owner.reserved_at[ask.name] = reserved
        tree.promise(ask.application, ask.name, node, reserves=reserves)


def restore_promises(tree: Tree, kept: Iterable[Promise]) -> None:
    """Ends the promises that are not among `kept`, and renews the others as `promise_again` does."""
    kept = list(kept)
    known = {(promise.ask.id, promise.node) for promise in kept}
    for promise in promises(tree):
        if (promise.ask.id, promise.node) not in known:
            tree.forget_promise(promise.ask.application, promise.ask.name)
    promise_again(tree, kept)


def hand_over(tree: Tree, before: Iterable[Promise], asks: Iterable[Ask]) -> None:
    """Passes promises on from asks that are gone to asks of the same application with equal requests and constraints.
    `before`: the promises before the asks went; `asks`: the asks that came; the first one is served first. Promises for
    which there is no such ask end."""
    rest = list(asks)
    for promise in before:
        gone = promise.ask
        if gone.name in tree.applications[gone.application].asks:
            continue
        alike = (ask for ask in rest if (ask.request, ask.constraint) == (gone.request, gone.constraint))
        taker = next(alike, None)
        if taker is not None:
            rest.remove(taker)
            promise_again(tree, [promise._replace(ask=taker)])
