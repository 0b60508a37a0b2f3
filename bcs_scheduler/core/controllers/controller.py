"""The interface of controllers, which bring the cluster to the recorded state, each for one kind of object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Controller(Protocol):
    """A controller that reacts to changed records, through the same unit of work."""

    def recover(self) -> None:
        """Drops the state of the controller and derives it from the records: after an election, and after an unexpected
        error (core.parts)."""

    def notice(self, changed: Sequence[tuple[str, str]]) -> None:
        """Handles changed records, given as (kind, key); called until nothing changes any more."""

    def tick(self) -> None:
        """Does work that depends on time, once per turn."""

    def next_timer(self) -> float | None:
        """Returns the Unix seconds at which the part needs a turn at the latest; None: at no particular time."""
