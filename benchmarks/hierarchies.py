"""Hierarchical queues against the policy `simple`: a launch of N taskgroups in 25 applications of five namespaces.

    hierarchical-N-A         end to end: store, embedded cluster of A synthetic agents and scheduler are processes;
                             from the first POST until all run, durable and acknowledged
    hierarchical-core-N-A    the core by itself: processor time of one thread, from the requests to the launches

Both policies run in turns. Each case fails if the median with queues is more times that of `simple` than its bound.
"""

from __future__ import annotations

import gc
import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, Literal

from bcs_scheduler.core.interface import cluster_manager, leased, requests
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.scheduler import Core
from benchmarks.load import PAUSE, TIMEOUT, Result, document
from benchmarks.processes import Bench, Failure, StoreKind, Tasks, await_
from offers.model import Offer, ResourceKey
from offers.policy.hierarchy.configuration.document import partition_of
from store.records import Namespace, Version
from store.records.definition import Amounts, Container

KINDS = ("hierarchical", "hierarchical-core")
CASES = ("hierarchical-5000-5000", "hierarchical-core-5000-5000")
SLOWER = {"hierarchical": 1.3, "hierarchical-core": 1.7}
"""A launch may take so many times as long with hierarchical queues. Without store and cluster, the decisions are a
larger part."""
ROUNDS = {"hierarchical": 3, "hierarchical-core": 5}
"""Launches with each policy, by case."""
APPLICATIONS, QUEUES = 25, 5
TREE: dict[str, Any] = {
    "queues": [{"name": f"q{n}", "resources": {"guaranteed": {"cpus": 10, "mem": 1000}}} for n in range(QUEUES)],
    "placementrules": [{"name": "tag", "value": "namespace", "create": True}],
}
"""Five queues, each for the namespace of its name; the queue of the warm-up is created."""
HEAP = 384
"""MB of ZooKeeper."""
WARM = 10
"""Taskgroups of each application in the launch before the one that is measured."""
NOW = 1.7e9
MOST_TURNS = 100_000
"""Turns of the core after which a launch has failed."""
CPUS, MEM, DISK, PORTS = (ResourceKey(name, "*") for name in ("cpus", "mem", "disk", "ports"))
Policy = Literal["simple", "hierarchical"]
POLICIES: tuple[Policy, Policy] = ("simple", "hierarchical")


def hierarchical(case: str, kind: str, taskgroups: int, agents: int, store: StoreKind, source: Path | None) -> Result:
    """Runs one case. `source`: another checkout, whose scheduler is measured end to end in place of this one's. The
    result says if the bound is missed."""
    found: dict[Policy, list[tuple[float, float]]] = {policy: [] for policy in POLICIES}
    for number in range(ROUNDS[kind]):
        for policy in POLICIES[:: -1 if number % 2 else 1]:
            if kind == "hierarchical":
                found[policy].append(_end_to_end(policy, taskgroups, agents, store, source))
            else:
                found[policy].append(_core(policy, taskgroups, agents))
    seconds = {policy: median(one for one, _ in pairs) for policy, pairs in found.items()}
    processor = {policy: median(one for _, one in pairs) for policy, pairs in found.items()}
    ratio = seconds["hierarchical"] / seconds["simple"]
    second = "cpu" if kind == "hierarchical" else "turn"
    parts = {"ratio": ratio, "simple": seconds["simple"], "hierarchical": seconds["hierarchical"]}
    parts |= {f"{second}_{policy}": processor[policy] for policy in POLICIES}
    missed = f"{ratio:.2f} times as long with queues, {SLOWER[kind]} at most" if ratio > SLOWER[kind] else ""
    return Result(
        case,
        store if kind == "hierarchical" else "none",
        agents,
        taskgroups,
        seconds["hierarchical"],
        taskgroups / seconds["hierarchical"],
        parts={name: round(value, 4) for name, value in parts.items()},
        missed=missed,
    )


# --- end to end -----------------------------------------------------------------------------------------------


