"""What is confidential goes in and does not come out: no read of the API shows it, whatever it reads
(docs/original.md#confidential-values)."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from bcs_scheduler.api.http.operation import BASE
from bcs_scheduler.api.reading.redaction import fingerprint
from bcs_scheduler.api.routes import operations
from bcs_scheduler.wire.redaction import HIDDEN, hide
from tests.component.apiserver import Api, serving
from tests.unit.api_support import CoreGateway, document

WEB = "/namespaces/shop/applications/web"
SECRETS = {
    "secret": "content-of-a-secret",
    "config password": "password-of-a-configmap",
    "registry": "password-of-a-registry",
    "download": "password-of-a-download",
    "process download": "password-of-a-package",
    "header": "credential-in-a-header",
    "other header": "credential-in-a-header-of-another-name",
    "variable": "value-of-a-command",
    "message file": "content-of-a-message",
    "message variable": "value-of-a-message",
    "message password": "password-of-a-message",
}


def base64(text: str) -> str:
    return b64encode(text.encode()).decode()


def web() -> dict[str, Any]:
    header = {"Authorization": SECRETS["header"], "X-Other": SECRETS["other header"], "X-Reference": "secret::keys||a"}
    return document(
        image="demo/web:1",
        imagePullUser="puller",
        imagePullPasswd=SECRETS["registry"],
        uris=[{"value": "http://h/x", "user": "reader", "pwd": SECRETS["download"]}],
        healthChecks=[{"type": "HTTP", "http": {"portName": "http", "headers": header}}],
        secrets=[{"secretName": "keys", "items": [{"type": "env", "dataKey": "a", "keyOrPath": "TOKEN"}]}],
        configmaps=[{"name": "conf", "items": [{"type": "file", "dataKey": "r", "keyOrPath": "/r"}]}],
    )


def daemon() -> dict[str, Any]:
    uri = {"value": "http://h/y", "user": "reader", "pwd": SECRETS["process download"]}
    raw = document("daemon", instance=1)
    raw["kind"] = "process"
    raw["spec"]["template"]["spec"] = {"processes": [{"procName": "d", "startCmd": "./d", "uris": [uri]}]}
    return raw


def config_map() -> dict[str, Any]:
    item = {
        "type": "http",
        "content": "http://h/r",
        "remoteUser": "reader",
        "remotePasswd": SECRETS["config password"],
    }
    return {"kind": "configmap", "metadata": {"name": "conf"}, "datas": {"r": item}}


REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("/namespaces/shop/secrets", {
        "kind": "secret", "metadata": {"name": "keys"}, "datas": {"a": {"content": base64(SECRETS["secret"])}},
    }),
    ("/namespaces/shop/configmaps", config_map()),
    ("/namespaces/shop/applications", web()),
    ("/namespaces/shop/applications", daemon()),
    ("/command/application/shop/web", {
        "kind": "Command",
        "spec": {"commandTargetRef": {}, "command": ["ls"], "env": [f"KEY={SECRETS['variable']}"]},
    }),
    (f"{WEB}/message", {"msgtype": "local", "msgdata": {"to": "/a", "ctx": base64(SECRETS["message file"])}}),
    (f"{WEB}/message", {"Type": 3, "Env": {"Name": "KEY", "Value": SECRETS["message variable"]}}),
    (f"{WEB}/message", {
        "msgtype": "remote",
        "msgdata": {
            "to": "/a", "remote": "http://h/m", "remoteUser": "u", "remotePasswd": SECRETS["message password"],
        },
    }),
]  # fmt: skip


@pytest.fixture(scope="module")
def gateway() -> CoreGateway:
    return CoreGateway()


@pytest.fixture(scope="module")
def api(gateway: CoreGateway) -> Iterator[Api]:
    gateway.connect()
    with serving(gateway) as api:
        for path, body in REQUESTS:
            gateway.offer()
            response = api.call("POST", path, json=body)
            assert response.status_code in (200, 202), response.text
            gateway.report("RUNNING", "shop/web")
        yield api


def readable(gateway: CoreGateway) -> Iterator[str]:
    """Every path that can be read, with every value its parameters can have here."""
    state = gateway.core.state
    names = ["web", "daemon", "keys", "conf"]
    ids = [*state.taskgroups, *state.transactions, *state.messages, *state.versions_of("shop/web")]
    ids += state.versions_of("shop/daemon")
    for operation in operations():
        if operation.method != "GET" or not operation.path.startswith(BASE):
            continue
        parameters = set(re.findall(r"{(\w+)}", operation.path))
        for name in names if "name" in parameters else ("",):
            for identity in ids if parameters & {"id", "taskgroup"} else ("",):
                path = operation.path.replace("{ns}", "shop").replace("{name}", name)
                path = path.replace("{id}", identity).replace("{taskgroup}", identity)
                if any(param.name == "id" for param in operation.query):
                    yield from (f"{path}?id={command}" for command in state.commands)
                else:
                    yield path


def begin_of(response: requests.Response) -> str:
    """All of it; of a stream, which has no end, what comes first."""
    if response.headers["Content-Type"].startswith("text/event-stream"):
        return next(response.iter_content(65536), b"").decode()
    return response.text


def test_no_read_shows_what_is_confidential(gateway: CoreGateway, api: Api) -> None:
    found: set[str] = set()
    for path in readable(gateway):
        if "{" in path:
            continue  # files and logs of other kinds of parameters hold nothing of the store
        with api.call("GET", path, base="", stream=True) as response:
            if response.status_code == 200:
                found.add(re.sub(r"shop/(web|daemon|keys|conf)", "shop/{name}", path.removeprefix(BASE)))
            text = begin_of(response)
        for what, content in SECRETS.items():
            assert content not in text and base64(content) not in text, (what, path)
    for expected in (
        "/definition/application/shop/{name}",
        "/configmaps",
        "/secrets",
        "/commands/application/shop/{name}",
    ):
        assert expected in found, expected


def test_definitions_show_marks_that_stand_for_the_stored_values_of_the_same_object(api: Api) -> None:
    definition = api.data("/definition/application/shop/web")
    container = definition["spec"]["template"]["spec"]["containers"][0]
    assert (container["imagePullUser"], container["imagePullPasswd"]) == ("puller", HIDDEN)
    assert container["uris"][0]["pwd"] == HIDDEN
    assert container["healthChecks"][0]["http"]["headers"] == {
        "Authorization": HIDDEN,
        "X-Other": HIDDEN,
        "X-Reference": "secret::keys||a",
    }
    kept = api.call("PUT", WEB, json=definition)
    assert kept.status_code == 200 and kept.json()["data"]["unchanged"], kept.text
    definition["metadata"]["name"] = "other"
    response = api.call("POST", "/namespaces/shop/applications", json=definition)
    assert response.status_code == 422
    at = "$.spec.template.spec.containers[0]"
    assert {problem["path"] for problem in response.json()["data"]["problems"]} == {
        f"{at}.imagePullPasswd", f"{at}.uris[0].pwd", f"{at}.healthChecks[0].http.headers.Authorization",
        f"{at}.healthChecks[0].http.headers.X-Other",
    }  # fmt: skip


def test_the_core_has_what_the_api_hides(gateway: CoreGateway, api: Api) -> None:
    version = next(iter(gateway.core.state.versions_of("shop/web").values()))
    assert version.containers[0].image_pull_password == SECRETS["registry"]
    assert version.containers[0].health_checks[0].headers["Authorization"] == SECRETS["header"]


def test_references_are_no_secrets() -> None:
    assert hide("secret::login||key") == "secret::login||key"
    assert (hide(""), hide("x")) == ("", HIDDEN)


def test_fingerprints_tell_equal_from_different() -> None:
    one, same, other = (fingerprint(base64(text)) for text in ("a", "a", "b"))
    assert one == same and one[0] != other[0] and one[1] == 1
