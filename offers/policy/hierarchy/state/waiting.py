"""Requests that wait for room, so that room wakes only the requests that fit the room."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

from offers.dimensions import Amounts
from offers.policy.amounts import Vector


class Requesting(Protocol):
    """A member: the amounts it waits for."""

    request: Amounts


Member = TypeVar("Member", bound=Requesting)


class Waiting(Generic[Member]):
    """Members by the amounts they request, in the order in which they came. Requests that name the same resources are
    sorted by each of these resources; the resource that leaves the fewest requests is the one that is searched."""

    __slots__ = ("_by_names", "_by_request", "_missing_is_unlimited")

    def __init__(self, *, missing_is_unlimited: bool = False) -> None:
        """`missing_is_unlimited`: a resource that the room does not name fits; else there is nothing of it."""
        self._missing_is_unlimited = missing_is_unlimited
        self._by_request: dict[Amounts, dict[Member, None]] = {}
        self._by_names: dict[tuple[str, ...], list[list[tuple[int, Amounts]]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_request.values()))

    def __bool__(self) -> bool:
        return bool(self._by_request)

    def __iter__(self) -> Iterator[Member]:
        """All members."""
        return (member for members in self._by_request.values() for member in members)

    def add(self, member: Member) -> None:
        """Adds a member."""
        request = member.request
        members = self._by_request.get(request)
        if members is not None:
            members[member] = None
            return
        self._by_request[request] = {member: None}
        names = tuple(name for name, _ in request)
        lists = self._by_names.get(names)
        if lists is None:
            lists = self._by_names[names] = [[] for _ in names] or [[]]
        for position, (_, amount) in enumerate(request or (("", 0),)):
            insort(lists[position], (amount, request))

    def remove(self, member: Member) -> None:
        """Removes a member. Raises KeyError if it does not wait."""
        request = member.request
        members = self._by_request[request]
        del members[member]
        if members:
            return
        del self._by_request[request]
        names = tuple(name for name, _ in request)
        lists = self._by_names[names]
        for position, (_, amount) in enumerate(request or (("", 0),)):
            del lists[position][bisect_left(lists[position], (amount, request))]
        if not lists[0]:
            del self._by_names[names]

    def fitting(self, room: Vector) -> list[Member]:
        """The members whose requests fit a room."""
        members: list[Member] = []
        for names, lists in self._by_names.items():
            fewest, chosen = len(lists[0]), lists[0]
            for name, entries in zip(names, lists, strict=False):
                if name in room or not self._missing_is_unlimited:
                    count = bisect_right(entries, room.get(name, 0), key=_amount)
                    if count <= fewest:
                        fewest, chosen = count, entries
            for _, request in chosen[:fewest]:
                if self._fits(request, room):
                    members += self._by_request[request]
        return members

    def _fits(self, request: Amounts, room: Vector) -> bool:
        unlimited = self._missing_is_unlimited
        return all(amount <= 0 or (unlimited if name not in room else amount <= room[name]) for name, amount in request)


def _amount(entry: tuple[int, Amounts]) -> int:
    return entry[0]
