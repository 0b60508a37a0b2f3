"""The part of HTTP/1.1 that calls to the agent need. The module http.client is not imported because of its size in
memory (with ssl and email, some 7 MB).
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import BinaryIO, cast

LINE = 65536
"""Bytes of a header line at most."""
PIECE = 65536


class HttpError(Exception):
    """The other side does not speak HTTP, or speaks too much of it."""


class Response:
    """Its body must be read, or the connection given up."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        words = self._line().split(None, 2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
            raise HttpError("not an HTTP response")
        self.status = int(words[1])
        self.headers: dict[str, str] = {}
        while True:
            line = self._line()
            if not line:
                break
            name, _, value = line.decode("latin-1").partition(":")
            self.headers[name.strip().lower()] = value.strip()

    @property
    def stays_open(self) -> bool:
        sized = "content-length" in self.headers or self._chunked or self.status == 204
        return sized and self.headers.get("connection", "").lower() != "close"

    @property
    def _chunked(self) -> bool:
        return self.headers.get("transfer-encoding", "").lower().endswith("chunked")

    def pieces(self) -> Iterator[bytes]:
        """The body as it arrives. Raises OSError, HttpError."""
        if self._chunked:
            while True:
                size = self._number(self._line().partition(b";")[0], 16)
                yield from self._exactly(size)
                if not size:
                    while self._line():  # trailers
                        pass
                    return
                if self._line():
                    raise HttpError("a chunk does not end where it should")
        elif "content-length" in self.headers:
            yield from self._exactly(self._number(self.headers["content-length"].encode(), 10))
        elif self.status != 204:
            piece = self._file.read1(PIECE)  # type: ignore[attr-defined]
            while piece:
                yield piece
                piece = self._file.read1(PIECE)  # type: ignore[attr-defined]

    def body(self, limit: int) -> bytes:
        found = bytearray()
        for piece in self.pieces():
            found += piece
            if len(found) > limit:
                raise HttpError(f"a body of more than {limit} bytes")
        return bytes(found)

    def _exactly(self, size: int) -> Iterator[bytes]:
        while size > 0:
            piece = self._file.read1(min(size, PIECE))  # type: ignore[attr-defined]
            if not piece:
                raise HttpError("the connection ended inside a body")
            size -= len(piece)
            yield piece

    def _line(self) -> bytes:
        line = self._file.readline(LINE)
        if not line.endswith(b"\n"):
            raise HttpError("the connection ended" if len(line) < LINE else "a header line without end")
        return line.rstrip(b"\r\n")

    @staticmethod
    def _number(text: bytes, base: int) -> int:
        try:
            return int(text, base)
        except ValueError:
            raise HttpError("not a length") from None


class Link:
    """One connection to the agent, at `host:port` or at the Unix socket `path`."""

    def __init__(self, endpoint: str, path: str, headers: dict[str, str], timeout: float) -> None:
        """Raises OSError."""
        if path:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._socket.settimeout(timeout)
            self._socket.connect(path)
        else:
            host, _, port = endpoint.rpartition(":")
            self._socket = socket.create_connection((host.strip("[]"), int(port)), timeout)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._file = cast(BinaryIO, self._socket.makefile("rb"))
        self._head = "".join(f"{name}: {value}\r\n" for name, value in {"Host": endpoint, **headers}.items())

    def post(self, target: str, body: bytes) -> Response:
        """Raises OSError, HttpError."""
        head = f"POST {target} HTTP/1.1\r\n{self._head}Content-Length: {len(body)}\r\n\r\n"
        self._socket.sendall(head.encode("latin-1") + body)
        return Response(self._file)

    def set_timeout(self, seconds: float) -> None:
        self._socket.settimeout(seconds)

    def break_off(self) -> None:
        """Wakes a thread that reads; `close` is for that thread."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._file.close()
        self._socket.close()
