"""The allocator of the simulated master: what is free is offered to one role or another, and may be refused a while."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from offers.model import Offer, Ranges, Reservation, ResourceKey
from tests.simulation.agents import Agent
from tests.simulation.room import Room, as_ranges
from tests.simulation.world import World

ROLES = ("*", "batch")
"""Roles the framework has subscribed with."""


@dataclass(eq=False, slots=True)
class Outstanding:
    """An offer the framework holds. `kept`: the kept rooms in it, by taskgroup."""

    agent_id: str
    role: str
    room: Room
    kept: dict[str, Kept] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Kept:
    """A room that an agent keeps for a taskgroup, in a role."""

    agent_id: str
    role: str
    room: Room


@dataclass(eq=False, slots=True)
class Filter:
    """Nothing that fits into `room` is offered again before `until`."""

    until: float
    room: Room


class Allocator:
    def __init__(self, world: World) -> None:
        self._world = world
        self.suppressed = False
        self._outstanding: dict[str, Outstanding] = {}
        self._filters: dict[tuple[str, str], list[Filter]] = {}
        """By agent and role."""
        self._serial = 0

    def revive(self) -> None:
        self.suppressed = False
        self._filters.clear()

    def forget(self) -> None:
        """The subscription has ended: all offers are void."""
        self._outstanding.clear()

    def ids(self, agent_id: str = "") -> list[str]:
        """Outstanding offers, of one agent or of all."""
        return [i for i, offer in self._outstanding.items() if agent_id in ("", offer.agent_id)]

    def take(self, offer_id: str) -> Outstanding | None:
        """Ends an offer: it is used, declined or rescinded. None if it has ended before."""
        return self._outstanding.pop(offer_id, None)

    def decline(self, offer_ids: Iterable[str], refuse_seconds: float) -> None:
        for identity in offer_ids:
            offer = self.take(identity)
            if offer is not None and refuse_seconds > 0:
                until = self._world.now + refuse_seconds
                self._filters.setdefault((offer.agent_id, offer.role), []).append(Filter(until, offer.room))

    def offers(self, agent: Agent, held: Sequence[Room], kept: Mapping[str, Kept]) -> list[Offer]:
        """Offers what is free on an agent beside what is held and kept there, in one piece or two, and the kept rooms
        that no offer has."""
        loose = {name: one for name, one in kept.items() if not any(name in o.kept for o in self._outstanding.values())}
        made = self._rooms(agent, loose)
        room = Room(dict(agent.capacity), set(range(agent.ports[0], agent.ports[1] + 1)))
        for other in (*held, *(one.room for one in kept.values())):
            room.subtract(other)
        for offer in self._outstanding.values():
            if offer.agent_id == agent.id:
                room.subtract(offer.room)
        if not room:
            return made
        parts = room.split(self._world.between(0.2, 0.8)) if self._world.chance(0.15) else (room,)
        free = (self._offer(agent, self._world.pick(ROLES), part) for part in parts if part)
        return [*made, *(offer for offer in free if offer is not None)]

    def _rooms(self, agent: Agent, loose: Mapping[str, Kept]) -> list[Offer]:
        """Kept rooms go to their role, in one offer for each role."""
        made = []
        for role in ROLES:
            mine = {name: one for name, one in loose.items() if one.role == role}
            if mine and not self._refused(agent.id, role, Room()):
                offer = self._made(agent, role, Room())
                self._outstanding[offer.id].kept = mine
                made.append(_with_rooms(offer, role, mine))
        return made

    def _offer(self, agent: Agent, role: str, room: Room) -> Offer | None:
        """To the role that is due, or to the other if that has refused; None if both have."""
        willing = [r for r in (role, *ROLES) if not self._refused(agent.id, r, room)]
        return self._made(agent, willing[0], room) if willing else None

    def _made(self, agent: Agent, role: str, room: Room) -> Offer:
        self._serial += 1
        identity = f"o{self._serial}"
        self._outstanding[identity] = Outstanding(agent.id, role, room)
        ranges: Ranges = as_ranges(room.ports)
        return Offer(
            id=identity,
            agent_id=agent.id,
            hostname=agent.host,
            ip=str(agent.attributes["InnerIP"]),
            role=role,
            attributes=agent.attributes,
            scalars=tuple((ResourceKey(name, role), amount) for name, amount in room.scalars.items() if amount > 0),
            ranges=((ResourceKey("ports", role), ranges),) if ranges else (),
            received_at=self._world.now,
        )

    def _refused(self, agent_id: str, role: str, room: Room) -> bool:
        filters = [f for f in self._filters.get((agent_id, role), ()) if f.until > self._world.now]
        self._filters[agent_id, role] = filters
        return any(f.room.holds(room) for f in filters)


def _with_rooms(offer: Offer, role: str, kept: Mapping[str, Kept]) -> Offer:
    scalars, ranges = list(offer.scalars), list(offer.ranges)
    for name, one in kept.items():
        layers = (Reservation("DYNAMIC", role, labels=(("room", name),)),)
        scalars += [(ResourceKey(kind, role, layers, name), n) for kind, n in one.room.scalars.items() if n > 0]
        if one.room.ports:
            ranges.append((ResourceKey("ports", role, layers, name), as_ranges(one.room.ports)))
    return offer._replace(scalars=tuple(scalars), ranges=tuple(ranges))
