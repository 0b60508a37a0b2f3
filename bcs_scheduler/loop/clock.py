"""The time of a term of leadership. All times that the core compares are read from this clock.

The clock begins where the records end (bcs_scheduler.core.term_start), advances with the monotonic clock of the host,
and is slewed to the wall clock of the host by a slightly higher or lower rate. The clock never goes back and never
jumps, also when the wall clock does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog

log = structlog.get_logger(__name__)

SLEW = 1 / 12
"""Seconds by which a second may be longer or shorter while the clock is slewed to the wall clock: an hour is corrected
in 12 hours, and a period of 60 s takes 55 to 65 s meanwhile. The bound is the default of chrony (maxslewrate, 83,333
ppm); the bound of adjtime (500 ppm) would take 83 days for an hour."""
NOTABLE = 1.0
"""Seconds by which the wall clock may move against this one between two readings without being told in the log."""


def log_step(seconds: float, ahead: float) -> None:
    log.warning("clock.stepped", seconds=round(seconds, 3), ahead=round(ahead, 3))


class Clock:
    """Unix seconds. May be read by any thread."""

    def __init__(
        self,
        begin: float,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        stepped: Callable[[float, float], None] = log_step,
    ) -> None:
        """`begin`: Unix seconds at which it begins. `wall`: Unix seconds by the clock of the host, which may be set at
        any moment. `monotonic`: seconds since any moment. `stepped` hears by how many seconds the wall clock has been
        put forward, and by how many this one is ahead of that since."""
        self._wall, self._monotonic, self._stepped = wall, monotonic, stepped
        self._lock = threading.Lock()
        self._time, self._read_at = begin, monotonic()
        self._ahead = begin - wall()

    def now(self) -> float:
        """Unix seconds; never less than before."""
        with self._lock:
            read_at = self._monotonic()
            passed = max(0.0, read_at - self._read_at)
            ahead = self._time + passed - self._wall()
            most = passed * SLEW
            slewed = min(most, max(-most, ahead))
            moved = ahead - self._ahead
            self._time += passed - slewed
            self._read_at, self._ahead = read_at, ahead - slewed
            now = self._time
        if abs(moved) > NOTABLE:
            self._stepped(-moved, ahead)
        return now

    @property
    def ahead(self) -> float:
        """Seconds by which it was ahead of the wall clock when it was last read; negative: behind."""
        return self._ahead
