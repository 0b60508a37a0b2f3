"""Coming room: the room of agents that no unit has any more, and that no offer shows yet.

Between the end of a unit and the offer of its room, and between an offer that was given back and the next one, the
room is not in hand and has no unit. It must not seem to be lost: other work would be ended for the units that get it.
A cluster manager may offer the room in parts: first that of a task, then that of its executor. So each offer takes its
amounts out of the coming ones, and the rest is expected for a moment after the first offer.

Engines see the amounts as room that is being released. It counts by agent, and not by the unit that has left it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from math import inf

from offers.ledger.holds import RETURN_SECONDS, UNOFFERED_SECONDS
from offers.model import Site
from offers.resources import SCALARS

NOTHING: Sequence[int] = (0,) * len(SCALARS)
"""No amounts, in the order of SCALARS."""
MOST_ENDS = 1_000
"""Sites whose room ends to come in one turn: each is read again. Others follow in the next turn."""


class _Coming:
    """The amounts that come on one agent in one role."""

    __slots__ = ("amounts", "is_shown", "since", "until")

    def __init__(self) -> None:
        self.amounts = list(NOTHING)
        self.since, self.until = inf, inf
        """Unix seconds from which the amounts are expected, and until which; infinity: until the next `tick`."""
        self.is_shown = False
        """An offer has come since the latest amounts."""


class ComingRoom:
    """The coming amounts of a pool. One thread changes it."""

    def __init__(self, touch: Callable[[str], None]) -> None:
        """`touch` is called with the id of an agent whose amounts have changed."""
        self._touch = touch
        self._sites: dict[Site, _Coming] = {}
        self._new: dict[Site, None] = {}
        """Sites whose time begins with the next `tick`."""
        self._ends: list[tuple[float, Site]] = []
        """A heap of the ends; an entry of another time than that of its site is void."""
        self.shown: dict[Site, None] = {}
        """Sites whose coming room was offered for the first time since the latest `tick`."""

    def more(self, site: Site, amounts: Sequence[int]) -> None:
        """A unit has ended on an agent, or an offer was given back. `amounts`: thousandths in the order of SCALARS."""
        if not any(amounts):
            return
        coming = self._sites.setdefault(site, _Coming())
        coming.amounts = [known + amount for known, amount in zip(coming.amounts, amounts, strict=True)]
        coming.is_shown = False
        self._again(site, coming)

    def offered(self, site: Site, amounts: Sequence[int]) -> None:
        """An offer of an agent has come. `amounts`: as for `more`."""
        coming = self._sites.get(site)
        if coming is None:
            return
        coming.amounts = [max(known - amount, 0) for known, amount in zip(coming.amounts, amounts, strict=True)]
        if not coming.is_shown:
            self.shown[site] = None
            coming.is_shown = True
            self._again(site, coming)
        if not any(coming.amounts):
            del self._sites[site]

    def _again(self, site: Site, coming: _Coming) -> None:
        coming.since = coming.until = inf
        self._new[site] = None
        self._touch(site[0])

    def keep(self, site: Site) -> None:
        """The room is promised to work that waits: it is expected for `UNOFFERED_SECONDS` if no offer shows it."""
        coming = self._sites.get(site)
        if coming is not None and not coming.is_shown and coming.until < coming.since + UNOFFERED_SECONDS:
            coming.until = coming.since + UNOFFERED_SECONDS
            heappush(self._ends, (coming.until, site))

    def tick(self, now: float) -> None:
        """The time of new amounts begins, and room whose time is over does not come any more. `now`: Unix seconds."""
        for site in self._new:
            coming = self._sites.get(site)
            if coming is not None:
                coming.since, coming.until = now, now + RETURN_SECONDS
                heappush(self._ends, (coming.until, site))
        self._new.clear()
        self.shown.clear()
        for _ in range(MOST_ENDS):
            if self.until() > now:
                break
            _, site = heappop(self._ends)
            del self._sites[site]
            self._touch(site[0])

    def until(self) -> float:
        """Unix seconds from which the first room does not come any more; infinity: no room comes, or its time has not
        begun."""
        ends = self._ends
        while ends and ((coming := self._sites.get(ends[0][1])) is None or coming.until != ends[0][0]):
            heappop(ends)
        return ends[0][0] if ends else inf

    def on(self, site: Site) -> Sequence[int]:
        """The coming amounts of an agent in a role, in the order of SCALARS."""
        coming = self._sites.get(site)
        return coming.amounts if coming is not None else NOTHING

    def is_expected(self, site: Site) -> bool:
        """True if room comes on an agent in a role."""
        return site in self._sites

    def is_awaited(self, site: Site) -> bool:
        """True if room comes on an agent in a role, and no offer has come since it was free."""
        coming = self._sites.get(site)
        return coming is not None and not coming.is_shown

    def drop(self, site: Site) -> None:
        """No room comes on an agent in a role any more."""
        if self._sites.pop(site, None) is not None:
            self._touch(site[0])

    def clear(self) -> None:
        """No room comes any more: all offers come anew."""
        for site in list(self._sites):
            self.drop(site)
        self._new.clear()
        self._ends.clear()
        self.shown.clear()
