"""The one way into the core: a bounded queue of events, drained in batches by the thread that owns the state."""

from __future__ import annotations

import threading
from collections import deque

from bcs_scheduler.core.events import Event


class InboxClosed(Exception):
    """The leadership this inbox belonged to has ended."""


class Inbox:
    """A full inbox slows its producers (`put` waits); a command is turned away instead (`offer` says False)."""

    def __init__(self, limit: int = 20_000) -> None:
        self._limit = limit
        self._events: deque[Event] = deque()
        self._condition = threading.Condition()
        self._closed = False

    def __len__(self) -> int:
        return len(self._events)

    def put(self, event: Event) -> None:
        """Waits for room. Raises InboxClosed."""
        with self._condition:
            while len(self._events) >= self._limit and not self._closed:
                self._condition.wait()
            self._append(event)

    def offer(self, event: Event) -> bool:
        """Puts the event if there is room now. Raises InboxClosed."""
        with self._condition:
            if len(self._events) >= self._limit:
                return False
            self._append(event)
            return True

    def _append(self, event: Event) -> None:
        if self._closed:
            raise InboxClosed
        self._events.append(event)
        if len(self._events) == 1:
            self._condition.notify_all()

    def take(self, timeout: float, most: int) -> list[Event]:
        """Up to `most` events, waiting up to `timeout` seconds for the first one; empty when none came or closed."""
        with self._condition:
            if not self._events and not self._closed and timeout > 0:
                self._condition.wait_for(lambda: self._events or self._closed, timeout)
            full = len(self._events) >= self._limit
            batch = [self._events.popleft() for _ in range(min(most, len(self._events)))]
            if full and batch:
                self._condition.notify_all()
            return batch

    def close(self) -> None:
        """Wakes everybody; what is still inside is dropped."""
        with self._condition:
            self._closed = True
            self._events.clear()
            self._condition.notify_all()
