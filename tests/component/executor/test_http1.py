"""executor.agent.http1: answers are read and written over TCP and Unix sockets."""

from __future__ import annotations

import io
import socket
import threading
from pathlib import Path
from typing import BinaryIO, cast

import pytest

from bcs_scheduler.executor.agent.http1 import HttpError, Link, Response

CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n"


def response(text: bytes) -> Response:
    return Response(cast(BinaryIO, io.BufferedReader(io.BytesIO(text))))


@pytest.mark.parametrize(
    ("text", "body", "open_"),
    [
        (b"HTTP/1.1 202 Accepted\r\nContent-Length: 3\r\n\r\nabcdef", b"abc", True),
        (CHUNKED + b"2;x=y\r\nab\r\nA\r\n0123456789\r\n0\r\nT: t\r\n\r\n", b"ab0123456789", True),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", b"", False),
        (b"HTTP/1.0 503 Service Unavailable\r\n\r\ncome later", b"come later", False),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b"", True),
    ],
)
def test_bodies(text: bytes, body: bytes, open_: bool) -> None:
    found = response(text)
    assert (found.body(1000), found.stays_open) == (body, open_)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"SSH-2.0-x\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\nab",
        CHUNKED + b"zz\r\n",
        CHUNKED + b"2\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n" + b"x" * 2000,
        b"HTTP/1.1 200 " + b"x" * 100_000,
    ],
)
def test_what_is_no_response_is_refused(text: bytes) -> None:
    with pytest.raises(HttpError):
        response(text).body(1000)


def test_a_call_over_a_unix_socket(tmp_path: Path) -> None:
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(str(tmp_path / "agent"))
    server.listen()
    received = bytearray()

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            while not received.endswith(b"\r\n\r\nhello"):
                received.extend(connection.recv(1000))
            connection.sendall(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")

    thread = threading.Thread(target=serve)
    thread.start()
    link = Link("agent:5051", str(tmp_path / "agent"), {"Authorization": "Bearer x"}, 5.0)
    assert link.post("/api", b"hello").status == 202
    thread.join(30)
    link.close()
    server.close()
    head = bytes(received).split(b"\r\n")
    assert head[0] == b"POST /api HTTP/1.1"
    assert {b"Host: agent:5051", b"Authorization: Bearer x", b"Content-Length: 5"} <= set(head)
