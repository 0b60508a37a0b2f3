"""The shared objects of all tasks of an executor: the pump of their output, their secret files, the census, the
supervisor's reports, the watch."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Protocol

from .. import threads
from ..content.secrets import Secrets
from ..output import Pump
from ..processes.census import Census
from ..processes.orphans import Orphans
from ..supervisor import Watched

log = logging.getLogger("executor")

NEAR = 0.1
FAR = 0.5
"""Seconds between two looks at tasks that are near their memory limit, and at others."""


class Observed(Protocol):
    def look(self) -> bool:
        """Looks at the used memory and the processes of the task. True = the task should be looked at again soon."""


class Host:
    def __init__(self, watched: Watched, supervisor_died: Callable[[], None]) -> None:
        self.cgroup = watched.cgroup
        self.secrets = Secrets(watched.secrets)
        self.pump = Pump()
        self.census = Census(watched.pid, watched.run)
        self.orphans = Orphans(watched.pipe, supervisor_died)
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
                except Exception:  # a fault of one task must not end the observation of the others
                    log.exception("observing a task failed")
            pause.wait(NEAR if near else FAR)
            if not self._observed:
                self._arrived.clear()
                if self._observed:
                    self._arrived.set()
