"""The last output of a task that has failed, as the scheduler keeps it (docs/executor-protocol.md, type `output`)."""

from __future__ import annotations

import os
import stat
import struct
import zlib
from pathlib import Path
from typing import NamedTuple

from .index import DATA, MAGIC, NAME, RECORD

MOST = 64 * 1024
"""Bytes of output."""
MOST_ENTRIES = 4096
FILES = ("stdout", "stderr")
ENTRY = struct.Struct(">QBI")
"""Time in microseconds, stream, number of bytes; the bytes follow."""


class _Part(NamedTuple):
    """Bytes of a stream, in a file that has been rotated so often."""

    time: int
    stream: int
    generation: int
    offset: int
    length: int
    cut: bool
    """There is no room for its beginning."""


def packed(folder: Path) -> bytes:
    """Entries in the order in which they were printed, 64 KiB of output at most, compressed by zlib; nothing if the
    task has printed nothing, or its files cannot be read. The files are not written any more."""
    found = []
    newest, parts = _last_parts(folder)
    for part in parts:
        age = newest[part.stream] - part.generation
        name = f"{FILES[part.stream]}.{age}" if age else FILES[part.stream]
        data = _read(folder / name, part.offset, part.length)
        if part.cut:  # begins at the beginning of a line, if there is one
            data = data[data.find(b"\n") + 1 :]
        if data:
            found.append(ENTRY.pack(part.time, part.stream, len(data)) + data)
    return zlib.compress(b"".join(found)) if found else b""


def _last_parts(folder: Path) -> tuple[tuple[int, int], list[_Part]]:
    """The generations of the newest files, and the parts that are wanted, oldest first."""
    newest, room, age = (0, 0), MOST, 0
    parts: list[_Part] = []
    while room > 0 and len(parts) < MOST_ENTRIES:
        name = f"{NAME}.{age}" if age else NAME
        index = _read(folder / name, -MOST_ENTRIES * RECORD.size, MOST_ENTRIES * RECORD.size)
        if not index:
            break
        records = [found for found in RECORD.iter_unpack(index) if found[8] == MAGIC and found[6] < len(FILES)]
        if records and not age:
            newest = records[-1][3:5]
        for time, offset, length, stdout, stderr, _own, stream, kind, _magic in reversed(records):
            if kind != DATA or not length:
                continue
            if room <= 0 or len(parts) == MOST_ENTRIES:
                break
            taken = min(room, length)
            parts.append(_Part(time, stream, (stdout, stderr)[stream], offset + length - taken, taken, taken < length))
            room -= taken
        age += 1
    return newest, parts[::-1]


def _read(path: Path, offset: int, length: int) -> bytes:
    """A negative offset counts from the end. The folder belongs to the user of the task: a link to a file of another
    user, or a pipe, is not read. Nothing if there is no such file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            return b""
        whole = found.st_size // RECORD.size * RECORD.size
        return os.pread(descriptor, length, max(0, whole + offset) if offset < 0 else offset)
    except OSError:
        return b""
    finally:
        os.close(descriptor)
