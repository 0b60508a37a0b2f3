"""One demand looking for its agents: which rows are suitable now, and which is the best of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from heapq import heapify, heappop, heappush, heapreplace

import numpy as np

from offers.eligibility import Counted, Eligibility, LiveItem
from offers.ledger import Counts, Ledger, Tally
from offers.model import Demand
from offers.order import END, ROW_MASK, Lane, Order
from offers.resources import amounts_of
from offers.table import Ints, Mask, Row, Table

_FIRST_BLOCK = 24
"""Rows tested at once beyond the number wanted; a few unsuitable ones are normal."""


class LiveTest:
    """A live item of the constraints, as it stands for one application."""

    __slots__ = ("_always", "_counted", "_tally", "elastic", "position")

    def __init__(self, item: LiveItem, tally: Tally, excluded: Callable[[LiveItem], Mask]) -> None:
        self.position = item.position
        self.elastic = item.elastic
        self._tally = tally
        self._always = item.always
        if item.excluding:
            free = ~excluded(item)
            self._always = free if item.always is None else item.always | free
        self._counted: list[tuple[Counted, Counts]] = [(c, tally.counts(c.rule.name)) for c in item.counted]

    def holds(self, row: Row) -> bool:
        """Whether the item admits one more taskgroup on the row."""
        number = row.number
        if self._always is not None and self._always[number]:
            return True
        for (rule, _, admitted), counts in self._counted:
            if admitted[number] and counts.get(row.attributes[rule.name], 0) < rule.quota(self._tally.total):
                return True
        return False

    def mask(self, final: bool) -> Mask:
        """Rows on which the item holds. Unless `final`, GROUPBY is given the benefit of a growing application."""
        masks = [] if self._always is None else [self._always]
        for (rule, column, admitted), counts in self._counted:
            if not final and rule.operator == "GROUPBY":
                masks.append(admitted)
                continue
            quota = rule.quota(self._tally.total)
            if quota <= 0:
                masks.append(np.zeros_like(admitted))
                continue
            full = [column.code_of.get(value, -1) for value, count in counts.items() if count >= quota]
            if not full:
                masks.append(admitted)
                continue
            # The last entry stands for rows without a value and for values that no row has; neither is admitted.
            room = np.ones(len(column.values) + 1, dtype=np.bool_)
            room[full] = False
            masks.append(admitted & room[column.codes])
        return reduce(np.logical_or, masks)

    def labels(self, numbers: Ints) -> list[Ints]:
        """Numbers per row: rows with equal numbers are treated alike by this item."""
        columns = [column.codes.take(numbers) + 1 for (_, column, _), _ in self._counted]
        if self._always is None:
            return columns
        always = self._always.take(numbers)
        return [always.astype(np.int64), *(np.where(always, 0, column) for column in columns)]

    def quotas(self) -> list[int]:
        """How many taskgroups each value may have now; grows with the application for GROUPBY."""
        return [rule.quota(self._tally.total) for (rule, _, _), _ in self._counted]


class Search:
    """The tests of one demand over the rows of a table, at this point of the pass."""

    def __init__(self, table: Table, ledger: Ledger, demand: Demand, eligibility: Eligibility) -> None:
        self.table = table
        self.demand = demand
        self.eligibility = eligibility
        self.tally = ledger.tally(demand.application)
        need = demand.need
        self.fixed_ports = tuple(sorted(set(need.fixed_ports)))
        self.amounts = (*amounts_of(need), need.random_ports + len(self.fixed_ports))
        self.extended = _summed(need.extended)
        self._ledger = ledger
        self._wants = [(line, amount) for line, amount in enumerate(self.amounts) if amount > 0]
        self.live = [LiveTest(item, self.tally, self._excluded) for item in eligibility.live]
        self.counting = [test for test in self.live if not test.elastic]
        self.elastic = [test for test in self.live if test.elastic]
        self._masks = [test.mask(final=False) for test in self.live]
        if demand.only_host:
            self._masks.append(self.host_mask())
        self._masks += [self.capacity_mask(name, amount) for name, amount in self.extended]
        self._masks += [table.port_free(port) for port in self.fixed_ports]

    def suitable(self, ranks: Ints) -> Ints:
        """Those of the ranks whose rows can take one taskgroup, as far as arithmetic over columns can tell."""
        numbers = ranks & ROW_MASK
        ok = self.eligibility.ok.take(numbers)
        free = self.table.free
        for line, amount in self._wants:
            ok &= free[line].take(numbers) >= amount
        for mask in self._masks:
            ok &= mask.take(numbers)
        return ranks[ok]

    def admits(self, row: Row) -> bool:
        """What changes while a demand is being placed, apart from the amounts: counts, fixed ports, extended."""
        for test in self.counting:
            if not test.holds(row):
                return False
        if self.fixed_ports and not row.has_ports(self.fixed_ports):
            return False
        return not self.extended or all(self._ledger.extended_free(row, n) >= amount for n, amount in self.extended)

    def host_mask(self) -> Mask:
        column = self.table.attribute("hostname")
        code = column.code_of.get(self.demand.only_host, len(column.values))
        return np.equal(column.codes, code)

    def capacity_mask(self, name: str, amount: int) -> Mask:
        column = self.table.column(f"extended {name}", lambda row: row.decoration.extended.get(name))
        return column.where(lambda capacity: bool(capacity >= amount))

    def _excluded(self, item: LiveItem) -> Mask:
        """Rows refused by every EXCLUDE rule of the item."""
        result = np.ones(len(self.table.rows), dtype=np.bool_)
        for rule in item.excluding:
            agents = self._ledger.agents_with_labels(rule.items, self.demand.application)
            column = self.table.column("agent", lambda row: row.agent_id)
            codes = [column.code_of[agent] for agent in agents if agent in column.code_of]
            refused = np.zeros(len(column.values) + 1, dtype=np.bool_)
            refused[codes] = True
            result &= refused[column.codes]
        return result


def _summed(extended: tuple[tuple[str, int], ...]) -> list[tuple[str, int]]:
    sums: dict[str, int] = {}
    for name, amount in extended:
        sums[name] = sums.get(name, 0) + amount
    return [(name, amount) for name, amount in sums.items() if amount > 0]


class Queue:
    """Rows of one demand, best first, where nothing makes the better one wait for another."""

    def __init__(self, search: Search, order: Order) -> None:
        ranks, moved = order.parts()
        heap = search.suitable(moved).tolist()
        heapify(heap)
        self._lane = Lane(
            ranks, heap, len(search.demand.slots) + _FIRST_BLOCK, lambda block: search.suitable(order.current(block))
        )
        self._search = search

    def best(self) -> Row | None:
        """Removes and returns the best row that can take one more."""
        lane, search = self._lane, self._search
        while True:
            rank = lane.head()
            if rank == END:
                return None
            lane.pop()
            row = search.table.rows[rank & ROW_MASK]
            if row is not None and search.admits(row):
                return row

    def again(self, rank: int) -> None:
        """The row returned last may take one more."""
        self._lane.push(rank)


class GroupedQueue:
    """The same where GROUPBY makes rows wait: rows that are treated alike share a lane, and a closed lane waits as a
    whole until the application has grown."""

    def __init__(self, search: Search, order: Order) -> None:
        self._search = search
        ranks = search.suitable(order.settled())
        parts = _grouped(ranks, search.elastic)
        block = len(search.demand.slots) // max(len(parts), 1) + _FIRST_BLOCK
        self._lanes = [Lane(part, [], block, lambda found: found) for part in parts]
        self._open = [(lane.head(), index) for index, lane in enumerate(self._lanes)]
        heapify(self._open)
        self._closed: list[int] = []
        self._quotas = self._quotas_now()
        self._dealt = False
        """The best open lane has given its head away and must be looked at again."""

    def best(self) -> Row | None:
        """Removes and returns the best row that can take one more."""
        search, lanes = self._search, self._lanes
        self._settle()
        while self._open:
            rank, index = self._open[0]
            row = search.table.rows[rank & ROW_MASK]
            if row is None or not all(test.holds(row) for test in search.elastic):
                heappop(self._open)
                self._closed.append(index)
                continue
            lanes[index].pop()
            self._dealt = True
            if search.admits(row):
                return row
            self._settle()
        return None

    def again(self, rank: int) -> None:
        """The row returned last may take one more."""
        self._lanes[self._open[0][1]].push(rank)

    def _settle(self) -> None:
        if self._dealt:
            self._dealt = False
            index = self._open[0][1]
            head = self._lanes[index].head()
            if head == END:
                heappop(self._open)
            else:
                heapreplace(self._open, (head, index))
        if self._closed and self._quotas != (quotas := self._quotas_now()):
            self._quotas = quotas
            for index in self._closed:
                heappush(self._open, (self._lanes[index].head(), index))
            self._closed.clear()

    def _quotas_now(self) -> list[int]:
        return [quota for test in self._search.elastic for quota in test.quotas()]


def _grouped(ranks: Ints, tests: list[LiveTest]) -> list[Ints]:
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
