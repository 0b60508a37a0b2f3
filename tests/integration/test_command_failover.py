"""A scheduler is killed while a command runs in many taskgroups: the next one gets every answer, and nothing was done
twice. The embedded cluster with real executors and real processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.devprocess import claim_ports
from tests.integration.localmesos import LocalMesosProcess
from tests.integration.schedulerprocess import SchedulerProcess, document
from tests.waiting import wait_for

pytestmark = pytest.mark.rotating

TASKGROUPS, AGENTS, PORTS = 16, 2, 4
COMMAND = "/command/application/default/many"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalMesosProcess]:
    first, claim = claim_ports()
    ports = f"--ports={first}-{first + PORTS - 1}"
    process = LocalMesosProcess(tmp_path, f"--agents={AGENTS}", "--cpus=64", "--mem=65536", ports).start()
    yield process
    process.stop()
    claim.close()


@pytest.fixture
def scheduler(cluster: LocalMesosProcess, tmp_path: Path) -> Iterator[SchedulerProcess]:
    store = f"sqlite:///{tmp_path}/state.db"
    process = SchedulerProcess(tmp_path, store, cluster.url, executor__default="bcs").start()
    yield process
    process.stop()


def command(*argv: str) -> dict[str, Any]:
    target = {"kind": "Application", "namespace": "default", "name": "many"}
    return {"kind": "Command", "spec": {"commandTargetRef": target, "command": list(argv)}}


def statuses(scheduler: SchedulerProcess, told: dict[str, Any]) -> Counter[str]:
    found = scheduler.call("GET", COMMAND, id=told["commandID"])
    return Counter(group["status"] for group in found["status"]["taskgroups"])


def all_answered(scheduler: SchedulerProcess, told: dict[str, Any]) -> list[dict[str, Any]]:
    """Result of each taskgroup's task."""
    wait_for(lambda: not statuses(scheduler, told)["staging"] + statuses(scheduler, told)["running"], 60, "answers")
    groups = scheduler.call("GET", COMMAND, id=told["commandID"])["status"]["taskgroups"]
    assert [group for group in groups if group["status"] != "success"] == []
    assert len({group["messageId"] for group in groups}) == TASKGROUPS
    return [task["commInspect"] for group in groups for task in group["tasks"]]


def test_kill_9_while_a_command_runs_everywhere(scheduler: SchedulerProcess) -> None:
    scheduler.wait_ready().call(
        "POST", "/namespaces/default/applications", document("many", TASKGROUPS, ["/bin/sleep", "1000"])
    )
    scheduler.wait_running("many", TASKGROUPS)
    told = scheduler.call("POST", COMMAND, command("sh", "-c", "echo once >> ran; sleep 1; echo done"))
    scheduler.kill()
    scheduler.start().wait_leading()
    assert [result["stdout"] for result in all_answered(scheduler, told)] == ["done\n"] * TASKGROUPS
    counted = all_answered(scheduler, scheduler.call("POST", COMMAND, command("cat", "ran")))
    assert [result["stdout"] for result in counted] == ["once\n"] * TASKGROUPS
