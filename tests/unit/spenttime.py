"""A time budget that is used up, for tests of work in slices."""

from __future__ import annotations


class Spent:
    """A turn without time: each part does one piece of work."""

    def spent(self) -> float:
        return 1.0

    def is_congested(self) -> bool:
        return False
