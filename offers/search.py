"""The tests of one demand: which rows can take its next taskgroup."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

import numpy as np

from offers.eligibility import Eligibility, LiveItem
from offers.ledger import Ledger
from offers.model import Demand
from offers.order import ROW_MASK
from offers.resources import requested
from offers.table import Column, Ints, Mask, Port, Row, Table


class LiveTest:
    """A live item of the constraints, as it stands for one application."""

    __slots__ = ("_always", "_as_of", "_counted", "_counts", "_quotas", "_tally", "elastic", "position")

    def __init__(self, table: Table, item: LiveItem, ledger: Ledger, application: str) -> None:
        self.position = item.position
        self.elastic = item.elastic
        self._always = item.always
        for rule in item.excluding:
            agents = ledger.agents_with_labels(rule.items, application)
            column = table.column("agent", lambda row: row.agent_id)
            free = ~_picked(column, (column.code_of.get(agent, -1) for agent in agents))
            self._always = free if self._always is None else self._always | free
        self._tally = ledger.tally(application)
        self._counted = item.counted
        self._counts = [self._tally.counts(counted.rule.name) for counted in item.counted]
        self._as_of = self._tally.total
        self._quotas = [counted.rule.quota(self._as_of) for counted in item.counted]

    def holds(self, row: Row) -> bool:
        """Whether the item admits one more taskgroup on the row."""
        number = row.number
        if self._always is not None and self._always[number]:
            return True
        for (rule, _, admitted), counts, quota in zip(self._counted, self._counts, self.quotas(), strict=True):
            if admitted[number] and counts.get(row.attributes[rule.name], 0) < quota:
                return True
        return False

    def quotas(self) -> list[int]:
        """How many taskgroups each value may have now, rule by rule; grows with the application for GROUPBY."""
        if self.elastic and self._as_of != self._tally.total:
            self._as_of = self._tally.total
            self._quotas = [counted.rule.quota(self._as_of) for counted in self._counted]
        return self._quotas

    def mask(self, final: bool) -> Mask:
        """Rows on which the item holds. Unless `final`, GROUPBY is given the benefit of a growing application."""
        masks = [] if self._always is None else [self._always]
        for (rule, column, admitted), counts, quota in zip(self._counted, self._counts, self.quotas(), strict=True):
            if not final and rule.operator == "GROUPBY":
                masks.append(admitted)
            elif quota > 0:
                full = (column.code_of.get(value, -1) for value, count in counts.items() if count >= quota)
                masks.append(admitted & ~_picked(column, full))
            else:
                masks.append(np.zeros_like(admitted))
        return reduce(np.logical_or, masks)

    def labels(self, numbers: Ints) -> list[Ints]:
        """Numbers per row: rows with equal numbers are treated alike by this item."""
        columns = [
            np.where(admitted.take(numbers), column.codes.take(numbers) + 1, 0) for _, column, admitted in self._counted
        ]
        if self._always is None:
            return columns
        always = self._always.take(numbers)
        return [always.astype(np.int64), *(np.where(always, 0, column) for column in columns)]


def _picked(column: Column, codes: Iterable[int]) -> Mask:
    """Rows with one of these codes; rows without a value and code -1 are never picked."""
    chosen = np.zeros(len(column.values) + 1, dtype=np.bool_)
    chosen[list(codes)] = True
    chosen[-1] = False
    return chosen[column.codes]


class Shape:
    """What a demand asks of an agent whatever its application: resources, host, and the fixed tests of its rules.

    A row that fails once fails for the rest of the pass, because amounts only fall. That is why equal demands, also of
    different applications, can share what was found out.
    """

    def __init__(self, table: Table, ledger: Ledger, demand: Demand, eligibility: Eligibility) -> None:
        self.table = table
        self.eligibility = eligibility
        need = demand.need
        self.fixed_ports: tuple[Port, ...] = (*sorted(set(need.fixed_ports)), *sorted(set(need.host_ports)))
        self.amounts = {name: amount for name, amount in requested(need).items() if amount > 0}
        lines = table.line_of
        self.wants = [(lines[name], amount) for name, amount in self.amounts.items() if name in lines]
        self._impossible = len(self.wants) < len(self.amounts)
        """A dimension is wanted that no agent has."""
        self.extended = _summed(need.extended)
        self._only_host = demand.only_host
        self._only_agents, self._except_agents = demand.only_agents, demand.except_agents
        self._ledger = ledger
        self._chosen = bool(demand.only_agents or demand.except_agents)
        """Some agents are not acceptable whatever they are like."""
        self._special = bool(self.fixed_ports or self.extended or demand.only_host or self._chosen or self._impossible)
        self._mask: Mask | None = None

    def has_room(self, row: Row) -> bool:
        """Whether the row passes now."""
        amounts = row.amounts
        for line, amount in self.wants:
            if amounts[line] < amount:
                return False
        if not self.eligibility.ok[row.number]:
            return False
        return not self._special or (
            not self._impossible
            and self._only_host in ("", row.hostname)
            and self._accepts(row.agent_id)
            and row.has_ports(self.fixed_ports)
            and all(self._ledger.extended_free(row, name) >= amount for name, amount in self.extended)
        )

    def suitable(self, ranks: Ints) -> Ints:
        """Those of the ranks whose rows pass, as far as arithmetic over columns can tell."""
        self.table.flush()
        if self._impossible:
            return ranks[:0]
        if self._mask is None:
            masks = [self.eligibility.ok, *(self.table.port_free(port) for port in self.fixed_ports)]
            masks += [self.capacity_mask(name, amount) for name, amount in self.extended]
            if self._only_host:
                masks.append(self.host_mask())
            if self._chosen:
                masks.append(self.agent_mask())
            self._mask = reduce(np.logical_and, masks)
        numbers = ranks & ROW_MASK
        ok = self._mask.take(numbers)
        free = self.table.free
        for line, amount in self.wants:
            ok &= free[line].take(numbers) >= amount
        return ranks[ok]

    def host_mask(self) -> Mask:
        column = self.table.attribute("hostname")
        code = column.code_of.get(self._only_host, len(column.values))
        return np.equal(column.codes, code)

    def _accepts(self, agent_id: str) -> bool:
        return agent_id not in self._except_agents and (not self._only_agents or agent_id in self._only_agents)

    def agent_mask(self) -> Mask:
        column = self.table.column("agent", lambda row: row.agent_id)
        excepted = _picked(column, (column.code_of.get(agent, -1) for agent in self._except_agents))
        if not self._only_agents:
            return ~excepted
        return _picked(column, (column.code_of.get(agent, -1) for agent in self._only_agents)) & ~excepted

    def capacity_mask(self, name: str, amount: int) -> Mask:
        column = self.table.column(f"extended {name}", lambda row: row.decoration.extended.get(name))
        return column.where(lambda capacity: bool(capacity >= amount))


class Search:
    """A shape together with the live tests of one application.

    A counting test that fails once fails for the rest of the pass, because counts only grow; GROUPBY is the exception
    (`elastic`).
    """

    def __init__(self, shape: Shape, ledger: Ledger, application: str) -> None:
        self.shape = shape
        items = shape.eligibility.live
        self.live = [LiveTest(shape.table, item, ledger, application) for item in items]
        self.elastic = [test for test in self.live if test.elastic]
        self.counting = [test for test in self.live if not test.elastic]
        self.shareable = not any(item.excluding for item in items)
        """The live tests hold for an equal demand later in the pass. EXCLUDE looks at what was placed in between."""
        self.groupable = not any(item.excluding for item in items if item.elastic)
        """Rows that the elastic tests treat alike are the same for every application."""
        self._mask: Mask | None = None

    def admits(self, row: Row) -> bool:
        """Whether the counting tests admit one more on the row."""
        return all(test.holds(row) for test in self.counting)

    def waits(self, row: Row) -> bool:
        """An elastic test fails now, but may hold when the application has grown."""
        return any(not test.holds(row) for test in self.elastic)

    def quotas(self) -> list[int]:
        """Changes exactly when a row that waits should be looked at again."""
        return [quota for test in self.elastic for quota in test.quotas()]

    def suitable(self, ranks: Ints) -> Ints:
        """Those of the ranks whose rows pass, as far as arithmetic over columns can tell."""
        if self._mask is None:
            self._mask = reduce(np.logical_and, [test.mask(final=False) for test in self.live])
        return self.shape.suitable(ranks[self._mask.take(ranks & ROW_MASK)])


def _summed(extended: tuple[tuple[str, int], ...]) -> list[tuple[str, int]]:
    sums: dict[str, int] = {}
    for name, amount in extended:
        sums[name] = sums.get(name, 0) + amount
    return [(name, amount) for name, amount in sums.items() if amount > 0]
