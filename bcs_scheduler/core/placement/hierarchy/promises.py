"""The nodes that a tree has promised to asks, which a dry run uses and gives back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from offers.policy.hierarchy import Ask, Tree


class Promise(NamedTuple):
    """An ask to which a node is promised. `tried`, `reserved`: moments of the latest try to preempt and of the latest
    reservation, seconds; None: there was none."""

    ask: Ask
    node: str
    tried: float | None
    reserved: float | None


def promises(tree: Tree) -> list[Promise]:
    """The asks to which nodes are promised, with the moments of their tries."""
    found = []
    for node in tree.nodes:
        for ask in node.promises.values():
            owner = tree.applications[ask.application]
            tried, reserved = owner.preempted_at.get(ask.name), owner.reserved_at.get(ask.name)
            found.append(Promise(ask, node.name, tried, reserved))
    return found


def promise_again(tree: Tree, kept: Iterable[Promise]) -> None:
    """Renews promises that a run has used and that was taken back."""
    for ask, node, tried, reserved in kept:
        owner = tree.applications.get(ask.application)
        group = owner.asks.get(ask.name) if owner is not None else None
        if owner is None or group is None or group.alike.promised or node not in tree.nodes.by_name:
            continue
        if tried is not None:
            owner.preempted_at[ask.name] = tried
        if reserved is not None:
            owner.reserved_at[ask.name] = reserved
        tree.promise(ask.application, ask.name, node)
