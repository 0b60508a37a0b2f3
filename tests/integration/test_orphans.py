"""Nothing runs on unwanted on the real Mesos: what was deleted by force while its agent was away ends when the agent is
back, soon and whoever leads then."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.executortraces import processes_of
from tests.integration.mesoscluster import RealMesos
from tests.integration.schedulerprocess import SchedulerProcess, document
from tests.waiting import wait_for

pytestmark = [pytest.mark.mesos, pytest.mark.slow, pytest.mark.rotating]
APPS = "/namespaces/default/applications"
SOON = 30.0
"""Seconds from the return of the agent until nothing unwanted runs on it (the periodic reconciliation: 900 s)."""


@pytest.fixture
def scheduler(ha_mesos: RealMesos, tmp_path: Path) -> Iterator[SchedulerProcess]:
    process = SchedulerProcess(tmp_path, f"sqlite:///{tmp_path}/state.db", ha_mesos.zk_url)
    try:
        yield process.start().wait_leading()
    finally:
        process.stop()


@pytest.mark.parametrize("successor", [False, True], ids=["same-leader", "new-leader"])
def test_what_was_deleted_by_force_ends_when_its_agent_is_back(
    ha_mesos: RealMesos, scheduler: SchedulerProcess, successor: bool
) -> None:
    for executor in ("bcs", "mesos"):
        scheduler.call("POST", APPS, document(executor, 3, ["/bin/sleep", "1000"]) | {"executor": executor})
    groups = [group for executor in ("bcs", "mesos") for group in scheduler.wait_running(executor, 3)]
    late = next(name for name in ha_mesos.agents if groups[0]["HostName"] == f"agent{name[1:]}")
    there = [group["ID"] for group in groups if group["HostName"] == groups[0]["HostName"]]
    ha_mesos.suspend_process(late)
    try:
        ha_mesos.kill_process(ha_mesos.leader())
        ha_mesos.wait_for_leader()
        ha_mesos.wait_for_agents(2)
        wait_for(scheduler.ready, 60, "a subscription with the new master")
        for executor in ("bcs", "mesos"):
            scheduler.request("DELETE", f"{APPS}/{executor}", enforce="1")
            wait_for(lambda name=executor: scheduler.application(name) is None, 60, "the deletion")  # type: ignore[misc]
        assert all(processes_of(identity) for identity in there), "the agent is away, its tasks are not"
        if successor:
            scheduler.kill()
            scheduler.start().wait_leading()
    finally:
        ha_mesos.resume_process(late)
    ha_mesos.wait_for_agents(3)
    wait_for(lambda: not any(map(processes_of, there)), SOON, lambda: f"the end of {list(map(processes_of, there))}")
