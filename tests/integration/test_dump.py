"""`bcs dump` against a real scheduler on the embedded cluster."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.local.cluster import LocalCluster
from bcs_scheduler.local.settings import ClusterSettings
from tests.integration.schedulerprocess import SchedulerProcess, document

AGENTS, TASKGROUPS = 4, 6
PATIENCE = 60.0
QUEUE: dict[str, Any] = {"apiVersion": "v4", "kind": "queue", "metadata": {"name": "quartz-queue"}, "spec": {}}
CLASS: dict[str, Any] = {"kind": "PriorityClass", "metadata": {"name": "quick-class"}, "value": 7}
GROUP: dict[str, Any] = {
    "kind": "PodGroup",
    "metadata": {"name": "quorum-group", "namespace": "default"},
    "spec": {"minMember": 1},
}
CONFIDENTIAL = "hunter2"


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SchedulerProcess]:
    folder = tmp_path_factory.mktemp("dump")
    settings = ClusterSettings(agents=AGENTS, cpus=4, mem=4096, synthetic=True, attributes="rack:quiet-rack")
    with LocalCluster(settings) as cluster:
        made = SchedulerProcess(folder, f"sqlite:///{folder / 'state.db'}", cluster.url)
        try:
            made.start().wait_ready()
            made.call("POST", "/queues", QUEUE)
            made.call("POST", "/priorityclasses", CLASS)
            made.call("POST", "/namespaces/default/podgroups", GROUP)
            container = {"env": [{"name": "PASSWORD", "value": CONFIDENTIAL}]}
            application = document("quail", TASKGROUPS, ["/bin/sleep", "1000"], container=container)
            application["metadata"]["labels"] = {"quarter": "quayside"}
            most = {"name": "hostname", "operate": "MAXPER", "type": 3, "text": {"value": "2"}}
            application["constraint"] = {"intersectionItem": [{"unionData": [most]}]}
            made.call("POST", "/namespaces/default/applications", application)
            made.wait_running("quail", TASKGROUPS)
            yield made
        finally:
            made.stop()


NAMES = ("quail", "quartz-queue", "quick-class", "quorum-group", "quarter", "quayside", "quiet-rack", "agent-1")


def dumped(scheduler: SchedulerProcess, file: Path, *options: str) -> str:
    environment = {**os.environ, "BCS_SERVER": scheduler.url}
    command = [sys.executable, "-m", "bcs_scheduler.cli.main", "dump", str(file), *options]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return gzip.decompress(file.read_bytes()).decode()


def test_a_dump_has_the_objects_of_the_api(scheduler: SchedulerProcess, tmp_path: Path) -> None:
    text = dumped(scheduler, tmp_path / "dump.json.gz", "--events")
    assert CONFIDENTIAL not in text and "/bin/sleep" not in text
    assert [name for name in NAMES if name not in text] == []
    found = json.loads(text)
    assert found["missing"] == []
    for section, path in {
        "agents": "/agents", "namespaces": "/namespaces", "queues": "/queues", "priorityClasses": "/priorityclasses",
        "applications": "/applications", "taskgroups": "/taskgroups", "podGroups": "/namespaces/default/podgroups",
        "deployments": "/deployments", "daemonsets": "/daemonsets",
    }.items():  # fmt: skip
        assert len(found[section]) == len(scheduler.call("GET", path)), section
    assert (len(found["agents"]), len(found["taskgroups"])) == (AGENTS, TASKGROUPS)
    assert {group["status"] for group in found["taskgroups"]} == {"Running"}
    agents = {agent["id"]: agent for agent in found["agents"]}
    held = [sum(group["agent"] == key for group in found["taskgroups"]) for key in agents]
    assert held == [agent["taskgroups"] for agent in agents.values()]
    assert all(agent["total"]["cpus"] == 4 for agent in agents.values())
    assert {"application", "taskgroup"} & {event["kind"] for event in found["events"]}


@pytest.mark.parametrize("options", [(), ("--anonymize",)], ids=["plain", "anonymized"])
def test_the_simulation_of_a_dump_begins_with_its_placements(
    scheduler: SchedulerProcess, tmp_path: Path, options: tuple[str, ...]
) -> None:
    file = tmp_path / "dump.json.gz"
    found = json.loads(dumped(scheduler, file, *options))
    (demand,) = found["demands"]
    assert [one["operator"] for union in demand["constraints"] for one in union] == ["MAXPER"]
    assert demand["containers"][0]["resources"]["Cpus"] > 0
    command = [sys.executable, "-m", "bcs_scheduler.cli.main", "simulate", "--dump", str(file), "--for", "10m"]
    done = subprocess.run([*command, "-o", "json"], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    cores = sum(group["resources"]["Cpus"] for group in found["taskgroups"])
    assert run["cpusUsed"] == pytest.approx(cores / (4 * AGENTS), rel=0.01)
    assert (run["total"]["launched"], run["total"]["waiting"]) == (0, 0)


def test_an_anonymized_dump_has_no_names_and_the_same_numbers(scheduler: SchedulerProcess, tmp_path: Path) -> None:
    plain = json.loads(dumped(scheduler, tmp_path / "plain.json.gz", "--events"))
    text = dumped(scheduler, tmp_path / "hidden.json.gz", "--events", "--anonymize")
    agents = plain["agents"]
    addresses = {agent[key] for agent in agents for key in ("id", "hostname", "ip")} - {""}
    ids = {group["id"] for group in plain["taskgroups"]}
    assert [name for name in (*NAMES, CONFIDENTIAL, *addresses, *ids) if name in text] == []
    hidden = json.loads(text)
    assert hidden["anonymized"] is True
    assert {k: len(v) for k, v in plain.items() if isinstance(v, list)} == {
        k: len(v) for k, v in hidden.items() if isinstance(v, list)
    }
    assert sorted(str(agent["total"]) for agent in agents) == sorted(str(agent["total"]) for agent in hidden["agents"])
    assert {group["application"] for group in hidden["taskgroups"]} == {hidden["applications"][0]["name"]}
    assert {group["agent"] for group in hidden["taskgroups"]} <= {agent["id"] for agent in hidden["agents"]}
