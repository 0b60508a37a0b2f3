"""The cases: what each does and measures. Every claim about performance is one of these.

launch-N-A     N taskgroups of one application on A synthetic agents: POST to all Running, durable and acknowledged
scale-N-A      from N to N * 6/5 taskgroups
delete-N-A     of an application of N taskgroups, to nothing left
events-5000    launches of 1000 taskgroups on 100 agents beside 5,000 deliveries of events a second to watchers
               (benchmarks.following); fails if that takes more than 1.1 times as long as without watchers
list-N         list of N taskgroups over HTTP, median of several; fails above 0.5 s
rollout-N-A    rolling update of N taskgroups on A agents, 20 more at a time (benchmarks.rollouts); fails above 1.5
               times the least it can take
restart-N      kill -9 of the only scheduler with N running taskgroups, start again: until it leads, is connected and
               ready (seconds), and until a launch runs (parts)
steady-N       beside N running taskgroups: one launch, one scale, one failure, one page of a list, one scrape (parts)
takeover-N     kill -9 of the leader beside a standby: until that is ready and until a launch runs, after the session of
               the dead one has run out
create-N       N applications of one taskgroup, created by 16 clients at once (benchmarks.creating): answers per second;
               fails if the last tenth takes the scheduler more than 1.5 times the processor time of the first
standby-N      reads at a standby: latency, time until a change is seen there, memory
storm-N        beside N running taskgroups: failures one after the other and 200 at once, a share of the agents lost,
               the connection to Mesos broken; launches of another user meanwhile; turns above 0.1 s (parts)
churn-N        N taskgroups of 20 applications that fail and are scaled down and up: growth of the memory (parts)
fair-N         a launch of N taskgroups and the launches of another user beside it (parts)
place-N-A, place-constrained-N-A    the placement alone (benchmarks.placement)
place-statements-N-A    the same, each demand tried, every other one undone and tried again: placements tried per
               second; fails below half of those of a plain pass, measured in turn
policy-...-N-A one session of placement policies alone, N tasks on A agents; the cases and their bounds are in
               benchmarks.policies
hierarchical-N-A, hierarchical-core-N-A    a launch with hierarchical queues against one with the policy simple, end
               to end and in the core alone (benchmarks.hierarchies); fails beyond 1.3 times
whatif-N-A     the changes that would help, beside N running taskgroups (benchmarks.whatif); fails beyond one second
queues-...-N-A hierarchical queues alone, N tasks on A agents; the cases and their bounds are in benchmarks.queues
simulate-...-N-A  a day of `bcs simulate`: N taskgroups on A agents; the cases and their bounds are in
               benchmarks.simulations
command-N      one command run in N taskgroups, real executors and processes: POST to the last answer; fails above 5 s
probe-N        N REMOTE_HTTP targets, each probed every 10 s (benchmarks.probing); fails above 0.0001 of a core each
services-N     N services of 10 taskgroups (benchmarks.services): from a failure to a watcher that knows, median of 200;
               fails above 0.1 s, and above one record per change
executor-start the one-file executor from its start to the first RUNNING (benchmarks.starting), median of several runs;
               fails above 0.5 s, and above 25 MB for executor or warden in any of them
bcs-start      processor time of `bcs --help`, of completions and of `bcs get app` with a table of 10 and of
               1,000 rows (benchmarks.commandline), the least of several runs (parts); fails above 0.15 s
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import aging, churn, claims, hierarchies, policies, queues, simulations, steady, storms, whatif
from benchmarks.creating import creating
from benchmarks.floor import floor_seconds
from benchmarks.load import APPLICATION, Result, await_running, down, up
from benchmarks.placement import place, place_statements
from benchmarks.processes import Bench, Failure, StoreKind
from benchmarks.rollouts import START_DELAY
from benchmarks.services import EACH

SIZES = ((1000, 100), (1000, 10), (5000, 1000))
DEFAULT = (
    *(f"{kind}-{n}-{a}" for n, a in SIZES for kind in ("launch", "scale", "delete")),
    "launch-100-10",
    "launch-10000-1000",
    "launch-10000-5000",
    "restart-10000",
    "steady-10000",
    "takeover-10000",
    "standby-10000",
    "create-10000",
    "storm-10000",
    "fair-10000",
    "churn-1000",
    "rollout-200-100",
    "events-5000",
    "list-10000",
    *(f"{kind}-10000-{a}" for a in (100, 1000, 5000) for kind in ("place", "place-constrained")),
    "place-statements-10000-5000",
    *aging.CASES,
    *policies.CASES,
    *queues.CASES,
    *hierarchies.CASES,
    *whatif.CASES,
    *simulations.CASES,
    "command-200",
    "probe-1000",
    "services-1000",
    "executor-start",
    "bcs-start",
)
REAL_AGENTS = 4
STATEMENTS_COST = 2.0
"""A plain pass may try so many times as many placements in a second as one with statements."""
SMALL_HEAP, LARGE_HEAP = 384, 1024
"""MB of ZooKeeper for up to 50,000 taskgroups, and for more (docs/operations.md)."""
WARM_UP = 300
"""Taskgroups at most that are launched and deleted before anything is measured: a Java server warms up slowly."""


def parse(case: str) -> tuple[str, int, int]:
    """Kind, taskgroups, agents. Raises Failure for a name that is not a case."""
    if case in ("executor-start", "bcs-start"):
        return case, 1, 1
    placing = ("place", "place-constrained", "place-statements")
    alone = (*aging.KINDS, *policies.KINDS, *queues.KINDS, *hierarchies.KINDS, *simulations.KINDS, *whatif.KINDS)
    kinds = "|".join(("launch", "scale", "delete", *placing, *alone))
    match = re.fullmatch(rf"({kinds})-(\d+)-(\d+)", case)
    if case == "events-5000":
        return "events", 1000, 100
    if other := re.fullmatch(r"(probe|command|list)-(\d+)", case):
        agents = {"probe": 1, "command": REAL_AGENTS}.get(other[1]) or max(1, int(other[2]) // 10)
        return other[1], int(other[2]), agents
    if other := re.fullmatch(r"(restart|steady|takeover|standby|storm|fair|churn|create)-(\d+)", case):
        return other[1], int(other[2]), max(1, int(other[2]) // 10)
    if other := re.fullmatch(r"rollout-(\d+)-(\d+)", case):
        return "rollout", int(other[1]), int(other[2])
    if other := re.fullmatch(r"services-(\d+)", case):
        return "services", int(other[1]) * EACH, max(1, int(other[1]))
    if other := re.fullmatch(rf"({'|'.join(policies.IN_PORTIONS)})-(\d+)", case):
        return other[1], 10 * int(other[2]), int(other[2])
    if match is None:
        raise Failure(f"unknown case {case!r}; cases are e.g. launch-1000-100, scale-5000-1000, restart-10000")
    return match[1], int(match[2]), int(match[3])


def run(case: str, store: StoreKind, source: Path | None = None) -> Result:
    """`source`: another checkout, whose scheduler is measured in place of this one's."""
    kind, taskgroups, agents = parse(case)
    if kind in aging.KINDS:
        return aging.aging(case, taskgroups, agents)
    if kind.startswith("policy"):
        return policies.policies(case, kind, taskgroups, agents)
    if kind.startswith("queues"):
        return queues.queues(case, kind, taskgroups, agents)
    if kind in whatif.KINDS:
        return whatif.whatif(case, taskgroups, agents)
    if kind in simulations.KINDS:
        return simulations.simulations(case, kind, taskgroups, agents)
    if kind in hierarchies.KINDS:
        return hierarchies.hierarchical(case, kind, taskgroups, agents, store, source)
    if kind.startswith("place"):
        return _place(case, kind, taskgroups, agents)
    if kind == "probe":
        return claims.probe(case, taskgroups)
    if kind == "executor-start":
        return claims.executor_start(case)
    if kind == "bcs-start":
        return claims.bcs_start(case)
    heap = SMALL_HEAP if taskgroups <= 50_000 else LARGE_HEAP
    per_agent = -(-taskgroups * 6 // 5 // agents) + 2
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        # Each taskgroup takes 0.1 cores, 96 MB memory, 64 MB disk and a port, executor included.
        size = {"cpus": per_agent * 0.1 + 1, "mem": per_agent * 96 + 64, "disk": per_agent * 64 + 64}
        if kind == "rollout":
            size["start-delay"] = START_DELAY
        if kind in ("takeover", "restart"):
            size["session_timeout"] = steady.SESSION
        with Bench(Path(folder), store, agents, synthetic=kind != "command", source=source, heap=heap, **size) as bench:
            if kind != "command":
                _warmup(bench, min(WARM_UP, taskgroups))
            return _CASES[kind](case, bench, taskgroups)


def _launch(case: str, bench: Bench, taskgroups: int) -> Result:
    return _timed(case, bench, taskgroups, taskgroups, lambda: up(bench, taskgroups))


def _scale(case: str, bench: Bench, taskgroups: int) -> Result:
    up(bench, taskgroups)
    target = taskgroups * 6 // 5

    def scale() -> None:
        bench.call("PUT", f"{APPLICATION}/load/scale/{target}")
        await_running(bench, target)

    return _timed(case, bench, taskgroups, target - taskgroups, scale)


def _delete(case: str, bench: Bench, taskgroups: int) -> Result:
    up(bench, taskgroups)
    return _timed(case, bench, taskgroups, taskgroups, lambda: down(bench))


_CASES: dict[str, Callable[[str, Bench, int], Result]] = {
    "launch": _launch,
    "scale": _scale,
    "delete": _delete,
    "restart": steady.restart,
    "steady": steady.steady,
    "takeover": steady.takeover,
    "standby": steady.standby,
    "create": creating,
    "storm": storms.storm,
    "fair": storms.fair,
    "churn": churn.churn,
    "command": claims.command,
    "services": claims.endpoints,
    "list": claims.long_list,
    "events": claims.watched_launches,
    "rollout": claims.rollout,
}


def _warmup(bench: Bench, taskgroups: int) -> None:
    """Everything has been imported, connected and done once."""
    up(bench, taskgroups, "warm")
    down(bench, "warm")


def _timed(case: str, bench: Bench, present: int, moved: int, action: Callable[[], None]) -> Result:
    kind = parse(case)[0]
    writes, cpu = _writes(bench), bench.scheduler.cpu_seconds()
    began = time.monotonic()
    action()
    seconds = time.monotonic() - began
    cpu = bench.scheduler.cpu_seconds() - cpu
    writes = _writes(bench) - writes
    rss = bench.scheduler.peak_rss()
    floor = floor_seconds(kind, moved, bench.agents, bench.store)
    return Result(
        case=case,
        store=bench.store,
        agents=bench.agents,
        taskgroups=present,
        seconds=seconds,
        per_second=moved / seconds,
        floor_seconds=floor,
        ratio=seconds / floor,
        writes_per_taskgroup=writes / moved,
        cpu_us=cpu * 1e6 / moved,
        rss_mb=rss,
    )


def _writes(bench: Bench) -> float:
    return bench.metric("bkbcs_scheduler_committed_records_total")


def _place(case: str, kind: str, taskgroups: int, agents: int) -> Result:
    if kind == "place-statements":
        measured = place_statements(taskgroups, agents)
        if measured["slower"] > STATEMENTS_COST:
            raise Failure(f"{case}: slower than a plain pass by {measured['slower']:.2f}, {STATEMENTS_COST} at most")
        return Result(case, "none", agents, taskgroups, measured["seconds"], measured["per_second"])
    measured = place(taskgroups, agents, "mixed" if kind == "place-constrained" else None)
    return Result(case, "none", agents, taskgroups, measured["seconds"], measured["per_second"])
