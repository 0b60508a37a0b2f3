"""Much happens at once on a cluster that runs many taskgroups, while somebody else wants something small.

The parts of a case are in `parts` of its line: seconds unless the name says otherwise.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import requests

from benchmarks.load import APPLICATION, PAUSE, TIMEOUT, Result, await_running, document, of_parts
from benchmarks.processes import API, Bench, Failure, Tasks, await_

FAILURES = 200
SINGLE_FAILURES = 100
LOST_SHARE = 0.09
"""Of all agents: 900 of 10,000."""
OTHERS = "/namespaces/others/applications"
LOOK = 0.01
"""Seconds between the looks of another user at a launch."""
QUICK: dict[str, Any] = {
    "restartPolicy": {"policy": "Always", "interval": 0, "backoff": 0},
    "unreachablePolicy": {"replaceAfterSeconds": 1},
}
"""Parts of a document: taskgroups are replaced soon, whatever happens to them."""
LONG_TURN = 0.1
"""Seconds: the bound of a turn of the core."""


def storm(case: str, bench: Bench, taskgroups: int) -> Result:
    """Tasks fail one after the other, then many at once; a share of the agents is lost; the connection to Mesos breaks.
    In the last two, another user launches one taskgroup after the other."""
    _up(bench, taskgroups)
    parts: dict[str, float] = {}
    with _judged(bench, parts, "single"):
        parts["single_cpu_ms"] = _single_failures(bench, taskgroups)
    with _judged(bench, parts, "failures"):
        parts["failures"] = _failures(bench, taskgroups)
    with _judged(bench, parts, "lost"), Other(bench, "lost") as other:
        parts["lost"] = _lost_agents(bench, taskgroups, other)
    parts |= other.figures("lost_others")
    with _judged(bench, parts, "resubscription"), Other(bench, "again") as other:
        bench.control(action="disconnect_frameworks")
        other.await_launches(len(other.seconds) + 5)
    parts |= other.figures("resubscription_others")
    seconds = sum(parts[name] for name in ("failures", "lost"))
    return of_parts(case, bench, taskgroups, seconds, parts)


def fair(case: str, bench: Bench, taskgroups: int) -> Result:
    """A launch of all taskgroups as one application, while another user launches one taskgroup after the other."""
    parts: dict[str, float] = {}
    with Other(bench, "first") as other:
        other.await_launches(10)
    parts |= other.figures("alone")
    with _judged(bench, parts, "launch"), Other(bench, "beside") as other:
        began = time.monotonic()
        _up(bench, taskgroups, other)
        parts["launch"] = time.monotonic() - began
    parts |= other.figures("others")
    return of_parts(case, bench, taskgroups, parts["launch"], parts)


class Other:
    """A user in another namespace: launches one taskgroup after the other, from `with` to its end."""

    def __init__(self, bench: Bench, name: str) -> None:
        self._url = bench.scheduler.url + API + OTHERS
        self._name = name
        self._over = threading.Event()
        self._session = requests.Session()
        self._thread = threading.Thread(target=self._run, name="another user")
        self.seconds: list[float] = []
        """From POST to Running, of each launch."""
        self.refused = 0
        """Answers that were no success."""

    def __enter__(self) -> Other:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def await_launches(self, count: int) -> None:
        await_(f"{count} launches of another user", lambda: len(self.seconds) >= count, TIMEOUT, PAUSE)

    def figures(self, name: str) -> dict[str, float]:
        """Median and longest launch, their number, and the answers that were no success."""
        seconds = self.seconds or [float("nan")]
        return {
            f"{name}_median": median(seconds),
            f"{name}_most": max(seconds),
            f"{name}_count": len(self.seconds),
            f"{name}_refused": self.refused,
        }

    def _run(self) -> None:
        count = 0
        while not self._over.is_set():
            count += 1
            began = time.monotonic()
            self._launch(f"{self._name}-{count}")
            self.seconds.append(time.monotonic() - began)

    def _launch(self, name: str) -> None:
        body = document(1, name) | QUICK
        body["metadata"]["namespace"] = "others"
        while True:
            answer = self._session.post(self._url, json=body, timeout=TIMEOUT)
            if answer.status_code < 300 or answer.status_code == 409:
                break
            self.refused += 1
            time.sleep(LOOK)
        while True:
            answer = self._session.get(f"{self._url}/{name}/taskgroups", timeout=TIMEOUT)
            if answer.status_code == 200 and [group["Status"] for group in answer.json()["data"]] == ["Running"]:
                return
            time.sleep(LOOK)


def _single_failures(bench: Bench, taskgroups: int) -> float:
    """Milliseconds of processor time per failure, each replaced before the next."""
    began = bench.scheduler.cpu_seconds()
    for _ in range(SINGLE_FAILURES):
        bench.control(action="fail_tasks", fraction=1 / taskgroups)
        await_running_tasks(bench, taskgroups)
    return (bench.scheduler.cpu_seconds() - began) / SINGLE_FAILURES * 1e3


def _failures(bench: Bench, taskgroups: int) -> float:
    """Seconds until all that failed at once are replaced."""
    began = time.monotonic()
    failed = bench.control(action="fail_tasks", fraction=FAILURES / taskgroups)["tasks"]
    if not failed:
        raise Failure("no task failed")
    await_running_tasks(bench, taskgroups)
    return time.monotonic() - began


def _lost_agents(bench: Bench, taskgroups: int, other: Other) -> float:
    """Seconds until all taskgroups of the agents that were lost run elsewhere."""
    began = time.monotonic()
    for number in range(1, max(2, round(bench.agents * LOST_SHARE)) + 1):
        bench.control(action="kill_agent", agent=f"agent-{number}")
    if bench.tasks().running >= taskgroups:
        raise Failure("no task was lost")
    await_("the replacements", lambda: bench.tasks().running >= taskgroups + len(other.seconds), TIMEOUT, PAUSE)
    return time.monotonic() - began


def await_running_tasks(bench: Bench, count: int) -> None:
    await_(f"{count} running", lambda: bench.tasks() == Tasks(count, count, 0), TIMEOUT, PAUSE)


def _up(bench: Bench, taskgroups: int, other: Other | None = None) -> None:
    """Launches an application whose taskgroups are replaced soon, whatever happens to them."""
    bench.call("POST", APPLICATION, document(taskgroups) | QUICK)
    if other is None:
        await_running(bench, taskgroups)
        return
    await_("all running", lambda: _of_application(bench) >= taskgroups, TIMEOUT, PAUSE)


def _of_application(bench: Bench) -> int:
    """Running taskgroups of the large application, as the scheduler tells."""
    found = bench.call("GET", f"{APPLICATION}?limit=1000")
    return sum(app["RunningInstances"] for app in found)


@contextmanager
def _judged(bench: Bench, parts: dict[str, float], name: str) -> Iterator[None]:
    """Adds how many turns of the core were longer than LONG_TURN, and a bound of the longest."""
    before = _turns(bench)
    yield
    during = {bound: count - before.get(bound, 0.0) for bound, count in _turns(bench).items()}
    all_turns = max(during.values())
    parts[f"{name}_long_turns"] = all_turns - during[LONG_TURN]
    parts[f"{name}_longest_turn_under"] = min(bound for bound, count in during.items() if count == all_turns)


def _turns(bench: Bench) -> dict[float, float]:
    """Turns so far that took no longer than each bound of the histogram, in seconds."""
    text = bench.session.get(bench.scheduler.url + "/metrics", timeout=TIMEOUT).text
    prefix = 'bkbcs_scheduler_turn_duration_seconds_bucket{le="'
    lines = (line.removeprefix(prefix) for line in text.splitlines() if line.startswith(prefix))
    return {float(line.partition('"')[0]): float(line.rpartition(" ")[2]) for line in lines}
