"""What is used, measured from end to end: with the real Mesos, and with everything embedded. What the agents say of a
process that burns time and memory is held against what the kernel says of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bcs_scheduler.agentapi.usage import EXECUTOR_ONLY, MIB
from bcs_scheduler.cli.client.client import Client
from bcs_scheduler.local.cluster import LocalCluster
from bcs_scheduler.local.settings import ClusterSettings
from bcs_scheduler.processes import every_stat
from tests.integration.devprocess import Dev
from tests.integration.mesoscluster import RealMesos
from tests.integration.schedulerprocess import SchedulerProcess, document
from tests.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.rotating]

Json = dict[str, Any]

BALLAST = 96
"""MiB that the program holds."""
MARK = "usage-test-burner"
BURNER = f"""
import time  # {MARK}
ballast = bytearray(b'x') * ({BALLAST} * {MIB})
while True:
    burnt = time.process_time() + 0.03
    while time.process_time() < burnt:
        pass
    time.sleep(0.05)
"""
"""A third of a core or so, less where others want it too."""
MEASURED = 1.0
"""Seconds of CPU time that are burnt while it is measured."""
SLACK = 0.4
"""Seconds of CPU time of the executor itself, and of the burner since an answer that the scheduler may use again."""


class Place(NamedTuple):
    client: Client
    inside: Path
    """A folder with the sandboxes of all that runs there."""


@pytest.fixture(params=["dev", pytest.param("real", marks=pytest.mark.mesos)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A scheduler whose taskgroups our own executor runs."""
    if request.param == "dev":
        dev = Dev(tmp_path, BCS_EXECUTOR_DEFAULT="bcs")
        yield Place(Client(str(dev.url)), tmp_path)
        dev.stop()
        return
    mesos: RealMesos = request.getfixturevalue("real_mesos")
    with scheduler(tmp_path, mesos.url, "bcs") as client:
        yield Place(client, mesos.directory)


@contextmanager
def scheduler(folder: Path, mesos: str, executor: str) -> Iterator[Client]:
    process = SchedulerProcess(folder, f"sqlite:///{folder / 'store.db'}", mesos, executor__default=executor)
    process.start().wait_ready()
    try:
        yield Client(process.url)
        for application in process.call("GET", "/applications"):
            deleted = process.call("DELETE", f"/namespaces/default/applications/{application['Name']}")
            process.wait_transaction(deleted["transactionID"])
    finally:
        process.stop()


def run(client: Client, name: str, command: list[str]) -> None:
    container = {"resources": {"limits": {"cpu": "0.5", "memory": "256", "storage": "1"}}}
    client.create(document(name, 1, command, container=container))


def of(found: list[Json], name: str) -> Json | None:
    return next((each for each in found if each["application"] == name), None)


def known(client: Client, name: str) -> Json | None:
    """What the taskgroup of this application uses, when that is known."""
    found = of(client.taskgroup_usage("default"), name)
    return found if found is not None and found["used"]["cpus"] is not None else None


def burnt(inside: Path) -> float:
    """Seconds of CPU time that the burner in this place has had so far, by the kernel."""
    ticks = 0
    for pid, fields in every_stat().items():
        try:
            folder, command = os.readlink(f"/proc/{pid}/cwd"), Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue  # it ended just now, or is not ours
        if folder.startswith(f"{inside}/") and MARK.encode() in command:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def test_cores_and_memory_are_those_of_the_processes(place: Place) -> None:
    client = place.client
    run(client, "burner", ["python3", "-c", BURNER])
    run(client, "idle", ["sleep", "1000"])
    wait_for(lambda: known(client, "burner") and known(client, "idle"), 60, "both to be measured")
    wait_for(lambda: burnt(place.inside) > 0, 30, "the burner")

    earliest = burnt(place.inside)
    client.taskgroup_usage("default")  # the first of two samples
    before = burnt(place.inside)
    wait_for(lambda: burnt(place.inside) >= before + MEASURED, 60, "some time to be burnt")
    least = burnt(place.inside) - before
    found = client.taskgroup_usage("default")
    most = burnt(place.inside) - earliest
    burner, idle = of(found, "burner"), of(found, "idle")
    assert burner is not None and idle is not None

    measured = burner["used"]["cpus"] * burner["interval"]
    assert least - SLACK <= measured <= most + SLACK, (measured, least, most, burner)
    assert idle["used"]["cpus"] * idle["interval"] <= SLACK
    assert BALLAST * 0.9 <= burner["used"]["mem"] - idle["used"]["mem"] <= BALLAST * 1.5
    assert burner["allocated"]["mem"] >= 256 and burner["interval"] >= 1.0

    def every_agent() -> list[Json] | None:
        """An agent has 3 s for its answer, which a busy machine may exceed."""
        found = client.agent_usage()
        return None if any(agent["problem"] for agent in found) else found

    agents = wait_for(every_agent, 60, "the answers of all agents")
    host = next(agent for agent in agents if agent["hostname"] == burner["hostname"])
    assert host["used"]["mem"] >= BALLAST and host["used"]["cpus"] > 0 and host["allocated"]["cpus"] >= 0.5


