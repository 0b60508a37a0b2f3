"""A copy of the content of a pool, for plans that last longer than a turn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from offers.ledger.holds import Hold
from offers.model import AgentOverrides, Allocation, Offer, Unit

if TYPE_CHECKING:
    from offers.ledger.pool import OfferPool


class PoolCopy(NamedTuple):
    """A copy of the content of a pool at one moment."""

    offers: list[Offer]
    allocations: dict[tuple[str, str], list[Allocation]]
    """Allocations by agent and role."""
    overrides: dict[str, AgentOverrides]
    totals: dict[str, tuple[int, int]]
    sizes: dict[str, tuple[int, ...]]
    opened: dict[str, float]
    """Kept rooms whose taskgroups have ended."""
    loose: set[str]
    """Opened rooms that all units may use."""
    holds: list[tuple[Unit, Hold]]
    """Held room with its units."""

    def into(self, pool: OfferPool, at_once: int) -> Iterator[None]:
        """Fills an empty pool, with so many offers in each step."""
        pool._overrides, pool._totals, pool._sizes = self.overrides, self.totals, self.sizes
        pool.rooms.opened.update(self.opened)
        pool.rooms.loose |= self.loose
        for unit, hold in self.holds:
            pool.holds.add(unit, *hold)
        for first in range(0, len(self.offers), at_once):
            for offer in self.offers[first : first + at_once]:
                pool.add(offer)
            yield
        for place, allocations in self.allocations.items():
            row = pool._rows[place]
            row.allocations += allocations
            pool.table.amounts_changed(row)
