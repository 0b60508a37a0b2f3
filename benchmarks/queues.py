"""Hierarchical queues alone: how fast a tree of queues decides.

    queues-preempt-N-A    one ask that must preempt, among N running allocations on A full nodes: the slowest of
                          clusters in which one victim suffices, several are needed, priorities forbid it, guarantees
                          forbid it, every second allocation is forbidden, and the guarantee is the one of a parent
    queues-blocked-N-A    N applications that wait on A full nodes: one allocation ends, and one application is placed
    queues-place-N-A      N asks of 25 applications in five queues on A empty nodes: allocations a second

Timed is the processor time of one thread, the median of several runs. Each case fails beyond its bound.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from statistics import median

from benchmarks.load import Result
from benchmarks.processes import Failure
from offers.policy.hierarchy.configuration.document import partition_of
from offers.policy.hierarchy.preemption.tries import preempt
from offers.policy.hierarchy.state.application import Application
from offers.policy.hierarchy.state.model import Allocation, Ask
from offers.policy.hierarchy.steps import recover_all
from offers.policy.hierarchy.tree import Tree

KINDS = ("queues-preempt", "queues-blocked", "queues-place")
CASES = ("queues-preempt-50000-5000", "queues-blocked-50000-5000", "queues-place-5000-5000")
REPEATS = 5
LONGEST = {"queues-preempt": 0.050, "queues-blocked": 0.005}
"""Seconds that a case may take."""
FASTEST = 10_000.0
"""Allocations a second that `queues-place` must reach."""
CLUSTERS = ("one", "several", "priorities", "guarantees", "mixed", "nested")
VICTIMS = {"one": 1, "several": 5, "priorities": 0, "guarantees": 0, "mixed": 4, "nested": 6}
"""The victims that each cluster must have."""


def queues(case: str, kind: str, tasks: int, agents: int) -> Result:
    """Runs one case. Raises Failure if it decides something else than it must; the result names the bounds that are
    missed."""
    missed: list[str] = []
    parts: dict[str, float] = {}
    match kind:
        case "queues-preempt":
            for cluster in CLUSTERS:
                parts[cluster] = timed(lambda name=cluster: full(tasks, agents, name), _preempting(case, cluster))  # type: ignore[misc]
            seconds = max(parts.values())
        case "queues-blocked":
            seconds = timed(lambda: blocked(tasks, agents), _release)
        case _:
            seconds = timed(lambda: empty(tasks, agents), lambda tree: _expect(tree, tasks))
            if tasks / seconds < FASTEST:
                missed.append(f"{tasks / seconds:.0f} allocations a second, {FASTEST:.0f} at least")
    if seconds > LONGEST.get(kind, seconds):
        missed.append(f"{seconds:.4f} s, {LONGEST[kind]} at most")
    each = tasks if kind == "queues-place" else 1
    cost = seconds / each * 1e6
    return Result(
        case, "none", agents, tasks, seconds, each / seconds, cpu_us=cost, parts=parts, missed="; ".join(missed)
    )


def timed(make: Callable[[], Tree], step: Callable[[Tree], None]) -> float:
    """Seconds of a step over equal trees, each made anew: the median."""
    found = []
    for _ in range(REPEATS):
        tree = make()
        gc.collect()
        gc.disable()
        begun = time.process_time()
        step(tree)
        found.append(time.process_time() - begun)
        gc.enable()
    return median(found)


def _preempting(case: str, cluster: str) -> Callable[[Tree], None]:
    def step(tree: Tree) -> None:
        found = sum(len(one.victims) for one in preempt(tree, 1e9))
        if found != VICTIMS[cluster]:
            raise Failure(f"{case}: {found} victims instead of {VICTIMS[cluster]} in the cluster {cluster!r}")

    return step


def _release(tree: Tree) -> None:
    tree.release("r0000", "t0")
    _expect(tree, 1)


def _expect(tree: Tree, number: int) -> None:
    found = sum(1 for _ in tree.run())
    if found != number:
        raise Failure(f"{found} asks are placed instead of {number}")


# --- clusters -------------------------------------------------------------------------------------------------


def full(tasks: int, agents: int, cluster: str) -> Tree:
    """Applications of 100 allocations in five queues that fill all nodes, and one ask of a queue below its
    guarantee."""
    per_node = tasks // agents
    share = tasks // 5 if cluster == "guarantees" else 0
    tree = _tree(agents, per_node, share, tasks // 5 if cluster == "nested" else 50)
    with tree.nodes.settling():
        for first in range(0, tasks, 100):
            name, leaf = f"r{first // 100:04}", f"root.q{first // 100 % 5}"
            if cluster == "nested" and leaf == "root.q0":
                leaf = "root.urgent.b"
            tree.submit(Application(name, leaf, 0.0))
            found = []
            for number in range(first, min(first + 100, tasks)):
                priority = {"priorities": 1, "mixed": number // agents % 2}.get(cluster, 0)
                ask = Ask(name, f"t{number}", (("cpus", 1), ("mem", 10)), float(number), priority)
                found.append(Allocation(ask, f"a{number % agents:05}"))
            recover_all(tree, name, found)
    tree.submit(Application("urgent", "root.urgent.a", 1.0))
    wanted = {"several": 5, "mixed": 4, "nested": 6}.get(cluster, 1)
    tree.ask(Ask("urgent", "t", (("cpus", wanted), ("mem", 10 * wanted))))
    _expect(tree, 0)
    return tree


def blocked(tasks: int, agents: int) -> Tree:
    """Full nodes, and applications of one ask each that wait."""
    tree = full(agents * 10, agents, "one")
    for number in range(tasks):
        tree.submit(Application(f"w{number:05}", f"root.q{number % 5}", float(number)))
        tree.ask(Ask(f"w{number:05}", "t", (("cpus", 1 + number % 3 % 2), ("mem", 10)), float(number)))
    _expect(tree, 0)
    return tree


def empty(tasks: int, agents: int) -> Tree:
    """Empty nodes, and 25 applications."""
    tree = _tree(agents, 10, 10, 10)
    for number in range(25):
        tree.submit(Application(f"w{number:02}", f"root.q{number % 5}", float(number)))
    for number in range(tasks):
        tree.ask(Ask(f"w{number % 25:02}", f"t{number}", (("cpus", 1), ("mem", 10)), float(number)))
    return tree


def _tree(agents: int, per_node: int, share: int, urgent: int) -> Tree:
    queues: list[dict[str, object]] = [
        {"name": f"q{n}", "resources": {"guaranteed": {"cpus": share, "mem": 10 * share}}} for n in range(5)
    ]
    below = [{"name": "a"}, {"name": "b"}]
    queues.append({"name": "urgent", "resources": {"guaranteed": {"cpus": urgent}}, "queues": below})
    nodes = [(f"a{rank:05}", {"cpus": per_node, "mem": per_node * 10}) for rank in range(agents)]
    return Tree(partition_of({"queues": queues}, quantity=int), nodes)
