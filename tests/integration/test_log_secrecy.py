"""No log has what passes through the API: `dev` at level debug gets marked values through every route and stream."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import requests
from websockets.exceptions import ConnectionClosedOK, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from bcs_scheduler.api.http.operation import BASE, Operation
from bcs_scheduler.api.routes import operations
from bcs_scheduler.console.site import METHODS, SESSION
from bcs_scheduler.security.tokens import hash_of, token_entry
from tests.integration.devprocess import Dev
from tests.integration.schedulerprocess import document
from tests.waiting import wait_for

pytestmark = pytest.mark.slow
MARK = "marked"
"""Part of every value that no log may have. Names of objects have no mark: logs are about objects."""
TOKEN = f"bcs_{MARK}-token"
ENCODED = b64encode(f"{MARK}-content".encode()).decode()
HEADERS = {
    "Authorization": f"Bearer {TOKEN}",
    "Cookie": f"bcs-session={MARK}-cookie; other={MARK}-other",
    "X-Custom": f"{MARK}-header",
    "User-Agent": f"{MARK}-agent",
    "Last-Event-ID": f"{MARK}-position",
}
QUERY = {"token": f"{MARK}-query"}
"""A parameter that no route has."""
KNOWN = {"ns": "default", "name": "web", "kind": "Database", "agent": "agent-1", "instances": "1", "service": "web"}
NAMES = frozenset({"ips", "id", "path", "file", "task"})
"""Parameters that name objects."""
TASK = "import time; print('ready', flush=True); time.sleep(1000)"


class World:
    """`dev` that asks for a token, and a running taskgroup of each executor."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        tokens = folder / "tokens.toml"
        tokens.write_text(token_entry("admin", hash_of(TOKEN), "admin", ["*"]))
        self.dev = Dev(folder, "--log-level=debug", BCS_API_TOKENS_FILE=str(tokens))
        self.session = requests.Session()
        self.session.trust_env = False
        self.groups: dict[str, str] = {}

    def request(self, method: str, path: str, **more: Any) -> requests.Response:
        more["headers"] = HEADERS | more.get("headers", {})
        return self.session.request(
            method, self.dev.url + path, timeout=(10, 60), allow_redirects=False, stream=True, **more
        )

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """`data` of a successful answer."""
        answer = self.request(method, BASE + path, json=body)
        assert answer.status_code < 300, (method, path, answer.text)
        return answer.json()["data"]

    def run(self, name: str, executor: str) -> None:
        container = {
            "env": [{"name": "A", "value": f"{MARK}-variable"}],
            "healthChecks": [
                {
                    "type": "COMMAND",
                    "command": {"value": f"echo {MARK}-checked; exit 1"},
                    "timeoutSeconds": 1,
                    "intervalSeconds": 2,
                    "consecutiveFailures": 10_000,
                }
            ],
        }
        wanted = document(name, 1, ["python3", "-c", TASK, f"{MARK}-argument"], container=container)
        wanted["executor"] = executor
        self.call("POST", "/namespaces/default/applications", wanted)
        self.groups[executor] = str(wait_for(lambda: self._running(name), 90, f"{name}\n{self.dev.said[-3000:]}"))

    def _running(self, name: str) -> str | None:
        groups = self.call("GET", f"/namespaces/default/applications/{name}/taskgroups")
        return groups[0]["ID"] if groups and groups[0]["Status"] == "Running" else None

    def session_at(self, path: str) -> ClientConnection:
        return connect(
            f"{self.dev.url.replace('http', 'ws')}{path}", additional_headers=HEADERS, proxy=None, legacy=True
        )

    def logs(self) -> dict[str, str]:
        """What `dev` has written, with the embedded cluster, and what executors have written for themselves."""
        found = {"dev": self.dev.said}
        for path in (self._folder / "data" / "mesos").rglob("std*"):
            if "tasks" not in path.parts:  # the output of tasks is their own
                found[str(path)] = path.read_text(errors="replace")
        return found


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("logs"))
    try:
        wait_for(lambda: made.request("GET", "/readyz").status_code == 200, 60, "readiness")
        made.run("web", "bcs")
        made.run("plain", "mesos")
        yield made
    finally:
        made.dev.stop()


def filled(path: str, group: str) -> str:
    """A path of objects that exist, as far as their names are known."""
    known = {**KNOWN, "taskgroup": group, **({"id": group} if "/taskgroup/" in path else {})}
    return re.sub(r"{(\w+)}", lambda found: known.get(found[1], "1"), path)


def body_of(operation: Operation) -> Any:
    """A document that fits nothing, with a mark in every value that is no name."""
    return {"metadata": {"name": "none"}, "spec": {MARK: f"{MARK}-value"}, "extra": [f"{MARK}-element"], "ctx": ENCODED}


