"""Reservations that compete, and leaders that die at any step: gangs block each other for a limited time, and no room
is kept for a gang that does not exist. Each test runs in all forms of placeholders."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from bcs_scheduler.local.cluster import LocalCluster
from bcs_scheduler.local.settings import ClusterSettings
from tests.integration.policyparts import application
from tests.integration.schedulerprocess import SchedulerProcess
from tests.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.rotating]

APPLICATIONS = "/namespaces/default/applications"
PATIENCE = 90.0
FORMS = ("sleep", "reserve", "hold")


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    """Two agents, each with room for three taskgroups of a core."""
    with LocalCluster(ClusterSettings(agents=2, cpus=3.5, mem=4096, synthetic=True)) as cluster:
        yield cluster


@pytest.fixture(params=FORMS)
def scheduler(tmp_path: Path, cluster: LocalCluster, request: pytest.FixtureRequest) -> Iterator[SchedulerProcess]:
    settings = {"scheduler__placeholders": request.param, "mesos__roles": '["bcs"]'}
    process = SchedulerProcess(tmp_path, f"sqlite:///{tmp_path / 'state.db'}", cluster.url, **settings)
    try:
        yield process.start().wait_ready()
    finally:
        process.stop()


def gang(name: str, size: int, parameters: str = "") -> dict[str, Any]:
    made = application(name, size, least=size)
    made["metadata"]["annotations"] = {"yunikorn.apache.org/schedulingPolicyParameters": parameters}
    return made


def holding(scheduler: SchedulerProcess, name: str) -> int:
    """Placeholders of a gang that hold room."""
    names = [one["Name"] for one in scheduler.call("GET", APPLICATIONS) if one["Name"].startswith(f"tg-{name}-")]
    return sum(group["Status"] == "Running" for one in names for group in scheduler.taskgroups(one))


def reserved(cluster: LocalCluster) -> int:
    """Resources of all agents that are dynamically reserved."""
    call = {"type": "GET_AGENTS"}
    answer = requests.post(f"{cluster.url}/api/v1", json=call, headers={"Accept": "application/json"}, timeout=PATIENCE)
    agents = answer.json()["get_agents"]["agents"]
    return sum("reservations" in one for agent in agents for one in agent["total_resources"])


def test_a_gang_that_lacks_room_times_out_beside_another(scheduler: SchedulerProcess, cluster: LocalCluster) -> None:
    """The second gang gets too little room; the first one is complete when the filler gives two places back."""
    scheduler.call("POST", APPLICATIONS, application("filler", 3))
    scheduler.wait_running("filler", 3)
    scheduler.call("POST", APPLICATIONS, gang("one", 4, "placeholderTimeoutInSeconds=600"))
    wait_for(lambda: holding(scheduler, "one") == 3, PATIENCE, "the placeholders of the first gang")
    scheduler.call("POST", APPLICATIONS, gang("two", 4, "placeholderTimeoutInSeconds=8 gangSchedulingStyle=Hard"))
    scheduler.call("PUT", f"{APPLICATIONS}/filler/scale/1")
    scheduler.wait_running("one", 4)
    wait_for(lambda: holding(scheduler, "one") == 0, PATIENCE, "the end of the placeholders of the first gang")

    def stopped() -> bool:
        view = scheduler.application("two")
        return view is not None and view["Status"] == "Stopped"

    wait_for(stopped, PATIENCE, "the time-out of the second gang")
    wait_for(lambda: holding(scheduler, "two") == 0, PATIENCE, "the end of the placeholders of the second gang")
    wait_for(lambda: reserved(cluster) == 0, PATIENCE, "the end of the reservations in Mesos")


STEPS = ("asked", "holding some", "holding all but one", "complete")


@pytest.mark.parametrize("step", STEPS)
def test_a_leader_that_dies_leaves_nothing(scheduler: SchedulerProcess, cluster: LocalCluster, step: str) -> None:
    """The gang starts whole after the next leader has taken over, and no room stays kept."""
    scheduler.call("POST", APPLICATIONS, application("filler", 5))
    scheduler.wait_running("filler", 5)
    scheduler.call("POST", APPLICATIONS, gang("gang", 4))
    if step != "asked":
        wait_for(lambda: holding(scheduler, "gang") == 1, PATIENCE, "the first placeholder")
    if step == "holding all but one":
        scheduler.call("PUT", f"{APPLICATIONS}/filler/scale/3")
        wait_for(lambda: holding(scheduler, "gang") == 3, PATIENCE, "three placeholders")
    if step == "complete":
        scheduler.call("PUT", f"{APPLICATIONS}/filler/scale/2")
    scheduler.kill()
    scheduler.start().wait_ready()
    scheduler.call("PUT", f"{APPLICATIONS}/filler/scale/2")
    scheduler.wait_running("gang", 4)
    wait_for(lambda: holding(scheduler, "gang") == 0, PATIENCE, "the end of the placeholders")
    wait_for(lambda: reserved(cluster) == 0, PATIENCE, "the end of the reservations in Mesos")
    assert len(scheduler.taskgroups("gang")) == 4


def test_reservations_of_a_deleted_gang_are_removed_by_the_next_leader(
    scheduler: SchedulerProcess, cluster: LocalCluster
) -> None:
    scheduler.call("POST", APPLICATIONS, application("filler", 5))
    scheduler.wait_running("filler", 5)
    scheduler.call("POST", APPLICATIONS, gang("gang", 4))
    wait_for(lambda: holding(scheduler, "gang") == 1, PATIENCE, "the first placeholder")
    scheduler.call("DELETE", f"{APPLICATIONS}/gang")
    scheduler.kill()
    scheduler.start().wait_ready()
    wait_for(lambda: scheduler.application("gang") is None, PATIENCE, "the end of the gang")
    wait_for(lambda: reserved(cluster) == 0, PATIENCE, "the end of the reservations in Mesos")
    scheduler.call("POST", APPLICATIONS, application("next", 1))
    scheduler.wait_running("next", 1)
