"""Rolling updates on the real Mesos and the real ZooKeeper when the leader is killed in the middle of a step."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.mesoscluster import RealMesos
from tests.integration.schedulerprocess import SchedulerProcess
from tests.integration.zookeeper import ZooKeeperServer
from tests.waiting import wait_for

pytestmark = [pytest.mark.mesos, pytest.mark.zookeeper, pytest.mark.slow, pytest.mark.rotating]

SLOW_TO_END = ["-c", "trap 'sleep 2; exit 0' TERM; while :; do sleep 0.1; done"]
INSTANCES, SURGE, UNAVAILABLE = 6, 2, 1
PLACE = "/namespaces/default/deployments"

StartScheduler = Callable[..., SchedulerProcess]


@pytest.fixture
def start_scheduler(zookeeper: ZooKeeperServer, tmp_path: Path) -> Iterator[StartScheduler]:
    started: list[SchedulerProcess] = []

    def start(mesos: str) -> SchedulerProcess:
        folder = tmp_path / str(len(started))
        folder.mkdir()
        scheduler = SchedulerProcess(folder, f"zk://{zookeeper.hosts}/{tmp_path.name}", mesos)
        started.append(scheduler)
        return scheduler.start()

    yield start
    for scheduler in started:
        scheduler.stop()


class Watch:
    """What runs in Mesos, looked at again and again from a thread of its own."""

    def __init__(self, mesos: RealMesos) -> None:
        self._mesos = mesos
        self._over = threading.Event()
        self.least, self.most, self.looks = 10**6, 0, 0
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._over.wait(0.1):
            states = [t["state"] for f in self._mesos.state()["frameworks"] for t in f["tasks"]]
            self.least = min(self.least, states.count("TASK_RUNNING"))
            self.most = max(self.most, len(states))
            self.looks += 1

    def end(self) -> None:
        self._over.set()
        self._thread.join(30)


def document(version: str, **rolling: Any) -> dict[str, Any]:
    container = {
        "command": "/bin/sh",
        "args": SLOW_TO_END,
        "env": [{"name": "VERSION", "value": version}],
        "resources": {"limits": {"cpu": "0.01", "memory": "8", "storage": "1"}},
    }
    strategy = {"maxSurge": SURGE, "maxUnavailable": UNAVAILABLE, "minReadySeconds": 1, **rolling}
    return {
        "apiVersion": "v4",
        "kind": "deployment",
        "metadata": {"name": "shop", "namespace": "default"},
        "killPolicy": {"gracePeriod": 20},
        "restartPolicy": {"policy": "Never"},
        "spec": {
            "instance": INSTANCES,
            "strategy": {"type": "RollingUpdate", "rollingupdate": strategy},
            "template": {"spec": {"networkMode": "HOST", "containers": [container]}},
        },
    }


def shop(scheduler: SchedulerProcess) -> dict[str, Any]:
    found: dict[str, Any] = scheduler.call("GET", f"{PLACE}/shop")
    return found


def wait_status(scheduler: SchedulerProcess, status: str, seconds: float = 120.0) -> dict[str, Any]:
    def there() -> dict[str, Any] | None:
        found = shop(scheduler)
        return found if found["status"] == status else None

    return wait_for(there, seconds, lambda: f"{status}: {shop(scheduler)}")


def tasks(mesos: RealMesos) -> dict[str, str]:
    return {t["id"]: t["state"] for f in mesos.state()["frameworks"] for t in f["tasks"]}


@pytest.mark.parametrize(("half", "back"), [("START", False), ("DELETE", False), ("DELETE", True)])
def test_a_leader_dies_in_the_middle_of_a_step(
    real_mesos: RealMesos, start_scheduler: StartScheduler, half: str, back: bool
) -> None:
    leader = start_scheduler(real_mesos.url).wait_ready()
    standby = start_scheduler(real_mesos.url)
    leader.call("POST", PLACE, document("one"))
    wait_status(leader, "Running")
    before = leader.wait_running("shop", INSTANCES)
    watch = Watch(real_mesos)
    try:
        wait_for(lambda: watch.least == INSTANCES, 30, "the first look")
        leader.call("PUT", PLACE, document("two"))
        if back:
            wait_for(lambda: shop(leader)["progress"]["step"] == 2, 60, "the second step")
            leader.call("POST", f"{PLACE}/shop/cancelupdate")
        wait_for(lambda: shop(leader)["curr_rolling_operation"] == half, 60, f"a step of {half}")
        leader.kill()
        standby.wait_leading(90)
        record = wait_status(standby, "Running", 180)
    finally:
        watch.end()
    assert record["revision"] == (1 if back else 2)
    assert record["rollingBack"] is False
    bound = record["application"]["name"]
    assert (bound == "shop") is back
    groups = standby.wait_running(bound, INSTANCES)
    applications = standby.call("GET", "/namespaces/default/applications")
    assert [application["Name"] for application in applications] == [bound]
    wait_for(lambda: len(tasks(real_mesos)) == INSTANCES, 30, "nothing else in Mesos")
    assert set(tasks(real_mesos)) == {task["ID"] for group in groups for task in group["Taskgroup"]}
    kept = {group["ID"] for group in before} & {group["ID"] for group in groups}
    assert bool(kept) is back
    assert watch.least >= INSTANCES - UNAVAILABLE
    assert watch.most <= INSTANCES + SURGE
    standby.call("DELETE", f"{PLACE}/shop")
    wait_for(lambda: standby.request("GET", f"{PLACE}/shop").status_code == 404, 60, "deletion")
    wait_for(lambda: not tasks(real_mesos), 30, "an empty cluster")
