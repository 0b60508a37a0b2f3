"""The tests of one demand: which rows can take its next taskgroup."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import reduce
from typing import Any

import numpy as np

from offers.ledger.table import Column, Ints, Mask, Port, Row, Table
from offers.matching.counts import PassCounts
from offers.matching.ranking import ROW_MASK
from offers.model import Demand
from offers.resources import requested, summed
from offers.rules.eligibility import Eligibility, LiveItem


class LiveTest:
    """A live item of the constraints, as it stands for one application."""

    __slots__ = ("_always", "_as_of", "_counted", "_counts", "_quotas", "_tally", "elastic", "position")

    def __init__(self, table: Table, item: LiveItem, counts: PassCounts, application: str) -> None:
        self.position = item.position
        self.elastic = item.elastic
        self._always = item.always
        for rule in item.excluding:
            agents = counts.agents_with_labels(rule.items, application)
            column = table.column("agent", lambda row: row.agent_id)
            free = ~_picked(column, (column.code_of.get(agent, -1) for agent in agents))
            self._always = free if self._always is None else self._always | free
        self._tally = counts.tally(application)
        self._counted = item.counted
        self._counts = [self._tally.counts(counted.rule.name) for counted in item.counted]
        self._as_of = self._tally.total
        self._quotas = [counted.rule.quota(self._as_of) for counted in item.counted]

    def holds(self, row: Row) -> bool:
        """Returns True if the item admits one more taskgroup on the row."""
        number = row.number
        if self._always is not None and self._always[number]:
            return True
        for (rule, _, admitted), counts, quota in zip(self._counted, self._counts, self.quotas(), strict=True):
            if admitted[number] and counts.get(row.attributes[rule.name], 0) < quota:
                return True
        return False

    def quotas(self) -> list[int]:
        """Greatest number of taskgroups that each value may have now, rule by rule; for GROUPBY the number grows with
        the application."""
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


def class_of(demand: Demand[Any]) -> Hashable:
    """Equal for demands of which the tests that do not depend on the application are equal."""
    return demand.request, demand.rules, demand.role, demand.only_host, demand.only_agents, demand.except_agents


def kind_of(demand: Demand[Any]) -> Hashable:
    """Equal for demands whose next taskgroup an agent accepts or refuses for the same reason."""
    return class_of(demand), demand.application if demand.rules.live else ""


class RequestClass:
    """The tests of an agent for a demand that do not depend on its application: resources, host, and the fixed tests of
    its rules.

    A row that fails once fails for the rest of the pass, because amounts only fall. Therefore equal demands, also of
    different applications, can share the results.
    """

    def __init__(self, table: Table, counts: PassCounts, demand: Demand[Any], eligibility: Eligibility) -> None:
        self.table = table
        self.eligibility = eligibility
        request = demand.request
        self.fixed_ports: tuple[Port, ...] = (*sorted(set(request.fixed_ports)), *sorted(set(request.host_ports)))
        self.amounts = {name: amount for name, amount in requested(request).items() if amount > 0}
        lines = table.line_of
        self.line_amounts = [(lines[name], amount) for name, amount in self.amounts.items() if name in lines]
        self._impossible = len(self.line_amounts) < len(self.amounts)
        """A dimension is wanted that no agent has."""
        self.extended = [(name, amount) for name, amount in summed(request.extended).items() if amount > 0]
        self._only_host = demand.only_host
        self._only_agents, self._except_agents = demand.only_agents, demand.except_agents
        self._counts = counts
        self._chosen = bool(demand.only_agents or demand.except_agents)
        """Some agents are not acceptable, independent of their properties."""
        self._special = bool(self.fixed_ports or self.extended or demand.only_host or self._chosen or self._impossible)
        self._mask: Mask | None = None

    def has_room(self, row: Row) -> bool:
        """Returns True if the row passes the tests now."""
        amounts = row.amounts
        for line, amount in self.line_amounts:
            if amounts[line] < amount:
                return False
        if not self.eligibility.ok[row.number]:
            return False
        return not self._special or (
            not self._impossible
            and self._only_host in ("", row.hostname)
            and self._accepts(row.agent_id)
            and row.has_ports(self.fixed_ports)
            and all(self._counts.extended_free(row, name) >= amount for name, amount in self.extended)
        )

    def suitable(self, ranks: Ints) -> Ints:
        """Returns those ranks whose rows pass, as far as arithmetic over columns can decide; the caller tests the rows
        again."""
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
        for line, amount in self.line_amounts:
            ok &= free[line].take(numbers) >= amount
        return ranks[ok]

    def host_mask(self) -> Mask:
        """Rows of the only acceptable host."""
        column = self.table.attribute("hostname")
        code = column.code_of.get(self._only_host, len(column.values))
        return np.equal(column.codes, code)

    def _accepts(self, agent_id: str) -> bool:
        return agent_id not in self._except_agents and (not self._only_agents or agent_id in self._only_agents)

    def agent_mask(self) -> Mask:
        """Rows of the agents that the demand allows."""
        column = self.table.column("agent", lambda row: row.agent_id)
        excepted = _picked(column, (column.code_of.get(agent, -1) for agent in self._except_agents))
        if not self._only_agents:
            return ~excepted
        return _picked(column, (column.code_of.get(agent, -1) for agent in self._only_agents)) & ~excepted

    def capacity_mask(self, name: str, amount: int) -> Mask:
        """Rows whose agent has at least `amount` thousandths of the extended resource in all, used or not."""
        column = self.table.column(f"extended {name}", lambda row: row.overrides.extended.get(name))
        return column.where(lambda capacity: bool(capacity >= amount))


class Feasibility:
    """A request class together with the live tests of one application.

    A counting test that fails once fails for the rest of the pass, because counts only grow; GROUPBY is the exception
    (`elastic`).
    """

    def __init__(self, request_class: RequestClass, counts: PassCounts, application: str) -> None:
        self.request_class = request_class
        items = request_class.eligibility.live
        self.live = [LiveTest(request_class.table, item, counts, application) for item in items]
        self.elastic = [test for test in self.live if test.elastic]
        self.counting = [test for test in self.live if not test.elastic]
        self.shareable = not any(item.excluding for item in items)
        """The live tests hold for an equal demand later in the pass. EXCLUDE depends on the placements in between."""
        self.groupable = not any(item.excluding for item in items if item.elastic)
        """Rows that the elastic tests treat alike are the same for every application."""
        self._mask: Mask | None = None

    def admits(self, row: Row) -> bool:
        """Returns True if the counting tests admit one more taskgroup on the row."""
        return all(test.holds(row) for test in self.counting)

    def waits(self, row: Row) -> bool:
        """An elastic test fails now, but may hold when the application has grown."""
        return any(not test.holds(row) for test in self.elastic)

    def quotas(self) -> list[int]:
        """Changes exactly when a row that waits should be looked at again."""
        return [quota for test in self.elastic for quota in test.quotas()]

    def suitable(self, ranks: Ints) -> Ints:
        """Returns those ranks whose rows pass, as far as arithmetic over columns can decide; the caller tests the rows
        again."""
        if self._mask is None:
            self._mask = reduce(np.logical_and, [test.mask(final=False) for test in self.live])
        return self.request_class.suitable(ranks[self._mask.take(ranks & ROW_MASK)])
