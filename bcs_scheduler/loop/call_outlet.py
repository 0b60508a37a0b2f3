"""A queue with a thread of its own for a consumer that may block: the producer of an item never waits."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from store import threads

T = TypeVar("T")


class _Lot(NamedTuple, Generic[T]):
    items: Sequence[T]
    since: float


class Outlet(Generic[T]):
    """Hands everything to one consumer, in the order in which it was put in."""

    def __init__(self, name: str, consume: Callable[[Sequence[T]], None], failed: Callable[[str], None]) -> None:
        """`failed` is called once, with the reason, when the consumer raises; nothing is handed to it after that."""
        self._consume, self._failed = consume, failed
        self._lots: deque[_Lot[T]] = deque()
        """The first of them may be with the consumer."""
        self._count = 0
        self._closed = False
        self._condition = threading.Condition()
        """Guards all of the above."""
        self.thread = threads.ending(name, self._run, self._fail)

    def start(self) -> None:
        self.thread.start()

    def put(self, items: Sequence[T]) -> None:
        """Never blocks; does nothing once closed."""
        with self._condition:
            if items and not self._closed:
                self._lots.append(_Lot(items, time.monotonic()))
                self._count += len(items)
                self._condition.notify_all()

    def __len__(self) -> int:
        """Items that the consumer has not taken."""
        return self._count

    def lag(self) -> float:
        """Seconds for which the oldest item has been waiting; 0.0 if there is none. Any thread."""
        with self._condition:
            return time.monotonic() - self._lots[0].since if self._lots else 0.0

    def drain(self, timeout: float) -> bool:
        """Waits up to `timeout` seconds until the consumer has taken everything; whether that is so."""
        with self._condition:
            self._condition.wait_for(lambda: self._closed or not self._lots, timeout)
            return not self._lots

    def close(self) -> None:
        """Drops the waiting items. Does not wait for the thread, which may be inside the consumer. May be called from
        any thread, more than once."""
        with self._condition:
            self._closed = True
            self._lots.clear()
            self._count = 0
            self._condition.notify_all()

    def _run(self) -> None:
        while (lot := self._next()) is not None:
            self._consume(lot.items)
            self._done(lot)

    def _fail(self, reason: str) -> None:
        self.close()
        self._failed(reason)

    def _next(self) -> _Lot[T] | None:
        with self._condition:
            self._condition.wait_for(lambda: self._closed or self._lots)
            return None if self._closed else self._lots[0]

    def _done(self, lot: _Lot[T]) -> None:
        with self._condition:
            if not self._closed:
                self._lots.popleft()
                self._count -= len(lot.items)
                self._condition.notify_all()
