"""Commands, messages, restarts and health reports over the API: what executors are told, and what is shown of it."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest

from bcs_scheduler.api.documents.commands import read_command, read_message, to_command_content
from bcs_scheduler.api.http.errors import ApiError
from bcs_scheduler.api.http.operation import ApiSettings
from bcs_scheduler.core.interface.cluster_manager import MessageAnswered
from bcs_scheduler.core.interface.requests import CreateCommand
from store.records import MessageResult
from tests.component.apiserver import Api, Switchboard, paths, serving
from tests.unit.api_support import CoreGateway, document

WEB, COMMAND = "/namespaces/shop/applications/web", "/command/application/shop/web"
DATA = b64encode(b"content").decode()


@pytest.fixture(scope="module")
def switched() -> Iterator[tuple[Switchboard, Api]]:
    switchboard = Switchboard()
    with serving(switchboard, ApiSettings(answer_timeout=7.0, reserve=900.0)) as api:
        yield switchboard, api


@pytest.fixture
def api(switched: tuple[Switchboard, Api], gateway: CoreGateway) -> Api:
    """`web` of two taskgroups, Running on one agent."""
    switched[0].gateway = gateway
    gateway.connect()
    gateway.offer()
    assert switched[1].call("POST", "/namespaces/shop/applications", json=document()).status_code == 202
    gateway.report("RUNNING", "shop/web")
    return switched[1]


def command(**spec: Any) -> dict[str, Any]:
    return {"kind": "Command", "spec": {"commandTargetRef": {"kind": "Application"}, "command": ["ls"], **spec}}


def answer(gateway: CoreGateway, sent: dict[str, Any], status: Any = "success", **result: Any) -> None:
    """The executor's last word about one message of a reply."""
    group = gateway.core.state.taskgroups[sent["taskgroup"]]
    gateway.feed(
        MessageAnswered(
            agent_id=group.agent_id,
            executor_id=group.id,
            message_id=sent["messageID"],
            status=status,
            results=tuple(MessageResult(task=task.id, ok=status == "success", **result) for task in group.tasks),
        )
    )


def accepted(response: Any) -> Any:
    assert response.status_code == 202, response.text
    return response.json()["data"]


# --- commands -------------------------------------------------------------------------------------------------


def test_a_command_is_sent_and_its_outcome_read(gateway: CoreGateway, api: Api) -> None:
    data = accepted(api.call("POST", COMMAND, json=command(env=["A=1", "B=x=y"], user="web", workingDir="/tmp")))
    asked = gateway.commands[-1]
    assert isinstance(asked, CreateCommand)
    assert asked.body == {
        "argv": ["ls"], "env": {"A": "1", "B": "x=y"}, "user": "web", "working_dir": "/tmp", "privileged": False,
    }  # fmt: skip
    assert (asked.timeout, asked.reserve, asked.taskgroups) == (7.0, 900.0, ())
    shown = api.data(f"{COMMAND}?id={data['commandID']}")
    assert shown["state"] == "running"
    assert [group["tasks"][0]["status"] for group in shown["status"]["taskgroups"]] == ["staging", "staging"]
    answer(gateway, data["messages"][0], exit_code=3, stdout="out", stderr="err", truncated=True)
    answer(gateway, data["messages"][1], "failed", message="no such program")
    shown = api.data(f"{COMMAND}?id={data['commandID']}")
    first, second = (group["tasks"][0] for group in shown["status"]["taskgroups"])
    inspect = {"exitCode": 3, "stdout": "out", "stderr": "err", "truncated": True}
    assert (first["status"], first["commInspect"]) == ("finish", inspect)
    assert (second["status"], second["message"], second["commInspect"]) == ("failed", "no such program", None)
    assert shown["state"] == "failed" and shown["spec"]["env"] == ["A=***", "B=***"]
    assert shown["spec"]["command"] == ["ls"] and shown["spec"]["reserveTime"] == 15


def test_what_a_killed_command_had_written_is_shown(gateway: CoreGateway, api: Api) -> None:
    data = accepted(api.call("POST", COMMAND, json=command()))
    answer(gateway, data["messages"][0], "failed", message="killed after 7 s", stdout="so far", truncated=True)
    shown = api.data(f"{COMMAND}?id={data['commandID']}")
    task = shown["status"]["taskgroups"][0]["tasks"][0]
    inspect = {"exitCode": None, "stdout": "so far", "stderr": "", "truncated": True}
    assert (task["status"], task["message"], task["commInspect"]) == ("failed", "killed after 7 s", inspect)


