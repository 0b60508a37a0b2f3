"""The HTTP API over a bare core: every operation, its answers, and every kind of refusal."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
import requests
from hypothesis import given, settings
from hypothesis import strategies as st

from bcs_scheduler.api.http.app import create_app
from bcs_scheduler.api.http.operation import BASE, ApiSettings
from bcs_scheduler.api.http.protocol import HEAD_BYTES, BoundedProtocol
from bcs_scheduler.api.http.server import ApiServer, CannotListen
from bcs_scheduler.api.routes import operations
from bcs_scheduler.cli.main import run
from bcs_scheduler.core.interface.cluster_manager import Disconnected
from bcs_scheduler.core.interface.effects import Reply
from bcs_scheduler.core.interface.requests import Request, ScaleApplication, SetAgent
from bcs_scheduler.leadership.gateway import Busy, Check, NotLeading
from store.records import Application, BoundPort, Task, TaskGroup, Version
from tests.component.apiserver import Api, Switchboard, paths, serving
from tests.unit.api_support import CoreGateway, document
from tests.unit.test_core_loss_guard import LARGE, Losing
from tests.unit.test_core_unknown_tasks import on_an_empty_store
from tests.waiting import wait_for
from transactions.rules import losses

WEB = "/namespaces/shop/applications/web"


@pytest.fixture(scope="module")
def switched() -> Iterator[tuple[Switchboard, Api]]:
    switchboard = Switchboard()
    with serving(switchboard, ApiSettings(max_body=20_000, version="1.2.3")) as api:
        yield switchboard, api


@pytest.fixture
def impatient(gateway: CoreGateway) -> Iterator[Api]:
    """A server for commands and bodies that do not come: no test expects an answer within its time-outs."""
    limits = ApiSettings(command_timeout=0.2, outcome_timeout=0.2, body_timeout=0.3)
    with serving(gateway, limits) as api:
        yield api


@pytest.fixture
def running(gateway: CoreGateway, api: Api) -> Api:
    """`web` of two taskgroups, Running on one agent."""
    gateway.connect()
    gateway.offer()
    assert api.call("POST", "/namespaces/shop/applications", json=document()).status_code == 202
    gateway.report("RUNNING", "shop/web")
    return api


def refusal(response: Any) -> tuple[int, str]:
    """Status and reason of a failure; checks that it is a whole envelope."""
    answer = response.json()
    assert answer.keys() == {"result", "code", "message", "data"}
    assert answer["result"] is False and answer["code"] >= 1405000 and answer["message"]
    assert isinstance(answer["data"]["problems"], list)
    assert response.headers["Content-Type"] == "application/json; charset=utf-8"
    return response.status_code, answer["data"]["reason"]


# --- life of an application -----------------------------------------------------------------------------------


def test_creating_answers_the_transaction_and_runs(gateway: CoreGateway, api: Api) -> None:
    gateway.connect()
    gateway.offer()
    response = api.call("POST", "/namespaces/shop/applications", json=document())
    assert response.status_code == 202
    answer = response.json()
    assert (answer["result"], answer["code"], answer["message"]) == (True, 0, "success")
    assert re.fullmatch(r"application-\d{19}", answer["data"]["transactionID"])
    gateway.report("RUNNING", "shop/web")
    view = api.data(WEB)
    assert (view["Status"], view["DefineInstances"], view["Instances"], view["RunningInstances"]) == (
        "Running",
        2,
        2,
        2,
    )
    assert [pod["name"].split(".")[0] for pod in view["Pods"]] == ["0", "1"]
    assert view["ObjectMeta"]["labels"] == {"app": "web"}
    assert view["RunAs"] == "shop" and view["ClusterId"] == "demo" and view["Kind"] == "application"


def test_the_cause_of_a_request_is_in_the_answer_and_in_what_follows(gateway: CoreGateway, api: Api) -> None:
    response = api.call("POST", "/namespaces/shop/applications", json=document())
    cause = response.headers["X-Request-Id"]
    transaction = api.data(f"/transactions/shop/{response.json()['data']['transactionID']}")
    assert gateway.commands[0].cause == transaction["cause"] == cause


def test_an_existing_name_is_a_conflict(running: Api) -> None:
    response = running.call("POST", "/namespaces/shop/applications", json=document())
    assert refusal(response) == (409, "exists")
    assert response.json()["code"] == 1405201


def test_scaling_updating_and_rolling_back(gateway: CoreGateway, running: Api) -> None:
    scaled = running.call("PUT", f"{WEB}/scale/3")
    assert scaled.status_code == 202 and scaled.json()["data"]["target"] == 3
    gateway.offer(2)
    gateway.report("RUNNING", "shop/web")
    assert running.data(WEB)["DefineInstances"] == 3

    newer = document(command="other-server")
    del newer["spec"]["instance"]
    assert running.call("PUT", "/namespaces/shop/applications?instances=1", json=newer).status_code == 202
    versions = running.data(f"{WEB}/versions")
    assert len(versions) == 2 and versions == sorted(versions)
    assert running.data(f"{WEB}/versions/{versions[1]}")["Container"][0]["Docker"]["Command"] == "other-server"
    busy = running.call("PUT", f"{WEB}/scale/4", params={"onConflict": "fail"})
    assert refusal(busy) == (409, "conflict")
    (update,) = running.data("/transactions/shop", params={"status": "INIT"})
    scaled = running.call("PUT", f"{WEB}/scale/4").json()["data"]
    assert scaled["opType"] == "UPDATE", "the update goes on with the new number"
    assert running.data(f"/transactions/shop/{update['transactionID']}")["status"] == "SUPERSEDED"
    assert running.call("PUT", f"{WEB}/scale/3").status_code == 202

    active = running.data("/transactions/shop", params={"status": "INIT"})[0]["transactionID"]
    assert running.call("DELETE", f"/transactions/shop/{active}").status_code == 200
    back = running.call("PUT", "/namespaces/shop/applications/rollback", json={"name": "web", "version": versions[0]})
    assert back.status_code in (200, 202), back.text
    assert running.data("/definition/application/shop/web")["kind"] == "application"


def test_scaling_to_the_present_size_is_done_at_once(running: Api) -> None:
    response = running.call("PUT", f"{WEB}/scale/2")
    assert response.status_code == 200 and response.json()["data"]["unchanged"] is True


def test_deleting(gateway: CoreGateway, running: Api) -> None:
    assert running.call("DELETE", f"{WEB}?enforce=0").status_code == 202
    gateway.report("KILLED", "shop/web")
    assert refusal(running.get(WEB)) == (404, "not_found")


def test_rescheduling_names_the_taskgroup_and_the_application(running: Api) -> None:
    group = running.data(f"{WEB}/taskgroups")[0]["ID"]
    path = f"{WEB}/taskgroups/{group}/rescheduler"
    assert refusal(running.call("PUT", path.replace("web/", "other/"))) == (404, "not_found")
    assert running.call("PUT", path, params={"hostRetainTime": "1.5"}).status_code == 202
    kinds = {t["curOp"]["opType"] for t in running.data("/transactions/shop?status=INIT")}
    assert kinds == {"RESCHEDULE"}


def test_a_dry_run_plans_and_changes_nothing(gateway: CoreGateway, api: Api) -> None:
    gateway.connect()
    gateway.offer()
    response = api.call("POST", "/namespaces/shop/applications?dryRun=true", json=document(instance=3))
    assert response.status_code == 200
    plan = response.json()["data"]
    assert plan["dryRun"] is True and [place["hostname"] for place in plan["place"]] == ["host-1"] * 3
    assert api.data("/applications") == [] and api.data("/transactions") == []


# --- documents over the wire ----------------------------------------------------------------------------------


def test_a_bad_document_is_refused_with_all_problems_and_nothing_reaches_the_core(
    gateway: CoreGateway, api: Api
) -> None:
    raw = document(porst=1)
    raw["metadata"]["name"] = "WEB"
    response = api.call("POST", "/namespaces/other/applications", json=raw, params={"fieldValidation": "Strict"})
    assert refusal(response) == (422, "invalid")
    assert paths(response) == {
        "$.metadata.name", "$.metadata.namespace", "$.spec.template.spec.containers[0].porst",
    }  # fmt: skip
    assert gateway.commands == []


@pytest.mark.parametrize("missing", ["kind", "metadata", "spec"])
def test_missing_parts_of_a_document_are_named(api: Api, missing: str) -> None:
    raw = document()
    del raw[missing]
    response = api.call("POST", "/namespaces/shop/applications", json=raw)
    assert refusal(response) == (422, "invalid") and f"$.{missing}" in paths(response)


def test_a_new_application_needs_its_number_of_taskgroups(api: Api) -> None:
    raw = document()
    del raw["spec"]["instance"]
    response = api.call("POST", "/namespaces/shop/applications", json=raw)
    assert paths(response) == {"$.spec.instance"}


@pytest.mark.parametrize(
    ("content", "headers", "expected"),
    [
        (b"{", {}, (400, "bad_json")),
        (b"\xff", {}, (400, "bad_json")),
        (b"[" * 5000, {}, (400, "bad_json")),
        (b"null", {}, (422, "invalid")),
        (b"", {}, (400, "bad_json")),
        (b"{}", {"Content-Type": "text/yaml"}, (415, "unsupported_media_type")),
        (b'"' + b"x" * 30_000 + b'"', {}, (413, "too_large")),
    ],
)
def test_bodies_that_are_no_documents(api: Api, content: bytes, headers: dict[str, str], expected: Any) -> None:
    response = api.call("POST", "/namespaces/shop/applications", data=content, headers=headers)
    assert refusal(response) == expected


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/namespaces/shop%2fapplications"),
        ("GET", "/namespaces/shop/applications/web%2Ftaskgroups"),
        ("PUT", "/crd/namespaces/shop%2fx/Database"),
        ("DELETE", "/namespaces/shop/applications/web%2f"),
        ("GET", "/no%2Fsuch"),
    ],
)
def test_an_encoded_slash_is_no_slash(running: Api, gateway: CoreGateway, method: str, path: str) -> None:
    response = running.call(method, path, json={} if method == "PUT" else None)
    assert refusal(response) == (400, "bad_parameter")
    assert response.json()["data"]["problems"] == [{"path": "/", "message": "contains %2F: names have no slashes"}]
    assert not any(group.killing_since for group in gateway.core.state.taskgroups.values())


def test_a_slash_in_the_query_is_fine(running: Api) -> None:
    assert running.get("/taskgroups?labelSelector=example.org%2Ftier").json()["data"] == []


def test_a_body_without_declared_length_is_limited_too(api: Api) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(30):
            yield b"x" * 1000

    response = api.call("POST", "/namespaces/shop/applications", data=endless())
    assert refusal(response) == (413, "too_large")


@pytest.mark.parametrize("declared", [True, False])
def test_a_client_that_sends_far_too_much_reads_the_refusal(api: Api, declared: bool) -> None:
    """The rest of the body is read, so the connection does not end in a reset in place of the answer."""
    piece = b"x" * 1_000_000
    content: Any = piece * 9 if declared else iter([piece] * 9)
    response = api.call("POST", "/namespaces/a/configmaps", data=content)
    assert refusal(response) == (413, "too_large")
    assert "api.max_body_bytes" in response.json()["message"]


def test_a_body_that_waits_for_permission_is_refused_at_once(api: Api) -> None:
    with connection_to(api) as connection:
        connection.sendall(
            b"POST %b/namespaces/a/configmaps HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: 9000000\r\nExpect: 100-continue\r\n\r\n" % BASE.encode()
        )
        assert connection.recv(65536).startswith(b"HTTP/1.1 413"), "there is no 100 Continue before"


def test_a_body_that_does_not_come_is_not_waited_for(impatient: Api) -> None:
    with connection_to(impatient) as connection:
        head = f"POST {BASE}/namespaces/shop/applications HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{{"
        connection.sendall(head.encode())
        assert connection.recv(65536).startswith(b"HTTP/1.1 408")


def connection_to(api: Api) -> socket.socket:
    host, port = api.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=30)


def test_heads_of_requests_are_bounded_in_time_and_size(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    with connection_to(api) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nX-Long: " + b"x" * (HEAD_BYTES + 1))
        assert raw_refusal(connection) == (431, "head_too_large")
    filler = b"".join(b"X-%04d: %s\r\n" % (number, b"x" * 1000) for number in range(HEAD_BYTES // 1000))
    for whole in (
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * 70_000 + b"\r\n\r\n",
        b"GET /healthz?" + b"x" * 40_000 + b" HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 30_000 + b"\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + filler + b"X-Last: 1\r\n\r\n",
    ):
        with connection_to(api) as connection:
            connection.sendall(whole)
            assert raw_refusal(connection) == (431, "head_too_large")
    with requests.Session() as session:  # one connection: what was measured counts for its request alone
        for _ in range(3):
            assert session.get(f"{api.url}/healthz", headers={"X-Long": "x" * 60_000}).status_code == 200
    monkeypatch.setattr(BoundedProtocol, "head_seconds", 0.1)
    for start in (b"", b"GET / HTTP/1.1\r\nHost"):
        with connection_to(api) as connection:
            connection.sendall(start)
            assert raw_refusal(connection) == (408, "too_slow")


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"FOO / HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
)
def test_what_is_no_http_is_answered_with_an_envelope(api: Api, sent: bytes) -> None:
    with connection_to(api) as connection:
        connection.sendall(sent)
        assert raw_refusal(connection) == (400, "bad_http")


def raw_refusal(connection: socket.socket) -> tuple[int, str]:
    """Status and reason of the answer, after which the server closes the connection."""
    head, _, body = b"".join(iter(lambda: connection.recv(65536), b"")).partition(b"\r\n\r\n")
    assert b"Content-Type: application/json; charset=utf-8" in head
    assert b"Content-Length: %d" % len(body) in head
    return int(head.split()[1]), json.loads(body)["data"]["reason"]


# --- parameters -----------------------------------------------------------------------------------------------


@pytest.mark.costs
@pytest.mark.parametrize("selector", ["a" + " " * 4000 + "(", "a" + " " * 60_000 + "(", "a," * 10_000, "(" * 4000])
def test_selectors_are_read_in_no_time(api: Api, selector: str) -> None:
    began = time.process_time()
    assert refusal(api.get("/applications", params={"labelSelector": selector})) == (400, "bad_parameter")
    assert time.process_time() - began < 2.0


@pytest.mark.parametrize("count", ["-1", "1.5", "x", "+2", "02", "1e3", "100001", "99999999999999999999", "٣", "%20"])
def test_scaling_takes_proper_numbers_only(gateway: CoreGateway, api: Api, count: str) -> None:
    response = api.call("PUT", f"{WEB}/scale/{count}")
    assert refusal(response) == (400, "bad_parameter")
    assert gateway.commands == []


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("dryrun=true", "did you mean dryRun?"),
        ("instances=0", "at least 1"),
        ("instances=two", "whole number"),
        ("instances=1&instances=2", "given twice"),
        ("dryRun=yes", "true or false"),
    ],
)
def test_query_parameters_are_read_strictly(api: Api, query: str, words: str) -> None:
    response = api.call("PUT", f"/namespaces/shop/applications?{query}", json=document())
    assert refusal(response) == (400, "bad_parameter")
    assert words in response.json()["message"]


def test_choices_and_selectors_are_checked(api: Api) -> None:
    assert "did you mean Running?" in api.get("/applications?status=running").json()["message"]
    assert refusal(api.get("/applications?labelSelector=a in b")) == (400, "bad_parameter")
    assert refusal(api.get("/applications?limit=0")) == (400, "bad_parameter")


def test_unknown_things_are_404_everywhere(running: Api) -> None:
    for path in (
        "/namespaces/shop/applications/none",
        "/namespaces/none/applications/web",
        f"{WEB}/versions/1",
        "/namespaces/shop/applications/none/versions",
        "/namespaces/shop/applications/none/taskgroups",
        "/namespaces/shop/applications/none/tasks",
        "/namespaces/shop/applications/none/explain",
        "/namespaces/shop/taskgroups/0.web.shop.demo.1",
        "/definition/application/shop/none",
        "/transactions/shop/application-1",
        "/agentsettings?ips=10.9.9.9",
    ):
        assert refusal(running.get(path)) == (404, "not_found"), path
    for method, path in (
        ("DELETE", "/namespaces/shop/applications/none"),
        ("PUT", "/namespaces/shop/applications/none/scale/2"),
        ("PUT", "/namespaces/shop/applications/none/rollback"),
        ("PUT", f"{WEB}/taskgroups/0.web.shop.demo.1/rescheduler"),
        ("DELETE", "/transactions/shop/application-1?mustExist=true"),
        ("DELETE", "/agentsettings?ips=10.9.9.9"),
    ):
        assert refusal(running.call(method, path)) == (404, "not_found"), path


def test_a_taskgroup_is_found_in_its_own_namespace_only(running: Api) -> None:
    group = running.data(f"{WEB}/taskgroups")[0]["ID"]
    assert running.data(f"/namespaces/shop/taskgroups/{group}")["ID"] == group
    assert refusal(running.get(f"/namespaces/other/taskgroups/{group}")) == (404, "not_found")


def test_unknown_paths_and_methods_answer_envelopes(api: Api) -> None:
    assert refusal(api.get("/nothing")) == (404, "no_such_route")
    assert refusal(api.get(f"{WEB}/nothing/")) == (404, "no_such_route")
    response = api.call("PATCH", "/namespaces/shop/applications")
    assert refusal(response) == (405, "method_not_allowed")
    assert {"GET", "POST", "PUT"} <= set(response.headers["Allow"].split(", "))


# --- lists ----------------------------------------------------------------------------------------------------


def labelled(name: str, namespace: str = "shop", **labels: str) -> Application:
    return Application(namespace=namespace, name=name, labels=labels, instances=1, status="Running")


@pytest.fixture
def many() -> Iterator[Api]:
    records = [labelled(f"app-{i:02}", tier="web" if i % 2 else "db", index=str(i)) for i in range(10)]
    with serving(CoreGateway([*records, labelled("app-00", "attic")])) as api:
        yield api


def names(views: list[dict[str, Any]]) -> list[str]:
    return [f"{view['RunAs']}/{view['Name']}" for view in views]


def test_lists_are_ordered_and_span_namespaces(many: Api) -> None:
    assert names(many.data("/applications"))[:2] == ["attic/app-00", "shop/app-00"]
    assert len(many.data("/namespaces/shop/applications")) == 10
    assert many.data("/namespaces/none/applications") == []


def test_pages_join_to_the_whole_list(many: Api) -> None:
    whole = names(many.data("/applications"))
    found: list[str] = []
    token: str | None = ""
    while token is not None:
        answer = many.get("/applications", params={"limit": 4, **({"continue": token} if token else {})}).json()
        found += names(answer["data"])
        token = answer.get("continue")
    assert found == whole and len(whole) == 11


def test_a_page_resumes_after_an_element_that_is_gone() -> None:
    gateway = CoreGateway([labelled("a"), labelled("b"), labelled("c")])
    with serving(gateway) as api:
        token = api.get("/applications?limit=2").json()["continue"]
        gateway.core.state.apply("application", "shop/b", None)
        assert names(api.data("/applications", params={"continue": token})) == ["shop/c"]
        for broken in ("x", "!!!!", token[:-4] + "AAAA", "czE"):
            assert refusal(api.get("/applications", params={"continue": broken}))[0] == 400, broken


@pytest.mark.parametrize(
    ("selector", "count"),
    [
        ("tier=web", 5), ("tier==web", 5), ("tier!=web", 6), ("tier in (web, db)", 10), ("tier notin (web)", 6),
        ("tier", 10), ("!tier", 1), ("tier=db,index in (2,4,5)", 2), ("", 11),
    ],
)  # fmt: skip
def test_label_selectors(many: Api, selector: str, count: int) -> None:
    assert len(many.data("/applications", params={"labelSelector": selector})) == count


def test_transactions_are_filtered(running: Api) -> None:
    running.call("POST", "/namespaces/shop/applications", json=document("second"))
    assert [t["objectName"] for t in running.data("/transactions")] == ["web", "second"]
    assert [t["objectName"] for t in running.data("/transactions/shop?objName=second")] == ["second"]
    assert [t["status"] for t in running.data("/transactions/shop?objName=web")] == ["FINISH"]
    assert running.data("/transactions/shop?objKind=deployment") == []


def test_a_request_waits_for_the_running_operation(gateway: CoreGateway, running: Api) -> None:
    assert running.call("PUT", f"{WEB}/scale/3").status_code == 202
    assert running.data(WEB).get("Queued") is None
    answers = [running.call("PUT", f"{WEB}/scale/{number}", params={"onConflict": "queue"}) for number in (1, 2)]
    assert [answer.status_code for answer in answers] == [202, 202]
    first, second = (answer.json()["data"] for answer in answers)
    assert [data["queuePosition"] for data in (first, second)] == [1, 2]
    shown = running.data(WEB)["Queued"]
    assert [(each["transactionID"], each["position"]) for each in shown] == [
        (first["transactionID"], 1),
        (second["transactionID"], 2),
    ]
    path = f"/transactions/shop/{second['transactionID']}"
    view = running.data(path)
    assert (view["status"], view["queuePosition"], view["type"], view["target"]) == ("QUEUED", 2, "SCALE", 2)
    listed = running.data("/transactions/shop", params={"status": "QUEUED"})
    assert [each["transactionID"] for each in listed] == [first["transactionID"], second["transactionID"]]
    assert running.call("DELETE", f"/transactions/shop/{first['transactionID']}").status_code == 200
    assert running.data(path)["queuePosition"] == 1
    gateway.offer(2)
    gateway.report("RUNNING", "shop/web")
    view = running.data(path)
    assert (view["status"], view["queuePosition"]) == ("INIT", 0)
    assert running.data(WEB).get("Queued") is None and running.data(WEB)["DefineInstances"] == 2


@pytest.mark.costs
def test_ten_thousand_taskgroups_are_listed_in_half_a_second() -> None:
    version = Version(namespace="shop", application="big", name="1")
    groups = [
        TaskGroup(
            id=f"{i}.big.shop.demo.{i}", namespace="shop", application="big", index=i, version="1", status="Running",
            agent_id=f"agent-{i % 100}", hostname=f"host-{i % 100}",
            tasks=(Task(id=f"{i}.0.{i}.big.shop.demo", status="Running", ports=(BoundPort(name="a", host_port=1),)),),
        )
        for i in range(10_000)
    ]  # fmt: skip
    with serving(CoreGateway([labelled("big"), version, *groups])) as api:
        response = api.get("/namespaces/shop/applications/big/taskgroups")
        assert len(response.json()["data"]) == 10_000
        seconds = min(_cpu_seconds(lambda: api.get("/namespaces/shop/applications/big/taskgroups")) for _ in range(3))
    assert seconds < 0.5


def _cpu_seconds(action: Callable[[], object]) -> float:
    """Of the whole process, client included: what a quiet machine would take at most."""
    started = time.process_time()
    action()
    return time.process_time() - started


# --- read models ----------------------------------------------------------------------------------------------


def test_taskgroups_and_tasks_keep_the_spelling_of_the_original(running: Api) -> None:
    group = running.data(f"{WEB}/taskgroups")[0]
    assert {"ID", "Name", "AppID", "RunAs", "InstanceID", "AgentID", "HostName", "ReschededTimes"} <= group.keys()
    assert (group["Name"], group["Status"], group["InstanceID"]) == ("web-0", "Running", 0)
    assert group["LaunchResource"] == {"Cpus": 0.1, "Mem": 96.0, "Disk": 64.0, "Gpus": 0.0}
    task = group["Taskgroup"][0]
    assert task["PortMappings"][0]["Name"] == "http" and 31000 <= task["PortMappings"][0]["HostPort"] <= 32000
    assert task["Hostame"] == "host-1" and task["AgentIPAddress"] == "10.0.0.1"
    assert running.data(f"{WEB}/tasks")[0] == task
    assert running.data("/taskgroups?agent=10.0.0.1&status=Running")[0] == group
    assert running.data("/taskgroups?agent=10.0.0.2") == []


def test_taskgroups_and_tasks_are_selected_by_the_labels_of_their_version(gateway: CoreGateway, api: Api) -> None:
    gateway.connect()
    for name, namespace, tier in (("web", "shop", "front"), ("db", "shop", "back"), ("web", "other", "front")):
        gateway.offer()
        raw = document(name=name, namespace=namespace)
        raw["spec"]["template"]["metadata"] = {"labels": {"tier": tier}}
        assert api.call("POST", f"/namespaces/{namespace}/applications", json=raw).status_code == 202
    gateway.report("RUNNING", "shop/web")

    def found(path: str) -> list[str]:
        return [f"{each['RunAs']}/{each['Name']}" for each in api.data(path)]

    front = ["other/web-0", "other/web-1", "shop/web-0", "shop/web-1"]
    assert found("/taskgroups?labelSelector=tier=front") == front
    assert found("/taskgroups?labelSelector=tier=front,app=db") == []
    assert found("/taskgroups?labelSelector=tier%20notin%20(back),app&limit=2") == front[:2]
    assert found("/namespaces/shop/taskgroups") == ["shop/db-0", "shop/db-1", *front[2:]]
    assert found("/namespaces/shop/taskgroups?labelSelector=!tier") == []
    assert found("/namespaces/shop/taskgroups?labelSelector=tier=front&status=Running") == front[2:]
    assert found("/namespaces/shop/taskgroups?labelSelector=tier=front&agent=nowhere") == []
    assert found(f"{WEB}/taskgroups?labelSelector=tier=back") == []
    assert found(f"{WEB}/taskgroups?labelSelector=tier=front") == front[2:]
    tasks = {task["ID"] for group in api.data(f"{WEB}/taskgroups") for task in group["Taskgroup"]}
    assert {task["ID"] for task in api.data("/namespaces/shop/tasks?labelSelector=tier=front")} == tasks
    assert len(api.data("/namespaces/shop/tasks")) == 4 and len(api.data("/tasks?labelSelector=tier=front")) == 4
    for path in ("/taskgroups", "/namespaces/shop/tasks", f"{WEB}/taskgroups"):
        assert refusal(api.get(f"{path}?labelSelector=((")) == (400, "bad_parameter")
    ignored = api.get("/namespaces/shop/tasks?namespace=other").json()
    assert ignored["data"] == api.data("/namespaces/shop/tasks") and ignored["warnings"][0]["path"] == "?namespace"


def test_a_taskgroup_of_an_older_version_has_its_labels(gateway: CoreGateway, api: Api) -> None:
    gateway.connect()
    gateway.offer()
    raw = document()
    raw["metadata"]["labels"] = {"release": "one"}
    assert api.call("POST", "/namespaces/shop/applications", json=raw).status_code == 202
    gateway.report("RUNNING", "shop/web")
    raw["metadata"]["labels"] = {"release": "two"}
    assert api.call("PUT", f"{WEB}?instances=1", json=raw).status_code == 202
    assert len(api.data("/taskgroups?labelSelector=release=one")) == 2, "nothing of the new one has been launched yet"
    assert api.data("/applications?labelSelector=release=one") == []
    assert len(api.data("/applications?labelSelector=release=two")) == 1


def test_a_transaction_shows_its_progress_and_ends_with_a_history(gateway: CoreGateway, api: Api) -> None:
    gateway.connect()
    gateway.offer(cpus=0.25)
    identity = api.call("POST", "/namespaces/shop/applications", json=document(instance=3)).json()["data"]
    half = api.data(f"/transactions/shop/{identity['transactionID']}")
    assert (half["status"], half["progress"], half["target"], half["remaining"]) == ("INIT", 2, 3, 1)
    assert half["curOp"]["opType"] == "LAUNCH" and half["finishTime"] == "" and half["deadline"].endswith("Z")
    gateway.offer(2)
    whole = api.data(f"/transactions/shop/{identity['transactionID']}")
    assert (whole["status"], whole["progress"], whole["remaining"]) == ("FINISH", 3, 0)
    assert whole["finishTime"] and whole["history"][-1]["text"].startswith("FINISH")


def test_explain_counts_reasons_and_says_them(gateway: CoreGateway, api: Api) -> None:
    gateway.connect()
    gateway.offer(1, cpus=0.2)
    raw = document(resources={"limits": {"cpu": "4", "memory": "32"}})
    assert api.call("POST", "/namespaces/shop/applications", json=raw).status_code == 202
    found = api.data(f"{WEB}/explain")
    placing = found["transactions"][0]["placing"]
    assert placing["reasons"] == [{"reason": "not enough cpus", "agents": 1}]
    assert placing["closest"] == [{"resource": "cpus", "needed": 4.0, "free": 0.2}]
    assert any("2 taskgroups without a place" in line for line in found["text"])
    assert (found["instances"], found["existing"], found["ready"]) == (2, 0, 0)


def test_explain_says_what_a_failed_taskgroup_waits_for(gateway: CoreGateway, api: Api) -> None:
    gateway.connect()
    gateway.offer()
    raw = {**document(instance=1), "restartPolicy": {"policy": "Always", "interval": 600}}
    api.call("POST", "/namespaces/shop/applications", json=raw)
    gateway.report("FAILED", "shop/web")
    waiting = api.data(f"{WEB}/explain")["taskgroups"]
    assert waiting[0]["status"] == "Failed" and re.search(r"starts again in [\dms]+ ", waiting[0]["message"])


# --- watching -------------------------------------------------------------------------------------------------


def test_watching_ends_when_the_transaction_does(gateway: CoreGateway, api: Api) -> None:
    gateway.connect()
    identity = api.call("POST", "/namespaces/shop/applications", json=document()).json()["data"]["transactionID"]
    answers: list[dict[str, Any]] = []
    path = f"/transactions/shop/{identity}?watch=true&timeoutSeconds=30"
    watcher = threading.Thread(target=lambda: answers.append(api.data(path)))
    watcher.start()
    gateway.offer()
    watcher.join(60)
    assert answers[0]["status"] == "FINISH"


def test_watching_gives_up_in_time_and_hears_of_progress(gateway: CoreGateway, api: Api) -> None:
    gateway.connect()
    identity = api.call("POST", "/namespaces/shop/applications", json=document()).json()["data"]["transactionID"]
    path = f"/transactions/shop/{identity}?watch=true"
    assert api.data(f"{path}&timeoutSeconds=0.2")["status"] == "INIT"
    assert api.data(f"{path}&timeoutSeconds=30&resourceProgress=1")["progress"] == 0
    assert api.data(f"{path}&timeoutSeconds=30&resourceStatus=TIMEOUT")["status"] == "INIT"


def test_cancelling_settles_the_application(gateway: CoreGateway, api: Api) -> None:
    gateway.connect()
    gateway.offer(cpus=0.15)
    identity = api.call("POST", "/namespaces/shop/applications", json=document()).json()["data"]["transactionID"]
    assert api.data(WEB)["Transaction"] == identity
    assert api.call("DELETE", f"/transactions/shop/{identity}").status_code == 200
    assert api.data(f"/transactions/shop/{identity}")["status"] == "CANCEL"
    assert api.data(WEB)["Transaction"] == ""
    assert refusal(api.call("DELETE", f"/transactions/shop/{identity}")) == (409, "conflict")


# --- agents ---------------------------------------------------------------------------------------------------


def test_settings_of_agents_live_and_die(gateway: CoreGateway, api: Api) -> None:
    gateway.connect()
    gateway.offer()
    settings_of_one = {"innerIP": "10.0.0.1", "strings": {"disk": {"value": "ssd"}}, "scalars": {"slots": {"value": 9}}}
    assert api.call("POST", "/agentsettings", json=[settings_of_one]).json()["data"][0]["result"] is True
    assert api.call("PUT", "/agentsettings/taint", json=[{"innerIP": "10.0.0.1", "noSchedule": {"a": "b"}}]).ok
    resource = {"InnerIP": "10.0.0.1", "Name": "x/y", "Capacity": 4, "Value": 0, "Socket": "/s"}
    assert api.call("PUT", "/agentsettings/extendedresource", json=resource).ok
    assert api.call("POST", "/agentsettings/disable?ips=10.0.0.1,10.0.0.2").ok
    shown = api.data("/agentsettings")
    assert [(s["innerIP"], s["disabled"]) for s in shown] == [("10.0.0.1", True), ("10.0.0.2", True)]
    assert shown[0]["strings"] == {"disk": {"value": "ssd"}} and shown[0]["noSchedule"] == {"a": "b"}
    assert shown[0]["ExtendedResources"]["x/y"]["Capacity"] == 4.0
    assert api.call("POST", "/agentsettings/enable?ips=10.0.0.1").ok
    agent = next(a for a in api.data("/agents") if a["id"] == "agent-1")
    assert agent["disabled"] is False and agent["taints"] == {"a": "b"} and agent["extended"] == {"x/y": 4.0}
    attributes = {a["name"]: a for a in agent["attributes"]}
    assert attributes["slots"]["scalar"] == {"value": 9.0} and attributes["disk"]["text"] == {"value": "ssd"}
    assert api.call("DELETE", "/agentsettings?ips=10.0.0.1,10.0.0.2").ok
    assert api.data("/agentsettings") == []


def test_each_agent_gets_its_own_result(api: Api) -> None:
    api.call("POST", "/agentsettings/disable?ips=10.0.0.1")
    response = api.call("DELETE", "/agentsettings?ips=10.0.0.1,10.0.0.9")
    assert refusal(response) == (404, "not_found")
    results = response.json()["data"]["results"]
    assert [(r["innerIP"], r["result"]) for r in results] == [("10.0.0.1", True), ("10.0.0.9", False)]


def test_agents_may_be_called_by_host_name_or_id(gateway: CoreGateway, api: Api) -> None:
    gateway.connect()
    gateway.offer(1)
    gateway.offer(2)
    response = api.call("POST", "/agentsettings/disable?ips=host-1,agent-2,10.0.0.2,unknown")
    assert [result["innerIP"] for result in response.json()["data"]] == ["10.0.0.1", "10.0.0.2", "unknown"]
    assert {agent["key"]: agent["disabled"] for agent in api.data("/agents")} == {
        "10.0.0.1": True, "10.0.0.2": True, "unknown": True,
    }  # fmt: skip


def test_agents_must_be_named(gateway: CoreGateway, api: Api) -> None:
    for wrong in (",,", "10.0.0.1,%00", "a%20b", "%0A".join("ab"), "x" * 254, "%C2%85"):
        assert refusal(api.call("POST", f"/agentsettings/disable?ips={wrong}")) == (400, "bad_parameter")
    for wrong in ("a b", "\x07", "\u2028"):
        body = [{"innerIP": wrong, "noSchedule": {}}]
        assert refusal(api.call("PUT", "/agentsettings/taint", json=body)) == (422, "invalid")
    assert refusal(api.call("POST", "/agentsettings", json=[])) == (422, "invalid")
    assert not any(isinstance(command, SetAgent) for command in gateway.commands)


def test_who_leads_schedulers_and_masters(gateway: CoreGateway, api: Api) -> None:
    assert api.data("/cluster/endpoints")["mesosmaster"] == []
    gateway.master = "10.0.0.9:5050"
    found = api.data("/cluster/endpoints")
    assert [(server["ip"], server["port"], server["leader"]) for key in found for server in found[key]] == [
        ("127.0.0.1", 1, True),
        ("10.0.0.9", 5050, True),
    ]


def test_agents_merge_mesos_settings_and_taskgroups(running: Api) -> None:
    running.call("POST", "/agentsettings/disable?ips=10.0.0.7")
    agents = {agent["ip"]: agent for agent in running.data("/agents")}
    assert agents["10.0.0.1"]["taskgroups"] == 2 and agents["10.0.0.1"]["cpuused"] == 0.2
    assert agents["10.0.0.1"]["cputotal"] == 8.0 and agents["10.0.0.1"]["active"] is True
    assert agents["10.0.0.7"]["disabled"] is True and agents["10.0.0.7"]["active"] is False
    cluster = running.data("/cluster/resources")
    assert cluster["cputotal"] == 8.0 and len(cluster["agents"]) == 2


def test_offers_show_what_is_left(gateway: CoreGateway, api: Api) -> None:
    gateway.connect()
    api.call("PUT", "/agentsettings/taint", json=[{"innerIP": "10.0.0.1", "noSchedule": {"a": "b"}}])
    api.call("POST", "/namespaces/shop/applications", json=document(resources={"limits": {"cpu": 100}}))
    gateway.offer()
    offer = api.data("/cluster/current/offers")[0]
    assert offer["agent_id"] == {"value": "agent-1"} and offer["hostname"] == "host-1"
    amounts = {r["name"]: r["scalar"]["value"] for r in offer["resources"] if "scalar" in r}
    assert amounts["cpus"] == 8.0 and amounts["mem"] == 8192.0
    assert {"name": "NoSchedule", "type": 2, "set": {"item": ["a=b"]}} in offer["attributes"]


# --- leadership and faults ------------------------------------------------------------------------------------


def test_a_standby_points_writes_to_the_leader_and_answers_reads(gateway: CoreGateway, running: Api) -> None:
    gateway.stand_by("http://10.0.0.5:8080")
    response = running.call("PUT", f"{WEB}/scale/3?dryRun=true")
    assert refusal(response) == (307, "not_leading")
    assert response.headers["Location"] == f"http://10.0.0.5:8080{BASE}{WEB}/scale/3?dryRun=true"
    assert running.data(WEB)["Status"] == "Running"
    gateway.stand_by(None)
    response = running.call("DELETE", WEB)
    assert refusal(response) == (503, "no_leader") and response.headers["Retry-After"] == "1"


def test_losing_the_lead_while_submitting_redirects_too(gateway: CoreGateway, api: Api) -> None:
    gateway.refusal = NotLeading("http://leader:1")
    response = api.call("PUT", f"{WEB}/scale/3")
    assert refusal(response) == (307, "not_leading")


def test_a_scheduler_that_cannot_take_commands_says_why(gateway: CoreGateway, api: Api) -> None:
    gateway.refusal = Busy("the store is away")
    for response in (api.call("PUT", f"{WEB}/scale/3"), api.get("/applications")):
        assert refusal(response) == (503, "unavailable")
        assert response.json()["message"] == "the store is away"


def test_a_command_that_is_not_begun_in_time_is_withdrawn(gateway: CoreGateway, impatient: Api) -> None:
    gateway.silent = True
    assert refusal(impatient.call("PUT", f"{WEB}/scale/3")) == (503, "unavailable")
    assert len(gateway.withdrawn) == 1 and not gateway.withdrawn[0].done()


def test_the_outcome_of_a_command_that_has_been_begun_is_waited_for(gateway: CoreGateway) -> None:
    gateway.silent = gateway.begun = True

    def begun(future: Future[Reply]) -> bool:
        """Asked when the time for the begin of the command is over. The outcome comes after the answer."""
        threading.Timer(0.1, future.set_result, (Reply(token=1, data={"transactionID": "late"}),)).start()
        return False

    gateway.withdraw = begun  # type: ignore[method-assign]
    with serving(gateway, ApiSettings(command_timeout=0.1)) as api:
        response = api.call("PUT", f"{WEB}/scale/3")
    assert (response.status_code, response.json()["data"]) == (202, {"transactionID": "late"})


def test_an_outcome_that_does_not_come_is_no_503(gateway: CoreGateway, impatient: Api) -> None:
    """A 503 means that nothing was or will be done."""
    gateway.silent = gateway.begun = True
    response = impatient.call("PUT", f"{WEB}/scale/3")
    assert refusal(response) == (504, "outcome_unknown")
    assert response.headers["X-Request-Id"] in response.json()["message"]


def test_an_error_inside_is_a_500_envelope_that_keeps_the_details_to_itself(gateway: CoreGateway, api: Api) -> None:
    gateway.refusal = RuntimeError("the secret detail")
    response = api.get("/applications")
    assert refusal(response) == (500, "internal")
    assert "secret" not in response.text and response.headers["X-Request-Id"] in response.json()["message"]


# --- the service itself ---------------------------------------------------------------------------------------


def test_health_readiness_version_and_metrics(gateway: CoreGateway, api: Api) -> None:
    assert api.get("/healthz", base="").json()["current_role"] == "master"
    assert api.data("/version", base="")["version"] == "1.2.3"
    assert api.get("/metrics", base="").text == "bkbcs_scheduler_up 1\n"
    assert api.get("/readyz", base="").json()["ready"] is True
    gateway.ready = [Check("store", False, "gone", "store_gone")]
    response = api.get("/readyz", base="")
    assert response.status_code == 503
    assert response.json()["checks"] == [{"name": "store", "ok": False, "message": "gone", "code": "store_gone"}]
    assert api.get("/healthz", base="").status_code == 200


def test_a_taken_port_is_a_clear_error(api: Api) -> None:
    port = int(api.url.rpartition(":")[2])
    with pytest.raises(CannotListen, match=f"127.0.0.1:{port}"):
        ApiServer("127.0.0.1", port).bind()


def test_stopping_frees_the_port_and_lets_requests_end(gateway: CoreGateway) -> None:
    gateway.silent = True
    server = ApiServer()
    server.start(create_app(gateway, ApiSettings(command_timeout=1.0)))
    api = Api(server.url)
    answers: list[int] = []
    request = threading.Thread(target=lambda: answers.append(api.call("PUT", f"{WEB}/scale/3").status_code))
    request.start()
    wait_for(lambda: gateway.commands, what="the command")
    server.stop()
    request.join(30)
    assert answers == [503]
    again = ApiServer("127.0.0.1", server_port(server))
    again.start(create_app(gateway))
    again.stop()


def server_port(server: ApiServer) -> int:
    return int(server.url.rpartition(":")[2])


# --- OpenAPI --------------------------------------------------------------------------------------------------


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "$ref":
                yield inner
            else:
                yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def test_openapi_describes_every_route_and_resolves(api: Api) -> None:
    response = api.get("/openapi.json", base="")
    described = response.json()
    assert described["openapi"].startswith("3.1") and described["info"]["version"] == "1.2.3"
    declared = {(o.path, o.method.lower()) for o in operations()}
    assert {(path, method) for path, item in described["paths"].items() for method in item} == declared
    schemas = described["components"]["schemas"]
    for reference in references(described):
        assert reference.removeprefix("#/components/schemas/") in schemas, reference
    identities = [o["operationId"] for item in described["paths"].values() for o in item.values()]
    assert len(identities) == len(set(identities))


def test_openapi_operations_are_well_formed(api: Api) -> None:
    described = api.get("/openapi.json", base="").json()
    for path, item in described["paths"].items():
        for operation in item.values():
            assert operation["summary"] and operation["tags"] and operation["responses"]
            inside = {p["name"] for p in operation["parameters"] if p["in"] == "path"}
            assert inside == set(re.findall(r"{(\w+)}", path))
            assert all(p["required"] is (p["in"] == "path") and p["schema"] for p in operation["parameters"])
            for status, answer in operation["responses"].items():
                assert re.fullmatch(r"[1-5]\d\d", status) and answer["description"]


# --- anything at all ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def open_api() -> Iterator[Api]:
    with serving(CoreGateway()) as api:
        yield api


@settings(max_examples=150, deadline=None)
@given(
    operation=st.sampled_from(operations()),
    values=st.lists(st.text(min_size=1, max_size=12), min_size=5, max_size=5),
    query=st.dictionaries(st.sampled_from(["limit", "ips", "dryRun", "status", "x"]), st.text(max_size=8), max_size=2),
    content=st.binary(max_size=40) | st.text(max_size=40).map(lambda text: json.dumps(text).encode()),
)
def test_no_request_makes_the_scheduler_fail(
    open_api: Api, operation: Any, values: list[str], query: dict[str, str], content: bytes
) -> None:
    parts = iter(values)
    path = re.sub(r"{\w+}", lambda match: quote(next(parts), safe=""), operation.path)
    # Streams have no end: of those the begin is looked at.
    with open_api.call(operation.method, path, base="", params=query, data=content, stream=True) as response:
        waits = "/unknowntasks/" in path and response.status_code == 503  # there is no Mesos that names its tasks
        assert waits or response.status_code < 500, response.text


def test_a_list_shows_every_change_of_taskgroups_and_their_version(gateway: CoreGateway, api: Api) -> None:
    """Lists keep the JSON of taskgroups that have not changed."""
    gateway.connect()
    gateway.offer()
    api.call("POST", "/namespaces/shop/applications", json=document(instance=2))
    before = api.data("/taskgroups?namespace=shop")
    gateway.report_taskgroup("RUNNING", before[0]["ID"])
    after = api.data("/taskgroups?namespace=shop")
    assert [group["Status"] for group in before] == ["Staging", "Staging"]
    assert [group["Status"] for group in after] == ["Running", "Staging"]
    assert after[1] == before[1]
    (version,) = gateway.core.state.versions_of("shop/web").values()
    gateway.core.state.apply("version", version.key, msgspec.structs.replace(version, pod_labels={"tier": "new"}))
    labels = [group["ObjectMeta"]["labels"] for group in api.data("/taskgroups?namespace=shop")]
    assert labels == [{"tier": "new"}] * 2


def test_an_update_without_a_number_beside_a_scale_keeps_the_number_of_the_scale(
    running: Api, gateway: CoreGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scale is carried out after the API has read the update, and before the core has."""
    honest = gateway.submit

    def overtaken(command: Request) -> Future[Reply]:
        scale = ScaleApplication(token=7, namespace="shop", name="web", instances=3)
        gateway.feed(scale)
        gateway.offer()
        gateway.report("RUNNING", "shop/web")
        return honest(command)

    monkeypatch.setattr(gateway, "submit", overtaken)
    body = document()
    del body["spec"]["instance"]
    body["metadata"]["labels"]["revision"] = "2"
    answer = running.call("PUT", WEB, json=body)
    assert answer.status_code == 202, answer.text
    assert gateway.core.state.applications["shop/web"].instances == 3


