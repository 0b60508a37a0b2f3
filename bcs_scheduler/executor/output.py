"""The output of tasks: one thread reads all pipes and writes files that are rotated, with an index of order and time.

A task waits only for a slow disk, never for a full one: output that cannot be written is dropped and counted, and a
line in the file says so as soon as there is room again. The files of an output are `name`, `name.1` (younger) to
`name.<files - 1>` (oldest).

The index has records of 32 bytes, so that a reader finds a time by bisection and knows the last record by the size of
the file. A record of kind DATA says that these bytes of a stream were written at that time. Rotation of a file of
output is enclosed by ROTATING and STATE: a reader that finds the same generations, and no ROTATING, before and after it
read knows which file it has read. Format: docs/executor-protocol.md, section Index of the output; the last output of a
task that has failed (`packed`): there, type `output`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import stat
import struct
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from . import threads

FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class PlainFile:
    """A file and its rotated predecessors. Methods raise OSError."""

    def __init__(self, path: Path, files: int) -> None:
        self.path = path
        self._files = max(files, 1)
        self._descriptor = -1
        self.size = 0

    @property
    def is_open(self) -> bool:
        return self._descriptor >= 0

    def open(self) -> None:
        """Opens the file. The directory belongs to the user of the task, who may put a link to something else there, or
        a pipe without a reader: only a plain file with this one name is written to. Raises OSError."""
        descriptor = os.open(self.path, FLAGS, 0o644)
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            os.close(descriptor)
            raise OSError(errno.EPERM, "not a plain file")
        self._descriptor, self.size = descriptor, found.st_size

    def put(self, data: bytes) -> int:
        """Bytes written: fewer than given when the disk becomes full on the way."""
        written = os.write(self._descriptor, data)
        self.size += written
        return written

    def cut(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)
        self.size = size

    def rotate(self) -> None:
        if self._files == 1:
            self.cut(0)
            return
        self.close()
        for number in range(self._files - 1, 0, -1):
            older = self.path.with_name(f"{self.path.name}.{number}")
            newer = self.path.with_name(f"{self.path.name}.{number - 1}") if number > 1 else self.path
            with contextlib.suppress(FileNotFoundError):
                os.replace(newer, older)
        self.open()

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


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


CHUNK = 65536
DRAIN = 1.0
"""Seconds for the rest in a pipe after its task has ended, in case a living process still holds the other end."""


class Stream:
    """One output of a task. Programs of the task get `descriptor`; it stays open over restarts."""

    def __init__(self, pump: Pump, file: RotatedFile, terminal: tuple[int, int] | None = None) -> None:
        """`terminal`: both sides of the pseudo-terminal that is read in place of a pipe, duplicated here."""
        self._pump = pump
        self.file = file
        self.reading, self.descriptor = os.pipe() if terminal is None else (os.dup(terminal[0]), os.dup(terminal[1]))
        os.set_blocking(self.reading, False)
        self.done = threading.Event()
        self.deadline: float | None = None

    def close(self) -> None:
        """Returns when all that was printed is in the file."""
        if self.descriptor < 0:
            return
        os.close(self.descriptor)
        self.descriptor = -1
        self._pump.finish(self)
        self.done.wait(2 * DRAIN)


class Pump:
    """The thread that moves output from pipes to files."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._lock = threading.Lock()
        self._arriving: list[Stream] = []
        self._finishing: list[Stream] = []
        self._waking, self._waker = os.pipe()
        os.set_blocking(self._waker, False)
        self._selector.register(self._waking, selectors.EVENT_READ)
        self._thread = threads.lasting("logs", self._run)
        self._thread.start()

    def open(
        self,
        path: Path,
        max_bytes: int,
        files: int,
        index: Index | None = None,
        number: int = 0,
        terminal: tuple[int, int] | None = None,
    ) -> Stream:
        """`number`: 0 for standard output, 1 for standard error. `terminal` as in Stream."""
        stream = Stream(self, RotatedFile(path, max_bytes, files, index, number), terminal)
        with self._lock:
            self._arriving.append(stream)
        self._wake()
        return stream

    def finish(self, stream: Stream) -> None:
        """No more will be printed: the stream ends when its pipe is empty, or after DRAIN seconds."""
        with self._lock:
            self._finishing.append(stream)
        self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):  # a full pipe wakes as well
            os.write(self._waker, b".")

    def _run(self) -> None:
        while True:
            deadlines = [key.data.deadline for key in self._selector.get_map().values() if key.data]
            limited = [deadline for deadline in deadlines if deadline is not None]
            timeout = max(0.0, min(limited) - time.monotonic()) if limited else None
            for key, _ in self._selector.select(timeout):
                if key.data is None:
                    os.read(self._waking, CHUNK)
                    self._take_over()
                else:
                    self._guarded(key.data, self._move)
            now = time.monotonic()
            for key in list(self._selector.get_map().values()):
                if key.data and key.data.deadline is not None and key.data.deadline <= now:
                    self._guarded(key.data, self._end)

    def _guarded(self, stream: Stream, work: Callable[[Stream], None]) -> None:
        """An unforeseen error costs this stream the piece of output that was being moved. Let out, it would begin the
        loop anew after a pause, again and again, while the tasks of all other streams wait with full pipes."""
        threads.guarded("logs", lambda: work(stream))

    def _take_over(self) -> None:
        with self._lock:
            arriving, self._arriving = self._arriving, []
            finishing, self._finishing = self._finishing, []
        for stream in arriving:
            self._guarded(stream, self._take_in)
        for stream in finishing:
            stream.deadline = time.monotonic() + DRAIN

    def _take_in(self, stream: Stream) -> None:
        self._selector.register(stream.reading, selectors.EVENT_READ, stream)

    def _move(self, stream: Stream) -> None:
        try:
            data = os.read(stream.reading, CHUNK)
        except BlockingIOError:
            return
        except OSError:  # EIO: all processes have closed the terminal
            data = b""
        if data:
            stream.file.write(data)
        else:
            self._end(stream)

    def _end(self, stream: Stream) -> None:
        try:
            self._selector.unregister(stream.reading)
            os.close(stream.reading)
            stream.file.close()
        finally:
            stream.done.set()


TAIL_BYTES = 64 * 1024
"""Bytes of output."""
TAIL_ENTRIES = 4096
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
    newest, room, age = (0, 0), TAIL_BYTES, 0
    parts: list[_Part] = []
    while room > 0 and len(parts) < TAIL_ENTRIES:
        name = f"{NAME}.{age}" if age else NAME
        index = _read(folder / name, -TAIL_ENTRIES * RECORD.size, TAIL_ENTRIES * RECORD.size)
        if not index:
            break
        records = [found for found in RECORD.iter_unpack(index) if found[8] == MAGIC and found[6] < len(FILES)]
        if records and not age:
            newest = records[-1][3:5]
        for at, offset, length, stdout, stderr, _own, stream, kind, _magic in reversed(records):
            if kind != DATA or not length:
                continue
            if room <= 0 or len(parts) == TAIL_ENTRIES:
                break
            taken = min(room, length)
            parts.append(_Part(at, stream, (stdout, stderr)[stream], offset + length - taken, taken, taken < length))
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