def test_a_command_says_how_long_and_where(gateway: CoreGateway, api: Api) -> None:
    groups = [group["ID"] for group in api.data(f"{WEB}/taskgroups")]
    spec = command(taskgroups=groups[:1], timeout=2.5, reserveTime=3)
    spec["spec"]["commandTargetRef"] = {"kind": "Application", "namespace": "shop", "name": "web", "image": "demo"}
    data = accepted(api.call("POST", COMMAND, json=spec))
    asked = gateway.commands[-1]
    assert isinstance(asked, CreateCommand)
    assert (asked.taskgroups, asked.timeout, asked.reserve, asked.image) == ((groups[0],), 2.5, 180.0, "demo")
    assert data["messages"][0]["status"] == "failed" and "image" in data["messages"][0]["message"]


def test_commands_are_listed_and_forgotten(api: Api) -> None:
    ids = [accepted(api.call("POST", COMMAND, json=command(command=[name])))["commandID"] for name in ("a", "b", "c")]
    listed = api.get(f"{WEB}/commands?limit=2").json()
    assert [item["id"] for item in listed["data"]] == ids[:2]
    rest = api.data(f"/commands/application/shop/web?continue={listed['continue']}")
    assert [item["id"] for item in rest] == ids[2:]
    assert api.call("DELETE", f"{COMMAND}?id={ids[0]}").status_code == 200
    assert api.get(f"{COMMAND}?id={ids[0]}").status_code == 404
    assert api.call("DELETE", f"{COMMAND}?id={ids[0]}&mustExist=true").status_code == 404
    assert api.get(f"/command/application/shop/other?id={ids[1]}").status_code == 404
    assert api.get(COMMAND).status_code == 400


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"command": []}, "$.spec.command"),
        ({"command": ["", "x"]}, "$.spec.command[0]"),
        ({"command": "ls"}, "$.spec.command"),
        ({"commandTargetRef": None}, "$.spec.commandTargetRef"),
        ({"commandTargetRef": {"kind": "Deployment"}}, "$.spec.commandTargetRef.kind"),
        ({"commandTargetRef": {"kind": "Aplication"}}, "$.spec.commandTargetRef.kind"),
        ({"commandTargetRef": {"name": "other"}}, "$.spec.commandTargetRef.name"),
        ({"commandTargetRef": {"namespace": "other"}}, "$.spec.commandTargetRef.namespace"),
        ({"env": ["A"]}, "$.spec.env[0]"),
        ({"env": ["A=1", "A=2"]}, "$.spec.env[1]"),
        ({"taskgroups": ["x", "x"]}, "$.spec.taskgroups[1]"),
        ({"reserveTime": -1}, "$.spec.reserveTime"),
        ({"timeout": 1e9}, "$.spec.timeout"),
        ({"user": "a b"}, "$.spec.user"),
    ],
)
def test_problems_of_commands(spec: dict[str, Any], path: str) -> None:
    with pytest.raises(ApiError) as refused:
        read_command(command(**spec), "shop", "web")
    assert path in {problem.path for problem in refused.value.problems}


def test_taskgroups_of_others_are_refused(api: Api) -> None:
    response = api.call("POST", COMMAND, json=command(taskgroups=["0.web.shop.demo.1"]))
    assert response.status_code == 404
    assert api.call("POST", "/command/application/shop/none", json=command()).status_code == 404


# --- messages -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "kind", "body"),
    [
        (
            {"msgtype": "local", "msgdata": {"to": "/a", "user": "u", "right": "r", "ctx": DATA}},
            "local",
            {"path": "/a", "data": DATA, "mode": 0o444, "owner": "u"},
        ),
        (
            {"Type": 1, "Local": {"To": "a", "Right": "rw", "User": "", "Base64": DATA}},
            "local",
            {"path": "a", "data": DATA, "mode": 0o644, "owner": ""},
        ),
        (
            {"msgtype": "remote", "msgdata": {"to": "/a", "remote": "https://h/x"}},
            "remote",
            {"path": "/a", "url": "https://h/x", "user": "", "password": "", "mode": 0o644, "owner": ""},
        ),
        (
            {"Type": 4, "Remote": {"To": "/a", "From": "http://h/x", "RemoteUser": "u", "RemotePasswd": "p"}},
            "remote",
            {"path": "/a", "url": "http://h/x", "user": "u", "password": "p", "mode": 0o644, "owner": ""},
        ),
        (
            {"name": "web", "msgtype": "signal", "msgdata": {"signal": 15, "processname": "nginx"}},
            "signal",
            {"signal": 15, "process": "nginx"},
        ),
        ({"Type": 2, "Sig": {"Signal": "SIGHUP"}}, "signal", {"signal": 1, "process": ""}),
        ({"msgtype": "env-key", "msgdata": {"env-key": "A", "env-value": "1"}}, "env", {"name": "A", "value": "1"}),
        ({"Type": 3, "Env": {"Name": "A", "Value": "1"}}, "env", {"name": "A", "value": "1"}),
        ({"Type": 10}, "reload", {}),
        ({"type": 11, "TaskID": None}, "restart", {}),
    ],
)
def test_both_forms_of_messages_say_what_executors_do(sent: Any, kind: str, body: dict[str, Any]) -> None:
    made = read_message(sent, "shop", "web")
    assert (made.type, made.body) == (kind, body)
    assert DATA not in repr(made)


