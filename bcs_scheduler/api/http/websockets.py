"""uvicorn's WebSocket protocol as sessions need it."""

from __future__ import annotations

import socket
from asyncio.transports import BaseTransport
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from bcs_scheduler.api.http.connections import CONNECTION, Connection

CERTIFICATE = "bcs.certificate"
"""Key of the scope, the same as in bcs_scheduler.api.http.protocol."""
IDLE, STEP, STEPS = 30, 10, 3
"""The kernel's own probes of a silent connection: seconds until the first, seconds between two, and the number of
unanswered probes that ends the connection. Pings of WebSockets would end sessions that wait: a peer that is blocked
does not read the answer."""


class SessionProtocol(WebSocketsSansIOProtocol):
    """Shows certificate and address of the client to the application, and notices clients that have vanished."""

    _place: Connection | None = None
    _client_address = ""

    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(transport)
        self._place = getattr(transport, "place", None)
        self._client_address = getattr(transport, "client", "")
        line: Any = transport.get_extra_info("socket")
        if line is not None:
            for level, option, value in (
                (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
                (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, IDLE),
                (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, STEP),
                (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, STEPS),
            ):
                line.setsockopt(level, option, value)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._place is not None:
            self._place.leave()
        super().connection_lost(exc)

    async def send(self, message: Any) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body"):
            self.handshake_complete = True  # an HTTP answer instead of a WebSocket is no error

    async def run_asgi(self) -> None:
        certificate = self.transport.get_extra_info("peercert")
        scope: Any = self.scope
        if certificate:
            scope[CERTIFICATE] = certificate
        if self._place is not None:
            scope[CONNECTION] = self._place
        if self._client_address and scope["client"]:
            scope["client"] = (self._client_address, scope["client"][1])
        await super().run_asgi()
