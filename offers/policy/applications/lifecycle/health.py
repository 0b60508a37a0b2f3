"""The check of sums: the totals that the engine computed step by step must be the sums of the allocations.

The figures are plain values, so that every engine can be checked: each engine gives its `Figures`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from offers.dimensions import Amounts
from offers.policy.amounts import Vector


class ProblemCode(StrEnum):
    """The kinds of problems."""

    NEGATIVE = "Negative"
    QUEUE_SUM = "QueueSum"
    NODE_SUM = "NodeSum"
    APPLICATION_SUM = "ApplicationSum"
    NO_APPLICATION = "NoApplication"
    NO_NODE = "NoNode"
    NO_QUEUE = "NoQueue"


class Problem(NamedTuple):
    """A figure that is wrong. `place`: the object with the figure."""

    code: ProblemCode
    place: str
    message: str


class AllocationFigure(NamedTuple):
    """An allocation."""

    application: str
    name: str
    node: str
    request: Amounts


class NodeFigure(NamedTuple):
    """A node. `occupied`: the usage of work without an application; `used`: that of allocations; `free`: the rest."""

    total: Vector
    used: Vector
    free: Vector
    occupied: Vector = {}  # noqa: RUF012


class Figures(NamedTuple):
    """The figures of an engine. `queues`: usage by full name; `parents`: the full name of the parent of each queue,
    empty for the root; `applications`: queue and usage by name."""

    allocations: tuple[AllocationFigure, ...]
    nodes: Mapping[str, NodeFigure]
    queues: Mapping[str, Vector]
    parents: Mapping[str, str]
    applications: Mapping[str, tuple[str, Vector]]


def problems_of(figures: Figures) -> list[Problem]:
    """Every figure that is not the sum of its parts, negative, or of an object that does not exist. Empty if all is
    well."""
    found: list[Problem] = []
    by_node: dict[str, dict[str, int]] = {name: {} for name in figures.nodes}
    by_application: dict[str, dict[str, int]] = {name: {} for name in figures.applications}
    by_queue: dict[str, dict[str, int]] = {name: {} for name in figures.queues}
    for one in figures.allocations:
        place = f"allocation {one.application}/{one.name}"
        if one.node not in by_node:
            found.append(Problem(ProblemCode.NO_NODE, place, f"the node {one.node} does not exist"))
        if one.application not in by_application:
            found.append(Problem(ProblemCode.NO_APPLICATION, place, "the application does not exist"))
            continue
        _add(by_node.get(one.node, {}), one.request)
        _add(by_application[one.application], one.request)
        queue = figures.applications[one.application][0]
        if queue not in by_queue:
            found.append(Problem(ProblemCode.NO_QUEUE, place, f"the queue {queue} does not exist"))
        while queue in by_queue:
            _add(by_queue[queue], one.request)
            queue = figures.parents.get(queue, "")
    for name, used in figures.queues.items():
        found += _compared(ProblemCode.QUEUE_SUM, f"queue {name}", used, by_queue[name])
    for name, (_, used) in figures.applications.items():
        found += _compared(ProblemCode.APPLICATION_SUM, f"application {name}", used, by_application[name])
    for name, node in figures.nodes.items():
        found += _compared(ProblemCode.NODE_SUM, f"node {name}", node.used, by_node[name])
        whole = {key: node.used.get(key, 0) + node.free.get(key, 0) + node.occupied.get(key, 0) for key in node.total}
        found += _compared(ProblemCode.NODE_SUM, f"node {name}, total", node.total, whole)
        found += _negative(f"node {name}, free", node.free)
    return found


def _add(figures: dict[str, int], request: Amounts) -> None:
    for name, amount in request:
        figures[name] = figures.get(name, 0) + amount


def _compared(code: ProblemCode, place: str, given: Vector, computed: Vector) -> list[Problem]:
    wrong = [
        Problem(code, place, f"{name} is {given.get(name, 0)}, the sum is {computed.get(name, 0)}")
        for name in sorted({*given, *computed})
        if given.get(name, 0) != computed.get(name, 0)
    ]
    return wrong + _negative(place, given)


def _negative(place: str, given: Vector) -> list[Problem]:
    return [Problem(ProblemCode.NEGATIVE, place, f"{name} is {amount}") for name, amount in given.items() if amount < 0]
