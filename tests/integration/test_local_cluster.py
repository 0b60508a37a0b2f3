"""What only the embedded cluster has: faults on demand, processes that end with it, ids that outlive it."""

from __future__ import annotations

import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import requests

from bcs_scheduler.local.cluster import LocalCluster
from bcs_scheduler.local.errors import SettingsError
from bcs_scheduler.local.settings import ClusterSettings
from bcs_scheduler.mesos.proto import master_pb2, scheduler_pb2
from tests.integration.schedulerclient import SchedulerClient, executor, launch_group, task, uuid_of
from tests.waiting import wait_for

Json = dict[str, Any]


def address(cluster: LocalCluster) -> str:
    return cluster.url.removeprefix("http://")


@pytest.fixture
def synthetic() -> Iterator[LocalCluster]:
    with LocalCluster(ClusterSettings(synthetic=True, retry_interval=0.2)) as cluster:
        yield cluster


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(ClusterSettings(data=tmp_path / "data")) as cluster:
        yield cluster


def control(cluster: LocalCluster, action: str, **arguments: Any) -> Json:
    answer = requests.post(f"{cluster.url}/control", json={"action": action, **arguments})
    assert answer.status_code == 200, answer.text
    body: Json = answer.json()
    return body


def start(
    client: SchedulerClient, command: str = "sleep 1000", task_id: str = "one", agent: str = "agent-1", **more: Any
) -> Json:
    """Launches a group of one task and waits until it runs; returns the offer."""
    offer = client.offers(1, lambda o: o["hostname"] == agent)[0]
    client.accept([offer], launch_group(executor(f"group-{task_id}", client), task(task_id, offer, command, **more)))
    assert client.states(task_id, "TASK_RUNNING") == ["TASK_STARTING", "TASK_RUNNING"]
    return offer


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


# --- faults -----------------------------------------------------------------------------------------------------------


def test_a_killed_agent_takes_its_tasks_along(synthetic: LocalCluster) -> None:
    client = SchedulerClient(address(synthetic)).subscribe()
    offer = start(client)
    agent = offer["agent_id"]["value"]
    rest = client.offers(1, lambda o: o["hostname"] == "agent-1")[0]
    control(synthetic, "kill_agent", agent="agent-1")
    assert client.event("RESCIND")["offer_id"] == rest["id"]
    status = client.update("one")
    assert (status["state"], status["reason"]) == ("TASK_UNREACHABLE", "REASON_AGENT_REMOVED")
    assert "unreachable_time" in status
    assert client.event("FAILURE", lambda body: "executor_id" not in body)["agent_id"]["value"] == agent
    assert client.reconcile("one", agent)["state"] == "TASK_UNREACHABLE"
    control(synthetic, "restart_agent", agent="agent-1")
    status = client.update("one")
    assert (status["state"], status["reason"]) == ("TASK_FAILED", "REASON_EXECUTOR_TERMINATED")
    back = client.offers(1, lambda o: o["hostname"] == "agent-1")[0]
    assert back["agent_id"]["value"] == agent
    assert {r["name"]: r["scalar"]["value"] for r in back["resources"] if "scalar" in r}["cpus"] == 4.0


def test_tasks_survive_a_partition(synthetic: LocalCluster) -> None:
    client = SchedulerClient(address(synthetic)).subscribe()
    offer = start(client)
    control(synthetic, "partition_agent", agent=offer["agent_id"]["value"])
    assert client.update("one")["state"] == "TASK_UNREACHABLE"
    control(synthetic, "restart_agent", agent="agent-1")
    status = client.update("one")
    assert (status["state"], status["reason"]) == ("TASK_RUNNING", "REASON_AGENT_REREGISTERED")
    client.call("KILL", {"task_id": {"value": "one"}})
    assert client.states("one", "TASK_KILLED")[-1] == "TASK_KILLED"


def test_an_agent_given_up_is_gone(synthetic: LocalCluster) -> None:
    client = SchedulerClient(address(synthetic)).subscribe()
    agent = start(client)["agent_id"]["value"]
    control(synthetic, "gone_agent", agent=agent)
    assert client.update("one")["state"] == "TASK_GONE_BY_OPERATOR"
    assert client.reconcile("one", agent)["state"] == "TASK_GONE_BY_OPERATOR"
    answer = requests.post(f"{synthetic.url}/control", json={"action": "restart_agent", "agent": agent})
    assert answer.status_code == 400