@pytest.mark.parametrize(
    ("sent", "path"),
    [
        ({"msgtype": "locl", "msgdata": {}}, "$.msgtype"),
        ({"msgtype": "local"}, "$.msgdata"),
        ({"msgtype": "local", "msgdata": {"to": "", "ctx": ""}}, "$.msgdata.to"),
        ({"msgtype": "local", "msgdata": {"to": "/a/../b", "ctx": ""}}, "$.msgdata.to"),
        ({"msgtype": "local", "msgdata": {"to": "/a", "ctx": "%"}}, "$.msgdata.ctx"),
        ({"msgtype": "local", "msgdata": {"to": "/a", "ctx": "", "right": "w"}}, "$.msgdata.right"),
        ({"msgtype": "remote", "msgdata": {"to": "/a", "remote": "ftp://h/x"}}, "$.msgdata.remote"),
        ({"msgtype": "remote", "msgdata": {"remote": "http://h", "remotePasswd": "x"}}, "$.msgdata.remoteUser"),
        ({"msgtype": "signal", "msgdata": {"signal": 65}}, "$.msgdata.signal"),
        ({"msgtype": "signal", "msgdata": {"signal": "HUPP"}}, "$.msgdata.signal"),
        ({"msgtype": "signal", "msgdata": {"sginal": 1}}, "$.msgdata.sginal"),
        ({"msgtype": "env", "msgdata": {"env-key": "A=B"}}, "$.msgdata.env-key"),
        ({"Type": 12}, "$.Type"),
        ({"Type": 1}, "$.Local"),
        ({"Type": 2, "Sig": {"Signal": 1}, "Env": {"Name": "A"}}, "$.Env"),
        ({"Type": 2, "Sig": {"Signal": 1}, "TaskID": {"value": "x"}}, "$.TaskID"),
        ({"Type": 2, "Sig": {"Signal": 1}, "Id": 7}, "$.Id"),
        ({"name": "other", "msgtype": "signal", "msgdata": {"signal": 1}}, "$.name"),
        ([], "$"),
    ],
)  # fmt: skip
def test_problems_of_messages(sent: Any, path: str) -> None:
    with pytest.raises(ApiError) as refused:
        read_message(sent, "shop", "web")
    assert path in {problem.path for problem in refused.value.problems}


def test_a_message_goes_to_all_taskgroups_or_to_one(gateway: CoreGateway, api: Api) -> None:
    groups = [group["ID"] for group in api.data(f"{WEB}/taskgroups")]
    body = {"msgtype": "signal", "msgdata": {"signal": 1}}
    everyone = accepted(api.call("POST", f"{WEB}/message", json=body))
    assert [sent["taskgroup"] for sent in everyone["messages"]] == groups
    for path in (f"{WEB}/taskgroups/{groups[1]}/message", f"/apps/shop/web/message/{groups[1]}"):
        one = accepted(api.call("POST", path, json={"Type": 2, "Sig": {"Signal": 1}}))
        assert [sent["taskgroup"] for sent in one["messages"]] == [groups[1]]
    answer(gateway, one["messages"][0])
    shown = api.data(f"/message/{one['messages'][0]['messageID']}")
    assert (shown["Status"], shown["Type"], shown["Kind"], shown["TaskGroupId"]) == ("success", 2, "signal", groups[1])
    assert shown["Results"][0]["ok"] is True and shown["CompleteTime"] > 0
    assert [item["Id"] for item in api.data(f"{WEB}/messages")][-1] == shown["Id"]
    assert len(api.data("/apps/shop/web/messages")) == 4
    assert api.call("POST", f"{WEB}/taskgroups/0.x/message", json=body).status_code == 404
    assert api.get("/message/1").status_code == 404


def test_contents_of_messages_are_shown_by_digest(api: Api) -> None:
    sent = accepted(api.call("POST", f"{WEB}/message", json={"Type": 1, "Local": {"To": "a", "Base64": DATA}}))
    body = api.data(f"/message/{sent['messages'][0]['messageID']}")["Body"]
    assert (body["path"], body["size"]) == ("a", 7) and "data" not in body and len(body["digest"]) == 16


