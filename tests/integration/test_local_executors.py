"""Custom executors on the embedded cluster: what can be done to them on demand, and what is left of them. What any
agent does with them is tested in test_executor_protocol."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from bcs_scheduler.local.cluster import LocalCluster
from bcs_scheduler.local.settings import ClusterSettings
from tests.integration.executorclient import ExecutorClient, Stage
from tests.integration.schedulerclient import SchedulerClient, executor, launch_group, task
from tests.waiting import wait_for

Json = dict[str, Any]

PATIENT = 30.0
IMPATIENT = 0.3
AT_ONCE: Any = {"retry_interval": 0.2, "end_grace": 0.0}
"""The executors of these tests do not end when they are asked."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """Agents that wait for their executors after a restart until they are told that the test is over."""
    settings = ClusterSettings(**AT_ONCE, data=tmp_path / "data", executor_heartbeat_interval=0.1)
    with LocalCluster(settings) as running:
        yield running


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[LocalCluster]:
    """Agents that hardly wait for their executors after a restart."""
    settings = ClusterSettings(**AT_ONCE, data=tmp_path / "data", executor_reregistration_timeout=IMPATIENT)
    with LocalCluster(settings) as running:
        yield running


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[LocalCluster]:
    """Agents that hardly wait for a new executor."""
    settings = ClusterSettings(**AT_ONCE, data=tmp_path / "data", executor_registration_timeout=IMPATIENT)
    with LocalCluster(settings) as running:
        yield running


def connect(cluster: LocalCluster, **info: Any) -> SchedulerClient:
    return SchedulerClient(cluster.url.removeprefix("http://"), **{"checkpoint": True, **info}).subscribe()


def control(cluster: LocalCluster, action: str, **arguments: Any) -> Json:
    answer = requests.post(f"{cluster.url}/control", json={"action": action, **arguments})
    assert answer.status_code == 200, answer.text
    body: Json = answer.json()
    return body


def processes(url: str) -> list[Json]:
    listed: list[Json] = requests.post(f"{url}/control", json={"action": "processes"}).json()["processes"]
    return listed


def executor_pid(cluster: LocalCluster) -> int:
    pid: int = wait_for(lambda: processes(cluster.url), what="the executor")[0]["pid"]
    return pid


def answers(stage: Stage) -> int:
    """What the agent answers to an executor; 0 if it refuses the connection."""
    try:
        return requests.post(stage.executor.url, json=stage.executor.document("MESSAGE", {"data": ""})).status_code
    except requests.ConnectionError:
        return 0


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


# --- the agent goes and comes back ------------------------------------------------------------------------------------


def test_executors_come_back_after_a_restart_of_their_agent(cluster: LocalCluster) -> None:
    stage = Stage(connect(cluster)).started("a").running()
    pid = executor_pid(cluster)
    stage.executor.update("a", "TASK_RUNNING", message="not acknowledged")
    stage.client.update("a", acknowledge=False)
    control(cluster, "bounce_agent", agent=stage.agent_id)
    assert stage.executor.closed.wait(PATIENT)
    wait_for(lambda: answers(stage) == 503, what="an agent that recovers")
    unsent = stage.executor.status("a", "TASK_RUNNING", message="made while the agent was away")
    stage.executor.subscribe(updates=[unsent])
    stage.executor.acknowledged(unsent)
    assert answers(stage) == 503
    wait_for(lambda: answers(stage) == 202, what="the end of the recovery")
    repeated = stage.client.event("UPDATE", lambda body: body["status"].get("message") == "not acknowledged")["status"]
    stage.client.acknowledge(repeated)
    assert stage.status("a")["message"] == "made while the agent was away"
    assert alive(pid)


def test_an_executor_that_stays_away_is_killed(impatient: LocalCluster) -> None:
    stage = Stage(connect(impatient)).started("a").running()
    pid = executor_pid(impatient)
    control(impatient, "bounce_agent", agent=stage.agent_id)
    status = stage.status("a")
    assert (status["state"], status["reason"]) == ("TASK_FAILED", "REASON_EXECUTOR_REREGISTRATION_TIMEOUT")
    assert stage.client.event("FAILURE")["status"] == signal.SIGKILL
    assert not alive(pid)


def test_what_does_not_checkpoint_ends_with_the_agent(impatient: LocalCluster) -> None:
    stage = Stage(connect(impatient, checkpoint=False)).started("a").running()
    pid = executor_pid(impatient)
    control(impatient, "bounce_agent", agent=stage.agent_id)
    status = stage.status("a")
    assert (status["state"], status["reason"]) == ("TASK_GONE", "REASON_AGENT_DISCONNECTED")
    wait_for(lambda: not alive(pid), what="the end of the executor")


def test_an_executor_must_register_in_time(hasty: LocalCluster) -> None:
    stage = Stage(connect(hasty)).launch("a")
    status = stage.status("a")
    assert (status["state"], status["reason"]) == ("TASK_FAILED", "REASON_EXECUTOR_REGISTRATION_TIMEOUT")
    assert status["message"] == "Executor did not register within 300ms"


def test_an_agent_falls_silent_for_its_executors(cluster: LocalCluster) -> None:
    stage = Stage(connect(cluster)).started("a")
    control(cluster, "pause_api", agent=stage.agent_id)
    assert stage.executor.closed.wait(PATIENT)
    assert (answers(stage), stage.client.reconcile("a")["state"]) == (0, "TASK_RUNNING")
    control(cluster, "resume_api", agent=stage.agent_id)
    wait_for(lambda: answers(stage) == 202, what="the agent at its old address")
    stage.executor.subscribe()
    stage.executor.update("a", "TASK_FINISHED")
    assert stage.status("a")["state"] == "TASK_FINISHED"


def test_silence_ends_by_itself(cluster: LocalCluster) -> None:
    stage = Stage(connect(cluster)).started("a")
    control(cluster, "pause_api", agent=stage.agent_id, seconds=IMPATIENT)
    assert stage.executor.closed.wait(PATIENT)
    wait_for(lambda: answers(stage) == 202, what="the agent at its old address")


def test_a_machine_takes_its_executors_along(cluster: LocalCluster) -> None:
    stage = Stage(connect(cluster)).started("a").running()
    pid = executor_pid(cluster)
    control(cluster, "kill_agent", agent=stage.agent_id)
    assert stage.client.update("a", acknowledge=False)["state"] == "TASK_UNREACHABLE"
    wait_for(lambda: not alive(pid), what="the end of the executor")
    control(cluster, "restart_agent", agent=stage.agent_id)
    assert stage.client.states("a", "TASK_FAILED")[-1] == "TASK_FAILED"
    wait_for(lambda: answers(stage) == 400, what="an agent that knows nothing of the executor")


def test_an_idle_executor_survives_a_partition(cluster: LocalCluster) -> None:
    stage = Stage(connect(cluster)).started("a").running()
    stage.executor.update("a", "TASK_FINISHED")
    assert stage.status("a")["state"] == "TASK_FINISHED"
    control(cluster, "partition_agent", agent=stage.agent_id)
    stage.client.reconcile("none")  # the answer comes after the end of the offers of the agent
    control(cluster, "restart_agent", agent=stage.agent_id)
    offer = stage.client.offers(1, lambda offer: offer["agent_id"]["value"] == stage.agent_id)[0]
    stage.client.accept([offer], launch_group(stage.info(), stage.task("b")))
    assert stage.executor.event("LAUNCH_GROUP", lambda body: "b" in str(body))


# --- messages ---------------------------------------------------------------------------------------------------------


def send(stage: Stage, data: bytes) -> None:
    body = {"agent_id": stage.offer["agent_id"], "executor_id": {"value": stage.executor_id}}
    stage.client.call("MESSAGE", {**body, "data": base64.b64encode(data).decode()})


def test_messages_are_lost_in_both_directions(cluster: LocalCluster) -> None:
    stage = Stage(connect(cluster)).started("a")
    control(cluster, "drop_messages", count=2)
    send(stage, b"lost")
    stage.executor.message(b"lost")
    send(stage, b"down")
    stage.executor.message(b"up")
    assert base64.b64decode(stage.executor.event("MESSAGE")["data"]) == b"down"
    assert base64.b64decode(stage.client.event("MESSAGE")["data"]) == b"up"


def test_the_stream_of_an_executor_has_heartbeats(cluster: LocalCluster) -> None:
    stage = Stage(connect(cluster)).started("a")
    for _ in range(2):
        stage.executor.event("HEARTBEAT")


def test_synthetic_executors_answer_that_all_went_well() -> None:
    with LocalCluster(ClusterSettings(synthetic=True)) as synthetic:
        stage = Stage(connect(synthetic)).launch("a", "b")
        for task_id in ("a", "b"):
            stage.client.states(task_id, "TASK_RUNNING")
        asked = {"v": 1, "type": "message", "id": "7", "kind": "signal", "tasks": ["a", "b"], "body": {"signal": 1}}
        send(stage, b"no message at all")
        send(stage, json.dumps(asked).encode())
        answer = json.loads(base64.b64decode(stage.client.event("MESSAGE")["data"]))
        assert (answer["v"], answer["type"], answer["id"], answer["status"]) == (1, "answer", "7", "success")
        results = [
            (result["task"], result["ok"], result["exit_code"], result["stdout"]) for result in answer["results"]
        ]
        assert results == [("a", True, 0, ""), ("b", True, 0, "")]


# --- one agent and another --------------------------------------------------------------------------------------------


def test_an_agent_knows_its_own_executors_only(cluster: LocalCluster) -> None:
    stage = Stage(connect(cluster)).started("a")
    call = {"type": "GET_AGENTS"}
    listed = requests.post(f"{cluster.url}/api/v1", json=call, headers={"Accept": "application/json"}).json()
    addresses = {agent["pid"].partition("@")[2] for agent in listed["get_agents"]["agents"]}
    assert len(addresses) == 3
    for address in addresses - {stage.agent}:
        other = ExecutorClient(address, stage.executor.framework_id, stage.executor_id)
        assert other.post(other.document("SUBSCRIBE", {})).status_code == 400
        query: dict[str, Any] = {"path": stage.sandbox, "offset": 0}
        assert requests.get(f"http://{address}/files/browse", params=query).status_code == 404


def test_each_path_of_an_agent_has_its_long_form(cluster: LocalCluster) -> None:
    stage = Stage(connect(cluster)).started("a").running()
    answer = requests.get(f"http://{stage.agent}/slave(1)/files/browse", params={"path": stage.sandbox})
    assert {entry["path"].rpartition("/")[2] for entry in answer.json()} == {"up", "stdout", "stderr"}


# --- what is left -----------------------------------------------------------------------------------------------------

TREE = "setsid sh -c 'trap \"\" TERM; echo $$ > pid; exec sleep 1000' & exec sleep 1000"


def child_of(url: str) -> tuple[int, int]:
    """The executor, and what it started in another session."""
    found = wait_for(lambda: processes(url), what="the executor")[0]
    file = Path(found["sandbox"], "pid")
    return found["pid"], int(wait_for(lambda: file.exists() and file.read_text().strip(), what="the child"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_executor_outlives_the_program(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "bcs_scheduler.local.main", "--port", "0", "--data", str(tmp_path)]
    program = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert program.stdout is not None
        url = program.stdout.readline().strip()
        client = SchedulerClient(url.removeprefix("http://"), checkpoint=True).subscribe()
        Stage(client).started("a", command=TREE)
        pids = child_of(url)
        assert all(alive(pid) for pid in pids)
        program.send_signal(number)
        program.wait(30)
        wait_for(lambda: not any(alive(pid) for pid in pids), what="the end of the executor")
    finally:
        program.kill()
        program.wait()


def test_a_cluster_that_starts_again_knows_no_executors(tmp_path: Path) -> None:
    settings = ClusterSettings(data=tmp_path)
    with LocalCluster(settings) as cluster:
        stage = Stage(connect(cluster)).started("a", command=TREE)
        pids = child_of(cluster.url)
    assert not any(alive(pid) for pid in pids)
    with LocalCluster(settings) as cluster:
        again = connect(cluster, id=stage.client.info["id"])
        assert again.reconcile("a", stage.agent_id)["state"] == "TASK_GONE"
        assert control(cluster, "processes") == {"processes": []}


def test_the_newest_sandbox_is_shown(cluster: LocalCluster) -> None:
    stage = Stage(connect(cluster))
    for task_id in ("t1", "t2"):
        command = launch_group(executor(stage.executor_id, stage.client), task(task_id, stage.offer, f"echo {task_id}"))
        stage.client.accept([stage.offer], command)
        assert stage.client.states(task_id, "TASK_FINISHED")
        stage.client.event("FAILURE")
        assert stage.read(f"tasks/{task_id}/stdout") == f"{task_id}\n"
        stage.offer = stage.client.offers(1, lambda offer: offer["agent_id"]["value"] == stage.agent_id)[0]
    assert stage.read("tasks/t1/stdout") == ""
