"""Runs vectors with the policy `hierarchical`: builds the tree of queues, and compares allocations in their order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from offers.dimensions import amounts
from offers.policy.hierarchy.configuration.document import partition_of
from offers.policy.hierarchy.configuration.partition import Partition
from offers.policy.hierarchy.preemption.tries import attempt
from offers.policy.hierarchy.state.application import Application
from offers.policy.hierarchy.state.model import Allocation, Ask, Preemption
from offers.policy.hierarchy.tree import Tree
from tests.vectors.comparing import differences
from tests.vectors.reading import PolicyVector

PROPERTIES = ("priority.policy", "priority.offset", "application.sort.policy", "application.sort.priority")


class NotUnderstood(ValueError):
    """A field of the vector that this adapter does not know."""


def run(vector: PolicyVector) -> list[str]:
    """The differences of a vector."""
    _known("config", vector.config, ())
    tree = tree_of(vector.input)
    found = _preempted(tree, vector.input) if "preemption" in vector.expect else _allocated(tree)
    lines = [f"expect.{name}: unknown field" for name in sorted(set(vector.expect) - set(found))]
    for name in vector.expect:
        if name in found:
            lines += differences(f"expect.{name}", vector.expect[name], found[name])
    return lines


def _allocated(tree: Tree) -> dict[str, Any]:
    order = [[one.ask.id, one.node] for one in tree.run()]
    counts = {name: len(one.allocations) for name, one in tree.applications.items()}
    pending = sorted(f"{name}/{ask}" for name, one in tree.applications.items() for ask in one.asks)
    return {
        "allocation_order": order,
        "allocated": {name: count for name, count in counts.items() if count},
        "still_pending": pending,
    }


def _preempted(tree: Tree, given: Mapping[str, Any]) -> dict[str, Any]:
    """Tries each pending ask once, in the order given; an ask that succeeds is placed at once."""
    tried = []
    for app in given["apps"]:
        for entry in app["asks"] if not app.get("running", False) else ():
            for ask in _asks(app, entry):
                result = attempt(tree, ask, ask.created + entry.get("age", 0))
                tried.append({"ask": ask.id, "result": "none" if result is None else _carried_out(tree, result)})
    return {"preemption": tried}


def _carried_out(tree: Tree, result: Preemption) -> dict[str, Any]:
    for victim in result.victims:
        tree.release(victim.ask.application, victim.ask.name)
    placed = tree.cycle()
    if placed != Allocation(result.ask, result.node):
        raise AssertionError(f"{result.ask.id} is not placed on {result.node}: {placed}")
    return {
        "fence": result.fence,
        "node": result.node,
        "victims": sorted(victim.ask.id for victim in result.victims),
    }


def tree_of(given: Mapping[str, Any]) -> Tree:
    """The tree that the input of a vector means."""
    _known("input", given, ("nodes", "queues", "apps"))
    for node in given["nodes"]:
        _known("nodes", node, ("name", "total"))
    partition: Partition = partition_of({"queues": [_queue(given["queues"])]}, quantity=int)
    tree = Tree(partition, [(node["name"], node["total"]) for node in given["nodes"]])
    for app in given["apps"]:
        _known("apps", app, ("name", "queue", "submitted", "asks", "running"))
        tree.submit(Application(app["name"], app["queue"], app["submitted"]))
        for entry in app["asks"]:
            for ask in _asks(app, entry):
                if app.get("running", False):
                    tree.recover(Allocation(ask, entry["node"]))
                else:
                    tree.ask(ask)
    return tree


def _queue(given: Mapping[str, Any]) -> dict[str, Any]:
    _known("queues", given, ("name", "queues", "guaranteed", "max", *PROPERTIES))
    return {
        "name": given["name"],
        "resources": {name: given[name] for name in ("guaranteed", "max") if name in given},
        "properties": {name: given[name] for name in PROPERTIES if name in given},
        "queues": [_queue(child) for child in given.get("queues", [])],
    }


def _asks(app: Mapping[str, Any], entry: Mapping[str, Any]) -> list[Ask]:
    _known("asks", entry, ("name", "count", "request", "priority", "created", "node", "originator", "age"))
    created = entry.get("created", app["submitted"])
    names = [f"{entry['name']}{number}" for number in range(entry["count"])] if "count" in entry else [entry["name"]]
    return [
        Ask(
            app["name"],
            name,
            amounts(entry["request"]),
            created + number / 1000,
            entry.get("priority", 0),
            originator=entry.get("originator", False),
        )
        for number, name in enumerate(names)
    ]


def _known(place: str, given: Mapping[str, Any], known: tuple[str, ...]) -> None:
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise NotUnderstood(f"input {place}: unknown {', '.join(unknown)}")
