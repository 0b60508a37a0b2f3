"""The executor API as seen by an executor: one set of tests for the agents of the real Mesos and for those of the
embedded cluster, so that the latter are as strict as the former. The test speaks for the executor; the process that
the agent started for it does as its command says."""

from __future__ import annotations

import base64
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from bcs_scheduler.local.cluster import LocalCluster
from bcs_scheduler.local.settings import ClusterSettings
from bcs_scheduler.mesos.proto import executor_pb2
from bcs_scheduler.net.recordio import Decoder
from tests.integration.executorclient import ExecutorClient, Stage
from tests.integration.schedulerclient import SchedulerClient, launch_group
from tests.waiting import wait_for

Json = dict[str, Any]


@pytest.fixture(scope="module", params=["local", pytest.param("real", marks=pytest.mark.mesos)])
def master(request: pytest.FixtureRequest) -> Iterator[str]:
    """Address of a master with three agents."""
    if request.param == "real":
        yield request.getfixturevalue("real_mesos").masters["solo"]
        return
    with LocalCluster(ClusterSettings()) as cluster:
        yield cluster.url.removeprefix("http://")


@pytest.fixture
def client(master: str) -> Iterator[SchedulerClient]:
    client = SchedulerClient(master, checkpoint=True).subscribe()
    yield client
    client.teardown()


@pytest.fixture
def stage(client: SchedulerClient) -> Stage:
    return Stage(client)


# --- subscription -----------------------------------------------------------------------------------------------------


def test_an_executor_learns_what_it_is_and_what_to_run(stage: Stage) -> None:
    stage.launch("a", "b").launched().running().executor.subscribe()
    subscribed = stage.executor.event("SUBSCRIBED")
    assert subscribed["executor_info"]["executor_id"] == {"value": stage.executor_id}
    assert subscribed["framework_info"]["id"] == stage.client.info["id"]
    assert subscribed["agent_info"]["id"] == {"value": stage.agent_id}
    assert subscribed["container_id"]["value"]
    tasks = stage.executor.event("LAUNCH_GROUP")["task_group"]["tasks"]
    assert [(t["task_id"]["value"], base64.b64decode(t["data"])) for t in tasks] == [("a", b"a"), ("b", b"b")]
    assert tasks[0]["executor"]["executor_id"] == {"value": stage.executor_id}


def test_a_single_task_is_launched_as_such(stage: Stage) -> None:
    info = {**stage.task("single"), "executor": stage.info()}
    stage.client.accept([stage.offer], {"type": "LAUNCH", "launch": {"task_infos": [info]}})
    stage.launched().running().executor.subscribe()
    assert stage.executor.event("LAUNCH")["task"]["task_id"] == {"value": "single"}


def test_a_second_group_goes_to_the_same_executor(stage: Stage) -> None:
    stage.started("first")
    offer = stage.client.offers(1, lambda offer: offer["agent_id"]["value"] == stage.agent_id)[0]
    stage.client.accept([offer], launch_group(stage.info(), stage.task("second")))
    assert stage.executor.event("LAUNCH_GROUP")["task_group"]["tasks"][0]["task_id"] == {"value": "second"}


def test_events_come_in_protobuf_as_well(stage: Stage) -> None:
    stage.launch("a").launched().running()
    call = executor_pb2.Call(type=executor_pb2.Call.SUBSCRIBE)
    call.executor_id.value, call.framework_id.value = stage.executor_id, stage.executor.framework_id
    call.subscribe.SetInParent()
    kind = "application/x-protobuf"
    headers = {"Content-Type": kind, "Accept": kind}
    answer = requests.post(stage.executor.url, data=call.SerializeToString(), headers=headers, stream=True)
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, kind)
    decoder, events = Decoder(), []
    for piece in answer.iter_content(chunk_size=None):
        events += [executor_pb2.Event.FromString(record) for record in decoder.feed(piece)]
        if len(events) >= 2:
            break
    answer.close()
    assert [event.type for event in events] == [executor_pb2.Event.SUBSCRIBED, executor_pb2.Event.LAUNCH_GROUP]
    assert events[1].launch_group.task_group.tasks[0].data == b"a"


