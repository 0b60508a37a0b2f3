"""Health is told even when every thread for reads is busy; a standby tells the age of what it shows."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import requests

from bcs_scheduler.api.http.app import STATE_AGE, create_app
from bcs_scheduler.api.http.server import ApiServer
from store.state import State
from tests.unit.api_support import CoreGateway
from tests.waiting import wait_for

READERS = 60
"""More than there are threads for reads."""
LIST = "/v4/scheduler/mesos/agentsettings"


class Stuck(CoreGateway):
    """Reads hang until they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.free = threading.Event()
        self.waiting = 0

    def state(self) -> State:
        self.waiting += 1
        assert self.free.wait(60.0)
        return super().state()


@pytest.fixture
def gateway() -> Iterator[Stuck]:
    gateway = Stuck()
    yield gateway
    gateway.free.set()


@pytest.fixture
def url(gateway: Stuck) -> Iterator[str]:
    server = ApiServer()
    server.start(create_app(gateway))
    yield server.url
    gateway.free.set()
    server.stop()


def test_health_checks_do_not_wait_for_readers(gateway: Stuck, url: str) -> None:
    readers = [
        threading.Thread(target=requests.get, args=(url + LIST,), kwargs={"timeout": 60.0}) for _ in range(READERS)
    ]
    for reader in readers:
        reader.start()
    wait_for(lambda: gateway.waiting >= 40, what="all threads for reads to be busy")
    for path in ("/healthz", "/readyz"):
        assert requests.get(url + path, timeout=30).status_code == 200
    assert not gateway.free.is_set()
    gateway.free.set()
    for reader in readers:
        reader.join(60.0)
        assert not reader.is_alive()


def test_a_standby_tells_the_age_of_what_it_shows(gateway: Stuck, url: str) -> None:
    gateway.free.set()
    assert STATE_AGE not in requests.get(url + LIST, timeout=30).headers
    gateway.stand_by("http://127.0.0.1:1")
    assert requests.get(url + LIST, timeout=30).headers[STATE_AGE] == "0.4"
