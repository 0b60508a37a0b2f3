"""The applications with changes, open effects or due times. The cost of a step depends on their number only."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

from offers.policy.applications.gangs.gang import Gang


class Followed:
    """Follows the changes of gangs, each under the name of its application."""

    def __init__(self) -> None:
        self._gangs: dict[str, Gang] = {}
        self._changed: dict[str, None] = {}
        """Applications with changes or notices that were not taken."""
        self._stale: dict[str, None] = {}
        """Applications that have changed since effects and wakes were looked up."""
        self._due: dict[str, None] = {}
        """Applications with effects that are not confirmed."""
        self._wakes: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []
        """Wakes with their applications. Entries that differ from `_wakes` are void."""

    def add(self, name: str, gang: Gang) -> None:
        """Follows a gang from now on."""
        self._gangs[name] = gang
        gang.follow(self._listener(name))
        self._touch(name)

    def remove(self, name: str) -> None:
        """Forgets an application."""
        gang = self._gangs.pop(name)
        gang.follow(lambda: None)
        for names in (self._changed, self._stale, self._due):
            names.pop(name, None)
        self._wakes.pop(name, None)

    def take_changed(self) -> list[tuple[str, Gang]]:
        """The applications that have changed since the last call."""
        changed, self._changed = self._changed, {}
        return [(name, self._gangs[name]) for name in changed]

    def keep(self, name: str) -> None:
        """The application has changes that were not taken."""
        self._changed[name] = None

    def due(self) -> Iterator[tuple[str, Gang]]:
        """The applications with effects that are not confirmed."""
        self._look()
        for name in list(self._due):
            yield name, self._gangs[name]

    def next_wake(self) -> float | None:
        """The earliest wake in Unix seconds; None if there is none."""
        self._look()
        while self._heap and self._wakes.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def awake(self, now: float) -> list[Gang]:
        """The gangs whose wake has come; `now` in Unix seconds. Each is looked at again afterwards."""
        found = []
        while (wake := self.next_wake()) is not None and wake <= now:
            name = heapq.heappop(self._heap)[1]
            del self._wakes[name]
            found.append(name)
        self._stale.update(dict.fromkeys(found))
        return [self._gangs[name] for name in found]

    def _listener(self, name: str) -> Callable[[], None]:
        return lambda: self._touch(name)

    def _touch(self, name: str) -> None:
        self._changed[name] = None
        self._stale[name] = None

    def _look(self) -> None:
        """Looks up the effects and the wake of the applications that have changed."""
        stale, self._stale = self._stale, {}
        for name in stale:
            gang = self._gangs[name]
            if any(True for _ in gang.due()):
                self._due[name] = None
            else:
                self._due.pop(name, None)
            wake = gang.next_wake()
            if wake is None:
                self._wakes.pop(name, None)
            elif self._wakes.get(name) != wake:
                self._wakes[name] = wake
                heapq.heappush(self._heap, (wake, name))
