"""Launches that do not happen on the real Mesos: repeated whatever the restart policy says, and no restarts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.executortraces import wait_gone
from tests.integration.gate import Gate
from tests.integration.mesoscluster import RealMesos
from tests.integration.onetaskgroup import APPS, create, remove, settled
from tests.integration.schedulerprocess import SchedulerProcess
from tests.waiting import wait_for
from transactions.rules.relaunch import FETCH_ATTEMPTS

pytestmark = pytest.mark.mesos

NEVER: dict[str, Any] = {"restartPolicy": {"policy": "Never"}}


class Sieve(Gate):
    """Loses what clients send from the first piece on that contains `word`; the clients do not notice."""

    def __init__(self, port: int, word: bytes) -> None:
        self._word = word
        self.caught = threading.Event()
        super().__init__(port)

    def _passes(self, data: bytes) -> bool:
        if self._word in data:
            self.caught.set()
        return not self.caught.is_set()


@pytest.fixture
def sieve(real_mesos: RealMesos) -> Iterator[Sieve]:
    """Before the master: holds back the ACCEPT that launches the application `lost`, the first to name its tasks."""
    found = Sieve(int(real_mesos.masters["solo"].rpartition(":")[2]), b".0.lost.default.")
    yield found
    found.stop()


class Schedulers:
    """Processes on one store, one after the other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[SchedulerProcess] = []

    def start(self, mesos: str, **settings: str) -> SchedulerProcess:
        folder = self._folder / str(len(self._started))
        folder.mkdir()
        scheduler = SchedulerProcess(folder, f"sqlite:///{self._folder}/state.db", mesos, **settings)
        self._started.append(scheduler)
        return scheduler.start().wait_leading()

    def stop(self) -> None:
        for scheduler in self._started:
            scheduler.stop()


@pytest.fixture
def schedulers(tmp_path: Path) -> Iterator[Schedulers]:
    found = Schedulers(tmp_path)
    yield found
    found.stop()


def the_group(scheduler: SchedulerProcess, name: str) -> dict[str, Any]:
    [group] = wait_for(lambda: scheduler.taskgroups(name), 30, f"a taskgroup of {name}")
    return group


def test_a_launch_that_died_with_its_leader_is_repeated_by_the_next(
    real_mesos: RealMesos, sieve: Sieve, schedulers: Schedulers
) -> None:
    leader = schedulers.start(f"http://{sieve.address}")
    create(leader, "lost", "sleep 100000", **NEVER)
    wait_for(sieve.caught.is_set, 60, "the ACCEPT")
    recorded = the_group(leader, "lost")
    leader.kill()

    successor = schedulers.start(real_mesos.url)
    running = settled(successor, "lost", "Running")
    assert running["ID"] != recorded["ID"]
    assert running["InstanceID"] == recorded["InstanceID"] == 0
    assert running["ReschededTimes"] == 0
    told = {event["reason"] for event in successor.call("GET", "/namespaces/default/events", name=running["ID"])}
    assert "TaskGroupRelaunched" in told and "TaskGroupRestarted" not in told
    remove(successor, running)


@pytest.mark.rotating
def test_an_executor_that_was_to_come_from_a_leader_that_died_is_fetched_from_the_next(
    real_mesos: RealMesos, schedulers: Schedulers
) -> None:
    leader = schedulers.start(real_mesos.url, executor__default="bcs", executor__url=nobody_at())
    create(leader, "orphaned", "sleep 100000", **NEVER)
    first = the_group(leader, "orphaned")
    wait_for(lambda: the_group(leader, "orphaned")["ID"] != first["ID"], 30, "the next launch")
    leader.kill()

    successor = schedulers.start(real_mesos.url, executor__default="bcs")
    running = settled(successor, "orphaned", "Running")
    assert running["ReschededTimes"] == 0
    remove(successor, running)
    wait_gone(running)


@pytest.mark.rotating
def test_an_executor_that_can_never_be_fetched_fails_its_taskgroup(
    real_mesos: RealMesos, schedulers: Schedulers
) -> None:
    scheduler = schedulers.start(real_mesos.url, executor__default="bcs", executor__url=nobody_at())
    create(scheduler, "hopeless", "sleep 100000", **NEVER)
    failed = wait_for(
        lambda: next((g for g in scheduler.taskgroups("hopeless") if g["Status"] == "Failed"), None),
        90,
        lambda: f"the failure of {scheduler.taskgroups('hopeless')}",
    )
    assert "Failed to fetch all URIs" in failed["Message"]
    assert failed["ReschededTimes"] == 0
    placed = scheduler.call("GET", "/namespaces/default/events", owner="hopeless", reason="placed")
    assert len(placed) == FETCH_ATTEMPTS
    scheduler.call("DELETE", f"{APPS}/hopeless")
    wait_for(lambda: scheduler.application("hopeless") is None, 30, "the deletion")


def nobody_at() -> str:
    """URL of an executor at an address where nobody listens: programs get no port below 1024 by chance."""
    return "http://127.0.0.1:1/bcs-executor.pyz"
