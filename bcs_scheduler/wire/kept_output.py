"""The form in which executors send the last output of a task that has failed (docs/executor-protocol.md), and in which
output is stored that the leader has fetched itself. Times that are not known are 0.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from typing import NamedTuple

MOST = 64 * 1024
"""Bytes of output."""
MOST_ENTRIES = 4096
STREAMS = ("stdout", "stderr")
ENTRY = struct.Struct(">QBI")
LARGEST = MOST + MOST_ENTRIES * ENTRY.size
"""The most bytes of all entries. Data with a larger stated size is not decompressed."""
LARGEST_PACKED = LARGEST + LARGEST // 1000 + 64
"""Bytes that zlib needs for that at most."""


class Entry(NamedTuple):
    """`time` in Unix seconds; 0.0 = not known, so the order of the streams is not known either."""

    time: float
    stream: str
    data: bytes


def packed(entries: Iterable[Entry]) -> bytes:
    """The entries as `unpacked` reads them; empty if no entry has data. `stream` is one of STREAMS."""
    found = [
        ENTRY.pack(round(entry.time * 1e6), STREAMS.index(entry.stream), len(entry.data)) + entry.data
        for entry in entries
        if entry.data
    ]
    return zlib.compress(b"".join(found)) if found else b""


def unpacked(packed: bytes) -> list[Entry]:
    """Entries in the order in which they were printed, up to the first that is none."""
    try:
        content = zlib.decompressobj().decompress(packed, LARGEST)
    except zlib.error:
        return []
    found, at = [], 0
    while at + ENTRY.size <= len(content):
        time, stream, length = ENTRY.unpack_from(content, at)
        at += ENTRY.size
        if stream >= len(STREAMS) or at + length > len(content):
            break
        found.append(Entry(time / 1e6, STREAMS[stream], content[at : at + length]))
        at += length
    return found
