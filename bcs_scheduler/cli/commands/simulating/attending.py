"""A user beside a simulation: the progress on a terminal, the speed, and Ctrl-C."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from bcs_scheduler.cli.session import Session

if TYPE_CHECKING:
    from rich.progress import Progress

PAUSE = 0.2
"""Longest pause in seconds between two looks at Ctrl-C while a run waits for its time."""


class Attendance:
    """Follows runs one after the other."""

    def __init__(self, session: Session, seconds: float, speed: float | None) -> None:
        """`seconds`: virtual time of each run. `speed`: virtual seconds for each second; None = as fast as possible."""
        self._session, self._seconds, self._speed = session, seconds, speed
        self._interrupted = threading.Event()
        self._progress: Progress | None = None
        self._task: Any = None
        self._began = 0.0

    @contextmanager
    def attended(self) -> Iterator[None]:
        """Within it, Ctrl-C ends the run in progress with the figures up to then; a second Ctrl-C ends the command."""
        before = signal.signal(signal.SIGINT, self._interrupt)
        try:
            if self._session.err.is_terminal:
                from rich.progress import Progress

                with Progress(console=self._session.err.console, transient=True) as self._progress:
                    yield
            else:
                yield
        finally:
            self._progress = None
            signal.signal(signal.SIGINT, before)

    def begin(self, name: str) -> None:
        """The next run begins."""
        self._began = time.monotonic()
        if self._progress is not None:
            self._task = self._progress.add_task(name, total=1.0)

    def progress(self, part: float) -> None:
        """Shows the part of the run that is done, from 0 to 1, and waits for its time."""
        if self._progress is not None:
            self._progress.update(self._task, completed=part)
        if self._speed is None:
            return
        due = self._began + part * self._seconds / self._speed
        while not self.interrupted and (rest := due - time.monotonic()) > 0:
            self._interrupted.wait(min(rest, PAUSE))

    @property
    def interrupted(self) -> bool:
        """The user has pressed Ctrl-C."""
        return self._interrupted.is_set()

    def _interrupt(self, number: int, frame: object) -> None:
        del number, frame
        if self.interrupted:
            raise KeyboardInterrupt
        self._interrupted.set()
