"""Answers of servers that are far from the rule: pieces, chunks, closed connections, rubbish."""

from __future__ import annotations

import functools
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from bcs_scheduler.cli.client.connections import FAILURES, Connections, NotConnected
from bcs_scheduler.cli.client.credentials import Credentials
from bcs_scheduler.cli.client.responses import HttpError, TlsExpected
from store import threads

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@contextmanager
def answering(*answers: tuple[bytes, ...], serving: list[threading.Thread] | None = None) -> Iterator[Any]:
    """The URL of a server with one group of answers per connection, one answer per request. And the requests.
    `serving` gets a thread per connection, which ends when the connection is closed."""
    listening, seen = socket.create_server(("127.0.0.1", 0)), []
    serving = [] if serving is None else serving

    def serve(connection: socket.socket, group: tuple[bytes, ...]) -> None:
        with connection:
            for answer in group:
                seen.append(connection.recv(65536))
                connection.sendall(answer)

    def accept() -> None:
        for group in answers:
            connection, _ = listening.accept()
            serving.append(threads.ending("serving", functools.partial(serve, connection, group)))
            serving[-1].start()

    accepting = threads.ending("accepting", accept)
    accepting.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", seen
    finally:
        for thread in (accepting, *serving):
            thread.join(30)
        listening.close()


def made() -> Connections:
    return Connections(Credentials(), 30.0, 30.0)


def got(*answers: tuple[bytes, ...]) -> Any:
    with answering(*answers) as (url, _):
        return made().request("GET", f"{url}/x", None, {}).json()


def test_a_connection_carries_several_requests() -> None:
    with answering((OK, OK)) as (url, seen):
        connections = made()
        for _ in range(2):
            assert connections.request("GET", f"{url}/x?a=1", None, {"Accept": "application/json"}).json() == {}
        address = url.removeprefix("http://")
        head = (
            f"GET /x?a=1 HTTP/1.1\r\nHost: {address}\r\nAccept-Encoding: identity\r\nAccept: application/json\r\n\r\n"
        )
        assert seen == [head.encode()] * 2


def test_a_closed_connection_is_replaced() -> None:
    closing = OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    serving: list[threading.Thread] = []
    with answering((closing,), (OK,), (OK,), serving=serving) as (url, seen):
        connections = made()
        for _ in range(3):
            assert connections.request("PUT", url, b"[]", {}).json() == {}
            serving[-1].join(30)
        assert [request.endswith(b"Content-Length: 2\r\n\r\n[]") for request in seen] == [True] * 3


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_connection_that_is_closed_during_a_request(method: str) -> None:
    """The server closes the idle connection when the second request has left the client."""
    with answering((OK, b""), (OK,)) as (url, seen):
        connections = made()
        connections.request(method, url, None, {})
        if method == "GET":
            assert connections.request("GET", url, None, {}).json() == {}
            assert len(seen) == 3
        else:
            with pytest.raises(ConnectionResetError):
                connections.request("PUT", url, None, {})
            assert connections.request("PUT", url, None, {}).json() == {}


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\n{}",
        b"HTTP/1.1 100 Continue\r\nServer: x\r\n\r\n" + OK,
        OK + b"something that was not asked for",
    ],
)
def test_other_forms_of_answers(answer: bytes) -> None:
    assert got((answer,)) == {}


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", ConnectionResetError),
        (b"<html>", HttpError),
        (b"HTTP/1.1 200 OK\r\nContent-Le", HttpError),
        (OK[:-1], HttpError),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", HttpError),
        (b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", HttpError),
        (b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: %d\r\n" % (n, n) for n in range(40_000)), HttpError),
        (b"\x15\x03\x01\x00\x02\x02\x46", TlsExpected),
    ],
)
def test_what_is_no_answer(answer: bytes, error: type[Exception]) -> None:
    with pytest.raises(error) as raised:
        got((answer,))
    assert isinstance(raised.value, FAILURES)


def test_a_stream_outlives_requests_beside_it() -> None:
    streamed = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n"
    with answering((streamed, b"3\r\ntwo\r\n0\r\n\r\n"), (OK,)) as (url, _):
        connections = made()
        stream = connections.request("GET", url, None, {}, stream=True)
        pieces = stream.stream()
        assert next(pieces) == b"one"
        assert connections.request("GET", url, None, {}).json() == {}
        stream._connection.sendall(b"go on")
        assert list(pieces) == [b"two"]


@pytest.mark.parametrize(
    "url",
    [
        "ftp://127.0.0.1/x",
        "http:///x",
        "http://127.0.0.1:port/x",
        "http://127.0.0.1:1/gr\u00fc\u00dfe",
        "http://127.0.0.1:1/a b",
        "http://127.0.0.1:1/a\r\nX: y",
        "http://.\u00fc./x",
    ],
)
def test_a_url_that_is_none(url: str) -> None:
    with pytest.raises(NotConnected):
        made().request("GET", url, None, {})
