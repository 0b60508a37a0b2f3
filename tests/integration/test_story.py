"""`bcs story` over a real failover: two schedulers on ZooKeeper, an agent that is lost and returns, and a drain."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.chaos import role_of
from tests.integration.chaosusers import application
from tests.integration.devprocess import claim_ports
from tests.integration.localmesos import LocalMesosProcess
from tests.integration.schedulerprocess import SchedulerProcess
from tests.integration.zookeeper import ZooKeeperServer
from tests.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.zookeeper, pytest.mark.rotating]

Json = dict[str, Any]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalMesosProcess]:
    first, claim = claim_ports()
    ports = f"--ports={first}-{first + 11}"
    process = LocalMesosProcess(tmp_path, "--agents=3", "--cpus=4", ports).start()
    yield process
    process.stop()
    claim.close()


@pytest.fixture
def schedulers(cluster: LocalMesosProcess, tmp_path: Path) -> Iterator[list[SchedulerProcess]]:
    server = ZooKeeperServer(tmp_path)
    server.start()
    started: list[SchedulerProcess] = []
    try:
        for name in ("first", "second"):
            (tmp_path / name).mkdir()
            settings = {"store__session_timeout": "1.5", "scheduler__agent_return": "1", "scheduler__offer_hold": "1"}
            store = f"zk://{server.hosts}/story"
            started.append(SchedulerProcess(tmp_path / name, store, cluster.url, **settings).start())
        yield started
    finally:
        for scheduler in started:
            scheduler.stop()
        server.stop()


def leader_of(schedulers: list[SchedulerProcess]) -> SchedulerProcess:
    def leading() -> list[SchedulerProcess]:
        return [one for one in schedulers if one.runs and role_of(one) == "master" and one.ready()]

    return wait_for(leading, 60, "a leader")[0]


def bcs(scheduler: SchedulerProcess, *arguments: str) -> str:
    command = [sys.executable, "-m", "bcs_scheduler.cli.main", "--server", scheduler.url, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def story(scheduler: SchedulerProcess, *words: str) -> Json:
    found: Json = json.loads(bcs(scheduler, "story", *words, "-n", "default", "-o", "json"))
    return found


def until(scheduler: SchedulerProcess, words: tuple[str, ...], shows: Callable[[Json], object]) -> Json:
    """The story once it shows something."""
    seen: list[Json] = []

    def look() -> bool:
        seen[:] = [story(scheduler, *words)]
        return bool(shows(seen[0]))

    wait_for(look, 60, lambda: f"in the story: {json.dumps(seen)[-3000:]}")
    return seen[0]


def reasons(found: Json, kind: str = "") -> list[str]:
    """Reasons of the events in their order, of one type of cause or of all."""
    return [event["reason"] for cause in found["causes"] if kind in ("", cause["type"]) for event in cause["events"]]


def test_a_story_over_a_failover_an_agent_that_is_lost_and_a_drain(
    cluster: LocalMesosProcess, schedulers: list[SchedulerProcess]
) -> None:
    leader = leader_of(schedulers)
    wanted = application("web", 3, 1000)
    wanted["constraint"] = {"intersectionItem": [{"unionData": [{"name": "hostname", "operate": "UNIQUE"}]}]}
    leader.call("POST", "/namespaces/default/applications", wanted)
    leader.wait_running("web", 3)
    first = until(leader, ("app", "web"), lambda found: "ApplicationRunning" in reasons(found))
    (request,) = [cause for cause in first["causes"] if cause["type"] == "request"]
    assert [one["operation"] for one in request["transactions"]] == ["launch"]
    assert "leader" not in {cause["type"] for cause in first["causes"]}

    other = next(one for one in schedulers if one is not leader)
    leader.kill()
    other.wait_leading()
    took_over = until(other, ("app", "web"), lambda found: "LeaderTookOver" in reasons(found, "leader"))
    (change,) = [cause for cause in took_over["causes"] if cause["type"] == "leader"]
    assert change["events"][0]["reason"] == "LeaderTookOver"
    assert change["events"][0]["message"].startswith(f"{other.url} took over, term ")
    assert took_over["causes"][0] == first["causes"][0], "the beginning of the story stays"

    cluster.control("kill_agent", agent="agent-1")
    lost = until(other, ("app", "web"), lambda found: {"AgentLeft", "TaskGroupLost"} <= set(reasons(found)))
    (left,) = [e for cause in lost["causes"] for e in cause["events"] if e["reason"] == "AgentLeft"]
    gone = [e for cause in lost["causes"] for e in cause["events"] if e["reason"] == "TaskGroupLost"]
    assert {event["agent"] for event in gone} == {left["name"]}
    cluster.control("restart_agent", agent="agent-1")
    until(other, ("app", "web"), lambda found: "AgentJoined" in reasons(found))
    other.wait_running("web", 3)

    host = next(group["HostName"] for group in other.call("GET", "/namespaces/default/applications/web/taskgroups"))
    bcs(other, "drain", host, "--no-wait")
    drained = until(other, ("app", "web"), lambda found: "DrainStarted" in reasons(found, "request"))
    assert "AgentLeft" in reasons(drained)
    agent = story(other, "agent", host)
    assert "DrainStarted" in reasons(agent) and "TaskGroupLost" not in reasons(agent)
    text = bcs(other, "story", "app", "web", "-n", "default")
    assert "change of leader" in text and f"LeaderTookOver: {other.url} took over" in " ".join(text.split())