def test_accounts_of_remote_files_may_lie_in_secrets(gateway: CoreGateway, api: Api) -> None:
    data = {
        "to": "/a",
        "remote": "http://h/x",
        "remoteUser": "secret::login||key",
        "remotePasswd": "secret::login||key",
    }
    body = {"msgtype": "remote", "msgdata": data}
    response = api.call("POST", f"{WEB}/message", json=body)
    assert response.status_code == 409 and "secret shop/login does not exist" in response.text
    login = {"kind": "secret", "metadata": {"name": "login"}, "datas": {"key": {"content": DATA}}}
    assert api.call("POST", "/namespaces/shop/secrets", json=login).status_code == 200
    accepted(api.call("POST", f"{WEB}/message", json=body))
    asked = gateway.commands[-1]
    assert isinstance(asked, CreateCommand) and (asked.body["user"], asked.body["password"]) == ("content", "content")


def test_taskgroups_that_cannot_be_told_make_the_request_fail(gateway: CoreGateway, api: Api) -> None:
    """And the answer has the outcome of each, those that were told among them
    (docs/original.md#answers-per-taskgroup)."""
    group = min(gateway.core.state.taskgroups.values(), key=lambda group: group.index)
    gateway.report_taskgroup("FAILED", group.id)
    response = api.call("POST", f"{WEB}/message", json={"Type": 2, "Sig": {"Signal": 1}})
    data = response.json()["data"]
    assert (response.status_code, data["reason"], response.json()["result"]) == (409, "conflict", False)
    assert paths(response) == {group.id}
    assert [sent["status"] for sent in data["messages"]] == ["failed", "staging"]
    assert api.get(f"/message/{data['messages'][1]['messageID']}").status_code == 200


@pytest.mark.parametrize("verb", ["restart", "reload"])
def test_taskgroups_restart_and_reload(gateway: CoreGateway, api: Api, verb: str) -> None:
    group = api.data(f"{WEB}/taskgroups")[0]["ID"]
    for path in (f"/taskgroup/{group}/{verb}", f"{WEB}/taskgroups/{group}/{verb}"):
        data = accepted(api.call("POST", path))
        asked = gateway.commands[-1]
        assert isinstance(asked, CreateCommand) and (asked.type, asked.taskgroups) == (verb, (group,))
        assert api.data(f"/message/{data['messages'][0]['messageID']}")["Kind"] == verb
    assert api.call("POST", f"/taskgroup/0.x/{verb}").status_code == 404
    other = f"/namespaces/shop/applications/other/taskgroups/{group}/{verb}"
    assert api.call("POST", other).status_code == 404


def test_images_are_committed(gateway: CoreGateway, api: Api) -> None:
    raw = document("front", image="demo/front:1", instance=1, imagePullUser="me", imagePullPasswd="secret::login||key")
    login = {"kind": "secret", "metadata": {"name": "login"}, "datas": {"key": {"content": DATA}}}
    assert api.call("POST", "/namespaces/shop/secrets", json=login).status_code == 200
    gateway.offer()
    accepted(api.call("POST", "/namespaces/shop/applications", json=raw))
    gateway.offer()
    gateway.report("RUNNING", "shop/front")
    group = api.data("/namespaces/shop/applications/front/taskgroups")[0]["ID"]
    accepted(api.call("POST", f"/image/commit/{group}?image=demo/front:1&url=registry/front:2"))
    asked = gateway.commands[-1]
    assert isinstance(asked, CreateCommand)
    assert (asked.type, asked.image) == ("commit", "demo/front:1")
    assert asked.body == {"target": "registry/front:2", "user": "me", "password": "content"}
    assert api.data("/namespaces/shop/applications/front/commands")[0]["body"]["password"] == "***"
    assert api.call("POST", f"/image/commit/{group}?image=demo/front&url=x").status_code == 400
    assert api.call("POST", f"/image/commit/{group}?image=demo/front:1").status_code == 400
    assert api.call("POST", "/image/commit/0.x?image=a&url=b").status_code == 404
    assert api.call("DELETE", "/secret/shop/login").status_code == 200
    response = api.call("POST", f"/image/commit/{group}?image=demo/front:1&url=registry/front:2")
    assert response.status_code == 409 and "secret shop/login" in response.text


# --- limits in place, health ----------------------------------------------------------------------------------


