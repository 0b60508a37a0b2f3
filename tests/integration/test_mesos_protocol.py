"""The scheduler API as seen by a framework: one set of tests for the real Mesos and for the embedded cluster, so that
the latter is as strict as the former."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests

from bcs_scheduler.mesos.transport import operator
from bcs_scheduler.mesos.transport.http import Master
from bcs_scheduler.mesos.transport.question import Answer, ask
from tests.integration.schedulerclient import (
    CAPABILITIES,
    SchedulerClient,
    amounts,
    executor,
    fresh,
    launch_group,
    ports,
    scalar,
    task,
    uuid_of,
)  # fmt: skip

Json = dict[str, Any]


@pytest.fixture
def client(master: str) -> Iterator[SchedulerClient]:
    client = SchedulerClient(master).subscribe()
    yield client
    client.teardown()


# --- calls a master refuses -------------------------------------------------------------------------------------------


def _call(client: SchedulerClient, type_: str, **body: Any) -> Json:
    return {"type": type_, "framework_id": client.info["id"], **body}


ACKNOWLEDGE = {"agent_id": {"value": "a"}, "task_id": {"value": "t"}}

BAD_CALLS: dict[str, tuple[int, Callable[[SchedulerClient], Json], dict[str, str]]] = {
    "no type": (400, lambda c: {"framework_id": c.info["id"]}, {}),
    "unknown type": (400, lambda c: _call(c, "NONSENSE"), {}),
    "no framework id": (400, lambda c: {"type": "REVIVE"}, {}),
    "unknown framework": (400, lambda c: {"type": "REVIVE", "framework_id": {"value": "nobody"}}, {}),
    "no payload": (400, lambda c: _call(c, "ACCEPT"), {}),
    "no payload for kill": (400, lambda c: _call(c, "KILL"), {}),
    "required field missing": (400, lambda c: _call(c, "KILL", kill={}), {}),
    "uuid too short": (
        400,
        lambda c: _call(c, "ACKNOWLEDGE", acknowledge={**ACKNOWLEDGE, "uuid": base64.b64encode(b"short").decode()}),
        {},
    ),
    "stream id of another": (400, lambda c: _call(c, "REVIVE"), {"Mesos-Stream-Id": "other"}),
    "subscribe with stream id": (
        400,
        lambda c: {"type": "SUBSCRIBE", "subscribe": {"framework_info": {"user": "u", "name": "n"}}},
        {},
    ),
    "ids differ": (
        400,
        lambda c: {
            "type": "SUBSCRIBE",
            "framework_id": {"value": "x"},
            "subscribe": {"framework_info": {"user": "u", "name": "n", "id": {"value": "y"}}},
        },
        {},
    ),
    "unknown content type": (415, lambda c: _call(c, "REVIVE"), {"Content-Type": "text/plain"}),
    "json as protobuf": (400, lambda c: _call(c, "REVIVE"), {"Content-Type": "application/x-protobuf"}),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_bad_calls_are_refused(client: SchedulerClient, name: str) -> None:
    status, call, headers = BAD_CALLS[name]
    assert client.post(call(client), **headers).status_code == status


def test_calls_need_the_stream_id(client: SchedulerClient) -> None:
    answer = requests.post(client.url, json=_call(client, "REVIVE"))
    assert (answer.status_code, "Mesos-Stream-Id" in answer.text) == (400, True)


def test_only_post_is_allowed(client: SchedulerClient) -> None:
    assert requests.get(client.url).status_code == 405


def test_broken_json_is_refused(client: SchedulerClient) -> None:
    answer = requests.post(client.url, data="{", headers={"Content-Type": "application/json"})
    assert answer.status_code == 400


def test_subscribe_must_accept_an_encoding(client: SchedulerClient) -> None:
    call = {"type": "SUBSCRIBE", "subscribe": {"framework_info": {"user": "u", "name": "n"}}}
    assert requests.post(client.url, json=call, headers={"Accept": "text/html"}).status_code == 406


def test_calls_need_a_subscription(client: SchedulerClient) -> None:
    client.disconnect()
    statuses = iter(lambda: client.post(_call(client, "REVIVE")).status_code, 403)
    assert set(statuses) <= {202}  # until the master notices
    client.closed.clear()
    client.subscribe()


@pytest.mark.parametrize(
    ("info", "message"),
    [
        ({"roles": ["a", "a"]}, "duplicate"),
        ({"roles": ["a b"]}, "invalid role"),
        ({"roles": [".."]}, "invalid role"),
        ({"role": "x"}, "must not be set"),
        ({"id": {"value": "a/b"}}, "invalid characters"),
    ],
    ids=str,
)
def test_framework_info_is_checked(master: str, info: Json, message: str) -> None:
    client = SchedulerClient(master, **info)
    client.subscribe(await_subscribed=False)
    assert message in client.event("ERROR")["message"]
    assert client.closed.wait(30)


# --- accepts that launch nothing --------------------------------------------------------------------------------------

Build = Callable[[SchedulerClient, list[Json]], tuple[list[Json], list[Json]]]
"""Of a client and its offers: the offers to accept, and operations."""


def _group(change: Callable[[Json, Json, Json], None]) -> Build:
    """A launch of one task on the first offer, spoilt by `change(task, executor, operation)`."""

    def build(client: SchedulerClient, offers: list[Json]) -> tuple[list[Json], list[Json]]:
        info, runner = task("bad", offers[0]), executor(fresh("executor"), client)
        operation = launch_group(runner, info)
        change(info, runner, operation)
        return offers[:1], [operation]

    return build


def _two(first: list[Json], second: list[Json]) -> Build:
    def build(client: SchedulerClient, offers: list[Json]) -> tuple[list[Json], list[Json]]:
        tasks = [task("bad", offers[0], resources=first), task("other", offers[0], resources=second)]
        return offers[:1], [launch_group(executor(fresh("executor"), client), *tasks)]

    return build


def _good(client: SchedulerClient, offers: list[Json]) -> Json:
    return launch_group(executor(fresh("executor"), client), task("bad", offers[0]))


def _set(path: str, value: Any) -> Callable[[Json, Json, Json], None]:
    """``task.command`` and the like."""
    root, _, name = path.partition(".")

    def change(info: Json, runner: Json, operation: Json) -> None:
        {"task": info, "executor": runner, "operation": operation}[root][name] = value

    return change


def _drop(path: str) -> Callable[[Json, Json, Json], None]:
    root, _, name = path.partition(".")

    def change(info: Json, runner: Json, operation: Json) -> None:
        del {"task": info, "executor": runner}[root][name]

    return change


INVALID_GROUP, INVALID_OFFERS = "REASON_TASK_GROUP_INVALID", "REASON_INVALID_OFFERS"

BAD_ACCEPTS: dict[str, tuple[str, str, str, Build]] = {
    "no offers": ("TASK_DROPPED", INVALID_OFFERS, "No offers specified", lambda c, o: ([], [_good(c, o)])),
    "unknown offer": (
        "TASK_DROPPED", INVALID_OFFERS, "is no longer valid", lambda c, o: ([{"id": {"value": "no"}}], [_good(c, o)]),
    ),
    "offer twice": ("TASK_DROPPED", INVALID_OFFERS, "Duplicate offer", lambda c, o: ([o[0], o[0]], [_good(c, o)])),
    "two agents": ("TASK_DROPPED", INVALID_OFFERS, "one single agent", lambda c, o: (o[:2], [_good(c, o)])),
    "too much": (
        "TASK_ERROR", INVALID_GROUP, "more than available", _group(_set("task.resources", amounts(cpus=1000))),
    ),
    "executor without cpus": (
        "TASK_ERROR", INVALID_GROUP, "uses less CPUs", _group(_set("executor.resources", amounts()[1:])),
    ),
    "executor with little memory": (
        "TASK_ERROR", INVALID_GROUP, "uses less memory", _group(_set("executor.resources", amounts(mem=1))),
    ),
    "executor without disk": (
        "TASK_ERROR", INVALID_GROUP, "uses no disk", _group(_set("executor.resources", amounts()[:2])),
    ),
    "executor without type": ("TASK_ERROR", INVALID_GROUP, "must be set", _group(_drop("executor.type"))),
    "executor with a command": (
        "TASK_ERROR", INVALID_GROUP, "must not be set for 'DEFAULT'", _group(_set("executor.command", {"value": "x"})),
    ),
    "custom executor without a command": (
        "TASK_ERROR", INVALID_GROUP, "must be set for 'CUSTOM'", _group(_set("executor.type", "CUSTOM")),
    ),
    "executor without framework": (
        "TASK_ERROR", INVALID_GROUP, "framework_id' must be set", _group(_drop("executor.framework_id")),
    ),
    "executor of another framework": (
        "TASK_ERROR", INVALID_GROUP, "invalid FrameworkID", _group(_set("executor.framework_id", {"value": "x"})),
    ),
    "no resources": ("TASK_ERROR", INVALID_GROUP, "uses no resources", _group(_drop("task.resources"))),
    "other role": (
        "TASK_ERROR", INVALID_GROUP, "role",
        _group(_set("task.resources", [scalar("cpus", 0.1, "x"), *amounts()[1:]])),
    ),
    "role not subscribed": (
        "TASK_ERROR", INVALID_GROUP, "", _group(_set("task.resources", [scalar("cpus", 0.1, "x")])),
    ),
    "negative amount": (
        "TASK_ERROR", INVALID_GROUP, "nvalid scalar resource", _group(_set("task.resources", [scalar("cpus", -1)])),
    ),
    "inverted range": (
        "TASK_ERROR", INVALID_GROUP, "nvalid ranges resource", _group(_set("task.resources", [ports(31001, 31000)])),
    ),
    "port not offered": (
        "TASK_ERROR", INVALID_GROUP, "more than available", _group(_set("task.resources", [*amounts(), ports(5, 5)])),
    ),
    "resource not offered": (
        "TASK_ERROR", INVALID_GROUP, "more than available",
        _group(_set("task.resources", [*amounts(), scalar("unicorns", 1)])),
    ),
    "wrong agent": (
        "TASK_ERROR", INVALID_GROUP, "uses invalid agent", _group(_set("task.agent_id", {"value": "nowhere"})),
    ),
    "slash in the id of the executor": (
        "TASK_ERROR", INVALID_GROUP, "invalid characters", _group(_set("executor.executor_id", {"value": "a/b"})),
    ),
    "variable without value": (
        "TASK_ERROR", INVALID_GROUP, "must have a value set",
        _group(_set("task.command", {"value": "x", "environment": {"variables": [{"name": "A"}]}})),
    ),
    "negative grace period": (
        "TASK_ERROR", INVALID_GROUP, "must be non-negative",
        _group(_set("task.kill_policy", {"grace_period": {"nanoseconds": -1}})),
    ),
    "health check without http": (
        "TASK_ERROR", INVALID_GROUP, "http", _group(_set("task.health_check", {"type": "HTTP"})),
    ),
    "health check with a bad path": (
        "TASK_ERROR", INVALID_GROUP, "must start with",
        _group(_set("task.health_check", {"type": "HTTP", "http": {"port": 80, "path": "x"}})),
    ),
    "negative delay": (
        "TASK_ERROR", INVALID_GROUP, "non-negative",
        _group(_set("task.health_check", {"type": "TCP", "tcp": {"port": 80}, "delay_seconds": -1})),
    ),
    "docker container": (
        "TASK_ERROR", INVALID_GROUP, "Docker ContainerInfo is not supported",
        _group(_set("task.container", {"type": "DOCKER", "docker": {"image": "x"}})),
    ),
    "operation with an id": (
        "TASK_ERROR", INVALID_GROUP, "cannot be set on LAUNCH_GROUP", _group(_set("operation.id", {"value": "x"})),
    ),
    "too much together": (
        "TASK_ERROR", INVALID_GROUP, "more than available", _two(amounts(mem=600), amounts(mem=5000)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_ACCEPTS)
def test_bad_accepts_launch_nothing(client: SchedulerClient, name: str) -> None:
    state, reason, message, build = BAD_ACCEPTS[name]
    offers = client.offers(3)
    accepted, operations = build(client, offers)
    client.accept(accepted, *operations)
    status = client.update("bad")
    assert (status["state"], status["reason"], status["source"]) == (state, reason, "SOURCE_MASTER")
    assert message in status["message"]
    assert "uuid" not in status
    client.call("REVIVE")
    unused = [offer for offer in offers if offer in accepted]
    if unused:
        again = {offer["agent_id"]["value"] for offer in unused}
        client.offers(len(again), lambda offer: offer["agent_id"]["value"] in again)


def test_overlapping_ports_are_refused(client: SchedulerClient) -> None:
    offer = client.offers(3)[0]
    begin = next(r for r in offer["resources"] if r["name"] == "ports")["ranges"]["range"][0]["begin"]
    tasks = [task("bad", offer, resources=[*amounts(), ports(begin, begin + 1)])]
    tasks.append(task("other", offer, resources=[*amounts(), ports(begin + 1, begin + 2)]))
    client.accept([offer], launch_group(executor(fresh("executor"), client), *tasks))
    status = client.update("bad")
    assert (status["state"], status["reason"]) == ("TASK_ERROR", INVALID_GROUP)
    assert "overlapping" in status["message"]
    assert client.update("other")["state"] == "TASK_ERROR"


def test_frameworks_that_know_no_partitions_are_told_lost(master: str) -> None:
    client = SchedulerClient(master, ["MULTI_ROLE"]).subscribe()
    offer = client.offers()[0]
    client.accept([], launch_group(executor("e", client), task("bad", offer)))
    assert client.update("bad")["state"] == "TASK_LOST"
    assert client.reconcile("nobody", offer["agent_id"]["value"])["state"] == "TASK_LOST"
    client.teardown()


# --- tasks that run ---------------------------------------------------------------------------------------------------


def run(client: SchedulerClient, *commands: str, **more: Any) -> tuple[list[str], Json]:
    """Task ids, running, and the offer they were launched on."""
    offers = client.offers(3)
    ids = [fresh("task") for _ in commands]
    tasks = [task(i, offers[0], command, **more) for i, command in zip(ids, commands, strict=True)]
    client.accept(offers[:1], launch_group(executor(fresh("executor"), client), *tasks))
    for task_id in ids:
        assert client.states(task_id, "TASK_RUNNING") == ["TASK_STARTING", "TASK_RUNNING"]
    return ids, offers[0]


def test_a_kill_takes_the_group_along(client: SchedulerClient) -> None:
    ids, offer = run(client, "sleep 1000", "sleep 1000")
    client.call("KILL", {"task_id": {"value": ids[0]}})
    for task_id in ids:
        assert client.states(task_id, "TASK_KILLED") == ["TASK_KILLING", "TASK_KILLED"]
    failure = client.event("FAILURE")
    assert failure["agent_id"] == offer["agent_id"]
    assert failure["status"] == 0


def test_statuses_name_their_origin(client: SchedulerClient) -> None:
    offers = client.offers(3)
    runner = executor(fresh("executor"), client)
    client.accept(offers[:1], launch_group(runner, task("origin", offers[0])))
    status = client.update("origin")
    assert status["state"] == "TASK_STARTING"
    assert status["source"] == "SOURCE_EXECUTOR"
    assert status["executor_id"] == runner["executor_id"]
    assert status["agent_id"] == offers[0]["agent_id"]
    assert len(uuid_of(status)) == 16
    address = status["container_status"]["network_infos"][0]["ip_addresses"][0]["ip_address"]
    assert address == "127.0.0.1"


def test_updates_wait_for_the_acknowledgement_of_the_one_before(client: SchedulerClient) -> None:
    offers = client.offers(3)
    client.accept(offers[:1], launch_group(executor(fresh("executor"), client), task("waiting", offers[0])))
    first = client.update("waiting", acknowledge=False)
    assert client.reconcile("waiting")["state"] == first["state"] == "TASK_STARTING"
    client.acknowledge(first)
    assert client.update("waiting")["state"] == "TASK_RUNNING"


def test_task_ids_are_not_reused(client: SchedulerClient) -> None:
    (task_id,), offer = run(client, "sleep 1000")
    agent = offer["agent_id"]
    again = client.offers(1, lambda o: o["agent_id"] == agent)
    client.accept(again, launch_group(executor(fresh("executor"), client), task(task_id, again[0])))
    status = client.update(task_id)
    assert (status["state"], status["reason"]) == ("TASK_ERROR", INVALID_GROUP)
    assert "duplicate ID" in status["message"]
    assert client.reconcile(task_id)["state"] == "TASK_RUNNING"


def test_offers_of_one_agent_can_be_joined(client: SchedulerClient) -> None:
    (task_id,), offer = run(client, "sleep 1000")
    agent = offer["agent_id"]
    rest = client.offers(1, lambda o: o["agent_id"] == agent)
    client.call("KILL", {"task_id": {"value": task_id}})
    client.states(task_id, "TASK_KILLED")
    freed = client.offers(1, lambda o: o["agent_id"] == agent)
    total = sum(r["scalar"]["value"] for o in [*rest, *freed] for r in o["resources"] if r["name"] == "cpus")
    size = amounts(cpus=round(total - 0.1, 3))
    client.accept(
        [*rest, *freed], launch_group(executor(fresh("executor"), client), task("joined", rest[0], resources=size))
    )
    assert client.update("joined")["state"] == "TASK_STARTING"


def test_the_rest_of_an_accepted_offer_comes_again(client: SchedulerClient) -> None:
    _, offer = run(client, "sleep 1000")
    rest = client.offers(1, lambda o: o["agent_id"] == offer["agent_id"])[0]

    def cpus(o: Json) -> float:
        return float(next(r for r in o["resources"] if r["name"] == "cpus")["scalar"]["value"])

    assert cpus(rest) == pytest.approx(cpus(offer) - 0.2)
    assert len(rest["executor_ids"]) == 1


def test_reconciliation(client: SchedulerClient) -> None:
    (task_id,), offer = run(client, "sleep 1000")
    agent = offer["agent_id"]["value"]
    known = client.reconcile(task_id, agent)
    assert (known["state"], known["source"], "uuid" in known) == ("TASK_RUNNING", "SOURCE_MASTER", False)
    assert known["container_status"]["network_infos"][0]["ip_addresses"][0]["ip_address"] == "127.0.0.1"
    assert client.reconcile("nobody", agent)["state"] == "TASK_GONE"
    assert client.reconcile("nobody", "nowhere")["state"] == "TASK_UNKNOWN"
    assert client.reconcile("nobody")["state"] == "TASK_UNKNOWN"
    client.call("RECONCILE", {"tasks": []})
    implicit = client.event("UPDATE")["status"]
    assert (implicit["task_id"]["value"], implicit["state"]) == (task_id, "TASK_RUNNING")


def test_killing_an_unknown_task_reconciles_it(client: SchedulerClient) -> None:
    client.call("KILL", {"task_id": {"value": "nobody"}})
    status = client.update("nobody")
    assert (status["state"], status["reason"]) == ("TASK_UNKNOWN", "REASON_RECONCILIATION")


def test_shutdown_ends_an_executor(client: SchedulerClient) -> None:
    offers = client.offers(3)
    runner = executor(fresh("executor"), client)
    client.accept(offers[:1], launch_group(runner, task("shut", offers[0])))
    assert client.states("shut", "TASK_RUNNING")[-1] == "TASK_RUNNING"
    client.call("SHUTDOWN", {"executor_id": runner["executor_id"], "agent_id": offers[0]["agent_id"]})
    failure = client.event("FAILURE", lambda body: body.get("executor_id") == runner["executor_id"])
    assert failure["agent_id"] == offers[0]["agent_id"]


# --- subscriptions and offers -----------------------------------------------------------------------------------------


def test_a_failover_replaces_the_old_subscription(client: SchedulerClient) -> None:
    (task_id,), _ = run(client, "sleep 1000")
    client.call("KILL", {"task_id": {"value": task_id}})
    pending = client.update(task_id, acknowledge=False)
    successor = SchedulerClient(client.url.split("/")[2], id=client.info["id"]).subscribe()
    assert client.event("ERROR")["message"] == "Framework failed over"
    assert client.closed.wait(30)
    assert client.post(_call(client, "REVIVE")).status_code == 400
    again = successor.update(task_id)
    assert (again["uuid"], again["state"]) == (pending["uuid"], pending["state"])
    assert successor.update(task_id)["state"] == "TASK_KILLED"
    successor.offers(3)
    successor.teardown()


def test_a_removed_framework_does_not_come_back(client: SchedulerClient) -> None:
    client.call("TEARDOWN")
    assert client.closed.wait(30)
    ghost = SchedulerClient(client.url.split("/")[2], id=client.info["id"])
    ghost.subscribe(await_subscribed=False)
    assert "has been removed" in ghost.event("ERROR")["message"]
    assert ghost.post(_call(client, "REVIVE")).status_code == 400


def test_declined_offers_come_again_after_a_revive(client: SchedulerClient) -> None:
    offers = client.offers(3)
    client.decline(offers, 3600.0)
    client.call("SUPPRESS")
    client.call("REVIVE")
    again = client.offers(3)
    assert {o["agent_id"]["value"] for o in again} == {o["agent_id"]["value"] for o in offers}
    assert not {o["id"]["value"] for o in again} & {o["id"]["value"] for o in offers}


def test_offers_show_roles_only_to_frameworks_with_many(master: str) -> None:
    client = SchedulerClient(master, [c for c in CAPABILITIES if c != "MULTI_ROLE"]).subscribe()
    offer = client.offers()[0]
    assert "allocation_info" not in offer
    assert all("allocation_info" not in resource for resource in offer["resources"])
    client.teardown()


def test_heartbeats_follow_the_subscription(client: SchedulerClient) -> None:
    subscribed = client.events[0]["subscribed"]
    assert subscribed["heartbeat_interval_seconds"] == 15.0
    assert subscribed["master_info"]["hostname"] == "127.0.0.1"
    assert client.event("HEARTBEAT") == {}


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "open"])
def test_filters_end_with_the_connection(client: SchedulerClient, closed: bool) -> None:
    """What a scheduler declined for an hour is offered to its successor, whether its connection was closed before the
    successor subscribed or is closed by that."""
    offers = client.offers(3)
    client.decline(offers, 3600.0)
    client.call("SUPPRESS")
    if closed:
        client.disconnect()
    successor = SchedulerClient(client.url.split("/")[2], id=client.info["id"]).subscribe()
    successor.offers(3)
    successor.teardown()


FLAGS = {
    "allocation_interval": r"[0-9.]+(ms|secs|mins|hrs|days|weeks)",
    "authenticate_frameworks": r"true|false",
    "authenticate_http_readonly": r"true|false",
    "hostname": r"127\.0\.0\.1",
    "ip": r"127\.0\.0\.1",
    "port": r"[0-9]+",
    "version": r"false",
}
"""Flags of every master, with the form of their values, which are all texts."""


@pytest.mark.parametrize("path", ["/flags", "/master/flags"])
def test_the_flags_of_the_master_name_its_cluster(master: str, path: str) -> None:
    answer = requests.get(f"http://{master}{path}")
    flags = answer.json()["flags"]
    assert (answer.status_code, answer.headers["Content-Type"], list(answer.json())) == (
        200,
        "application/json",
        ["flags"],
    )
    assert {name for name, form in FLAGS.items() if not re.fullmatch(form, flags[name])} == set()
    assert flags["port"] == master.rpartition(":")[2]
    assert flags["cluster"] == requests.get(f"http://{master}/state").json()["cluster"]
    assert len(answer.content) < 10_000


def test_the_version_of_the_master(master: str) -> None:
    answer = requests.get(f"http://{master}/version")
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/json")
    assert answer.json()["version"] == "1.11.0"


def test_a_scheduler_learns_the_name_of_the_cluster_without_its_state(
    master: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, _, port = master.rpartition(":")
    asked: list[str] = []

    def listening(master: Master, path: str, headers: dict[str, str], *, timeout: float) -> Answer:
        asked.append(path)
        return ask(master, path, headers, timeout=timeout)

    monkeypatch.setattr(operator, "ask", listening)
    assert operator.cluster_name(Master(host, int(port)), {}) in ("local", "integration")
    assert asked == ["/flags"]
