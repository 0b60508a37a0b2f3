"""Order and time of the output of a task: an index beside the files of both streams.

Records of 32 bytes, so that a reader finds a time by bisection and knows the last record by the size of the file. A
record of kind DATA says that these bytes of a stream were written at that time. Rotation of a file of output is
enclosed by ROTATING and STATE: a reader that finds the same generations, and no ROTATING, before and after it read
knows which file it has read. Format: docs/executor-protocol.md, section Index of the output.
"""

from __future__ import annotations

import errno
import struct
import time
from collections.abc import Callable
from pathlib import Path

from .files import PlainFile

NAME = ".bcs-output"
RECORD = struct.Struct(">QIIIIIBBH")
"""Time in microseconds, offset and length in the file, generations (number of rotations) of standard output, standard
error and of the index, stream, kind, MAGIC."""
DATA, ROTATING, STATE = 0, 1, 2
MAGIC = 0xBC51
LEAST = 128 * RECORD.size
"""Bytes of one file of the index at least."""
FULL = (errno.ENOSPC, errno.EDQUOT)


class Index:
    """Used by one thread at a time. Bytes whose record the disk refuses are added to the next record of the stream."""

    def __init__(self, folder: Path, max_bytes: int, files: int, ring: Callable[[], object] = lambda: None) -> None:
        """`max_bytes` and `files` of the output; the index gets half of the size of one stream. `ring` is called when
        something was printed and recorded."""
        self._ring = ring
        self._file = PlainFile(folder / NAME, files)
        self._max_bytes = max(max_bytes // 2, LEAST)
        self._begun = False
        self._generations = [0, 0]
        self._own_generation = 0
        self._unrecorded = [-1, -1]
        """Offset of the first byte of each stream that no record names; -1 = there is none."""
        self._latest = 0
        self._refusal = 0
        """Error number of the last record that was refused."""

    def wrote(self, stream: int, offset: int, length: int) -> None:
        start = offset if self._unrecorded[stream] < 0 else self._unrecorded[stream]
        done = self._record(DATA, stream, start, offset + length - start)
        self._unrecorded[stream] = -1 if done else start
        self._ring()

    def rotating(self, stream: int) -> None:
        """Before files are renamed. Raises OSError if the disk is full: readers would not know of the rotation."""
        if not self._record(ROTATING, stream) and self._refusal in FULL:
            raise OSError(self._refusal, "the index cannot be written")

    def rotated(self, stream: int) -> None:
        self._generations[stream] += 1
        self._unrecorded[stream] = -1
        self._record(STATE, stream)

    def begin(self) -> None:
        """Shows readers that there is an index, before anything is printed."""
        self._record(STATE, 0)

    def close(self) -> None:
        self._file.close()

    def _record(self, kind: int, stream: int, offset: int = 0, length: int = 0) -> bool:
        try:
            if not self._file.is_open:
                self._file.open()
                if not self._begun:
                    self._file.cut(0)  # not ours: a task has one index
                    self._begun = True
            if self._file.size + RECORD.size > self._max_bytes:
                self._own_generation += 1
                self._file.rotate()
                self._put(STATE, 0, 0, 0)
            self._put(kind, stream, offset, length)
        except OSError as error:
            self._refusal = error.errno or errno.EIO
            return False
        return True

    def _put(self, kind: int, stream: int, offset: int, length: int) -> None:
        """Whole, or not at all. Raises OSError."""
        self._latest = max(self._latest, time.time_ns() // 1000)  # a clock that is set back changes no order
        before = self._file.size
        record = RECORD.pack(
            self._latest, offset, length, *self._generations, self._own_generation, stream, kind, MAGIC
        )
        if self._file.put(record) < RECORD.size:
            self._file.cut(before)
            raise OSError(errno.ENOSPC, "no space for a record")
