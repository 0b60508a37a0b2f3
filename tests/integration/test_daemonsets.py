"""Daemonsets while agents join and leave: on every store with the embedded cluster, and on a real Mesos."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.localmesos import LocalMesosProcess
from tests.integration.mesoscluster import RealMesos
from tests.integration.schedulerprocess import SchedulerProcess, document
from tests.integration.zookeeper import ZooKeeperServer
from tests.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.rotating]

DAEMONSETS = "/namespaces/default/daemonsets"
PATIENCE = 60.0


def daemonset(name: str = "probe", seconds: int = 3600, **head: Any) -> dict[str, Any]:
    made = document(name, 1, ["sleep", str(seconds)])
    del made["spec"]["instance"]
    return {**made, "kind": "daemonset", "killPolicy": {"gracePeriod": 1}, **head}


class Watched:
    """A daemonset and the scheduler it is asked of."""

    def __init__(self, scheduler: SchedulerProcess, name: str = "probe") -> None:
        self.scheduler = scheduler
        self.name = name

    def create(self, **head: Any) -> None:
        self.scheduler.call("POST", DAEMONSETS, daemonset(self.name, **head))

    @property
    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = self.scheduler.call("GET", f"{DAEMONSETS}/{self.name}")
        return found

    def wait_running(self, count: int) -> dict[str, str]:
        """Taskgroups by host name, once there are so many, all ready and of the newest version."""

        def settled() -> bool:
            record = self.record
            counts = record["counts"]
            return bool(
                record["Status"] == "Running" and counts["ready"] == counts["updated"] == counts["desired"] == count
            )

        wait_for(settled, PATIENCE, lambda: f"{count} of {self.name}: {self.record}")
        groups = self.scheduler.call("GET", f"{DAEMONSETS}/{self.name}/taskgroups", limit=1000)
        found = {group["HostName"]: group["ID"] for group in groups if group["Status"] != "Lost"}
        assert len(found) == count, groups
        return found

    def delete(self) -> None:
        accepted = self.scheduler.call("DELETE", f"{DAEMONSETS}/{self.name}")
        assert self.scheduler.wait_transaction(accepted["transactionID"], PATIENCE)["status"] == "FINISH"
        gone = f"{DAEMONSETS}/{self.name}"
        wait_for(lambda: self.scheduler.request("GET", gone).status_code == 404, PATIENCE, f"the end of {self.name}")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalMesosProcess]:
    cluster = LocalMesosProcess(tmp_path, "--ports=24200-24299", "--agents=3").start()
    yield cluster
    cluster.stop()


@pytest.fixture(params=["memory", "sqlite", pytest.param("zookeeper", marks=pytest.mark.zookeeper)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "memory":
        return "memory:"
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'state.db'}"
    zookeeper: ZooKeeperServer = request.getfixturevalue("zookeeper")
    return f"zk://{zookeeper.hosts}/{uuid.uuid4().hex}"


def test_agents_join_and_leave(store: str, cluster: LocalMesosProcess, tmp_path: Path) -> None:
    scheduler = SchedulerProcess(tmp_path, store, cluster.url)
    cluster.control("kill_agent", agent="agent-3")
    scheduler.start().wait_ready()
    try:
        probe = Watched(scheduler)
        probe.create(updatePolicy={"maxUnavailable": 1})
        first = probe.wait_running(2)
        assert sorted(first) == ["agent-1", "agent-2"]

        cluster.control("restart_agent", agent="agent-3")
        second = probe.wait_running(3)
        assert first.items() <= second.items(), "those that ran have been left alone"

        scheduler.call("PUT", DAEMONSETS, daemonset(seconds=3601))
        third = probe.wait_running(3)
        assert not set(second.values()) & set(third.values())

        if store != "memory:":
            scheduler.kill()
            scheduler.start().wait_leading()
            assert probe.wait_running(3) == third

        cluster.control("gone_agent", agent="agent-2")
        wait_for(lambda: probe.record["counts"]["ready"] == 2, PATIENCE, "two that are ready")
        assert len(cluster.running()) == 2
        assert len(set(cluster.running().values())) == 2
        probe.delete()
        wait_for(lambda: not cluster.running(), PATIENCE, lambda: f"the end of {cluster.running()}")
    finally:
        scheduler.stop()


def test_an_agent_that_dies_and_returns_has_one_again(cluster: LocalMesosProcess, tmp_path: Path) -> None:
    scheduler = SchedulerProcess(tmp_path, f"sqlite:///{tmp_path / 'state.db'}", cluster.url).start().wait_ready()
    try:
        probe = Watched(scheduler)
        probe.create(unreachablePolicy={"replaceAfterSeconds": 1}, restartPolicy={"policy": "Always"})
        first = probe.wait_running(3)
        cluster.control("kill_agent", agent="agent-1")
        probe.wait_running(2)
        cluster.control("restart_agent", agent="agent-1")
        second = probe.wait_running(3)
        assert second["agent-1"] != first["agent-1"]
        assert {host: second[host] for host in ("agent-2", "agent-3")} == {
            host: first[host] for host in ("agent-2", "agent-3")
        }
        assert len(cluster.running()) == 3
    finally:
        scheduler.stop()


@pytest.mark.mesos
@pytest.mark.slow
def test_agents_of_a_real_mesos_join_and_leave(own_mesos: RealMesos, tmp_path: Path) -> None:
    """An agent that is killed comes back as the one it was; one whose machine lost power has lost what ran on it."""
    own_mesos.wait_for_agents()
    own_mesos.stop_process("s3")
    own_mesos.wait_for_agents(2)
    wait_for(lambda: len(active(own_mesos)) == 2, PATIENCE, lambda: f"two agents: {own_mesos.state()['slaves']}")
    scheduler = SchedulerProcess(tmp_path, f"sqlite:///{tmp_path / 'state.db'}", own_mesos.url).start().wait_ready()
    try:
        probe = Watched(scheduler)
        probe.create(unreachablePolicy={"replaceAfterSeconds": 1}, restartPolicy={"policy": "Always"})
        first = probe.wait_running(2)
        own_mesos.start_process("s3")
        second = probe.wait_running(3)
        assert set(first.values()) <= set(second.values())

        scheduler.call("PUT", f"{DAEMONSETS}/probe/restart")
        third = probe.wait_running(3)
        assert not set(second.values()) & set(third.values())

        own_mesos.kill_agent("s3", with_tasks=True)
        probe.wait_running(2)
        own_mesos.start_process("s3")
        fourth = probe.wait_running(3)
        assert len(set(third.values()) & set(fourth.values())) == 2
        probe.delete()
    finally:
        scheduler.stop()


def active(mesos: RealMesos) -> list[str]:
    return [agent["hostname"] for agent in mesos.state()["slaves"] if agent["active"]]
