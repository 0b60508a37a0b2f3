"""A container's output, copied into the sandbox while it comes, over breaks of the connection without gap or double."""

from __future__ import annotations

import calendar
import contextlib
import threading
import time
from typing import Protocol

from .. import threads
from .engine_api.engine import Engine, EngineError, Stream
from .engine_api.frames import frames

PAUSE = 0.5
"""Seconds between looking for more of a container that has stopped, or of an engine that is away."""


class Sink(Protocol):
    def __call__(self, stderr: bool, data: bytes) -> None: ...


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
        """The container has ended: reads the rest of the output, for at most `seconds` seconds."""
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


def _since(stamp: bytes) -> str:
    """RFC 3339 with nanoseconds, in UTC, as the query wants it: Unix seconds with a fraction."""
    if not stamp:
        return "0"
    whole, _, fraction = stamp.decode().rstrip("Z").partition(".")
    seconds = calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S"))
    return f"{seconds}.{fraction or '0'}"
