"""Reservations on the embedded cluster: placeholders gather the room of a gang, or of a group of applications, beside
work that competes for it, and a new leader continues."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.local.cluster import LocalCluster
from bcs_scheduler.local.settings import ClusterSettings
from tests.integration.policyparts import PREEMPTING, application
from tests.integration.schedulerprocess import SchedulerProcess
from tests.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.rotating]

APPLICATIONS = "/namespaces/default/applications"
GROUPS = "/namespaces/default/podgroups"
PATIENCE = 60.0


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    """Three agents, each with room for four taskgroups of a core."""
    with LocalCluster(ClusterSettings(agents=3, cpus=4.5, mem=4096, synthetic=True)) as cluster:
        yield cluster


@pytest.fixture
def policy() -> str:
    return "simple"


@pytest.fixture(params=["sleep", "reserve", "hold"])
def form(request: pytest.FixtureRequest) -> str:
    """How placeholders hold their room."""
    found: str = request.param
    return found


@pytest.fixture
def scheduler(tmp_path: Path, cluster: LocalCluster, policy: str, form: str) -> Iterator[SchedulerProcess]:
    settings = {"scheduler__policy": policy, "scheduler__placeholders": form, "mesos__roles": '["bcs"]'}
    if policy == "session":
        (tmp_path / "policy.yaml").write_text(PREEMPTING)
        settings["scheduler__policy_file"] = str(tmp_path / "policy.yaml")
    process = SchedulerProcess(tmp_path, f"sqlite:///{tmp_path / 'state.db'}", cluster.url, **settings)
    try:
        yield process.start().wait_ready()
    finally:
        process.stop()


def reserved(name: str, instances: int, parameters: str = "") -> dict[str, Any]:
    made = application(name, instances, least=instances)
    made["metadata"]["annotations"] = {"yunikorn.apache.org/schedulingPolicyParameters": parameters}
    return made


def placeholders(scheduler: SchedulerProcess, status: str = "Running") -> list[str]:
    found = [one["Name"] for one in scheduler.call("GET", APPLICATIONS) if one["Name"].startswith("tg-")]
    return [name for name in found for group in scheduler.taskgroups(name) if group["Status"] == status]


@pytest.mark.parametrize("policy", ["simple", "session", "hierarchical"])
def test_a_reservation_gathers_the_room_that_becomes_free(scheduler: SchedulerProcess) -> None:
    scheduler.call("POST", APPLICATIONS, application("filler", 8))
    scheduler.wait_running("filler", 8)
    scheduler.call("POST", APPLICATIONS, reserved("gang", 6))
    wait_for(lambda: len(placeholders(scheduler)) == 4, PATIENCE, "four placeholders")
    scheduler.call("POST", APPLICATIONS, application("rival", 4))
    (operation,) = scheduler.call("GET", f"{APPLICATIONS}/gang/explain")["transactions"]
    assert "room of its gang" in str(operation)
    scheduler.kill()
    scheduler.start().wait_ready()
    assert len(placeholders(scheduler)) == 4, "the placeholders outlive the leader"
    for left in (7, 6):
        scheduler.call("PUT", f"{APPLICATIONS}/filler/scale/{left}")
    scheduler.wait_running("gang", 6)
    wait_for(lambda: placeholders(scheduler) == [], PATIENCE, "the end of the placeholders")
    assert scheduler.taskgroups("rival") == [], "nothing was left for others"
    reasons = {event["reason"] for event in scheduler.call("GET", "/namespaces/default/events")}
    assert {"ReservationStarted", "ReservationComplete"} <= reasons


def test_a_group_gathers_its_room_and_starts_at_once_also_after_the_end_of_its_leader(
    scheduler: SchedulerProcess,
) -> None:
    """The leader is killed twice: while room is gathered, and when the last room becomes free."""
    scheduler.call("POST", APPLICATIONS, application("filler", 8))
    scheduler.wait_running("filler", 8)
    group = {
        "kind": "PodGroup",
        "metadata": {"name": "train", "annotations": {"yunikorn.apache.org/schedulingPolicyParameters": ""}},
        "spec": {"minTaskMember": {"master": 2, "worker": 4}},
    }
    scheduler.call("POST", GROUPS, group)
    scheduler.call("POST", APPLICATIONS, grouped("master", 2))
    scheduler.call("POST", APPLICATIONS, grouped("worker", 4))
    wait_for(lambda: len(placeholders(scheduler)) == 4, PATIENCE, "four placeholders")
    scheduler.call("POST", APPLICATIONS, application("rival", 4))
    scheduler.kill()
    scheduler.start().wait_ready()
    assert len(placeholders(scheduler)) == 4, "the placeholders outlive the leader"
    assert reservation(scheduler) == {"state": "Reserving", "needed": 6, "holding": 4}
    assert not scheduler.taskgroups("master") and not scheduler.taskgroups("worker")
    for left in (7, 6):
        scheduler.call("PUT", f"{APPLICATIONS}/filler/scale/{left}")
    scheduler.kill()
    scheduler.start().wait_ready()
    scheduler.wait_running("master", 2)
    scheduler.wait_running("worker", 4)
    wait_for(lambda: placeholders(scheduler) == [], PATIENCE, "the end of the placeholders")
    wait_for(lambda: reservation(scheduler) is None, PATIENCE, "the end of the reservation")
    assert scheduler.taskgroups("rival") == [], "nothing was left for others"
    events = scheduler.call("GET", "/namespaces/default/events")
    moments: dict[str, list[str]] = {}
    for event in events:
        moments.setdefault(event["reason"], []).append(event["name"])
    assert moments["GroupReservationStarted"] == moments["GroupReservationComplete"] == ["train"]
    assert sorted(moments["ReservationComplete"]) == ["master", "worker"]


def grouped(name: str, instances: int) -> dict[str, Any]:
    made = application(name, instances)
    made["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "train"}
    return made


def reservation(scheduler: SchedulerProcess) -> dict[str, Any] | None:
    """The reservation of the group without its time."""
    found = scheduler.call("GET", f"{GROUPS}/train")["status"]["reservation"]
    return {key: value for key, value in found.items() if key != "timesOut"} if found is not None else None


def test_a_hard_reservation_that_times_out_fails_and_leaves_nothing(scheduler: SchedulerProcess) -> None:
    scheduler.call("POST", APPLICATIONS, application("filler", 10))
    scheduler.wait_running("filler", 10)
    scheduler.call("POST", APPLICATIONS, reserved("gang", 4, "placeholderTimeoutInSeconds=2 gangSchedulingStyle=Hard"))

    def stopped() -> dict[str, Any] | None:
        view = scheduler.application("gang")
        return view if view is not None and view["Status"] == "Stopped" else None

    wait_for(stopped, PATIENCE, "the end of the reservation")

    def told() -> bool:
        """An event is shown when it is durable, a moment after the state."""
        events = scheduler.call("GET", "/namespaces/default/events")
        return any("ResourceReservationTimeout" in event["message"] for event in events)

    wait_for(told, PATIENCE, "the event of the time-out")
    scheduler.call("POST", APPLICATIONS, application("next", 2))
    scheduler.wait_running("next", 2)
