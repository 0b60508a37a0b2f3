"""Leased capacity: an agent has the resources in its offers, until these are used, declined or rescinded.

The free amount of a row is the sum of its offers without the allocations on them. An allocation names the parts of
offers that it takes (`ResourceKey`), because the ACCEPT must name them, and ends with the offers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

from offers.host_ports import HostPort
from offers.ledger.holds import Holds, set_apart, together
from offers.ledger.rooms import KeptRooms
from offers.matching.table import AMOUNTS, Port, Row
from offers.model import Allocation, Offer, Ranges, ResourceKey, ResourceRequest, Unit
from offers.resources import (
    PORTS,
    SCALARS,
    ResourceMap,
    amount_of,
    amounts_of,
    draw_ports,
    draw_scalar,
    gather,
    holds,
    numbers,
    ports_of,
    remaining,
    requested,
    size,
    split_lowest,
    subtract,
    without,
)

Scalars = tuple[tuple[ResourceKey, int], ...]
Layout = tuple[ResourceKey | None, ...]
Layouts = dict[Layout, Layout]
"""Every layout there is, by itself, so that equal layouts are identical."""

_Saved = tuple[list[int], int, list[tuple[ResourceKey, Ranges]], ResourceMap]

_NOTHING: Mapping[Unit, ResourceRequest] = {}
_LINE_OF = {name: line for line, name in enumerate(SCALARS)}


class LeasedRow(Row):
    """One agent in one role: its offers, and the allocations that are deducted from them."""

    __slots__ = (
        "_holds",
        "_layouts",
        "_rooms",
        "allocations",
        "compound",
        "layout",
        "offers",
        "ports",
        "resources",
        "spared",
    )

    def __init__(self, number: int, offer: Offer, layouts: Layouts, rooms: KeptRooms, holds: Holds) -> None:
        """`rooms`, `holds`: the kept rooms and the holds of all agents."""
        super().__init__(number, offer.agent_id, offer.role, len(AMOUNTS))
        self._holds = holds
        self.spared: frozenset[Unit] | None = None
        """Holds that do not count while some units are set aside; None: no units are set aside."""
        self.hostname = offer.hostname
        self.ip = offer.ip
        self.key = offer.key
        self._layouts, self._rooms = layouts, rooms
        self.offers: dict[str, Offer] = {}
        self.allocations: list[Allocation] = []
        self.resources = ResourceMap({}, {})
        self.ports: list[tuple[ResourceKey, Ranges]] = []
        self.compound = False
        """A scalar has several resource keys, so `resources` must be kept exact while placing."""
        self.layout: Layout = ()
        """The only resource key of each scalar, if not compound."""

    @property
    def open(self) -> bool:
        """True if the agent has an offer that can be used."""
        return bool(self.offers)

    def has_ports(self, wanted: Sequence[Port]) -> bool:
        """Offers hold numbers: a port of one protocol or address is never in them."""
        return all(
            not isinstance(port, HostPort) and any(holds(ranges, port) for _, ranges in self.ports) for port in wanted
        )

    def promised(self) -> Mapping[str, int]:
        """The amounts that holds take out of the present offers: a hold that these do not cover takes all that there
        is."""
        sums: Counter[str] = Counter()
        for request in self.held.values():
            sums.update(requested(request))
        there = Counter(dict.fromkeys(SCALARS, 0))
        for line, amount in zip(SCALARS, self.amounts, strict=False):
            there[line] -= amount
        for offer in self.offers.values():
            for key, amount in offer.scalars:
                there[key.name] += 0 if key.room else amount
        for allocation in self.allocations:
            for key, amount in allocation.scalars:
                there[key.name] -= amount
        return {name: min(amount, max(there[name], 0)) if name in SCALARS else amount for name, amount in sums.items()}

    def untake(self) -> None:
        """Removes the latest allocation; the caller restores the figures with `load`."""
        self.allocations.pop()

    def save(self) -> _Saved:
        """The figures that a placement changes, for `load`."""
        return self.amounts.copy(), self.score, self.ports.copy(), self.resources

    def load(self, saved: _Saved) -> None:
        """Restores figures that `save` has returned."""
        self.amounts, self.score, self.ports, self.resources = saved

    def work_out(self) -> None:
        """Computes all figures anew from offers, allocations and holds."""
        held = self.held if self._holds.by_site else _NOTHING
        if self.allocations or held or len(self.offers) != 1 or not self._work_out_plain(*self.offers.values()):
            self._work_out_any(held)
        self.rescore()

    @property
    def held(self) -> Mapping[Unit, ResourceRequest]:
        """The room that is held, by unit."""
        return self._holds.on((self.agent_id, self.role))

    def _work_out_plain(self, offer: Offer) -> bool:
        """The usual case, in a third of the time: a single offer, whose resource keys are neither reserved nor
        empty, with at most one of each name. False if it is not that."""
        amounts = [0] * len(AMOUNTS)
        layout: list[ResourceKey | None] = [None] * len(SCALARS)
        for resource_key, amount in offer.scalars:
            line = _LINE_OF.get(resource_key.name)
            if resource_key.reservations or not amount or line is None or layout[line] is not None:
                return False
            layout[line] = resource_key
            amounts[line] = amount
        ports = [entry for entry in offer.ranges if entry[0].name == PORTS]
        if len(ports) > 1 or any(resource_key.reservations or not ranges for resource_key, ranges in offer.ranges):
            return False
        if ports:
            amounts[-1] = size(ports[0][1])
        self.resources = ResourceMap(dict(offer.scalars), dict(offer.ranges))
        self.ports = ports
        self.compound = False
        self._set(amounts, layout, amounts)
        return True

    def _work_out_any(self, held: Mapping[Unit, ResourceRequest]) -> None:
        offered = self._without(gather(self.offers.values()), lambda room: room not in self._rooms.opened)
        self.resources = remaining(offered, self.allocations) if self.allocations else offered
        if held:
            self._set_apart(held)
        if self._rooms.opened:
            site = (self.agent_id, self.role)
            self.resources = self._without(self.resources, lambda room: not self._rooms.usable(room, site))
        self.ports = [
            (resource_key, ranges)
            for resource_key, ranges in self.resources.ranges.items()
            if resource_key.name == PORTS
        ]
        self.compound = False
        amounts = [0] * len(AMOUNTS)
        layout: list[ResourceKey | None] = [None] * len(SCALARS)
        for resource_key, amount in self.resources.scalars.items():
            line = _LINE_OF.get(resource_key.name)
            if line is not None:
                self.compound |= layout[line] is not None
                layout[line] = resource_key
                amounts[line] += amount
        amounts[-1] = size(self.ports[0][1] if len(self.ports) == 1 else ports_of(self.resources))
        whole = amounts if self.resources is offered else [amount_of(offered, name) for name in SCALARS]
        self._set(amounts, layout, whole)

    def _set_apart(self, held: Mapping[Unit, ResourceRequest]) -> None:
        """Takes the held room out of the resources."""
        short: list[Unit] = []
        if len(held) > 1 and not self.spared:
            sum_of = together(held.values())
            rest, covered = set_apart(self.resources, sum_of)
            if covered and len(set(sum_of.fixed_ports)) == len(sum_of.fixed_ports):
                self.resources = rest
                self._holds.judged((self.agent_id, self.role), short)
                return
        for name, request in held.items():
            if self.spared and name in self.spared:
                continue
            self.resources, covered = set_apart(self.resources, request)
            if not covered:
                short.append(name)
        if self.spared is None:
            self._holds.judged((self.agent_id, self.role), short)

    @staticmethod
    def _without(resources: ResourceMap, kept: Callable[[str], bool]) -> ResourceMap:
        """Without the rooms that are kept for others."""
        if not any(key.room and kept(key.room) for key in (*resources.scalars, *resources.ranges)):
            return resources
        return ResourceMap(
            {key: amount for key, amount in resources.scalars.items() if not (key.room and kept(key.room))},
            {key: ranges for key, ranges in resources.ranges.items() if not (key.room and kept(key.room))},
        )

    def _set(self, amounts: list[int], layout: list[ResourceKey | None], whole: list[int]) -> None:
        """`whole`: the amounts of the offers before all placements."""
        self.amounts = amounts
        key = tuple(layout)
        self.layout = self._layouts.setdefault(key, key)
        cpus, mem = self.totals
        if whole[0] > cpus or whole[1] > mem:
            self.totals = (max(cpus, whole[0]), max(mem, whole[1]))


class LeasedAllocator:
    """Draws one need from rows, as `offers.resources.draw` does. Nearly always each scalar of an agent is a single
    resource key; then all taskgroups on agents of that kind share one tuple of scalars."""

    def __init__(self, request: ResourceRequest, line_amounts: Sequence[tuple[int, int]]) -> None:
        """`line_amounts`: (line of the table, amount) pairs of the resource request."""
        self._amounts = amounts_of(request)
        self._random = request.random_ports
        self._fixed = request.fixed_ports
        self._line_amounts = line_amounts
        self._shared: dict[int, Scalars] = {}

    def take(self, row: Row, slot: Hashable) -> tuple[Allocation, tuple[int, ...]]:  # noqa: ARG002 (of the protocol)
        """Takes the resource request out of the row, which can give it. Returns (claim, random ports)."""
        if TYPE_CHECKING:  # this runs for every placement
            assert isinstance(row, LeasedRow)
        if self._fixed or len(row.ports) != 1:
            ranges, ports = self._any_ports(row)
        elif self._random:
            resource_key, free = row.ports[0]
            taken, rest = split_lowest(free, self._random)
            row.ports[0] = (resource_key, rest)
            ranges, ports = ((resource_key, taken),), numbers(taken)
        else:
            ranges, ports = (), ()
        if row.compound:
            allocation = Allocation(self._split_scalars(row), ranges)
            row.resources = subtract(row.resources, allocation)
        else:
            allocation = Allocation(self._shared.get(id(row.layout)) or self._share(row.layout), ranges)
        amounts = row.amounts
        for line, amount in self._line_amounts:
            amounts[line] -= amount
        row.allocations.append(allocation)
        row.rescore()
        return allocation, ports

    def _any_ports(self, row: LeasedRow) -> tuple[tuple[tuple[ResourceKey, Ranges], ...], tuple[int, ...]]:
        if not (self._fixed or self._random):
            return (), ()
        ranges, ports = draw_ports(row.ports, self._random, self._fixed)
        taken = dict(ranges)
        row.ports = [
            (resource_key, without(free, taken[resource_key]) if resource_key in taken else free)
            for resource_key, free in row.ports
        ]
        return ranges, ports

    def _split_scalars(self, row: LeasedRow) -> Scalars:
        parts: list[tuple[ResourceKey, int]] = []
        for name, wanted in zip(SCALARS, self._amounts, strict=True):
            parts += draw_scalar([part for part in row.resources.scalars.items() if part[0].name == name], name, wanted)
        return tuple(parts)

    def _share(self, layout: Layout) -> Scalars:
        scalars = tuple(
            (resource_key, amount)
            for resource_key, amount in zip(layout, self._amounts, strict=True)
            if resource_key and amount > 0
        )
        self._shared[id(layout)] = scalars  # the pool keeps layouts, so that ids stay unique
        return scalars
