"""One output of a task in rotated files."""

from __future__ import annotations

import contextlib
from pathlib import Path

from .files import PlainFile
from .index import Index

LARGEST = 2**32 - 2**24
"""Bytes of one file at most: the index has four bytes for an offset."""
LONGEST_LINE = 65536
"""Bytes by which a file may be too long, at most by as much again, to end at the end of a line."""


class RotatedFile:
    """One output of a task; each file is about `max_bytes` long at most, and rotated
    at the end of a line. Output that cannot be written is dropped and
    counted, and a line in the file says so as soon as there is room again. `index`, if given, records the written
    output."""

    def __init__(self, path: Path, max_bytes: int, files: int, index: Index | None = None, stream: int = 0) -> None:
        """`stream`: 0 for standard output, 1 for standard error."""
        self._file = PlainFile(path, files)
        self._max_bytes = min(max(max_bytes, 1), LARGEST)
        self._index, self._stream = index, stream
        self._in_line = False
        """The last line of the file has no end yet."""
        self.dropped = 0
        """Bytes lost since the file was last written."""
        with contextlib.suppress(OSError):  # tried again when there is something to write
            self._file.open()

    @property
    def name(self) -> str:
        return self._file.path.name

    def write(self, data: bytes) -> None:
        try:
            if not self._file.is_open:
                self._file.open()
            while data:
                head = self._present(data)
                if head and self.dropped:
                    self._put(b"\n[%d bytes of output were dropped: the disk refused them]\n" % self.dropped)
                    self.dropped = 0
                written = self._put(data[:head]) if head else 0
                data = data[written:]
                if written < head:
                    break
                if data:
                    self._rotate()
        except OSError:
            pass
        else:
            if not data:
                return
        self.dropped += len(data)

    def _present(self, data: bytes) -> int:
        """Number of bytes of the data that belong into the present file; the others begin the next one."""
        size, most = self._file.size, self._max_bytes
        if size + len(data) <= most:
            return len(data)
        whole = data.rfind(b"\n", 0, max(0, most - size)) + 1
        if whole or (size and not self._in_line):
            return whole
        most += min(most, LONGEST_LINE)
        rest = data.find(b"\n") + 1 or len(data)
        return rest if not size or size + rest <= most else 0

    def _put(self, data: bytes) -> int:
        offset = self._file.size
        written = self._file.put(data)
        if written:
            self._in_line = data[written - 1 : written] != b"\n"
        if self._index is not None and written:
            self._index.wrote(self._stream, offset, written)
        return written

    def _rotate(self) -> None:
        if self._index is None:
            self._file.rotate()
            return
        self._index.rotating(self._stream)
        try:
            self._file.rotate()
        finally:
            self._index.rotated(self._stream)

    def close(self) -> None:
        self._file.close()
