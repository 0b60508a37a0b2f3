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
from contextlib import suppress
from functools import partial
from typing import Any, cast

import structlog
import uvicorn
from starlette.types import ASGIApp

from bcs_scheduler.api.http.connections import Connection, Connections
from bcs_scheduler.api.http.protocol import HEAD_SECONDS, BoundedProtocol
from bcs_scheduler.api.sessions.frames import LARGEST
from bcs_scheduler.security.proxies import TrustedProxies
from bcs_scheduler.tasks import background
from store import threads

log = structlog.get_logger(__name__)
KEEP_ALIVE = 75.0
"""Seconds an idle connection is kept."""
BACKLOG = 1024
ACCEPT_PAUSE = 1.0
"""Seconds between attempts to accept a connection while there is no room for one in the process."""
STOP_SECONDS = 5
"""Seconds that requests in flight may take when the server stops."""


class CannotListen(OSError):
    """The message names the address and the reason."""


class ApiServer:
    """One HTTP server; started once. With port 0 the system picks a port, see `url`."""

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        failed: Callable[[str], object] | None = None,
        connections: Connections | None = None,
        proxies: TrustedProxies | None = None,
    ) -> None:
        """`tls`: context of the server's side; None = plain HTTP. `failed` is called, in a thread of the server, with
        the unexpected error that has ended the server. `connections`: None = bounded as by default. `proxies`: None =
        no proxy is trusted."""
        self._connections = Connections() if connections is None else connections
        self._proxies = proxies
        self._failed = failed
        self._host, self._port, self._tls = host, port, tls
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

    def start(self, app: ASGIApp) -> None:
        """Serves the application from now on; returns when requests are answered. Raises CannotListen."""
        self.bind()
        assert self._socket is not None
        config = uvicorn.Config(
            app,
            http=cast(Any, partial(BoundedProtocol, connections=self._connections, proxies=self._proxies)),
            ws=cast(Any, _session_protocol),
            ws_max_size=LARGEST,
            ws_per_message_deflate=False,  # input of a terminal is short, and files are often compressed
            ws_ping_interval=None,
            access_log=False,
            log_config=None,
            lifespan="off",
            server_header=False,
            proxy_headers=False,  # BoundedProtocol believes trusted proxies, and no other client
            timeout_keep_alive=int(KEEP_ALIVE),
            timeout_graceful_shutdown=STOP_SECONDS,
        )
        config.load()
        config.ssl = self._tls
        server = _ThreadedServer(config, self._connections, self._proxies or TrustedProxies())
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
    from bcs_scheduler.api.http.websockets import SessionProtocol

    return SessionProtocol(**given)


class _ThreadedServer(uvicorn.Server):
    """Says when it is up; leaves signals to the main thread."""

    def __init__(self, config: uvicorn.Config, connections: Connections, proxies: TrustedProxies) -> None:
        super().__init__(config)
        self.ready = threading.Event()
        self._connections, self._proxies = connections, proxies

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self.config.ssl is not None:
            loop: Any = asyncio.get_running_loop()
            loop.create_server = self._create_server
        await super().startup(sockets=sockets)
        self.ready.set()

    async def _create_server(
        self,
        make: Callable[[], BoundedProtocol],
        *,
        sock: socket.socket,
        ssl: ssl.SSLContext,
        **_other: Any,
    ) -> _TlsListener:
        """Replaces the function of the loop."""
        return _TlsListener(sock, make, ssl, self._connections, self._proxies)


class _TlsListener:
    """Accepts connections and gives them places before their handshakes. The server of the event loop reports a
    connection when its handshake has ended, not before."""

    def __init__(
        self,
        listener: socket.socket,
        make: Callable[[], BoundedProtocol],
        context: ssl.SSLContext,
        connections: Connections,
        proxies: TrustedProxies,
    ) -> None:
        listener.setblocking(False)
        self._listener, self._make, self._context = listener, make, context
        self._connections, self._proxies = connections, proxies
        self._handshakes: set[asyncio.Task[None]] = set()
        self._accepting = background(self._accept(), "accept")

    def close(self) -> None:
        for task in (self._accepting, *self._handshakes):
            task.cancel()

    async def wait_closed(self) -> None:
        await asyncio.wait([self._accepting])

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                line, address = await loop.sock_accept(self._listener)
            except OSError as error:  # such as too many open files
                log.error("the API cannot accept connections", error=str(error), retry_in=ACCEPT_PAUSE)
                await asyncio.sleep(ACCEPT_PAUSE)
                continue
            line.setblocking(False)
            place = self._connections.enter(partial(_cut, line), self._proxies.known(address[0]))
            if place.pool is None:
                line.close()
                continue
            task = background(self._secure(line, place), "TLS handshake")
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    async def _secure(self, line: socket.socket, place: Connection) -> None:
        protocol = self._make()
        protocol.take_place(place)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: protocol, line, ssl=self._context, ssl_handshake_timeout=HEAD_SECONDS
            )
        except (OSError, asyncio.CancelledError):  # also time-outs and errors of TLS
            place.leave()
            line.close()


def _cut(line: socket.socket) -> None:
    """Ends a connection whose handshake has not ended: the handshake fails."""
    with suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)
