"""The log of outstanding applications: a cluster without any work says so, at a steady pace."""

from __future__ import annotations

PERIOD_SECONDS = 120.0
"""The time between two looks."""


class OutstandingApplications:
    """Remembers whether an application had work since the last look. Times are Unix seconds."""

    def __init__(self, now: float, period: float = PERIOD_SECONDS) -> None:
        """`period`: seconds."""
        self.period = period
        self.next_wake = now + period
        """The moment of the next look, in Unix seconds."""
        self._seen = False

    def seen(self) -> None:
        """An application has reported work."""
        self._seen = True

    def look(self, now: float) -> str | None:
        """The message of a period without work; None if there was work, or if the period is not over."""
        if now < self.next_wake:
            return None
        self.next_wake = now + self.period
        quiet, self._seen = not self._seen, False
        return f"no outstanding applications for {self.period:g} s" if quiet else None
