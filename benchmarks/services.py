"""How fast a watcher hears of a change of an endpoint, and what it costs: N services of 10 taskgroups each.

A watcher follows all endpoints. One taskgroup after the other fails; a change counts from the moment the cluster is
told until the watcher has the new endpoint: status update, commit in the store, stream. Each failure changes one
endpoint twice: the taskgroup goes, and its replacement runs.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import requests

from benchmarks.processes import API, Bench, Failure, Tasks, await_

EACH = 10
"""Taskgroups behind each service."""
FAILURES = 200
TIMEOUT = 300.0
NAMESPACE = "/namespaces/bench"


class Measured(NamedTuple):
    """Seconds; endpoint records written for each change of a member."""

    median: float
    worst: float
    writes_per_change: float


class Watcher:
    """Follows all endpoints in a thread."""

    def __init__(self, url: str) -> None:
        self._answer = requests.get(f"{url}{API}{NAMESPACE}/endpoints/watch", stream=True, timeout=60)
        self._condition = threading.Condition()
        self.ready: dict[str, set[str]] = {}
        """Taskgroups that are, by service."""
        self.synced = False
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        rest = b""
        with contextlib.suppress(requests.RequestException, OSError, ValueError, AttributeError):  # closed meanwhile
            for piece in self._answer.iter_content(chunk_size=None):
                *blocks, rest = (rest + piece).split(b"\n\n")
                for block in blocks:
                    self._take(block)

    def _take(self, frame: bytes) -> None:
        event, _, data = frame.partition(b"\ndata: ")
        if event.endswith(b"event: endpoint"):
            self._put(json.loads(data))
        elif event.endswith(b"event: synced"):
            self.synced = True

    def _put(self, endpoint: Any) -> None:
        ready = {member["targetRef"]["id"] for member in endpoint["eps"] if member["ready"]}
        with self._condition:
            self.ready[endpoint["metadata"]["name"]] = ready
            self._condition.notify_all()

    def wait(self, service: str, condition: Callable[[set[str]], bool]) -> float:
        """The monotonic time at which the ready ones of a service are so."""
        with self._condition:
            if not self._condition.wait_for(lambda: condition(self.ready[service]), 30.0):
                raise Failure(f"the watcher did not hear of a change of {service}")
            return time.monotonic()

    def close(self) -> None:
        self._answer.close()


def measure(bench: Bench, services: int, document: Callable[[int, str], dict[str, Any]]) -> Measured:
    """`document` makes an application of so many taskgroups with this name. Raises Failure."""
    _set_up(bench, services, document)
    watcher = Watcher(bench.scheduler.url)
    try:
        await_("all endpoints", lambda: watcher.synced and len(watcher.ready) == services, TIMEOUT)
        await_("ready members", lambda: all(len(r) == EACH for r in list(watcher.ready.values())), TIMEOUT)
        written = _written(bench)
        times = [_fail_one(bench, watcher, f"s{number % services}") for number in range(FAILURES)]
        written = _written(bench) - written
    finally:
        watcher.close()
    return Measured(statistics.median(times), max(times), written / (2 * FAILURES))


def _set_up(bench: Bench, services: int, document: Callable[[int, str], dict[str, Any]]) -> None:
    for number in range(services):
        name = f"s{number}"
        service = {
            "kind": "service",
            "metadata": {"name": name},
            "spec": {"selector": {"app": name}, "ports": [{"name": "http"}]},
        }
        application = document(EACH, name)
        application["metadata"]["labels"] = {"app": name}
        bench.call("POST", f"{NAMESPACE}/services", service)
        bench.call("POST", f"{NAMESPACE}/applications", application)
    taskgroups = services * EACH
    await_("all running", lambda: bench.tasks() == Tasks(taskgroups, taskgroups, 0), TIMEOUT)


def _fail_one(bench: Bench, watcher: Watcher, service: str) -> float:
    """Seconds until the watcher has heard; returns when the replacement is ready too."""
    victim = min(watcher.ready[service])
    began = time.monotonic()
    bench.control(action="fail_tasks", taskgroup=victim)
    heard = watcher.wait(service, lambda ready: victim not in ready)
    watcher.wait(service, lambda ready: len(ready) == EACH)
    return heard - began


def _written(bench: Bench) -> float:
    return bench.metric("bkbcs_scheduler_committed_records_total", kind="endpoint")
