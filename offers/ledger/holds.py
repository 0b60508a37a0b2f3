"""Held room: leased capacity that is set apart for taskgroups which run nothing.

A hold is for an agent and a role, not for an offer. An offer ends with the next launch on its agent, or after some
seconds; the hold is then taken out of the next offer of the agent. No demand may use held room. A hold that the present
offers do not cover completely is short: the room may be on its way back, or another scheduler may have got the room.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from typing import NamedTuple

from offers.errors import Shortage
from offers.ledger.rooms import Site
from offers.model import Allocation, ResourceKey, ResourceRequest
from offers.resources import SCALARS, ResourceMap, amounts_of, draw, remaining

HOLD_SECONDS = 10.0
"""The time for which an offer with held room is kept at most. Then other schedulers get their turn: room that is kept
longer starves them."""
LEAVE_SECONDS = 3.0
"""The time for which the room of an ended hold waits for the launch that was promised the room."""
_NONE: Mapping[str, ResourceRequest] = {}


class Hold(NamedTuple):
    """The room of one taskgroup."""

    site: Site
    request: ResourceRequest


class Left(NamedTuple):
    """A hold that has ended, and whose room waits for a promised launch. `since`: Unix seconds of the end."""

    hold: Hold
    since: float


class Holds:
    """The holds of a pool, by the name of the taskgroup."""

    def __init__(self, changed: Callable[[Site], None]) -> None:
        """`changed` is called when a hold begins or ends on an agent."""
        self._changed = changed
        self._holds: dict[str, Hold] = {}
        self.by_site: dict[Site, dict[str, ResourceRequest]] = {}
        """The holds by agent and role; no agent has an empty entry. Asked for each offer, so this is an attribute."""
        self.short: dict[str, None] = {}
        """Holds that the present offers do not cover, as of the latest look at their agents."""
        self.leaving: dict[str, float] = {}
        """Holds that have ended, with the Unix seconds of their end. Their room is for promised launches only."""
        self._news: dict[str, None] = {}
        self._freed: dict[Site, None] = {}

    def __len__(self) -> int:
        """Number of holds."""
        return len(self._holds)

    def __contains__(self, name: str) -> bool:
        """True if a hold has this name."""
        return name in self._holds

    def __iter__(self) -> Iterator[tuple[str, Hold]]:
        """The holds with their names, the oldest first."""
        yield from self._holds.items()

    @property
    def sites(self) -> list[Site]:
        """Agents and roles with held room."""
        return list(self.by_site)

    def has_news(self, names: Container[str]) -> bool:
        """True if `take_news` has something for these names."""
        return any(name in names for name in self._news)

    @property
    def has_freed(self) -> bool:
        """True if `take_freed` has something."""
        return bool(self._freed)

    def on(self, site: Site) -> Mapping[str, ResourceRequest]:
        """The holds of an agent in a role, the oldest first."""
        return self.by_site.get(site, _NONE)

    def add(self, name: str, site: Site, request: ResourceRequest) -> None:
        """Sets room of an agent apart for a taskgroup, out of the present offers and all later ones. The hold is short
        until the agent is looked at."""
        self.drop(name)
        self._holds[name] = Hold(site, request)
        self.by_site.setdefault(site, {})[name] = request
        self.short[name] = self._news[name] = None
        self._changed(site)

    def drop(self, name: str) -> None:
        """Ends a hold, if there is one of this name: anybody may use the room."""
        hold = self._holds.pop(name, None)
        if hold is None:
            return
        on = self.by_site[hold.site]
        del on[name]
        if not on:
            del self.by_site[hold.site]
        for known in (self.short, self.leaving, self._news):
            known.pop(name, None)
        self._freed[hold.site] = None
        self._changed(hold.site)

    def take_left(self, site: Site, request: ResourceRequest, replaces: str) -> dict[str, Left]:
        """Drops the ended hold that is meant for a unit which was promised room on an agent: that of the taskgroup with
        the id `replaces`, else the oldest one of the scalars of the request, else all ended holds of the agent."""
        if not self.leaving:
            return {}
        names = [name for name in self.on(site) if name in self.leaving]
        if replaces in names:
            names = [replaces]
        else:
            wanted = amounts_of(request)
            names = next(([name] for name in names if amounts_of(self._holds[name].request) == wanted), names)
        left = {name: Left(self._holds[name], self.leaving[name]) for name in names}
        for name in left:
            self.drop(name)
        return left

    def judged(self, site: Site, short: Iterable[str]) -> None:
        """The offers of an agent have been compared with its holds: all but these are covered."""
        missing = frozenset(short)
        for name in self.on(site):
            if (name in missing) != (name in self.short):
                self._news[name] = None
            if name in missing:
                self.short[name] = None
            else:
                self.short.pop(name, None)

    def emptied(self, site: Site) -> None:
        """An agent has no offers any more."""
        self.judged(site, self.on(site))

    def cleared(self) -> None:
        """No agent has offers any more."""
        for site in self.by_site:
            self.emptied(site)

    def take_news(self, names: Container[str]) -> list[str]:
        """The holds of these names that are new, or have become covered or short, since the last call for the name."""
        news = [name for name in self._news if name in names]
        for name in news:
            del self._news[name]
        return news

    def take_freed(self) -> list[Site]:
        """Agents and roles on which a hold has ended since the last call."""
        freed, self._freed = self._freed, {}
        return list(freed)


def set_apart(resources: ResourceMap, request: ResourceRequest) -> tuple[ResourceMap, bool]:
    """The resources without a hold, and whether they cover the hold completely. If not, all that there is of its
    scalars is set apart."""
    try:
        _, _, rest = draw(resources, request)
    except Shortage:
        return remaining(resources, [_there_of(resources, request)]), False
    return rest, True


def together(requests: Collection[ResourceRequest]) -> ResourceRequest:
    """The scalars and ports of several requests as one."""
    cpus, mem, disk, gpus = map(sum, zip(*map(amounts_of, requests), strict=True))
    random = sum(request.random_ports for request in requests)
    fixed = tuple(port for request in requests for port in request.fixed_ports)
    return ResourceRequest(cpus, mem, disk, gpus, random, fixed)


def _there_of(resources: ResourceMap, request: ResourceRequest) -> Allocation:
    parts: list[tuple[ResourceKey, int]] = []
    for name, wanted in zip(SCALARS, amounts_of(request), strict=True):
        left = wanted
        for key, amount in resources.scalars.items():
            part = min(left, amount) if key.name == name else 0
            if part:
                parts.append((key, part))
                left -= part
    return Allocation(tuple(parts))
