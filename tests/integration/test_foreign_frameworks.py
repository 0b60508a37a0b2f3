"""Framework libraries of others (PyPI: avmesos, mesoshttp, pymesos) find the same Mesos in the embedded cluster as in a
real one: subscription, offers, launches, refusals, reconciliation, kills, teardown."""

from __future__ import annotations

import difflib
import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.integration.foreignframeworks import LIBRARIES, Framework
from tests.integration.localmesos import ENDED
from tests.integration.mesoscluster import RealMesos
from tests.integration.schedulerclient import fresh, scalar
from tests.waiting import wait_for

pytestmark = pytest.mark.rotating

Json = dict[str, Any]
VERSION = "1.11.0"
RUNS = ["TASK_STARTING", "TASK_RUNNING"]


@pytest.fixture(params=["embedded_mesos", pytest.param("real_mesos", marks=pytest.mark.mesos)])
def address(request: pytest.FixtureRequest) -> str:
    """Of a master with three agents."""
    cluster = request.getfixturevalue(request.param)
    return cluster if isinstance(cluster, str) else str(cluster.masters["solo"])


@pytest.fixture(params=LIBRARIES)
def framework(request: pytest.FixtureRequest, address: str) -> Iterator[Framework]:
    """Subscribed."""
    framework = LIBRARIES[request.param]()
    framework.start(address)
    try:
        yield framework
    finally:
        framework.stop()


def until(framework: Framework, condition: Callable[[], Any], what: str) -> Any:
    """The first true value of the condition, while the library is kept talking."""

    def poked() -> Any:
        framework.poke()
        return condition()

    return wait_for(poked, 30, lambda: f"{what}; errors: {framework.heard.errors}")


def offers_of_all_agents(framework: Framework) -> list[Json]:
    """One of each agent, the newest."""

    def by_agent() -> dict[str, Json]:
        return {offer["agent_id"]["value"]: offer for offer in list(framework.heard.offers.values())}

    until(framework, lambda: len(by_agent()) == 3, "offers of three agents")
    return list(by_agent().values())


def states(framework: Framework, task_id: str) -> list[str]:
    return [status["state"] for status in framework.heard.of(task_id)]


def last(framework: Framework, task_id: str, state: str) -> Json:
    """The last status of the task, of this state."""

    def reached() -> bool:
        seen = states(framework, task_id)
        return bool(seen) and (seen[-1] == state or seen[-1] in ENDED)

    until(framework, reached, f"{state} of {task_id}")
    status = framework.heard.of(task_id)[-1]
    assert status["state"] == state, status
    return status


def command(task_id: str, offer: Json, value: str, cpus: float = 0.1) -> Json:
    return {
        "name": task_id,
        "task_id": {"value": task_id},
        "agent_id": offer["agent_id"],
        "resources": [scalar("cpus", cpus, None), scalar("mem", 32.0, None)],
        "command": {"shell": True, "value": value},
    }


def tasks_of(address: str, framework_id: str) -> list[Json]:
    """Tasks of the framework, as the master knows them."""
    headers = {"Accept": "application/json"}
    answer = requests.post(f"http://{address}/api/v1", json={"type": "GET_TASKS"}, headers=headers, timeout=60)
    found = answer.json()["get_tasks"].get("tasks", ())
    return [task for task in found if task["framework_id"]["value"] == framework_id]


def running(address: str, framework_id: str) -> set[str]:
    return {task["task_id"]["value"] for task in tasks_of(address, framework_id) if task["state"] not in ENDED}


COMPARED = ("state", "source", "reason", "message", "healthy", "name", "type", "role")
"""Keys whose values are the same in every cluster. Of other keys the presence and the form are compared: ids, times,
amounts and addresses differ between two runs."""

NAMED = re.compile(r"\(allocated: \S+\)|(?<=Offer )\S+|(?<=more than available ).*")
"""Parts of messages that are compared in no case: roles of resources, ids of offers, and the resources of an agent."""


def shape(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: shape(item, name) for name, item in sorted(value.items())}
    if isinstance(value, list):
        return [shape(item, key) for item in value]
    if key == "message":
        return NAMED.sub("", value)
    return value if key in COMPARED else type(value).__name__


