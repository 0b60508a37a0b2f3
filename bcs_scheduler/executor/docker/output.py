"""A container's output, copied into the sandbox while it comes.

The output of most containers is read from the log that the engine keeps, over breaks of the connection without gap or
double. The log has whole lines only, so a prompt would appear with the line after the prompt. The output of containers
with an open input is therefore read from the streams themselves.
"""

from __future__ import annotations

import calendar
import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Protocol

from .. import threads
from ..model import Task
from .engine import Engine, EngineError, Stream
from .frames import Frame, frames
from .state import state_of

PAUSE = 0.5
"""Seconds between looking for more of a container that has stopped, or of an engine that is away."""
CHUNK = 64 * 1024
STREAMS = {"stream": "1", "stdin": "0", "stdout": "1", "stderr": "1"}
"""Query of an attachment to the output from now on."""
INTERRUPTED = b"bcs: the connection to the container engine was interrupted; output of that time is not shown\n"


class Sink(Protocol):
    def __call__(self, stderr: bool, data: bytes) -> None: ...


class OutputReader(Protocol):
    def finish(self, seconds: float) -> None:
        """The container has ended: reads the rest of the output, for at most `seconds` seconds."""


class Follower:
    """Reads in a thread of its own until the container has ended and its last output has been read.

    The engine puts the time before every entry (one frame). After a break reading starts at the latest time seen,
    and as many entries of that very time are skipped as have been seen.
    """

    def __init__(self, engine: Engine, container: str, sink: Sink) -> None:
        self._engine, self._container, self._sink = engine, container, sink
        self._latest = b""
        self._seen = 0
        """Entries with the time `_latest`."""
        self._over = threading.Event()
        self._stream: Stream | None = None
        self._thread = threads.ending("container-output", self._run)

    def start(self) -> None:
        self._thread.start()

    def finish(self, seconds: float) -> None:
        self._over.set()
        self._thread.join(seconds)
        stream = self._stream
        if stream is not None:
            stream.close()

    def _run(self) -> None:
        while True:
            last = self._over.is_set()
            threads.guarded("container-output", self._follow_once)
            if last:
                return
            self._over.wait(PAUSE)

    def _follow_once(self) -> None:
        with contextlib.suppress(EngineError):  # away for a moment, or the container is gone: its watch reports that
            self._follow()

    def _follow(self) -> None:
        query = {
            "follow": "true",
            "stdout": "true",
            "stderr": "true",
            "timestamps": "true",
            "since": _since(self._latest),
        }
        with self._engine.stream("GET", f"/containers/{self._container}/logs", query, timeout=None) as stream:
            self._stream = stream
            again = 0
            """Entries of the time `since` read now."""
            since, known, skipping = self._latest, self._seen, False
            for frame in frames(stream):
                content = frame.content
                if frame.first:
                    stamp, _, content = content.partition(b" ")
                    again += stamp == since
                    skipping = stamp < since or (stamp == since and again <= known)
                    if not skipping:
                        self._seen = self._seen + 1 if stamp == self._latest else 1
                        self._latest = stamp
                if content and not skipping:
                    self._sink(frame.stderr, content)


class StreamReader:
    """Reads the streams of a container that is about to start, in a thread of its own. A connection that breaks is
    opened again while the container runs; a line on standard error shows the gap."""

    def __init__(self, engine: Engine, container: str, sink: Sink, terminal: bool) -> None:
        self._engine, self._container, self._sink, self._terminal = engine, container, sink, terminal
        self._over = threading.Event()
        self._opened = contextlib.ExitStack()
        self._stream: Stream | None = None
        self._thread = threads.ending("container-output", self._run)

    def start(self) -> None:
        """Returns when no later output can be missed. Raises EngineError."""
        self._attach()
        self._thread.start()

    def finish(self, seconds: float) -> None:
        self._over.set()
        self._thread.join(seconds)
        stream = self._stream
        if stream is not None:
            stream.close()

    def _run(self) -> None:
        with self._opened:
            threads.guarded("container-output", self._copy)
            while not self._over.wait(PAUSE):
                threads.guarded("container-output", self._continue)

    def _attach(self) -> None:
        self._opened.close()
        path = f"/containers/{self._container}/attach"
        self._stream = self._opened.enter_context(self._engine.stream("POST", path, STREAMS))

    def _continue(self) -> None:
        with contextlib.suppress(EngineError):  # away for a moment, or the container is gone: its watch reports that
            if state_of(self._engine.call("GET", f"/containers/{self._container}/json"), "").running:
                self._attach()
                self._sink(True, INTERRUPTED)
                self._copy()

    def _copy(self) -> None:
        assert self._stream is not None
        with contextlib.suppress(EngineError):
            for frame in _raw(self._stream) if self._terminal else frames(self._stream):
                self._sink(frame.stderr, frame.content)


def start(engine: Engine, container: str, sink: Sink, task: Task) -> OutputReader:
    """Starts a created or stopped container and the reader of its output. Raises EngineError."""
    path = f"/containers/{container}/start"
    if not task.stdin:
        engine.call("POST", path)
        follower = Follower(engine, container, sink)
        follower.start()
        return follower
    reader = StreamReader(engine, container, sink, task.tty)
    reader.start()
    try:
        engine.call("POST", path)
    except BaseException:
        reader.finish(0.0)
        raise
    return reader


def _raw(stream: Stream) -> Iterator[Frame]:
    """The output of a terminal, which has no frames."""
    stream.unlimited()
    while data := stream.some(CHUNK):
        yield Frame(False, data, True)


def _since(stamp: bytes) -> str:
    """RFC 3339 with nanoseconds, in UTC, as the query wants it: Unix seconds with a fraction."""
    if not stamp:
        return "0"
    whole, _, fraction = stamp.decode().rstrip("Z").partition(".")
    seconds = calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S"))
    return f"{seconds}.{fraction or '0'}"
