"""The time budget of a turn: limits the length of a turn without a clock in the core.

A turn has parts that follow each other: events, steps of transactions, matching, launches. Each part continues while
the turn has used less than the share of this part, and does at least one piece of work. The remaining work waits for
the next turn.
"""

from __future__ import annotations

from typing import Protocol

COMMANDS, EVENTS, STEPS, MATCHING, LAUNCHES = 0.2, 0.4, 0.65, 0.8, 1.0
"""Shares of a turn after which its parts stop. A launch of many taskgroups, whose reports come while
more are launched, needs about these shares (docs/decisions/0017-turns-are-bounded-in-time.md)."""


class TimeBudget(Protocol):
    """Given to each turn by the thread that runs the core."""

    def spent(self) -> float:
        """Share of the time of this turn that is used up: 0.0 at its begin, 1.0 when it should end."""

    def is_congested(self) -> bool:
        """Earlier decisions have not become durable, or reports wait: a turn then launches on one agent at most."""


class UnlimitedTime:
    """A time budget without bounds: a turn does all the work."""

    def spent(self) -> float:
        """Returns the used fraction of the time, always 0.0."""
        return 0.0

    def is_congested(self) -> bool:
        """Always False."""
        return False


UNLIMITED = UnlimitedTime()
