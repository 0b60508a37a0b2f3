"""The executor's side of the supervisor's pipe: the ends of daemons, and whether the supervisor still lives."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from functools import partial

from .. import threads

KEPT = 1000
"""Ends of processes that are kept until a caller asks for them."""


class Orphans:
    def __init__(self, pipe: int, supervisor_died: Callable[[], None]) -> None:
        self._pipe = pipe
        self._supervisor_died = supervisor_died
        self._changed = threading.Condition()
        self._ended: dict[int, int] = {}
        threads.lasting("warden", self._run).start()

    def _run(self) -> None:
        rest = b""
        while True:
            piece = os.read(self._pipe, 4096)
            if not piece:
                break
            *lines, rest = (rest + piece).split(b"\n")
            with self._changed:
                for line in lines:
                    threads.guarded("warden", partial(self._note, line))
                while len(self._ended) > KEPT:
                    del self._ended[next(iter(self._ended))]
                self._changed.notify_all()
        self._supervisor_died()

    def _note(self, line: bytes) -> None:
        """A line that cannot be read must not take the others along."""
        pid, _, status = line.partition(b" ")
        self._ended[int(pid)] = os.waitstatus_to_exitcode(int(status))

    def code(self, pid: int, timeout: float) -> int | None:
        """Exit code (negative = signal) of a daemon; None if its end was not heard of within `timeout` seconds."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while pid not in self._ended:
                left = deadline - time.monotonic()
                if left <= 0:
                    return None
                self._changed.wait(left)
            return self._ended.pop(pid)

    def forget(self, pid: int) -> None:
        """Forgets an earlier end of a process with this number, before a daemon with the same number is observed."""
        with self._changed:
            self._ended.pop(pid, None)
