"""Memory of a scheduler whose number of taskgroups stays the same while they come and go.

The parts of the case are in `parts` of its line: resident memory in MB after the first and the last round, the growth
per 10,000 replaced taskgroups in MB (by least squares over all rounds after the first), and what was replaced.
"""

from __future__ import annotations

import time

from benchmarks.load import APPLICATION, PAUSE, TIMEOUT, Result, document
from benchmarks.processes import Bench, Tasks, await_

APPLICATIONS = 20
WARM_ROUNDS = 10
"""Not counted: what is kept for a while (ended operations, events) fills up to its bounds."""
ROUNDS = 40
FAILING = 0.005
"""Share of all tasks that fail in a round: so few that none comes into the growing delays of a crash loop."""


def churn(case: str, bench: Bench, taskgroups: int) -> Result:
    """Rounds of: some tasks fail and are replaced, one application is scaled down and up again, another is
    deleted and created again."""
    each = taskgroups // APPLICATIONS
    for number in range(APPLICATIONS):
        _create(bench, f"app-{number}", each)
    total = each * APPLICATIONS
    _await_running(bench, total)
    for number in range(WARM_ROUNDS):
        _round(bench, total, each, number)
    began, cpu, replaced = time.monotonic(), bench.scheduler.cpu_seconds(), 0
    resident: list[tuple[int, float]] = [(0, bench.scheduler.rss())]
    for number in range(ROUNDS):
        replaced += _round(bench, total, each, number)
        resident.append((replaced, bench.scheduler.rss()))
    seconds = time.monotonic() - began
    parts = {
        "first_mb": resident[0][1],
        "last_mb": resident[-1][1],
        "mb_per_10000": slope(resident) * 10_000,
        "replaced": replaced,
    }
    return Result(
        case=case,
        store=bench.store,
        agents=bench.agents,
        taskgroups=total,
        seconds=seconds,
        per_second=replaced / seconds,
        cpu_us=(bench.scheduler.cpu_seconds() - cpu) * 1e6 / replaced,
        rss_mb=bench.scheduler.peak_rss(),
        parts={name: round(value, 4) for name, value in parts.items()},
    )


def _create(bench: Bench, name: str, taskgroups: int) -> None:
    policy = {"policy": "Always", "interval": 0, "backoff": 0}
    bench.call("POST", APPLICATION, document(taskgroups, name) | {"restartPolicy": policy})


def slope(points: list[tuple[int, float]]) -> float:
    """Of the straight line with the least sum of squared distances. At least two different first values are needed."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)


def _round(bench: Bench, total: int, each: int, number: int) -> int:
    """Taskgroups that were replaced or launched again."""
    failed = bench.control(action="fail_tasks", fraction=FAILING)["tasks"]
    _await_running(bench, total)
    name, fewer = f"app-{number % APPLICATIONS}", max(1, each // 2)
    bench.call("PUT", f"{APPLICATION}/{name}/scale/{fewer}")
    _await_running(bench, total - each + fewer)
    bench.call("PUT", f"{APPLICATION}/{name}/scale/{each}")
    _await_running(bench, total)
    other = f"app-{(number + 1) % APPLICATIONS}"
    bench.call("DELETE", f"{APPLICATION}/{other}")
    _await_running(bench, total - each)
    _create(bench, other, each)
    _await_running(bench, total)
    return len(failed) + 2 * each - fewer


def _await_running(bench: Bench, count: int) -> None:
    await_(f"{count} running", lambda: bench.tasks() == Tasks(count, count, 0) and _idle(bench), TIMEOUT, PAUSE)


def _idle(bench: Bench) -> bool:
    """No operation is under way, so the next one is not refused."""
    return not bench.call("GET", "/transactions/bench?status=INIT&limit=1")
