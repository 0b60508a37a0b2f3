"""A standby whose ZooKeeper does not answer: reads are answered or refused at once, and health checks do not wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from bcs_scheduler.api.http.app import create_app
from bcs_scheduler.api.http.server import ApiServer
from bcs_scheduler.leadership import readiness, standby
from store.zookeeper.store import ZooKeeperStore
from tests.integration.schedulers import A, B, Process
from tests.integration.zookeeper import ZooKeeperServer
from tests.waiting import wait_for

pytestmark = pytest.mark.zookeeper
READERS = 50
SESSION = 10.0
"""Seconds: about as long a request to the server that is suspended would take."""
AT_ONCE = SESSION / 4
"""Seconds: a request that takes less has not waited for the server, however busy this machine is."""
LIST = "/v4/scheduler/mesos/agentsettings"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ZooKeeperServer]:
    server = ZooKeeperServer(tmp_path / "zookeeper")
    server.start()
    yield server
    server.resume()
    server.stop()


@pytest.fixture
def pair(server: ZooKeeperServer) -> Iterator[tuple[Process, Process, str]]:
    """A leader, a standby, and the URL of the API of the standby."""
    first = Process(ZooKeeperStore(server.hosts, "/standby", session_timeout=SESSION), A).leads()
    second = Process(ZooKeeperStore(server.hosts, "/standby", session_timeout=SESSION), B).stands_by()
    api = ApiServer()
    api.start(create_app(second.runtime))
    yield first, second, api.url
    server.resume()
    api.stop()
    first.runtime.stop()
    second.runtime.stop()


class Readers:
    """Threads that ask for a list, one request after the other."""

    def __init__(self, url: str) -> None:
        self.statuses: list[int] = []
        self.slowest = 0.0
        self._url, self._ending = url, threading.Event()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(READERS)]
        for thread in self._threads:
            thread.start()

    def _run(self) -> None:
        with requests.Session() as session:
            while not self._ending.wait(0.2):
                began = time.perf_counter()
                self.statuses.append(session.get(self._url + LIST, timeout=60.0).status_code)
                self.slowest = max(self.slowest, time.perf_counter() - began)

    def end(self) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join(60.0)


def test_nobody_waits_for_a_store_that_does_not_answer(
    server: ZooKeeperServer, pair: tuple[Process, Process, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stale(monkeypatch, 600.0)
    first, second, url = pair
    assert first.disable("10.0.0.1").result(30.0).error == ""
    wait_for(lambda: "10.0.0.1" in second.shown().agent_settings, what="the change to be seen")
    answer = requests.get(url + LIST, timeout=60)
    assert answer.status_code == 200 and float(answer.headers["X-Bcs-State-Age"]) < SESSION
    server.suspend()
    readers = Readers(url)
    health: list[float] = []

    def healthy_until(answered: int) -> bool:
        """Asks for the health of the process until each reader has had `answered` answers, on average."""
        for path in ("/healthz", "/readyz"):
            began = time.perf_counter()
            requests.get(url + path, timeout=60.0)
            health.append(time.perf_counter() - began)
        return len(readers.statuses) >= answered * READERS

    try:
        wait_for(lambda: healthy_until(2), 60.0, "answers")
        assert set(readers.statuses) == {200}, "the known records are shown until they are too old"
        stale(monkeypatch, 1.0)
        wait_for(lambda: healthy_until(0) and 503 in readers.statuses, 60.0, "reads to be refused")
        refused = len(readers.statuses) // READERS
        wait_for(lambda: healthy_until(refused + 3), 60.0, "more readers")
    finally:
        server.resume()
        readers.end()
    assert sorted(health)[len(health) // 2] < AT_ONCE, health
    assert readers.slowest < SESSION, "no read has waited until the server was declared away"
    wait_for(lambda: requests.get(url + LIST, timeout=60).status_code == 200, 60.0, "reads to be answered again")


def stale(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Records that are older than this are not shown any more."""
    monkeypatch.setattr(standby, "STALE", seconds)
    monkeypatch.setattr(readiness, "STALE", seconds)
