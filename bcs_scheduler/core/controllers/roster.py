"""The members of one service, in the order of its endpoint, and those of them that find room in its record.

A change costs with the logarithm of the number of members; the choice of those that find room costs with these alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from store.ids import index_of
from store.records import Member
from store.state.ordered import Order, OrderedKeys

ENDPOINT_BYTES = 400_000
"""Most that the members of one endpoint may take, so that every store takes the record with room for others."""


class _Entry(NamedTuple):
    member: Member
    order: Order
    size: int


class Roster:
    """Members by the ids of their taskgroups."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._ready, self._unready = OrderedKeys(), OrderedKeys()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, taskgroup: str) -> bool:
        return taskgroup in self._entries

    def __iter__(self) -> Iterator[str]:
        """Ids as they are now; the roster may change meanwhile."""
        return iter(list(self._entries))

    def get(self, taskgroup: str) -> Member | None:
        """The member for a taskgroup; None if there is none."""
        entry = self._entries.get(taskgroup)
        return entry.member if entry is not None else None

    def set(self, taskgroup: str, member: Member | None) -> None:
        """Stores the member for this taskgroup; None removes the member, which need not exist."""
        before = self._entries.pop(taskgroup, None) if member is None else self._entries.get(taskgroup)
        if member is None:
            if before is not None:
                self._side(before.member).remove(before.order)
            return
        order = before.order if before is not None else (member.application, index_of(member.taskgroup), taskgroup)
        self._entries[taskgroup] = _Entry(member, order, size(member))
        if before is None:
            self._side(member).add(order)
        elif before.member.ready != member.ready:
            self._side(before.member).remove(order)
            self._side(member).add(order)

    def fitting(self) -> tuple[tuple[Member, ...], int]:
        """Returns the members that fit into one record, by application and index, and the number of those that do not.
        Ready members come first."""
        chosen, room = list[Order](), ENDPOINT_BYTES
        for order in self._by_worth():
            room -= self._entries[str(order[-1])].size
            if room < 0:
                break
            chosen.append(order)
        chosen.sort()
        return tuple([self._entries[str(order[-1])].member for order in chosen]), len(self) - len(chosen)

    def _by_worth(self) -> Iterator[Order]:
        yield from self._ready.after()
        yield from self._unready.after()

    def _side(self, member: Member) -> OrderedKeys:
        return self._ready if member.ready else self._unready


def size(member: Member) -> int:
    """Its bytes as JSON in a list."""
    return len(msgspec.json.encode(member)) + 1
