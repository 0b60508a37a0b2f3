"""Shows the output of a task from now on, both streams in order, by the index that the executor writes beside the files
(docs/executor-protocol.md, section Index of the output).

A reader that is slow reads later: the executor and the task do not wait for it. Output that is rotated away before it
was read is skipped, and a line on standard error says so.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ..output import DATA, MAGIC, NAME, RECORD, ROTATING
from .contexts import Context, ContextError

FILES = ("stdout", "stderr")
CHUNK = 64 * 1024
BLOCK = 256
"""Records that are read at once."""
TRIES, PAUSE = 50, 0.02
"""Attempts to open a file while files are rotated, and seconds between two attempts."""


class _Record(NamedTuple):
    """A record in the format of Index."""

    time: int
    offset: int
    length: int
    stdout: int
    stderr: int
    own: int
    stream: int
    kind: int
    magic: int

    @property
    def generation(self) -> int:
        """Generation of the file that the record is about."""
        return (self.stdout, self.stderr)[self.stream]


class _File(NamedTuple):
    descriptor: int
    generation: int


def follow(context: Context, rings: BinaryIO, begun: Callable[[], object] = bool, *, whole: bool = False) -> int:
    """Copies the output to standard output and standard error until the task ends; returns its exit code, 128 + N for
    signal N. `begun` is called when no later output can be missed. `whole`: begins with the output before, as far as
    its files are there. Raises ContextError if the executor ends without a word."""
    printed = _Printed(Path(context.output), whole)
    begun()
    while True:
        ring = rings.readline()
        if not ring:
            raise ContextError("the executor has ended")
        printed.copy()
        if ring.strip():
            return _exit_code(ring)


def _exit_code(line: bytes) -> int:
    code = json.loads(line).get("exit")
    if not isinstance(code, int):
        raise ContextError("the exit code of the task is not known")
    return code if code >= 0 else 128 - code


class _Printed:
    """The output from the moment at which this object is made, or all output that is there."""

    def __init__(self, folder: Path, whole: bool = False) -> None:
        self._folder = folder
        self._files: list[_File | None] = [None, None]
        self._lost = 0
        self._position = 0
        self._index, self._own = self._oldest(-1) if whole else (self._open(NAME), 0)
        if self._index >= 0 and not whole:
            self._position = os.fstat(self._index).st_size // RECORD.size * RECORD.size
            last = self._at(self._index, self._position - RECORD.size, 1)
            self._own = last[0].own if last else 0

    def copy(self) -> None:
        """All that has been printed since the last call."""
        while records := self._records():
            for record in records:
                if record.kind == DATA and record.stream < len(FILES):
                    self._print(record)
        if self._lost:
            words = f"bcs: {self._lost} bytes of output were skipped: they were rotated away before they were read\n"
            _write(2, words.encode())
            self._lost = 0

    # --- the index ---

    def _records(self) -> list[_Record]:
        """The next ones; empty = there are no more at present."""
        if self._index < 0:
            self._index = self._open(NAME)
        if found := self._next():
            return found
        if not self._is_rotated():
            return []
        return self._next() or self._successor()  # nothing is added to a file that was rotated

    def _next(self) -> list[_Record]:
        found = self._at(self._index, self._position, BLOCK)
        if found and found[0].own != self._own:  # the only file was emptied
            self._position, self._own = 0, found[0].own
            found = self._at(self._index, 0, BLOCK)
        self._position += len(found) * RECORD.size
        return found

    def _is_rotated(self) -> bool:
        if self._index < 0:
            return False
        mine = os.fstat(self._index)
        if mine.st_size < self._position:
            self._position = 0
        try:
            newest = os.stat(self._folder / NAME, follow_symlinks=False)
        except OSError:
            return False
        return (mine.st_dev, mine.st_ino) != (newest.st_dev, newest.st_ino)

    def _successor(self) -> list[_Record]:
        """The first records of the oldest file that is newer than the last read file."""
        found, own = self._oldest(self._own)
        if found < 0:
            return []  # in the middle of a rotation: the next report follows the rotation
        _close(self._index)
        self._index, self._position, self._own = found, 0, own
        return self._next()

    def _oldest(self, known: int) -> tuple[int, int]:
        """The oldest index that is newer than the index of generation `known`, and its generation. A negative
        descriptor: there is none with a record."""
        found, own, age = -1, 0, 0
        while True:
            other = self._open(f"{NAME}.{age}" if age else NAME)
            first = self._at(other, 0, 1)
            if not first or first[0].own <= known:
                _close(other)
                return found, own
            _close(found)
            found, own, age = other, first[0].own, age + 1

    def _at(self, descriptor: int, position: int, count: int) -> list[_Record]:
        if descriptor < 0 or position < 0:
            return []
        data = os.pread(descriptor, count * RECORD.size, position)
        whole = data[: len(data) // RECORD.size * RECORD.size]
        return [found for found in map(_Record._make, RECORD.iter_unpack(whole)) if found.magic == MAGIC]

    def _tip(self) -> _Record | None:
        """The last record now."""
        descriptor = self._open(NAME)
        try:
            size = os.fstat(descriptor).st_size if descriptor >= 0 else 0
            found = self._at(descriptor, size // RECORD.size * RECORD.size - RECORD.size, 1)
        finally:
            _close(descriptor)
        return found[0] if found else None

    # --- the files ---

    def _print(self, record: _Record) -> None:
        descriptor = self._file(record)
        offset, end = record.offset, record.offset + record.length
        while descriptor >= 0 and offset < end:
            data = os.pread(descriptor, min(CHUNK, end - offset), offset)
            if not data:
                break
            _write(record.stream + 1, data)
            offset += len(data)
        self._lost += end - offset

    def _file(self, record: _Record) -> int:
        """The file that the record is about; negative = it is gone."""
        known = self._files[record.stream]
        if known is None or known.generation != record.generation:
            if known is not None:
                _close(known.descriptor)
            known = _File(self._find(record.stream, record.generation), record.generation)
            self._files[record.stream] = known
        return known.descriptor

    def _find(self, stream: int, generation: int) -> int:
        for _ in range(TRIES):
            before = self._tip()
            if before is not None and before.kind != ROTATING:
                age = (before.stdout, before.stderr)[stream] - generation
                found = self._open(f"{FILES[stream]}.{age}" if age > 0 else FILES[stream])
                after = self._tip()
                if after is not None and after[3:5] == before[3:5] and after.kind != ROTATING:
                    return found
                _close(found)
            time.sleep(PAUSE)
        return -1

    def _open(self, name: str) -> int:
        """The folder belongs to the user of the task: a link to a file of another user, or a pipe, is not read.
        Negative = there is no such file."""
        try:
            found = os.open(self._folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return -1
        status = os.fstat(found)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            os.close(found)
            return -1
        return found


def _close(descriptor: int) -> None:
    if descriptor >= 0:
        os.close(descriptor)


def _write(descriptor: int, data: bytes) -> None:
    """Writes all data; waits while the user takes nothing. Ends the process if the reader has gone."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(descriptor, view) :]
    except BrokenPipeError:
        os._exit(0)
