"""Nodes in an order, in blocks that know the greatest free amounts of their nodes.

The first node with room for a request is found by passing over blocks in which no node can have the room. A change of
one node costs a search for its block; the figures of a block are bounds from above, and are made exact only when a
bound lets a request through that no node of the block has room for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from offers.dimensions import Amounts

SIZE = 64
"""A block is split beyond twice this number of nodes."""

Key = tuple[int, str]


class HasOpen(Protocol):
    """A member: its free amounts by resource."""

    open: dict[str, int]


Member = TypeVar("Member", bound=HasOpen)


class Block(Generic[Member]):
    """Members that follow each other, with the greatest amounts of all of them."""

    __slots__ = ("exact", "keys", "members", "most")

    def __init__(self, keys: list[Key], members: list[Member]) -> None:
        self.keys, self.members = keys, members
        self.most: dict[str, int] = {}
        self.exact = False
        self.measure()

    def measure(self) -> None:
        """Makes the greatest amounts exact."""
        most: dict[str, int] = {}
        for member in self.members:
            for name, amount in member.open.items():
                if amount > most.get(name, 0):
                    most[name] = amount
        self.most, self.exact = most, True


class Blocks(Generic[Member]):
    """Members by key. No two members have one key."""

    def __init__(self) -> None:
        self._blocks: list[Block[Member]] = []
        self._lasts: list[Key] = []
        self.judged = 0
        """The number of members and blocks that `first` has judged so far."""

    def __iter__(self) -> Iterator[Member]:
        """The members, smallest key first."""
        return (member for block in self._blocks for member in block.members)

    def fill(self, members: Iterable[tuple[Key, Member]]) -> None:
        """Adds members to an empty collection, at the cost of one sort."""
        pairs = sorted(members, key=lambda pair: pair[0])
        for start in range(0, len(pairs), SIZE):
            part = pairs[start : start + SIZE]
            self._blocks.append(Block([key for key, _ in part], [member for _, member in part]))
            self._lasts.append(part[-1][0])

    def clear(self) -> None:
        """Removes all members."""
        self._blocks.clear()
        self._lasts.clear()

    def add(self, key: Key, member: Member) -> None:
        """Adds a member with its present free amounts."""
        if not self._blocks:
            self._blocks, self._lasts = [Block([key], [member])], [key]
            return
        number = min(bisect_left(self._lasts, key), len(self._blocks) - 1)
        block = self._blocks[number]
        position = bisect_left(block.keys, key)
        block.keys.insert(position, key)
        block.members.insert(position, member)
        for name, amount in member.open.items():
            if amount > block.most.get(name, 0):
                block.most[name] = amount
        if len(block.keys) > 2 * SIZE:
            halves = [Block(block.keys[:SIZE], block.members[:SIZE]), Block(block.keys[SIZE:], block.members[SIZE:])]
            self._blocks[number : number + 1] = halves
            self._lasts[number : number + 1] = [half.keys[-1] for half in halves]
        else:
            self._lasts[number] = block.keys[-1]

    def remove(self, key: Key) -> None:
        """Removes the member with a key. Raises KeyError if there is none."""
        number = bisect_left(self._lasts, key)
        block = self._blocks[number] if number < len(self._blocks) else None
        position = bisect_left(block.keys, key) if block is not None else 0
        if block is None or block.keys[position] != key:
            raise KeyError(key)
        del block.keys[position], block.members[position]
        block.exact = False
        if block.keys:
            self._lasts[number] = block.keys[-1]
        else:
            del self._blocks[number], self._lasts[number]

    def fitting(self, request: Amounts) -> Iterator[Member]:
        """The members with room for a request, smallest key first. The collection must not change meanwhile."""
        for block in self._blocks:
            self.judged += 1
            if not fits_request(request, block.most):
                continue
            is_fitting = False
            for member in block.members:
                self.judged += 1
                if fits_request(request, member.open):
                    is_fitting = True
                    yield member
            if not is_fitting and not block.exact:
                block.measure()


def fits_request(request: Amounts, room: dict[str, int]) -> bool:
    """True if every amount of a request is at most the room; a resource that is not named has no room."""
    for name, amount in request:  # noqa: SIM110  # half the time of all()
        if amount > 0 and amount > room.get(name, 0):
            return False
    return True
