"""The running allocations and the room of the nodes as columns, for searches that judge all of them at once.

Columns of amounts are floating-point numbers: a search uses them for bounds, and looks exactly at the nodes that
they let through. Numbers of nodes, leaves, applications and requests are used again once nothing runs there.
"""

from __future__ import annotations

from collections.abc import Hashable
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from offers.dimensions import Amounts
from offers.policy.hierarchy.state.model import Allocation

if TYPE_CHECKING:
    from offers.policy.hierarchy.state.nodes import Node
    from offers.policy.hierarchy.state.queue import Queue

Array = np.ndarray[Any, Any]
Key = TypeVar("Key", bound=Hashable)
CLOSED = -1e30
"""The room of nodes that take no work: less than all that runs there."""
MOST_NEW = 2048
"""Number of allocations that wait for their rows at most: giving these takes some 6 ms."""
LEAST = 64
"""The first length of a column; it doubles when it is full."""


class Numbers(Generic[Key]):
    """Small integers for keys, for as long as they are in use."""

    __slots__ = ("_counts", "_free", "keys", "of")

    def __init__(self) -> None:
        self.of: dict[Key, int] = {}
        self.keys: list[Key | None] = []
        """The key of each number; None for numbers that are free."""
        self._counts: list[int] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        """One more than the greatest number."""
        return len(self.keys)

    def number(self, key: Key) -> int:
        """The number of a key, which is used once more."""
        number = self.of.get(key)
        if number is not None:
            self._counts[number] += 1
            return number
        if self._free:
            number = self._free.pop()
            self.keys[number] = key
            self._counts[number] = 1
        else:
            number = len(self.keys)
            self.keys.append(key)
            self._counts.append(1)
        self.of[key] = number
        return number

    def names(self, numbers: Array) -> list[Key]:
        """The keys of numbers, without those that are free."""
        keys = self.keys
        return [key for number in numbers.tolist() if (key := keys[number]) is not None]

    def drop(self, key: Key) -> bool:
        """Notes that a key is used once less; True if it is not used any more."""
        number = self.of[key]
        self._counts[number] -= 1
        if self._counts[number]:
            return False
        del self.of[key]
        self.keys[number] = None
        self._free.append(number)
        return True


class State(IntEnum):
    """The state of a row."""

    GONE = 0
    RUNS = 1
    LEAVES = 2
    SPARED = 3
    """The allocation is never ended for others."""


def _longer(column: Array, length: int, fill: float = 0) -> Array:
    longer = np.full(max(LEAST, 2 * len(column), length), fill, dtype=column.dtype)
    longer[: len(column)] = column
    return longer


