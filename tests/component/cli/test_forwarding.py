"""Ports that `bcs port-forward` leads to, and the end of a connection when the side of the taskgroup fails."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.cli.client.session_line import Said
from bcs_scheduler.cli.commands.taskgroups.forwarding import Forwarder, Ports, parse
from bcs_scheduler.cli.errors import CliError, UsageError
from tests.component.cli.standin import APPS, StandIn, application, failed, ok, taskgroup
from tests.waiting import wait_for


class Line:
    """A session that fails as soon as the thread that sends input waits for more of it."""

    def __init__(self) -> None:
        self._sender = 0

    def send(self, data: bytes) -> bool:
        self._sender = threading.get_native_id()
        return True

    def output(self) -> Iterator[Said]:
        wait_for(self._waits, 30, "the sender")
        raise CliError("connection refused")
        yield

    def _waits(self) -> bool:
        return self._sender > 0 and ") S " in Path(f"/proc/self/task/{self._sender}/stat").read_text()

    def end_input(self) -> None:
        pass

    def close(self) -> None:
        pass


class Told:
    """The part of a session of `bcs` that gets warnings."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, words: str) -> None:
        self.warnings.append(words)


def test_the_connection_of_a_user_ends_with_a_session_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    session: Any = Told()
    forwarder = Forwarder(session, "web-0")
    monkeypatch.setattr(forwarder, "_open", lambda ports: Line())
    user, connection = socket.socketpair()
    with user:
        user.settimeout(30)
        user.sendall(b"hello")
        forwarder._room.acquire()
        forwarder._serve(connection, Ports(0, 80))
        assert user.recv(1) == b""
    assert session.warnings == ["port 80: connection refused"]


def task(number: int, *ports: tuple[str, int, int], **more: Any) -> dict[str, Any]:
    """`ports`: name, port in the container, port of the agent."""
    mapped = [{"Name": name, "ContainerPort": inner, "HostPort": outer} for name, inner, outer in ports]
    return {**taskgroup()["Taskgroup"][0], "ID": f"task-{number}", "PortMappings": mapped, **more}


BRIDGED = (task(0, ("http", 80, 31000), Name="web"), task(1, ("admin", 9000, 31001), ("http", 8080, 31002)))


@pytest.fixture
def forwarded(server: StandIn, monkeypatch: pytest.MonkeyPatch) -> list[Ports]:
    """The ports that a command leads to, in place of leading to them. Taskgroup web-1 runs, web-0 does not."""
    groups = [
        taskgroup(0, Status="Failed"),
        taskgroup(1, Executor="bcs", Taskgroup=[*BRIDGED]),
        taskgroup(2, Executor="mesos", Taskgroup=[*BRIDGED]),
    ]
    server.on("GET", "/namespaces/defaultGroup/deployments/web", failed(404, "none", "not_found"))
    server.on("GET", f"{APPS}/web", ok(application()))
    server.on("GET", f"{APPS}/web/taskgroups", ok(groups))
    for group in groups:
        server.on("GET", f"/namespaces/defaultGroup/taskgroups/{group['ID']}", ok(group))
    found: list[Ports] = []

    @contextmanager
    def listening(self: Forwarder, address: str, wanted: list[Ports]) -> Iterator[list[socket.socket]]:
        found[:] = wanted
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            yield [listener] * len(wanted)

    monkeypatch.setattr(Forwarder, "listening", listening)
    monkeypatch.setattr(Forwarder, "serve", lambda *arguments: None)
    return found


def endpoint(*members: tuple[int, bool]) -> Any:
    eps = [{"targetRef": {"id": taskgroup(number)["ID"]}, "ready": ready} for number, ready in members]
    ports = [{"name": "http", "servicePort": 8000}, {"name": "admin", "servicePort": 0}]
    return ok({"metadata": {"name": "web"}, "ports": ports, "eps": eps})


@pytest.mark.parametrize(
    ("words", "ports"),
    [
        (("web", "http"), [(80, 80, "task-0", "http")]),
        (("app/web", "8080:http", ":admin"), [(8080, 80, "task-0", "http"), (0, 9000, "task-1", "admin")]),
        (("pod/web-1", ":http", "--task", "1"), [(0, 8080, "task-1", "http")]),
        (("pod/web-2", ":http", "admin"), [(0, 31000, "task-0", "http"), (31001, 31001, "task-1", "admin")]),
        (("pod/web-1", "81", "--task", "web"), [(81, 81, "web", "")]),
        (("svc/web", "8000"), [(8000, 80, "task-0", "http")]),
        (("service/web", "http", ":8000"), [(8000, 80, "task-0", "http"), (0, 80, "task-0", "http")]),
        (("svc/web", "admin"), [(9000, 9000, "task-1", "admin")]),
    ],
)
def test_ports_have_numbers_and_names(
    server: StandIn, bcs: Any, forwarded: list[Ports], words: tuple[str, ...], ports: list[tuple[Any, ...]]
) -> None:
    server.on("GET", "/namespaces/defaultGroup/endpoints/web", endpoint((0, False), (1, True), (2, True)))
    result = bcs("port-forward", *words)
    assert result.code == 0, result.err
    assert [tuple(pair) for pair in forwarded] == ports
    named = f" ({ports[0][3]})" if ports[0][3] else ""
    assert f"leads to port {ports[0][1]}{named} of web-" in result.out


def test_ports_that_do_not_exist_are_refused_with_the_known_ones(
    server: StandIn, bcs: Any, forwarded: list[Ports]
) -> None:
    server.on("GET", "/namespaces/defaultGroup/endpoints/web", endpoint((1, True)))
    server.on("GET", "/namespaces/defaultGroup/endpoints/idle", endpoint((0, False)))
    for words, code, message in (
        (("pod/web-1", "https"), 2, "web-1 has no port https; known: http, admin, http"),
        (("pod/web-1", "admin", "--task", "0"), 2, "known: http"),
        (("svc/web", "9000"), 2, "service web has no port 9000; known: http (8000), admin"),
        (("svc/idle", "http"), 3, "service idle has no ready taskgroup"),
        (("pod/web-0", "http"), 3, "has no running taskgroup"),
        (("svc/none", "http"), 3, ""),
        (("ingress/web", "80"), 2, "there is no kind 'ingress'"),
    ):
        result = bcs("port-forward", *words)
        assert result.code == code and message in result.err, result.err
    assert not forwarded


@pytest.mark.parametrize("text", ["", ":", "a:80", "80:80:80", "0", "65536", "65536:80", "80:", "a b"])
def test_what_is_no_port_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse(text)
