"""Values that calls of the client take and return. This module loads no HTTP library."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

PREFIX = "/v4/scheduler/mesos"
DEFAULT_SERVER = "http://127.0.0.1:8080"
DEFAULT_NAMESPACE = "defaultGroup"

Json = dict[str, Any]
"""An object of an answer, with the key names of the API."""


class Accepted(NamedTuple):
    """An accepted request. `transaction`: id of the transaction that carries it out; empty if none is needed."""

    transaction: str
    data: Any


class Download(NamedTuple):
    """`size` in bytes, as announced by the server; 0 if it was not announced."""

    size: int
    chunks: Iterator[bytes]


class Piece(NamedTuple):
    """Bytes of a file from `offset` up to `next`. A `size` below the requested offset: the file was rotated or
    truncated."""

    data: bytes
    offset: int
    next: int
    size: int


class SentMessages(NamedTuple):
    """Messages to executors that the server accepted: id of their command, and the first state of each message."""

    command: str
    messages: list[Json]
