"""Effects that wait to be sent to Mesos: bounded, in order, taken in batches."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from bcs_scheduler.core.interface.effects import Effect

LONGEST = 20_000
"""Number of waiting effects from which on `put` blocks."""
SLICE = 1024
"""Greatest number of effects in a batch: between two batches, the subscription is looked at again."""


class CallQueue:
    """One thread takes, any thread puts. Nobody waits any more once `stopping` is set and `wake` was called."""

    def __init__(self, stopping: threading.Event) -> None:
        self._stopping = stopping
        self._waiting: deque[Effect] = deque()
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return len(self._waiting)

    def wake(self) -> None:
        """Wakes every thread that waits in a method of the queue."""
        with self._changed:
            self._changed.notify_all()

    def put(self, effects: Sequence[Effect]) -> None:
        """Appends the effects. Blocks while the queue is full."""
        with self._changed:
            while len(self._waiting) >= LONGEST and not self._stopping.is_set():
                self._changed.wait()
            self._waiting.extend(effects)
            self._changed.notify_all()

    def requeue(self, effect: Effect) -> None:
        """Like `put`, but never blocks: for the thread that makes room."""
        with self._changed:
            self._waiting.append(effect)
            self._changed.notify_all()

    def take_all(self) -> list[Effect]:
        """Takes everything that waits."""
        with self._changed:
            waiting = list(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
        return waiting

    def next_batch(self) -> list[Effect]:
        """Takes the oldest effects, and waits for them if there are none. Empty when stopping."""
        with self._changed:
            while not self._waiting and not self._stopping.is_set():
                self._changed.wait()
            if self._stopping.is_set():
                return []
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), SLICE))]
            self._changed.notify_all()
            return batch
