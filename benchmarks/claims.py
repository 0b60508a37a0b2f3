"""Cases that have a bound of their own, and fail beyond it."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from benchmarks import commandline, following
from benchmarks.load import PAUSE, TIMEOUT, Result, document, down, up
from benchmarks.probing import INTERVAL, WINDOW, Cost
from benchmarks.processes import Bench, Failure, Process, await_
from benchmarks.rollouts import measure as measure_rollout
from benchmarks.services import EACH
from benchmarks.services import measure as measure_services
from benchmarks.starting import measure

ROLLOUT_SHARE = 1.5
"""Of the least time an update can take."""
ENDPOINT_SECONDS = 0.1
"""From a failure until a watcher of endpoints has heard of it."""
COMMAND_SECONDS = 5.0
"""What a command may take to be answered by all taskgroups it is for."""
PROBE_SHARE = 1e-4
"""Of a core, per target: what probing may cost."""
START_SECONDS = 0.5
START_MB = 25.0
"""What the executor may take to start, beyond the program's own start; executor and warden each."""
BCS_SECONDS = 0.15
"""Processor time that the start of a command of `bcs` may take."""
COMMAND = "/command/application/bench/load"
COMMANDS = 3


def probe(case: str, count: int) -> Result:
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


def executor_start(case: str) -> Result:
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


def bcs_start(case: str) -> Result:
    found = {name: round(seconds, 4) for name, seconds in commandline.measure()._asdict().items()}
    print(", ".join(f"{name} {seconds:.3f} s" for name, seconds in found.items()), file=sys.stderr)
    commands = {name: seconds for name, seconds in found.items() if name != "python"}
    if slow := [f"{name} {seconds:.3f} s" for name, seconds in commands.items() if seconds > BCS_SECONDS]:
        raise Failure(f"more than {BCS_SECONDS:g} s of processor time: {', '.join(slow)}")
    slowest = max(commands.values())
    return Result(
        case=case, store="", agents=1, taskgroups=1, seconds=slowest, per_second=1 / slowest, rss_mb=0.0, parts=found
    )


def command(case: str, bench: Bench, taskgroups: int) -> Result:
    """Of three commands the slowest counts."""
    up(bench, taskgroups)
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
    down(bench)
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


def endpoints(case: str, bench: Bench, taskgroups: int) -> Result:
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


def rollout(case: str, bench: Bench, taskgroups: int) -> Result:
    found = measure_rollout(bench, document(taskgroups), taskgroups)
    words = f"{found.steps} steps, slowest start {found.slowest_start:.2f} s, {found.fewest} to {found.most} ready"
    print(words, file=sys.stderr)
    if found.seconds > ROLLOUT_SHARE * found.least:
        raise Failure(f"{found.seconds:.1f} s for {words}")
    if found.fewest < taskgroups:
        raise Failure(f"only {found.fewest} of {taskgroups} were ready at one moment")
    return Result(
        case=case,
        store=bench.store,
        agents=bench.agents,
        taskgroups=taskgroups,
        seconds=found.seconds,
        per_second=taskgroups / found.seconds,
        floor_seconds=found.least,
        ratio=found.seconds / found.least,
        rss_mb=bench.scheduler.peak_rss(),
    )


def long_list(case: str, bench: Bench, taskgroups: int) -> Result:
    up(bench, taskgroups)
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


def watched_launches(case: str, bench: Bench, taskgroups: int) -> Result:
    """`ratio`: of the time with watchers to that without, in the slowest mix of watchers and rates."""
    ratio, seconds = following.slowdown(bench, lambda: up(bench, taskgroups), lambda: down(bench))
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
