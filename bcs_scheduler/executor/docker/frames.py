"""The engine's stream of two outputs in one: frames of `stream, 0, 0, 0, length (4 bytes, big-endian)` and content.

https://docs.docker.com/reference/api/engine/version/v1.41/#tag/Container/operation/ContainerAttach, "Stream format"
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

from .engine import EngineError, Stream

HEADER = 8
STDERR = 2
PIECE = 64 * 1024
"""Bytes of a frame that are handed on at once."""


class Frame(NamedTuple):
    """`first`: these bytes begin a frame."""

    stderr: bool
    content: bytes
    first: bool


def frames(stream: Stream, deadline: float | None = None) -> Iterator[Frame]:
    """Until the end of the stream; a frame that the end cuts off is given as far as it came. `deadline`: monotonic
    seconds. Raises TimeoutError past it, EngineAway when the connection breaks, EngineError if these are no frames."""
    while True:
        header = stream.read(HEADER, _left(deadline))
        if len(header) < HEADER:
            return
        if header[0] > STDERR or header[1:4] != b"\0\0\0":
            raise EngineError("the container engine sends output that cannot be understood")
        left, first = int.from_bytes(header[4:], "big"), True
        while left:
            content = stream.read(min(left, PIECE), _left(deadline))
            if not content:
                return
            yield Frame(header[0] == STDERR, content, first)
            left -= len(content)
            first = False


def _left(deadline: float | None) -> float | None:
    if deadline is None:
        return None
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
