"""The index of the ledger: the agents as numpy columns, so that one pass tests thousands of them at once.

A row belongs to one agent (leased capacity: to one agent and role) and keeps its number and its static facts while its
free amounts change; only the removal of the agent frees the row. No column is rebuilt for a pass: an offer, or a change
of an agent, changes the few numbers of its own row.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from offers.host_ports import HostPort
from offers.model import AgentOverrides, Attribute, Offer, Ranges, ResourceKey, Site, Unit
from offers.resources import PORTS, SCALARS, ResourceMap, holds
from offers.rules.constraints import Rule
from offers.rules.taints import Taint

Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]
Port = int | HostPort

AMOUNTS = (*SCALARS, PORTS)
"""Meaning of the lines of a table of leased capacity: thousandths, and for ports their number."""
SCORE_UNIT = 1 << 20
"""A row's score is the free part of its CPU plus the free part of its memory, each in these units."""
SCORE_TOP = 2 * SCORE_UNIT
_FIRST_CAPACITY = 64
_REMEMBERED = 256
"""Number of masks of rules and of ports that are kept per column."""

Saved = tuple[list[int], int, list[tuple[ResourceKey, Ranges]], ResourceMap]


class RowSource(Protocol):
    """The amounts that are in hand on the agents of a pool: offers, or nodes that stand."""

    def is_open(self, row: Row) -> bool:
        """True if a pass may use the row at all."""

    def work_out(self, row: Row) -> None:
        """Works out the amounts, the ports and the score of a row."""

    def has_host_port(self, row: Row, port: HostPort) -> bool:
        """Returns True if a port of one protocol or address is free."""

    def held(self, row: Row) -> Mapping[str, int]:
        """Returns the amounts by dimension that are kept for units without a place, and that are not free for this
        reason."""

    def give_back(self, claim: Any) -> None:
        """A claim is removed from its row."""

    def measure(self, value: Attribute | None) -> Attribute | None:
        """An attribute as the operator GREATER reads it; None if there is none."""


class Row:
    """One agent (leased capacity: in one role) as the matcher sees it. Its source has the amounts in hand."""

    __slots__ = (
        "agent_id",
        "amounts",
        "attributes",
        "claims",
        "compound",
        "hostname",
        "ip",
        "key",
        "layout",
        "node",
        "number",
        "offers",
        "overrides",
        "own",
        "own_taints",
        "ports",
        "resources",
        "role",
        "score",
        "source",
        "spared",
        "totals",
        "unavailable",
    )

    def __init__(self, number: int, agent_id: str, role: str, source: RowSource, lines: int = len(AMOUNTS)) -> None:
        """`lines`: how many amounts the table keeps."""
        self.number = number
        self.agent_id = agent_id
        self.role = role
        self.source = source
        self.hostname = ""
        self.ip = ""
        self.key = ""
        """Key by which operators name the agent."""
        self.overrides = AgentOverrides()
        self.own: Mapping[str, Attribute] = {}
        """Attributes without those that operators have set."""
        self.own_taints: tuple[Taint, ...] = ()
        """Taints that others than operators have set."""
        self.attributes: Mapping[str, Attribute] = {}
        """All attributes, with those that operators have set, and the host name."""
        self.unavailable = False
        self.amounts = [0] * lines
        """Free amounts, in the order of `Table.lines`."""
        self.score = 0
        """Emptiness of the agent, 0 to SCORE_TOP."""
        self.totals = (0, 0)
        """CPU and memory of the whole agent as far as known, in the units of their dimensions."""
        self.ports: list[tuple[ResourceKey, Ranges]] = []
        """Free port numbers, by the part of the agent that has them."""
        self.claims: list[Any] = []
        """Placements that are deducted from the amounts and not launched yet, the latest at the end: an `Allocation`
        of offers, or the name of the unit of a claim on a node."""
        self.node: Any = None
        """The node, if the agent stands; None for one with offers."""
        self.offers: dict[str, Offer] = {}
        """The offers of the agent by id. The fields below are for these."""
        self.resources = ResourceMap({}, {})
        self.compound = False
        """A scalar has several resource keys, so `resources` must be kept exact while placing."""
        self.layout: tuple[ResourceKey | None, ...] = ()
        """The only resource key of each scalar, if not compound."""
        self.spared: frozenset[Unit] | None = None
        """Holds that do not count while some units are set aside; None: no units are set aside."""

    @property
    def site(self) -> Site:
        """Agent id and role."""
        return self.agent_id, self.role

    @property
    def taints(self) -> tuple[Taint, ...]:
        """Taints of the agent itself, then those that operators have set, sorted by key."""
        return (*self.own_taints, *(Taint(key, value) for key, value in sorted(self.overrides.taints.items())))

    @property
    def open(self) -> bool:
        """True if a pass may use the row at all."""
        return self.source.is_open(self)

    def work_out(self) -> None:
        """Works out `amounts`, ports and score. The columns follow with the next `Table.flush`."""
        self.source.work_out(self)

    def has_ports(self, ports: Sequence[Port]) -> bool:
        """Returns True if all these ports are free."""
        return all(
            self.source.has_host_port(self, port)
            if isinstance(port, HostPort)
            else any(holds(ranges, port) for _, ranges in self.ports)
            for port in ports
        )

    def held(self) -> Mapping[str, int]:
        """Returns the amounts by dimension that are kept for units without a place, and that are not free for this
        reason."""
        return self.source.held(self)

    def unclaim(self) -> None:
        """Gives back the latest claim of the row. The amounts are right again after `work_out`, or after `load` of the
        state that was saved before the claim."""
        self.source.give_back(self.claims.pop())

    def save(self) -> Saved:
        """Returns the free amounts of the row with everything that is computed from them, for `load`."""
        return self.amounts.copy(), self.score, self.ports.copy(), self.resources

    def load(self, saved: Saved) -> None:
        """Restores the state that `save` has returned; each state may be used once. The columns follow after
        `Table.placed_on`."""
        self.amounts, self.score, self.ports, self.resources = saved

    def measure(self, name: str) -> Attribute | None:
        """The attribute as the operator GREATER reads it; None if there is none."""
        return self.source.measure(self.attributes.get(name))

    def rescore(self) -> None:
        """Works out the score: in integers, so that any order of evaluation gives the same result."""
        cpus, mem = self.totals
        score = self.amounts[0] * SCORE_UNIT // cpus if cpus else 0
        self.score = score + self.amounts[1] * SCORE_UNIT // mem if mem else score


