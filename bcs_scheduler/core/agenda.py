"""Keys in the order of the time at which they are due."""

from __future__ import annotations

import heapq
from collections.abc import Iterator


class Agenda:
    """One time per key (Unix seconds). Every operation costs the logarithm of the number of keys at most, except
    `__iter__`; nothing walks over keys that are not due."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, str]] = []
        """Entries that are not in `_due` with the same time are void: their key was moved or dropped."""
        self._due: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, key: str) -> bool:
        return key in self._due

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._due))

    def put(self, key: str, at: float) -> None:
        """Adds the key, or moves it to another time."""
        if self._due.get(key) == at:
            return
        self._due[key] = at
        heapq.heappush(self._heap, (at, key))
        if len(self._heap) > 64 + 2 * len(self._due):
            self._heap = [(due, name) for name, due in self._due.items()]
            heapq.heapify(self._heap)

    def hasten(self, key: str, at: float) -> None:
        """Moves the key to this time if it is due later; does nothing for a key that is not there."""
        due = self._due.get(key)
        if due is not None and due > at:
            self.put(key, at)

    def drop(self, key: str) -> None:
        self._due.pop(key, None)

    def clear(self) -> None:
        self._heap.clear()
        self._due.clear()

    def first(self) -> float | None:
        """When the earliest key is due; None if there is none."""
        heap, due = self._heap, self._due
        while heap and due.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def pop(self, now: float) -> str | None:
        """Removes and returns the earliest key that is due; None if none is."""
        at = self.first()
        if at is None or at > now:
            return None
        key = heapq.heappop(self._heap)[1]
        del self._due[key]
        return key
