"""A drain on the embedded cluster, while an application with health checks serves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.integration.localmesos import LocalMesosProcess
from tests.integration.schedulerprocess import SchedulerProcess, document
from tests.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.rotating]

PATIENCE = 90.0
INSTANCES, BOUND = 6, 1
PAUSE = 0.05
"""Seconds between two looks at all that serves: what is ended is away for longer, until its place is filled."""
SERVE = (
    'mkdir -p page && echo ok > page/health && cd page && exec python3 -m http.server "$PORT_http" '
    '--bind "$BCS_NODE_IP"'
)


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[SchedulerProcess]:
    cluster = LocalMesosProcess(tmp_path, "--ports=24300-24399", "--agents=3").start()
    store = f"sqlite:///{tmp_path / 'state.db'}"
    process = SchedulerProcess(tmp_path, store, cluster.url, executor__default="bcs")
    try:
        yield process.start().wait_ready()
    finally:
        process.stop()
        cluster.stop()


def application() -> dict[str, Any]:
    made = document("web", INSTANCES, [SERVE], updatePolicy={"maxUnavailable": BOUND})
    (container,) = made["spec"]["template"]["spec"]["containers"]
    del container["args"]
    container["resources"] = {"limits": {"cpu": "0.1", "memory": "64"}}
    container["ports"] = [{"name": "http", "protocol": "http"}]
    check = {"portName": "http", "path": "/health"}
    # However slow the machine is, late answers end no task.
    limits = {"intervalSeconds": 3, "timeoutSeconds": 2, "consecutiveFailures": 1000}
    container["healthChecks"] = [{"type": "HTTP", "http": check, **limits}]
    return made


def healthy(scheduler: SchedulerProcess) -> list[dict[str, Any]]:
    """Taskgroups that run and pass their checks."""
    return [
        group
        for group in scheduler.taskgroups("web")
        if group["Status"] == "Running" and all(task["IsChecked"] and task["Healthy"] for task in group["Taskgroup"])
    ]


def serves(group: dict[str, Any]) -> bool:
    (task,) = group["Taskgroup"]
    try:
        url = f"http://{task['AgentIPAddress']}:{task['PortMappings'][0]['HostPort']}/health"
        return requests.get(url, timeout=30).text == "ok\n"
    except requests.RequestException:
        return False


class Observer:
    """Asks again and again how many serve, until it is closed."""

    def __init__(self, count: Callable[[], int]) -> None:
        self.seen: list[int] = []
        self._count = count
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._observe)
        self._thread.start()

    def _observe(self) -> None:
        while not self._stop.wait(PAUSE):
            self.seen.append(self._count())

    def close(self) -> list[int]:
        self._stop.set()
        self._thread.join()
        return self.seen


def drains(scheduler: SchedulerProcess) -> dict[str, dict[str, Any]]:
    return {drain["innerIP"]: drain for drain in scheduler.call("GET", "/agentsettings/drain")}


def test_never_fewer_serve_than_the_bound_allows(scheduler: SchedulerProcess) -> None:
    """Two agents of three are emptied at the same time; the scheduler is replaced in the middle of it."""
    scheduler.call("POST", "/namespaces/default/applications", application())
    wait_for(lambda: len(healthy(scheduler)) == INSTANCES, PATIENCE, "healthy taskgroups")
    before = {group["ID"] for group in healthy(scheduler)}
    known = {group["ID"]: group for group in healthy(scheduler)}

    def serving() -> int:
        """Of what has ever been healthy: each is asked itself. What has become healthy while others were asked was so
        before the next was ended for it, and counts."""
        asked = set(map(serves_now, list(known)))
        with suppress(requests.RequestException, AssertionError):  # it may be away; what serves does not depend on it
            known.update({group["ID"]: group for group in healthy(scheduler)})
        asked |= {serves_now(identity) for identity in known if identity not in asked}
        return len(asked - {""})

    def serves_now(identity: str) -> str:
        return identity if serves(known[identity]) else ""

    observer = Observer(serving)
    scheduler.call("POST", "/agentsettings/drain", ips="agent-1,agent-2", atOnce=3)

    def some_moved() -> bool:
        return any(group["ID"] not in before for group in healthy(scheduler))

    wait_for(some_moved, PATIENCE, "a move")
    scheduler.kill()
    scheduler.start().wait_leading()
    wait_for(
        lambda: all(drain["state"] == "drained" for drain in drains(scheduler).values()),
        PATIENCE,
        lambda: f"the end of the drains: {drains(scheduler)}",
    )
    seen = observer.close()
    assert len(seen) > 10
    assert min(seen) >= INSTANCES - BOUND, seen
    assert {group["HostName"] for group in healthy(scheduler)} == {"agent-3"}
    assert len(healthy(scheduler)) == INSTANCES


def test_what_has_no_place_stays_until_there_is_one(scheduler: SchedulerProcess) -> None:
    scheduler.call("POST", "/namespaces/default/applications", application())
    wait_for(lambda: len(healthy(scheduler)) == INSTANCES, PATIENCE, "healthy taskgroups")
    before = {group["ID"] for group in healthy(scheduler)}
    scheduler.call("POST", "/agentsettings/disable", ips="agent-2,agent-3")
    scheduler.call("POST", "/agentsettings/drain", ips="agent-1")

    def told() -> bool:
        return "no other agent has room" in drains(scheduler)["agent-1"]["message"]

    wait_for(told, PATIENCE, lambda: f"the reason: {drains(scheduler)}")
    assert {group["ID"] for group in healthy(scheduler)} == before
    scheduler.call("POST", "/agentsettings/enable", ips="agent-2")
    wait_for(lambda: drains(scheduler)["agent-1"]["state"] == "drained", PATIENCE, lambda: f"{drains(scheduler)}")
    assert not [group for group in healthy(scheduler) if group["HostName"] == "agent-1"]
