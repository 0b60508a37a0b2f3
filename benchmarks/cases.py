"""The cases: what each does and measures. Every claim about performance is one of these.

launch-N-A     N taskgroups of one application on A synthetic agents: POST to all Running, durable and acknowledged
scale-N-A      from N to N * 6/5 taskgroups
delete-N-A     of an application of N taskgroups, to nothing left
events-5000    launches of 1000 taskgroups on 100 agents beside 5,000 deliveries of events a second to watchers
               (benchmarks.following); fails if that takes more than 1.1 times as long as without watchers
list-N         list of N taskgroups over HTTP, median of several; fails above 0.5 s
restart-N      kill -9 of a scheduler with N running taskgroups, start again, to ready
place-N-A, place-constrained-N-A    the placement alone (benchmarks.placement)
command-N      one command run in N taskgroups, real executors and processes: POST to the last answer; fails above 5 s
probe-N        N REMOTE_HTTP targets, each probed every 10 s (benchmarks.probing); fails above 0.0001 of a core each
services-N     N services of 10 taskgroups (benchmarks.services): from a failure to a watcher that knows, median of 200;
               fails above 0.1 s, and above one record per change
executor-start the one-file executor from its start to the first RUNNING (benchmarks.starting), median of several runs;
               fails above 0.5 s, and above 25 MB for executor or warden in any of them
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import following
from benchmarks.floor import floor_seconds, load_floor_seconds
from benchmarks.placement import place
from benchmarks.probing import INTERVAL, WINDOW, Cost
from benchmarks.processes import Bench, Failure, Process, StoreKind, Tasks, await_
from benchmarks.services import EACH
from benchmarks.services import measure as measure_services
from benchmarks.starting import measure

SIZES = ((1000, 100), (1000, 10), (5000, 1000))
DEFAULT = (
    *(f"{kind}-{n}-{a}" for n, a in SIZES for kind in ("launch", "scale", "delete")),
    "launch-100-10",
    "launch-10000-1000",
    "launch-10000-5000",
    "restart-10000",
    "events-5000",
    "list-10000",
    *(f"{kind}-10000-{a}" for a in (100, 1000, 5000) for kind in ("place", "place-constrained")),
    "command-200",
    "probe-1000",
    "services-1000",
    "executor-start",
)
ENDPOINT_SECONDS = 0.1
"""From a failure until a watcher of endpoints has heard of it."""
COMMAND_SECONDS = 5.0
"""What a command may take to be answered by all taskgroups it is for."""
REAL_AGENTS = 4
PROBE_SHARE = 1e-4
"""Of a core, per target: what probing may cost."""
START_SECONDS = 0.5
START_MB = 25.0
"""What the executor may take to start, beyond the program's own start; executor and warden each."""
APPLICATION = "/namespaces/bench/applications"
COMMAND = "/command/application/bench/load"
COMMANDS = 3
TIMEOUT = 300.0
PAUSE = 0.02
"""Seconds between looks at the cluster."""
WARM_UP = 300
"""Taskgroups at most that are launched and deleted before anything is measured: a Java server warms up slowly."""


@dataclass(frozen=True)
class Result:
    """One line of the table. `seconds` of the case and of its floor (benchmarks.floor), measured one after the other;
    `cpu_us`: processor time of the scheduler per taskgroup that was moved; `rss_mb`: its greatest memory so far."""

    case: str
    store: str
    agents: int
    taskgroups: int
    seconds: float
    per_second: float
    floor_seconds: float | None = None
    ratio: float | None = None
    writes_per_taskgroup: float | None = None
    cpu_us: float | None = None
    rss_mb: float | None = None

    def line(self) -> dict[str, Any]:
        return asdict(self)


