"""What all tasks of an executor share: the pump of their output, the census, the warden's reports, the watch."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Protocol

from . import threads
from .census import Census
from .logs import Pump
from .orphans import Orphans
from .warden import Watched

log = logging.getLogger("executor")

NEAR = 0.1
FAR = 0.5
"""Seconds between two looks at tasks that are near their memory limit, and at others."""


class Observed(Protocol):
    def look(self) -> bool:
        """Looks at what the task uses and has started. True = it should be looked at again soon."""


class Host:
    def __init__(self, watched: Watched, warden_died: Callable[[], None]) -> None:
        self.cgroup = watched.cgroup
        self.pump = Pump()
        self.census = Census(watched.pid, watched.run)
        self.orphans = Orphans(watched.pipe, warden_died)
        self._observed: list[Observed] = []
        self._arrived = threading.Event()
        threads.lasting("watch", self._watch).start()

    def observe(self, task: Observed) -> None:
        self._observed.append(task)
        self._arrived.set()

    def disregard(self, task: Observed) -> None:
        self._observed.remove(task)

    def _watch(self) -> None:
        pause = threading.Event()
        while True:
            self._arrived.wait()
            near = False
            for task in tuple(self._observed):
                try:
                    near |= task.look()
                except Exception:  # one odd task must not blind the executor for the others
                    log.exception("a look at a task failed")
            pause.wait(NEAR if near else FAR)
            if not self._observed:
                self._arrived.clear()
                if self._observed:
                    self._arrived.set()
