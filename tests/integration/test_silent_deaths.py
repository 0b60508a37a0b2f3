"""Taskgroups that die without a word on the real Mesos: executor and agent are killed together before the first status
can be sent. Each of them is noticed soon after the agent is back, and replaced."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.integration.executortraces import processes_of
from tests.integration.mesoscluster import RealMesos
from tests.integration.schedulerprocess import SchedulerProcess, document
from tests.integration.soakrules import settling
from tests.waiting import wait_for

pytestmark = [pytest.mark.mesos, pytest.mark.slow, pytest.mark.rotating]
APPS = "/namespaces/default/applications"
SOON = 90.0
"""Seconds from the return of the agents until every taskgroup that died is noticed."""
COUNT = 4
LIVE = ("Staging", "Starting", "Running")


@pytest.fixture
def scheduler(own_mesos: RealMesos, tmp_path: Path) -> Iterator[SchedulerProcess]:
    process = SchedulerProcess(tmp_path, f"sqlite:///{tmp_path}/state.db", own_mesos.url)
    try:
        yield process.start().wait_leading()
    finally:
        process.stop()


def kill_executors(groups: set[str]) -> None:
    """Again until none is left: a process may have started another one meanwhile."""

    def left() -> list[int]:
        found = [pid for identity in groups for pid in processes_of(identity)]
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return found

    wait_for(lambda: not left(), what="the end of the executors")


@pytest.mark.parametrize("executor", ["bcs", "mesos"])
@pytest.mark.parametrize("fault", ["executor", "agent-with-executor", "agent-without-its-memory"])
def test_a_taskgroup_that_dies_before_its_first_status_is_noticed(
    own_mesos: RealMesos, scheduler: SchedulerProcess, executor: str, fault: str
) -> None:
    """`agent-without-its-memory`: what the agent has checkpointed is gone too, as after a recovery that has failed, so
    it registers as another agent and never reports what it ran."""
    body = document("dying", COUNT, ["/bin/sleep", "1000"], restartPolicy={"policy": "Always", "interval": 0})
    scheduler.call("POST", APPS, body | {"executor": executor})
    first = wait_for(
        lambda: {g["ID"] for g in scheduler.taskgroups("dying") if processes_of(g["ID"])}, 30, "the first executor"
    )
    first |= {group["ID"] for group in scheduler.taskgroups("dying")}
    if fault == "executor":
        kill_executors(first)
    else:
        for name in own_mesos.agents:
            own_mesos.kill_agent(name, with_tasks=True)
        kill_executors(first)
        if fault == "agent-without-its-memory":
            for name in own_mesos.agents:
                for meta in (own_mesos.directory / name).rglob("meta"):
                    shutil.rmtree(meta)
        own_mesos.start_process(*own_mesos.agents)
        own_mesos.wait_for_agents(3)

    def unnoticed() -> list[str]:
        return [g["ID"] for g in scheduler.taskgroups("dying") if g["Status"] in LIVE and not processes_of(g["ID"])]

    def settled() -> bool:
        running = [g for g in scheduler.taskgroups("dying") if g["Status"] == "Running"]
        return len(running) == COUNT and not unnoticed()

    wait_for(settled, SOON, lambda: f"replacements; unnoticed: {unnoticed()} of {scheduler.taskgroups('dying')}")


@pytest.mark.parametrize("executor", ["bcs", "mesos"])
@pytest.mark.parametrize("fault", ["agent", "agent-and-scheduler", "master", "master-and-agent"])
def test_a_launch_that_is_interrupted_on_its_way_ends_well(
    ha_mesos: RealMesos, tmp_path: Path, executor: str, fault: str
) -> None:
    """The fault comes as soon as the taskgroups are recorded: the launch is with the master, on its way to the agents,
    or with executors that have not begun. Whatever became of it, no taskgroup stays Staging or Starting without a
    process, and none runs twice."""
    mesos = ha_mesos
    scheduler = SchedulerProcess(tmp_path, f"sqlite:///{tmp_path}/state.db", mesos.zk_url)
    try:
        scheduler.start().wait_ready()
        body = document("hasty", COUNT, ["/bin/sleep", "1000"], restartPolicy={"policy": "Always", "interval": 0})
        scheduler.call("POST", APPS, body | {"executor": executor})
        wait_for(lambda: scheduler.taskgroups("hasty"), 30, "the first record")
        if "master" in fault:
            leading = mesos.wait_for_leader()
            mesos.kill_process(leading)
            mesos.start_process(leading)
        if "agent" in fault:
            mesos.kill_process(*mesos.agents)
            mesos.start_process(*mesos.agents)
        if "scheduler" in fault:
            scheduler.kill()
            scheduler.start()
        mesos.wait_for_leader()
        mesos.wait_for_agents(3)
        scheduler.wait_ready()
        seen: list[str] = []

        def settled() -> bool:
            with suppress(AssertionError, OSError):
                seen[:] = settling(scheduler, mesos)
                return not seen
            return False

        wait_for(settled, SOON, lambda: f"what is wanted: {seen}")
        assert len(scheduler.taskgroups("hasty")) == COUNT
    finally:
        scheduler.stop()
