"""A queue of work that serves namespaces in turn, so that much work in one of them does not delay the others."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

ItemT = TypeVar("ItemT", bound=Hashable)


class FairQueue(Generic[ItemT]):
    """Items wait in lanes (one per namespace). `pop` takes one item of each lane in turn; within a lane the class with
    the lowest number comes first, and within a class the item that came first. An item waits at most once per lane and
    class. All operations take constant time."""

    def __init__(self, classes: int = 1) -> None:
        self._classes = classes
        self._lanes: dict[str, tuple[OrderedDict[ItemT, None], ...]] = {}
        """Items by class. (In a plain dictionary, the search for the first item passes the items that were taken before
        it.)"""
        self._turns: deque[str] = deque()
        """Lanes that hold items, in the order in which they are served."""
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[tuple[int, ItemT]]:
        """(class, item) of everything that waits, without taking it."""
        for lane in self._turns:
            for number, items in enumerate(self._lanes[lane]):
                for item in items:
                    yield number, item

    def push(self, lane: str, item: ItemT, number: int = 0) -> None:
        """Adds an item of class `number`; an item that waits already keeps its place."""
        items = self._lanes.get(lane)
        if items is None:
            items = self._lanes[lane] = tuple(OrderedDict() for _ in range(self._classes))
            self._turns.append(lane)
        if item not in items[number]:
            items[number][item] = None
            self._size += 1

    def holds(self, lane: str, item: ItemT, number: int = 0) -> bool:
        """Returns True if the item is in the queue."""
        items = self._lanes.get(lane)
        return items is not None and item in items[number]

    def discard(self, lane: str, item: ItemT, number: int = 0) -> None:
        """Removes an item if it waits. The lane keeps its turn; an empty lane is skipped by `pop`."""
        items = self._lanes.get(lane)
        if items is not None and items[number].pop(item, self) is None:
            self._size -= 1

    def pop(self) -> tuple[str, int, ItemT] | None:
        """Removes the next item; (lane, class, item), or None if nothing waits."""
        while self._turns:
            lane = self._turns.popleft()
            for number, items in enumerate(self._lanes[lane]):
                if items:
                    item, _ = items.popitem(last=False)
                    self._size -= 1
                    if any(self._lanes[lane]):
                        self._turns.append(lane)
                    else:
                        del self._lanes[lane]
                    return lane, number, item
            del self._lanes[lane]
        return None
