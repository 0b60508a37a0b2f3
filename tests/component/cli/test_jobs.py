"""Jobs: `bcs run --restart`, `bcs wait --for finished`, and what `bcs describe` says about the contents of a workload.
`bcs` works with a real API over a bare core."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from bcs_scheduler.core.interface.cluster_manager import StatusUpdate, TaskDetail
from tests.component.apiserver import serving
from tests.unit.api_support import CoreGateway
from tests.unit.api_support import document as application
from transactions.rules.task_states import TaskState

KEY = "shop/report"


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Iterator[CoreGateway]:
    gateway = CoreGateway()
    gateway.connect()
    gateway.offer()
    with capture_logs(), serving(gateway) as api:
        monkeypatch.setenv("BCS_SERVER", api.url)
        monkeypatch.setenv("BCS_NAMESPACE", "shop")
        yield gateway


def end(gateway: CoreGateway, index: int, state: str, code: int | None) -> None:
    """Ends the task of one taskgroup. `code`: None = the executor does not know it."""
    (group,) = (group for group in gateway.core.state.groups_of(KEY).values() if group.index == index)
    detail = None if code is None else TaskDetail(exit_code=code)
    (task,) = group.tasks
    gateway.feed(
        StatusUpdate(
            task_id=task.id,
            state=TaskState(state),
            agent_id=group.agent_id,
            executor_id=group.id,
            uuid=b"u",
            detail=detail,
            message="" if code is None else f"exit code {code}",
        )
    )


def run_job(bcs: Any, gateway: CoreGateway, instances: int = 1) -> None:
    created = bcs("run", "--name", "report", "--restart", "Never", "--instances", str(instances), "--", "true")
    assert created.code == 0, created.err
    gateway.report("RUNNING", KEY)


def test_a_job_that_succeeds(bcs: Any, gateway: CoreGateway) -> None:
    run_job(bcs, gateway)
    end(gateway, 0, "FINISHED", 0)
    said = bcs("wait", "report", "--for", "finished", "-o", "text")
    assert (said.code, said.out) == (0, "application/report finished (exit code 0)\n")
    assert bcs("wait", "report", "--for=condition=complete", "--propagate-exit-code").code == 0


@pytest.mark.parametrize(("code", "propagated"), [(3, 3), (-9, 137), (None, 1)])
def test_a_job_that_fails(bcs: Any, gateway: CoreGateway, code: int | None, propagated: int) -> None:
    run_job(bcs, gateway)
    end(gateway, 0, "FAILED", code)
    said = bcs("wait", "report", "--for", "finished")
    assert said.code == 1
    assert json.loads(said.out) == [
        {"kind": "application", "name": "report", "done": "failed", "exitCode": code, "failed": ["report-0"]}
    ]
    assert bcs("wait", "report", "--for", "finished", "--propagate-exit-code").code == propagated
    words = bcs("wait", "report", "--for", "finished", "-o", "text").out
    assert words.startswith("application/report failed (report-0: ")
    assert code is None or f"exit code {code}" in words


def test_all_taskgroups_of_a_job_are_waited_for(bcs: Any, gateway: CoreGateway) -> None:
    run_job(bcs, gateway, instances=3)
    end(gateway, 0, "FINISHED", 0)
    end(gateway, 1, "FAILED", 4)
    waiting = bcs("wait", "report", "--for", "finished", "--timeout", "200ms")
    assert waiting.code == 4 and "Abnormal" in waiting.err, "report-2 still runs"
    end(gateway, 2, "FAILED", 5)
    said = bcs("wait", "report", "--for", "finished", "--propagate-exit-code", "-o", "text")
    assert (said.code, said.out) == (4, "application/report failed (report-1: exit code 4, and 1 more taskgroup)\n")


def test_a_job_that_is_tried_again_has_not_ended(bcs: Any, gateway: CoreGateway) -> None:
    assert bcs("run", "--name", "report", "--restart", "on-failure", "--", "true").code == 0
    gateway.report("RUNNING", KEY)
    end(gateway, 0, "FAILED", 3)
    assert bcs("wait", "report", "--for", "finished", "--timeout", "200ms").code == 4


@pytest.mark.parametrize(
    ("given", "policy"), [("never", "Never"), ("no", "Never"), ("unless-stopped", "Always"), ("OnFailure", "OnFailure")]
)
def test_policies_have_the_names_of_kubectl_and_docker(bcs: Any, given: str, policy: str) -> None:
    shown = json.loads(bcs("run", "--restart", given, "--dry-run", "-o", "json", "--", "true").out)
    assert shown["restartPolicy"] == {"policy": policy}


def test_what_cannot_be_waited_for(bcs: Any, gateway: CoreGateway, tmp_path: Path) -> None:
    run_job(bcs, gateway)
    refused = bcs("wait", "report", "--propagate-exit-code")
    assert refused.code == 2 and "needs --for finished" in refused.err
    assert bcs("run", "-i", "--restart", "Always", "--", "cat").code == 2
    assert bcs("scale", "report", "0").code == 0
    gateway.report("KILLED", KEY)
    none = bcs("wait", "report", "--for", "finished")
    assert none.code == 1 and "0 taskgroups" in none.err
    file = tmp_path / "front.json"
    file.write_text(json.dumps({**application("front", instance=1), "kind": "deployment"}))
    assert bcs("apply", "-f", str(file)).code == 0
    deployment = bcs("wait", "front", "--for", "finished")
    assert deployment.code == 2 and "front is a deployment" in deployment.err
    assert bcs("wait", "nowhere", "--for", "finished").code == 3


def test_describe_shows_what_runs(bcs: Any, gateway: CoreGateway, tmp_path: Path) -> None:
    check = {"type": "HTTP", "intervalSeconds": 5, "timeoutSeconds": 1, "http": {"portName": "http", "path": "/up"}}
    described = {
        "web": application("web", image="nginx:1.27", healthChecks=[check]),
        "front": {**application("front", args=["--fast"]), "kind": "deployment"},
    }
    for name, body in described.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(body))
        assert bcs("apply", "-f", str(tmp_path / f"{name}.json")).code == 0
    (version,) = gateway.core.state.versions_of("shop/web")
    web = bcs("describe", "app", "web").out
    lines = [" ".join(line.split()) for line in web.splitlines()]
    for expected in (
        "Task 0",
        "Image: nginx:1.27",
        "Command: server",
        "Resources: 0.1 cores, 32 MB memory",
        "Ports: http",
        "Check: HTTP /up on port http, every 5s",
        "Restart: OnFailure",
    ):
        assert expected in lines, web
    assert any(line.startswith(f"Version: {version}") for line in lines), web
    assert json.loads(bcs("describe", "app", "web", "-o", "json").out)["version"]["Name"] == version
    front = bcs("describe", "deploy", "front").out
    assert "  Command:    server --fast" in front, front


def test_the_address_of_a_taskgroup(bcs: Any, gateway: CoreGateway, tmp_path: Path) -> None:
    (tmp_path / "web.json").write_text(json.dumps(application("web", instance=1)))
    assert bcs("apply", "-f", str(tmp_path / "web.json")).code == 0
    (group,) = gateway.core.state.groups_of("shop/web").values()
    address = f"{group.agent_ip}:{group.tasks[0].ports[0].host_port}"
    head, row = bcs("get", "tg", "web", "-o", "wide").out.splitlines()
    assert row[head.index("ADDRESS") :].split()[0] == address
    assert f"Address:      http {address}" in bcs("describe", "tg", "web-0").out
    assert bcs("get", "tg", "web-0", "-o", "jsonpath={..Address}").out == f"{address}\n"
