"""How much of its time a turn has used: what bounds a turn without a clock in the core.

A turn has parts that follow each other: events, steps of transactions, matching, launches. Each part goes on while the
turn has used less than the part's share, and does at least one piece of work; what is left waits for the next turn.
"""

from __future__ import annotations

from typing import Protocol

COMMANDS, EVENTS, STEPS, MATCHING, LAUNCHES = 0.2, 0.4, 0.65, 0.8, 1.0
"""Shares of a turn after which its parts stop. A launch of many taskgroups, whose reports come while
more are launched, needs about these shares (docs/decisions/0017-turns-are-bounded-in-time.md)."""


class Pace(Protocol):
    """Given to each turn by the thread that runs the core."""

    def spent(self) -> float:
        """Share of the time of this turn that is used up: 0.0 at its begin, 1.0 when it should end."""

    def pressed(self) -> bool:
        """Earlier decisions have not become durable, or reports wait: nothing more than one agent's launches a turn."""


class Unhurried:
    """A pace without bounds: a turn does all there is to do."""

    def spent(self) -> float:
        return 0.0

    def pressed(self) -> bool:
        return False


UNHURRIED = Unhurried()
