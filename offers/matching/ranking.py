"""Agents in the order in which they are preferred.

A rank is one integer: how much the agent is preferred in the high bits, its row number in the low bits. Ranks are
unique and compare as (preference, row), so sorting and heaps need nothing but machine integers.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Literal

import numpy as np

from offers.ledger.table import SCORE_TOP, Ints, Row, Table

Scoring = Literal["spread", "binpack"]

ROW_BITS = 24
ROW_MASK = (1 << ROW_BITS) - 1
END = 1 << 62
"""Greater than every rank."""
RESORT_BASE, RESORT_SHARE = 64, 32
"""The order is sorted anew when more placements were made since than the base plus this share of the rows: measured as
a good balance between looking at moved rows one by one and sorting."""


class Ranking:
    """All active rows by rank, as of one moment of the pass, and a log of the rows that moved since the pass began."""

    def __init__(self, table: Table, scoring: Scoring) -> None:
        table.flush()
        self._table = table
        table.flush()  # earlier passes may have placed on rows whose offers have not been taken yet
        self.base, self.sign = (SCORE_TOP, -1) if scoring == "spread" else (0, 1)
        """The high bits of a rank are base + sign * score; the smallest is preferred."""
        self._numbers = np.flatnonzero(table.active)
        self._limit = RESORT_BASE + len(self._numbers) // RESORT_SHARE
        self.log: list[int] = []
        """Numbers of the rows that something was placed on, in the order of the placements."""
        self.ranks = self._sorted()
        """Sorted ranks as they were when the log was `position` entries long."""
        self.position = 0

    def rank(self, row: Row) -> int:
        """The rank of a row as one integer: preference, then number. The lowest rank is tried first."""
        return ((self.base + self.sign * row.score) << ROW_BITS) | row.number

    def outlived(self, position: int) -> bool:
        """So much was placed since this position of the log that starting anew is cheaper than catching up."""
        return len(self.log) - position > self._limit

    def settle(self) -> None:
        """Makes `ranks` the current ones."""
        if self.position != len(self.log):
            self._table.flush()
            self.ranks = self._sorted()
            self.position = len(self.log)

    def _sorted(self) -> Ints:
        ranks = (self.base + self.sign * self._table.score.take(self._numbers)) << ROW_BITS
        ranks |= self._numbers
        ranks.sort()
        return ranks


class CandidateQueue:
    """The suitable ones of a sorted list of ranks, best first; found block by block, as far as they are asked for.

    Ranks may be pushed in between: an agent that can take one more comes back with its new rank.
    """

    __slots__ = ("_block", "_bound", "_heap", "_position", "_ranks", "_suitable")

    def __init__(self, ranks: Ints, block: int, suitable: Callable[[Ints], Ints] | None = None) -> None:
        """`block` is how many of the ranks are looked at first; `suitable` picks those that are worth it (or all)."""
        self._ranks = ranks
        self._heap: list[int] = []
        self._block = block
        self._suitable = suitable
        self._position = 0
        self._bound = int(ranks[0]) if len(ranks) else END

    def head(self) -> int:
        """The best rank, or END."""
        while True:
            heap = self._heap
            if heap and heap[0] <= self._bound:
                return heap[0]
            if self._bound == END:
                return END
            self._fetch()

    def pop(self) -> int:
        """Removes and returns the best rank, or END."""
        heap = self._heap
        if heap and heap[0] <= self._bound:
            return heappop(heap)
        return heappop(self._heap) if self.head() != END else END

    def push(self, rank: int) -> None:
        """Puts a rank back."""
        heappush(self._heap, rank)

    def _fetch(self) -> None:
        block = self._ranks[self._position : self._position + self._block]
        self._position += self._block
        self._block *= 4
        self._bound = int(self._ranks[self._position]) if self._position < len(self._ranks) else END
        ranks = (self._suitable(block) if self._suitable else block).tolist()
        if self._heap:
            # Both are short or nearly sorted, so this is faster than pushing; a sorted list is a heap.
            self._heap += ranks
            self._heap.sort()
        else:
            self._heap = ranks
