"""Finding the best row for each taskgroup of a demand, without looking at the rows that do not matter.

A walk takes rows out of lanes, best first, until one suits, and puts back those that did not suit but may suit another
demand. It may use lanes of three kinds, with the same result:

    front   all rows of the pass. Nothing has to be prepared.
    shape   the rows with room for one shape of demand, found by testing whole blocks of rows with columns. Shared by
            equal demands of all applications.
    own     the rows that the counts of one application admit, too.

A walk that meets too many unsuitable rows gives up, and the rest of its demand is found with lanes of the next kind.

Several lanes are needed for GROUPBY alone: rows that it treats alike share a lane, so that a value that must wait for
the application to grow makes one lane wait instead of many rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heapreplace
from typing import Literal

import numpy as np

from offers.order import END, ROW_BITS, ROW_MASK, Lane, Order
from offers.search import LiveTest, Search
from offers.table import Ints, Row

FIRST_BLOCK = 24
"""Rows looked at first in a lane; what is needed beyond that comes in blocks of growing size."""
PATIENCE = 48
"""How many rows a walk may set aside, beyond two per taskgroup: about where testing with columns becomes cheaper."""

Kind = Literal["front", "shape", "own"]


class Lanes:
    """Rows of a pass in one or several lanes.

    Ranks in a lane may be out of date: one is only worth something if it is still the rank of its row. Every move of a
    row puts its new rank in, so the valid ones are always there.
    """

    def __init__(self, kind: Kind, order: Order, search: Search) -> None:
        tests = search.elastic
        if tests or order.outlived(order.position):
            order.settle()
        self.kind = kind
        self.order = order
        self.rows = search.shape.table.rows
        self._position = order.position
        self._lane_of: Ints | None = None
        suitable: Callable[[Ints], Ints] | None = None
        if kind == "own" and search.live:
            suitable = search.suitable
        elif kind != "front":
            suitable = search.shape.suitable
        if not tests:
            self.lanes = [Lane(order.ranks, FIRST_BLOCK, suitable)]
            return
        parts = _grouped(suitable(order.ranks) if suitable else order.ranks, tests)
        self.lanes = [Lane(part, FIRST_BLOCK) for part in parts]
        self._lane_of = np.full(len(self.rows), -1, dtype=np.int64)
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
        return [ranks]
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
        self.used: set[int] | None = None
        """Numbers of the rows that have been given away and are not given again, if each may be given only once."""
        self._search = search
        self._lanes = lanes
        self._lane = lanes.lanes[0]
        self._aside: list[tuple[Lane, int]] = []
        self._patience = PATIENCE + 2 * slots
        lanes.begin()

    def best(self) -> Row | None:
        """Removes and returns the best row that can take one more; None if there is none, or too many do not suit."""
        search, rows, lane = self._search, self._lanes.rows, self._lane
        has_room, counting = search.shape.has_room, bool(search.counting)
        base, sign = self._lanes.order.base, self._lanes.order.sign
        while (rank := lane.pop()) != END:
            row = rows[rank & ROW_MASK]
            if row is None or base + sign * row.score != rank >> ROW_BITS:
                continue
            if self.used and row.number in self.used:
                self._aside.append((lane, rank))
                continue
            room = has_room(row)
            if room and (not counting or search.admits(row)):
                return row
            if self._tires(lane, rank, room):
                return None
        return None

    def again(self, row: Row) -> None:
        """The row returned last has moved and may take one more, of this demand or of another."""
        rank = self._lanes.order.rank(row)
        if self.used is None:
            self._lane.push(rank)
        else:
            self.used.add(row.number)
            self._aside.append((self._lane, rank))

    def end(self) -> None:
        """Puts back what may suit another demand."""
        for lane, rank in self._aside:
            lane.push(rank)
        self._lanes.end()

    def _tires(self, lane: Lane, rank: int, room: bool) -> bool:
        """Notes a rank that was popped and does not suit; true if there have been too many of them."""
        kind = self._lanes.kind
        if kind == "own" or (kind == "shape" and not room):
            return False  # it suits none of the demands that use these lanes
        self._aside.append((lane, rank))
        self.gave_up = len(self._aside) > self._patience
        return self.gave_up


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
            if row is None or order.rank(row) != rank:
                lane.pop()
            elif self.used and row.number in self.used:
                self._aside.append((lane, lane.pop()))
            elif search.waits(row):
                heappop(self._open)
                self._waiting.append(index)
                continue
            else:
                lane.pop()
                room = search.shape.has_room(row)
                if room and search.admits(row):
                    self._lane = lane
                    self._dealt = True
                    return row
                if self._tires(lane, rank, room):
                    return None
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
