"""uvicorn's HTTP protocol with bounds on the head of a request: uvicorn itself waits for ever for a first byte, or for
the rest of a head, and takes headers of any size."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_SECONDS = 15.0
"""How long the head of a request may take, from the connection or its first byte on."""
HEAD_BYTES = 64 * 1024


class BoundedProtocol(HttpToolsProtocol):
    """Closes connections whose request heads are too slow or too large."""

    head_seconds = HEAD_SECONDS
    head_bytes = HEAD_BYTES

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._head_timer: asyncio.TimerHandle | None = None
        self._head_read = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_done()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_done()
        self._await_head()

    def on_headers_complete(self) -> None:
        self._head_done()
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        was_open = self._head_timer is not None
        super().data_received(data)
        if self._head_timer is None:
            self._head_read = 0
        elif was_open:
            self._head_read += len(data)
            if self._head_read > self.head_bytes:
                self._refuse(b"431 Request Header Fields Too Large")

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(self.head_seconds, self._refuse, b"408 Request Timeout")

    def _head_done(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _refuse(self, status: bytes) -> None:
        self._head_done()
        if not self.transport.is_closing():
            self.transport.write(b"HTTP/1.1 " + status + b"\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            self.transport.close()