def parse(case: str) -> tuple[str, int, int]:
    """Kind, taskgroups, agents. Raises Failure for a name that is not a case."""
    if case == "executor-start":
        return case, 1, 1
    match = re.fullmatch(r"(launch|scale|delete|place|place-constrained)-(\d+)-(\d+)|restart-(\d+)", case)
    if case == "events-5000":
        return "events", 1000, 100
    if other := re.fullmatch(r"(probe|command|list)-(\d+)", case):
        agents = {"probe": 1, "command": REAL_AGENTS}.get(other[1]) or max(1, int(other[2]) // 10)
        return other[1], int(other[2]), agents
    if other := re.fullmatch(r"services-(\d+)", case):
        return "services", int(other[1]) * EACH, max(1, int(other[1]))
    if match is None:
        raise Failure(f"unknown case {case!r}; cases are e.g. launch-1000-100, scale-5000-1000, restart-10000")
    if match[4]:
        return "restart", int(match[4]), max(1, int(match[4]) // 10)
    return match[1], int(match[2]), int(match[3])


def run(case: str, store: StoreKind) -> Result:
    kind, taskgroups, agents = parse(case)
    if kind.startswith("place"):
        return _place(case, kind, taskgroups, agents)
    if kind == "probe":
        return _probe(case, taskgroups)
    if kind == "executor-start":
        return _executor_start(case)
    per_agent = -(-taskgroups * 6 // 5 // agents) + 2
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        # Each taskgroup takes 0.1 cores, 96 MB memory, 64 MB disk and a port, executor included.
        size = {"cpus": per_agent * 0.1 + 1, "mem": per_agent * 96 + 64, "disk": per_agent * 64 + 64}
        with Bench(Path(folder), store, agents, synthetic=kind != "command", **size) as bench:
            if kind != "command":
                _warm_up(bench, min(WARM_UP, taskgroups))
            return _CASES[kind](case, bench, taskgroups)


def _probe(case: str, count: int) -> Result:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        command = [sys.executable, "-m", "benchmarks.probing"]
        server = Process(command, Path(folder) / "targets.log", r"serving on port (\d+)")
        try:
            cost = Cost(count, int(server.url))
            cpu, probes = cost.measure()
        finally:
            server.kill()
    wanted = count * WINDOW / INTERVAL
    if cost.unhealthy or probes < 0.95 * wanted:
        raise Failure(f"{probes} of {wanted:.0f} probes in {WINDOW:.0f} s, {cost.unhealthy} failed")
    if cpu / WINDOW > PROBE_SHARE * count:
        raise Failure(f"{cpu / WINDOW:.3f} of a core for {count} targets")
    return Result(
        case=case,
        store="",
        agents=1,
        taskgroups=count,
        seconds=WINDOW,
        per_second=probes / WINDOW,
        cpu_us=cpu * 1e6 / probes,
    )


def _executor_start(case: str) -> Result:
    typical, worst = measure()
    for name, start in (("median", typical), ("worst", worst)):
        words = f"executor {start.executor_mb:.1f} MB, warden {start.warden_mb:.1f} MB"
        print(f"{name}: {start.seconds:.3f} s, {words}", file=sys.stderr)
    if typical.seconds > START_SECONDS:
        raise Failure(f"{typical.seconds:.2f} s to the first RUNNING")
    if max(worst.executor_mb, worst.warden_mb) > START_MB:
        raise Failure(f"executor {worst.executor_mb:.1f} MB, warden {worst.warden_mb:.1f} MB")
    return Result(
        case=case,
        store="",
        agents=1,
        taskgroups=1,
        seconds=typical.seconds,
        per_second=1 / typical.seconds,
        rss_mb=worst.executor_mb,
    )


def document(instances: int, name: str = "load") -> dict[str, Any]:
    container = {
        "command": "/bin/sleep",
        "args": ["1000"],
        "resources": {"limits": {"cpu": "0.1", "memory": "32", "storage": "0"}},
        "ports": [{"name": "http", "protocol": "tcp", "containerPort": 0, "hostPort": 0}],
        "env": [{"name": "A", "value": "b"}],
    }
    template = {"spec": {"networkMode": "HOST", "containers": [container]}}
    return {
        "apiVersion": "v4",
        "kind": "application",
        "metadata": {"name": name, "namespace": "bench"},
        "spec": {"instance": instances, "template": template},
    }


def _launch(case: str, bench: Bench, taskgroups: int) -> Result:
    return _timed(case, bench, taskgroups, taskgroups, lambda: _up(bench, taskgroups))


def _scale(case: str, bench: Bench, taskgroups: int) -> Result:
    _up(bench, taskgroups)
    target = taskgroups * 6 // 5

    def scale() -> None:
        bench.call("PUT", f"{APPLICATION}/load/scale/{target}")
        _await_running(bench, target)

    return _timed(case, bench, taskgroups, target - taskgroups, scale)


def _delete(case: str, bench: Bench, taskgroups: int) -> Result:
    _up(bench, taskgroups)
    return _timed(case, bench, taskgroups, taskgroups, lambda: _down(bench))


def _restart(case: str, bench: Bench, taskgroups: int) -> Result:
    _up(bench, taskgroups)
    bench.scheduler.kill()
    seconds = bench.start_scheduler()
    cpu = bench.scheduler.cpu_seconds()
    _await_running(bench, taskgroups)
    floor = load_floor_seconds(taskgroups, bench.agents, bench.store)
    return Result(
        case=case,
        store=bench.store,
        agents=bench.agents,
        taskgroups=taskgroups,
        seconds=seconds,
        per_second=taskgroups / seconds,
        floor_seconds=floor,
        ratio=seconds / floor,
        cpu_us=cpu * 1e6 / taskgroups,
        rss_mb=bench.scheduler.peak_rss(),
    )


def _command(case: str, bench: Bench, taskgroups: int) -> Result:
    """Of three commands the slowest counts."""
    _up(bench, taskgroups)
    spec = {"commandTargetRef": {"kind": "Application"}, "command": ["/bin/echo", "here"]}
    cpu, seconds = bench.scheduler.cpu_seconds(), 0.0
    for _ in range(COMMANDS):
        began = time.monotonic()
        told = bench.call("POST", COMMAND, {"apiVersion": "v4", "kind": "Command", "spec": spec})
        path = f"{COMMAND}?id={told['commandID']}"
        answers = await_("answers", lambda path=path: _answers(bench, path), TIMEOUT, PAUSE)  # type: ignore[misc]
        seconds = max(seconds, time.monotonic() - began)
        if answers != ["here\n"] * taskgroups:
            raise Failure(f"{answers.count('here' + chr(10))} of {taskgroups} taskgroups carried it out")
    cpu = (bench.scheduler.cpu_seconds() - cpu) / COMMANDS
    rss = bench.scheduler.peak_rss()
    _down(bench)
    if seconds > COMMAND_SECONDS:
        raise Failure(f"{seconds:.1f} s for {taskgroups} taskgroups")
    return Result(
        case=case,
        store=bench.store,
        agents=bench.agents,
        taskgroups=taskgroups,
        seconds=seconds,
        per_second=taskgroups / seconds,
        cpu_us=cpu * 1e6 / taskgroups,
        rss_mb=rss,
    )


def _services(case: str, bench: Bench, taskgroups: int) -> Result:
    found = measure_services(bench, taskgroups // EACH, document)
    print(f"median {found.median * 1000:.1f} ms, worst {found.worst * 1000:.1f} ms", file=sys.stderr)
    if found.median > ENDPOINT_SECONDS:
        raise Failure(f"{found.median:.3f} s until a watcher heard of a change")
    if found.writes_per_change > 1:
        raise Failure(f"{found.writes_per_change:.2f} records of endpoints for each change")
    return Result(
        case=case,
        store=bench.store,
        agents=bench.agents,
        taskgroups=taskgroups,
        seconds=found.median,
        per_second=1 / found.median,
        writes_per_taskgroup=found.writes_per_change,
        rss_mb=bench.scheduler.peak_rss(),
    )


def _list(case: str, bench: Bench, taskgroups: int) -> Result:
    _up(bench, taskgroups)
    cpu = bench.scheduler.cpu_seconds()
    seconds, looks = following.list_seconds(bench, taskgroups)
    return Result(
        case=case,
        store=bench.store,
        agents=bench.agents,
        taskgroups=taskgroups,
        seconds=seconds,
        per_second=taskgroups / seconds,
        cpu_us=(bench.scheduler.cpu_seconds() - cpu) * 1e6 / taskgroups / looks,
        rss_mb=bench.scheduler.peak_rss(),
    )


def _events(case: str, bench: Bench, taskgroups: int) -> Result:
    """`ratio`: of the time with watchers to that without, in the slowest mix of watchers and rates."""
    ratio, seconds = following.slowdown(bench, lambda: _up(bench, taskgroups), lambda: _down(bench))
    return Result(
        case=case,
        store=bench.store,
        agents=bench.agents,
        taskgroups=taskgroups,
        seconds=seconds,
        per_second=taskgroups / seconds,
        ratio=ratio,
        rss_mb=bench.scheduler.peak_rss(),
    )


def _answers(bench: Bench, path: str) -> list[str] | None:
    """Standard output of all tasks; None while one has not answered."""
    record = bench.call("GET", path)
    if record["state"] == "running":
        return None
    tasks = [task for group in record["status"]["taskgroups"] for task in group["tasks"]]
    return [task["commInspect"]["stdout"] if task["commInspect"] else "" for task in tasks]


_CASES: dict[str, Callable[[str, Bench, int], Result]] = {
    "launch": _launch,
    "scale": _scale,
    "delete": _delete,
    "restart": _restart,
    "command": _command,
    "services": _services,
    "list": _list,
    "events": _events,
}


def _up(bench: Bench, taskgroups: int, name: str = "load") -> None:
    bench.call("POST", APPLICATION, document(taskgroups, name))
    _await_running(bench, taskgroups, name)


def _await_running(bench: Bench, taskgroups: int, name: str = "load") -> None:
    """Until all run, and what the scheduler heard of them is durable and acknowledged. The cluster is asked, so that
    the scheduler has nothing to do but its work: an acknowledgement leaves only after the status is durable."""
    await_(f"{taskgroups} running", lambda: bench.tasks() == Tasks(taskgroups, taskgroups, 0), TIMEOUT, PAUSE)
    await_("status Running", lambda: _shown_running(bench, taskgroups, name), TIMEOUT, PAUSE)


def _shown_running(bench: Bench, taskgroups: int, name: str) -> bool:
    record = bench.call("GET", f"{APPLICATION}/{name}")
    return record["RunningInstances"] == taskgroups and record["Status"] == "Running"


def _down(bench: Bench, name: str = "load") -> None:
    bench.call("DELETE", f"{APPLICATION}/{name}")
    await_("ends of all tasks", lambda: bench.tasks() == Tasks(0, 0, 0), TIMEOUT, PAUSE)
    await_("deletion", lambda: _gone(bench, name), TIMEOUT, PAUSE)


def _gone(bench: Bench, name: str) -> bool:
    answer = bench.session.get(f"{bench.scheduler.url}/v4/scheduler/mesos{APPLICATION}/{name}", timeout=60)
    return answer.status_code == 404 and bench.metric("bkbcs_scheduler_queue_depth", queue="commit") == 0


def _warm_up(bench: Bench, taskgroups: int) -> None:
    """Everything has been imported, connected and done once."""
    _up(bench, taskgroups, "warm")
    _down(bench, "warm")


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
    measured = place(taskgroups, agents, "mixed" if kind == "place-constrained" else None)
    return Result(case, "none", agents, taskgroups, measured["seconds"], measured["per_second"])
