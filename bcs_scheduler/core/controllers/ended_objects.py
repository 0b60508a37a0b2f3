"""Objects that have ended and are kept up to a number, in the order in which they ended: altogether, and by shelf.

The cost of every operation is independent of the number of objects.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

S = TypeVar("S", bound=Hashable)


class EndedObjects(Generic[S]):
    """Ended objects by their ids. An object of a shelf pushes out only objects of the same shelf."""

    def __init__(self, each: int, total: int) -> None:
        """`each`: objects kept on one shelf. `total`: sum of the weights of all objects that are kept."""
        self._each = each
        self._total = total
        self._all: OrderedDict[str, tuple[S, int]] = OrderedDict()
        """Shelf and weight by id, the object that ended first in front. (In a plain dictionary, the search for the
        first entry passes the entries that were removed before it.)"""
        self._groups: dict[S, OrderedDict[str, None]] = {}
        self._crowded: dict[S, None] = {}
        """Shelves that hold more objects than are kept."""
        self._weight = 0

    def __len__(self) -> int:
        return len(self._all)

    @property
    def weight(self) -> int:
        """Sum of the weights of all objects."""
        return self._weight

    def __contains__(self, identity: str) -> bool:
        return identity in self._all

    def clear(self) -> None:
        """Removes all objects."""
        for known in (self._all, self._groups, self._crowded):
            known.clear()
        self._weight = 0

    def add(self, identity: str, group: S, weight: int = 1) -> None:
        """Adds an object that has ended just now; one that is there stays where it is."""
        if identity in self._all:
            return
        self._all[identity] = (group, weight)
        self._weight += weight
        members = self._groups.setdefault(group, OrderedDict())
        members[identity] = None
        if len(members) > self._each:
            self._crowded[group] = None

    def remove(self, identity: str) -> None:
        """Removes an object; does nothing if it is not there."""
        group, weight = self._all.pop(identity, (None, 0))
        if group is None:
            return
        self._weight -= weight
        members = self._groups[group]
        del members[identity]
        if len(members) <= self._each:
            self._crowded.pop(group, None)
        if not members:
            del self._groups[group]

    def oldest(self) -> str | None:
        """The object that ended first; None if there is none."""
        return next(iter(self._all), None)

    def surplus(self) -> str | None:
        """The object that is to be removed first because too many are kept; None if there are not too many. The object
        that ended last is kept, even if its weight exceeds the total."""
        for group in self._crowded:
            return next(iter(self._groups[group]))
        return self.oldest() if self._weight > self._total and len(self._all) > 1 else None
