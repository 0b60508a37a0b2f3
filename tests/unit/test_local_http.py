"""The server of the embedded cluster, fed by hand."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from bcs_scheduler.local.transport import http
from bcs_scheduler.local.transport.http import Connection, Request, SlicedResponse, response


class Transport:
    def __init__(self) -> None:
        self.written = b""
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


def connect(handler: Any) -> tuple[Connection, Transport]:
    connection, transport = Connection(handler, set()), Transport()
    connection.connection_made(transport)  # type: ignore[arg-type]
    return connection, transport


def echo(request: Request) -> bytes:
    return response(200, b"%s %s" % (request.path.encode(), request.body))


REQUEST = b"POST /some/path?query HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody"


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_refused_request_is_answered_before_its_body_and_nothing_reads_it(size: int) -> None:
    taken: list[Request] = []

    def handler(request: Request) -> bytes:
        taken.append(request)
        return echo(request)

    def uploads(request: Request) -> None:
        taken.append(request)

    connection = Connection(handler, set(), uploads, lambda request: "not here" if request.method == "POST" else "")
    transport = Transport()
    connection.connection_made(transport)  # type: ignore[arg-type]
    data = b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"
    for start in range(0, len(data), size):
        connection.data_received(data[start : start + size])
    assert (transport.written, transport.closed, taken) == (response(403, b"not here"), True, [])


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50, 1000])
def test_requests_arrive_in_pieces_of_any_size(size: int) -> None:
    connection, transport = connect(echo)
    data = REQUEST * 5
    for start in range(0, len(data), size):
        connection.data_received(data[start : start + size])
    assert transport.written == response(200, b"/some/path body") * 5


def test_answers_to_one_read_leave_in_one_write() -> None:
    connection, transport = connect(echo)
    writes: list[bytes] = []
    transport.write = writes.append  # type: ignore[method-assign,assignment]
    connection.data_received(REQUEST * 100)
    assert writes == [response(200, b"/some/path body") * 100]


def test_a_peer_that_asks_for_it_is_disconnected_after_the_answer() -> None:
    connection, transport = connect(echo)
    connection.data_received(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert (transport.written, transport.closed) == (response(200, b"/ "), True)


def test_nonsense_is_answered_and_the_connection_closed() -> None:
    connection, transport = connect(echo)
    connection.data_received(b"nonsense\r\n\r\n")
    assert transport.written.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert transport.closed


def test_what_the_peer_expects_to_continue_is_let_through() -> None:
    connection, transport = connect(echo)
    connection.data_received(b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n")
    assert transport.written == b"HTTP/1.1 100 Continue\r\n\r\n"
    connection.data_received(b"body")
    assert transport.written.endswith(response(200, b"/ body"))


def broken(request: Request) -> bytes:
    raise LookupError("a defect of the handler")


def test_a_handler_that_fails_answers_500_and_logs_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    connection, transport = connect(broken)
    connection.data_received(REQUEST * 2)
    assert transport.written == http.failed() * 2
    assert transport.written.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
    assert not transport.closed
    (first, _) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "POST /some/path" in first.getMessage()
    assert first.exc_info is not None and first.exc_info[0] is LookupError


def test_an_answer_that_fails_on_its_way_is_500(caplog: pytest.LogCaptureFixture) -> None:
    def steps() -> Iterator[bytes | None]:
        yield None
        raise LookupError("a defect of the handler")

    async def ask() -> Transport:
        connection, transport = connect(lambda request: SlicedResponse(steps()))
        connection.data_received(REQUEST)
        async with asyncio.timeout(30):
            while not transport.written and not transport.closed:
                await asyncio.sleep(0)
        return transport

    assert asyncio.run(ask()).written == http.failed()
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [LookupError]


def test_a_body_that_is_too_large_is_refused_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_BODY", 3)
    connection, transport = connect(echo)
    connection.data_received(REQUEST)
    assert transport.written.startswith(b"HTTP/1.1 413 ")
    assert transport.closed
