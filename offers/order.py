"""Agents in the order in which they are preferred.

A rank is one integer: how much the agent is preferred in the high bits, its row number in the low bits. Ranks are
unique and compare as (preference, row), so sorting and heaps need nothing but machine integers.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Literal

import numpy as np

from offers.table import SCORE_TOP, Ints, Table

Scoring = Literal["spread", "binpack"]

ROW_BITS = 24
ROW_MASK = (1 << ROW_BITS) - 1
END = 1 << 62
"""Greater than every rank."""
_RESORT_BASE, _RESORT_SHARE = 32, 64
"""The order is sorted anew when more rows have moved than the base plus this share of all: measured as a good balance
between looking at the moved rows one by one and sorting."""


class Order:
    """All active rows by rank. Rows that move between two sorts are kept apart."""

    def __init__(self, table: Table, scoring: Scoring) -> None:
        self._table = table
        self._spread = scoring == "spread"
        self._numbers = np.flatnonzero(table.active)
        self._limit = _RESORT_BASE + len(self._numbers) // _RESORT_SHARE
        self._stale = np.zeros(len(table.rows), dtype=np.bool_)
        self._moved: set[int] = set()
        self._ranks = self._sorted()

    def rank(self, score: int, number: int) -> int:
        return ((SCORE_TOP - score if self._spread else score) << ROW_BITS) | number

    def touch(self, numbers: Ints) -> None:
        """The scores of these rows have changed."""
        self._moved.update(numbers.tolist())
        self._stale[numbers] = True

    def settled(self) -> Ints:
        """Ranks of all rows, sorted."""
        if self._moved:
            self._ranks = self._sorted()
            self._stale[:] = False
            self._moved.clear()
        return self._ranks

    def parts(self) -> tuple[Ints, Ints]:
        """(sorted ranks of which those with `stale` rows are void, valid ranks of the rows that moved)."""
        if len(self._moved) > self._limit:
            self.settled()
        if not self._moved:
            return self._ranks, self._ranks[:0]
        return self._ranks, self._ranks_of(np.fromiter(self._moved, dtype=np.int64, count=len(self._moved)))

    def current(self, ranks: Ints) -> Ints:
        """Those of the sorted ranks that are still valid."""
        return ranks[~self._stale.take(ranks & ROW_MASK)] if self._moved else ranks

    def _sorted(self) -> Ints:
        ranks = self._ranks_of(self._numbers)
        ranks.sort()
        return ranks

    def _ranks_of(self, numbers: Ints) -> Ints:
        scores = self._table.score.take(numbers)
        return ((SCORE_TOP - scores if self._spread else scores) << ROW_BITS) | numbers


class Lane:
    """The suitable ones of a sorted list of ranks, best first; found block by block, as far as they are asked for.

    Ranks may be pushed in between: an agent that can take one more comes back with its new rank.
    """

    __slots__ = ("_block", "_bound", "_heap", "_position", "_ranks", "_suitable")

    def __init__(self, ranks: Ints, heap: list[int], block: int, suitable: Callable[[Ints], Ints]) -> None:
        """`heap` holds suitable ranks already (as a heap); `block` is how many of `ranks` are tested first."""
        self._ranks = ranks
        self._heap = heap
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

    def pop(self) -> None:
        heappop(self._heap)

    def push(self, rank: int) -> None:
        heappush(self._heap, rank)

    def _fetch(self) -> None:
        block = self._ranks[self._position : self._position + self._block]
        self._position += self._block
        self._block *= 4
        self._bound = int(self._ranks[self._position]) if self._position < len(self._ranks) else END
        found = self._suitable(block).tolist()
        if self._heap:
            for rank in found:
                heappush(self._heap, rank)
        else:
            self._heap = found  # a sorted list is a heap