class Column:
    """One static fact of every row as a small number: rows with equal values have equal codes, -1 = no value.

    A test is evaluated once per distinct value instead of once per agent.
    """

    def __init__(self, value_of: Callable[[Row], Hashable | None], capacity: int) -> None:
        self.value_of = value_of
        self.codes = np.full(capacity, -1, dtype=np.int64)
        self.values: list[Any] = []
        self.code_of: dict[Any, int] = {}
        self._admitted: dict[Rule, list[bool]] = {}

    def set(self, row: Row) -> None:
        """Takes over the present value of a row; None counts as no value."""
        value = self.value_of(row)
        code = -1
        if value is not None:
            # 1 and 1.0 are the same number and share a code; the texts "1" and "1.0" do not.
            code = self.code_of.setdefault(value, len(self.values))
            if code == len(self.values):
                self.values.append(value)
        self.codes[row.number] = code

    def grow(self, capacity: int) -> None:
        """Makes room for rows up to `capacity`; new rows have no value."""
        self.codes = np.concatenate([self.codes, np.full(capacity - len(self.codes), -1, dtype=np.int64)])

    def where(self, test: Callable[[Any], bool], missing: bool = False) -> Mask:
        """Rows whose value passes the test. `missing`: whether rows without a value pass."""
        return self._spread([test(value) for value in self.values], missing)

    def admitted(self, rule: Rule) -> Mask:
        """Rows whose value the rule admits. Remembered per rule, so that only new values are judged."""
        judged = self._admitted.get(rule)
        if judged is None:
            if len(self._admitted) >= _REMEMBERED:
                self._admitted.clear()
            judged = self._admitted[rule] = []
        judged.extend(rule.admits(value) for value in self.values[len(judged) :])
        return self._spread(judged)

    def _spread(self, judged: list[bool], missing: bool = False) -> Mask:
        # Code -1 picks the last entry.
        return np.array([*judged, missing], dtype=np.bool_)[self.codes]


class _PortColumn:
    """The rows on which one port is free; brought up to date for rows whose ports have changed since the last
    question."""

    def __init__(self) -> None:
        self.free = np.zeros(0, dtype=np.bool_)
        self.seen = np.zeros(0, dtype=np.int64)

    def refresh(self, port: Port, rows: Sequence[Row | None], revisions: Ints) -> Mask:
        if len(self.seen) < len(revisions):
            missing = len(revisions) - len(self.seen)
            self.free = np.concatenate([self.free, np.zeros(missing, dtype=np.bool_)])
            self.seen = np.concatenate([self.seen, np.full(missing, -1, dtype=np.int64)])
        for number in np.flatnonzero(self.seen != revisions).tolist():
            row = rows[number]
            self.free[number] = row is not None and row.has_ports((port,))
        self.seen[:] = revisions
        return self.free


