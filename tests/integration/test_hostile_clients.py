"""Rubbish over the real server: the right refusal in an envelope, nothing stored, and a scheduler that goes on."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
import requests

from tests.integration.schedulerprocess import PREFIX, SchedulerProcess, document
from tests.waiting import wait_for

APPS = "/namespaces/default/applications"
KEYS = {"result", "code", "message", "data"}
CONTAINER = ("spec", "template", "spec", "containers", 0)
PARALLEL = 200
SLOW_SECONDS = 15.0
"""How long the API waits for the head or the body of a request (docs/api.md)."""


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SchedulerProcess]:
    process = SchedulerProcess(tmp_path_factory.mktemp("hostile"), "memory:", "http://127.0.0.1:1").start()
    wait_for(lambda: process.request("GET", "/applications").status_code == 200 and leads(process), 30, "leadership")
    yield process
    process.stop()


def leads(process: SchedulerProcess) -> bool:
    return bool(requests.get(f"{process.url}/readyz", timeout=60).json()["role"] == "master")


@pytest.fixture(autouse=True)
def unharmed(scheduler: SchedulerProcess) -> Iterator[None]:
    """Whatever was sent: it leads on, has stored nothing, and nothing failed inside."""
    yield
    assert leads(scheduler)
    for path in ("/applications", "/transactions", "/agentsettings"):
        assert scheduler.call("GET", path) == []
    assert "Traceback" not in scheduler.log()


def connect(scheduler: SchedulerProcess) -> socket.socket:
    host, port = scheduler.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=60)


def answer_on(connection: socket.socket) -> tuple[int, str]:
    """Status and reason of the one answer; checks that it is an envelope."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += received(connection)
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
    )
    while len(body) < length:
        body += received(connection)
    envelope = json.loads(body[:length])
    assert envelope.keys() - {"warnings"} == KEYS and envelope["result"] is False and envelope["message"]
    return int(head.split()[1]), envelope["data"]["reason"]


def received(connection: socket.socket) -> bytes:
    data = connection.recv(65536)
    assert data, "the connection was closed in the middle of the answer"
    return data


def post(scheduler: SchedulerProcess, body: bytes) -> tuple[int, str]:
    with connect(scheduler) as connection:
        connection.sendall(head("POST", APPS, len(body)) + body)
        return answer_on(connection)


def head(method: str, path: str, length: int) -> bytes:
    return (
        f"{method} {PREFIX}{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {length}\r\n\r\n"
    ).encode()


def good(name: str = "web", instances: int = 1) -> dict[str, Any]:
    return document(name, instances, ["/bin/sleep", "1"])


def with_value(path: tuple[str | int, ...], value: Any) -> bytes:
    """A document that is right but for one place."""
    made = good()
    place: Any = made
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return json.dumps(made).encode()


# --- bodies -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"a":',
        b"\x00" * 1000,
        b'{"a":"\x00"}',
        b'{"a":"\xff"}',
        b'{"a":"\\ud800"}',
        b'{"a":NaN}',
        b"1e999",
        b"1" * 5000,
        b"[" * 200_000,
        b'{"a":' * 100_000,
    ],
    ids=lambda body: repr(body[:12]),
)
def test_what_is_no_json(scheduler: SchedulerProcess, body: bytes) -> None:
    assert post(scheduler, body) == (400, "bad_json")


def test_keys_that_are_given_very_often(scheduler: SchedulerProcess) -> None:
    body = b"[" + b",".join([b'{"a":1,"a":{"b":1,"b":2}}'] * 20_000) + b"]"
    assert post(scheduler, body) == (422, "invalid")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("metadata",), None),
        (("metadata",), []),
        (("metadata", "name"), "a\0b"),
        (("metadata", "name"), "../../epoch"),
        (("metadata", "name"), "a" * 10_000),
        (("metadata", "name"), 5),
        (("metadata", "namespace"), "a/b"),
        (("metadata", "labels"), {"": ""}),
        (("metadata", "labels"), {"a": {}}),
        (("metadata", "labels"), {f"key-{n}": "value" for n in range(30_000)}),
        (("spec", "instance"), -1),
        (("spec", "instance"), -(10**40)),
        (("spec", "instance"), 10**9),
        (("spec", "instance"), 1e308),
        (("spec", "instance"), True),
        (("spec", "instance"), "5"),
        (("spec", "template"), "x"),
        (("spec", "template", "spec", "containers"), {}),
        (("spec", "template", "spec", "containers"), []),
        (("spec", "template", "spec", "containers"), [{}] * 3000),
        ((*CONTAINER, "command"), ""),
        ((*CONTAINER, "command"), "a\0"),
        ((*CONTAINER, "args"), ["x" * 1_000_000]),
        ((*CONTAINER, "args"), [[]]),
        ((*CONTAINER, "env"), [{"name": "A=B", "value": ""}]),
        ((*CONTAINER, "ports"), [{"name": "p", "hostPort": 65536}]),
        ((*CONTAINER, "ports"), [{"name": "a\nb", "hostPort": 0}]),
        ((*CONTAINER, "ports"), [{"name": f"p{n}", "hostPort": 0} for n in range(5000)]),
        ((*CONTAINER, "resources"), {"limits": {"cpu": "1e300"}}),
        ((*CONTAINER, "resources"), {"limits": {"cpu": 10**30}}),
        ((*CONTAINER, "resources"), {"limits": {"cpu": "-0"}}),
        ((*CONTAINER, "resources"), {"limits": {"memory": "9" * 10_000}}),
        ((*CONTAINER, "resources"), {"limits": {"memory": "1Zi"}}),
        (("restartPolicy",), {"policy": "Always", "interval": 10**18}),
        (("killPolicy",), {"gracePeriod": -1}),
        (("restartPolcy",), [[[[[]]]]]),
    ],
    ids=lambda part: repr(part)[:40],
)
def test_documents_that_cannot_be(scheduler: SchedulerProcess, path: tuple[str | int, ...], value: Any) -> None:
    assert post(scheduler, with_value(path, value)) == (422, "invalid")


