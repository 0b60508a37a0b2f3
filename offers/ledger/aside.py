"""Leased capacity as if some units were gone: the resources that they hold count as offered, until they are put back.

This is the state soon after the end of a taskgroup: then the cluster manager offers its resources. An agent that is
full has no offers, so a row may have to be made for it. The units are taskgroups that run, and claims that are not
launched yet.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Any

from offers.ledger.table import Row
from offers.model import Occupant, Offer, ResourceKey, Unit
from offers.resources import PORTS, normalise, summed

if TYPE_CHECKING:
    from offers.ledger.offered import OfferPool

_PLAIN = ("amounts", "score", "ports", "resources", "compound", "layout", "totals")
"""The attributes that `Row.work_out` sets. It sets new objects and changes none."""


class Aside:
    """The units that are set aside. Later changes of the pool must be undone before `put_back`."""

    def __init__(self, pool: OfferPool, occupants: Sequence[Occupant]) -> None:
        self._pool = pool
        self._rows: list[_Row] = []
        self._made: list[Row] = []
        pool.table.flush()
        places: dict[tuple[str, str], list[Occupant]] = {}
        for occupant in occupants:
            if occupant.allocation is not None or occupant.amounts or occupant.ports:
                places.setdefault((occupant.agent_id, occupant.role), []).append(occupant)
        for members in places.values():
            self._free(members)

    def _free(self, members: Sequence[Occupant]) -> None:
        """Frees the resources that units hold on one agent in one role."""
        pool = self._pool
        allocations = {id(occupant.allocation) for occupant in members if occupant.allocation is not None}
        first = members[0]
        held = pool.holds.on((first.agent_id, first.role))
        spared = frozenset(occupant.unit for occupant in members if occupant.unit in held)
        offer = _left(members, spared - pool.holds.short.keys())
        row, made = pool.hand.open_row(offer)
        if made:
            self._made.append(row)
        self._rows.append(_Row(row))
        row.spared = spared | (row.spared or frozenset())
        row.claims[:] = [allocation for allocation in row.claims if id(allocation) not in allocations]
        if offer.scalars or offer.ranges:
            name = f"set aside {len(row.offers)}"
            row.offers[name] = offer._replace(id=name)
            pool.hand.count_offers(row.agent_id, 1)
        row.work_out()
        pool.table.placed_on(row.number)

    def put_back(self) -> None:
        """Leaves the pool as it was."""
        pool = self._pool
        for saved in reversed(self._rows):
            row = saved.row
            pool.hand.count_offers(row.agent_id, len(saved.offers) - len(row.offers))
            saved.restore()
            pool.table.placed_on(row.number)
        for row in reversed(self._made):
            pool.remove_row(row)


class _Row:
    """A row as it is now."""

    def __init__(self, row: Row) -> None:
        self.row = row
        self.offers = dict(row.offers)
        self._spared = row.spared
        self._allocations = list(row.claims)
        self._plain: dict[str, Any] = {name: getattr(row, name) for name in _PLAIN}

    def restore(self) -> None:
        row = self.row
        row.offers, row.spared = self.offers, self._spared
        row.claims[:] = self._allocations
        for name, value in self._plain.items():
            setattr(row, name, value)


def _left(members: Sequence[Occupant], covered: Container[Unit] = ()) -> Offer:
    """Returns the resources that would be offered of one agent in one role, beside the present offers, if these units
    were gone. `covered`: units that run nothing, and whose held room is in the present offers."""
    first = members[0]
    running = [occupant for occupant in members if occupant.allocation is None and occupant.unit not in covered]
    amounts = summed(part for occupant in running for part in occupant.amounts)
    ports = normalise(part for occupant in running for part in occupant.ports)
    return Offer(
        id="",
        agent_id=first.agent_id,
        hostname=first.hostname,
        ip=first.ip,
        role=first.role,
        attributes=first.attributes,
        scalars=tuple((ResourceKey(name, first.role), amount) for name, amount in amounts.items() if amount),
        ranges=((ResourceKey(PORTS, first.role), ports),) if ports else (),
    )
