"""What the cases share: a line of results, the application they launch, and bringing it up and down."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.processes import Bench, Tasks, await_

APPLICATION = "/namespaces/bench/applications"
TIMEOUT = 300.0
PAUSE = 0.02
"""Seconds between looks at the cluster."""


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
    parts: dict[str, float] | None = None
    """What the case consists of (benchmarks.steady), for the JSON line."""
    source: str | None = None
    """Name of the other checkout whose scheduler was measured; None = this one."""
    missed: str = ""
    """The bounds that the case has missed, in words; empty = none."""

    def line(self) -> dict[str, Any]:
        return asdict(self)


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


def up(bench: Bench, taskgroups: int, name: str = "load") -> None:
    bench.call("POST", APPLICATION, document(taskgroups, name))
    await_running(bench, taskgroups, name)


def await_running(bench: Bench, taskgroups: int, name: str = "load", shown: int | None = None) -> None:
    """Until all run, and what the scheduler heard of them is durable and acknowledged. The cluster is asked, so that
    the scheduler has nothing to do but its work: an acknowledgement leaves only after the status is durable."""
    await_(f"{taskgroups} running", lambda: bench.tasks() == Tasks(taskgroups, taskgroups, 0), TIMEOUT, PAUSE)
    await_("status Running", lambda: _shown_running(bench, shown or taskgroups, name), TIMEOUT, PAUSE)


def _shown_running(bench: Bench, taskgroups: int, name: str) -> bool:
    """Pages of applications name no taskgroups, so looking costs the same however many there are."""
    found = bench.call("GET", f"{APPLICATION}?limit=1000")
    return any(a["Name"] == name and a["RunningInstances"] == taskgroups and a["Status"] == "Running" for a in found)


def down(bench: Bench, name: str = "load") -> None:
    bench.call("DELETE", f"{APPLICATION}/{name}")
    await_("ends of all tasks", lambda: bench.tasks() == Tasks(0, 0, 0), TIMEOUT, PAUSE)
    await_("deletion", lambda: _gone(bench, name), TIMEOUT, PAUSE)


def _gone(bench: Bench, name: str) -> bool:
    answer = bench.session.get(f"{bench.scheduler.url}/v4/scheduler/mesos{APPLICATION}/{name}", timeout=60)
    return answer.status_code == 404 and bench.metric("bkbcs_scheduler_queue_depth", queue="commit") == 0


def of_parts(
    case: str, bench: Bench, taskgroups: int, seconds: float, parts: dict[str, float], **fields: Any
) -> Result:
    """The line of a case that consists of parts. `fields`: further ones of the line."""
    return Result(
        case=case,
        store=bench.store,
        agents=bench.agents,
        taskgroups=taskgroups,
        seconds=seconds,
        per_second=0.0,
        parts={name: round(value, 4) for name, value in parts.items()},
        **{"rss_mb": bench.scheduler.peak_rss(), **fields},
    )
