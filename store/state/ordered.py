"""Keys in order, kept while they come and go: a page of a list costs with the page, not with the list.

The keys lie in blocks of bounded size, so adding and removing one moves at most a block, and costs with the logarithm
of their number. One thread changes them; any thread may read: a reader copies the list of blocks and then one block
after the other, each by one atomic operation. Blocks are split and joined by putting new ones in their place, so the
ones a reader holds stay in order. A reader may miss or still see a key that is added or removed while it reads; it sees
every key that stays exactly once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from store.ids import custom_key, object_key
from store.records import Record

Order = tuple[str | int, ...]
"""Orders of one kind have the same length and types at the same places, and begin with the namespace."""
LARGEST = 512
"""Keys of a block, above which it is split into two."""
SMALLEST = 64
"""Keys of a block, below which it is joined with a neighbour."""


class Ordering(NamedTuple):
    """The order in which lists show the records of one kind. The fields of the order never change during the life of a
    record."""

    order: Callable[[Any], Order]
    key: Callable[[Any], str]
    """Key of the record with this order."""


def _by_name(record: Any) -> Order:
    return record.namespace, record.name


def _last(order: Any) -> str:
    return str(order[-1])


_NAMED = Ordering(_by_name, lambda order: object_key(*order))
ORDERINGS: dict[str, Ordering] = {
    **dict.fromkeys(("application", "configmap", "secret", "deployment", "daemonset", "service", "endpoint"), _NAMED),
    "webhook": _NAMED,
    "managedapplication": _NAMED,
    "customobject": Ordering(
        lambda custom: (custom.namespace, custom.name, custom.type),
        lambda order: custom_key(type=order[2], namespace=order[0], name=order[1]),
    ),
    "taskgroup": Ordering(lambda group: (group.namespace, group.application, group.index, group.id), _last),
    "transaction": Ordering(lambda done: (done.namespace, int(done.created_at * 1000), done.id), _last),
    "command": Ordering(
        lambda transaction: (transaction.namespace, transaction.application, int(transaction.created_at * 1000),
        transaction.id), _last
    ),
}  # fmt: skip
"""Orderings by kind of record: namespace and name; taskgroups by application and index; transactions and commands by
age."""


class OrderedKeys:
    """The orders of all records of a kind."""

    __slots__ = ("_blocks", "_greatest")

    def __init__(self) -> None:
        self._blocks: list[list[Order]] = []
        self._greatest: list[Order] = []
        """The last one of each block; for the changing thread only."""

    def __len__(self) -> int:
        return sum(map(len, list(self._blocks)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OrderedKeys) and list(self.after()) == list(other.after())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"OrderedKeys({list(self.after())[:20]}...)"

    def add(self, order: Order) -> None:
        """Adds a key. The caller guarantees that the key is not in the collection."""
        if not self._blocks:
            self._greatest.append(order)
            self._blocks.append([order])
            return
        place = min(bisect_left(self._greatest, order), len(self._blocks) - 1)
        block = self._blocks[place]
        insort(block, order)
        if len(block) > LARGEST:
            # For keys that grow, such as times, the left block stays full.
            middle = LARGEST if place == len(self._blocks) - 1 and block[-1] == order else len(block) // 2
            self._replace(place, place + 1, block[:middle], block[middle:])
        else:
            self._greatest[place] = block[-1]

    def remove(self, order: Order) -> None:
        """Removes a key. Does nothing if the key is not in the collection."""
        place = bisect_left(self._greatest, order)
        block = self._blocks[place] if place < len(self._blocks) else []
        index = bisect_left(block, order)
        if index == len(block) or block[index] != order:
            return
        if len(block) == 1:
            self._replace(place, place + 1)
            return
        del block[index]
        self._greatest[place] = block[-1]
        other = place + 1 if place + 1 < len(self._blocks) else place - 1
        if len(block) < SMALLEST and other >= 0 and len(block) + len(self._blocks[other]) <= LARGEST // 2:
            first, second = sorted((place, other))
            self._replace(first, second + 1, self._blocks[first] + self._blocks[second])

    def before(self, order: tuple[str | float, ...]) -> Iterator[Order]:
        """Yields the keys that are smaller than `order`, greatest first. Any thread may call."""
        blocks = list(self._blocks)
        last = bisect_left(blocks, order, key=_greatest_of)
        for block in reversed(blocks[: last + 1]):
            copied = list(block)
            yield from reversed(copied[: bisect_left(copied, order)])

    def _replace(self, begin: int, end: int, *blocks: list[Order]) -> None:
        self._greatest[begin:end] = [block[-1] for block in blocks]
        self._blocks[begin:end] = blocks

    def after(self, order: Order | None = None) -> Iterator[Order]:
        """Yields the keys that are greater than `order` (None = all), smallest first. Any thread may call. Raises
        TypeError for an order with other types than those of this kind."""
        blocks = list(self._blocks)
        first = bisect_right(blocks, order, key=_greatest_of) if order is not None else 0
        for block in blocks[max(0, first) :]:
            copied = list(block)
            yield from copied if order is None else copied[bisect_right(copied, order) :]
            if copied and order is not None and copied[-1] > order:
                order = None  # the blocks that follow are greater


def _greatest_of(block: list[Order]) -> Order:
    return block[-1]


class Orders:
    """The orders of every kind that is listed."""

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        self._keys = {kind: OrderedKeys() for kind in ORDERINGS}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Orders) and self._keys == other._keys

    __hash__ = None  # type: ignore[assignment]

    def changed(self, kind: str, before: Record | None, after: Record | None) -> None:
        """Follows a record that was added (`before` None), changed, or removed (`after` None)."""
        keys = self._keys.get(kind)
        if keys is None:
            return
        if after is not None:
            keys.add(ORDERINGS[kind].order(after))
        else:
            keys.remove(ORDERINGS[kind].order(before))

    def of(self, kind: str) -> OrderedKeys:
        """The sorted keys of a kind. Raises KeyError for a kind that is not in `ORDERINGS`."""
        return self._keys[kind]
