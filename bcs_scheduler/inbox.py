"""The one way into the core: bounded queues of commands and reports, drained by the thread that owns the state.

Commands of users wait apart from what Mesos and the probers report, so that a user's command does not wait behind ten
thousand status updates. Each queue keeps its order.
"""

from __future__ import annotations

import threading
import time
from collections import deque

from bcs_scheduler.core.events import Command, Event


class InboxClosed(Exception):
    """The leadership this inbox belonged to has ended."""


class Inbox:
    """A full queue slows the producers of reports (`put` waits); a command is turned away instead (`offer` says
    False)."""

    def __init__(self, limit: int = 20_000, commands: int = 5_000) -> None:
        """`limit`: reports that may wait; `commands`: commands that may wait."""
        self._limit, self._most_commands = limit, commands
        self._reports: deque[tuple[float, Event]] = deque()
        """With the monotonic time of their arrival."""
        self._commands: deque[Command] = deque()
        self._condition = threading.Condition()
        self._closed = False

    def __len__(self) -> int:
        """Commands and reports that wait."""
        return len(self._reports) + len(self._commands)

    def age(self) -> float:
        """Seconds for which the oldest report has been waiting; 0.0 if none waits. Any thread."""
        with self._condition:
            return time.monotonic() - self._reports[0][0] if self._reports else 0.0

    def put(self, report: Event) -> None:
        """Waits for room. Raises InboxClosed."""
        with self._condition:
            while len(self._reports) >= self._limit and not self._closed:
                self._condition.wait()
            self._append(report)

    def offer(self, event: Event) -> bool:
        """Puts the command or report if there is room now. Raises InboxClosed."""
        with self._condition:
            if isinstance(event, Command):
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

    def _append(self, event: Event) -> None:
        if self._closed:
            raise InboxClosed
        if isinstance(event, Command):
            self._commands.append(event)
        else:
            self._reports.append((time.monotonic(), event))
        if len(self) == 1:
            self._condition.notify_all()

    def take(self, timeout: float, commands: int, reports: int) -> list[Event]:
        """Up to so many commands, then up to so many reports; waits up to `timeout` seconds for the first of either.
        Empty when none came or closed."""
        with self._condition:
            if not len(self) and not self._closed and timeout > 0:
                self._condition.wait_for(lambda: len(self) or self._closed, timeout)
            full = len(self._reports) >= self._limit
            batch: list[Event] = [self._commands.popleft() for _ in range(min(commands, len(self._commands)))]
            batch += [self._reports.popleft()[1] for _ in range(min(reports, len(self._reports)))]
            if full and reports:
                self._condition.notify_all()
            return batch

    def close(self) -> None:
        """Wakes everybody; what is still inside is dropped."""
        with self._condition:
            self._closed = True
            self._reports.clear()
            self._commands.clear()
            self._condition.notify_all()
