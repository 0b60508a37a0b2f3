"""The moments at which the records of a state agree with each other.

Readers of other threads see every change at once, and the core makes changes that belong together one after the other,
in several units of one turn: a taskgroup has ended before its restart is recorded. A standby reads these units one
after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
TRIES = 5
"""Attempts of `Moment.read` to read within one turn of the core, or between two."""


class Moment:
    """The turns of the core, as readers of other threads see them, or on a standby the reads of the store. A state
    that no thread changes is always at rest.

    `serial` differs if a turn has begun or ended since. `since`: Unix seconds of the beginning of the turns whose
    consequences are not all recorded yet; infinity = the records agree with each other.
    """

    __slots__ = ("serial", "since")

    def __init__(self) -> None:
        self.serial = 0
        self.since = math.inf

    def begin(self, now: float) -> None:
        """A turn begins. `now`: Unix seconds of its records."""
        self.serial += 1
        self.since = min(self.since, now)

    def end(self, *, complete: bool) -> None:
        """The turn has ended. `complete`: False if its time was used up before everything was done."""
        self.serial += 1
        if complete:
            self.since = math.inf

    def settle(self, since: float) -> None:
        """A standby has read the store. `since`: Unix seconds of the beginning of the turns of which the store may not
        have all consequences yet; infinity = nothing has changed since the read before, so it has all."""
        self.serial += 1
        self.since = since

    def read(self, look: Callable[[float], T]) -> T:
        """Returns the result of `look`, which reads the records at one moment; any thread may call. `look` gets the
        Unix seconds from which on the records may lack consequences, and calls nothing a failure that has happened
        since; minus infinity if the records change faster than they can be read."""
        for _ in range(TRIES):
            serial = self.serial
            found = look(self.since)
            if self.serial == serial:
                return found
        return look(-math.inf)
