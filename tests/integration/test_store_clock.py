"""How much time has passed since the previous leader was at work, by the clock of a real ZooKeeper; and a scheduler on
a host whose clock is set while it leads."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.leadership.runtime import Runtime
from bcs_scheduler.observability.metrics import Metrics
from store.base import Term
from store.memory import MemoryBackend, MemoryStore
from store.records import Framework
from tests.integration.schedulers import A, FakeDriver
from tests.integration.storeplaces import PATIENCE, Candidate, ZooKeeperPlace, done
from tests.integration.zookeeper import ZooKeeperServer
from tests.waiting import wait_for

HOUR = 3600.0


@pytest.mark.zookeeper
def test_zookeeper_says_how_long_ago_the_framework_was_written(zookeeper: ZooKeeperServer, tmp_path: Path) -> None:
    client = KazooClient(zookeeper.hosts)
    client.start()
    place = ZooKeeperPlace(zookeeper.hosts, f"/tests/{tmp_path.name}", client)
    try:
        first = Candidate(place.store(), "http://127.0.0.1:1001")
        term: Term = first._elected.get(timeout=PATIENCE)
        first.epoch = term.epoch
        assert term.elapsed is None
        began = time.monotonic()
        done([first.put(Framework(id="f", created_at=1.0, seen_at=1.0))])
        first.store.close()
        second = Candidate(place.store(), "http://127.0.0.1:1002")
        elapsed = second._elected.get(timeout=PATIENCE).elapsed
        elected = time.monotonic()
        second.store.close()
        assert elapsed is not None
        assert -0.01 <= elapsed <= elected - began + 0.01
    finally:
        client.stop()
        client.close()


class Host:
    offset = 0.0

    def wall(self) -> float:
        return time.time() + self.offset


@pytest.fixture
def host() -> Iterator[Host]:
    yield Host()


@pytest.mark.parametrize("step", [-3 * HOUR, 3 * HOUR])
def test_a_scheduler_whose_host_is_set_goes_on_and_so_does_its_successor(host: Host, step: float) -> None:
    backend = MemoryBackend()

    def scheduler() -> Runtime:
        made = Runtime(MemoryStore(backend), CoreOptions(), FakeDriver, Metrics(), A, wall=host.wall)
        made.start()
        wait_for(lambda: made.role() == "master", what="leadership")
        wait_for(lambda: made.state().framework.id, what="the subscription")
        return made

    first = scheduler()
    began = time.monotonic()
    before = first.now()
    host.offset = step
    wait_for(lambda: first.now() > before + 0.3, what="time going on")
    after = first.now()
    passed = time.monotonic() - began
    assert after - before < passed * 1.1 + 0.1
    newest = first.state().newest
    first.stop()
    second = scheduler()
    assert second.now() >= newest
    if step < 0:
        assert second.now() < before + 60.0
    second.stop()
