"""A reservation on the real Mesos: placeholders gather the room of a gang, and the gang takes the room over although
other work waits for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.integration.mesoscluster import RealMesos
from tests.integration.policyparts import application
from tests.integration.schedulerprocess import SchedulerProcess
from tests.waiting import wait_for

pytestmark = [pytest.mark.mesos, pytest.mark.rotating]

APPLICATIONS = "/namespaces/default/applications"
PATIENCE = 120.0
JSON = {"Accept": "application/json"}
CPU = "0.5"
ROOM = 14
"""Taskgroups of half a core: the agents have 4, 2 and 1 cores, and the executor of Mesos takes none."""
GANG = 6


@pytest.fixture(params=["sleep", "reserve", "hold"])
def scheduler(tmp_path: Path, real_mesos: RealMesos, request: pytest.FixtureRequest) -> Iterator[SchedulerProcess]:
    store = f"sqlite:///{tmp_path / 'state.db'}"
    settings = {"scheduler__placeholders": request.param, "mesos__roles": '["gangs"]'}
    process = SchedulerProcess(tmp_path, store, real_mesos.url, **settings)
    try:
        yield process.start().wait_ready()
    finally:
        process.stop()


def reserved(mesos: RealMesos) -> int:
    """Resources of all agents that are dynamically reserved."""
    answer = requests.post(
        f"http://{mesos.masters['solo']}/api/v1", json={"type": "GET_AGENTS"}, timeout=PATIENCE, headers=JSON
    )
    agents = answer.json()["get_agents"]["agents"]
    return sum("reservations" in resource for agent in agents for resource in agent.get("total_resources", ()))


def running(scheduler: SchedulerProcess, prefix: str) -> int:
    """Taskgroups that run, of all applications whose names begin so."""
    names = [one["Name"] for one in scheduler.call("GET", APPLICATIONS) if one["Name"].startswith(prefix)]
    return sum(group["Status"] == "Running" for name in names for group in scheduler.taskgroups(name))


def test_a_gang_gathers_its_room_and_takes_it_over(scheduler: SchedulerProcess, real_mesos: RealMesos) -> None:
    scheduler.call("POST", APPLICATIONS, application("filler", ROOM - 3, cpu=CPU))
    wait_for(lambda: running(scheduler, "filler") == ROOM - 3, PATIENCE, "the filler")
    gang = application("gang", GANG, least=GANG, cpu=CPU)
    gang["metadata"]["annotations"] = {"yunikorn.apache.org/schedulingPolicyParameters": ""}
    scheduler.call("POST", APPLICATIONS, gang)
    wait_for(lambda: running(scheduler, "tg-gang") == 3, PATIENCE, "three placeholders")
    scheduler.call("POST", APPLICATIONS, application("rival", 6, cpu=CPU))
    found = scheduler.call("GET", f"{APPLICATIONS}/gang/explain")["reservation"]
    assert (found["needed"], found["holding"]) == (GANG, 3)
    scheduler.call("PUT", f"{APPLICATIONS}/filler/scale/{ROOM - GANG}")
    wait_for(
        lambda: running(scheduler, "gang") == GANG,
        PATIENCE,
        lambda: f"the gang: {scheduler.call('GET', f'{APPLICATIONS}/gang/explain')}",
    )
    wait_for(lambda: running(scheduler, "tg-gang") == 0, PATIENCE, "the end of the placeholders")
    wait_for(lambda: reserved(real_mesos) == 0, PATIENCE, "the end of the reservations in Mesos")
    for name in ("gang", "rival", "filler"):
        scheduler.call("DELETE", f"{APPLICATIONS}/{name}")
    wait_for(lambda: scheduler.call("GET", APPLICATIONS) == [], PATIENCE, "the end of all applications")
