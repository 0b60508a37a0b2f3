"""uvicorn's HTTP protocol with bounds on the head of a request: uvicorn itself waits without a limit for a first byte,
or for the rest of a head, and takes headers of any size. A head that is refused here never becomes a request; its
answer has an envelope like all others."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from bcs_scheduler.api.http import errors
from bcs_scheduler.api.http.errors import ApiError, ApiReason
from transactions.text import duration

ABORT = "bcs.abort"
"""Entry of the scope that closes the connection at once."""
WRITE = "bcs.write"
"""Entry of the scope that writes a piece of an answer without a length, see BoundedProtocol.write_piece."""
HEAD_SECONDS = 15.0
"""Seconds within which the head of a request must arrive, counted from the connection or from its first byte."""
HEAD_BYTES = 64 * 1024
CERTIFICATE = "bcs.certificate"
"""Key in the scope of a request: the client's verified certificate as ssl.SSLSocket.getpeercert gives it, if any."""


class _SilentTransport:
    """Drops bytes that are written after the client has gone, as asyncio's transports do. Transports of uvloop raise
    an error, and uvicorn does not check when it answers pipelined requests."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)


class _HeadTooLarge(Exception):
    """Ends the parsing."""


class BoundedProtocol(HttpToolsProtocol):
    """Closes connections whose request heads are too slow or too large."""

    head_seconds = HEAD_SECONDS
    head_bytes = HEAD_BYTES

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._head_timer: asyncio.TimerHandle | None = None
        self._head_read = 0
        """Bytes that have arrived while the head was expected; the last piece may also hold bytes after the head."""
        self._head_size = 0
        """Bytes of the path and of the headers that are complete."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(_SilentTransport(transport))  # type: ignore[arg-type]
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_done()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_size = 0
        certificate = self.transport.get_extra_info("peercert")
        if certificate:
            self.scope[CERTIFICATE] = certificate  # type: ignore[literal-required]
        self._head_done()
        self._await_head()

    def on_url(self, url: bytes) -> None:
        self._measure(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._measure(len(name) + len(value) + len(b": \r\n"))
        super().on_header(name, value)

    def _measure(self, size: int) -> None:
        self._head_size += size
        if self._head_size > self.head_bytes:
            raise _HeadTooLarge  # the parser stops, and send_400_response is called

    def on_headers_complete(self) -> None:
        self._head_done()
        self._head_read = 0
        super().on_headers_complete()
        # For answers that notice that their reader has gone: a close would wait without end for the bytes not yet sent.
        scope: Any = self.scope
        scope[ABORT] = self.transport.abort
        scope[WRITE] = self.write_piece

    def write_piece(self, content: bytes) -> bool:
        """Writes some of the body of an answer without a length, whose head has been sent, as ASGI's `send` would: for
        streams with very many readers. False, and nothing is written, if the client is behind or has gone."""
        if self.flow.write_paused or self.transport.is_closing():
            return False
        self.transport.write(b"%x\r\n%b\r\n" % (len(content), content))
        return True

    def data_received(self, data: bytes) -> None:
        if self._head_timer is not None:
            self._head_read += len(data)
        super().data_received(data)
        if self._head_timer is None:
            self._head_read = 0
        elif self._head_read > self.head_bytes:
            self._refuse_head()

    def send_400_response(self, msg: str) -> None:
        if max(self._head_read, self._head_size) > self.head_bytes:
            self._refuse_head()  # the parser may refuse long paths before this class does
        else:
            self._refuse(errors.BAD_HTTP, "the request is not valid HTTP/1.1 (RFC 9112)")

    def _refuse_head(self) -> None:
        self._refuse(errors.HEAD_TOO_LARGE, f"the head of the request exceeds {self.head_bytes} bytes")

    def _await_head(self) -> None:
        late = f"the head of the request did not arrive within {duration(self.head_seconds)}"
        self._head_timer = self.loop.call_later(self.head_seconds, self._refuse, errors.TOO_SLOW, late)

    def _head_done(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _refuse(self, reason: ApiReason, message: str) -> None:
        self._head_done()
        if self.transport.is_closing():
            return
        error = ApiError(reason, message)
        body = msgspec.json.encode(error.envelope())
        status = HTTPStatus(error.failure.status)
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\nConnection: close\r\n"
            f"Content-Type: {errors.MEDIA_TYPE}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self.transport.write(head.encode("ascii") + body)
        self.transport.close()
