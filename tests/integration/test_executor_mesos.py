"""Our own executor on the real Mesos: fetched from the scheduler, driven by the documents that come with a launch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.integration.mesoscluster import RealMesos
from tests.integration.schedulerprocess import SchedulerProcess, document
from tests.waiting import wait_for

pytestmark = pytest.mark.mesos

SERVER = ["python3", "-u", "-m", "http.server", "${bcs.ports.http}", "--bind", "127.0.0.1"]
HTTP_PORT = {"ports": [{"name": "http", "protocol": "tcp", "containerPort": 0, "hostPort": 0}]}

StartScheduler = Callable[..., SchedulerProcess]


@pytest.fixture
def start_scheduler(tmp_path: Path) -> Iterator[StartScheduler]:
    """Starts schedulers that use our executor unless told otherwise; ends them afterwards."""
    started: list[SchedulerProcess] = []

    def start(mesos: RealMesos, **settings: str) -> SchedulerProcess:
        folder = tmp_path / str(len(started))
        folder.mkdir()
        settings = {"executor__default": "bcs", **settings}
        scheduler = SchedulerProcess(folder, f"sqlite:///{tmp_path}/state.db", mesos.url, **settings)
        started.append(scheduler)
        return scheduler.start().wait_ready()

    yield start
    for scheduler in started:
        scheduler.stop()


def create(scheduler: SchedulerProcess, body: dict[str, Any]) -> None:
    scheduler.call("POST", "/namespaces/default/applications", body)


def page(taskgroup: dict[str, Any]) -> int:
    """Status of the page a taskgroup serves; 0 while nothing listens."""
    port = taskgroup["Taskgroup"][0]["PortMappings"][0]["HostPort"]
    try:
        return requests.get(f"http://127.0.0.1:{port}/", timeout=5).status_code
    except requests.ConnectionError:
        return 0


def test_launched_scaled_updated_and_deleted(real_mesos: RealMesos, start_scheduler: StartScheduler) -> None:
    scheduler = start_scheduler(real_mesos)
    create(scheduler, document("web", 2, SERVER, container=HTTP_PORT))
    first = scheduler.wait_running("web", 2)
    for taskgroup in first:
        wait_for(lambda group=taskgroup: page(group) == 200, 20, "a page")  # type: ignore[misc]