def test_lost_updates_are_repeated_with_the_same_uuid(synthetic: LocalCluster) -> None:
    client = SchedulerClient(address(synthetic)).subscribe()
    offer = client.offers(3)[0]
    control(synthetic, "drop_updates", count=1)
    client.accept([offer], launch_group(executor("e", client), task("one", offer)))
    first = client.update("one", acknowledge=False)
    assert first["state"] == "TASK_STARTING"
    second = client.update("one", acknowledge=False)
    assert second["uuid"] == first["uuid"]
    assert client.states("one", "TASK_RUNNING") == ["TASK_STARTING", "TASK_RUNNING"]


def test_updates_can_come_twice_or_late(synthetic: LocalCluster) -> None:
    client = SchedulerClient(address(synthetic)).subscribe()
    offer = client.offers(3)[0]
    control(synthetic, "duplicate_updates", count=1)
    client.accept([offer], launch_group(executor("e", client), task("one", offer)))
    first, second = (client.update("one", acknowledge=False) for _ in range(2))
    assert first["uuid"] == second["uuid"]
    control(synthetic, "delay_updates", count=1, seconds=0.05)
    client.acknowledge(first)
    assert client.update("one")["state"] == "TASK_RUNNING"


def test_tasks_fail_on_request(synthetic: LocalCluster) -> None:
    client = SchedulerClient(address(synthetic)).subscribe()
    start(client, task_id="one")
    start(client, task_id="two")
    assert control(synthetic, "fail_tasks", tasks=["one"], state="TASK_FINISHED")["tasks"] == ["one"]
    assert client.update("one")["state"] == "TASK_FINISHED"
    assert control(synthetic, "fail_tasks", fraction=1.0, message="why not")["tasks"] == ["two"]
    status = client.update("two")
    assert (status["state"], status["message"]) == ("TASK_FAILED", "why not")


def test_offers_can_be_rescinded(synthetic: LocalCluster) -> None:
    client = SchedulerClient(address(synthetic)).subscribe()
    offers = {offer["id"]["value"] for offer in client.offers(3)}
    assert set(control(synthetic, "rescind_offers")["offers"]) == offers
    assert {client.event("RESCIND")["offer_id"]["value"] for _ in offers} == offers
    assert len(client.offers(3)) == 3


def test_streams_can_be_cut(synthetic: LocalCluster) -> None:
    client = SchedulerClient(address(synthetic)).subscribe()
    control(synthetic, "disconnect_frameworks")
    assert client.closed.wait(30)
    client.closed.clear()
    client.subscribe()
    assert len(client.offers(3, lambda o: True)) >= 3


def test_maintenance_asks_frameworks_to_leave(synthetic: LocalCluster) -> None:
    client = SchedulerClient(address(synthetic)).subscribe()
    offer = start(client)
    control(synthetic, "maintenance", agent="agent-1", start=2_000_000_000, duration=60)
    inverse = client.event("INVERSE_OFFERS")["inverse_offers"][0]
    assert inverse["agent_id"] == offer["agent_id"]
    assert inverse["unavailability"]["start"]["nanoseconds"] == 2_000_000_000 * 10**9
    client.call("ACCEPT_INVERSE_OFFERS", {"inverse_offer_ids": [inverse["id"]]})
    client.offers(1, lambda o: o["hostname"] == "agent-1" and "unavailability" in o)
    control(synthetic, "end_maintenance", agent="agent-1")
    client.offers(1, lambda o: o["hostname"] == "agent-1" and "unavailability" not in o)


@pytest.mark.parametrize(
    "body", ["{", "[]", "{}", '{"action": "kill_agent"}', '{"action": "kill_agent", "agent": "x"}']
)
def test_control_says_what_it_does_not_understand(synthetic: LocalCluster, body: str) -> None:
    answer = requests.post(f"{synthetic.url}/control", data=body)
    assert answer.status_code == 400
    assert answer.json()["error"]


# --- offers -----------------------------------------------------------------------------------------------------------


