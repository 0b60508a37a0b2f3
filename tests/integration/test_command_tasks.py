"""Tasks that frameworks launch by a command alone (LAUNCH without an executor): one set of tests for the real Mesos and
for the embedded cluster."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.integration.localmesos import ENDED
from tests.integration.schedulerclient import (
    CAPABILITIES,
    SchedulerClient,
    amounts,
    executor,
    fresh,
    scalar,
    task,
)  # fmt: skip
from tests.waiting import wait_for

Json = dict[str, Any]
FINISHED, FAILED, KILLED = "TASK_FINISHED", "TASK_FAILED", "TASK_KILLED"
EXECUTOR, AGENT, MASTER = "SOURCE_EXECUTOR", "SOURCE_AGENT", "SOURCE_MASTER"
UP = ["TASK_STARTING", "TASK_RUNNING"]
STUBBORN = "trap '' TERM; touch ready; while :; do sleep 0.1; done"


@pytest.fixture(params=["embedded_mesos", pytest.param("real_mesos", marks=pytest.mark.mesos)])
def client(request: pytest.FixtureRequest) -> Any:
    """A framework on a cluster whose agents run processes."""
    cluster = request.getfixturevalue(request.param)
    address = cluster if isinstance(cluster, str) else cluster.masters["solo"]
    client = SchedulerClient(address).subscribe()
    yield client
    client.teardown()


def launch(*tasks: Json) -> Json:
    return {"type": "LAUNCH", "launch": {"task_infos": list(tasks)}}


def start(client: SchedulerClient, command: str | Json, **more: Any) -> tuple[str, Json]:
    """Id of the task and the offer it is launched on; the other offers are given back."""
    offer, *others = client.offers(3)
    client.decline(others, 0.0)
    name = fresh("command")
    info = task(name, offer, **more)
    info["command"] = {"shell": True, "value": command} if isinstance(command, str) else command
    client.accept([offer], launch(info))
    return name, offer


def history(client: SchedulerClient, name: str, last: str) -> list[Json]:
    """Statuses of the task up to one of this state, all acknowledged."""
    statuses = [client.update(name)]
    while statuses[-1]["state"] not in ENDED | {last}:
        statuses.append(client.update(name))
    assert statuses[-1]["state"] == last, statuses
    return statuses


def words(status: Json) -> tuple[str, str | None, str | None]:
    return status["source"], status.get("reason"), status.get("message")


def states(statuses: list[Json]) -> list[str]:
    return [status["state"] for status in statuses]


ENDS: dict[str, tuple[str, str]] = {
    "exit 0": (FINISHED, "Command exited with status 0"),
    "exit 3": (FAILED, "Command exited with status 3"),
    "kill -9 $$": (FAILED, "Command terminated with signal Killed"),
    "/no/such/program": (FAILED, "Command exited with status 127"),
}


@pytest.mark.parametrize("command", ENDS)
def test_the_end_of_a_command(client: SchedulerClient, command: str) -> None:
    state, message = ENDS[command]
    name, offer = start(client, command)
    statuses = history(client, name, state)
    assert states(statuses) == [*UP, state]
    assert words(statuses[-1]) == (EXECUTOR, None, message)
    for status in statuses:
        assert (status["executor_id"], status["agent_id"]) == ({"value": name}, offer["agent_id"])
        address = status["container_status"]["network_infos"][0]["ip_addresses"][0]["ip_address"]
        assert address == "127.0.0.1"
    assert client.reconcile(name, offer["agent_id"]["value"])["state"] == "TASK_GONE"
    assert_given_back(client, offer)


def assert_given_back(client: SchedulerClient, offer: Json) -> None:
    """All that was offered is offered again, in one piece or several."""
    total = 0.0
    while total < cpus(offer) - 0.001:
        total += sum(cpus(o) for o in client.offers(1, lambda o: o["agent_id"] == offer["agent_id"]))
    assert total == pytest.approx(cpus(offer))


def cpus(offer: Json) -> float:
    return float(next(r for r in offer["resources"] if r["name"] == "cpus")["scalar"]["value"])


def test_a_program_with_arguments_runs_in_its_sandbox(client: SchedulerClient) -> None:
    script = "echo $0 $1 $MESOS_TASK_ID $MESOS_EXECUTOR_ID $MINE; pwd; test $PWD = $MESOS_SANDBOX"
    command = {
        "shell": False,
        "value": "/bin/sh",
        "arguments": ["sh", "-c", script, "zero", "one two"],
        "environment": {"variables": [{"name": "MINE", "value": "my own"}]},
    }
    name, offer = start(client, command)
    assert history(client, name, FINISHED)
    folder = f"/frameworks/{client.info['id']['value']}/executors/{name}/runs/latest"
    agent = f"http://127.0.0.1:{offer['url']['address']['port']}"
    read = requests.get(f"{agent}/files/read", params={"path": f"{folder}/stdout", "offset": "0"})
    first, second = read.json()["data"].splitlines()[-2:]
    assert first == f"zero one two {name} {name} my own"
    assert f"/executors/{name}/runs/" in second


def test_a_program_that_does_not_exist(client: SchedulerClient) -> None:
    name, _ = start(client, {"shell": False, "value": "/no/such/program", "arguments": ["x"]})
    statuses = history(client, name, FAILED)
    assert statuses[0]["state"] == "TASK_STARTING"
    source, reason, message = words(statuses[-1])
    assert (source, reason) == (EXECUTOR, None)
    assert "/no/such/program" in str(message)


def test_files_that_cannot_be_fetched(client: SchedulerClient) -> None:
    name, _ = start(client, {"shell": True, "value": "true", "uris": [{"value": "/no/such/file"}]})
    (status,) = history(client, name, FAILED)
    source, reason, message = words(status)
    assert (source, reason) == (AGENT, "REASON_CONTAINER_LAUNCH_FAILED")
    assert str(message).startswith("Failed to launch container: Failed to fetch all URIs for container")


def test_files_are_fetched_before_the_command_starts(client: SchedulerClient, tmp_path: Path) -> None:
    (tmp_path / "given").write_text("hello")
    tmp_path.chmod(0o755)
    uris = [{"value": str(tmp_path / "given")}]
    name, _ = start(client, {"shell": True, "value": "grep hello given", "uris": uris})
    assert states(history(client, name, FINISHED)) == [*UP, FINISHED]


def test_a_user_who_does_not_exist(client: SchedulerClient) -> None:
    name, _ = start(client, {"shell": True, "value": "true", "user": "nosuchuser"})
    (status,) = history(client, name, "TASK_DROPPED")
    source, reason, message = words(status)
    assert (source, reason) == (AGENT, "REASON_EXECUTOR_TERMINATED")
    assert str(message).startswith("Failed to create executor directory")
    assert str(message).endswith("No such user 'nosuchuser'")


def test_a_command_without_a_value(client: SchedulerClient) -> None:
    name, _ = start(client, {"shell": True})
    statuses = history(client, name, FAILED)
    assert words(statuses[-1]) == (AGENT, "REASON_EXECUTOR_TERMINATED", "Executor terminated")


def kill(client: SchedulerClient, name: str, **more: Any) -> list[Json]:
    client.call("KILL", {"task_id": {"value": name}, **more})
    return history(client, name, KILLED)


def test_a_kill(client: SchedulerClient) -> None:
    name, _ = start(client, "sleep 1000")
    assert states(history(client, name, "TASK_RUNNING")) == UP
    statuses = kill(client, name)
    assert states(statuses) == ["TASK_KILLING", KILLED]
    assert words(statuses[-1]) == (EXECUTOR, None, "Command terminated with signal Terminated")


def test_a_command_may_end_by_itself_when_it_is_killed(client: SchedulerClient, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    name, _ = start(client, f"trap 'exit 0' TERM; touch {shlex.quote(str(ready))}; while :; do sleep 0.1; done")
    history(client, name, "TASK_RUNNING")
    wait_for(ready.exists)
    assert words(kill(client, name)[-1]) == (EXECUTOR, None, "Command exited with status 0")


@pytest.mark.parametrize("given", ["with the kill", "with the task"])
def test_a_command_that_does_not_end_is_killed_after_its_grace_period(
    client: SchedulerClient, tmp_path: Path, given: str
) -> None:
    ready = tmp_path / "ready"
    policy = {"kill_policy": {"grace_period": {"nanoseconds": 300_000_000}}}
    command = f"trap '' TERM; touch {shlex.quote(str(ready))}; while :; do sleep 0.1; done"
    name, _ = start(client, command, **(policy if given == "with the task" else {}))
    history(client, name, "TASK_RUNNING")
    wait_for(ready.exists)
    statuses = kill(client, name, **(policy if given == "with the kill" else {}))
    assert states(statuses) == ["TASK_KILLING", KILLED]
    assert words(statuses[-1]) == (EXECUTOR, None, "Command terminated with signal Killed")
    assert statuses[1]["timestamp"] - statuses[0]["timestamp"] >= 0.3


def test_a_command_that_runs_for_too_long(client: SchedulerClient) -> None:
    name, _ = start(client, "sleep 1000", max_completion_time={"nanoseconds": 200_000_000})
    statuses = history(client, name, FAILED)
    assert states(statuses) == [*UP, FAILED]
    assert words(statuses[-1])[:2] == (EXECUTOR, "REASON_MAX_COMPLETION_TIME_REACHED")


def test_a_command_whose_health_check_fails(client: SchedulerClient) -> None:
    check = {"type": "COMMAND", "command": {"value": "false"}, "interval_seconds": 0.1, "consecutive_failures": 2}
    name, _ = start(client, "sleep 1000", health_check={**check, "grace_period_seconds": 0, "delay_seconds": 0})
    statuses = history(client, name, KILLED)
    assert states(statuses) == [*UP, "TASK_RUNNING", "TASK_RUNNING", "TASK_KILLING", KILLED]
    # Mesos reports the first check before or after the start.
    running = sorted((status.get("healthy") is False, status.get("reason")) for status in statuses[1:4])
    checked = (True, "REASON_TASK_HEALTH_CHECK_STATUS_UPDATED")
    assert running == [(False, running[0][1]), checked, checked]
    assert [statuses[n].get("healthy") for n in (0, 4, 5)] == [None, False, False]


def test_updates_come_one_by_one_and_again_to_a_successor(client: SchedulerClient) -> None:
    name, _ = start(client, "exit 0")
    first = client.update(name, acknowledge=False)
    assert client.reconcile(name)["state"] == first["state"] == "TASK_STARTING"
    successor = SchedulerClient(client.url.split("/")[2], id=client.info["id"]).subscribe()
    again = successor.update(name)
    assert (again["uuid"], again["state"]) == (first["uuid"], first["state"])
    assert states(history(successor, name, FINISHED)) == ["TASK_RUNNING", FINISHED]
    successor.teardown()


def test_reconciliation_knows_no_executor_of_a_command(client: SchedulerClient) -> None:
    name, offer = start(client, "sleep 1000")
    history(client, name, "TASK_RUNNING")
    for known in (client.reconcile(name), client.reconcile(name, offer["agent_id"]["value"])):
        assert (known["state"], known["source"], known["agent_id"]) == ("TASK_RUNNING", MASTER, offer["agent_id"])
        assert "executor_id" not in known and "uuid" not in known
    operator = client.url.removesuffix("/scheduler")
    listed = requests.post(operator, json={"type": "GET_EXECUTORS"}, headers={"Accept": "application/json"}).json()
    mine = [
        e for e in listed["get_executors"].get("executors", ()) if e["executor_info"]["executor_id"]["value"] == name
    ]
    assert mine == []
    state = requests.get(f"{operator.removesuffix('/api/v1')}/master/state").json()
    found = [t for f in state["frameworks"] for t in f["tasks"] if t["id"] == name]
    assert [(t["executor_id"], t["state"]) for t in found] == [("", "TASK_RUNNING")]
    client.call("REVIVE")
    (rest,) = client.offers(1, lambda o: o["agent_id"] == offer["agent_id"])[:1]
    assert "executor_ids" not in rest


def test_shutdown_of_the_executor_of_a_command_kills_the_task(client: SchedulerClient) -> None:
    name, offer = start(client, "sleep 1000")
    history(client, name, "TASK_RUNNING")
    client.call("SHUTDOWN", {"executor_id": {"value": name}, "agent_id": offer["agent_id"]})
    assert history(client, name, KILLED)[-1]["source"] == EXECUTOR
    assert_given_back(client, offer)
    assert [event for event in client.events if event["type"] == "FAILURE"] == []


def _with(**more: Any) -> Any:
    return lambda info, client: {**info, **more}


REFUSED: dict[str, tuple[str, Any]] = {
    "more than offered": ("is more than available", _with(resources=[scalar("cpus", 100)])),
    "other agent": ("Task uses invalid agent", _with(agent_id={"value": "x"})),
    "bad id": ("contains invalid characters", _with(task_id={"value": "bad"}, name="bad/id")),
    "no resources": ("Task uses no resources", _with(resources=[])),
    "command and executor": (
        "at least one (but not both)",
        lambda info, client: {**info, "executor": executor("e", client)},
    ),
    "neither": (
        "at least one (but not both)",
        lambda info, client: {name: value for name, value in info.items() if name != "command"},
    ),
    "negative grace": ("must be non-negative", _with(kill_policy={"grace_period": {"nanoseconds": -1}})),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_command_costs_nothing(client: SchedulerClient, case: str) -> None:
    message, change = REFUSED[case]
    offer, *others = client.offers(3)
    client.decline(others, 0.0)
    bad, good = fresh("bad") + ("/x" if case == "bad id" else ""), fresh("good")
    refused = {**change(task(bad, offer), client), "task_id": {"value": bad}}
    client.accept([offer], launch(refused, task(good, offer, "exit 0"), task(good, offer, "exit 0")))
    status = client.update(bad)
    assert (status["state"], *words(status)[:2]) == ("TASK_ERROR", MASTER, "REASON_TASK_INVALID")
    assert message in status["message"]
    second = client.update(good)
    assert (second["state"], second["message"]) == ("TASK_ERROR", f"Task has duplicate ID: {good}")
    assert history(client, good, FINISHED)
    assert_given_back(client, offer)


def test_commands_with_invalid_offers_are_dropped(client: SchedulerClient) -> None:
    offer = client.offers(3)[0]
    name = fresh("dropped")
    client.accept([{"id": {"value": "nothing"}}], launch(task(name, offer)))
    status = client.update(name)
    assert (status["state"], *words(status)[:2]) == ("TASK_DROPPED", MASTER, "REASON_INVALID_OFFERS")


def test_a_framework_that_knows_no_partitions_is_told_lost(client: SchedulerClient) -> None:
    other = SchedulerClient(client.url.split("/")[2], [c for c in CAPABILITIES if c != "PARTITION_AWARE"])
    client.decline(client.offers(3), 3600.0)
    other.subscribe()
    offer = other.offers(1)[0]
    name = fresh("lost")
    other.accept([offer], launch(task(name, offer, resources=amounts()) | {"command": {"user": "nosuchuser"}}))
    assert (other.update(name))["state"] == "TASK_LOST"
    other.teardown()


def test_a_teardown_ends_the_commands(client: SchedulerClient, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    tmp_path.chmod(0o777)
    name, _ = start(client, f"echo $$ > {shlex.quote(str(pid_file))}; exec sleep 1000")
    history(client, name, "TASK_RUNNING")
    pid = wait_for(lambda: pid_file.exists() and pid_file.read_text().strip())
    assert Path("/proc", pid).exists()
    client.teardown()
    assert client.closed.wait(30)
    wait_for(lambda: not Path("/proc", pid).exists(), 30, "the end of the command")
