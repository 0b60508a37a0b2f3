"""Policies on the real Mesos: two queues with guarantees compete, a gang waits and then starts at once, an eviction
frees room within the disruption budget."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.mesoscluster import RealMesos
from tests.integration.policyparts import PREEMPTING, application
from tests.integration.schedulerprocess import SchedulerProcess
from tests.waiting import wait_for

pytestmark = pytest.mark.mesos

APPLICATIONS = "/namespaces/{}/applications"
PATIENCE = 120.0
CPU = "0.5"
ROOM = 14
"""Taskgroups of half a core: the agents have 4, 2 and 1 cores, and the executor of Mesos takes none."""
TREE = """
queues:
  - {name: batch, resources: {guaranteed: {cpus: 2}}}
  - {name: online, resources: {guaranteed: {cpus: 2}}, properties: {preemption.delay: 1s}}
placementrules:
  - {name: provided}
  - {name: fixed, value: batch}
"""
GUARANTEED = 4
"""Taskgroups in the guarantee of a queue."""
FILES = {"session": PREEMPTING, "hierarchical": TREE}


@pytest.fixture(params=["session", "hierarchical"])
def policy(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def scheduler(tmp_path: Path, real_mesos: RealMesos, policy: str) -> Iterator[SchedulerProcess]:
    (tmp_path / "policy.yaml").write_text(FILES[policy])
    settings = {
        "scheduler__policy": policy,
        "scheduler__max_priority": "10",
        "scheduler__policy_file": str(tmp_path / "policy.yaml"),
    }
    process = SchedulerProcess(tmp_path, f"sqlite:///{tmp_path / 'state.db'}", real_mesos.url, **settings)
    try:
        yield process.start().wait_ready()
    finally:
        process.stop()


def post(scheduler: SchedulerProcess, name: str, instances: int, namespace: str = "default", **parts: int) -> None:
    made = application(name, instances, cpu=CPU, namespace=namespace, **parts)
    made["updatePolicy"] = {"maxUnavailable": 6}
    scheduler.call("POST", APPLICATIONS.format(namespace), made)


def running(scheduler: SchedulerProcess, name: str, namespace: str = "default") -> int:
    return [group["Status"] for group in scheduler.taskgroups(name, namespace)].count("Running")


def wait_running(scheduler: SchedulerProcess, name: str, count: int, namespace: str = "default") -> None:
    place = APPLICATIONS.format(namespace)
    wait_for(
        lambda: running(scheduler, name, namespace) == count,
        PATIENCE,
        lambda: f"{count} taskgroups of {name}: {scheduler.call('GET', f'{place}/{name}/explain')}",
    )


def test_two_queues_with_guarantees_compete(scheduler: SchedulerProcess, policy: str) -> None:
    """One queue has as much of the cluster as the policy admits, and gives the other queue its part, within the
    disruption budget. A session leaves guarantees unused and then divides the cluster by weight; the tree uses the
    whole cluster and then gives the guarantee back."""
    most, part = (ROOM - GUARANTEED, ROOM // 2) if policy == "session" else (ROOM, GUARANTEED)
    for queue, namespace in (("batch", "default"), ("online", "shop")):
        spec = {"weight": 1, "guarantee": {"cpus": 2}} if policy == "session" else {}
        scheduler.call("POST", "/queues", {"kind": "queue", "metadata": {"name": queue}, "spec": spec})
        settings = {"kind": "namespace", "metadata": {"name": namespace}, "spec": {"queue": queue}}
        scheduler.call("POST", "/namespaces", settings)
    # No taskgroup is evicted while its application is being launched.
    post(scheduler, "report", most)
    wait_running(scheduler, "report", most)
    # No offer is held when the other queue comes. Free room counts before any taskgroup is evicted.
    wait_for(lambda: scheduler.call("GET", "/cluster/current/offers") == [], PATIENCE, "offers to be given back")
    post(scheduler, "web", ROOM, "shop")
    wait_running(scheduler, "web", part, "shop")
    wait_running(scheduler, "report", ROOM - part)
    evicted = most - (ROOM - part)
    found = scheduler.application("report")
    assert found is not None and "shop/web" in found["Message"]

    def reasons() -> list[str]:
        spaces = ("default", "shop")
        return [event["reason"] for space in spaces for event in scheduler.call("GET", f"/namespaces/{space}/events")]

    wait_for(lambda: reasons().count("TaskGroupEvicted") == evicted, PATIENCE, lambda: f"evictions: {reasons()}")
    assert "ApplicationPreempting" in reasons()
    scheduler.call("DELETE", f"{APPLICATIONS.format('shop')}/web")
    wait_running(scheduler, "report", most)


@pytest.mark.parametrize("policy", ["hierarchical"], indirect=True)
@pytest.mark.parametrize("least", [0, pytest.param(GUARANTEED, marks=pytest.mark.rotating)])
def test_a_new_leader_continues_a_preemption(scheduler: SchedulerProcess, least: int) -> None:
    """The leader is killed when the first taskgroups are being ended. Others stay, and those that wait get the room."""
    settings = {"kind": "namespace", "metadata": {"name": "shop"}, "spec": {"queue": "online"}}
    scheduler.call("POST", "/namespaces", settings)
    slow = application("report", ROOM, cpu=CPU)
    slow["updatePolicy"] = {"maxUnavailable": ROOM}
    slow["killPolicy"] = {"gracePeriod": 3}
    (container,) = slow["spec"]["template"]["spec"]["containers"]
    container["command"], container["args"] = "sh", ["-c", "trap '' TERM; while :; do sleep 1; done"]
    scheduler.call("POST", APPLICATIONS.format("default"), slow)
    wait_running(scheduler, "report", ROOM)

    def there() -> set[str]:
        return {group["ID"] for group in scheduler.taskgroups("report") if group["Status"] == "Running"}

    before = there()
    post(scheduler, "web", GUARANTEED, "shop", least=least)
    wait_for(lambda: "shop/web" in str(scheduler.application("report")), PATIENCE, "a taskgroup that is being ended")
    scheduler.kill()
    scheduler.start().wait_ready()
    wait_running(scheduler, "web", GUARANTEED, "shop")
    wait_running(scheduler, "report", ROOM - GUARANTEED)
    assert len(before & there()) == ROOM - GUARANTEED


def test_a_gang_waits_and_then_starts_at_once(scheduler: SchedulerProcess) -> None:
    post(scheduler, "filler", ROOM - 3)
    wait_running(scheduler, "filler", ROOM - 3)
    post(scheduler, "gang", 5, least=5)

    def waits() -> bool:
        (operation,) = scheduler.call("GET", f"{APPLICATIONS.format('default')}/gang/explain")["transactions"]
        return (operation["placing"] or {}).get("gang") == {"needed": 5, "found": 3}

    wait_for(waits, PATIENCE, "the explanation of the gang")
    assert scheduler.taskgroups("gang") == [], "no part of the gang is launched"
    scheduler.call("PUT", f"{APPLICATIONS.format('default')}/filler/scale/{ROOM - 5}")
    wait_running(scheduler, "gang", 5)
    begins = [group["StartTime"] for group in scheduler.taskgroups("gang")]
    assert max(begins) - min(begins) <= 1, "one decision launches the whole gang"


@pytest.mark.parametrize("policy", ["session"], indirect=True)
def test_an_eviction_frees_room_within_the_budget(scheduler: SchedulerProcess) -> None:
    post(scheduler, "low", ROOM)
    wait_running(scheduler, "low", ROOM)
    post(scheduler, "large", 7, least=7, priority=10)
    post(scheduler, "small", 4, least=4, priority=10)
    wait_running(scheduler, "small", 4)
    assert scheduler.taskgroups("large") == [], "seven would exceed the budget of six"
    events = scheduler.call("GET", "/namespaces/default/events")
    evicted = [event["message"] for event in events if event["reason"] == "TaskGroupEvicted"]
    assert len(evicted) == 4, f"no more than needed: {evicted}"
    wait_running(scheduler, "low", ROOM - 4)  # on a busy machine, a taskgroup may be started again
    for name in ("large", "small"):
        scheduler.call("DELETE", f"{APPLICATIONS.format('default')}/{name}")
    wait_running(scheduler, "low", ROOM)
