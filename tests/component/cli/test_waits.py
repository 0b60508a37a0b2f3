"""`--wait` of deployments and daemonsets: success, failures with their reasons, --stable, and time-outs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.component.cli.standin import APPS, StandIn, application, ok, taskgroup, write
from tests.component.cli.test_rollout import ALL as DEPLOYMENTS
from tests.component.cli.test_rollout import BODY, FRONT, MISSING, STARTED, deployment

DAEMONSETS = "/namespaces/defaultGroup/daemonsets"
PROBE = f"{DAEMONSETS}/probe"
DAEMONSET = {"kind": "daemonset", "metadata": {"name": "probe"}, "spec": {"template": {"spec": {}}}}
WHY = "cannot start /no/such/program: No such file or directory"


def daemonset(ready: int = 2, **changes: Any) -> dict[str, Any]:
    counts = {"desired": 2, "current": 2, "ready": ready, "updated": 2, "unavailable": 2 - ready}
    status = "Running" if ready == 2 else "Starting"
    return {
        "Name": "probe", "RunAs": "defaultGroup", "Status": status, "message": "", "stuck": False, "counts": counts,
        "Pods": {}, **changes,
    }  # fmt: skip


def broken(**changes: Any) -> dict[str, Any]:
    """A taskgroup whose program cannot be started."""
    group = taskgroup(Status="Failed", Message=WHY, **changes)
    return {**group, "Taskgroup": [{**group["Taskgroup"][0], "Status": "Failed", "Message": WHY}]}


class Workload:
    """A deployment or daemonset that is created, and then looked at."""

    def __init__(self, server: StandIn, kind: str, folder: Path) -> None:
        self._server, self.kind = server, kind
        self.name = "front" if kind == "deployment" else "probe"
        self._one = FRONT if kind == "deployment" else PROBE
        self.file = write(folder, BODY if kind == "deployment" else DAEMONSET)
        server.on("POST", DEPLOYMENTS if kind == "deployment" else DAEMONSETS, ok({**STARTED, "revision": 2}, 202))

    def becomes(self, *running: bool) -> None:
        looks = [
            ok(deployment("Running" if done else "Deploying", 3 if done else 1, resourceVersion=str(number)))
            if self.kind == "deployment"
            else ok(daemonset(2 if done else 1))
            for number, done in enumerate(running)
        ]
        self._server.on("GET", self._one, MISSING, *looks)
        self._server.on("GET", f"{APPS}/{self.name}", ok(application(self.name, running=1)))

    def has(self, *lists: list[dict[str, Any]]) -> None:
        self._server.on("GET", f"{APPS}/{self.name}/taskgroups", *map(ok, lists))


@pytest.fixture(params=["deployment", "daemonset"])
def workload(request: pytest.FixtureRequest, server: StandIn, tmp_path: Path) -> Workload:
    return Workload(server, request.param, tmp_path)


def test_a_wait_ends_when_the_workload_runs(bcs: Any, workload: Workload) -> None:
    workload.becomes(False, False, True)
    workload.has([taskgroup()])
    result = bcs("apply", "-f", workload.file, "--wait", "-o", "text")
    assert result.code == 0, result.err
    assert result.out.splitlines()[-1].startswith(f"{workload.kind}/{workload.name} running (")


def test_a_failure_ends_the_wait_with_its_reason(bcs: Any, workload: Workload) -> None:
    """A client that did wait would need all of its time."""
    workload.becomes(False)
    workload.has([taskgroup()], [broken()])
    result = bcs("apply", "-f", workload.file, "--wait", "--timeout", "60s")
    assert result.code == 1
    assert f"taskgroup web-0 failed: {WHY}" in result.err
    assert f"`bcs logs {workload.name}`" in result.err


def test_a_crash_after_it_ran_ends_a_stable_wait(server: StandIn, bcs: Any, workload: Workload) -> None:
    workload.becomes(True)
    workload.has([taskgroup()], [taskgroup(ReschededTimes=1)])
    event = {"id": "1", "name": "0.web", "message": "exit code 3", "reason": "TaskGroupFailed", "time": 1.7e9}
    server.on("GET", "/namespaces/defaultGroup/events", ok([event]))
    result = bcs("apply", "-f", workload.file, "--wait", "--stable", "30s", "--timeout", "60s")
    assert result.code == 1
    assert "taskgroup web-0 failed and was replaced: exit code 3" in result.err


def test_what_stays_up_is_stable(server: StandIn, bcs: Any, workload: Workload) -> None:
    """No request waits for a change meanwhile: a server would answer after 30 seconds, because nothing changes."""
    workload.becomes(True)
    workload.has([taskgroup()])
    assert bcs("apply", "-f", workload.file, "--wait", "--stable", "200ms", "--timeout", "60s").code == 0
    assert not [request for request in server.seen if "watch" in request.query]


def test_a_time_out_says_how_far_it_is(bcs: Any, workload: Workload) -> None:
    workload.becomes(False)
    workload.has([taskgroup()])
    result = bcs("apply", "-f", workload.file, "--wait", "--timeout", "0.3s")
    assert result.code == 4
    assert f"{workload.name}: not done after 0.3s: " in result.err
    assert ("1 of 2 ready" if workload.kind == "daemonset" else "Deploying") in result.err
