"""Timers of the engine: the times at which it looks at transactions again. Times are Unix seconds."""

from __future__ import annotations

import heapq

SLACK = 64
"""Cancelled timers that the heap may hold beside as many as there are live ones."""


class Wakeups:
    """A heap of (time, id). Adding costs O(log n); the amortized cost of cancelling is part of the cost of adding.
    Cancelled timers do not stay: the heap never holds more than twice the live timers and SLACK."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, str]] = []
        self._times: dict[str, set[float]] = {}
        """Live timers by id; an entry of the heap that is not here is cancelled."""
        self._live = 0

    def __len__(self) -> int:
        """Entries of the heap, cancelled ones included."""
        return len(self._heap)

    def add(self, at: float, identity: str) -> None:
        """Sets a timer for the transaction. Does nothing if the same timer is set already."""
        times = self._times.setdefault(identity, set())
        if at not in times:
            times.add(at)
            self._live += 1
            heapq.heappush(self._heap, (at, identity))

    def cancel(self, identity: str) -> None:
        """Cancels all timers of the transaction."""
        times = self._times.pop(identity, None)
        if times is None:
            return
        self._live -= len(times)
        if len(self._heap) > 2 * self._live + SLACK:
            self._heap = [(at, one) for one, times in self._times.items() for at in times]
            heapq.heapify(self._heap)

    def next(self) -> float | None:
        """Returns the Unix seconds of the earliest timer; None if there is no timer."""
        heap = self._heap
        while heap and not self._is_live(*heap[0]):
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def due(self, now: float) -> set[str]:
        """Removes all timers that are due and returns the ids of their transactions."""
        found = set()
        while self._heap and self._heap[0][0] <= now:
            at, identity = heapq.heappop(self._heap)
            if self._is_live(at, identity):
                found.add(identity)
                self._drop(at, identity)
        return found

    def _is_live(self, at: float, identity: str) -> bool:
        return at in self._times.get(identity, ())

    def _drop(self, at: float, identity: str) -> None:
        times = self._times[identity]
        times.remove(at)
        self._live -= 1
        if not times:
            del self._times[identity]
