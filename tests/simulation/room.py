"""What an agent or an offer has, counted in the plainest way: amounts by name, and a set of ports."""

from __future__ import annotations

from dataclasses import dataclass, field

from offers.model import Allocation, Ranges


@dataclass(slots=True)
class Room:
    """Mutable; scalars in thousandths."""

    scalars: dict[str, int] = field(default_factory=dict)
    ports: set[int] = field(default_factory=set)

    def __bool__(self) -> bool:
        return any(amount > 0 for amount in self.scalars.values()) or bool(self.ports)

    def holds(self, other: Room) -> bool:
        return other.ports <= self.ports and all(
            amount <= self.scalars.get(name, 0) for name, amount in other.scalars.items()
        )

    def add(self, other: Room) -> None:
        for name, amount in other.scalars.items():
            self.scalars[name] = self.scalars.get(name, 0) + amount
        self.ports |= other.ports

    def subtract(self, other: Room) -> None:
        for name, amount in other.scalars.items():
            self.scalars[name] = self.scalars.get(name, 0) - amount
        self.ports -= other.ports

    def split(self, part: float) -> tuple[Room, Room]:
        """Two rooms that together are this one."""
        ports = sorted(self.ports)
        cut = int(len(ports) * part)
        first = Room({name: int(amount * part) for name, amount in self.scalars.items()}, set(ports[:cut]))
        rest = Room({name: amount - first.scalars[name] for name, amount in self.scalars.items()}, set(ports[cut:]))
        return first, rest


def claim_room(allocation: Allocation) -> Room:
    """All that an allocation takes, of kept rooms, too."""
    room = Room()
    for resource_key, amount in allocation.scalars:
        room.scalars[resource_key.name] = room.scalars.get(resource_key.name, 0) + amount
    for _, ranges in allocation.ranges:
        for begin, end in ranges:
            room.ports.update(range(begin, end + 1))
    return room


def as_ranges(ports: set[int]) -> Ranges:
    """Inclusive ranges, sorted, neighbours merged."""
    found: list[tuple[int, int]] = []
    for port in sorted(ports):
        if found and found[-1][1] == port - 1:
            found[-1] = (found[-1][0], port)
        else:
            found.append((port, port))
    return tuple(found)