@pytest.mark.mesos
def test_tasks_of_mesos_own_executor_are_not_known_without_cgroups(real_mesos: RealMesos, tmp_path: Path) -> None:
    """They are in containers of their own, of which an agent with posix isolators counts nothing: to show the
    executor's numbers for them would be wrong."""
    with scheduler(tmp_path, real_mesos.url, "mesos") as client:
        run(client, "burner", ["python3", "-c", BURNER])

        def why() -> str:
            found = of(client.taskgroup_usage("default"), "burner")
            return found["problem"] if found is not None and found["status"] == "Running" else ""

        wait_for(lambda: why() == EXECUTOR_ONLY, 60, why)
        found = of(client.taskgroup_usage("default"), "burner")
        assert found is not None and found["used"] == {"cpus": None, "mem": None, "disk": None}
        host = next(agent for agent in client.agent_usage() if agent["hostname"] == found["hostname"])
        assert host["uncounted"] >= 1


@pytest.mark.mesos
def test_an_agent_that_is_gone_is_named_and_the_others_are_measured(own_mesos: RealMesos, tmp_path: Path) -> None:
    with scheduler(tmp_path, own_mesos.url, "bcs") as client:
        wait_for(lambda: [a["problem"] for a in client.agent_usage()] == [""] * 3, 60, "three agents that answer")
        own_mesos.kill_process("s2")

        def missed() -> list[Json]:
            """That one first, once its last answer does not count any more."""
            found = sorted(client.agent_usage(), key=lambda agent: not agent["problem"])
            return found if found[0]["problem"] else []

        gone, *there = wait_for(missed, 30, "the agent to be missed")
        assert (gone["hostname"], gone["used"]) == ("agent2", {"cpus": None, "mem": None, "disk": None})
        address = f"127.0.0.1:{own_mesos.base_port + 2}"
        assert gone["problem"] == f"agent {address} does not answer: the connection failed"
        assert [agent["used"]["cpus"] for agent in there] == [0.0, 0.0]


def test_tasks_of_mesos_own_executor_are_counted_by_the_embedded_agents(tmp_path: Path) -> None:
    with (
        LocalCluster(ClusterSettings(data=tmp_path / "data")) as cluster,
        scheduler(tmp_path, cluster.url, "mesos") as client,
    ):
        run(client, "burner", ["python3", "-c", BURNER])

        def grown() -> bool:
            found = known(client, "burner")
            return found is not None and found["used"]["mem"] >= BALLAST

        wait_for(grown, 60, "the burner to be measured")
        before = burnt(tmp_path)
        client.taskgroup_usage("default")
        wait_for(lambda: burnt(tmp_path) >= before + MEASURED, 60, "some time to be burnt")
        found = known(client, "burner")
        assert found is not None
        spent = burnt(tmp_path) - before
        assert abs(found["used"]["cpus"] * found["interval"] - spent) <= SLACK


def test_synthetic_agents_tell_nothing(tmp_path: Path) -> None:
    with (
        LocalCluster(ClusterSettings(agents=5, synthetic=True)) as cluster,
        scheduler(tmp_path, cluster.url, "mesos") as client,
    ):
        run(client, "burner", ["true"])
        wait_for(lambda: of(client.taskgroup_usage("default"), "burner"), 30, "the taskgroup")
        found = client.agent_usage()
        assert len(found) == 5
        for agent in found:
            assert agent["used"] == {"cpus": None, "mem": None, "disk": None}
            assert agent["problem"].endswith("does not show the usage of its containers (HTTP 501)")
