"""The WebSocket of sessions against a server of the library: one thread for all calls of OpenSSL, both directions at
the same time, and an end within a bound."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.typing import Subprotocol

from bcs_scheduler.cli.client import session_line as lines
from bcs_scheduler.cli.client import websocket
from bcs_scheduler.cli.client.credentials import Credentials
from bcs_scheduler.cli.client.session_line import END, PIECE, STATUS, STDIN, STDOUT, SessionLine, open_session
from bcs_scheduler.cli.errors import CliError, Unreachable
from tests.integration.certificates import Authority
from tests.waiting import wait_for

Handler = Callable[[ServerConnection], Awaitable[None]]

INPUT = 16 * 1024 * 1024
"""Bytes: more than the kernel keeps for both directions of both connections."""


async def echo(connection: ServerConnection) -> None:
    """The program of the session is `cat`: its output must be taken before it reads on."""
    await connection.recv()
    async for message in connection:
        assert isinstance(message, bytes)
        if message[0] == END:
            await connection.send(bytes((STATUS,)) + json.dumps({"exitCode": 0}).encode())
            return
        assert message[0] == STDIN
        await connection.send(bytes((STDOUT,)) + message[1:])


@contextmanager
def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """The URL. One thread does the work of the server."""

    async def start() -> Server:
        return await serve(
            handler, "127.0.0.1", 0, ssl=tls, compression=None, max_size=None, max_queue=1, ping_interval=None,
            close_timeout=1.0, subprotocols=[Subprotocol(lines.PROTOCOL)],
        )  # fmt: skip

    async def stop(server: Server) -> None:
        server.close()
        await server.wait_closed()

    with start_blocking_portal() as portal:
        server = portal.call(start)
        try:
            yield f"http{'s' if tls else ''}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            portal.call(stop, server)


@pytest.fixture(params=["http", "https"])
def authority(request: pytest.FixtureRequest, tmp_path: Path) -> Authority | None:
    return Authority(tmp_path / "authority") if request.param == "https" else None


def tls_of(authority: Authority | None) -> ssl.SSLContext | None:
    if authority is None:
        return None
    pair = authority.give("server")
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(pair.cert, pair.key)
    return made


def trusting(authority: Authority | None) -> Credentials:
    return Credentials(ca_file=str(authority.ca)) if authority else Credentials()


def feed(line: SessionLine, size: int) -> threading.Thread:
    def work() -> None:
        line.send(bytes(size))
        line.end_input()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_both_directions_at_the_same_time(authority: Authority | None) -> None:
    with serving(echo, tls_of(authority)) as url:
        line = open_session(url, trusting(authority), "/session", {}, {}, 1.0)
        feeder = feed(line, INPUT)
        assert sum(len(said.data) for said in line.output()) == INPUT
        assert line.exit_code == 0
        line.close()
        feeder.join(30)
        assert not feeder.is_alive()


def test_one_thread_does_all_work_of_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child of `bcs exec` over TLS ended by "malloc(): unsorted double linked list corrupted"."""
    authority = Authority(tmp_path / "authority")
    used: list[tuple[str, int]] = []

    def recorded(kind: type[Any], *names: str) -> type[Any]:
        def method(name: str) -> Callable[..., Any]:
            def call(self: Any, *given: Any, **more: Any) -> Any:
                used.append((name, threading.get_ident()))
                return getattr(kind, name)(self, *given, **more)

            return call

        return type("Recorded", (kind,), {name: method(name) for name in names})

    def context(credentials: Credentials) -> ssl.SSLContext:
        made = ssl.create_default_context(cafile=credentials.ca_file)
        made.sslobject_class = recorded(ssl.SSLObject, "do_handshake", "read", "write", "unwrap")
        made.sslsocket_class = recorded(ssl.SSLSocket, "do_handshake", "recv", "send", "sendall", "unwrap")
        return made

    monkeypatch.setattr(lines, "_tls", context)
    with serving(echo, tls_of(authority)) as url:
        line = open_session(url, trusting(authority), "/session", {}, {}, 1.0)
        feed(line, 10 * PIECE)
        assert sum(len(said.data) for said in line.output()) == 10 * PIECE
        line.close()
    assert {"do_handshake", "read", "write"} <= {name for name, _ in used}
    assert len({thread for _, thread in used}) == 1


def test_a_session_ends_whose_server_takes_nothing(authority: Authority | None) -> None:
    """Neither what was sent before, nor the end of the connection."""

    async def stuck(connection: ServerConnection) -> None:
        await connection.wait_closed()

    with serving(stuck, tls_of(authority)) as url:
        line = open_session(url, trusting(authority), "/session", {}, {}, 1.0)
        feeder = feed(line, INPUT)
        # The rest of the input waits: the buffers of the kernel are full.
        transport = line._connection._connection.transport
        wait_for(lambda: transport.get_write_buffer_size() > 0, 30, "a full connection")
        begin = time.monotonic()
        line.close()
        assert time.monotonic() - begin < 2 * websocket.CLOSE_TIMEOUT
        with pytest.raises(Unreachable):
            list(line.output())
        feeder.join(30)
        assert not feeder.is_alive()
        assert line.send(b"more") is False


def test_output_that_the_user_does_not_take_stays_with_the_server() -> None:
    sent = 0

    async def flood(connection: ServerConnection) -> None:
        nonlocal sent
        await connection.recv()
        while sent < INPUT:
            await connection.send(bytes((STDOUT,)) + bytes(PIECE))
            sent += PIECE
        await connection.send(bytes((STATUS,)) + json.dumps({"exitCode": 7}).encode())

    with serving(flood) as url:
        line = open_session(url, Credentials(), "/session", {}, {}, 1.0)
        output = line.output()
        received = line._connection._received
        wait_for(lambda: received.qsize() >= websocket.AHEAD, 30, "output that is received ahead")
        got = len(next(output).data)
        assert sent < INPUT
        assert received.qsize() <= websocket.AHEAD
        assert got + sum(len(said.data) for said in output) == INPUT
        assert line.exit_code == 7
        line.close()


@pytest.mark.parametrize("location", ["http://127.0.0.1:1/elsewhere", "/session", "ws://127.0.0.1:1/session"])
def test_a_redirect_elsewhere_gets_no_token(location: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def redirect() -> None:
            connection, _ = listener.accept()
            with connection:
                while not connection.recv(65536).endswith(b"\r\n\r\n"):
                    pass
                answer = f"HTTP/1.1 307 Temporary Redirect\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"
                connection.sendall(answer.encode())

        server = threading.Thread(target=redirect, daemon=True)
        server.start()
        with pytest.raises(CliError, match="not a scheduler of the same cluster"):
            open_session(
                f"http://127.0.0.1:{listener.getsockname()[1]}", Credentials("secret"), "/session", {}, {}, 1.0
            )
        server.join(30)
