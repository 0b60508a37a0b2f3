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


GROUP = f"{APPS}/web/taskgroups"
ONE = "/namespaces/defaultGroup/taskgroups/" + taskgroup()["ID"]


@pytest.fixture
def text(bcs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BCS_OUTPUT")


@pytest.mark.usefixtures("text")
def test_a_taskgroup_is_waited_for_until_it_runs(server: StandIn, bcs: Any) -> None:
    unhealthy = taskgroup(Taskgroup=[{**taskgroup()["Taskgroup"][0], "Healthy": False}])
    looks = [ok([taskgroup(Status="Starting"), taskgroup(1)]), ok([unhealthy]), ok([taskgroup()])]
    server.on("GET", GROUP, *looks)
    assert bcs("wait", "pod/web-0", "--for=condition=Ready").out == "taskgroup/web-0 running\n"
    assert len(server.seen) == len(looks)
    server.on("GET", GROUP, ok([taskgroup(), taskgroup(1)]))
    assert bcs("wait", "po", "web-0", "web-1").out == "taskgroup/web-0 running\ntaskgroup/web-1 running\n"
    server.on("GET", GROUP, ok([taskgroup(Status="Finish", NotReplaced="finished")]))
    assert bcs("wait", "pod/web-0").out == "taskgroup/web-0 finished\n"


@pytest.mark.usefixtures("text")
def test_a_taskgroup_that_does_not_run_ends_the_wait(server: StandIn, bcs: Any) -> None:
    server.on("GET", GROUP, ok([broken()]))
    result = bcs("wait", "pod/web-0")
    assert result.code == 1 and f"taskgroup web-0 failed: {WHY}" in result.err
    server.on("GET", GROUP, ok([taskgroup(Status="Starting")]))
    result = bcs("wait", "pod/web-0", "tg/web-0", "--timeout", "0.1")
    assert result.code == 4 and "web-0: not done" in result.err
    assert bcs("wait", "pod/web-4").code == 3
    for words in (("svc/web",), ("pod/web-0", "--for=soon"), ("pod/web-0", "--for=condition=Initialized")):
        assert bcs("wait", *words).code == 2


@pytest.mark.usefixtures("text")
def test_a_taskgroup_is_waited_for_until_it_has_ended(server: StandIn, bcs: Any) -> None:
    failed = {**broken(), "NotReplaced": "never"}
    failed["Taskgroup"][0]["ExitCode"] = 3
    server.on("GET", GROUP, ok([broken()]), ok([failed]))
    result = bcs("wait", "pod/web-0", "--for", "finished", "--propagate-exit-code")
    assert (result.code, result.out.startswith("taskgroup/web-0 failed")) == (3, True)
    server.on("GET", GROUP, ok([taskgroup(Status="Finish", NotReplaced="finished"), failed | {"Name": "web-1"}]))
    result = bcs("wait", "pods", "web-0", "web-1", "--for=condition=complete")
    assert result.code == 1
    assert result.out.startswith("taskgroup/web-0 finished (exit code 0)\ntaskgroup/web-1 failed")


@pytest.mark.usefixtures("text")
def test_the_present_taskgroup_of_a_name_is_waited_for_until_it_is_gone(server: StandIn, bcs: Any) -> None:
    server.on("GET", GROUP, ok([taskgroup()]))
    server.on("GET", ONE, ok(taskgroup()), MISSING)
    assert bcs("wait", "pod/web-0", "--for=delete").out == "taskgroup/web-0 deleted\n"
    assert bcs("wait", "pod/web-7", "--for=delete").out == "taskgroup/web-7 deleted\n"


@pytest.mark.usefixtures("text")
def test_chosen_objects_are_waited_for(server: StandIn, bcs: Any) -> None:
    server.on("GET", "/taskgroups", ok([taskgroup(), taskgroup(1, Status="Failed")]))
    server.on("GET", ONE, ok(taskgroup()))
    words = ("pods", "-l", "app=web", "--field-selector", "status.phase!=Failed", "--for=condition=ready")
    assert bcs("wait", *words).out == "taskgroup/web-0 running\n"
    assert server.seen[0].query["labelSelector"] == "app=web"
    server.on("GET", APPS, ok([application()]))
    server.on("GET", f"{APPS}/web", ok(application()))
    assert bcs("wait", "apps", "-l", "app=web").out == "application/web running\n"
    assert bcs("wait", "apps", "--field-selector", "metadata.name=none").code == 3
    server.on("GET", "/namespaces/defaultGroup/services", ok([{"metadata": {"name": "web"}}]))
    assert bcs("wait", "svc", "-l", "a=b").code == bcs("wait", "app/web", "-l", "a=b").code == 2