def queries(operation: Operation) -> Iterator[dict[str, str]]:
    """Marks in all texts, in one of them at a time, and in none."""
    texts = [param.name for param in operation.query if param.kind == "text" and param.name not in NAMES]
    yield QUERY
    yield {}
    for name in texts:
        yield {name: f"{MARK}={MARK}-selected"}
        yield {name: f"{MARK}-text"}
    if any(param.name == "watch" for param in operation.query):
        yield {"watch": "true", "timeout": "0"}


def read_some(answer: requests.Response) -> None:
    """All of an answer; of a stream its first bytes."""
    with answer:
        if answer.headers.get("Content-Type", "").startswith("text/event-stream"):
            next(answer.iter_content(65536), b"")
        else:
            assert answer.content is not None


@pytest.mark.parametrize("executor", ["bcs", "mesos"])
def test_no_session_writes_what_is_typed_or_printed_to_a_log(world: World, executor: str) -> None:
    for operation in operations():
        if not operation.upgrade:
            continue
        path = filled(operation.path, world.groups[executor])
        for query in ("", "?task=none", f"?token={MARK}-query"):
            assert talk(world, path + query) or query
    nothing_in(world)


def talk(world: World, path: str) -> bool:
    """False if the session is refused."""
    try:
        line = world.session_at(path)
    except InvalidStatus:
        return False
    with line:
        kind = path.partition("?")[0].rpartition("/")[2]
        line.send(json.dumps(begin_of(kind)))
        if kind == "exec":
            line.send(b"\0" + f"{MARK}-typed\n".encode())
            line.send(bytes((255, 0)))
            said = b"".join(message for message in line if isinstance(message, bytes))
            assert MARK.encode() in said, said
        else:
            with suppress(ConnectionClosedOK):  # it may have ended with its answer before more is typed
                line.send(b"\0" + f"{MARK}-typed\n".encode())
                line.recv(timeout=30)
    return True


def begin_of(kind: str) -> dict[str, Any]:
    known: dict[str, dict[str, Any]] = {
        "exec": {"command": ["sh", "-c", f"cat; echo {MARK}-printed"], "stdin": True, "env": {"B": f"{MARK}-env"}},
        "attach": {"logs": True},
        "portforward": {"port": 1},
        "copy": {"copy": {"action": "fetch", "path": "/no-such-file"}},
    }
    return known[kind]


def test_no_route_writes_values_to_a_log(world: World) -> None:
    wanted: list[tuple[str, Any]] = [
        ("/namespaces/default/secrets", {"kind": "secret", "datas": {"a": {"content": ENCODED}}}),
        ("/namespaces/default/configmaps", {"kind": "configmap", "datas": {"a": {"content": ENCODED}}}),
        ("/namespaces/default/applications/web/message", {"Type": 3, "Env": {"Name": "A", "Value": f"{MARK}-set"}}),
        (
            "/namespaces/default/applications/web/message",
            {"msgtype": "local", "msgdata": {"to": "file", "ctx": ENCODED}},
        ),
        (
            "/command/application/default/web",
            {"kind": "Command", "spec": {"commandTargetRef": {}, "command": ["echo", f"{MARK}-said"]}},
        ),
    ]
    for path, body in wanted:
        world.call("POST", path, {"metadata": {"name": "web"}, **body})
    seen = 0
    for operation in operations():
        if operation.upgrade or (operation.method == "DELETE" and "applications" in operation.path):
            continue
        path = filled(operation.path, world.groups["bcs"])
        for query in queries(operation):
            body = {"json": body_of(operation)} if operation.body is not None else {}
            answer = world.request(operation.method, path, params=query, **body)
            if operation.method == "GET" and answer.status_code == 200:
                seen += 1
            read_some(answer)
    assert seen > 50, "most reads succeed"
    for path in METHODS:
        read_some(world.request("GET", path, params=QUERY))
    for token in (TOKEN, f"{MARK}-wrong"):
        sent = {"Origin": world.dev.url}
        read_some(world.request("POST", SESSION, json={"token": token}, headers=sent))
    for scheme in ("Bearer", "Session"):
        read_some(world.request("GET", f"{BASE}/applications", headers={"Authorization": f"{scheme} {MARK}-wrong"}))
    for malformed in (b"{" + MARK.encode(), b"\xff" + MARK.encode()):
        read_some(world.request("POST", f"{BASE}/namespaces/default/applications", data=malformed))
    nothing_in(world)


def nothing_in(world: World) -> None:
    logs = world.logs()
    assert any("stderr" in name for name in logs), "the files of executors are found"
    assert '"request"' in logs["dev"] or "request " in logs["dev"], "the level is debug"
    for name, text in logs.items():
        for content in (MARK, ENCODED):
            found = text.find(content)
            assert found < 0, (name, text[max(0, found - 300) : found + 100])
