"""The local health checks of one task: the times of their probes, and the consequences of the results."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from .. import threads
from ..model import Check, CheckState
from ..runtime import Runtime
from .probes import ProbeFailed, probe

log = logging.getLogger(__name__)

SHORTEST_INTERVAL = 0.1
"""Seconds; a check without interval must not probe without end."""


class Checks:
    """Probes from `start` to `stop`, every check in a thread of its own, so that a check that hangs delays no other.

    `changed` is called when the health of a check, or the message of one that is not healthy, has changed; `failed`
    once, when a check has failed more often in a row than it may. Both are called by a check's thread and never after
    `stop` has returned (unless a call runs at that moment).
    """

    def __init__(
        self,
        checks: Sequence[Check],
        runtime: Runtime,
        changed: Callable[[], None],
        failed: Callable[[str], None],
    ) -> None:
        self._runtime = runtime
        self._changed = changed
        self._failed = failed
        self._watched = tuple(_Watched(check) for check in checks)
        self._lock = threading.Lock()
        self._reported = False
        self._stopping = threading.Event()

    def start(self) -> None:
        """The task runs from now on: delays and grace periods begin."""
        now = time.monotonic()
        for watched in self._watched:
            name = f"check-{watched.check.type.lower()}"
            threads.lasting(name, partial(self._watch, watched, now), self._stopping.wait).start()

    def stop(self) -> None:
        """Does not wait for a probe in progress; its result is dropped."""
        with self._lock:
            self._stopping.set()

    def states(self) -> tuple[CheckState, ...]:
        return tuple(watched.state for watched in self._watched)

    def _watch(self, watched: _Watched, started: float) -> None:
        check = watched.check
        interval = max(SHORTEST_INTERVAL, check.interval)
        due = started + max(0.0, check.delay)
        instance = self._instance()
        while not self._stopping.wait(max(0.0, due - time.monotonic())):
            current = self._instance()
            if current != instance:
                instance, started = current, time.monotonic()  # restarted in place: its grace begins anew
            elif current is not None:
                self._probe(watched, within_grace=time.monotonic() < started + check.grace_period)
            due = next_due(due, time.monotonic(), interval)

    def _instance(self) -> float | None:
        """Identifies the present run of the task by its start in Unix seconds; None while the task is being
        restarted."""
        detail = self._runtime.detail()
        return None if detail.restarting else detail.started_at

    def _probe(self, watched: _Watched, within_grace: bool) -> None:
        try:
            message, healthy = probe(watched.check, self._runtime), True
        except ProbeFailed as error:
            message, healthy = str(error), False
        except Exception as error:  # no error of a runtime may end the checks; its text may be confidential
            log.error("a health check could not be probed: %s", type(error).__name__)
            message, healthy = f"could not be probed: {type(error).__name__}", False
        with self._lock:
            if self._stopping.is_set():
                return
            changed = watched.seen(healthy, message, within_grace)
            failed = watched.exhausted and not self._reported
            self._reported |= failed
        if changed:
            self._changed()
        if failed:
            state = watched.state
            self._failed(f"{state.type} health check failed {state.failures} times in a row: {state.message}")


def next_due(due: float, now: float, interval: float) -> float:
    """The first multiple of the interval after `due` that is not over yet: no drift, and nothing to catch up with."""
    return due + interval * max(1, 1 + int((now - due) // interval))


class _Watched:
    """One check and its observed state."""

    def __init__(self, check: Check) -> None:
        self.check = check
        self.state = CheckState(check.type)

    @property
    def exhausted(self) -> bool:
        return 0 < self.check.consecutive_failures < self.state.failures

    def seen(self, healthy: bool, message: str, within_grace: bool) -> bool:
        """Records the result of a probe. True if the change should be published.

        Within the grace period failures are shown but not counted, and a check that was never healthy stays undecided:
        a task that is still starting is not unhealthy.
        """
        before = self.state
        if healthy:
            self.state = CheckState(before.type, True, message, 0)
        elif within_grace:
            verdict = None if before.healthy is None else False
            self.state = CheckState(before.type, verdict, message, 0)
        else:
            self.state = CheckState(before.type, False, message, before.failures + 1)
        if healthy:
            return before.healthy is not True
        return before.healthy != self.state.healthy or before.message != message
