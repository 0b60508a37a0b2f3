"""Policies on the embedded cluster: a gang waits, and starts at once when others have left; priorities decide;
evictions free room within the disruption budget."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bcs_scheduler.local.cluster import LocalCluster
from bcs_scheduler.local.settings import ClusterSettings
from tests.integration.policyparts import PREEMPTING, application
from tests.integration.schedulerprocess import SchedulerProcess
from tests.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.rotating]

APPLICATIONS = "/namespaces/default/applications"
PATIENCE = 60.0
AGENTS = 3


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    """Each agent has room for four taskgroups of a core."""
    with LocalCluster(ClusterSettings(agents=AGENTS, cpus=4.5, mem=4096, synthetic=True)) as cluster:
        yield cluster


@pytest.fixture
def policy() -> str:
    return "session"


@pytest.fixture
def scheduler(tmp_path: Path, cluster: LocalCluster, policy: str) -> Iterator[SchedulerProcess]:
    store = f"sqlite:///{tmp_path / 'state.db'}"
    settings = {"scheduler__policy": policy, "scheduler__max_priority": "10"}
    if policy == "session":
        (tmp_path / "policy.yaml").write_text(PREEMPTING)
        settings["scheduler__policy_file"] = str(tmp_path / "policy.yaml")
    process = SchedulerProcess(tmp_path, store, cluster.url, **settings)
    try:
        yield process.start().wait_ready()
    finally:
        process.stop()


@pytest.mark.parametrize("policy", ["simple", "session"])
def test_a_gang_waits_and_then_starts_at_once(scheduler: SchedulerProcess) -> None:
    scheduler.call("POST", APPLICATIONS, application("filler", 8))
    scheduler.wait_running("filler", 8)
    scheduler.call("POST", APPLICATIONS, application("gang", 6, least=6))

    def waits(found: int) -> bool:
        (operation,) = scheduler.call("GET", f"{APPLICATIONS}/gang/explain")["transactions"]
        return (operation["placing"] or {}).get("gang") == {"needed": 6, "found": found}

    for left in (8, 7):
        scheduler.call("PUT", f"{APPLICATIONS}/filler/scale/{left}")
        wait_for(lambda room=12 - left: waits(room), PATIENCE, f"the explanation beside {left} taskgroups")  # type: ignore[misc]
        assert scheduler.taskgroups("gang") == [], "no part of the gang is launched"
    scheduler.call("PUT", f"{APPLICATIONS}/filler/scale/4")
    scheduler.wait_running("gang", 6)
    _a_group_waits_and_then_starts_at_once(scheduler)


def _a_group_waits_and_then_starts_at_once(scheduler: SchedulerProcess) -> None:
    """Two places are left, and three taskgroups of two applications start together."""
    group = {"kind": "PodGroup", "metadata": {"name": "train"}, "spec": {"minMember": 3}}
    scheduler.call("POST", "/namespaces/default/podgroups", group)
    for name, instances in (("master", 1), ("worker", 2)):
        member = application(name, instances)
        member["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "train"}
        scheduler.call("POST", APPLICATIONS, member)

    def waits() -> bool:
        (operation,) = scheduler.call("GET", f"{APPLICATIONS}/worker/explain")["transactions"]
        held = (operation["placing"] or {}).get("group") or {}
        return (held.get("name"), held.get("needed"), held.get("found")) == ("default/train", 3, 2)

    wait_for(waits, PATIENCE, "the explanation of the group")
    assert scheduler.taskgroups("master") + scheduler.taskgroups("worker") == []
    scheduler.call("PUT", f"{APPLICATIONS}/filler/scale/3")
    scheduler.wait_running("worker", 2)
    scheduler.wait_running("master", 1)
    assert scheduler.call("GET", "/namespaces/default/podgroups/train")["status"]["phase"] == "Running"


def test_the_higher_priority_gets_the_room_that_becomes_free(scheduler: SchedulerProcess) -> None:
    scheduler.call("POST", APPLICATIONS, application("filler", 12))
    scheduler.wait_running("filler", 12)
    scheduler.call("POST", APPLICATIONS, application("low", 6))
    scheduler.call("POST", APPLICATIONS, application("high", 6, priority=10))
    scheduler.call("PUT", f"{APPLICATIONS}/filler/scale/4")
    scheduler.wait_running("high", 6)
    wait_for(lambda: len(scheduler.taskgroups("low")) == 2, PATIENCE, "the rest of the room for the other one")


def test_an_eviction_frees_room_within_the_budget(scheduler: SchedulerProcess) -> None:
    low = application("low", 12)
    low["updatePolicy"] = {"maxUnavailable": 5}
    scheduler.call("POST", APPLICATIONS, low)
    scheduler.wait_running("low", 12)
    scheduler.call("POST", APPLICATIONS, application("large", 6, least=6, priority=10))
    scheduler.call("POST", APPLICATIONS, application("small", 4, least=4, priority=10))
    scheduler.wait_running("small", 4)
    assert scheduler.taskgroups("large") == [], "six would exceed the budget"
    running = [group for group in scheduler.taskgroups("low") if group["Status"] == "Running"]
    assert len(running) == 8, "no more than needed"
    scheduler.call("DELETE", f"{APPLICATIONS}/large")
    scheduler.call("DELETE", f"{APPLICATIONS}/small")
    scheduler.wait_running("low", 12)


def test_a_queue_takes_back_its_share_within_the_budget_and_both_sides_know(scheduler: SchedulerProcess) -> None:
    for queue, namespace in (("batch", "default"), ("online", "shop")):
        scheduler.call("POST", "/queues", {"kind": "queue", "metadata": {"name": queue}, "spec": {"weight": 1}})
        settings = {"kind": "namespace", "metadata": {"name": namespace}, "spec": {"queue": queue}}
        scheduler.call("POST", "/namespaces", settings)
    report = application("report", 12)
    report["updatePolicy"] = {"maxUnavailable": 3}
    scheduler.call("POST", APPLICATIONS, report)
    scheduler.wait_running("report", 12)
    scheduler.call("POST", "/namespaces/shop/applications", application("web", 6, namespace="shop"))

    def running(name: str, namespace: str) -> int:
        return [group["Status"] for group in scheduler.taskgroups(name, namespace)].count("Running")

    wait_for(lambda: running("web", "shop") == 3, PATIENCE, "the part of the share that the budget admits")
    assert running("report", "default") == 9, "the share is six; the budget of the other queue allows three"

    def pending() -> bool:
        found = scheduler.application("report")
        return found is not None and found["Status"] == "Pending" and "shop/web (queue online)" in found["Message"]

    wait_for(pending, PATIENCE, "the application without three taskgroups names the beneficiary")
    used = {each["name"]: each["used"]["cpus"] for each in scheduler.call("GET", "/usage/queues")}
    assert used["batch"] == 3 * used["online"] > 0

    def told() -> bool:
        events = [
            event for space in ("default", "shop") for event in scheduler.call("GET", f"/namespaces/{space}/events")
        ]
        reasons = [event["reason"] for event in events]
        return reasons.count("TaskGroupEvicted") == 3 and "ApplicationPreempting" in reasons

    wait_for(told, PATIENCE, "events of both sides")
    scheduler.call("DELETE", "/namespaces/shop/applications/web")
    scheduler.wait_running("report", 12)