def test_limits_change_in_place(gateway: CoreGateway, api: Api) -> None:
    resources = {"requests": {"cpu": "0.1", "memory": "32"}, "limits": {"cpu": "0.5", "memory": "64"}}
    raw = document(resources=resources)
    data = accepted(api.call("PUT", f"{WEB}?args=resource", json=raw))
    assert data["commandID"] and len(data["messages"]) == 2
    assert api.data(f"{COMMAND}?id={data['commandID']}")["type"] == "resources"
    assert api.call("PUT", f"{WEB}?args=resource", json=raw).json()["data"]["unchanged"] is True
    raw = document(resources=resources, command="other")
    assert api.call("PUT", f"{WEB}?args=resource", json=raw).status_code == 422
    assert api.call("PUT", f"{WEB}?args=resources", json=raw).status_code == 400


def test_an_update_keeps_the_kind(api: Api) -> None:
    raw = document()
    raw["kind"] = "process"
    raw["spec"]["template"]["spec"] = {"processes": [{"procName": "x", "startCmd": "x"}]}
    assert paths(api.call("PUT", WEB, json=raw)) == {"$.kind"}
    raw["metadata"]["name"] = "daemon"
    accepted(api.call("POST", "/namespaces/shop/applications", json=raw))
    assert api.data("/namespaces/shop/applications/daemon")["Kind"] == "process"
    assert [a["Name"] for a in api.data("/applications?kind=process")] == ["daemon"]
    assert [a["Name"] for a in api.data("/applications?kind=application")] == ["web"]


def test_remote_checks_are_reported_from_outside(gateway: CoreGateway, api: Api) -> None:
    check = {"type": "REMOTE_HTTP", "http": {"port": 80}}
    raw = document("checked", healthChecks=[check], instance=1)
    gateway.offer()
    accepted(api.call("POST", "/namespaces/shop/applications", json=raw))
    gateway.offer()
    gateway.report("RUNNING", "shop/checked")
    tasks = "/namespaces/shop/applications/checked/tasks"
    task = api.data(tasks)[0]
    assert task["HealthCheckStatus"] == [
        {"type": "REMOTE_HTTP", "result": True, "message": "remote http check, not reported", "updateTime": 0}
    ]
    assert (task["IsChecked"], task["Healthy"]) == (False, True)
    report = {"id": task["ID"], "type": "REMOTE_HTTP", "status": False, "message": "503", "http": {"port": 80}}
    assert api.call("POST", "/healthcheck", json=report).status_code == 200
    task = api.data("/apps/shop/checked/tasks")[0]
    [status] = task["HealthCheckStatus"]
    assert status.pop("updateTime") >= task["UpdateTime"] > 0
    assert status == {"type": "REMOTE_HTTP", "result": False, "message": "503"}
    assert (task["IsChecked"], task["Healthy"]) == (True, False)
    assert api.data("/namespaces/shop/applications/checked/taskgroups")[0]["Healthy"] is False
    assert api.call("POST", "/healthcheck", json={**report, "id": "none"}).status_code == 404
    assert api.call("POST", "/healthcheck", json={**report, "type": "HTTP"}).status_code == 422


def test_a_command_keeps_its_values_out_of_its_repr() -> None:
    spec = read_command(command(env=["A=hidden"]), "shop", "web")
    assert "hidden" not in repr(to_command_content(spec))


def test_processes_have_a_collection_of_their_own(gateway: CoreGateway, api: Api) -> None:
    raw = document("daemon", instance=1)
    raw["kind"] = "process"
    raw["spec"]["template"]["spec"] = {"processes": [{"procName": "x", "startCmd": "x"}]}
    processes = "/namespaces/shop/processes"
    assert paths(api.call("POST", processes, json=document("other"))) == {"$.kind"}
    gateway.offer()
    accepted(api.call("POST", processes, json=raw))
    gateway.offer()
    gateway.report("RUNNING", "shop/daemon")
    assert [item["Name"] for item in api.data(processes)] == ["daemon"]
    assert [item["Name"] for item in api.data("/namespaces/shop/applications")] == ["daemon", "web"], "of every kind"
    assert api.data(f"{processes}/daemon")["Kind"] == "process"
    task = api.data("/tasks?namespace=shop&limit=1")[0]
    assert (task["Kind"], task["Command"], task["AppId"]) == ("process", "x", "daemon")
    assert len(api.data("/tasks")) == 3
    for method, path in (("GET", ""), ("PUT", "/scale/2"), ("PUT", "/rollback"), ("DELETE", "")):
        assert api.call(method, f"{processes}/web{path}").status_code == 404
    raw["spec"]["template"]["spec"]["processes"][0]["startCmd"] = "y"
    accepted(api.call("PUT", processes, json=raw))
    accepted(api.call("DELETE", f"{processes}/daemon"))
