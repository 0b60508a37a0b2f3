"""A small HTTP/1.1 server: keep-alive, pipelining, answers of one piece and endless chunked ones.

Schedulers pipeline thousands of calls on one connection, so answers of all requests that arrive in one read leave in
one write.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Protocol, cast, runtime_checkable

import httptools

from bcs_scheduler.local.errors import InvalidCall
from bcs_scheduler.net.addresses import HostPort
from bcs_scheduler.security.pages import names_of, refusal

log = logging.getLogger(__name__)

MAX_BODY = 256 * 1024 * 1024
BURST = 16 * 1024
"""Bytes of a read after which the other connections have their turn and the answers are sent. uvloop would continue
with this connection as long as there is anything to read, while the updates of launched tasks wait."""


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
    """An answer without an end. The stream owns the connection from `attach` on."""

    def head(self) -> bytes:
        """Status line and headers."""

    def attach(self, transport: asyncio.Transport) -> None: ...

    def lost(self) -> None:
        """The peer went away."""


@runtime_checkable
class Pausable(Protocol):
    """A stream that is paused while the peer takes no data."""

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


class SlicedResponse:
    """An answer that takes long to make: other connections are served between its steps. Requests behind it on its own
    connection wait."""

    def __init__(self, steps: Iterator[bytes | None]) -> None:
        """`steps` yields None after each step and the answer at last."""
        self._steps = steps

    def step(self) -> bytes | None:
        """None while there is more to do."""
        return next(self._steps)


class Upload(Protocol):
    """A body that is read while it arrives. `begin` gives the connection, so that reading can be paused."""

    def begin(self, transport: asyncio.Transport) -> None: ...

    def feed(self, data: bytes) -> None:
        """Raises InvalidCall."""

    def finish(self) -> bytes:
        """The answer."""

    def lost(self) -> None: ...


Answer = bytes | Stream | SlicedResponse
Handler = Callable[[Request], Answer]
Refusals = Callable[[Request], str]
"""Returns the reason why a request is refused with 403, before its body is read; empty = it is taken."""
Uploads = Callable[[Request], Upload | None]
"""Returns the reader of the body of a request; None: the body is kept until it is complete."""


def response(status: int, body: bytes = b"", content_type: str = "text/plain", *extra: str) -> bytes:
    """A complete answer. `extra`: further header lines."""
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", f"Content-Length: {len(body)}"]
    if body:
        lines.append(f"Content-Type: {content_type}")
    lines += extra
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body


def failed() -> bytes:
    """The answer of a handler that failed."""
    return response(500, b"Internal error: the log of the cluster has the traceback")


class Connection(asyncio.Protocol):
    def __init__(
        self,
        handler: Handler,
        open_connections: set[Connection],
        uploads: Uploads = lambda _: None,
        refusals: Refusals = lambda _: "",
    ) -> None:
        self._handler = handler
        self._uploads, self._refusals = uploads, refusals
        self._upload: Upload | None = None
        self._open = open_connections
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._answers: list[bytes] = []
        self._stream: Stream | None = None
        self._piecework: SlicedResponse | None = None
        self._behind: deque[tuple[Request, bool]] = deque()
        """Requests behind `_piecework`, and whether the connection stays open after their answers."""
        self._target = b""
        self._headers: dict[bytes, bytes] = {}
        self._body: list[bytes] = []
        self._size = 0
        self._refusal: bytes | None = None
        """The answer to a request that is not read to its end."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are not of asyncio's classes
        self._open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._open.discard(self)
        if self._upload is not None:
            self._upload.lost()
        if self._stream is not None:
            self._stream.lost()
        self._transport = self._piecework = None
        self._behind.clear()

    def data_received(self, data: bytes) -> None:
        if self._stream is not None:
            return  # nothing can be answered behind an endless answer
        keep = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._answers.append(self._refusal or response(400, f"Malformed request: {error}".encode()))
            keep = False
        self._flush()
        if not keep:
            self.close()
        elif len(data) >= BURST and self._transport is not None and self._upload is None:
            self._transport.pause_reading()
            asyncio.get_running_loop().call_soon(self._read_on)

    def _read_on(self) -> None:
        if self._transport is not None and not self._transport.is_closing() and self._piecework is None:
            self._transport.resume_reading()

    def _work(self, keep: bool) -> None:
        """One step of the answer that is made piece by piece, and of the requests behind it if that was the last."""
        work = self._piecework
        if work is None or self._transport is None or self._transport.is_closing():
            return
        try:
            answer = work.step()
        except Exception:
            log.exception("handling a request failed")
            answer = failed()
        if answer is None:
            asyncio.get_running_loop().call_soon(self._work, keep)
            return
        self._piecework = None
        self._answered(answer, keep)
        while self._behind and self._piecework is None and self._stream is None and not self._transport.is_closing():
            self._serve(*self._behind.popleft())
        self._flush()
        if self._transport is not None:
            self._read_on()

    def pause_writing(self) -> None:
        if isinstance(self._stream, Pausable):
            self._stream.pause_writing()

    def resume_writing(self) -> None:
        if isinstance(self._stream, Pausable):
            self._stream.resume_writing()

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
        method = self._parser.get_method().decode("latin-1")
        begun = Request(method, self._target, self._headers, b"")
        words = self._refusals(begun)
        if words:
            self._refusal = response(403, words.encode())
            raise ValueError("refused")  # ends the parser
        if self._headers.get(b"expect", b"").lower() == b"100-continue":
            self._answers.append(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._flush()
        self._upload = self._uploads(begun)
        if self._upload is not None and self._transport is not None:
            self._upload.begin(self._transport)

    def on_body(self, body: bytes) -> None:
        if self._upload is not None:
            self._take(self._upload, body)
            return
        self._size += len(body)
        if self._size > MAX_BODY:
            self._refusal = response(413, f"A body has at most {MAX_BODY} bytes".encode())
            raise ValueError("body too large")  # ends the parser
        self._body.append(body)

    def _take(self, upload: Upload, body: bytes) -> None:
        try:
            upload.feed(body)
        except InvalidCall as error:
            self._answers.append(response(error.status, error.message.encode()))
            self._flush()
            self.close()

    def on_message_complete(self) -> None:
        if self._stream is not None:
            return
        if self._upload is not None:
            upload, self._upload = self._upload, None
            self._answers.append(upload.finish())
            upload.lost()
            return
        method = self._parser.get_method().decode("latin-1")
        request = Request(method, self._target, self._headers, b"".join(self._body))
        keep = self._parser.should_keep_alive()
        if self._piecework is None:
            self._serve(request, keep)
        else:
            self._behind.append((request, keep))

    def _serve(self, request: Request, keep: bool) -> None:
        try:
            answer = self._handler(request)
        except Exception:  # within the parser, the exception would be taken for a malformed request
            log.exception("%s %s could not be answered", request.method, request.path)
            answer = failed()
        if isinstance(answer, SlicedResponse):
            self._piecework = answer
            if self._transport is not None:
                self._transport.pause_reading()
            asyncio.get_running_loop().call_soon(self._work, keep)
        else:
            self._answered(answer, keep)

    def _answered(self, answer: bytes | Stream, keep: bool) -> None:
        if isinstance(answer, bytes):
            self._answers.append(answer)
        else:
            self._stream = answer
            self._answers.append(answer.head())
        if not keep and self._stream is None:
            self._flush()
            self.close()


class HttpServer:
    """Listens on one address; must be used from its event loop only. All callers may do everything, so
    requests of pages in browsers are refused (`bcs_scheduler.security.pages`)."""

    def __init__(self, handler: Handler, uploads: Uploads = lambda _request: None) -> None:
        self._handler, self._uploads = handler, uploads
        self._connections: set[Connection] = set()
        self._names: frozenset[str] | None = frozenset()
        self._server: asyncio.Server | None = None
        self.address: tuple[str, int] = ("", 0)

    async def start(self, host: str, port: int) -> None:
        loop = asyncio.get_running_loop()
        self._names = names_of(HostPort(host, port))
        self._server = await loop.create_server(
            lambda: Connection(self._handler, self._connections, self._uploads, self._refusal_of),
            host,
            port,
            backlog=1024,
        )
        self.address = self._server.sockets[0].getsockname()[:2]

    def _refusal_of(self, request: Request) -> str:
        host, origin = (request.headers.get(name) for name in (b"host", b"origin"))
        return refusal(
            None if host is None else host.decode("latin-1"),
            None if origin is None else origin.decode("latin-1"),
            self._names,
        )

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