def _without(document: Json, name: str) -> Json:
    return {key: value for key, value in document.items() if key != name}


BAD_CALLS: dict[str, tuple[int, str, Callable[[ExecutorClient], Json]]] = {
    "no type": (400, "'type'", lambda e: _without(e.document("MESSAGE"), "type")),
    "unknown type": (400, "'type'", lambda e: e.document("NONSENSE")),
    "type without meaning": (501, "", lambda e: e.document("UNKNOWN")),
    "no executor id": (400, "required", lambda e: _without(e.document("HEARTBEAT"), "executor_id")),
    "no framework id": (400, "required", lambda e: _without(e.document("HEARTBEAT"), "framework_id")),
    "unknown framework": (
        400,
        "Framework cannot be found",
        lambda e: {**e.document("MESSAGE", {"data": ""}), "framework_id": {"value": "nobody"}},
    ),
    "unknown executor": (
        400,
        "Executor cannot be found",
        lambda e: {**e.document("MESSAGE", {"data": ""}), "executor_id": {"value": "nobody"}},
    ),
    "no subscribe": (400, "'subscribe'", lambda e: e.document("SUBSCRIBE")),
    "no update": (400, "'update'", lambda e: e.document("UPDATE")),
    "no message": (400, "'message'", lambda e: e.document("MESSAGE")),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_bad_calls_are_refused(subscribed: Stage, name: str) -> None:
    status, text, call = BAD_CALLS[name]
    answer = subscribed.executor.post(call(subscribed.executor))
    assert (answer.status_code, text in answer.text) == (status, True), answer.text


BAD_STATUSES: dict[str, tuple[str, Json]] = {
    "no uuid": ("'uuid'", {"uuid": None}),
    "short uuid": ("Not a valid UUID", {"uuid": base64.b64encode(b"short").decode()}),
    "of another executor": ("does not match", {"executor_id": {"value": "other"}}),
    "not from an executor": ("invalid source", {"source": "SOURCE_MASTER"}),
    "no source": ("invalid source", {"source": None}),
    "staging": ("not allowed", {"state": "TASK_STAGING"}),
}


@pytest.mark.parametrize("name", BAD_STATUSES)
def test_bad_updates_are_refused(subscribed: Stage, name: str) -> None:
    text, changes = BAD_STATUSES[name]
    status = {**subscribed.executor.status("a", "TASK_RUNNING"), **changes}
    status = {key: value for key, value in status.items() if value is not None}
    answer = subscribed.executor.post(subscribed.executor.document("UPDATE", {"status": status}))
    assert (answer.status_code, text in answer.text) == (400, True), answer.text


@pytest.fixture(scope="module")
def subscribed(master: str) -> Iterator[Stage]:
    """An executor for calls that change nothing."""
    client = SchedulerClient(master, checkpoint=True).subscribe()
    yield Stage(client).started("a").leave_offers()
    client.teardown()


def test_requests_must_be_posts_in_a_known_encoding(subscribed: Stage) -> None:
    url = subscribed.executor.url
    call = subscribed.executor.document("SUBSCRIBE", {})
    assert requests.get(url).status_code == 405
    assert requests.post(url, data="{}").status_code == 400
    assert requests.post(url, data="{", headers={"Content-Type": "application/json"}).status_code == 400
    assert requests.post(url, data="{}", headers={"Content-Type": "text/plain"}).status_code == 415
    assert requests.post(url, json=call, headers={"Accept": "text/html"}).status_code == 406


def test_calls_need_a_subscription(stage: Stage) -> None:
    stage.launch("a").launched()
    call = stage.executor.document("UPDATE", {"status": stage.executor.status("a", "TASK_RUNNING")})
    answer = stage.executor.post(call)
    assert (answer.status_code, answer.text) == (403, "Executor is not subscribed")


# --- updates ----------------------------------------------------------------------------------------------------------


def test_the_agent_completes_updates_and_takes_them_over(stage: Stage) -> None:
    stage.launch("a").launched().running().executor.subscribe().event("LAUNCH_GROUP")
    sent = stage.executor.update("a", "TASK_RUNNING", message="up", data="aGk=", healthy=True)
    assert stage.executor.acknowledged(sent)["task_id"] == {"value": "a"}  # before the scheduler has acknowledged
    status = stage.status("a")
    assert {name: status[name] for name in sent} == sent
    assert (status["agent_id"]["value"], "timestamp" in status, "executor_id" in status) == (
        stage.agent_id,
        True,
        False,
    )
    container = status["container_status"]
    assert container["network_infos"][0]["ip_addresses"][0]["ip_address"] == "127.0.0.1"
    assert container["executor_pid"] > 0


def test_updates_reach_the_scheduler_one_at_a_time(stage: Stage) -> None:
    stage.launch("a").launched().running().executor.subscribe().event("LAUNCH_GROUP")
    sent = [stage.executor.update("a", state) for state in ("TASK_STARTING", "TASK_RUNNING", "TASK_FINISHED")]
    for status in sent:
        stage.executor.acknowledged(status)
    first = stage.client.update("a", acknowledge=False)
    seen = [e for e in stage.client.events if e["type"] == "UPDATE"]
    assert (first["state"], len(seen)) == ("TASK_STARTING", 1)
    stage.client.acknowledge(first)
    assert stage.client.states("a", "TASK_FINISHED") == ["TASK_RUNNING", "TASK_FINISHED"]


def test_a_repeated_update_is_acknowledged_but_not_forwarded_again(stage: Stage) -> None:
    stage.started("a")
    sent = stage.executor.update("a", "TASK_RUNNING", message="once")
    stage.executor.acknowledged(sent)
    stage.executor.call("UPDATE", {"status": sent})
    stage.executor.acknowledged(sent)
    stage.executor.update("a", "TASK_RUNNING", message="next")
    assert [stage.status("a")["message"] for _ in range(2)] == ["once", "next"]


def test_nothing_follows_the_end_of_a_task(stage: Stage) -> None:
    stage.started("a", "b")
    stage.executor.update("a", "TASK_FINISHED")
    stage.executor.update("a", "TASK_RUNNING")
    stage.executor.update("b", "TASK_FINISHED")
    assert stage.status("b")["state"] == "TASK_FINISHED"
    updates = [e["update"]["status"] for e in stage.client.events if e["type"] == "UPDATE"]
    assert [u["state"] for u in updates if u["task_id"]["value"] == "a"] == ["TASK_RUNNING", "TASK_FINISHED"]


def test_a_new_subscription_ends_the_old_and_brings_what_was_lost(stage: Stage) -> None:
    stage.started("a")
    known = stage.executor.update("a", "TASK_RUNNING", message="known")
    assert stage.status("a")["message"] == "known"
    new = ExecutorClient(stage.agent, stage.executor.framework_id, stage.executor_id)
    fresh = new.status("a", "TASK_RUNNING", message="fresh")
    new.subscribe(updates=[known, fresh])
    assert stage.executor.closed.wait(30)
    for status in (known, fresh):
        new.acknowledged(status)
    assert stage.status("a")["message"] == "fresh"
    assert [e["type"] for e in new.events if "launch" in e["type"].lower()] == []


def test_a_task_that_did_not_arrive_is_dropped(stage: Stage) -> None:
    stage.launch("kept", "lost").launched().running().executor.subscribe()
    tasks = stage.executor.event("LAUNCH_GROUP")["task_group"]["tasks"]
    stage.executor.disconnect()
    stage.executor.subscribe(tasks=tasks[:1])
    status = stage.status("lost")
    assert (status["state"], status["reason"]) == ("TASK_DROPPED", "REASON_AGENT_RESTARTED")
    stage.executor.update("kept", "TASK_RUNNING")
    assert stage.status("kept")["state"] == "TASK_RUNNING"


# --- messages ---------------------------------------------------------------------------------------------------------


def _send_to_executor(stage: Stage, data: bytes) -> None:
    body = {
        "agent_id": stage.offer["agent_id"],
        "executor_id": {"value": stage.executor_id},
        "data": base64.b64encode(data).decode(),
    }
    stage.client.call("MESSAGE", body)


def test_messages_go_both_ways(stage: Stage) -> None:
    stage.started("a")
    _send_to_executor(stage, b"down")
    assert base64.b64decode(stage.executor.event("MESSAGE")["data"]) == b"down"
    stage.executor.message(b"up")
    message = stage.client.event("MESSAGE")
    assert (base64.b64decode(message["data"]), message["executor_id"]["value"]) == (b"up", stage.executor_id)
    assert message["agent_id"]["value"] == stage.agent_id


def test_a_message_to_an_executor_that_is_not_there_is_lost(stage: Stage) -> None:
    stage.launch("a").launched()
    _send_to_executor(stage, b"too early")
    stage.client.reconcile("a")  # the agent has the message by the time it sees what follows
    wait_for(lambda: stage.client.offers(1), what="an offer after the launch")
    stage.running().executor.subscribe()
    stage.executor.event("LAUNCH_GROUP")
    _send_to_executor(stage, b"in time")
    assert base64.b64decode(stage.executor.event("MESSAGE")["data"]) == b"in time"


# --- the end ----------------------------------------------------------------------------------------------------------


def test_a_kill_is_passed_on_with_its_policy(stage: Stage) -> None:
    stage.started("a")
    stage.client.call("KILL", {"task_id": {"value": "a"}})
    assert stage.executor.event("KILL") == {"task_id": {"value": "a"}}
    policy = {"grace_period": {"nanoseconds": 5_000_000_000}}
    stage.client.call("KILL", {"task_id": {"value": "a"}, "kill_policy": policy})
    assert stage.executor.event("KILL")["kill_policy"] == policy
    stage.executor.update("a", "TASK_KILLED")
    assert stage.status("a")["state"] == "TASK_KILLED"


def test_a_kill_before_the_executor_is_there_leaves_it_nothing_to_do(stage: Stage) -> None:
    stage.launch("a", "b").launched()
    stage.client.call("KILL", {"task_id": {"value": "a"}})
    for task_id in ("a", "b"):
        status = stage.status(task_id)
        assert (status["state"], status["reason"]) == ("TASK_KILLED", "REASON_TASK_KILLED_DURING_LAUNCH")
        assert "killed before delivery" in status["message"]
    stage.executor.subscribe().event("SHUTDOWN")
    assert stage.client.event("FAILURE")["executor_id"]["value"] == stage.executor_id


def test_shutdown_gives_the_executor_its_grace_period(stage: Stage) -> None:
    stage.started("a", "b")
    body = {"executor_id": {"value": stage.executor_id}, "agent_id": stage.offer["agent_id"]}
    stage.client.call("SHUTDOWN", body)
    stage.executor.event("SHUTDOWN")
    stage.executor.update("a", "TASK_KILLED")
    assert stage.status("a")["state"] == "TASK_KILLED"
    late = ExecutorClient(stage.agent, stage.executor.framework_id, stage.executor_id).subscribe()
    late.event("SHUTDOWN")
    assert late.closed.wait(30)
    status = stage.status("b")
    assert (status["state"], status["reason"]) == ("TASK_FAILED", "REASON_EXECUTOR_TERMINATED")
    assert stage.client.event("FAILURE")["status"] == signal.SIGKILL


def test_tasks_fail_with_their_executor(stage: Stage) -> None:
    stage.started("a", "b").running()
    sent = stage.executor.update("b", "TASK_FINISHED")
    stage.executor.acknowledged(sent)
    finished = stage.status("b")
    os.kill(finished["container_status"]["executor_pid"], signal.SIGKILL)
    status = stage.status("a")
    told = {name: status[name] for name in ("state", "reason", "source", "message")}
    assert told == {
        "state": "TASK_FAILED",
        "reason": "REASON_EXECUTOR_TERMINATED",
        "source": "SOURCE_AGENT",
        "message": "Executor terminated",
    }
    assert (finished["state"], stage.client.event("FAILURE")["status"]) == ("TASK_FINISHED", signal.SIGKILL)
    message = stage.executor.document("MESSAGE", {"data": ""})
    # An agent of Mesos reports the end before it forgets the executor, in rare cases most of a minute before.
    wait_for(lambda: stage.executor.post(message).status_code == 400, 120.0, "the refusal of a message")


def test_a_heartbeat_is_accepted_from_anybody(stage: Stage) -> None:
    assert stage.executor.post(stage.executor.document("HEARTBEAT")).status_code == 202


def test_an_executor_that_ends_at_once_fails_its_tasks(stage: Stage) -> None:
    stage.launch("a", command="exit 3")
    status = stage.status("a")
    assert (status["state"], status["reason"]) == ("TASK_FAILED", "REASON_EXECUTOR_TERMINATED")
    assert stage.client.event("FAILURE")["status"] == 3 << 8


def test_what_the_executor_started_ends_with_it(stage: Stage) -> None:
    stage.started("a", command="setsid sh -c 'echo $$ > pid; exec sleep 1000' & exec sleep 1000")
    pid = int(wait_for(lambda: stage.read("pid").strip(), what="the pid"))
    body = {"executor_id": {"value": stage.executor_id}, "agent_id": stage.offer["agent_id"]}
    stage.client.call("SHUTDOWN", body)
    assert stage.status("a")["state"] == "TASK_FAILED"
    wait_for(lambda: not Path(f"/proc/{pid}").exists(), what="the end of the process")


def test_teardown_shuts_executors_down(stage: Stage) -> None:
    stage.started("a")
    stage.client.teardown()
    stage.executor.event("SHUTDOWN")
    assert stage.client.closed.wait(30)


# --- what the executor finds ------------------------------------------------------------------------------------------


def test_the_environment_says_where_the_agent_is(stage: Stage) -> None:
    command_info = {"environment": {"variables": [{"name": "MINE", "value": "1"}]}}
    stage.started("a", command="env > vars.tmp; mv vars.tmp vars; exec sleep 1000", command_info=command_info)
    text = wait_for(lambda: stage.read("vars"), what="the variables")
    variables = dict(line.split("=", 1) for line in text.splitlines())
    expected = {
        "MINE": "1",
        "MESOS_FRAMEWORK_ID": stage.executor.framework_id,
        "MESOS_EXECUTOR_ID": stage.executor_id,
        "MESOS_AGENT_ENDPOINT": stage.agent,
        "MESOS_SLAVE_ID": stage.agent_id,
        "MESOS_SLAVE_PID": f"slave(1)@{stage.agent}",
        "MESOS_CHECKPOINT": "1",
        "MESOS_RECOVERY_TIMEOUT": "15mins",
        "MESOS_SUBSCRIPTION_BACKOFF_MAX": "2secs",
        "MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD": "200ms",
        "MESOS_HTTP_COMMAND_EXECUTOR": "0",
        "LIBPROCESS_PORT": "0",
    }
    assert {name: variables.get(name) for name in expected} == expected
    assert variables["MESOS_SANDBOX"] == variables["MESOS_DIRECTORY"] == variables["PWD"]


def test_uris_are_fetched_into_the_sandbox(stage: Stage, tmp_path: Path) -> None:
    source = tmp_path / "greeting"
    source.write_text("hello\n")
    uris = [
        {"value": f"file://{source}", "cache": True, "extract": False},
        {"value": f"file://{source}", "output_file": "second", "executable": True, "cache": True},
    ]
    command = "test -x second && cat greeting second; exec sleep 1000"
    stage.started("a", command=command, command_info={"uris": uris})
    wait_for(lambda: stage.read("stdout").endswith("hello\nhello\n"), what="the output")


def test_tasks_fail_when_a_uri_cannot_be_fetched(stage: Stage, tmp_path: Path) -> None:
    stage.launch("a", command_info={"uris": [{"value": f"file://{tmp_path / 'missing'}"}]})
    status = stage.status("a")
    assert (status["state"], status["reason"]) == ("TASK_FAILED", "REASON_CONTAINER_LAUNCH_FAILED")
    assert "Failed to fetch" in status["message"]
