"""Responses of HTTP/1.1 as they arrive on a connection, by the parser llhttp (library httptools)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import httptools

if TYPE_CHECKING:
    from socket import socket

PIECE = 64 * 1024
"""Bytes that are read at once."""
LARGEST_HEAD = 256 * 1024
"""Bytes before the body of a response. A longer head is refused."""
INFORMATIONAL = range(100, 200)
"""Statuses of responses that another response follows (RFC 9110, section 15.2)."""
TLS_ALERT = b"\x15\x03"
"""The begin of an answer of a server that expects TLS (RFC 8446, section 5.1)."""


class HttpError(Exception):
    """The other side does not speak HTTP, or the response ends too early."""


class TlsExpected(HttpError):
    """The server answers a request without TLS with an alert of TLS."""


class Response:
    """One response. Everything raises HttpError and OSError."""

    def __init__(self, connection: socket) -> None:
        """Reads the head."""
        self._connection = connection
        self._pieces: list[bytes] = []
        self._parser = httptools.HttpResponseParser(self)
        self._head = False
        self._sized = False
        self.status = 0
        self.headers: dict[str, str] = {}
        """By name in lower case."""
        self.ended = False
        """The body has been read to its end."""
        self.stays_open = False
        """Another request may follow on the connection. Known at the end of the body."""
        read = 0
        while not self._head:
            piece = connection.recv(PIECE)
            read += len(piece)
            if not piece and not read:
                raise ConnectionResetError("the server closed the connection without an answer")
            if not piece:
                raise HttpError("the connection ended within the head of a response")
            if read == len(piece) and piece.startswith(TLS_ALERT):
                raise TlsExpected("the answer is an alert of TLS")
            self._feed(piece)
            if not self._head and read > LARGEST_HEAD:
                raise HttpError(f"the head of the response exceeds {LARGEST_HEAD} bytes")

    def pieces(self) -> Iterator[bytes]:
        """The body as it arrives."""
        while True:
            yield from self._taken()
            if self.ended:
                return
            piece = self._connection.recv(PIECE)
            if piece:
                self._feed(piece)
            elif self._sized:
                raise HttpError("the connection ended before the end of the response")
            else:
                self.ended = True

    def _taken(self) -> list[bytes]:
        pieces, self._pieces = self._pieces, []
        return pieces

    def _feed(self, piece: bytes) -> None:
        try:
            self._parser.feed_data(piece)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            # Bytes after the end of a response belong to no request; the connection is not used again.
            if not self.ended:
                raise HttpError(f"the answer is not HTTP: {error}") from None
            self.stays_open = False

    # --- called by the parser -----------------------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.ended and not self._head:
            self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if self.ended:
            return
        if status in INFORMATIONAL:
            self.headers.clear()
            return
        self.status, self._head = status, True
        self._sized = "content-length" in self.headers or "transfer-encoding" in self.headers

    def on_body(self, body: bytes) -> None:
        if not self.ended:
            self._pieces.append(body)

    def on_message_complete(self) -> None:
        if not self._head:
            return
        self.stays_open = not self.ended and self._parser.should_keep_alive()
        self.ended = True
