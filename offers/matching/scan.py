"""Finds the best row for each taskgroup of a demand without looking at the rows that do not matter.

A scan takes rows out of queues of candidates, best first, until one suits, and puts back those that did not suit but
may suit another demand. It may use three kinds of queues, with the same result:

    front   all rows of the pass. Needs no preparation.
    class   the rows with room for one request class, found by testing whole blocks of rows with columns. Shared by
            equal demands of all applications.
    own     the rows that the counts of one application admit, too.

A scan that meets too many unsuitable rows gives up, and the rest of its demand is placed with queues of the next kind.

Several queues are needed for GROUPBY alone: rows that it treats alike share a queue, so that a value that must wait for
the application to grow makes one queue wait instead of many rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heapreplace
from typing import Literal

import numpy as np

from offers.ledger.table import Ints, Row
from offers.matching.feasibility import Feasibility, LiveTest
from offers.matching.ranking import END, ROW_BITS, ROW_MASK, CandidateQueue, Ranking

FIRST_BLOCK = 24
"""Number of rows that a scan reads first; further blocks grow in size."""
PATIENCE = 48
"""Number of rows that a scan may set aside, beyond two per taskgroup: about the point at which tests over columns
become cheaper."""

Kind = Literal["front", "class", "own"]


class Candidates:
    """Rows of a pass in one or several queues.

    Ranks in a queue may be out of date: a rank is valid only while it is the rank of its row. Every move of a row adds
    its new rank, so the valid ones are always in a queue.
    """

    def __init__(self, kind: Kind, ranking: Ranking, feasibility: Feasibility) -> None:
        tests = feasibility.elastic
        if tests or ranking.outlived(ranking.position):
            ranking.settle()
        self.kind = kind
        self.ranking = ranking
        self.rows = feasibility.request_class.table.rows
        self._position = ranking.position
        self._queue_of: Ints | None = None
        suitable: Callable[[Ints], Ints] | None = None
        if kind == "own" and feasibility.live:
            suitable = feasibility.suitable
        elif kind != "front":
            suitable = feasibility.request_class.suitable
        if not tests:
            self.queues = [CandidateQueue(ranking.ranks, FIRST_BLOCK, suitable)]
            return
        parts = _grouped(suitable(ranking.ranks) if suitable else ranking.ranks, tests)
        self.queues = [CandidateQueue(part, FIRST_BLOCK) for part in parts]
        self._queue_of = np.full(len(self.rows), -1, dtype=np.int64)
        for index, part in enumerate(parts):
            self._queue_of[part & ROW_MASK] = index

    @property
    def outlived(self) -> bool:
        """True if so much was placed elsewhere that new queues are cheaper than bringing these up to date."""
        return self.ranking.outlived(self._position)

    def begin(self) -> None:
        """Adds the rows that were moved elsewhere since these queues were used last."""
        log = self.ranking.log
        if self._position == len(log):
            return
        for number in set(log[self._position :]):
            row = self.rows[number]
            index = int(self._queue_of[number]) if self._queue_of is not None else 0
            if row is not None and index >= 0:
                self.queues[index].push(self.ranking.rank(row))
        self._position = len(log)

    def end(self) -> None:
        """Marks the log entries that were added since `begin` as known: they come from this use of the candidates,
        whose queues have them already."""
        self._position = len(self.ranking.log)


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


class Scan:
    """Finds rows for one demand in a single queue."""

    def __init__(self, feasibility: Feasibility, queues: Candidates, slots: int) -> None:
        self.gave_up = False
        self.used: set[int] | None = None
        """Numbers of the rows that have been given away and are not given again, if each may be given only once."""
        self._feasibility = feasibility
        self._candidates = queues
        self._queue = queues.queues[0]
        self._aside: list[tuple[CandidateQueue, int]] = []
        self._patience = PATIENCE + 2 * slots
        queues.begin()

    def best(self) -> Row | None:
        """Removes and returns the best row that can take one more; None if there is none, or too many do not suit."""
        feasibility, rows, queue = self._feasibility, self._candidates.rows, self._queue
        has_room, counting = feasibility.request_class.has_room, bool(feasibility.counting)
        base, sign = self._candidates.ranking.base, self._candidates.ranking.sign
        while (rank := queue.pop()) != END:
            row = rows[rank & ROW_MASK]
            if row is None or base + sign * row.score != rank >> ROW_BITS:
                continue
            if self.used and row.number in self.used:
                self._aside.append((queue, rank))
                continue
            room = has_room(row)
            if room and (not counting or feasibility.admits(row)):
                return row
            if self._tires(queue, rank, room):
                return None
        return None

    def again(self, row: Row) -> None:
        """The row returned last has moved and may take one more, of this demand or of another."""
        rank = self._candidates.ranking.rank(row)
        if self.used is None:
            self._queue.push(rank)
        else:
            self.used.add(row.number)
            self._aside.append((self._queue, rank))

    def end(self) -> None:
        """Puts back the rows that may suit another demand."""
        for queue, rank in self._aside:
            queue.push(rank)
        self._candidates.end()

    def _tires(self, queue: CandidateQueue, rank: int, room: bool) -> bool:
        """Notes a rank that was popped and does not suit; true if there have been too many of them."""
        kind = self._candidates.kind
        if kind == "own" or (kind == "class" and not room):
            return False  # the row suits none of the demands that use these queues
        self._aside.append((queue, rank))
        self.gave_up = len(self._aside) > self._patience
        return self.gave_up


class GroupedScan(Scan):
    """Finds rows for one demand in several queues, some of which wait."""

    def __init__(self, feasibility: Feasibility, queues: Candidates, slots: int) -> None:
        super().__init__(feasibility, queues, slots)
        self._open: list[tuple[int, int]] = []
        """(best rank, index) of the lanes that may be used."""
        self._waiting: list[int] = []
        self._dealt = False
        """The best open lane has given its best row away."""
        self._reopen(range(len(queues.queues)))

    def best(self) -> Row | None:
        """Removes and returns the best row that can take one more; None if there is none, or too many do not suit."""
        feasibility, queues, rows, ranking = (
            self._feasibility,
            self._candidates.queues,
            self._candidates.rows,
            self._candidates.ranking,
        )
        self._settle()
        while self._open:
            rank, index = self._open[0]
            queue = queues[index]
            row = rows[rank & ROW_MASK]
            if row is None or ranking.rank(row) != rank:
                queue.pop()
            elif self.used and row.number in self.used:
                self._aside.append((queue, queue.pop()))
            elif feasibility.waits(row):
                heappop(self._open)
                self._waiting.append(index)
                continue
            else:
                queue.pop()
                room = feasibility.request_class.has_room(row)
                if room and feasibility.admits(row):
                    self._queue = queue
                    self._dealt = True
                    return row
                if self._tires(queue, rank, room):
                    return None
            self._advance()
        return None

    def _settle(self) -> None:
        if self._dealt:
            self._dealt = False
            self._advance()
        if self._waiting and self._quotas != self._feasibility.quotas():
            self._reopen([index for _, index in self._open] + self._waiting)

    def _advance(self) -> None:
        """The best rank of the best open lane has gone or changed."""
        index = self._open[0][1]
        head = self._candidates.queues[index].head()
        if head == END:
            heappop(self._open)
        else:
            heapreplace(self._open, (head, index))

    def _reopen(self, indexes: Sequence[int]) -> None:
        """Makes these lanes, which are all that are not empty, the open ones."""
        self._quotas = self._feasibility.quotas()
        self._waiting = []
        queues = self._candidates.queues
        self._open = [(head, index) for index in indexes if (head := queues[index].head()) != END]
        heapify(self._open)
