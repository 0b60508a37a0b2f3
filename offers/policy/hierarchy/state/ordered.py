"""A collection in the order of keys that change, and a multiset that knows its greatest member."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

Member = TypeVar("Member")


class Ordered(Generic[Member]):
    """Members in the order of their keys. No two members have equal keys. A change of a key costs a binary search."""

    __slots__ = ("_keys", "_members")

    def __init__(self) -> None:
        self._keys: list[Any] = []
        self._members: dict[Any, Member] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[Member]:
        """The members, smallest key first. The collection must not change meanwhile."""
        members = self._members
        return (members[key] for key in self._keys)

    def after(self, key: Any, most: int) -> list[tuple[Any, Member]]:
        """Up to `most` members behind a key, with their keys; None as the key: the first ones."""
        begin = 0 if key is None else bisect_right(self._keys, key)
        return [(later, self._members[later]) for later in self._keys[begin : begin + most]]

    def first(self) -> Member | None:
        """The member with the smallest key; None if there is none."""
        return self._members[self._keys[0]] if self._keys else None

    def place(self, old: Any, new: Any, member: Member) -> None:
        """Moves a member from its old key to a new one. None as the old key adds, None as the new key removes."""
        if old == new:
            return
        if old is not None:
            del self._members[old]
            del self._keys[bisect_left(self._keys, old)]
        if new is not None:
            self._members[new] = member
            insort(self._keys, new)


class Greatest:
    """A multiset of integers that knows its greatest member."""

    __slots__ = ("_counts", "_heap")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._heap: list[int] = []

    def add(self, number: int) -> None:
        """Adds a number once more."""
        count = self._counts.get(number, 0)
        self._counts[number] = count + 1
        if not count:
            heapq.heappush(self._heap, -number)

    def remove(self, number: int) -> None:
        """Removes a number once."""
        count = self._counts[number] - 1
        if count:
            self._counts[number] = count
        else:
            del self._counts[number]

    def greatest(self) -> int | None:
        """The greatest number; None if there is none."""
        while self._heap and -self._heap[0] not in self._counts:
            heapq.heappop(self._heap)
        return -self._heap[0] if self._heap else None
