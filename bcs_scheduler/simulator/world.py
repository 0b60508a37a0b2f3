"""Virtual time: calls in the order of their time and, at equal times, of their planning."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any


class World:
    def __init__(self, now: float) -> None:
        """`now`: Unix seconds of the virtual time."""
        self.now = now
        self._queue: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._planned = 0

    def at(self, when: float, call: Callable[..., object], *arguments: Any) -> None:
        """Plans a call. A time in the past is the present."""
        self._planned += 1
        heapq.heappush(self._queue, (max(when, self.now), self._planned, call, arguments))

    def after(self, delay: float, call: Callable[..., object], *arguments: Any) -> None:
        """Plans a call `delay` seconds from now."""
        self.at(self.now + delay, call, *arguments)

    def run(self, until: float) -> None:
        """Makes all calls that are planned up to a moment, which then is the present."""
        queue = self._queue
        while queue and queue[0][0] <= until:
            self.now, _, call, arguments = heapq.heappop(queue)
            call(*arguments)
        self.now = max(self.now, until)
