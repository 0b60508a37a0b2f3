"""Hierarchical queues alone: how fast a tree of queues decides.

    queues-preempt-N-A    one ask that must preempt, among N running allocations on A full nodes: the slowest of
                          clusters in which one victim suffices, several are needed, priorities forbid it, guarantees
                          forbid it, every second allocation is forbidden, and the guarantee is the one of a parent
    queues-blocked-N-A    N applications that wait on A full nodes: one allocation ends, and one application is placed
    queues-hopeless-preempt-A    asks of 25 queues below their guarantee that no victims help, among 10 running
                          allocations on each of A full nodes, in 50 queues: in portions until all have had their turn
    queues-guarantees-Q   one ask of each of Q queues below their guarantee, on 1,000 full nodes: nothing can be gained
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
from offers.policy.hierarchy.preemption.preemption import preempt
from offers.policy.hierarchy.state.application import Application
from offers.policy.hierarchy.state.model import Allocation, Ask
from offers.policy.hierarchy.steps import recover_all
from offers.policy.hierarchy.tree import Tree

KINDS = ("queues-preempt", "queues-blocked", "queues-place", "queues-hopeless-preempt", "queues-guarantees")
CASES = (
    "queues-preempt-50000-5000",
    "queues-blocked-50000-5000",
    "queues-place-5000-5000",
    "queues-hopeless-preempt-50000-5000",
    "queues-guarantees-999-1000",
)
REPEATS = 5
LONGEST = {
    "queues-preempt": 0.050,
    "queues-blocked": 0.005,
    "queues-hopeless-preempt": 0.050,
    "queues-guarantees": 0.050,
}
"""Seconds that a case may take."""
IN_ALL = 1.0
"""Seconds that a round in which nothing can be gained may take in all its portions, each within `LONGEST`."""
PORTION = 0.030
"""Seconds after which a portion of a round ends."""
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
        case "queues-hopeless-preempt":
            for why in ("size", "priority", "gangs"):
                parts[why], whole = rounds(lambda why=why: hopeless(tasks, agents, why))  # type: ignore[misc]
                parts[f"{why}, in all"] = whole
                if whole > IN_ALL:
                    missed.append(f"{why}: {whole:.3f} s in all, {IN_ALL} at most")
            seconds = max(parts[why] for why in ("size", "priority", "gangs"))
        case "queues-guarantees":
            seconds, whole = rounds(lambda: guaranteed(tasks, agents))
            parts["in all"] = whole
            if whole > IN_ALL:
                missed.append(f"{whole:.3f} s in all, {IN_ALL} at most")
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


def rounds(make: Callable[[], Tree]) -> tuple[float, float]:
    """Seconds of the longest portion of a round in which nothing is preempted, and of all its portions: medians."""
    longest, whole = [], []
    for _ in range(REPEATS):
        tree = make()
        gc.collect()
        gc.disable()
        spent: list[float] = []
        while not spent or tree.behind:
            begun = time.process_time()
            until = begun + PORTION
            if preempt(tree, 1e9, is_over=lambda until=until: time.process_time() >= until):  # type: ignore[misc]
                raise Failure("an ask preempts that cannot")
            spent.append(time.process_time() - begun)
        gc.enable()
        longest.append(max(spent))
        whole.append(sum(spent))
    return median(longest), median(whole)


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


def hopeless(tasks: int, agents: int, why: str) -> Tree:
    """50 queues that fill all nodes, the first 25 below their guarantee, and an ask of each of these: larger than the
    room that others may lose on any node, or beside work that is more important or belongs to gangs at their
    minimum."""
    per_node, of_queue = tasks // agents, tasks // 50
    few = {"cpus": of_queue * 2 + 100, "mem": of_queue * 20 + 1000}
    tree = _of_queues([(f"q{n:02}", few if n < 25 else {}) for n in range(50)], agents, 2 * per_node)
    with tree.nodes.settling():
        for number in range(50):
            name = f"r{number:02}"
            tree.submit(Application(name, f"root.q{number:02}", 0.0))
            found = []
            for task in range(of_queue):
                priority = task % 2 if why == "priority" else 0
                ask = Ask(name, f"t{task}", (("cpus", 2), ("mem", 20)), float(task), priority)
                found.append(Allocation(ask, f"a{(number * of_queue + task) % agents:05}"))
            recover_all(tree, name, found)
            tree.applications[name].least = of_queue if why == "gangs" else 0
    wanted = {"size": 2 * per_node - 1, "priority": per_node + 3}.get(why, 4)
    for number in range(25):
        tree.submit(Application(f"w{number:02}", f"root.q{number:02}", 1.0))
        tree.ask(Ask(f"w{number:02}", "t", (("cpus", wanted), ("mem", 10))))
    _expect(tree, 0)
    return tree


def guaranteed(queues: int, agents: int) -> Tree:
    """Queues that all use half of their guarantee and fill the nodes together, and one ask of each."""
    each = agents * 10 // queues + 1
    tree = _of_queues([(f"q{n:03}", {"cpus": 2 * each}) for n in range(queues)], agents, 10)
    with tree.nodes.settling():
        for number in range(queues):
            name = f"r{number:03}"
            tree.submit(Application(name, f"root.q{number:03}", 0.0))
            places = [number * each + task for task in range(each) if number * each + task < agents * 10]
            recover_all(
                tree,
                name,
                [
                    Allocation(Ask(name, f"t{n}", (("cpus", 1), ("mem", 10)), float(n)), f"a{n % agents:05}")
                    for n in places
                ],
            )
    for number in range(queues):
        tree.submit(Application(f"w{number:03}", f"root.q{number:03}", 1.0))
        tree.ask(Ask(f"w{number:03}", "t", (("cpus", 1), ("mem", 10))))
    _expect(tree, 0)
    return tree


def _of_queues(queues: list[tuple[str, dict[str, int]]], agents: int, cpus: int) -> Tree:
    document = {"queues": [{"name": name, "resources": {"guaranteed": least}} for name, least in queues]}
    return Tree(
        partition_of(document, quantity=int),
        [(f"a{rank:05}", {"cpus": cpus, "mem": cpus * 10}) for rank in range(agents)],
    )


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
    below = [{"name": "a", "resources": {"guaranteed": {"cpus": 6}}}, {"name": "b"}]
    queues.append({"name": "urgent", "resources": {"guaranteed": {"cpus": urgent}}, "queues": below})
    nodes = [(f"a{rank:05}", {"cpus": per_node, "mem": per_node * 10}) for rank in range(agents)]
    return Tree(partition_of({"queues": queues}, quantity=int), nodes)
