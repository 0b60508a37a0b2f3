"""The remaining work of a controller, by key: changed objects, objects that are due at a time, and times of further
tries.

Three things decide when a key is worked on:

* **Marks**: the key is to be looked at because something has changed (`mark`). A key that rests is looked at when its
  rest is over (`rest`), so that a large object is not gone through with every change.
* **Times**: the key is due at a moment, with or without changes (`put`). Each key has one time at most.
* **Pauses** between tries of the same work: each is twice as long as the one before, up to a bound (`pause`).

The queue runs no work and reads no clock. All times are seconds of one clock of the caller.
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterator

SLACK = 64
"""Entries without effect that the heap may hold beside twice as many as there are times."""


class WorkQueue:
    """Laws: a key that was marked or put is returned unless it is forgotten first; no key is returned before its time
    or during its rest; a key is returned once for all its marks. Setting, forgetting and returning a time costs the
    logarithm of the number of times; nothing walks over times that have not come."""

    def __init__(self) -> None:
        self._at: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []
        """Entries that are not in `_at` with the same time are void: their key was moved or dropped."""
        self._marked: dict[str, None] = {}
        """The earliest mark first."""
        self._rests: dict[str, tuple[float, float]] = {}
        """Begin and end of the rest of a key, in Unix seconds."""
        self._pauses: dict[str, float] = {}
        """The next pause of a key that has been tried."""

    # --- times --------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Number of keys that have a time."""
        return len(self._at)

    def __contains__(self, key: str) -> bool:
        """True if the key has a time."""
        return key in self._at

    def __iter__(self) -> Iterator[str]:
        """The keys that have a time, as they are now; the queue may change meanwhile."""
        return iter(list(self._at))

    def put(self, key: str, at: float) -> None:
        """Sets the time of the key to `at` (Unix seconds), instead of any other time."""
        if self._at.get(key) == at:
            return
        self._at[key] = at
        heapq.heappush(self._heap, (at, key))
        if len(self._heap) > SLACK + 2 * len(self._at):
            self._heap = [(due, name) for name, due in self._at.items()]
            heapq.heapify(self._heap)

    def put_earlier(self, key: str, at: float) -> None:
        """Sets the time of the key to `at` (Unix seconds), unless the key has an earlier time."""
        self.put(key, min(at, self._at.get(key, at)))

    def move_earlier(self, key: str, at: float) -> None:
        """Like `put_earlier`, but does nothing for a key without a time."""
        if key in self._at:
            self.put_earlier(key, at)

    def time_of(self, key: str) -> float | None:
        """Unix seconds at which the key is due; None if the key has no time."""
        return self._at.get(key)

    def first(self) -> float | None:
        """Unix seconds at which the earliest key is due; None if no key has a time."""
        heap, at = self._heap, self._at
        while heap and at.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def pop(self, now: float) -> str | None:
        """Removes the time of the earliest key that is due at `now` (Unix seconds) and returns the key (of several at
        the same time, the least key); None if none is due."""
        at = self.first()
        if at is None or at > now:
            return None
        key = heapq.heappop(self._heap)[1]
        del self._at[key]
        return key

    def due(self, now: float) -> Iterator[str]:
        """Removes and yields the keys that are due at `now` (Unix seconds), as `pop`; those that are put meanwhile,
        too."""
        while (key := self.pop(now)) is not None:
            yield key

    # --- marks --------------------------------------------------------------------------------------------------

    def mark(self, *keys: str) -> None:
        """These keys are to be looked at as soon as they do not rest."""
        for key in keys:
            self._marked[key] = None

    @property
    def is_marked(self) -> bool:
        """True if a key is marked; it may rest."""
        return bool(self._marked)

    def unmark(self, key: str) -> None:
        """Removes the mark of the key; does nothing without one."""
        self._marked.pop(key, None)

    def mark_due(self, now: float) -> None:
        """Marks the keys that are due at `now` (Unix seconds), the earliest first, and removes their times."""
        while (key := self.pop(now)) is not None:
            self._marked[key] = None

    def rest(self, key: str, now: float, until: float) -> None:
        """Keeps the key from being processed before `until`, instead of any earlier rest. Both times are Unix
        seconds."""
        self._rests[key] = (now, until)

    def wake(self, key: str) -> None:
        """Ends the rest of the key."""
        self._rests.pop(key, None)

    def ready(self, now: float, unless: Container[str] = ()) -> Iterator[str]:
        """Unmarks and yields the marked keys that do not rest at `now` (Unix seconds), in the order of their marks;
        keys in `unless` stay marked. Keys that are marked meanwhile come with the next call."""
        for key in list(self._marked):
            if key in self._marked and key not in unless and self.rests_until(key, now) <= now:
                del self._marked[key]
                yield key

    def next_ready(self, now: float, unless: Container[str] = ()) -> float | None:
        """Unix seconds from which the first marked key may be processed; 0.0 = now; None if no key is marked."""
        return min((self.rests_until(key, now) for key in self._marked if key not in unless), default=None)

    def rests_until(self, key: str, now: float) -> float:
        """Unix seconds at which the rest of the key ends; it may be over. 0.0: the key does not rest at `now`."""
        since, until = self._rests.get(key, (0.0, 0.0))
        return until if now >= since else 0.0  # the clock was set back

    # --- tries --------------------------------------------------------------------------------------------------

    def pause(self, key: str, first: float, longest: float) -> float:
        """Returns the seconds to wait after this try of the key: `first`, then twice as long each time, at most
        `longest`."""
        pause = self._pauses.get(key, first)
        self._pauses[key] = min(2 * pause, longest)
        return pause

    def next_pause(self, key: str, first: float) -> float:
        """Returns the seconds that `pause` would return, without counting a try."""
        return self._pauses.get(key, first)

    def reset_pause(self, key: str) -> None:
        """The next try of the key is the first one."""
        self._pauses.pop(key, None)

    # --- forgetting ---------------------------------------------------------------------------------------------

    def drop(self, key: str) -> None:
        """Removes the time of the key; its mark, rest and pause stay."""
        self._at.pop(key, None)

    def forget(self, key: str) -> None:
        """Removes all that is known of the key."""
        for known in (self._at, self._marked, self._rests, self._pauses):
            known.pop(key, None)

    def clear(self) -> None:
        """Removes everything."""
        for known in (self._at, self._marked, self._rests, self._pauses):
            known.clear()
        self._heap.clear()
