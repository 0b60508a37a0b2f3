"""Runs the API's ASGI application with uvicorn in a thread of its own.

Exception tree:

    CannotListen             the address is taken or not ours
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp

from bcs_scheduler.api.http.serving.protocol import HEAD_SECONDS, BoundedProtocol
from bcs_scheduler.api.sessions.frames import LARGEST
from store import threads

KEEP_ALIVE = 75.0
"""Seconds an idle connection is kept."""
MAX_CONNECTIONS = 2000
BACKLOG = 1024
STOP_SECONDS = 5
"""Seconds that requests in flight may take when the server stops."""


class CannotListen(OSError):
    """The message names the address and the reason."""


class ApiServer:
    """One HTTP server; started once. With port 0 the system picks a port, see `url`."""

    def __init__(
        self,
        app: ASGIApp,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        failed: Callable[[str], object] | None = None,
    ) -> None:
        """`tls`: context of the server's side; None = plain HTTP. `failed` is called, in a thread of the server, with
        the unexpected error that has ended the server."""
        self._failed = failed
        self._app, self._host, self._port, self._tls = app, host, port, tls
        self._socket: socket.socket | None = None
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """http(s)://host:port as others reach it; a wildcard address is shown as loopback."""
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}.get(self._host, self._host)
        scheme = "https" if self._tls else "http"
        return f"{scheme}://{f'[{host}]' if ':' in host and not host.startswith('[') else host}:{self._port}"

    def bind(self) -> None:
        """Takes the address without serving yet, so that `url` is known. Raises CannotListen."""
        if self._socket is not None:
            return
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self._host, self._port))
            listener.listen(BACKLOG)
        except OSError as error:
            listener.close()
            where = f"{self._host}:{self._port}"
            raise CannotListen(f"the API cannot listen on {where}: {error.strerror or error}") from error
        self._socket = listener
        self._port = int(listener.getsockname()[1])

    def start(self) -> None:
        """Serves from now on; returns when requests are answered. Raises CannotListen."""
        self.bind()
        assert self._socket is not None
        config = uvicorn.Config(
            self._app,
            http=BoundedProtocol,
            ws=cast(Any, _session_protocol),
            ws_max_size=LARGEST,
            ws_per_message_deflate=False,  # input of a terminal is short, and files are often compressed
            ws_ping_interval=None,
            access_log=False,
            log_config=None,
            lifespan="off",
            server_header=False,
            proxy_headers=False,  # headers may name any address: limits and the audit log use those of connections
            timeout_keep_alive=int(KEEP_ALIVE),
            timeout_graceful_shutdown=STOP_SECONDS,
            limit_concurrency=MAX_CONNECTIONS,
        )
        config.load()
        config.ssl = self._tls
        server = _ThreadedServer(config)
        self._server = server
        self._thread = threads.ending("api", partial(self._serve, server, self._socket), self._failed)
        self._thread.start()
        server.ready.wait()
        if not server.started:
            raise CannotListen(f"the API did not start on {self.url}")

    def _serve(self, server: _ThreadedServer, listener: socket.socket) -> None:
        try:
            server.run(sockets=[listener])
        finally:
            server.ready.set()

    def stop(self) -> None:
        """Takes no new requests, lets those in flight end (at most STOP_SECONDS), and frees the address."""
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join()
        if self._socket is not None:
            self._socket.close()
        self._socket = self._server = self._thread = None


def _session_protocol(**given: Any) -> asyncio.Protocol:
    """Makes the protocol of one WebSocket. The first WebSocket loads the library, so that starts do without it."""
    from bcs_scheduler.api.http.serving.websockets import SessionProtocol

    return SessionProtocol(**given)


class _ThreadedServer(uvicorn.Server):
    """Says when it is up; leaves signals to the main thread."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self.config.ssl is not None:
            loop: Any = asyncio.get_running_loop()
            loop.create_server = partial(loop.create_server, ssl_handshake_timeout=HEAD_SECONDS)
        await super().startup(sockets=sockets)
        self.ready.set()
