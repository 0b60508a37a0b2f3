"""Room that ended placeholders have left, lent to the one unit that was promised the room.

The room is usable for this unit only while the unit is being placed, so that other units never take the room."""

from __future__ import annotations

from collections.abc import Mapping

from offers.ledger.holds import Left
from offers.ledger.pool import OfferPool
from offers.ledger.rooms import Site
from offers.model import ResourceRequest


def lend(pool: OfferPool, site: Site, request: ResourceRequest, replaces: str) -> Mapping[str, Left]:
    """Makes the room of ended placeholders on an agent usable. `request`, `replaces`: as in `Holds.take_left`. Returns
    the holds that `end_lending` needs."""
    left = pool.holds.take_left(site, request, replaces)
    pool.rooms.lent = site
    pool.room_changed(site)
    return left


def end_lending(pool: OfferPool, site: Site, left: Mapping[str, Left], *, used: bool) -> None:
    """Ends `lend`. `used`: the unit has got a place; else the room is left as before."""
    pool.rooms.lent = None
    if not used:
        for name, (hold, since) in left.items():
            pool.holds.add(name, *hold)
            pool.holds.leaving[name] = since
    pool.room_changed(site)
