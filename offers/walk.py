"""Finding the best row for each taskgroup of a demand, without looking at the rows that do not matter.

A walk takes rows out of lanes, best first, until one suits. Usually the lanes are a *front*, shared by all demands of a
pass: nothing has to be prepared, and what did not suit is put back at the end. A walk that meets too many unsuitable
rows gives up; the rest of its demand is then found in lanes of its own, which hold only suitable rows because whole
blocks of them were tested at once with columns. The result is the same.

Several lanes are needed for GROUPBY alone: rows that it treats alike share a lane, so that a value that must wait for
the application to grow makes one lane wait instead of many rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heapreplace

import numpy as np

from offers.order import END, ROW_BITS, ROW_MASK, Lane, Order
from offers.search import LiveTest, Search
from offers.table import Ints, Row

FIRST_BLOCK = 24
"""Rows looked at first in a lane; what is needed beyond that comes in blocks of growing size."""
PATIENCE = 48
"""How many rows a walk may set aside, beyond two per taskgroup: about where lanes of its own become cheaper."""


class Lanes:
    """Rows of a pass in one or several lanes.

    Ranks in a lane may be out of date: one is only worth something if it is still the rank of its row. Every move of a
    row puts its new rank in, so the valid ones are always there.
    """

    def __init__(
        self,
        order: Order,
        rows: Sequence[Row | None],
        tests: Sequence[LiveTest],
        suitable: Callable[[Ints], Ints] | None = None,
    ) -> None:
        """`tests`: rows that these treat alike share a lane; `suitable`: only these rows (default: all)."""
        if tests or order.outlived(order.position):
            order.settle()
        self.order = order
        self.rows = rows
        self.private = suitable is not None
        self._position = order.position
        self._lane_of: Ints | None = None
        if not tests:
            self.lanes = [Lane(order.ranks, FIRST_BLOCK, suitable)]
            return
        parts = _grouped(suitable(order.ranks) if suitable else order.ranks, tests)
        self.lanes = [Lane(part, FIRST_BLOCK) for part in parts]
        self._lane_of = np.full(len(rows), -1, dtype=np.int64)
        for index, part in enumerate(parts):
            self._lane_of[part & ROW_MASK] = index

    @property
    def outlived(self) -> bool:
        """So much was placed elsewhere that new lanes are cheaper than catching up."""
        return self.order.outlived(self._position)

    def begin(self) -> None:
        """Takes in the rows that were moved elsewhere since these lanes were used last."""
        log = self.order.log
        if self._position == len(log):
            return
        for number in set(log[self._position :]):
            row = self.rows[number]
            index = int(self._lane_of[number]) if self._lane_of is not None else 0
            if row is not None and index >= 0:
                self.lanes[index].push(self.order.rank(row))
        self._position = len(log)

    def end(self) -> None:
        """What the log has grown by since `begin` was done here."""
        self._position = len(self.order.log)


def _grouped(ranks: Ints, tests: Sequence[LiveTest]) -> list[Ints]:
    """The sorted ranks, split into those that the tests treat alike, each part sorted."""
    if not len(ranks):
        return []
    numbers = ranks & ROW_MASK
    labels, limit = np.zeros(len(ranks), dtype=np.int64), 1
    for column in (column for test in tests for column in test.labels(numbers)):
        width = int(column.max()) + 1
        if limit * width >= END:
            values, labels = np.unique(labels, return_inverse=True)
            limit = len(values)
        labels, limit = labels * width + column, limit * width
    # Sorting 16-bit numbers stably is a radix sort, many times faster than the general one.
    by_label = np.argsort(labels.astype(np.uint16) if limit <= 1 << 16 else labels, kind="stable")
    cuts = np.flatnonzero(np.diff(labels[by_label])) + 1
    return np.split(ranks[by_label], cuts)


class Walk:
    """One demand's way through a single lane."""

    def __init__(self, search: Search, lanes: Lanes, slots: int) -> None:
        self.gave_up = False
        self._search = search
        self._lanes = lanes
        self._aside: list[tuple[Lane, int]] = []
        self._patience = END if lanes.private else PATIENCE + 2 * slots
        lanes.begin()
        self._lane = lanes.lanes[0] if lanes.lanes else Lane(np.zeros(0, dtype=np.int64), FIRST_BLOCK)

    def best(self) -> Row | None:
        """Removes and returns the best row that can take one more; None if there is none, or too many do not suit."""
        admits, rows, lane = self._search.admits, self._lanes.rows, self._lane
        base, sign = self._lanes.order.base, self._lanes.order.sign
        while (rank := lane.pop()) != END:
            row = rows[rank & ROW_MASK]
            if row is None or base + sign * row.score != rank >> ROW_BITS:
                continue
            if admits(row):
                return row
            self._aside.append((lane, rank))
            if len(self._aside) > self._patience:
                self.gave_up = True
                return None
        return None

    def again(self, row: Row) -> None:
        """The row returned last has moved and may take one more."""
        self._lane.push(self._lanes.order.rank(row))

    def end(self) -> None:
        """Puts back what did not suit. Private lanes serve equal demands only: what did not suit one suits none."""
        if not self._lanes.private:
            for lane, rank in self._aside:
                lane.push(rank)
        self._lanes.end()


class LaneWalk(Walk):
    """One demand's way through several lanes, some of which wait."""

    def __init__(self, search: Search, lanes: Lanes, slots: int) -> None:
        super().__init__(search, lanes, slots)
        self._open: list[tuple[int, int]] = []
        """(best rank, index) of the lanes that may be used."""
        self._waiting: list[int] = []
        self._dealt = False
        """The best open lane has given its best row away."""
        self._reopen(range(len(lanes.lanes)))

    def best(self) -> Row | None:
        """Removes and returns the best row that can take one more; None if there is none, or too many do not suit."""
        search, lanes, rows, order = self._search, self._lanes.lanes, self._lanes.rows, self._lanes.order
        self._settle()
        while self._open:
            rank, index = self._open[0]
            lane = lanes[index]
            row = rows[rank & ROW_MASK]
            if row is not None and order.rank(row) == rank:
                if search.waits(row):
                    heappop(self._open)
                    self._waiting.append(index)
                    continue
                if search.admits(row):
                    lane.pop()
                    self._lane = lane
                    self._dealt = True
                    return row
                self._aside.append((lane, rank))
                if len(self._aside) > self._patience:
                    self.gave_up = True
                    lane.pop()
                    return None
            lane.pop()
            self._advance()
        return None

    def _settle(self) -> None:
        if self._dealt:
            self._dealt = False
            self._advance()
        if self._waiting and self._quotas != self._search.quotas():
            self._reopen([index for _, index in self._open] + self._waiting)

    def _advance(self) -> None:
        """The best rank of the best open lane has gone or changed."""
        index = self._open[0][1]
        head = self._lanes.lanes[index].head()
        if head == END:
            heappop(self._open)
        else:
            heapreplace(self._open, (head, index))

    def _reopen(self, indexes: Sequence[int]) -> None:
        """Makes these lanes, which are all that are not empty, the open ones."""
        self._quotas = self._search.quotas()
        self._waiting = []
        lanes = self._lanes.lanes
        self._open = [(head, index) for index in indexes if (head := lanes[index].head()) != END]
        heapify(self._open)
