"""A small HTTP/1.1 server: keep-alive, pipelining, answers of one piece and endless chunked ones.

Schedulers pipeline thousands of calls on one connection, so answers of all requests that arrive in one read leave in
one write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Protocol, cast

import httptools

MAX_BODY = 256 * 1024 * 1024
BURST = 16 * 1024
"""After a read of so many bytes the other connections have their turn, and what was answered is sent: uvloop would
go on with this one as long as there is anything to read, while the updates of what was launched wait."""


class Request:
    """Header names are lower case; values as received."""

    __slots__ = ("body", "headers", "method", "target")

    def __init__(self, method: str, target: bytes, headers: dict[bytes, bytes], body: bytes) -> None:
        self.method = method
        self.target = target
        self.headers = headers
        self.body = body

    @property
    def path(self) -> str:
        return self.target.partition(b"?")[0].decode("latin-1")


class Stream(Protocol):
    """An answer without an end. It owns the connection from `attach` on."""

    def head(self) -> bytes:
        """Status line and headers."""

    def attach(self, transport: asyncio.Transport) -> None: ...

    def lost(self) -> None:
        """The peer went away."""


Handler = Callable[[Request], bytes | Stream]


def response(status: int, body: bytes = b"", content_type: str = "text/plain", *extra: str) -> bytes:
    """A complete answer. `extra`: further header lines."""
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", f"Content-Length: {len(body)}"]
    if body:
        lines.append(f"Content-Type: {content_type}")
    lines += extra
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body


class Connection(asyncio.Protocol):
    def __init__(self, handler: Handler, open_connections: set[Connection]) -> None:
        self._handler = handler
        self._open = open_connections
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._answers: list[bytes] = []
        self._stream: Stream | None = None
        self._target = b""
        self._headers: dict[bytes, bytes] = {}
        self._body: list[bytes] = []
        self._size = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are not of asyncio's classes
        self._open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._open.discard(self)
        if self._stream is not None:
            self._stream.lost()
        self._transport = None

    def data_received(self, data: bytes) -> None:
        if self._stream is not None:
            return  # nothing can be answered behind an endless answer
        keep = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._answers.append(response(400, f"Malformed request: {error}".encode()))
            keep = False
        self._flush()
        if not keep:
            self.close()
        elif len(data) >= BURST and self._transport is not None:
            self._transport.pause_reading()
            asyncio.get_running_loop().call_soon(self._read_on)

    def _read_on(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _flush(self) -> None:
        answers, self._answers = self._answers, []
        if answers and self._transport is not None:
            self._transport.write(b"".join(answers) if len(answers) > 1 else answers[0])
            if self._stream is not None:
                self._stream.attach(self._transport)

    # --- callbacks of the parser ---

    def on_message_begin(self) -> None:
        self._target = b""
        self._headers = {}
        self._body = []
        self._size = 0

    def on_url(self, url: bytes) -> None:
        self._target += url  # comes in pieces where one read ends within it

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        if self._headers.get(b"expect", b"").lower() == b"100-continue":
            self._answers.append(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._flush()

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        if self._size > MAX_BODY:
            raise ValueError("body too large")
        self._body.append(body)

    def on_message_complete(self) -> None:
        if self._stream is not None:
            return
        method = self._parser.get_method().decode("latin-1")
        answer = self._handler(Request(method, self._target, self._headers, b"".join(self._body)))
        if isinstance(answer, bytes):
            self._answers.append(answer)
        else:
            self._stream = answer
            self._answers.append(answer.head())
        if not self._parser.should_keep_alive() and self._stream is None:
            self._flush()
            self.close()


class HttpServer:
    """Listens on one address; must be used from its event loop only."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._connections: set[Connection] = set()
        self._server: asyncio.Server | None = None
        self.address: tuple[str, int] = ("", 0)

    async def start(self, host: str, port: int) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self._handler, self._connections), host, port, backlog=1024
        )
        self.address = self._server.sockets[0].getsockname()[:2]

    def abort(self) -> None:
        """Listens no more and cuts all connections, as a program that dies. It may be started again."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.abort()

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.close()
        if self._server is not None:
            await self._server.wait_closed()
