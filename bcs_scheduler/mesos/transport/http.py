"""The little HTTP/1.1 that both connections to a master share: addresses, request heads, responses.

Calls to Mesos are many and tiny, so requests are put together as bytes with a head that is made once per
connection, and responses are cut by httptools.
"""

from __future__ import annotations

import base64
import contextlib
import socket
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import urlsplit

import httptools

from bcs_scheduler.mesos.errors import ConnectionBroken, DetectionError, MesosError, SettingsError

CONNECT_TIMEOUT = 10.0
SCHEDULER_PATH = "/api/v1/scheduler"
PROTOBUF = "application/x-protobuf"
DEFAULT_PORT = 5050


class Master(NamedTuple):
    """The address of a master."""

    host: str
    port: int = DEFAULT_PORT

    @property
    def url(self) -> str:
        return f"http://{self}"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_master(text: str) -> Master:
    """Parses ``host``, ``host:port`` or ``[v6]:port``. Raises SettingsError."""
    try:
        parts = urlsplit(f"//{text.strip()}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise SettingsError(f"not a master's address: {text!r} ({error})") from error
    if not host or parts.path or parts.query:
        raise SettingsError(f"not a master's address: {text!r}")
    return Master(host, port or DEFAULT_PORT)


def redirect_target(location: str) -> Master:
    """Returns the target of a 307. Mesos leaves out the scheme: ``//host:port/api/v1/scheduler``. Raises
    DetectionError."""
    parts = urlsplit(location if "//" in location else f"//{location}")
    if parts.scheme not in ("", "http") or not parts.hostname:
        raise DetectionError(f"a redirect points to {location!r}")
    return Master(parts.hostname, parts.port or DEFAULT_PORT)


def basic_authorization(principal: str, secret: str) -> str:
    """Value of the Authorization header; empty without a principal or secret."""
    if not principal or not secret:
        return ""
    return "Basic " + base64.b64encode(f"{principal}:{secret}".encode()).decode("ascii")


def request_head(master: Master, path: str, headers: dict[str, str]) -> bytes:
    """A POST of protobuf up to the value of Content-Length; the length, an empty line and the body follow."""
    lines = [f"POST {path} HTTP/1.1", f"Host: {master}", f"Content-Type: {PROTOBUF}", f"Accept: {PROTOBUF}"]
    lines += [f"{name}: {value}" for name, value in headers.items() if value]
    return ("\r\n".join(lines) + "\r\nContent-Length: ").encode("latin-1")


def request(head: bytes, body: bytes) -> bytes:
    return b"%b%d\r\n\r\n%b" % (head, len(body), body)


def connect(master: Master, timeout: float) -> socket.socket:
    """Raises ConnectionBroken. Small calls must not wait for each other's acknowledgements, hence TCP_NODELAY."""
    try:
        sock = socket.create_connection((master.host, master.port), CONNECT_TIMEOUT)
    except OSError as error:
        raise ConnectionBroken(f"cannot connect to {master}: {error}") from error
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.settimeout(timeout)
    return sock


def close(sock: socket.socket) -> None:
    """Closes from any thread; a thread blocked in recv on it wakes up."""
    with contextlib.suppress(OSError):  # not connected any more
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()


Headers = list[tuple[bytes, bytes]]
"""Header lines as received: most answers are a 202 whose headers are not needed."""


def header(headers: Headers, name: bytes) -> str:
    """The value of the header (name in lower case), or an empty string."""
    for key, value in headers:
        if key.lower() == name:
            return value.decode("latin-1")
    return ""


class Answers:
    """Cuts a byte stream into HTTP responses; calls `on_answer(status, headers, body)` for each.

    With `stream`, pieces of the body of a 200 go to it as they come instead (there is no end to wait for), after
    `on_answer` was called with an empty body at the end of the head; `ended` is set if it ends nevertheless. Either may
    raise a MesosError.
    """

    def __init__(
        self, on_answer: Callable[[int, Headers, bytes], None], stream: Callable[[bytes], None] | None = None
    ) -> None:
        self._on_answer = on_answer
        self._stream = stream
        self._parser = httptools.HttpResponseParser(self)
        self._headers: Headers = []
        self._body: list[bytes] = []
        self._streaming = False
        self.ended = False

    def feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            if isinstance(error.__context__, MesosError):
                raise error.__context__ from None  # raised by a callback, and wrapped by the parser
            raise ConnectionBroken(f"not HTTP: {error}") from error

    # Called by httptools.

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self._stream is not None and self._parser.get_status_code() == 200:
            self._streaming = True
            self._on_answer(200, self._headers, b"")

    def on_body(self, piece: bytes) -> None:
        if self._streaming and self._stream is not None:
            self._stream(piece)
        else:
            self._body.append(piece)

    def on_message_complete(self) -> None:
        if self._streaming:
            self.ended = True
            return
        headers, body = self._headers, b"".join(self._body)
        self._headers, self._body = [], []
        self._on_answer(self._parser.get_status_code(), headers, body)