def played(library: str, address: str) -> Json:
    """The answers of a cluster to the same calls of a framework, as the library passes them on: offers, the statuses of
    each task in their order, and the master's record of a task that runs."""
    framework = LIBRARIES[library]()
    framework.start(address)
    try:
        until(framework, lambda: framework.heard.framework_id, "the subscription")
        offer = offers_of_all_agents(framework)[0]
        agent = offer["agent_id"]["value"]
        names = {kind: fresh(kind) for kind in ("good", "bad", "missing", "large", "long", "late")}
        framework.launch(
            offer,
            {**command(names["good"], offer, "exit 0"), "name": "good"},
            {**command(names["bad"], offer, "exit 3"), "name": "bad"},
            {**command(names["missing"], offer, "/no/such/program"), "name": "missing"},
            {**command(names["large"], offer, "true", cpus=1000.0), "name": "large"},
            {**command(names["long"], offer, "exec sleep 1000"), "name": "long"},
        )
        ends = {"good": "TASK_FINISHED", "bad": "TASK_FAILED", "missing": "TASK_FAILED", "large": "TASK_ERROR"}
        for kind, state in ends.items():
            last(framework, names[kind], state)
        last(framework, names["long"], "TASK_RUNNING")
        # The offer was used: what is launched with it once more is refused.
        framework.launch(offer, {**command(names["late"], offer, "true"), "name": "late"})
        last(framework, names["late"], "TASK_DROPPED")
        framework.reconcile(names["long"], agent)
        until(framework, lambda: len(states(framework, names["long"])) > 2, "reconciliation")
        wait_for(lambda: running(address, framework.heard.framework_id) == {names["long"]}, 30, "the acknowledgements")
        (record,) = (task for task in tasks_of(address, framework.heard.framework_id) if task["name"] == "long")
        record.pop("statuses", None)  # of the past: the embedded master keeps the last one only
        framework.kill(names["long"], agent)
        last(framework, names["long"], "TASK_KILLED")
        return {
            "offer": shape({name: offer[name] for name in offer if name not in ("attributes", "resources")}),
            "statuses": {kind: [shape(status) for status in framework.heard.of(name)] for kind, name in names.items()},
            "record": shape(record),
            "errors": framework.heard.errors,
        }
    finally:
        framework.stop()


@pytest.mark.mesos
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_framework_hears_the_same_from_both_clusters(
    library: str, embedded_mesos: str, real_mesos: RealMesos
) -> None:
    embedded, real = (
        json.dumps(played(library, address), indent=1).splitlines()
        for address in (embedded_mesos, str(real_mesos.masters["solo"]))
    )
    difference = "\n".join(difflib.unified_diff(real, embedded, "real", "embedded", n=12, lineterm=""))
    assert not difference, difference


def test_the_life_of_a_framework(framework: Framework, address: str, tmp_path: Path) -> None:
    until(framework, lambda: framework.heard.framework_id, "the subscription")
    assert framework.version == VERSION
    offer, *others = offers_of_all_agents(framework)
    for other in others:
        framework.decline(other)
    agent = offer["agent_id"]["value"]
    good, bad, large, long = (fresh(kind) for kind in ("good", "bad", "large", "long"))
    pid_file = tmp_path / "pid"
    tmp_path.chmod(0o777)
    framework.launch(
        offer,
        command(good, offer, "test $MESOS_TASK_ID = " + good),
        command(bad, offer, "exit 3"),
        command(large, offer, "true", cpus=1000.0),
        command(long, offer, f"echo $$ > {shlex.quote(str(pid_file))}; exec sleep 1000"),
    )

    refused = last(framework, large, "TASK_ERROR")
    assert (refused["source"], refused["reason"]) == ("SOURCE_MASTER", "REASON_TASK_INVALID")
    assert "more than available" in refused["message"]
    assert last(framework, good, "TASK_FINISHED")["message"] == "Command exited with status 0"
    assert states(framework, good) == [*RUNS, "TASK_FINISHED"]
    assert last(framework, bad, "TASK_FAILED")["message"] == "Command exited with status 3"
    assert states(framework, bad) == [*RUNS, "TASK_FAILED"]
    last(framework, long, "TASK_RUNNING")
    assert running(address, framework.heard.framework_id) == {long}

    framework.reconcile(long, agent)
    framework.reconcile("stranger", agent)
    until(framework, lambda: len(states(framework, long)) > 2, "reconciliation")
    known, unknown = framework.heard.of(long)[-1], last(framework, "stranger", framework.unknown)
    assert (known["state"], known["agent_id"]["value"]) == ("TASK_RUNNING", agent)
    assert {status["reason"] for status in (known, unknown)} == {"REASON_RECONCILIATION"}
    assert "uuid" not in known

    pid = wait_for(lambda: pid_file.exists() and pid_file.read_text().strip(), 30, "the process")
    framework.kill(long, agent)
    killed = last(framework, long, "TASK_KILLED")
    assert killed["message"] == "Command terminated with signal Terminated"
    assert states(framework, long)[-2:] == ["TASK_KILLING", "TASK_KILLED"]
    wait_for(lambda: not Path("/proc", pid).exists(), 30, "the end of the process")
    wait_for(lambda: running(address, framework.heard.framework_id) == set(), 30, "the acknowledgement")
    assert framework.heard.errors == []


def test_a_teardown_ends_all_tasks(framework: Framework, address: str, tmp_path: Path) -> None:
    offer = offers_of_all_agents(framework)[0]
    name, pid_file = fresh("long"), tmp_path / "pid"
    tmp_path.chmod(0o777)
    framework.launch(offer, command(name, offer, f"echo $$ > {shlex.quote(str(pid_file))}; exec sleep 1000"))
    last(framework, name, "TASK_RUNNING")
    pid = wait_for(lambda: pid_file.exists() and pid_file.read_text().strip(), 30, "the process")
    framework.teardown()
    framework.poke()

    def completed() -> bool:
        state = requests.get(f"http://{address}/state", timeout=60).json()
        return framework.heard.framework_id in [entry["id"] for entry in state["completed_frameworks"]]

    wait_for(completed, 30, "the end of the framework")
    wait_for(lambda: not Path("/proc", pid).exists(), 30, "the end of the process")
