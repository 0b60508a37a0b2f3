"""Leased capacity: an agent has what its offers hold, until they are used, declined or rescinded.

What is free of a row is the sum of its offers without the claims on them. A claim names the parts of offers that it
takes (`Pot`), because the ACCEPT must name them, and goes with the offers.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from offers.hostports import HostPort
from offers.model import Claim, Need, Offer, Pot, Ranges
from offers.resources import (
    PORTS,
    SCALARS,
    Pots,
    amount_of,
    amounts_of,
    draw_ports,
    draw_scalar,
    gather,
    holds,
    numbers,
    ports_of,
    remaining,
    size,
    split_lowest,
    subtract,
    without,
)
from offers.table import AMOUNTS, Port, Row

Scalars = tuple[tuple[Pot, int], ...]
Layout = tuple[Pot | None, ...]
Layouts = dict[Layout, Layout]
"""Every layout there is, by itself, so that equal layouts are identical."""

_LINE_OF = {name: line for line, name in enumerate(SCALARS)}


class LeasedRow(Row):
    """One agent in one role: its offers, and what of them is already promised."""

    __slots__ = ("_layouts", "claims", "compound", "layout", "offers", "ports", "pots")

    def __init__(self, number: int, offer: Offer, layouts: Layouts) -> None:
        super().__init__(number, offer.agent_id, offer.role, len(AMOUNTS))
        self.hostname = offer.hostname
        self.ip = offer.ip
        self.key = offer.key
        self._layouts = layouts
        self.offers: dict[str, Offer] = {}
        self.claims: list[Claim] = []
        self.pots = Pots({}, {})
        self.ports: list[tuple[Pot, Ranges]] = []
        self.compound = False
        """Some scalar comes from several pots, so that `pots` must be kept exact while placing."""
        self.layout: Layout = ()
        """The only pot of each scalar, if not compound."""

    @property
    def open(self) -> bool:
        return bool(self.offers)

    def has_ports(self, wanted: Sequence[Port]) -> bool:
        """Offers hold numbers: a port of one protocol or address is never in them."""
        return all(
            not isinstance(port, HostPort) and any(holds(ranges, port) for _, ranges in self.ports) for port in wanted
        )

    def untake(self) -> None:
        self.claims.pop()

    def work_out(self) -> None:
        if self.claims or len(self.offers) != 1 or not self._work_out_plain(*self.offers.values()):
            self._work_out_any()
        self.rescore()

    def _work_out_plain(self, offer: Offer) -> bool:
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
        self.pots = Pots(dict(offer.scalars), dict(offer.ranges))
        self.ports = ports
        self.compound = False
        self._set(amounts, layout, amounts)
        return True

    def _work_out_any(self) -> None:
        offered = gather(self.offers.values())
        self.pots = remaining(offered, self.claims) if self.claims else offered
        self.ports = [(pot, ranges) for pot, ranges in self.pots.ranges.items() if pot.name == PORTS]
        self.compound = False
        amounts = [0] * len(AMOUNTS)
        layout: list[Pot | None] = [None] * len(SCALARS)
        for pot, amount in self.pots.scalars.items():
            line = _LINE_OF.get(pot.name)
            if line is not None:
                self.compound |= layout[line] is not None
                layout[line] = pot
                amounts[line] += amount
        amounts[-1] = size(self.ports[0][1] if len(self.ports) == 1 else ports_of(self.pots))
        whole = amounts if self.pots is offered else [amount_of(offered, name) for name in SCALARS]
        self._set(amounts, layout, whole)

    def _set(self, amounts: list[int], layout: list[Pot | None], whole: list[int]) -> None:
        """`whole`: the amounts of the offers, before what was placed."""
        self.amounts = amounts
        key = tuple(layout)
        self.layout = self._layouts.setdefault(key, key)
        cpus, mem = self.totals
        if whole[0] > cpus or whole[1] > mem:
            self.totals = (max(cpus, whole[0]), max(mem, whole[1]))


class LeasedDrawer:
    """Draws one need from rows, as `offers.resources.draw` does. Nearly always each scalar of an agent is a single
    pot; then all taskgroups on agents of that kind share one tuple of scalars."""

    def __init__(self, need: Need, wants: Sequence[tuple[int, int]]) -> None:
        """`wants`: what the need takes of which line of the table."""
        self._amounts = amounts_of(need)
        self._random = need.random_ports
        self._fixed = need.fixed_ports
        self._wants = wants
        self._shared: dict[int, Scalars] = {}

    def take(self, row: Row, slot: Hashable) -> tuple[Claim, tuple[int, ...]]:
        """Takes the need out of the row, which can give it. Returns (claim, random ports)."""
        if TYPE_CHECKING:  # this runs for every placement
            assert isinstance(row, LeasedRow)
        if self._fixed or len(row.ports) != 1:
            ranges, ports = self._any_ports(row)
        elif self._random:
            pot, free = row.ports[0]
            taken, rest = split_lowest(free, self._random)
            row.ports[0] = (pot, rest)
            ranges, ports = ((pot, taken),), numbers(taken)
        else:
            ranges, ports = (), ()
        if row.compound:
            claim = Claim(self._split_scalars(row), ranges)
            row.pots = subtract(row.pots, claim)
        else:
            claim = Claim(self._shared.get(id(row.layout)) or self._share(row.layout), ranges)
        amounts = row.amounts
        for line, amount in self._wants:
            amounts[line] -= amount
        row.claims.append(claim)
        row.rescore()
        return claim, ports

    def _any_ports(self, row: LeasedRow) -> tuple[tuple[tuple[Pot, Ranges], ...], tuple[int, ...]]:
        if not (self._fixed or self._random):
            return (), ()
        ranges, ports = draw_ports(row.ports, self._random, self._fixed)
        taken = dict(ranges)
        row.ports = [(pot, without(free, taken[pot]) if pot in taken else free) for pot, free in row.ports]
        return ranges, ports

    def _split_scalars(self, row: LeasedRow) -> Scalars:
        parts: list[tuple[Pot, int]] = []
        for name, wanted in zip(SCALARS, self._amounts, strict=True):
            parts += draw_scalar([part for part in row.pots.scalars.items() if part[0].name == name], name, wanted)
        return tuple(parts)

    def _share(self, layout: Layout) -> Scalars:
        scalars = tuple((pot, amount) for pot, amount in zip(layout, self._amounts, strict=True) if pot and amount > 0)
        self._shared[id(layout)] = scalars  # the pool keeps layouts, so that ids stay unique
        return scalars