def _end_to_end(
    policy: Policy, taskgroups: int, agents: int, store: StoreKind, source: Path | None
) -> tuple[float, float]:
    """Seconds of a launch, and processor time of the scheduler process."""
    per_agent = -(-taskgroups // agents) + 2
    size: dict[str, Any] = {"cpus": per_agent * 0.2 + 1, "mem": per_agent * 192 + 64, "disk": per_agent * 128 + 64}
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        tree = folder / "queues.json"
        tree.write_text(json.dumps(TREE))
        options = [f"--scheduler-policy={policy}"]
        if policy == "hierarchical":
            options.append(f"--scheduler-policy-file={tree}")
        bench = Bench(folder, store, agents, source=source, heap=HEAP, **size)
        bench.options = options
        with bench:
            _up(bench, WARM, "warm")
            _down(bench, "warm")
            cpu, began = bench.scheduler.cpu_seconds(), time.monotonic()
            _up(bench, taskgroups // APPLICATIONS, "load")
            return time.monotonic() - began, bench.scheduler.cpu_seconds() - cpu


def _namespace(number: int) -> str:
    return f"q{number % QUEUES}"


def _up(bench: Bench, each: int, prefix: str) -> None:
    """Creates the applications, and waits until all taskgroups run, durable and acknowledged."""
    for number in range(APPLICATIONS):
        namespace = _namespace(number)
        wanted = document(each, f"{prefix}-{number:02}")
        wanted["metadata"]["namespace"] = namespace
        bench.call("POST", f"/namespaces/{namespace}/applications", wanted)
    number = each * APPLICATIONS
    await_(f"{number} running", lambda: bench.tasks() == Tasks(number, number, 0), TIMEOUT, PAUSE)
    await_("status Running", lambda: _shown(bench) == {("Running", each): APPLICATIONS}, TIMEOUT, PAUSE)


def _down(bench: Bench, prefix: str) -> None:
    for number in range(APPLICATIONS):
        bench.call("DELETE", f"/namespaces/{_namespace(number)}/applications/{prefix}-{number:02}")
    await_("ends of all tasks", lambda: bench.tasks() == Tasks(0, 0, 0), TIMEOUT, PAUSE)
    await_("deletion", lambda: not _shown(bench), TIMEOUT, PAUSE)
    await_("commits", lambda: bench.metric("bkbcs_scheduler_queue_depth", queue="commit") == 0, TIMEOUT, PAUSE)


def _shown(bench: Bench) -> dict[tuple[str, int], int]:
    """Number of applications by status and number of taskgroups that run."""
    counts: dict[tuple[str, int], int] = {}
    for queue in range(QUEUES):
        for one in bench.call("GET", f"/namespaces/{_namespace(queue)}/applications?limit=1000"):
            key = (one["Status"], one["RunningInstances"])
            counts[key] = counts.get(key, 0) + 1
    return counts


# --- the core alone -------------------------------------------------------------------------------------------


def _core(policy: Policy, taskgroups: int, agents: int) -> tuple[float, float]:
    """Processor time in seconds from the requests until all taskgroups are launched, and that of the longest turn. The
    agents are known before, as in a scheduler that runs. Raises Failure if some are not launched."""
    core = _offered(policy, agents)
    longest, now = 0.0, NOW + 4.5
    inputs: list[requests.Request] = [_create(number, taskgroups // APPLICATIONS) for number in range(APPLICATIONS)]
    gc.collect()
    gc.disable()
    try:
        began = before = time.process_time()
        for _ in range(MOST_TURNS):
            core.turn(inputs, now)
            inputs = []
            moment = time.process_time()
            longest, before = max(longest, moment - before), moment
            if len(core.state.taskgroups) == taskgroups + 1:
                return moment - began, longest
            now = min(max(core.next_wakeup(now), now + 0.001), now + 1.0)
    finally:
        gc.enable()
    raise Failure(f"{len(core.state.taskgroups) - 1} of {taskgroups} taskgroups are launched by the policy {policy}")


def _offered(policy: Policy, agents: int) -> Core:
    """A core that holds offers of all agents and has launched one taskgroup."""
    options = CoreOptions(session_period=0.5)
    if policy == "hierarchical":
        options = replace(options, hierarchy=partition_of(TREE, ("cpus", "mem")))
    core = Core([Namespace(name=_namespace(n), queue=f"root.q{n}") for n in range(QUEUES)], options, NOW)
    core.turn([cluster_manager.Connected(framework_id="framework", cluster="bench")], NOW)
    core.turn([_create(APPLICATIONS, 1)], NOW)
    core.turn([leased.OffersArrived(offers=tuple(_offer(number) for number in range(agents)))], NOW)
    for number in range(1, 5):
        core.turn([], NOW + number)
    if len(core.state.taskgroups) != 1:
        raise Failure("the taskgroup of the warm-up is not launched")
    return core


def _create(number: int, instances: int) -> requests.Request:
    container = Container(command="serve", requests=Amounts(cpus=100, mem=32_000, disk=0))
    version = Version(
        namespace=_namespace(number),
        application=f"load-{number:02}",
        instances=instances,
        containers=(container,),
    )
    return requests.CreateApplication(version=version, token=number + 1)


def _offer(number: int) -> Offer:
    return Offer(
        id=f"offer-{number}",
        agent_id=f"agent-{number}",
        hostname=f"host-{number}.example",
        ip=f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}",
        role="*",
        attributes={},
        scalars=((CPUS, 4000), (MEM, 16_000_000), (DISK, 64_000_000)),
        ranges=((PORTS, ((31000, 31099),)),),
    )
