"""The server of the embedded cluster, fed by hand."""

from __future__ import annotations

from typing import Any

import pytest

from bcs_scheduler.local.http import Connection, Request, response


class Transport:
    def __init__(self) -> None:
        self.written = b""
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True


def connect(handler: Any) -> tuple[Connection, Transport]:
    connection, transport = Connection(handler, set()), Transport()
    connection.connection_made(transport)  # type: ignore[arg-type]
    return connection, transport


def echo(request: Request) -> bytes:
    return response(200, b"%s %s" % (request.path.encode(), request.body))


REQUEST = b"POST /some/path?query HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody"


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
