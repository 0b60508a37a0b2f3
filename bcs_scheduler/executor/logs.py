"""What tasks print, into rotated files: one thread reads all pipes.

A task is held up only by the disk being slow, never by it being full: what cannot be written is dropped and counted,
and a line in the file says so as soon as there is room again.
"""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import stat
import threading
import time
from pathlib import Path

from . import threads

CHUNK = 65536
FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
DRAIN = 1.0
"""Seconds for what is still in a pipe after its task has ended, in case something alive still holds the other end."""


class RotatedFile:
    """`name`, `name.1` (younger) to `name.<files - 1>` (oldest), each about `max_bytes` long at most."""

    def __init__(self, path: Path, max_bytes: int, files: int) -> None:
        self._path = path
        self._max_bytes = max(max_bytes, 1)
        self._files = max(files, 1)
        self._descriptor = -1
        self._size = 0
        self.dropped = 0
        """Bytes lost since the file was last written."""
        with contextlib.suppress(OSError):  # tried again when there is something to write
            self._open()

    def write(self, data: bytes) -> None:
        try:
            if self._descriptor < 0:
                self._open()
            if self._size and self._size + len(data) > self._max_bytes:
                self._rotate()
            if self.dropped:
                self._put(b"\n[%d bytes of output were dropped: the disk refused them]\n" % self.dropped)
                self.dropped = 0
            data = data[self._put(data) :]
        except OSError:
            pass
        else:
            if not data:
                return
        self.dropped += len(data)

    def _put(self, data: bytes) -> int:
        """Bytes written: fewer than given when the disk becomes full on the way."""
        written = os.write(self._descriptor, data)
        self._size += written
        return written

    def _open(self) -> None:
        """The directory belongs to the user of the task, who may put a link to something else there, or a pipe that
        nobody reads: what is no plain file of this one name is not written to. Raises OSError."""
        descriptor = os.open(self._path, FLAGS, 0o644)
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            os.close(descriptor)
            raise OSError(errno.EPERM, "not a plain file")
        self._descriptor, self._size = descriptor, found.st_size

    def _rotate(self) -> None:
        if self._files == 1:
            os.ftruncate(self._descriptor, 0)
            self._size = 0
            return
        self.close()
        for number in range(self._files - 1, 0, -1):
            older = self._path.with_name(f"{self._path.name}.{number}")
            newer = self._path.with_name(f"{self._path.name}.{number - 1}") if number > 1 else self._path
            with contextlib.suppress(FileNotFoundError):
                os.replace(newer, older)
        self._open()

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class Stream:
    """One output of a task. Programs of the task get `descriptor`; it stays open over restarts."""

    def __init__(self, pump: Pump, file: RotatedFile) -> None:
        self._pump = pump
        self.file = file
        self.reading, self.descriptor = os.pipe()
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

    def open(self, path: Path, max_bytes: int, files: int) -> Stream:
        stream = Stream(self, RotatedFile(path, max_bytes, files))
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
                    self._move(key.data)
            now = time.monotonic()
            for key in list(self._selector.get_map().values()):
                if key.data and key.data.deadline is not None and key.data.deadline <= now:
                    self._end(key.data)

    def _take_over(self) -> None:
        with self._lock:
            arriving, self._arriving = self._arriving, []
            finishing, self._finishing = self._finishing, []
        for stream in arriving:
            self._selector.register(stream.reading, selectors.EVENT_READ, stream)
        for stream in finishing:
            stream.deadline = time.monotonic() + DRAIN

    def _move(self, stream: Stream) -> None:
        try:
            data = os.read(stream.reading, CHUNK)
        except BlockingIOError:
            return
        if data:
            stream.file.write(data)
        else:
            self._end(stream)

    def _end(self, stream: Stream) -> None:
        self._selector.unregister(stream.reading)
        os.close(stream.reading)
        stream.file.close()
        stream.done.set()
