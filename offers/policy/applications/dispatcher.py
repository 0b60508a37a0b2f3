"""One ordered queue of events, with one handler for each family of events.

A sender never waits. Events beyond the capacity wait beside the queue, in their order, for a limited time. An event
that is illegal in the present state of its object, and a handler that fails, concern this one event only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from typing import NamedTuple

from offers.policy.applications.tables import IllegalEvent

CAPACITY = 1_048_576
"""The number of events in the queue."""
DISPATCH_SECONDS = 300.0
"""The time that an event waits at most for room in the queue."""
FEWEST_WAITING = 10_000
"""Events that may wait beside the queue, at least; a tenth of the capacity if this is more."""
FAULTS_KEPT = 100
"""The number of faults that are remembered: the latest ones."""

Handler = Callable[[Hashable, float], None]
"""Handles an event; the second argument is Unix seconds."""


class Overloaded(Exception):
    """More events wait than a program in good order ever has. The scheduler must end."""


class Fault(NamedTuple):
    """An event without effect. `illegal`: its object did not allow the event. Otherwise the handler failed, or the
    event found no room in time. `at`: Unix seconds."""

    at: float
    family: str
    event: Hashable
    cause: str
    illegal: bool = False


class _Waiting(NamedTuple):
    family: str
    event: Hashable
    deadline: float


class Dispatcher:
    """The queue. Events are handled in the order in which they were sent, one at a time."""

    def __init__(self, capacity: int = CAPACITY, timeout: float = DISPATCH_SECONDS) -> None:
        """`timeout`: seconds that an event waits for room."""
        self.capacity, self.timeout = capacity, timeout
        self.most_waiting = max(FEWEST_WAITING, capacity // 10)
        self.faults: deque[Fault] = deque(maxlen=FAULTS_KEPT)
        self.dropped = 0
        """The number of events that had no effect, ever."""
        self._handlers: dict[str, Handler] = {}
        self._queue: deque[tuple[str, Hashable]] = deque()
        self._waiting: deque[_Waiting] = deque()
        self._busy = False

    def __len__(self) -> int:
        return len(self._queue) + len(self._waiting)

    def register(self, family: str, handler: Handler) -> None:
        """Sets the handler of a family. Raises ValueError for a family that has one."""
        if family in self._handlers:
            raise ValueError(f"the family {family} has a handler")
        self._handlers[family] = handler

    def send(self, family: str, event: Hashable, now: float) -> None:
        """Adds an event; `now` in Unix seconds. Raises KeyError for an unknown family, Overloaded if too many events
        wait."""
        if family not in self._handlers:
            raise KeyError(family)
        if not self._waiting and len(self._queue) < self.capacity:
            self._queue.append((family, event))
        elif len(self._waiting) < self.most_waiting:
            self._waiting.append(_Waiting(family, event, now + self.timeout))
        else:
            raise Overloaded(f"{len(self._queue)} events are queued and {len(self._waiting)} wait for room")

    def run(self, now: float, limit: int | None = None) -> int:
        """Handles at most `limit` events; None: until no event is left. `now` is Unix seconds. Returns how many it
        handled. A handler may send events; a call within a handler does nothing."""
        if self._busy:
            return 0
        self._busy, done = True, 0
        try:
            self._refill(now)
            while self._queue and (limit is None or done < limit):
                family, event = self._queue.popleft()
                self._handle(family, event, now)
                done += 1
                self._refill(now)
        finally:
            self._busy = False
        return done

    def _handle(self, family: str, event: Hashable, now: float) -> None:
        try:
            self._handlers[family](event, now)
        except IllegalEvent as illegal:
            self._drop(Fault(now, family, event, str(illegal), illegal=True))
        except Exception as error:
            self._drop(Fault(now, family, event, f"{type(error).__name__}: {error}"))

    def _refill(self, now: float) -> None:
        """Moves waiting events into the queue, and drops those whose time is over."""
        while self._waiting:
            first = self._waiting[0]
            if first.deadline <= now:
                self._waiting.popleft()
                self._drop(Fault(now, first.family, first.event, f"no room in the queue for {self.timeout:g} s"))
            elif len(self._queue) < self.capacity:
                self._waiting.popleft()
                self._queue.append((first.family, first.event))
            else:
                return

    def _drop(self, fault: Fault) -> None:
        self.dropped += 1
        self.faults.append(fault)
