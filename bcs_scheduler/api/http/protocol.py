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
from bcs_scheduler.api.http.connections import CONNECTION, RETRY, Connection, Connections
from bcs_scheduler.api.http.errors import ApiError, ApiReason
from bcs_scheduler.security.proxies import TrustedProxies
from transactions.text import duration

ABORT = "bcs.abort"
"""Entry of the scope that closes the connection at once."""
WRITE = "bcs.write"
"""Entry of the scope that writes a piece of an answer without a length, see BoundedProtocol.write_piece."""
HEAD_SECONDS = 15.0
"""Seconds within which the head of a request must arrive, counted from the connection or from its first byte."""
HEAD_BYTES = 64 * 1024
HEALTH = (b"/healthz", b"/readyz")
"""Paths that are answered also when there are too many connections."""
CERTIFICATE = "bcs.certificate"
"""Key in the scope of a request: the client's verified certificate as ssl.SSLSocket.getpeercert gives it, if any."""


class _SilentTransport:
    """Drops bytes that are written after the client has gone, as asyncio's transports do. Transports of uvloop raise
    an error, and uvicorn does not check when it answers pipelined requests."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.place: Connection | None = None
        """The place of the connection, for the protocol that takes over after an upgrade."""
        self.client = ""
        """Address of the client of the request that asks for an upgrade."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)


class _HeadTooLarge(Exception):
    """Ends the parsing."""


class _NoPlace(Exception):
    """Ends the parsing: there are too many connections. The message says whose."""


class BoundedProtocol(HttpToolsProtocol):
    """Closes connections whose request heads are too slow or too large."""

    head_seconds = HEAD_SECONDS
    head_bytes = HEAD_BYTES

    def __init__(
        self,
        *arguments: Any,
        connections: Connections | None = None,
        proxies: TrustedProxies | None = None,
        **named: Any,
    ) -> None:
        """`connections`: of the server; None = there is no bound. `proxies`: None = no proxy is trusted."""
        super().__init__(*arguments, **named)
        self._connections, self._proxies = connections, proxies or TrustedProxies()
        self._place: Connection | None = None
        self._no_place = ""
        """Reason why a request is refused; empty = none was refused."""
        self._peer = ""
        self._head_timer: asyncio.TimerHandle | None = None
        self._head_read = 0
        """Bytes that have arrived while the head was expected; the last piece may also hold bytes after the head."""
        self._head_size = 0
        """Bytes of the path and of the headers that are complete."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(_SilentTransport(transport))  # type: ignore[arg-type]
        self._peer = self.client[0] if self.client else ""
        if self._place is not None:
            self._place.moved(transport.abort)
        elif self._connections is not None:
            self._place = self._connections.enter(transport.abort, self._proxies.known(self._peer))
        self._await_head()

    def take_place(self, place: Connection) -> None:
        """The connection has had this place since before its handshake."""
        self._place = place

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_done()
        if self._place is not None:
            self._place.leave()
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
        self._begin()
        super().on_headers_complete()
        if self._place is not None and self._place.refusal:
            self.cycle.keep_alive = False  # the place of the reserve is for the next one
        # For answers that notice that their reader has gone: a close would wait without end for the bytes not yet sent.
        scope: Any = self.scope
        scope[ABORT] = self.transport.abort
        scope[WRITE] = self.write_piece

    def _begin(self) -> None:
        """Finds the client of the request, and a place for the connection. Raises _NoPlace."""
        scope: Any = self.scope
        client = self._peer
        if self._proxies.trusts(self._peer):
            client = self._proxies.client_of(
                self._peer, (value for name, value in self.headers if name == b"x-forwarded-for")
            )
            scope["client"] = (client, 0)
        if self._place is None or self._connections is None:
            return
        self._place.begin()
        scope[CONNECTION] = self._place
        if self.url.partition(b"?")[0] in HEALTH:
            return
        words = self._place.refusal
        if not words and client != self._peer:
            words = self._connections.claim_address(self._place, client)
        if words:
            self._no_place = words
            raise _NoPlace(words)

    def handle_websocket_upgrade(self) -> None:
        transport: Any = self.transport
        transport.place, self._place = self._place, None
        transport.client = self.scope["client"][0] if self.scope["client"] else ""
        super().handle_websocket_upgrade()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._place is not None and self.timeout_keep_alive_task is not None:
            self._place.end()

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
        if self._no_place:
            self._refuse(errors.TOO_MANY_CONNECTIONS, f"{self._no_place}; try again in {duration(RETRY)}", RETRY)
        elif max(self._head_read, self._head_size) > self.head_bytes:
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

    def _refuse(self, reason: ApiReason, message: str, retry: int | None = None) -> None:
        """`retry`: seconds of the header Retry-After; None = there is no such header."""
        self._head_done()
        if self._connections is not None and reason == errors.TOO_MANY_CONNECTIONS:
            self._connections.refused(reason)
        if self.transport.is_closing():
            return
        error = ApiError(reason, message)
        body = msgspec.json.encode(error.envelope())
        status = HTTPStatus(error.failure.status)
        again = "" if retry is None else f"Retry-After: {retry}\r\n"
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\nConnection: close\r\n{again}"
            f"Content-Type: {errors.MEDIA_TYPE}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self.transport.write(head.encode("ascii") + body)
        self.transport.close()
