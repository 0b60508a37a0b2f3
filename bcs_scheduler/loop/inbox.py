"""The one way into the core: bounded queues of commands and reports, drained by the thread that owns the state.

Requests of users wait apart from reports of the cluster manager and of the prober, so that a request does not wait
behind ten thousand status updates. Requests keep their order; reports leave in the order of `bcs_scheduler.loop.lanes`.
"""

from __future__ import annotations

import threading
from collections import deque

from bcs_scheduler.core.interface.inputs import Input
from bcs_scheduler.core.interface.requests import Request
from bcs_scheduler.loop.lanes import Lanes

REPORTS = 40_000
"""Reports that may wait: some 30 MB. Mesos sends all through one connection, so no report is read while the inbox is
full: most of an answer to RECONCILE about every task of a large cluster should fit."""


class InboxClosed(Exception):
    """The leadership this inbox belonged to has ended."""


class Inbox:
    """A full queue slows the producers of reports (`put` waits); a command is turned away instead (`offer` says
    False)."""

    def __init__(self, limit: int = REPORTS, commands: int = 5_000) -> None:
        """`limit`: reports that may wait; `commands`: commands that may wait."""
        self._limit, self._most_commands = limit, commands
        self._reports = Lanes()
        self._commands: deque[Request] = deque()
        self._condition = threading.Condition()
        self._closed = False

    def __len__(self) -> int:
        """Commands and reports that wait."""
        return len(self._reports) + len(self._commands)

    def age(self) -> float:
        """Seconds for which the oldest report other than an answer to RECONCILE has been waiting; 0.0 if none waits.
        Any thread."""
        with self._condition:
            return self._reports.age()

    @property
    def width(self) -> int:
        """Lanes in which reports wait. Any thread."""
        with self._condition:
            return self._reports.width

    def put(self, *reports: Input) -> None:
        """Adds the reports in their order, and waits for room before each. Reports that have come together enter
        together: the taking thread is woken once, and finds all for which there is room. Raises InboxClosed."""
        with self._condition:
            for report in reports:
                while len(self._reports) >= self._limit and not self._closed:
                    self._condition.wait()
                self._append(report)

    def offer(self, event: Input) -> bool:
        """Puts the command or report if there is room now. Raises InboxClosed."""
        with self._condition:
            if isinstance(event, Request):
                full = len(self._commands) >= self._most_commands
            else:
                full = len(self._reports) >= self._limit
            if not full:
                self._append(event)
            return not full

    def withdraw(self, token: int) -> bool:
        """Takes back the command of this token. False if it does not wait (any more): it was or is handled."""
        with self._condition:
            for command in self._commands:
                if command.token == token:
                    self._commands.remove(command)
                    return True
            return False

    def _append(self, event: Input) -> None:
        if self._closed:
            raise InboxClosed
        if isinstance(event, Request):
            self._commands.append(event)
            awaited = len(self._commands) == 1
        else:
            self._reports.put(event)
            awaited = len(self) == 1
        if awaited:
            self._condition.notify_all()

    def await_command(self, timeout: float) -> bool:
        """Waits up to `timeout` seconds for a command, and leaves it inside. Returns whether there is one, or the inbox
        is closed."""
        with self._condition:
            return self._condition.wait_for(lambda: self._closed or bool(self._commands), timeout)

    def take(self, timeout: float, commands: int, reports: int) -> list[Input]:
        """Up to so many commands, then up to so many reports, lanes in turn; waits up to `timeout` seconds for the
        first of either. Empty when none came or closed."""
        with self._condition:
            if not len(self) and not self._closed and timeout > 0:
                self._condition.wait_for(lambda: len(self) or self._closed, timeout)
            full = len(self._reports) >= self._limit
            batch: list[Input] = [self._commands.popleft() for _ in range(min(commands, len(self._commands)))]
            batch += self._reports.take(reports)
            if full and reports:
                self._condition.notify_all()
            return batch

    def close(self) -> None:
        """Wakes all waiting threads; drops the requests and reports that are still inside."""
        with self._condition:
            self._closed = True
            self._reports.clear()
            self._commands.clear()
            self._condition.notify_all()
