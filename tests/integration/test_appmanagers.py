"""An application manager of another package beside a real scheduler, which is killed meanwhile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import yaml

from bcs_scheduler.local.cluster import LocalCluster
from bcs_scheduler.local.settings import ClusterSettings
from tests.integration.schedulerprocess import SchedulerProcess
from tests.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.rotating]

SPOOL = Path(__file__).parents[1] / "component" / "appmanager_spool"
PATIENCE = 60.0


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the manager was installed by pip."""
    folder, source = tmp_path_factory.mktemp("packages"), tmp_path_factory.mktemp("source") / "appmanager"
    copytree(SPOOL, source)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*command, "--target", str(folder), str(source)], check=True, timeout=120)
    return folder


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    """Two agents that run real programs, each with room for one task of a core and a task of half a core."""
    with LocalCluster(ClusterSettings(agents=2, cpus=1.7, mem=2048)) as cluster:
        yield cluster


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    folder = tmp_path / "spool"
    folder.mkdir()
    return folder


@pytest.fixture
def scheduler(
    tmp_path: Path, cluster: LocalCluster, packages: Path, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SchedulerProcess]:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(packages), str(Path(__file__).parents[2])]))
    (tmp_path / "managers.yaml").write_text(yaml.safe_dump({"spool": {"folder": str(spool), "namespace": "batch"}}))
    process = SchedulerProcess(
        tmp_path,
        f"sqlite:///{tmp_path / 'state.db'}",
        cluster.url,
        scheduler__placeholders="sleep",
        scheduler__app_managers="spool",
        scheduler__app_managers_file=str(tmp_path / "managers.yaml"),
    )
    try:
        yield process.start().wait_ready()
    finally:
        process.stop()


def put(spool: Path, name: str, document: dict[str, Any]) -> None:
    (spool / "next").write_text(json.dumps(document))
    (spool / "next").rename(spool / f"{name}.json")


def running(scheduler: SchedulerProcess) -> dict[str, str]:
    """The taskgroups of the namespace that run: their ids by application."""
    # One request: applications of placeholders are deleted meanwhile.
    groups = scheduler.call("GET", "/taskgroups", namespace="batch")
    return {group["ID"].split(".")[1]: group["ID"] for group in groups if group["Status"] == "Running"}


def test_applications_of_a_manager_start_end_and_survive_the_leader(scheduler: SchedulerProcess, spool: Path) -> None:
    solo = {"queue": "root.q", "tasks": [{"id": "s0", "cpus": 0.5}]}
    put(spool, "solo", solo)
    wait_for(lambda: set(running(scheduler)) == {"solo-s0"}, PATIENCE, "the task")
    before = running(scheduler)

    scheduler.kill()
    scheduler.start().wait_ready()
    wait_for(lambda: "appmanager.running" in scheduler.log(), PATIENCE, "the manager beside the new leader")
    assert running(scheduler) == before, "the task was not launched again"

    gang = [{"id": f"w{number}", "group": "w", "cpus": 1} for number in range(2)]
    groups = [{"name": "w", "minMember": 2, "cpus": 1}]
    put(spool, "pair", {"queue": "root.q", "taskGroups": groups, "tasks": gang})
    wait_for(lambda: set(running(scheduler)) == {"solo-s0", "pair-w0", "pair-w1"}, PATIENCE, "the gang")
    events = [event["reason"] for event in scheduler.call("GET", "/namespaces/batch/events")]
    assert "ReservationComplete" in events

    scheduler.kill()
    (spool / "pair.json").unlink()
    put(spool, "solo", {**solo, "tasks": [{"id": "s0", "cpus": 0.5, "done": True}]})
    scheduler.start().wait_ready()
    put(spool, "last", {"queue": "root.q", "tasks": [{"id": "t", "cpus": 0.5, "command": "true"}]})
    wait_for(
        lambda: any(
            event["reason"] == "TaskGroupFinished" and "last-t" in str(event)
            for event in scheduler.call("GET", "/namespaces/batch/events")
        ),
        PATIENCE,
        "the end of the last task",
    )
    wait_for(lambda: "solo-s0" not in running(scheduler), PATIENCE, "the end of the task that is done")


def test_a_manager_that_cannot_start_leaves_the_scheduler_at_work(
    scheduler: SchedulerProcess, spool: Path, tmp_path: Path
) -> None:
    scheduler.stop()
    spool.rename(tmp_path / "away")
    scheduler.start().wait_ready()
    wait_for(lambda: "application manager spool: start: NotADirectoryError" in scheduler.log(), PATIENCE, "the fault")
    put(tmp_path / "away", "solo", {"queue": "root.q", "tasks": [{"id": "s0", "cpus": 0.5}]})
    (tmp_path / "away").rename(spool)
    wait_for(lambda: set(running(scheduler)) == {"solo-s0"}, PATIENCE, "the task")
