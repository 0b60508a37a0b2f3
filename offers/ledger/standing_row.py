"""An agent with standing capacity as the matcher sees it, and how something is taken of it."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from offers.dimensions import amounts as amounts_in_order
from offers.host_ports import HostPort
from offers.ledger.model import Kind, Node, Provisional
from offers.ledger.usage import Usage
from offers.matching.table import Port, Row, Table
from offers.model import AgentOverrides, Allocation, Attribute, Demand, Ranges, ResourceKey
from offers.names import INNER_IP
from offers.resources import PORTS, holds, normalise, numbers, requested, size, split_lowest, without
from offers.rules.taints import Taint
from offers.rules.terms import NAME

ROLE = "*"
"""Standing capacity is not divided by roles."""
_Saved = tuple[list[int], int, Ranges]
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}(\.[0-9]{1,18})?", re.ASCII)


class StandingRow(Row):
    """One agent. Its free amounts are its capacity without all holdings on it. They are negative if the agent is
    overcommitted, or if room is reserved that is not free yet."""

    __slots__ = ("_overcommitted", "_table", "free_ports", "node", "ports_line", "taken", "usage")

    def __init__(self, number: int, node: Node, table: Table, usage: Usage, overcommitted: set[int]) -> None:
        """`overcommitted`: numbers of the rows on which more is used and claimed than there is; each row keeps its own
        up to date."""
        super().__init__(number, node.name, ROLE, len(table.lines))
        self._table = table
        self._overcommitted = overcommitted
        self.usage = usage
        self.node = node
        self.ports_line = table.line_of[PORTS]
        self.free_ports = node.ports
        """Numbers of `Node.ports` that no unit holds."""
        self.taken: list[Provisional] = []
        """Amounts that passes have taken, the latest at the end. Only the latest can be given back."""
        self.hostname = node.name

    @property
    def open(self) -> bool:
        """True: standing capacity needs no offer."""
        return True

    @property
    def taints(self) -> tuple[Taint, ...]:
        """Taints of the node itself, then those that operators have set."""
        return (*self.node.taints, *super().taints)

    def describe(self, overrides: AgentOverrides) -> None:
        """Takes over the facts of the agent that do not depend on its use."""
        node = self.node
        self.ip, self.key, self.own, self.overrides = node.ip, node.key, node.attributes, overrides
        address = {INNER_IP: node.ip} if node.ip else {}
        names = {"hostname": node.name, NAME: node.name}
        self.attributes = {**address, **node.attributes, **overrides.attributes, **names}

    def measure(self, name: str) -> Attribute | None:
        """Like `Row.measure`; a label of the node that reads as a number counts as this number."""
        value = self.attributes.get(name)
        return float(value) if isinstance(value, str) and _NUMBER.fullmatch(value) else value

    def work_out(self) -> None:
        """Computes all figures from the capacity of the node and the holdings of its units."""
        lines = self._table.line_of
        use = self.usage.on(self.node.name)
        amounts = [0] * len(lines)
        for name, amount in self.node.allocatable:
            amounts[lines[name]] = amount
        self.totals = (amounts[0], amounts[1])
        for name, amount in use.total.items():
            amounts[lines[name]] -= amount
        self.free_ports = without(self.node.ports, normalise((port, port) for port in use.ports))
        amounts[self.ports_line] = size(self.free_ports)
        self.amounts = amounts
        kept = use.by_kind.get(Kind.NOMINATED, {})
        if any(amount + kept.get(name, 0) < 0 for name, amount in zip(self._table.lines, amounts, strict=True)):
            self._overcommitted.add(self.number)
        else:
            self._overcommitted.discard(self.number)
        self.rescore()

    def promised(self) -> Mapping[str, int]:
        """The amounts of nominations."""
        return self.usage.on(self.node.name).by_kind.get(Kind.NOMINATED, {})

    def rescore(self) -> None:
        """Like `Row.rescore`; never negative, although a node may be overcommitted."""
        super().rescore()
        self.score = max(self.score, 0)

    def has_ports(self, wanted: Sequence[Port]) -> bool:
        """Like `Row.has_ports`; ports of the host are tested per protocol and address."""
        use = self.usage.on(self.node.name)
        return all(
            not use.conflicts(port) if isinstance(port, HostPort) else holds(self.free_ports, port) for port in wanted
        )

    def untake(self) -> None:
        """Removes the latest claim; the caller restores the figures with `load`."""
        self.usage.forget(self.taken.pop())

    def save(self) -> _Saved:
        """The figures that a placement changes, for `load`."""
        return self.amounts.copy(), self.score, self.free_ports

    def load(self, saved: _Saved) -> None:
        """Restores figures that `save` has returned."""
        self.amounts, self.score, self.free_ports = saved


class StandingAllocator:
    """Claims the resources of one demand, slot by slot, under provisional names."""

    def __init__(self, demand: Demand[Any], line_amounts: Sequence[tuple[int, int]]) -> None:
        """`line_amounts`: (line of the table, amount) pairs of the resource request."""
        request = demand.request
        named = requested(request)
        del named[PORTS]
        self._demand = demand.id
        self._line_amounts = line_amounts
        self._random = request.random_ports
        self._amounts = amounts_in_order(named)
        self._scalars = tuple((ResourceKey(name, ROLE), amount) for name, amount in self._amounts)
        fixed = (HostPort(port) for port in sorted(set(request.fixed_ports)))
        self._ports = (*fixed, *sorted(set(request.host_ports)))
        self._numbers = normalise((port.port, port.port) for port in self._ports)

    def take(self, row: Row, slot: Hashable) -> tuple[Allocation, tuple[int, ...]]:
        """Takes the resource request out of the row, which can give it. Returns (claim, random ports); the random
        ports are the lowest free ones. Raises AlreadyAllocated if the slot has a claim already."""
        if TYPE_CHECKING:  # this runs for every placement
            assert isinstance(row, StandingRow)
        unit = Provisional(self._demand, slot)
        drawn = numbers(split_lowest(without(row.free_ports, self._numbers), self._random)[0]) if self._random else ()
        ports = (*self._ports, *map(HostPort, drawn)) if drawn else self._ports
        row.usage.assume(unit, row.node.name, self._amounts, ports)
        if row.taken and row.taken[-1] not in row.usage.allocations:
            row.taken.clear()
        row.taken.append(unit)
        amounts = row.amounts
        for line, amount in self._line_amounts:
            amounts[line] -= amount
        if not ports:
            row.rescore()
            return Allocation(self._scalars), ()
        held = normalise((port.port, port.port) for port in ports)
        row.free_ports = without(row.free_ports, held)
        amounts[row.ports_line] = size(row.free_ports)
        row.rescore()
        return Allocation(self._scalars, ((ResourceKey(PORTS, ROLE), held),)), drawn