class Columns:
    """The columns of a partition: one row per allocation; `used` rows count. Most allocations are followed by others
    before a search looks at them: so new ones wait for their rows until `settle`."""

    def __init__(self) -> None:
        self.nodes: Numbers[str] = Numbers()
        self.leaves: Numbers[Queue] = Numbers()
        self.applications: Numbers[str] = Numbers()
        self.requests: Numbers[Amounts] = Numbers()
        self.rows: dict[str, int] = {}
        """The row of each allocation, by id."""
        self.used = 0
        self._free: list[int] = []
        self.node, self.leaf, self.application, self.request = (np.zeros(0, dtype=np.int32) for _ in range(4))
        self.priority = np.zeros(0, dtype=np.int64)
        self.created = np.zeros(0)
        self.state, self.later = (np.zeros(0, dtype=np.int8) for _ in range(2))
        """`later`: the part of an ask in the order of loss: 2 if it asks to be taken after all others, and 1 for an
        originator."""
        self.allocations: list[Allocation | None] = []
        """The allocation of each row; None for a row that is free."""
        self._amounts: dict[str, Array] = {}
        self._room_columns: dict[str, Array] = {}
        self._changed: dict[str, Node] = {}
        self._new: dict[str, tuple[Allocation, Queue]] = {}
        """Allocations without a row, by id, with their leaves."""

    # --- allocations ----------------------------------------------------------------------------------------------

    def add(self, allocation: Allocation, leaf: Queue) -> None:
        """Adds an allocation. The node is known."""
        self._new[allocation.ask.id] = (allocation, leaf)
        if len(self._new) > MOST_NEW:
            self.settle()

    def settle(self) -> None:
        """Gives all allocations their rows. To be called before the rows are read."""
        for allocation, leaf in self._new.values():
            self._enter(allocation, leaf)
        self._new.clear()

    def _enter(self, allocation: Allocation, leaf: Queue) -> None:
        ask = allocation.ask
        if self._free:
            row = self._free.pop()
        else:
            row, self.used = self.used, self.used + 1
            self.allocations.append(None)
            if row == len(self.state):
                for name in ("node", "leaf", "application", "request", "priority", "created", "state", "later"):
                    setattr(self, name, _longer(getattr(self, name), 0))
        self.rows[ask.id] = row
        is_new = ask.request not in self.requests.of
        request = self.requests.number(ask.request)
        if is_new:
            self._set_amounts(request, ask.request, 1)
        self.node[row] = self.nodes.of[allocation.node]
        self.leaf[row] = self.leaves.number(leaf)
        self.application[row] = self.applications.number(ask.application)
        self.request[row] = request
        self.priority[row] = ask.priority
        self.created[row] = ask.created
        self.later[row] = 2 * (not ask.preemptable) + ask.originator
        self.allocations[row] = allocation
        self.state[row] = State.SPARED if ask.is_spared else State.RUNS

    def remove(self, allocation: Allocation, leaf: Queue) -> None:
        """Removes an allocation."""
        ask = allocation.ask
        if self._new.pop(ask.id, None) is not None:
            return
        row = self.rows.pop(ask.id)
        self.state[row], self.allocations[row] = State.GONE, None
        self._free.append(row)
        self.leaves.drop(leaf)
        self.applications.drop(ask.application)
        number = self.requests.of[ask.request]
        if self.requests.drop(ask.request):
            self._set_amounts(number, ask.request, 0)

    def leave(self, identity: str) -> None:
        """Notes that an allocation is being preempted, by its id."""
        self.state[self.rows[identity]] = State.LEAVES

    def stay(self, identity: str) -> None:
        """Notes that an allocation that was being preempted stays, by its id."""
        self.state[self.rows[identity]] = State.RUNS

    def _set_amounts(self, number: int, request: Amounts, sign: int) -> None:
        for name, amount in request:
            column = self._amounts.get(name)
            if column is None:
                column = self._amounts[name] = np.zeros(LEAST)
            if number >= len(column):
                column = self._amounts[name] = _longer(column, number + 1)
            column[number] = sign * amount

    def amounts(self, name: str) -> Array:
        """The amounts of a resource by the number of the request."""
        column = self._amounts.get(name, np.zeros(0))
        if len(column) < len(self.requests):
            column = self._amounts[name] = _longer(column, len(self.requests))
        return column

    # --- nodes ----------------------------------------------------------------------------------------------------

    def enter(self, node: Node) -> None:
        """Adds a node."""
        self.nodes.number(node.name)
        self._changed[node.name] = node

    def drop(self, name: str) -> None:
        """Removes a node on which nothing runs."""
        self._changed.pop(name, None)
        number = self.nodes.of[name]
        self.nodes.drop(name)
        for column in self._room_columns.values():
            if number < len(column):
                column[number] = CLOSED

    def changed(self, node: Node) -> None:
        """Notes that a node may have other room."""
        self._changed[node.name] = node

    def room(self, name: str, nodes: dict[str, Node]) -> Array:
        """The amounts of `Node.room` for a resource, by the number of the node; `CLOSED` for nodes that are
        gone. `nodes`: all, by name."""
        size = len(self.nodes)
        for dimension in self._room_columns:
            self._fill_room(dimension, self._changed)
        self._changed.clear()
        if name not in self._room_columns:
            self._room_columns[name] = np.full(size, CLOSED)
            self._fill_room(name, nodes)
        return self._room_columns[name][:size]

    def _fill_room(self, name: str, nodes: dict[str, Node]) -> None:
        column, size = self._room_columns[name], len(self.nodes)
        if len(column) < size:  # also numbers of nodes that have come and gone since the latest call
            column = self._room_columns[name] = _longer(column, size, CLOSED)
        column[[self.nodes.of[node_name] for node_name in nodes]] = [_room(node, name) for node in nodes.values()]


def _room(node: Node, name: str) -> float:
    return node.room(name)