class Table:
    """All rows and their columns."""

    def __init__(self, lines: Iterable[str] = AMOUNTS) -> None:
        """`lines`: names of the dimensions, CPU and memory first, and PORTS."""
        self.lines = list(lines)
        """Meaning of the lines of `free`, and of `Row.amounts`."""
        self.line_of = {name: line for line, name in enumerate(self.lines)}
        self.rows: list[Row | None] = [None] * _FIRST_CAPACITY
        self.free = np.zeros((len(self.lines), _FIRST_CAPACITY), dtype=np.int64)
        self.score = np.zeros(_FIRST_CAPACITY, dtype=np.int64)
        self.active = np.zeros(_FIRST_CAPACITY, dtype=np.bool_)
        """Rows that are open."""
        self.statics = 0
        """Grows when a static fact of any row changes."""
        self._unused = list(range(_FIRST_CAPACITY - 1, -1, -1))
        self._columns: dict[str, Column] = {}
        self._outdated: set[int] = set()
        """Rows on which something was placed."""
        self._stale: set[int] = set()
        """Rows whose free amounts have changed otherwise."""
        self.touched: set[str] | None = None
        """Ids of the agents of which any fact has changed, for a reader that keeps figures of its own and empties the
        set; None: there is no reader."""
        self._ports: dict[Port, _PortColumn] = {}
        self._port_revisions = np.zeros(_FIRST_CAPACITY, dtype=np.int64)

    # --- rows -------------------------------------------------------------------------------------------------

    def add_lines(self, names: Iterable[str]) -> None:
        """Adds the dimensions that the table does not have yet; all rows have 0 of them."""
        for name in names:
            if name in self.line_of:
                continue
            self.line_of[name] = len(self.lines)
            self.lines.append(name)
            self.free = np.concatenate([self.free, np.zeros_like(self.free[:1])])
            for row in self.rows:
                if row is not None:
                    row.amounts.append(0)

    def new_row(self, make: Callable[[int], Row]) -> Row:
        """Takes in the row that `make` returns for a number."""
        if not self._unused:
            self._grow()
        row = make(self._unused.pop())
        self.rows[row.number] = row
        self._touch(row)
        return row

    def free_row(self, row: Row) -> None:
        """Removes a row; its number is used again."""
        self._touch(row)
        self.rows[row.number] = None
        self.active[row.number] = False
        self._outdated.discard(row.number)
        self._stale.discard(row.number)
        self._port_revisions[row.number] += 1
        self._unused.append(row.number)

    def _grow(self) -> None:
        before = len(self.rows)
        after = 2 * before
        self.rows += [None] * before
        self.free = np.concatenate([self.free, np.zeros_like(self.free)], axis=1)
        self.score = np.concatenate([self.score, np.zeros_like(self.score)])
        self.active = np.concatenate([self.active, np.zeros_like(self.active)])
        self._port_revisions = np.concatenate([self._port_revisions, np.zeros_like(self._port_revisions)])
        self._unused = list(range(after - 1, before - 1, -1))
        for column in self._columns.values():
            column.grow(after)
        self.statics += 1

    def static_changed(self, row: Row) -> None:
        """Must be called after attributes, overrides or availability of a row have changed."""
        self._touch(row)
        self.statics += 1
        for column in self._columns.values():
            column.set(row)

    def amounts_changed(self, row: Row) -> None:
        """Must be called after the free amounts of a row have changed otherwise than by a placement. They are computed
        with the next `flush`, because no pass looks at most offers."""
        self._touch(row)
        self._stale.add(row.number)

    def emptied(self, row: Row) -> None:
        """Call instead when a row is not open any more: no pass looks at the row before `amounts_changed`."""
        self._touch(row)
        self.active[row.number] = False
        self._stale.discard(row.number)
        self._outdated.discard(row.number)

    def placed_on(self, number: int) -> None:
        """The amounts, score and ports of a row have changed by placing; the columns follow with the next `flush`."""
        self._outdated.add(number)
        if self.touched is not None and (row := self.rows[number]) is not None:
            self.touched.add(row.agent_id)

    def _touch(self, row: Row) -> None:
        if self.touched is not None:
            self.touched.add(row.agent_id)

    def flush(self) -> None:
        """Brings rows and columns up to date. To be called before either is used."""
        if not self._outdated and not self._stale:
            return
        for number in self._stale:
            row = self.rows[number]
            if row is not None:
                row.work_out()
        self._outdated |= self._stale
        self._stale.clear()
        rows = [row for number in self._outdated if (row := self.rows[number]) is not None]
        self._outdated.clear()
        numbers = np.array([row.number for row in rows], dtype=np.int64)
        self.free[:, numbers] = np.array([row.amounts for row in rows], dtype=np.int64).reshape(-1, len(self.lines)).T
        self.score[numbers] = [row.score for row in rows]
        self.active[numbers] = [row.open for row in rows]
        self._port_revisions[numbers] += 1

    # --- columns ----------------------------------------------------------------------------------------------

    def attribute(self, name: str) -> Column:
        """The column of an attribute of agents."""
        return self.column(f"attribute {name}", lambda row: row.attributes.get(name))

    def measured(self, name: str) -> Column:
        """An attribute as the operator GREATER reads it; None if there is none."""
        return self.column(f"number {name}", lambda row: row.measure(name))

    def column(self, title: str, value_of: Callable[[Row], Hashable | None]) -> Column:
        """The column of this title, filled when it is asked for first."""
        column = self._columns.get(title)
        if column is None:
            column = self._columns[title] = Column(value_of, len(self.rows))
            for row in self.rows:
                if row is not None:
                    column.set(row)
        return column

    def port_free(self, port: Port) -> Mask:
        """Rows on which this port is free."""
        column = self._ports.get(port)
        if column is None:
            if len(self._ports) >= _REMEMBERED:
                self._ports.clear()
            column = self._ports[port] = _PortColumn()
        return column.refresh(port, self.rows, self._port_revisions)
