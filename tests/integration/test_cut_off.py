"""Schedulers that are cut off from Mesos, from the store, or from both, with real processes, a real ZooKeeper and the
real Mesos: who leads, and who subscribes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.gate import Gate, masters_behind_gates
from tests.integration.mesoscluster import RealMesos
from tests.integration.schedulerprocess import SchedulerProcess, document
from tests.integration.zookeeper import ZooKeeperServer
from tests.waiting import wait_for

pytestmark = [pytest.mark.mesos, pytest.mark.zookeeper, pytest.mark.slow, pytest.mark.rotating]
APPS = "/namespaces/default/applications"
UNCONFIRMED = "the store has not confirmed"
NO_ANSWER = "reached_from_here=False"

Start = Callable[..., SchedulerProcess]


@pytest.fixture
def gates(zookeeper: ZooKeeperServer, real_mesos: RealMesos) -> Iterator[dict[str, Gate]]:
    """In front of Mesos (two of them) and of ZooKeeper."""
    master = real_mesos.base_port
    made = {"mesos": Gate(master), "mesos-2": Gate(master), "zookeeper": Gate(int(zookeeper.hosts.split(":")[1]))}
    yield made
    for gate in made.values():
        gate.stop()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[SchedulerProcess] = []

    def make(store: str, mesos: str, **settings: str) -> SchedulerProcess:
        folder = tmp_path / str(len(started))
        folder.mkdir()
        given = {"mesos__framework_name": f"cut-{tmp_path.name}", "store__session_timeout": "4", **settings}
        started.append(SchedulerProcess(folder, store, mesos, **given))
        return started[-1].start()

    yield make
    for scheduler in started:
        scheduler.stop()


def role(scheduler: SchedulerProcess) -> str:
    return str(scheduler.session.get(scheduler.url + "/readyz", timeout=20).json()["role"])


def check(scheduler: SchedulerProcess, name: str) -> tuple[bool, str]:
    checks = scheduler.session.get(scheduler.url + "/readyz", timeout=20).json()["checks"]
    return next(((found["ok"], found["message"]) for found in checks if found["name"] == name), (False, "no check"))


def subscribed(scheduler: SchedulerProcess) -> bool:
    return check(scheduler, "mesos")[0]


def test_a_deposed_leader_does_not_throw_its_successor_out(
    zookeeper: ZooKeeperServer, real_mesos: RealMesos, gates: dict[str, Gate], start: Start, tmp_path: Path
) -> None:
    """It reaches Mesos again before it reaches ZooKeeper, and so does not know that it has been replaced."""
    root = tmp_path.name
    first = start(f"zk://{gates['zookeeper'].address}/{root}", f"http://{gates['mesos'].address}").wait_ready()
    first.call("POST", APPS, document("web", 1, ["sleep", "1000"]))
    first.wait_running("web", 1)
    second = start(f"zk://{zookeeper.hosts}/{root}", real_mesos.url).wait_ready()
    gates["zookeeper"].close()
    gates["mesos"].cut()
    second.wait_leading()
    wait_for(lambda: subscribed(second), what="the subscription of the second scheduler")
    gates["mesos"].open()
    before = first.log().count(UNCONFIRMED)
    wait_for(lambda: first.log().count(UNCONFIRMED) >= before + 2, 60, "attempts of the first scheduler to subscribe")
    assert check(second, "leadership") == (True, "master, epoch 2") and subscribed(second)
    assert "mesos.stream.ended" not in second.log(), "the subscription of the true leader has lasted"
    gates["zookeeper"].open()
    wait_for(lambda: role(first) == "slave", what="the first scheduler to stand by")
    assert first.log().count("mesos.subscribed") == 1
    assert "mesos.stream.ended" not in second.log()
    second.wait_running("web", 1)


@pytest.mark.parametrize("kind", ["zookeeper", "sqlite"])
def test_a_leader_that_is_cut_off_from_mesos_hands_over(
    kind: str, zookeeper: ZooKeeperServer, real_mesos: RealMesos, gates: dict[str, Gate], start: Start, tmp_path: Path
) -> None:
    store = f"zk://{zookeeper.hosts}/{tmp_path.name}" if kind == "zookeeper" else f"sqlite:///{tmp_path}/state.db"
    first = start(store, f"http://{gates['mesos'].address}", mesos__patience="3").wait_ready()
    first.call("POST", APPS, document("web", 1, ["sleep", "1000"]))
    (group,) = first.wait_running("web", 1)
    second = start(store, real_mesos.url, mesos__patience="3").wait_ready()
    gates["mesos"].cut()
    second.wait_leading()
    wait_for(lambda: subscribed(second), what="the subscription of the second scheduler")
    wait_for(lambda: role(first) == "slave", what="the first scheduler to stand by")
    assert "reaches the master" in first.log()
    assert [found["ID"] for found in second.wait_running("web", 1)] == [group["ID"]], "its task was not touched"
    second.call("PUT", f"{APPS}/web/scale/2")
    second.wait_running("web", 2)
    assert check(second, "leadership")[1] == "master, epoch 2"


def test_a_leader_that_reaches_the_election_of_masters_and_no_master_hands_over(
    zookeeper: ZooKeeperServer, ha_mesos: RealMesos, start: Start, tmp_path: Path
) -> None:
    """Three masters; the leader still learns from ZooKeeper which of them leads."""
    store = f"zk://{zookeeper.hosts}/{tmp_path.name}"
    masters, election = masters_behind_gates(ha_mesos)
    try:
        first = start(store, f"zk://{election.address}/mesos", mesos__patience="3").wait_ready()
        first.call("POST", APPS, document("web", 1, ["sleep", "1000"]))
        (group,) = first.wait_running("web", 1)
        second = start(store, ha_mesos.zk_url, mesos__patience="3").wait_ready()
        for gate in masters:
            gate.cut()
        second.wait_leading()
        wait_for(lambda: subscribed(second), what="the subscription of the second scheduler")
        assert "reaches the master" in first.log()
        for gate in masters:
            gate.open()
        wait_for(lambda: role(first) == "slave", what="the first scheduler to stand by")
        assert [found["ID"] for found in second.wait_running("web", 1)] == [group["ID"]], "its task was not touched"
        assert check(second, "leadership") == (True, "master, epoch 2") and subscribed(second)
    finally:
        for gate in (*masters, election):
            gate.stop()


def test_the_leader_stays_while_no_other_scheduler_reaches_mesos(
    zookeeper: ZooKeeperServer, gates: dict[str, Gate], start: Start, tmp_path: Path
) -> None:
    store = f"zk://{zookeeper.hosts}/{tmp_path.name}"
    first = start(store, f"http://{gates['mesos'].address}", mesos__patience="1").wait_ready()
    second = start(store, f"http://{gates['mesos-2'].address}", mesos__patience="1").wait_ready()
    gates["mesos"].cut()
    gates["mesos-2"].cut()
    wait_for(lambda: second.log().count(NO_ANSWER) >= 3, 60, "the second scheduler to be asked")
    assert check(first, "leadership") == (True, "master, epoch 1")
    gates["mesos"].open()
    wait_for(lambda: subscribed(first), 60, "the subscription of the first scheduler")
    assert check(first, "leadership") == (True, "master, epoch 1")
