"""Stands in for the PyPI package http-parser, which pymesos imports and whose C extension does not compile on Python
3.11: the part of its interface that pymesos uses, by means of httptools."""

from __future__ import annotations

import httptools


class HttpParser:
    """Parses one response."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._body = b""
        self._headers_complete = self._complete = self._failed = False

    # --- what pymesos calls ---

    def execute(self, data: bytes, length: int) -> int:
        """How many bytes were taken: all, or none if they are no HTTP."""
        try:
            self._parser.feed_data(data[:length])
        except httptools.HttpParserError:
            self._failed = True
            return 0
        return length

    def get_errno(self) -> int:
        return int(self._failed)

    def is_headers_complete(self) -> bool:
        return self._headers_complete

    def is_message_complete(self) -> bool:
        return self._complete

    def is_partial_body(self) -> bool:
        return bool(self._body)

    def is_chunked(self) -> bool:
        return self._headers.get("transfer-encoding", "").lower() == "chunked"

    def get_status_code(self) -> int:
        return int(self._parser.get_status_code())

    def get_headers(self) -> dict[str, str]:
        return self._headers

    def recv_body(self) -> bytes:
        body, self._body = self._body, b""
        return body

    # --- callbacks of httptools ---

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._headers_complete = True

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self._complete = True
