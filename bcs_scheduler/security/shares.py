"""A bounded number of places that callers share: one address and one caller have a part of them at most."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

PART = 0.5
"""Part of the places that one address and one caller may have, if nothing else is set."""


def share_of(most: int, part: float) -> int:
    """Number of places that one holder may have; 1 at least, if there are any."""
    return min(most, max(1, math.ceil(most * part)))


class Shares:
    """Counts places by holder. A place has several holders: an address, and a caller with credentials. Not for several
    threads."""

    def __init__(self, most: int, part: float = PART) -> None:
        self.most, self.each = most, share_of(most, part)
        self.taken = 0
        self._by_holder: Counter[str] = Counter()

    def take(self, holders: Sequence[str]) -> str | None:
        """Takes a place and returns None. Without a free place, takes none and returns the holder who has all places
        of one holder; empty = all places are taken."""
        if self.taken >= self.most:
            return ""
        for holder in holders:
            if self._by_holder[holder] >= self.each:
                return holder
        self.taken += 1
        self._by_holder.update(holders)
        return None

    def give_back(self, holders: Sequence[str]) -> None:
        self.taken -= 1
        for holder in holders:
            self._by_holder[holder] -= 1
            if not self._by_holder[holder]:
                del self._by_holder[holder]
