"""External holds: parts of leased capacity that the cluster manager keeps for one taskgroup (`ResourceKey.room`).

Such a hold has the name of its taskgroup, and is in the offers of its agent. No demand may use it until it is opened.
Then units may use it that were promised room on the agent, and all units if it is loose. The launch that uses a hold
gives it up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from offers.model import Allocation, Offer, ResourceKey, Site


def names_in(offer: Offer) -> list[str]:
    """The holds that an offer has parts of, each once, in the order of the offer."""
    return list(dict.fromkeys(key.room for key, _ in (*offer.scalars, *offer.ranges) if key.room))


def parts_of(offers: Iterable[Offer], names: Iterable[str]) -> Allocation:
    """The parts of these holds in offers of one agent."""
    chosen, scalars = frozenset(names), dict[ResourceKey, int]()
    ranges = []
    for offer in offers:
        for key, amount in offer.scalars:
            if key.room in chosen:
                scalars[key] = scalars.get(key, 0) + amount
        ranges += [(key, part) for key, part in offer.ranges if key.room in chosen]
    return Allocation(tuple(scalars.items()), tuple(ranges))


class ExternalHolds:
    """The external holds in the offers of a pool. A pool without any costs nothing."""

    def __init__(self) -> None:
        self.opened: dict[str, float] = {}
        """Holds whose taskgroups have ended, with the Unix seconds of the end. They need not be in an offer."""
        self.loose: set[str] = set()
        """Opened holds that all units may use."""
        self.lent: Site | None = None
        """The agent and role on which a unit is being placed that was promised room there."""
        self.awaited: dict[str, None] = {}
        """Holds that are to be seen in an offer soon, in the order of their wait."""
        self._offers: dict[str, dict[str, Offer]] = {}
        self._news: dict[str, Offer] = {}

    def __bool__(self) -> bool:
        return bool(self._offers or self.opened or self.awaited)

    def usable(self, name: str, site: Site) -> bool:
        """True if the unit that is being placed now may use a hold on an agent."""
        return name in self.loose or (site == self.lent and name in self.opened)

    def added(self, offer: Offer) -> None:
        """An offer has come."""
        for name in names_in(offer):
            self._offers.setdefault(name, {})[offer.id] = offer
            self._news[name] = offer

    def removed(self, offer: Offer) -> None:
        """An offer is gone."""
        for name in names_in(offer) if self._offers else ():
            offers = self._offers.get(name, {})
            offers.pop(offer.id, None)
            if not offers:
                self._offers.pop(name, None)

    def clear(self) -> None:
        """All offers are gone."""
        self._offers.clear()
        self._news.clear()

    def take_news(self) -> dict[str, Offer]:
        """The holds in offers that have come since the last call, each with an offer."""
        news, self._news = self._news, {}
        return news

    def offers_of(self, name: str) -> Iterator[Offer]:
        """The offers that have parts of a hold."""
        yield from self._offers.get(name, {}).values()

    def used(self, allocations: Iterable[Allocation]) -> None:
        """A launch takes parts of opened holds. The rest of a hold is seen again in another offer."""
        for allocation in allocations:
            for key, _ in (*allocation.scalars, *allocation.ranges):
                if key.room:
                    self.gone(key.room)

    def gone(self, name: str) -> None:
        """A hold was given up, unless an offer still has a part of it."""
        if name not in self._offers:
            self.opened.pop(name, None)
            self.loose.discard(name)
            self.awaited.pop(name, None)

    def names_on(self, agent_id: str, role: str) -> list[str]:
        """The opened holds in the offers of an agent for a role, in the order of their opening."""
        return [
            name
            for name in self.opened
            if any((offer.agent_id, offer.role) == (agent_id, role) for offer in self.offers_of(name))
        ]
