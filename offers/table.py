"""The live agents as numpy columns, so that one pass tests thousands of them at once.

A row belongs to one agent and role (offers of different roles cannot be used together) and keeps its number and its
static facts while offers come and go; only forgetting the agent frees the row. Nothing here is rebuilt for a pass: an
offer changes the few numbers of its own row.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offers.constraints import Rule
from offers.model import Attribute, Claim, Decoration, Offer, Pot, Ranges
from offers.resources import PORTS, SCALARS, Pots, amount_of, gather, holds, ports_of, remaining, size

Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]

AMOUNTS = (*SCALARS, PORTS)
"""Meaning of the lines of `Table.free`: thousandths, and for ports their number."""
_LINE_OF = {name: line for line, name in enumerate(SCALARS)}
SCORE_UNIT = 1 << 20
"""A row's score is the free part of its CPU plus the free part of its memory, each in these units."""
SCORE_TOP = 2 * SCORE_UNIT
_FIRST_CAPACITY = 64
_REMEMBERED = 256
"""How many masks of rules and of ports are kept per column."""


class Row:
    """One agent in one role: what is static about it, its offers, and what of them is already promised."""

    __slots__ = (
        "agent_id",
        "amounts",
        "attributes",
        "claims",
        "compound",
        "decoration",
        "hostname",
        "ip",
        "key",
        "layout",
        "number",
        "offers",
        "own",
        "ports",
        "pots",
        "role",
        "score",
        "totals",
        "unavailable",
    )

    def __init__(self, number: int, offer: Offer) -> None:
        self.number = number
        self.agent_id = offer.agent_id
        self.role = offer.role
        self.hostname = offer.hostname
        self.ip = offer.ip
        self.key = offer.key
        self.decoration = Decoration()
        self.own: Mapping[str, Attribute] = {}
        """Attributes as offered."""
        self.attributes: Mapping[str, Attribute] = {}
        """The same merged with the decoration, and the host name."""
        self.unavailable = False
        self.offers: dict[str, Offer] = {}
        self.claims: list[Claim] = []
        self.amounts = [0] * len(AMOUNTS)
        """What is free, in the order of AMOUNTS."""
        self.score = 0
        """How empty the agent is, 0 to SCORE_TOP."""
        self.pots = Pots({}, {})
        self.ports: list[tuple[Pot, Ranges]] = []
        self.compound = False
        """Some scalar comes from several pots, so that `pots` must be kept exact while placing."""
        self.layout: tuple[Pot | None, ...] = ()
        """The only pot of each scalar, if not compound. Equal layouts are identical."""
        self.totals = (0, 0)
        """CPU and memory of the whole agent as far as seen, thousandths."""

    @property
    def taints(self) -> tuple[tuple[str, str], ...]:
        return tuple(sorted(self.decoration.taints.items()))

    def rescore(self) -> None:
        """Works out the score: in integers, so that any order of evaluation gives the same result."""
        cpus, mem = self.totals
        score = self.amounts[0] * SCORE_UNIT // cpus if cpus else 0
        self.score = score + self.amounts[1] * SCORE_UNIT // mem if mem else score

    def has_ports(self, wanted: Sequence[int]) -> bool:
        return all(any(holds(ranges, port) for _, ranges in self.ports) for port in wanted)


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
        value = self.value_of(row)
        code = -1
        if value is not None:
            # 1 and 1.0 are the same number and share a code; the texts "1" and "1.0" do not.
            code = self.code_of.setdefault(value, len(self.values))
            if code == len(self.values):
                self.values.append(value)
        self.codes[row.number] = code

    def grow(self, capacity: int) -> None:
        self.codes = np.concatenate([self.codes, np.full(capacity - len(self.codes), -1, dtype=np.int64)])

    def where(self, test: Callable[[Any], bool]) -> Mask:
        """Rows whose value passes the test; rows without a value do not."""
        return self._spread([test(value) for value in self.values])

    def admitted(self, rule: Rule) -> Mask:
        """Rows whose value the rule admits. Remembered per rule, so that only new values are judged."""
        judged = self._admitted.get(rule)
        if judged is None:
            if len(self._admitted) >= _REMEMBERED:
                self._admitted.clear()
            judged = self._admitted[rule] = []
        judged.extend(rule.admits(value) for value in self.values[len(judged) :])
        return self._spread(judged)

    def _spread(self, judged: list[bool]) -> Mask:
        # Code -1 picks the last entry.
        return np.array([*judged, False], dtype=np.bool_)[self.codes]


