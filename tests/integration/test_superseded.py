"""A term whose framework another scheduler takes over at Mesos: it ends, and the store decides who leads next."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from bcs_scheduler.core.interface import cluster_manager
from bcs_scheduler.leadership import runtime
from store.memory import MemoryBackend, MemoryStore
from tests.integration.schedulers import A, B, Process
from tests.waiting import wait_for

Start = Callable[[str], Process]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts processes on one store; all are stopped at the end."""
    monkeypatch.setattr(runtime, "FIRST_RECESS", 0.01)
    backend = MemoryBackend()
    started: list[Process] = []

    def make(url: str) -> Process:
        started.append(Process(MemoryStore(backend), url))
        return started[-1]

    yield make
    for process in started:
        process.runtime.stop()


def test_the_only_scheduler_leads_again_with_the_next_epoch(start: Start) -> None:
    """Whoever took its place was not a leader: subscribing again is right, and throws that one out."""
    process = start(A).subscribed()
    first = process.driver
    first.deliver(cluster_manager.Superseded())
    wait_for(lambda: process.driver is not first, what="the next term")
    assert process.leads().epoch == 2
    assert first.stopped
    assert process.driver.framework_id == "framework-1"
    assert process.check("mesos")[0]


def test_a_standby_gets_the_lead(start: Start) -> None:
    first, second = start(A).leads(), start(B).stands_by()
    first.driver.deliver(cluster_manager.Superseded())
    assert second.leads().epoch == 2
    assert first.stands_by().check("leadership") == (True, f"slave of {B}")
    assert first.driver.stopped
