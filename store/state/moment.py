"""The moments at which the records of a state agree with each other.

Readers of other threads see every change at once, and the core makes changes that belong together one after the other,
in several units of one turn: a taskgroup has ended before its restart is recorded.
"""

from __future__ import annotations

import math


class Moment:
    """The turns of the core, as readers of other threads see them. A state without a core never changes within a turn.

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