class _PortColumn:
    """Which rows have one port free; brought up to date for rows whose ports changed since it was asked last."""

    def __init__(self) -> None:
        self.free = np.zeros(0, dtype=np.bool_)
        self.seen = np.zeros(0, dtype=np.int64)

    def refresh(self, port: int, rows: Sequence[Row | None], revisions: Ints) -> Mask:
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

    def __init__(self) -> None:
        self.rows: list[Row | None] = [None] * _FIRST_CAPACITY
        self.free = np.zeros((len(AMOUNTS), _FIRST_CAPACITY), dtype=np.int64)
        self.score = np.zeros(_FIRST_CAPACITY, dtype=np.int64)
        self.active = np.zeros(_FIRST_CAPACITY, dtype=np.bool_)
        """Rows that have offers."""
        self.statics = 0
        """Grows when a static fact of any row changes."""
        self._unused = list(range(_FIRST_CAPACITY - 1, -1, -1))
        self._columns: dict[str, Column] = {}
        self._outdated: set[int] = set()
        """Rows on which something was placed."""
        self._stale: set[int] = set()
        """Rows whose offers or claims have changed otherwise."""
        self._layouts: dict[tuple[Pot | None, ...], tuple[Pot | None, ...]] = {}
        self._ports: dict[int, _PortColumn] = {}
        self._port_revisions = np.zeros(_FIRST_CAPACITY, dtype=np.int64)

    # --- rows -------------------------------------------------------------------------------------------------

    def new_row(self, offer: Offer) -> Row:
        if not self._unused:
            self._grow()
        row = Row(self._unused.pop(), offer)
        self.rows[row.number] = row
        return row

    def free_row(self, row: Row) -> None:
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
        """Call after attributes, decoration or availability of a row changed."""
        self.statics += 1
        for column in self._columns.values():
            column.set(row)

    def amounts_changed(self, row: Row) -> None:
        """Call after the offers, claims or totals of a row changed. What is free is worked out with the next `flush`:
        most offers come and go without being looked at by any pass."""
        self._stale.add(row.number)

    def emptied(self, row: Row) -> None:
        """Call instead when the last offer of a row is gone: no pass looks at the row before it has one again."""
        self.active[row.number] = False
        self._stale.discard(row.number)
        self._outdated.discard(row.number)

    def work_out(self, row: Row) -> None:
        """Works out what is free from the row's offers and claims. The columns follow with the next `flush`."""
        if row.claims or len(row.offers) != 1 or not self._work_out_plain(row, *row.offers.values()):
            self._work_out_any(row)
        row.rescore()

    def _work_out_plain(self, row: Row, offer: Offer) -> bool:
        """The usual case, in a third of the time: a single offer, whose pots are neither reserved nor empty, with at
        most one of each name. False if it is not that."""
        amounts = [0] * len(AMOUNTS)
        layout: list[Pot | None] = [None] * len(SCALARS)
        for pot, amount in offer.scalars:
            line = _LINE_OF.get(pot.name)
            if pot.reservations or not amount or line is None or layout[line] is not None:
                return False
            layout[line] = pot
            amounts[line] = amount
        ports = [entry for entry in offer.ranges if entry[0].name == PORTS]
        if len(ports) > 1 or any(pot.reservations or not ranges for pot, ranges in offer.ranges):
            return False
        if ports:
            amounts[-1] = size(ports[0][1])
        row.pots = Pots(dict(offer.scalars), dict(offer.ranges))
        row.ports = ports
        row.compound = False
        self._set(row, amounts, layout, amounts)
        return True

    def _work_out_any(self, row: Row) -> None:
        offered = gather(row.offers.values())
        row.pots = remaining(offered, row.claims) if row.claims else offered
        row.ports = [(pot, ranges) for pot, ranges in row.pots.ranges.items() if pot.name == PORTS]
        row.compound = False
        amounts = [0] * len(AMOUNTS)
        layout: list[Pot | None] = [None] * len(SCALARS)
        for pot, amount in row.pots.scalars.items():
            line = _LINE_OF.get(pot.name)
            if line is not None:
                row.compound |= layout[line] is not None
                layout[line] = pot
                amounts[line] += amount
        amounts[-1] = size(row.ports[0][1] if len(row.ports) == 1 else ports_of(row.pots))
        whole = amounts if row.pots is offered else [amount_of(offered, name) for name in SCALARS]
        self._set(row, amounts, layout, whole)

    def _set(self, row: Row, amounts: list[int], layout: list[Pot | None], whole: list[int]) -> None:
        """`whole`: the amounts of the offers, before what was placed."""
        row.amounts = amounts
        key = tuple(layout)
        row.layout = self._layouts.setdefault(key, key)
        cpus, mem = row.totals
        if whole[0] > cpus or whole[1] > mem:
            row.totals = (max(cpus, whole[0]), max(mem, whole[1]))

    def placed_on(self, number: int) -> None:
        """The amounts, score and ports of a row have changed by placing; the columns follow with the next `flush`."""
        self._outdated.add(number)

    def flush(self) -> None:
        """Brings rows and columns up to date. To be called before either is used."""
        if not self._outdated and not self._stale:
            return
        for number in self._stale:
            row = self.rows[number]
            if row is not None:
                self.work_out(row)
        self._outdated |= self._stale
        self._stale.clear()
        rows = [row for number in self._outdated if (row := self.rows[number]) is not None]
        self._outdated.clear()
        numbers = np.array([row.number for row in rows], dtype=np.int64)
        self.free[:, numbers] = np.array([row.amounts for row in rows], dtype=np.int64).reshape(-1, len(AMOUNTS)).T
        self.score[numbers] = [row.score for row in rows]
        self.active[numbers] = [bool(row.offers) for row in rows]
        self._port_revisions[numbers] += 1

    # --- columns ----------------------------------------------------------------------------------------------

    def attribute(self, name: str) -> Column:
        return self.column(f"attribute {name}", lambda row: row.attributes.get(name))

    def column(self, title: str, value_of: Callable[[Row], Hashable | None]) -> Column:
        """The column of this title, filled when it is asked for first."""
        column = self._columns.get(title)
        if column is None:
            column = self._columns[title] = Column(value_of, len(self.rows))
            for row in self.rows:
                if row is not None:
                    column.set(row)
        return column

    def port_free(self, port: int) -> Mask:
        """Rows on which this port is free."""
        column = self._ports.get(port)
        if column is None:
            if len(self._ports) >= _REMEMBERED:
                self._ports.clear()
            column = self._ports[port] = _PortColumn()
        return column.refresh(port, self.rows, self._port_revisions)
