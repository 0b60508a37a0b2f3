"""A rolling update of a deployment, against the least time it can take.

An update of N taskgroups with `SURGE` new ones at a time and none missing takes ceil(N / SURGE) steps, and no step is
shorter than the slowest start in it. The start is what the cluster takes, from the moment a taskgroup is placed until
it is known to run; it is read from the events of the new taskgroups.
"""

from __future__ import annotations

import math
import time
from datetime import datetime
from typing import Any, NamedTuple

from benchmarks.processes import Bench, Failure, await_

SURGE = 20
START_DELAY = 0.5
"""Seconds a synthetic task takes to start."""
DEPLOYMENT = "/namespaces/bench/deployments"
TIMEOUT = 300.0
PAUSE = 0.02


class Rollout(NamedTuple):
    """Seconds: of the update, and of the slowest start in it."""

    seconds: float
    steps: int
    slowest_start: float
    fewest: int
    """Taskgroups that ran at the worst moment that was seen."""
    most: int

    @property
    def least(self) -> float:
        return self.steps * self.slowest_start


def measure(bench: Bench, application: dict[str, Any], taskgroups: int) -> Rollout:
    """`application`: the document whose template the deployment has."""
    bench.call("POST", DEPLOYMENT, _document(application, "before"))
    await_("the deployment", lambda: _stands(bench, taskgroups, 1), TIMEOUT, PAUSE)
    began = time.monotonic()
    bench.call("PUT", DEPLOYMENT, _document(application, "after"))
    counts: list[int] = []
    await_("the update", lambda: _stands(bench, taskgroups, 2, counts), TIMEOUT, PAUSE)
    seconds = time.monotonic() - began
    groups = bench.call("GET", f"{DEPLOYMENT}/load/taskgroups")
    if len(groups) != taskgroups:
        raise Failure(f"{len(groups)} taskgroups after the update, of {taskgroups}")
    slowest = _slowest_start(bench, {group["ID"] for group in groups})
    return Rollout(seconds, math.ceil(taskgroups / SURGE), slowest, min(counts), max(counts))


def _slowest_start(bench: Bench, groups: set[str]) -> float:
    """From TaskGroupPlaced to TaskGroupRunning, as the events of these taskgroups tell."""
    moments: dict[str, dict[str, datetime]] = {group: {} for group in groups}
    wanted = "kind=taskgroup&reason=TaskGroupPlaced,TaskGroupRunning&limit=100000"
    for event in bench.call("GET", f"/namespaces/bench/events?{wanted}"):
        if event["name"] in moments:
            moments[event["name"]][event["reason"]] = datetime.fromisoformat(event["time"])
    return max((found["TaskGroupRunning"] - found["TaskGroupPlaced"]).total_seconds() for found in moments.values())


def _stands(bench: Bench, taskgroups: int, revision: int, counts: list[int] | None = None) -> bool:
    found = bench.call("GET", f"{DEPLOYMENT}/load")
    if counts is not None:
        counts.append(found["counts"]["ready"])
    at_rest = found["status"] == "Running" and found["revision"] == revision
    return bool(at_rest and found["counts"]["ready"] == taskgroups)


def _document(application: dict[str, Any], label: str) -> dict[str, Any]:
    template = {**application["spec"]["template"], "metadata": {"labels": {"version": label}}}
    rolling = {"maxUnavailable": 0, "maxSurge": SURGE, "rollingOrder": "CreateFirst"}
    strategy = {"type": "RollingUpdate", "rollingupdate": rolling}
    spec = {"instance": application["spec"]["instance"], "strategy": strategy, "template": template}
    return {**application, "kind": "deployment", "spec": spec}
