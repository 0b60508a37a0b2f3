"""Connections to schedulers. They are made without http.client, which loads the modules email and ssl: 30 ms of the
150 ms that `bcs get` may take. The module ssl is loaded for https."""

from __future__ import annotations

import json
import re
import select
import socket
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from bcs_scheduler.cli.client.responses import HttpError, Response

if TYPE_CHECKING:
    from ssl import SSLContext

    from bcs_scheduler.cli.client.credentials import Credentials

FAILURES = (HttpError, OSError)
"""The errors that `Connections.request` and the methods of `Answer` raise when a connection fails."""
PORTS = {"http": 80, "https": 443}
_NOT_IN_A_TARGET = re.compile(r"[^\x21-\x7e]")


class NotConnected(OSError):
    """No connection could be made: the request was not sent."""


class Answer:
    """The answer of one request. Its connection is free for other requests when the answer has been read."""

    def __init__(self, response: Response, connection: socket.socket, body: bytes) -> None:
        """`body`: of an answer that has been read."""
        self._response, self._connection, self._body = response, connection, body
        self.status = response.status

    def header(self, name: str) -> str:
        """A value; empty if the answer does not have the header."""
        return self._response.headers.get(name.lower(), "")

    def json(self) -> Any:
        """Raises ValueError for an answer that is not JSON."""
        return json.loads(self._body)

    def stream(self) -> Iterator[bytes]:
        """Pieces as they arrive. Raises FAILURES, also for an answer that ends too early."""
        return self._response.pieces()

    def close(self) -> None:
        if not self._response.ended:
            self._connection.close()


class _Server(NamedTuple):
    scheme: str
    host: str
    port: int


class Connections:
    """Connections that stay open between requests, one for each server. For one thread.

    `connect_timeout`, `read_timeout`: seconds; of reading, for each piece of an answer. Proxies of the environment are
    not used: none lies between a user and 127.0.0.1.
    """

    def __init__(self, credentials: Credentials, connect_timeout: float, read_timeout: float) -> None:
        self._credentials = credentials
        self._connect_timeout, self._read_timeout = connect_timeout, read_timeout
        self._open: dict[_Server, tuple[socket.socket, Response]] = {}
        self._context: SSLContext | None = None

    def close(self) -> None:
        for connection, _ in self._open.values():
            connection.close()
        self._open.clear()

    def request(
        self, method: str, url: str, body: bytes | None, headers: Mapping[str, str], *, stream: bool = False
    ) -> Answer:
        """Redirects are not followed. `stream`: the caller reads the body of a success with `Answer.stream`. Raises
        FAILURES; NotConnected if the request was certainly not sent.

        A server may close an idle connection while a request is on its way. A GET is then sent again on a new
        connection (RFC 9112, section 9.3.1)."""
        server, sent = _request(method, url, body, headers)
        idle = self._idle(server)
        if idle is not None:
            try:
                return self._exchange(server, idle, sent, stream)
            except ConnectionError:
                if method != "GET":
                    raise
        return self._exchange(server, self._connected(server), sent, stream)

    def _exchange(self, server: _Server, connection: socket.socket, sent: bytes, stream: bool) -> Answer:
        """Raises FAILURES; ConnectionError if the connection ended before an answer."""
        try:
            connection.sendall(sent)
            response = Response(connection)
            content = b"" if stream and response.status < 300 else b"".join(response.pieces())
        except FAILURES:
            connection.close()
            raise
        self._open[server] = connection, response
        return Answer(response, connection, content)

    def _idle(self, server: _Server) -> socket.socket | None:
        """An open connection whose last answer has been read. One that is still read belongs to its answer."""
        connection, response = self._open.pop(server, (None, None))
        if connection is None or response is None or not response.ended:
            return None
        if connection.fileno() < 0 or not response.stays_open or _readable(connection):
            connection.close()
            return None
        return connection

    def _connected(self, server: _Server) -> socket.socket:
        # The look-up of a text loads tables of international names.
        host: str | bytes = server.host.encode() if server.host.isascii() else server.host
        try:
            context = self._tls() if server.scheme == "https" else None
            connection = socket.create_connection((host, server.port), self._connect_timeout)  # type: ignore[arg-type]
        except UnicodeError as error:  # a host that is no name
            raise NotConnected(f"the URL is invalid: {error}") from None
        except OSError as error:
            raise NotConnected(str(error)) from error
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is not None:
                connection = context.wrap_socket(connection, server_hostname=server.host)
        except (OSError, ValueError) as error:  # ValueError: a host that no certificate can name
            connection.close()
            raise NotConnected(str(error)) from error
        connection.settimeout(self._read_timeout)
        return connection

    def _tls(self) -> SSLContext:
        """Raises OSError for a file with a certificate that cannot be used."""
        if self._context is None:
            self._context = self._credentials.context()
        return self._context


def _request(method: str, url: str, body: bytes | None, headers: Mapping[str, str]) -> tuple[_Server, bytes]:
    """The server, and the bytes of the request. Raises NotConnected for an invalid URL."""
    try:
        parts = urlsplit(url)
        port = parts.port
        target = url.removeprefix(f"{parts.scheme}://{parts.netloc}") or "/"
        if parts.scheme not in PORTS:
            raise ValueError(f"{parts.scheme!r} is neither http nor https")
        if not parts.hostname:
            raise ValueError("the name of the host is missing")
        if found := _NOT_IN_A_TARGET.search(target):
            raise ValueError(f"the path contains {found[0]!r}")
        host = parts.netloc.rpartition("@")[2].encode("idna" if not parts.netloc.isascii() else "ascii")
    except ValueError as error:
        raise NotConnected(f"the URL is invalid: {error}") from None
    fields = {"Host": host.decode(), "Accept-Encoding": "identity", **headers}
    if body is not None or method in ("POST", "PUT"):
        fields["Content-Length"] = str(len(body or b""))
    head = "".join(
        (f"{method} {target} HTTP/1.1\r\n", *(f"{name}: {value}\r\n" for name, value in fields.items()), "\r\n")
    )
    server = _Server(parts.scheme, parts.hostname, port or PORTS[parts.scheme])
    return server, head.encode("latin-1") + (body or b"")


def _readable(connection: socket.socket) -> bool:
    """The server has closed an idle connection, or has sent bytes that belong to no request."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))