def test_frameworks_take_turns(synthetic: LocalCluster) -> None:
    clients = [SchedulerClient(address(synthetic)) for _ in range(3)]
    for client in clients:
        client.subscribe()
    first = clients[0].offers()
    clients[0].decline(first, 3600.0)
    second = clients[1].offers()
    clients[1].decline(second, 3600.0)
    assert clients[2].offers()


def test_reserved_resources_go_to_their_role() -> None:
    with LocalCluster(ClusterSettings(synthetic=True, agents=1, reservations="web=cpus:1")) as cluster:
        other = SchedulerClient(address(cluster), roles=["batch"]).subscribe()
        cpus = [r for r in other.offers()[0]["resources"] if r["name"] == "cpus"]
        assert [r["scalar"]["value"] for r in cpus] == [3.0]
        other.teardown()
        web = SchedulerClient(address(cluster), roles=["web/shop"]).subscribe()
        cpus = [r for r in web.offers()[0]["resources"] if r["name"] == "cpus"]
        assert sorted(r["scalar"]["value"] for r in cpus) == [1.0, 3.0]
        assert [r["reservations"] for r in cpus if "reservations" in r] == [[{"role": "web", "type": "STATIC"}]]


def test_attributes_follow_their_pattern() -> None:
    settings = ClusterSettings(synthetic=True, attributes="rack:r{n%2};ip:{n};zone:z1;range:[1-3]")
    with LocalCluster(settings) as cluster:
        offers = SchedulerClient(address(cluster)).subscribe().offers(3)
        seen = {o["hostname"]: {a["name"]: a for a in o["attributes"]} for o in offers}
    assert [seen[f"agent-{n}"]["rack"]["text"]["value"] for n in (1, 2, 3)] == ["r1", "r0", "r1"]
    assert seen["agent-2"]["ip"]["scalar"]["value"] == 2.0
    assert seen["agent-3"]["range"]["ranges"]["range"] == [{"begin": 1, "end": 3}]


def test_a_bad_setting_is_named() -> None:
    with pytest.raises(SettingsError, match="attributes"):
        LocalCluster(ClusterSettings(attributes="rack")).start()


def test_thousands_of_agents_in_one_process() -> None:
    with LocalCluster(ClusterSettings(synthetic=True, agents=2000)) as cluster:
        offers = SchedulerClient(address(cluster)).subscribe().offers(2000)
        assert len({offer["agent_id"]["value"] for offer in offers}) == 2000


# --- processes --------------------------------------------------------------------------------------------------------


def test_a_task_writes_into_its_sandbox(processes: LocalCluster) -> None:
    client = SchedulerClient(address(processes)).subscribe()
    environment = {"variables": [{"name": "GREETING", "value": "hello"}]}
    command = 'echo "$GREETING"; echo oops >&2; pwd > where; sleep 1000'
    start(client, task_id="one", resources=executor("", client)["resources"])
    offer = client.offers(1, lambda o: o["hostname"] == "agent-1")[0]
    info = task("two", offer)
    info["command"] = {"value": command, "environment": environment}
    client.accept([offer], launch_group(executor("e", client), info))
    client.states("two", "TASK_RUNNING")
    listed = {p["task"]: p for p in control(processes, "processes")["processes"]}
    sandbox = Path(listed["two"]["sandbox"])
    wait_for(lambda: (sandbox / "where").exists() and (sandbox / "where").read_text(), what="the file")
    assert (sandbox / "where").read_text().strip() == str(sandbox)
    assert ((sandbox / "stdout").read_text(), (sandbox / "stderr").read_text()) == ("hello\n", "oops\n")
    assert os.getpgid(listed["two"]["pid"]) == listed["two"]["pid"]


@pytest.mark.parametrize(
    ("command", "state", "message"),
    [
        ("true", "TASK_FINISHED", "Command exited with status 0"),
        ("exit 3", "TASK_FAILED", "Command exited with status 3"),
        ("kill -9 $$", "TASK_FAILED", "Command terminated with signal Killed"),
    ],
)
def test_the_exit_decides_the_state(processes: LocalCluster, command: str, state: str, message: str) -> None:
    client = SchedulerClient(address(processes)).subscribe()
    offer = client.offers(3)[0]
    client.accept([offer], launch_group(executor("e", client), task("one", offer, command)))
    last = [client.update("one") for _ in range(3)][-1]
    assert (last["state"], last["message"]) == (state, message)
    assert client.event("FAILURE")["executor_id"]["value"] == "e"


