"""Events through failovers: who follows them is told each once, in order; alarms arrive at a real receiver."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from bcs_scheduler.local.cluster import LocalCluster
from bcs_scheduler.local.settings import ClusterSettings
from tests.component.test_alarms import receiving
from tests.integration.schedulerprocess import PREFIX, SchedulerProcess, document
from tests.integration.zookeeper import ZooKeeperServer
from tests.streams import Reader
from tests.waiting import wait_for

pytestmark = pytest.mark.zookeeper

APPLICATIONS = "/namespaces/default/applications"
FOREVER = ["/bin/sleep", "1000"]
Start = Callable[..., SchedulerProcess]


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    settings = ClusterSettings(agents=10, cpus=64, mem=65536, disk=65536, synthetic=True, start_delay=0.1)
    with LocalCluster(settings) as cluster:
        yield cluster


@pytest.fixture
def start(tmp_path: Path, zookeeper: ZooKeeperServer, cluster: LocalCluster) -> Iterator[Start]:
    """Starts schedulers on one store, the first of which leads."""
    started: list[SchedulerProcess] = []
    store = f"zk://{zookeeper.hosts}/events-{uuid4().hex[:8]}"

    def begin(**settings: str) -> SchedulerProcess:
        folder = tmp_path / f"scheduler-{len(started)}"
        folder.mkdir()
        scheduler = SchedulerProcess(folder, store, cluster.url, store__session_timeout="4", **settings)
        started.append(scheduler)
        return scheduler.start().wait_ready()

    yield begin
    for scheduler in started:
        scheduler.kill()


class Follower:
    """`bcs get events -w` of all namespaces, from the first event on."""

    def __init__(self, server: str, output: Path) -> None:
        self._output, self._errors = output, output.with_suffix(".err")
        with output.open("wb") as out, self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bcs_scheduler.cli.main", "--server", server,
                 "get", "events", "-A", "-w", "-o", "json", "--last", "100000"],
                stdout=out, stderr=errors,
            )  # fmt: skip

    def told(self) -> list[dict[str, Any]]:
        assert self._process.poll() is None, self._errors.read_text()
        text = self._output.read_text()
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    def close(self) -> str:
        """What it complained about."""
        self._process.kill()
        self._process.wait()
        return self._errors.read_text()


def launch(scheduler: SchedulerProcess, name: str, instances: int) -> None:
    scheduler.call("POST", APPLICATIONS, document(name, instances, FOREVER))


def leads(scheduler: SchedulerProcess) -> bool:
    role: str = scheduler.session.get(f"{scheduler.url}/healthz", timeout=60).json()["current_role"]
    return role == "master"


def all_running(scheduler: SchedulerProcess, *names: str) -> bool:
    found = {name: scheduler.application(name) for name in names}
    return all(app is not None and app["Status"] == "Running" for app in found.values())


def test_a_follower_is_told_each_event_once_while_leaders_are_killed(start: Start, tmp_path: Path) -> None:
    first, second, third = start(), start(), start()
    follower = Follower(third.url, tmp_path / "events")  # a standby: it points to whoever leads
    try:
        launch(first, "a", 60)
        wait_for(lambda: len(follower.told()) > 30, what="the first events")
        first.kill()  # in the middle of the launch
        wait_for(lambda: leads(second), 60)
        launch(second, "b", 60)
        wait_for(
            lambda: any("b.default" in event["name"] for event in follower.told()), 60, "events of the second term"
        )
        second.kill()
        wait_for(lambda: leads(third), 60)
        launch(third, "c", 5)
        wait_for(lambda: all_running(third, "a", "b", "c"), 90, "everything to run")
        kept = third.call("GET", "/events", limit=100_000)
        wait_for(lambda: len(follower.told()) >= len(kept), 30, lambda: f"{len(follower.told())} of {len(kept)} events")
        told = follower.told()[: len(kept)]
    finally:
        complaints = follower.close()
    assert complaints == ""
    assert [event["id"] for event in told] == list(range(1, len(kept) + 1))
    assert told == kept
    placed = [event["name"] for event in told if event["reason"] == "TaskGroupPlaced"]
    assert len(placed) == len(set(placed)) >= 125


def test_the_stream_ends_with_the_term_and_says_so(start: Start) -> None:
    leader = start()
    reader = Reader(f"{leader.url}{PREFIX}/events/watch?last=10")
    wait_for(lambda: reader.data("event"), what="an event")
    assert leader.stop() == 0
    assert reader.ended.wait(30)
    assert [last["reason"] for last in reader.data("end")] == ["stepped_down"]


def test_alarms_arrive(start: Start, cluster: LocalCluster) -> None:
    with receiving() as receiver:
        leader = start(alarms__url=receiver.url)
        launch(leader, "web", 2)
        (victim, *_) = leader.wait_running("web", 2)

        def names() -> set[str]:
            return {body["alarmName"] for body in receiver.bodies}

        wait_for(lambda: "leader changed" in names(), what="the alarm of the new leader")
        told = {"action": "fail_tasks", "taskgroup": victim["ID"]}
        assert leader.session.post(f"{cluster.url}/control", json=told, timeout=30).status_code == 200
        wait_for(lambda: {"taskgroup failed", "taskgroup restarted"} <= names(), what=lambda: str(names()))
        failed = next(body for body in receiver.bodies if body["alarmName"] == "taskgroup failed")
        assert failed["alarmID"] == f"default.web-{victim['InstanceID']}"
        assert failed["resourceName"] == victim["ID"]


def test_a_story_goes_on_under_the_next_leader(start: Start) -> None:
    first, second = start(), start()
    launch(first, "web", 2)
    first.wait_running("web", 2)
    first.kill()
    wait_for(lambda: leads(second), 60)
    second.wait_leading()
    run = [sys.executable, "-m", "bcs_scheduler.cli.main", "--server", second.url, "-n", "default"]
    subprocess.run([*run, "scale", "web", "3", "--wait"], check=True, timeout=120)
    second.wait_running("web", 3)
    done = subprocess.run([*run, "story", "app/web", "-o", "json"], check=True, timeout=60, capture_output=True)
    story = json.loads(done.stdout)
    kept = second.call("GET", "/namespaces/default/events", owner="web", limit=100_000)
    told = [event["id"] for cause in story["causes"] for event in cause["events"] if event["kind"] != "framework"]
    assert sorted(told) == [event["id"] for event in kept]
    assert (story["gap"], story["truncated"]) == (None, False)
    types = [cause["type"] for cause in story["causes"]]
    assert types.count("request") == 2 and types.count("leader") == 1
    assert types.index("request") < types.index("leader") < len(types) - 1 - types[::-1].index("request")
    operations = [one["operation"] for cause in story["causes"] for one in cause["transactions"]]
    assert {"launch", "scale"} <= set(operations)