def test_decisions_about_unknown_tasks_wait_until_all_are_named(
    gateway: CoreGateway, api: Api, capsys: pytest.CaptureFixture[str]
) -> None:
    def shown() -> str:
        assert run(["framework", "show", "--server", api.url]) == 0
        return capsys.readouterr().out

    gateway.core = on_an_empty_store().core
    assert api.data("/cluster/unknowntasks")["complete"]
    assert "more may be found" not in shown()
    gateway.feed(Disconnected())
    assert not api.data("/cluster/unknowntasks")["complete"]
    assert "has not named all running tasks yet: more may be found" in shown()
    answer = api.call("POST", "/cluster/unknowntasks/adopt")
    assert (answer.status_code, answer.json()["data"]["reason"]) == (503, "unavailable")
    assert answer.headers["Retry-After"]


def test_answers_tell_of_halts_of_the_cluster(gateway: CoreGateway, api: Api) -> None:
    assert "Warning" not in api.get("/applications").headers
    lab, losing = on_an_empty_store(), Losing()
    gateway.core = lab.core
    told = api.get("/applications").headers["Warning"]
    assert told.startswith('299 bcs-scheduler "at least 1 taskgroup that the store does not know runs, newer than')
    assert "`bcs framework show`" in told
    assert "Warning" not in api.get("/healthz", base="").headers, "anybody may ask for it"
    losing.lose(range(LARGE))
    gateway.core = losing.core
    assert "`bcs resume`" in api.get("/applications").headers["Warning"]
    both = lab.core.state.framework.unknown
    halts = losses.halts(msgspec.structs.replace(losing.core.state.framework, unknown=both))
    assert [halt.code for halt in halts] == ["unknown_tasks", "large_loss"]
    assert all(halt.words.isascii() and '"' not in halt.words for halt in halts), "they are a part of a header"
