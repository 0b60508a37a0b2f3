"""Searches for agents on which a task has room after evictions, the cheapest first.

Evictions on different agents are compared by their `Cost`. A `Search` knows a lower bound of the cost on each agent,
for all agents from one computation over the columns of running tasks. An agent is judged exactly only while its bound
is below the best exact cost so far; so agents on which nothing helps cost next to nothing.

Bounds count too much: evictions of this session count twice, and a plug-in may refuse tasks that the columns
allow. They never count less.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, NamedTuple, overload

import numpy as np

from offers.policy.amounts import THOUSAND
from offers.policy.session.columns import Array
from offers.policy.session.kept import Rows
from offers.policy.session.state.candidates import NOT
from offers.policy.session.state.templates import Need

if TYPE_CHECKING:
    from offers.policy.session.session import Session

NOBODY = -(2**62)
"""Stands for the priority of the most important victim where there is none, or where priorities are not known."""
CLASSES = 64
"""Number of priorities that bounds tell apart; higher ones count as the last of these."""
WHOLE = 2**56
"""The sum of all agents in the measure of amounts."""


class Cost(NamedTuple):
    """The cost of victims: the least is the best."""

    priority: int
    """The highest priority among the victims; `NOBODY` without victims."""
    number: int
    amounts: int
    """The sum of the amounts of all victims; see `Measure`."""
    key: int
    """The score of the agent as `Candidates` has it: the higher score, then the lower name."""


class Measure:
    """Makes amounts of several dimensions one number: the sum of their parts of all that the agents have. Amounts count
    in thousandths of displayed units, rounded up, so that the unit of a dimension changes no comparison."""

    def __init__(self, totals: Iterable[int], units: Iterable[int]) -> None:
        """`units`: how many integer units one displayed unit has, by dimension (1: a count)."""
        self._units = list(units)
        self.plain = all(unit in (1, THOUSAND) for unit in self._units)
        """True if all amounts count as they are."""
        self.weights = [0 for _ in self._units]
        for d, total in enumerate(totals):
            whole = self.at_most(d, total)
            self.weights[d] = WHOLE // whole if whole else 0

    def of(self, row: Iterable[tuple[int, int]]) -> int:
        """The measure of pairs of dimension and amount."""
        weights = self.weights
        if self.plain:
            return sum(weights[d] * amount for d, amount in row)
        return sum(weights[d] * -self.at_most(d, -amount) for d, amount in row)

    @overload
    def at_most(self, d: int, amount: int) -> int: ...
    @overload
    def at_most(self, d: int, amount: Array) -> Array: ...
    def at_most(self, d: int, amount: int | Array) -> int | Array:
        """An amount of a dimension as the weights count it, rounded down."""
        unit = self._units[d]
        return amount if unit in (1, THOUSAND) else amount * THOUSAND // unit


class Movable:
    """Sums over the running tasks that could be victims, by agent. They stay true for later states that are reached by
    further operations: then fewer tasks can be victims."""

    def __init__(self, session: Session, tasks: Array, classes: Array) -> None:
        """`tasks`: numbers of tasks in the columns. `classes`: the priority of each of these."""
        running, count = session.snapshot.running, len(session.agents)
        self._running = running
        rank = running.rank[tasks]
        known = rank >= 0
        self._tasks, self._rank = tasks[known], rank[known]
        self._job = running.job[self._tasks]
        self._amounts = running.amounts
        self._count, self._measure = count, session.measure
        priorities, self._class = np.unique(classes[known], return_inverse=True)
        self.priorities: list[int] = priorities[:CLASSES].tolist()
        """The priorities of the tasks, ascending."""
        self._class = np.minimum(self._class, CLASSES - 1)
        self._sums: dict[int, Array] = {}
        self._largest: dict[int, Array] = {}
        self._lightest: Array | None = None
        self._of_rank: dict[int, tuple[list[list[int]], list[int], list[int]]] = {}
        self._version, self._changes = session.changes.version, session.changes
        self._undone = len(session.changes.undone)

    def holds(self) -> bool:
        """False: the state was undone to one before these sums were made."""
        undone = self._changes.undone
        if any(version < self._version for version in undone[self._undone :]):
            return False
        self._undone = len(undone)
        return True

    def __bool__(self) -> bool:
        return len(self._tasks) > 0

    def sums(self, d: int) -> Array:
        """The amounts of a dimension by priority and rank, each with those of lower priorities."""
        found = self._sums.get(d)
        if found is None:
            place = self._class * self._count + self._rank
            width = len(self.priorities)
            plain = np.bincount(place, weights=self._amounts[d][self._tasks], minlength=width * self._count)
            found = self._sums[d] = np.cumsum(plain.astype(np.int64).reshape(width, self._count), axis=0)
        return found

    def total(self, d: int) -> int:
        """The amount of a dimension on all agents."""
        return int(self.sums(d)[-1].sum()) if self else 0

    def largest(self, d: int) -> Array:
        """The largest amount of a dimension of one task, by rank."""
        found = self._largest.get(d)
        if found is None:
            found = self._largest[d] = np.zeros(self._count, dtype=np.int64)
            np.maximum.at(found, self._rank, self._amounts[d][self._tasks])
        return found

    def lightest(self) -> Array:
        """The least measure of one task, by rank."""
        if self._lightest is None:
            measures = np.zeros(len(self._tasks), dtype=np.int64)
            for d, weight in enumerate(self._measure.weights):
                measures += weight * self._measure.at_most(d, self._amounts[d][self._tasks])
            self._lightest = np.full(self._count, NOT, dtype=np.int64)
            np.minimum.at(self._lightest, self._rank, measures)
        return self._lightest

    def by_rank(self, d: int) -> tuple[list[list[int]], list[int], list[int]]:
        """The results of `sums`, `largest` and `lightest` as lists by rank."""
        found = self._of_rank.get(d)
        if found is None:
            sums: list[list[int]] = self.sums(d).T.tolist()
            found = self._of_rank[d] = (sums, self.largest(d).tolist(), self.lightest().tolist())
        return found

    def unready_jobs(self) -> set[str]:
        """The names of the jobs of which a task is not ready."""
        running = self._running
        return {running.name(number) for number in np.unique(self._job[running.waits[self._tasks]]).tolist()}

    def jobs(self) -> list[int]:
        """The numbers of the jobs of these tasks."""
        found: list[int] = np.unique(self._job).tolist()
        return found


class Search:
    """The agents that pass the predicates for one template and that could have room, in the order of their bounds.

    For tasks that are alike: same template, same possible victims. While operations are added, victims become fewer. So
    an agent without enough victims is set aside until something changes on the agent, or until the state in which it
    was set aside is undone."""

    def __init__(self, session: Session, need: Need, movable: Movable, beside: Rows) -> None:
        """`beside`: see `Session.beside`."""
        self._beside = beside
        self._candidates, self._changes, self.movable = session.candidates(need), session.changes, movable
        self._table, self._need, self._measure = session.agents, need, session.measure
        self._heap: list[Cost] = []
        self._bounds: dict[int, Cost] = {}
        self._seen = -1
        self._undone = len(session.changes.undone)
        self._refused = False
        self._aside: dict[int, int] = {}
        """The versions of the state in which ranks were set aside, in this order; all precede the present one."""

    def __iter__(self) -> Iterator[tuple[Cost, int]]:
        """Yields bounds and ranks, the lowest bound first. The agents may change while the iteration is not
        continued."""
        self._refresh()
        heap, bounds = self._heap, self._bounds
        count = len(self._table)
        shown: list[Cost] = []
        try:
            while heap:
                bound = heappop(heap)
                rank = bound.key % count
                if bounds.get(rank) != bound or (shown and shown[-1] == bound) or rank in self._aside:
                    continue
                shown.append(bound)
                yield bound, rank
        finally:
            for bound in shown:
                if bound.key % count not in self._aside:
                    heappush(heap, bound)

    @property
    def barren(self) -> bool:
        """True if no agent has enough, as the latest iteration has begun. Plug-ins may refuse less later."""
        return not (self._bounds or self._refused)

    def helps(self, victims: bool) -> bool:
        """Notes whether plug-ins have named enough victims on all agents together; returns the same."""
        self._refused = self._refused or not victims
        return victims

    def set_aside(self, rank: int) -> None:
        """The agent, which the iteration has just given, has not enough victims as things stand."""
        self._aside[rank] = self._changes.version

    def _refresh(self) -> None:
        undone = self._changes.undone
        if self._undone < len(undone):
            reached = min(undone[self._undone :])
            self._undone = len(undone)
            self._return([rank for rank, version in self._aside.items() if version > reached])
        log = self._candidates.log
        if self._seen == len(log):
            return
        changed = dict.fromkeys(log[self._seen :]) if self._seen >= 0 else {}
        every = self._seen < 0 or self._candidates.depends_on_others or len(changed) * 4 > len(self._table)
        self._seen = len(log)
        if every:
            self._rebuild()
            return
        for rank in changed:
            self._aside.pop(rank, None)
            bound = self._bound(rank)
            if bound is not None:
                self._bounds[rank] = bound
                heappush(self._heap, bound)
            else:
                self._bounds.pop(rank, None)

    def _return(self, ranks: Iterable[int]) -> None:
        for rank in ranks:
            del self._aside[rank]
            bound = self._bounds.get(rank)
            if bound is not None:
                heappush(self._heap, bound)

    def _bound(self, rank: int) -> Cost | None:
        """The bound of one agent; None if it has not enough."""
        key = self._candidates.key(rank)
        if key == NOT:
            return None
        future, movable = self._table.future, self.movable
        kept = self._beside.get(rank)
        place = number = least = 0
        lightest = 0
        for d, amount in self._need.row:
            short = amount - future[d][rank] - (kept[d] if kept is not None else 0)
            if short > 0:
                if not movable:
                    return None
                sums, largest, measures = movable.by_rank(d)
                first = bisect_left(sums[rank], short)
                if first == len(sums[rank]):
                    return None
                place = max(place, first)
                number = max(number, -(-short // largest[rank]))
                measure = self._measure
                least += measure.weights[d] * (short if measure.plain else measure.at_most(d, short))
                lightest = measures[rank]
        if not number:
            return Cost(NOBODY, 0, 0, key)
        return Cost(movable.priorities[place], number, max(least, number * lightest), key)

    def _rebuild(self) -> None:
        self._aside.clear()
        self._heap, self._bounds = [], {}
        count, movable = len(self._table), self.movable
        future = self._table.arrays().future
        open_ = self._candidates.static_mask
        lacking: list[tuple[int, Array, Array]] = []
        for d, amount in self._need.row:
            short = amount - future[d]
            for rank, row in self._beside.items():
                short[rank] -= row[d]
            lacks = short > 0
            open_ = open_ & (~lacks | (movable.sums(d)[-1] >= short)) if movable else open_ & ~lacks
            lacking.append((d, short, lacks))
        if not open_.any():
            return
        keys = np.array(self._candidates.keys_of_accepted(), dtype=np.int64)
        open_ = open_ & (keys != NOT)
        place = np.zeros(count, dtype=np.int64)
        number, least = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        for d, short, lacks in lacking:
            lacks &= open_
            if not lacks.any():
                continue
            first = np.argmax(movable.sums(d) >= short, axis=0)
            place[lacks] = np.maximum(place[lacks], first[lacks])
            number[lacks] = np.maximum(number[lacks], -(-short[lacks] // movable.largest(d)[lacks]))
            least[lacks] += self._measure.weights[d] * self._measure.at_most(d, short[lacks])
        some = number > 0
        priority = np.full(count, NOBODY, dtype=np.int64)
        if some.any():
            least[some] = np.maximum(least[some], number[some] * movable.lightest()[some])
            priority[some] = np.array(movable.priorities)[place[some]]
        ranks = np.nonzero(open_)[0]
        columns = (priority[ranks], number[ranks], least[ranks], keys[ranks])
        self._heap = list(map(Cost, *(column.tolist() for column in columns)))
        self._bounds = dict(zip(ranks.tolist(), self._heap, strict=True))
        heapify(self._heap)
