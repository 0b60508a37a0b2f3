"""Writes the output of tasks into rotated files: one thread reads all pipes.

A task waits only for a slow disk, never for a full one: output that cannot be written is dropped and counted, and a
line in the file says so as soon as there is room again.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import threading
import time
from collections.abc import Callable
from pathlib import Path

from .. import threads
from .index import Index
from .rotated import RotatedFile

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
