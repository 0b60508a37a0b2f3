"""Timers by key, of which each key has at most one."""

from __future__ import annotations

import heapq

SLACK = 64
"""Entries without effect that the heap may hold beside as many as there are timers."""


class Timers:
    """Moments (Unix seconds) by key. To set, to forget and to take the next costs the logarithm of their number."""

    def __init__(self) -> None:
        self._at: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._at)

    def set(self, key: str, at: float) -> None:
        """Instead of any earlier moment of this key."""
        if self._at.get(key) != at:
            self._at[key] = at
            heapq.heappush(self._heap, (at, key))
            if len(self._heap) > 2 * len(self._at) + SLACK:
                self._heap = [(at, key) for key, at in self._at.items()]
                heapq.heapify(self._heap)

    def no_later(self, key: str, at: float) -> None:
        """At this moment, unless the key has an earlier one."""
        self.set(key, min(at, self._at.get(key, at)))

    def drop(self, key: str) -> None:
        self._at.pop(key, None)

    def next(self) -> float | None:
        """The earliest moment, None without timers."""
        self._tidy()
        return self._heap[0][0] if self._heap else None

    def take(self, now: float) -> list[str]:
        """Removes and returns the keys whose moments have come, the earliest first."""
        due: list[str] = []
        self._tidy()
        while self._heap and self._heap[0][0] <= now:
            _, key = heapq.heappop(self._heap)
            del self._at[key]
            due.append(key)
            self._tidy()
        return due

    def _tidy(self) -> None:
        """Drops entries at the head that have been replaced or forgotten."""
        heap = self._heap
        while heap and self._at.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