def test_a_failure_takes_the_group_along_but_a_success_does_not(processes: LocalCluster) -> None:
    client = SchedulerClient(address(processes)).subscribe()
    offer = client.offers(3)[0]
    failing = task("failing", offer, "while ! test -e go; do sleep 0.02; done; exit 1")
    done, other = task("done", offer, "true"), task("o", offer)
    client.accept([offer], launch_group(executor("e", client), done, failing, other))
    assert client.states("done", "TASK_FINISHED")[-1] == "TASK_FINISHED"
    assert client.states("o", "TASK_RUNNING")[-1] == client.states("failing", "TASK_RUNNING")[-1] == "TASK_RUNNING"
    sandbox = next(p["sandbox"] for p in control(processes, "processes")["processes"] if p["task"] == "failing")
    Path(sandbox, "go").touch()
    assert client.update("failing")["state"] == "TASK_FAILED"
    assert client.states("o", "TASK_KILLED") == ["TASK_KILLING", "TASK_KILLED"]


def test_a_program_that_does_not_exist_fails(processes: LocalCluster) -> None:
    client = SchedulerClient(address(processes)).subscribe()
    offer = client.offers(3)[0]
    info = task("one", offer)
    info["command"] = {"shell": False, "value": "/no/such/program"}
    client.accept([offer], launch_group(executor("e", client), info))
    states = [client.update("one") for _ in range(2)]
    assert [s["state"] for s in states] == ["TASK_STARTING", "TASK_FAILED"]
    assert "/no/such/program" in states[1]["message"]


def test_a_task_that_ignores_sigterm_is_killed_after_its_grace(processes: LocalCluster) -> None:
    client = SchedulerClient(address(processes)).subscribe()
    policy = {"grace_period": {"nanoseconds": 100_000_000}}
    start(client, "trap '' TERM; touch ready; while true; do sleep 0.05; done", kill_policy=policy)
    listed = control(processes, "processes")["processes"][0]
    wait_for(lambda: Path(listed["sandbox"], "ready").exists(), what="the trap")
    client.call("KILL", {"task_id": {"value": "one"}})
    last = [client.update("one") for _ in range(2)][-1]
    assert (last["state"], last["message"]) == ("TASK_KILLED", "Command terminated with signal Killed")
    wait_for(lambda: not alive(listed["pid"]), what="its end")


def test_a_child_that_left_its_session_ends_with_its_task(processes: LocalCluster) -> None:
    client = SchedulerClient(address(processes)).subscribe()
    start(client, "setsid sleep 1000 & setsid sh -c 'echo $$ > pid; exec sleep 1000' & wait")
    sandbox = Path(control(processes, "processes")["processes"][0]["sandbox"])
    pid = int(wait_for(lambda: (sandbox / "pid").exists() and (sandbox / "pid").read_text(), what="the child"))
    client.call("KILL", {"task_id": {"value": "one"}})
    client.states("one", "TASK_KILLED")
    wait_for(lambda: not alive(pid), what="the end of the child")


def test_a_failing_health_check_ends_the_task(processes: LocalCluster) -> None:
    client = SchedulerClient(address(processes)).subscribe()
    check = {
        "type": "COMMAND", "command": {"value": "test ! -e sick"}, "delay_seconds": 0, "grace_period_seconds": 0,
        "interval_seconds": 0.05, "consecutive_failures": 2,
    }  # fmt: skip
    start(client, health_check=check)
    status = client.update("one")
    assert (status["state"], status["healthy"]) == ("TASK_RUNNING", True)
    assert status["reason"] == "REASON_TASK_HEALTH_CHECK_STATUS_UPDATED"
    Path(control(processes, "processes")["processes"][0]["sandbox"], "sick").touch()
    assert [client.update("one")["healthy"] for _ in range(2)] == [False, False]
    assert client.states("one", "TASK_KILLED")[-1] == "TASK_KILLED"


