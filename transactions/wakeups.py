"""When the engine looks at which transaction again."""

from __future__ import annotations

import heapq

SLACK = 64
"""Cancelled timers that the heap may hold beside as many as there are live ones."""


class Wakeups:
    """A heap of (time, id). Adding costs O(log n); cancelling is paid by what was added. What has been cancelled does
    not stay: the heap never holds more than twice the live timers and SLACK."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, str]] = []
        self._times: dict[str, set[float]] = {}
        """Live timers by id; what stands in the heap and not here is cancelled."""
        self._live = 0

    def __len__(self) -> int:
        """Entries of the heap, cancelled ones included."""
        return len(self._heap)

    def add(self, at: float, identity: str) -> None:
        """Does nothing if that very timer is set."""
        times = self._times.setdefault(identity, set())
        if at not in times:
            times.add(at)
            self._live += 1
            heapq.heappush(self._heap, (at, identity))

    def cancel(self, identity: str) -> None:
        """All timers of the id."""
        times = self._times.pop(identity, None)
        if times is None:
            return
        self._live -= len(times)
        if len(self._heap) > 2 * self._live + SLACK:
            self._heap = [(at, one) for one, times in self._times.items() for at in times]
            heapq.heapify(self._heap)

    def next(self) -> float | None:
        """When the next one is due; None = there is none."""
        heap = self._heap
        while heap and not self._is_live(*heap[0]):
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def due(self, now: float) -> set[str]:
        """Ids whose time has come; these timers are gone then."""
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