@pytest.mark.parametrize("body", [b"null", b"[]", b'"x"', b"1", b"{}"])
def test_json_that_is_no_document(scheduler: SchedulerProcess, body: bytes) -> None:
    assert post(scheduler, body) == (422, "invalid")


def test_bodies_that_are_too_deep(scheduler: SchedulerProcess) -> None:
    assert post(scheduler, b"[" * 900 + b"]" * 900) == (400, "bad_json")


def test_bodies_that_are_too_large(scheduler: SchedulerProcess) -> None:
    assert post(scheduler, b'{"x":"' + b"x" * 1024 * 1024 + b'"}') == (413, "too_large")
    with connect(scheduler) as connection:
        connection.sendall(head("POST", APPS, 10**12))
        assert answer_on(connection) == (413, "too_large"), "it is not even waited for"


# --- heads --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_line", "expected"),
    [
        (f"PUT {PREFIX}{APPS}/web/scale/-1", (400, "bad_parameter")),
        (f"PUT {PREFIX}{APPS}/web/scale/{'9' * 5000}", (400, "bad_parameter")),
        (f"PUT {PREFIX}{APPS}/web/scale/3", (404, "not_found")),
        (f"GET {PREFIX}{APPS}/{'x' * 60_000}", (404, "not_found")),
        (f"GET {PREFIX}{APPS}/%00%0a%ff", (404, "not_found")),
        (f"GET {PREFIX}/transactions?limit=1e9", (400, "bad_parameter")),
        (f"GET {PREFIX}/transactions?continue=%00", (400, "bad_parameter")),
        (f"GET {PREFIX}/applications?labelSelector={'(' * 5000}", (400, "bad_parameter")),
        (f"POST {PREFIX}/agentsettings/disable?ips=%00", (400, "bad_parameter")),
        (f"GET {PREFIX}/../../etc/passwd", (404, "no_such_route")),
        (f"TRACE {PREFIX}/applications", (405, "method_not_allowed")),
    ],
    ids=lambda part: part[:60] if isinstance(part, str) else "",
)
def test_paths_and_parameters(scheduler: SchedulerProcess, request_line: str, expected: tuple[int, str]) -> None:
    with connect(scheduler) as connection:
        connection.sendall(f"{request_line} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".encode())
        assert answer_on(connection) == expected


def test_what_is_no_http(scheduler: SchedulerProcess) -> None:
    for sent, expected in (
        (b"\x16\x03\x01\x02\x00" * 10 + b"\r\n\r\n", (400, "bad_http")),
        (b"GET " + b"/x" * 60_000 + b" HTTP/1.1\r\n\r\n", (431, "head_too_large")),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 200_000, (431, "head_too_large")),
        (b"GET / HTTP/1.1\r\n" + b"".join(b"X%d: x\r\n" % n for n in range(20_000)), (431, "head_too_large")),
    ):
        with connect(scheduler) as connection:
            connection.sendall(sent)
            assert answer_on(connection) == expected, sent[:40]


# --- patience and numbers -----------------------------------------------------------------------------------------


def test_slow_clients_and_many_at_once(scheduler: SchedulerProcess) -> None:
    """Clients that send half a body or half a head hold up nobody, and get 408 in the end."""
    with ExitStack() as stack:
        half_bodies = [stack.enter_context(connect(scheduler)) for _ in range(20)]
        half_heads = [stack.enter_context(connect(scheduler)) for _ in range(20)]
        silent = [stack.enter_context(connect(scheduler)) for _ in range(PARALLEL)]
        for connection in half_bodies:
            connection.sendall(head("POST", APPS, 100) + b'{"kind": "appli')
        for connection in half_heads:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: ")
        with ThreadPoolExecutor(PARALLEL) as pool:
            bodies = [good("web", 1) if n % 2 else {"kind": n} for n in range(PARALLEL)]
            answers = list(pool.map(lambda body: plan(scheduler, body), bodies))
        assert answers == [200 if n % 2 else 422 for n in range(PARALLEL)]
        for connection in (*half_bodies, *half_heads, *silent):
            assert answer_on(connection) == (408, "too_slow")


def plan(scheduler: SchedulerProcess, body: object) -> int:
    """A dry run, which goes all the way through the core, on a connection of its own."""
    url = f"{scheduler.url}{PREFIX}{APPS}?dryRun=true"
    return requests.post(url, json=body, timeout=SLOW_SECONDS).status_code


def test_clients_that_hang_up(scheduler: SchedulerProcess) -> None:
    whole = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for sent in (b"", whole[:12], head("POST", APPS, 100) + b'{"kind"', whole, whole * 500):
        for _ in range(20):
            with connect(scheduler) as connection:
                connection.sendall(sent)
                if sent.startswith(whole):
                    assert received(connection)  # and no more of it
    assert post(scheduler, b"[]") == (422, "invalid")