@pytest.mark.parametrize("kind", ["HTTP", "TCP"])
def test_network_health_checks(processes: LocalCluster, kind: str, tmp_path: Path) -> None:
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, socket.socket() as closed:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        closed.bind(("127.0.0.1", 0))
        client = SchedulerClient(address(processes)).subscribe()
        for name, port, healthy in (("up", server.server_port, True), ("down", closed.getsockname()[1], False)):
            check = {
                "type": kind, kind.lower(): {"port": port}, "delay_seconds": 0, "grace_period_seconds": 0,
                "interval_seconds": 0.05, "consecutive_failures": 1000,
            }  # fmt: skip
            start(client, task_id=name, health_check=check)
            assert client.update(name)["healthy"] is healthy
        server.shutdown()


def test_uris_are_fetched(processes: LocalCluster, tmp_path: Path) -> None:
    (tmp_path / "page").write_text("content")
    with tarfile.open(tmp_path / "archive.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "page", "unpacked")
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client = SchedulerClient(address(processes)).subscribe()
        offer = client.offers(3)[0]
        info = task("one", offer, "cat unpacked renamed")
        info["command"]["uris"] = [
            {"value": f"http://127.0.0.1:{server.server_port}/archive.tar.gz"},
            {"value": f"file://{tmp_path}/page", "output_file": "renamed"},
        ]
        client.accept([offer], launch_group(executor("e", client), info))
        assert client.states("one", "TASK_FINISHED")[-1] == "TASK_FINISHED"
        server.shutdown()
    stdout = next((tmp_path / "data" / "sandboxes").rglob("stdout"))
    assert stdout.read_text() == "contentcontent"


def test_a_uri_that_cannot_be_had_fails_the_task(processes: LocalCluster) -> None:
    client = SchedulerClient(address(processes)).subscribe()
    offer = client.offers(3)[0]
    info = task("one", offer)
    info["command"]["uris"] = [{"value": "file:///no/such/file"}]
    client.accept([offer], launch_group(executor("e", client), info))
    last = [client.update("one") for _ in range(2)][-1]
    assert last["state"] == "TASK_FAILED"
    assert "/no/such/file" in last["message"]


def test_sandboxes_of_a_relative_data_directory_are_told_by_their_whole_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with LocalCluster(ClusterSettings(data=Path("data"))) as cluster:
        client = SchedulerClient(address(cluster)).subscribe()
        start(client, 'echo "$MESOS_SANDBOX" > told.new; mv told.new told; sleep 1000')
        told = wait_for(lambda: list(tmp_path.rglob("told")), what="the task's word")[0]
    assert told.read_text().startswith(f"{tmp_path}/data/sandboxes/")


def test_agent_ids_outlive_the_cluster_but_tasks_do_not(tmp_path: Path) -> None:
    settings = ClusterSettings(data=tmp_path)
    with LocalCluster(settings) as cluster:
        client = SchedulerClient(address(cluster)).subscribe()
        agent = start(client)["agent_id"]["value"]
        pid = control(cluster, "processes")["processes"][0]["pid"]
    assert not alive(pid)
    assert client.closed.wait(30)
    with LocalCluster(settings) as cluster:
        again = SchedulerClient(address(cluster), id=client.info["id"]).subscribe()
        assert again.info["id"] == client.info["id"]
        assert again.reconcile("one", agent)["state"] == "TASK_GONE"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_no_task_outlives_the_program(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "bcs_scheduler.local.main", "--port", "0", "--data", str(tmp_path)]
    program = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert program.stdout is not None
        url = program.stdout.readline().strip()
        client = SchedulerClient(url.removeprefix("http://")).subscribe()
        start(client, "trap '' TERM; setsid sh -c 'echo $$ > pid; exec sleep 1000' & sleep 1000")
        answer = requests.post(f"{url}/control", json={"action": "processes"}).json()["processes"][0]
        file = Path(answer["sandbox"], "pid")
        child = int(wait_for(lambda: file.exists() and file.read_text(), what="the child"))
        assert alive(answer["pid"]) and alive(child)
        program.send_signal(number)
        assert program.wait(30) == (0 if number != signal.SIGKILL else -signal.SIGKILL)
        wait_for(lambda: not alive(answer["pid"]) and not alive(child), what="the end of the task")
    finally:
        program.kill()
        program.wait()


# --- other faces of the master ----------------------------------------------------------------------------------------


def test_operator_api_in_both_encodings(synthetic: LocalCluster) -> None:
    client = SchedulerClient(address(synthetic)).subscribe()
    start(client)
    call = {"type": "GET_STATE"}
    state = requests.post(f"{synthetic.url}/api/v1", json=call, headers={"Accept": "application/json"}).json()
    assert state["type"] == "GET_STATE"
    agents = state["get_state"]["get_agents"]["agents"]
    assert {a["agent_info"]["hostname"] for a in agents} == {"agent-1", "agent-2", "agent-3"}
    used = next(a for a in agents if a["agent_info"]["hostname"] == "agent-1")["allocated_resources"]
    assert {r["name"]: r["scalar"]["value"] for r in used} == {"cpus": 0.2, "mem": 64.0, "disk": 16.0}
    assert state["get_state"]["get_tasks"]["tasks"][0]["state"] == "TASK_RUNNING"
    binary = requests.post(
        f"{synthetic.url}/api/v1",
        data=master_pb2.Call(type=master_pb2.Call.GET_TASKS).SerializeToString(),
        headers={"Content-Type": "application/x-protobuf", "Accept": "application/x-protobuf"},
    )
    answer = master_pb2.Response.FromString(binary.content)
    assert [t.task_id.value for t in answer.get_tasks.tasks] == ["one"]


def test_state_document(synthetic: LocalCluster) -> None:
    client = SchedulerClient(address(synthetic)).subscribe()
    start(client)
    state = requests.get(f"{synthetic.url}/master/state").json()
    assert state["cluster"] == "local"
    assert state["leader"] == f"master@{address(synthetic)}"
    assert [slave["active"] for slave in state["slaves"]] == [True, True, True]
    assert state["frameworks"][0]["tasks"][0]["state"] == "TASK_RUNNING"
    assert requests.get(f"{synthetic.url}/health").status_code == 200
    assert requests.get(f"{synthetic.url}/nothing").status_code == 404


def test_operators_can_tear_frameworks_down(synthetic: LocalCluster) -> None:
    client = SchedulerClient(address(synthetic)).subscribe()
    call = {"type": "TEARDOWN", "teardown": {"framework_id": client.info["id"]}}
    assert requests.post(f"{synthetic.url}/api/v1", json=call).status_code == 200
    assert client.closed.wait(30)
    assert requests.post(f"{synthetic.url}/api/v1", json=call).status_code == 400


def test_calls_can_be_pipelined_in_protobuf(synthetic: LocalCluster) -> None:
    client = SchedulerClient(address(synthetic)).subscribe()
    offer = client.offers(3)[0]
    client.accept([offer], launch_group(executor("e", client), task("one", offer)))
    status = client.update("one", acknowledge=False)
    acknowledge = scheduler_pb2.Call(type=scheduler_pb2.Call.ACKNOWLEDGE)
    acknowledge.framework_id.value = client.info["id"]["value"]
    acknowledge.acknowledge.agent_id.value = status["agent_id"]["value"]
    acknowledge.acknowledge.task_id.value = "one"
    acknowledge.acknowledge.uuid = uuid_of(status)
    body = acknowledge.SerializeToString()
    head = (
        f"POST /api/v1/scheduler HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n"
        f"Mesos-Stream-Id: {client.stream_id}\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()
    host, port = address(synthetic).split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall((head + body) * 1000)
        received = b""
        while received.count(b"HTTP/1.1 202 Accepted\r\n") < 1000:
            data = connection.recv(1 << 16)
            assert data, received[-500:]
            received += data
    assert client.update("one")["state"] == "TASK_RUNNING"


def test_identity_file_is_plain_json(tmp_path: Path) -> None:
    with LocalCluster(ClusterSettings(synthetic=True, data=tmp_path)) as cluster:
        offers = SchedulerClient(address(cluster)).subscribe().offers(3)
    stored = json.loads((tmp_path / "cluster.json").read_text())["agents"]
    assert {offer["agent_id"]["value"] for offer in offers} == set(stored)
