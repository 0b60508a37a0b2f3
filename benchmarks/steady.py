"""What a cluster that already runs many taskgroups costs for each further thing, and how its leader is replaced.

The parts of a case are in `parts` of its line: seconds unless the name says otherwise, medians of ROUNDS.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import Any

import requests

from benchmarks.floor import load_floor_seconds
from benchmarks.load import APPLICATION, PAUSE, Result, await_running, document, of_parts, up
from benchmarks.processes import API, Bench, Failure, await_

ROUNDS = 5
PAGE = 100
SESSION = 4.0
"""Seconds until the store takes a killed leader for dead."""
READS = 50
READING = 30.0
"""Seconds of reading after which no further read is begun."""


def steady(case: str, bench: Bench, taskgroups: int) -> Result:
    """One launch, one scale, one failure, one page of a list and one scrape beside so many running taskgroups."""
    up(bench, taskgroups)
    cpu = bench.scheduler.cpu_seconds()
    count = iter(range(1_000_000))
    parts = {
        "launch": _median(lambda: _launch(bench, f"one-{next(count)}")),
        "scale": _median(lambda: _scale(bench, taskgroups + 1 + next(count) % 2)),
        "failure": _median(lambda: _failure(bench)),
        "page": _median(lambda: _get(bench, f"{API}/taskgroups?limit={PAGE}")),
        "scrape": _median(lambda: _get(bench, "/metrics")),
    }
    used = bench.scheduler.cpu_seconds() - cpu
    parts["scrape_mb"] = len(bench.session.get(bench.scheduler.url + "/metrics", timeout=60).content) / 1e6
    return of_parts(
        case, bench, taskgroups, sum(parts[name] for name in parts if name != "scrape_mb"), parts, cpu_us=used * 1e6
    )


def restart(case: str, bench: Bench, taskgroups: int) -> Result:
    """kill -9 of the only scheduler, and a new one: until it leads and is connected, and until a launch runs. On
    ZooKeeper it waits until the session of the dead one has run out: up to SESSION seconds."""
    up(bench, taskgroups)
    bench.scheduler.kill()
    began = time.monotonic()
    bench.start_scheduler()
    await_("the lead", lambda: leads(bench.scheduler.url), 300.0, PAUSE)
    parts = {"leads": time.monotonic() - began}
    _launch(bench, "first")
    parts["first_launch"] = time.monotonic() - began
    await_running(bench, taskgroups + 1, "load", shown=taskgroups)
    result = of_parts(case, bench, taskgroups, parts["leads"], parts, cpu_us=bench.scheduler.cpu_seconds() * 1e6)
    floor = load_floor_seconds(taskgroups, bench.agents, bench.store)
    return replace(result, floor_seconds=floor, ratio=parts["leads"] / floor)


def takeover(case: str, bench: Bench, taskgroups: int) -> Result:
    """kill -9 of the leader beside a standby. `seconds` and parts count from SESSION seconds after the kill. The
    session of the dead leader began with its last sign of life before that, so a quick take-over counts less than
    nothing."""
    up(bench, taskgroups)
    standby = bench.another_scheduler()
    await_("a standby that follows", lambda: _counted(standby.url) >= taskgroups, 300.0, 0.2)
    killed, leader = time.monotonic(), bench.scheduler
    leader.kill()
    bench.scheduler = standby
    await_("the lead", lambda: leads(standby.url), 300.0, PAUSE)
    parts = {"ready": time.monotonic() - killed - SESSION}
    _launch(bench, "first")
    parts["first_launch"] = time.monotonic() - killed - SESSION
    return of_parts(case, bench, taskgroups, parts["ready"], parts, cpu_us=standby.cpu_seconds() * 1e6)


def standby(case: str, bench: Bench, taskgroups: int) -> Result:
    """Reads at a standby: their latency, the time until a change is seen there, and the memory of both processes."""
    up(bench, taskgroups)
    other = bench.another_scheduler()
    await_("a standby that follows", lambda: _counted(other.url) >= taskgroups, 300.0, 0.2)
    path = f"{other.url}{API}{APPLICATION}?limit=1"
    reads: list[float] = []
    while len(reads) < READS and sum(reads) < READING:
        reads.append(_elapsed(lambda: bench.session.get(path, timeout=60)))
    lags = []
    for number in range(ROUNDS):
        bench.call("POST", APPLICATION, document(1, f"seen-{number}"))
        wanted = f"{other.url}{API}{APPLICATION}/seen-{number}"
        lags.append(_elapsed(lambda url=wanted: await_("the change", lambda: _there(bench, url), 60.0, 0.005, 1.0)))  # type: ignore[misc]
    parts = {
        "read": median(reads),
        "read_most": max(reads),
        "reads": len(reads),
        "lag": median(lags),
        "lag_most": max(lags),
        "standby_rss_mb": other.peak_rss(),
        "leader_rss_mb": bench.scheduler.peak_rss(),
    }
    return of_parts(
        case, bench, taskgroups, parts["read"], parts, cpu_us=other.cpu_seconds() * 1e6, rss_mb=other.peak_rss()
    )


def leads(url: str) -> bool:
    """The process leads, is connected to Mesos and ready: a standby that is ready is not meant."""
    try:
        answer = requests.get(url + "/readyz", timeout=10)
        role = requests.get(url + "/healthz", timeout=10).json()["current_role"]
    except requests.ConnectionError:
        return False
    connected = any(check["name"] == "mesos" and check["ok"] for check in answer.json()["checks"])
    return answer.status_code == 200 and role == "master" and connected


def _counted(url: str) -> int:
    """Taskgroups of the application that a process knows of."""
    answer = requests.get(f"{url}{API}{APPLICATION}?limit=1", timeout=60)
    data = answer.json()["data"] if answer.status_code == 200 else []
    return int(data[0]["RunningInstances"]) if data else 0


def _there(bench: Bench, url: str) -> bool:
    return bench.session.get(url, timeout=60).status_code == 200


def _launch(bench: Bench, name: str) -> None:
    bench.call("POST", APPLICATION, document(1, name))
    _await_status(bench, name, 1)


def _scale(bench: Bench, target: int) -> None:
    bench.call("PUT", f"{APPLICATION}/load/scale/{target}")
    _await_status(bench, "load", target)


def _failure(bench: Bench) -> None:
    """Until the failed taskgroup of an application of one has been replaced."""
    (group,) = bench.call("GET", f"{APPLICATION}/one-0/taskgroups")
    bench.control(action="fail_tasks", taskgroup=group["ID"])

    def replaced() -> bool:
        found: list[dict[str, Any]] = bench.call("GET", f"{APPLICATION}/one-0/taskgroups")
        (now,) = found or [{}]
        return bool(now) and now["Status"] == "Running" and now["ReschededTimes"] > group["ReschededTimes"]

    await_("the replacement", replaced, 60.0, PAUSE)


def _await_status(bench: Bench, name: str, running: int) -> None:
    """Pages of applications name no taskgroups, so looking costs the same however many there are."""

    def settled() -> bool:
        found = bench.call("GET", f"{APPLICATION}?limit=1000")
        return any(
            app["Name"] == name and app["RunningInstances"] == running and app["Status"] == "Running" for app in found
        )

    await_(f"{name} Running", settled, 300.0, PAUSE)


def _get(bench: Bench, path: str) -> None:
    answer = bench.session.get(bench.scheduler.url + path, timeout=60)
    if answer.status_code != 200:
        raise Failure(f"GET {path}: {answer.status_code}")


def _median(action: Callable[[], object]) -> float:
    return median(_elapsed(action) for _ in range(ROUNDS))


def _elapsed(action: Callable[[], object]) -> float:
    began = time.monotonic()
    action()
    return time.monotonic() - began
