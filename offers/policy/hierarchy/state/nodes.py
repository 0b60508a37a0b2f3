"""Nodes in the order of placement: the least used first, or the most used first."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import prod
from typing import NamedTuple

from offers.dimensions import NOTHING, Amounts
from offers.ledger.holds import MOST_IN_WINDOW, WINDOW
from offers.policy.amounts import Vector
from offers.policy.hierarchy.configuration.fields import LARGEST
from offers.policy.hierarchy.configuration.partition import NodeOrder
from offers.policy.hierarchy.state.application import RequestClass
from offers.policy.hierarchy.state.blocks import Blocks, fits_request
from offers.policy.hierarchy.state.columns import Columns
from offers.policy.hierarchy.state.model import Allocation, Ask, add_to
from offers.policy.hierarchy.state.queue import Queue
from offers.policy.hierarchy.state.waiting import Waiting

WEIGHTS: Mapping[str, int] = dict.fromkeys(("vcore", "cpus", "cpu", "memory", "mem"), 1)
"""The weights of resources without a configuration: CPU and memory, under each of their names."""

REFILLED = 8
"""The order is made anew if more than one of so many nodes have changed."""

Admits = Callable[[Hashable, str], bool]
"""True if a node, given by name, meets a constraint. Equal arguments give equal results until the node is changed."""


class Running(NamedTuple):
    """An allocation on a node, in the order of loss."""

    order: tuple[bool, bool, float, str]
    allocation: Allocation
    leaf: Queue


class Node:
    """A node. Amounts by resource: `total`; `free`, not used; `leaving`, used by allocations that are ending, and the
    `coming` amounts, which others use and which are free in a moment. `promised` to asks whose victims are ending, or
    that get back the room of their queue; `reserved` for an ask without victims; `lasting`, used by allocations that
    stay for as long as the node does. Other work gets the room that promises and reservations leave (`open`)."""

    __slots__ = (
        "coming", "factors", "free", "key", "largest", "lasting", "leaving", "name", "open", "promised",
        "promises", "reserved", "reserving", "running", "total", "waiting", "whole",
    )  # fmt: skip

    def __init__(self, name: str, total: Vector) -> None:
        self.name, self.total, self.free = name, dict(total), dict(total)
        self.open: dict[str, int] = self.free
        """The free amounts that any ask may use; the same object as `free` without promises. Kept by `Nodes`."""
        self.key: tuple[int, str] | None = None
        self.factors: tuple[tuple[str, int, int], ...] = ()
        """The share of used resources is the sum of used amounts times factors, by `whole`: name, total, factor."""
        self.whole = 1
        self.leaving: dict[str, int] = {}
        self.coming: Amounts = NOTHING
        self.lasting: dict[str, int] = {}
        self.promised: dict[str, int] = {}
        self.reserved: dict[str, int] = {}
        self.promises: dict[str, Ask] = {}
        """The asks that wait for room on this node, by id; those that reserve it are among them."""
        self.reserving: dict[str, Ask] = {}
        """The asks that reserve the node without victims, by id."""
        self.running: list[Running] = []
        self.largest: dict[str, int] = {}
        """At least the greatest amount that one allocation on this node uses."""
        self.waiting: Waiting[RequestClass] = Waiting()
        """Requests for this node only."""

    def room(self, resource: str) -> int:
        """The amount that is free once everything has left that is leaving, and all promises are kept; may be negative.
        Reservations are not among them: an ask that preempts may use the node (`precedence`)."""
        return self.free.get(resource, 0) + self.leaving.get(resource, 0) - self.promised.get(resource, 0)

    def withheld(self, amounts: Mapping[str, int]) -> dict[str, int]:
        """The part of the amounts that is leaving, and that no promise needs; as amounts below 0."""
        spare = {name: self.leaving.get(name, 0) - self.promised.get(name, 0) for name in amounts}
        return {name: -min(amount, max(spare[name], 0)) for name, amount in amounts.items()}

    def open_beside(self, *kept: Mapping[str, int]) -> dict[str, int]:
        """The free amounts that are not needed for the amounts `kept`. Amounts that are leaving are used for these
        first."""
        free, leaving = self.free, self.leaving
        amounts: dict[str, int] = {}
        for name, amount in free.items():
            needed = sum(request.get(name, 0) for request in kept) - leaving.get(name, 0)
            amounts[name] = amount - needed if needed > 0 else amount
        return amounts

    def add(self, allocation: Allocation, leaf: Queue) -> None:
        """Notes an allocation of a leaf, for `Nodes.note`."""
        if not self.running:
            self.largest.clear()
        insort(self.running, Running(allocation.order_of_loss, allocation, leaf))
        if allocation.ask.lasting:
            add_to(self.lasting, allocation.ask.request, 1)
        for resource, amount in allocation.ask.request:
            if amount > self.largest.get(resource, 0):
                self.largest[resource] = amount

    def remove(self, allocation: Allocation) -> None:
        """Removes an allocation that `add` noted."""
        del self.running[bisect_left(self.running, (allocation.order_of_loss,))]
        if allocation.ask.lasting:
            add_to(self.lasting, allocation.ask.request, -1)


class Nodes:
    """All nodes of a partition."""

    def __init__(
        self,
        order: NodeOrder = NodeOrder.FAIR,
        weights: Mapping[str, int] | None = None,
        admits: Admits | None = None,
    ) -> None:
        """`weights` by resource; None or empty: `WEIGHTS`. `admits`: None admits every constraint on every node."""
        self._set_order(order, weights)
        self.admits = admits
        self.ordered: Blocks[Node] = Blocks()
        self.waiting: Waiting[RequestClass] = Waiting()
        """Requests that no node has room for."""
        self.missing: Waiting[RequestClass] = Waiting()
        """Requests for nodes that do not exist."""
        self.by_name: dict[str, Node] = {}
        self._columns = Columns()
        self.reserving: dict[str, Node] = {}
        """The nodes that asks without victims reserve, by name."""
        self.promising: dict[str, Node] = {}
        """The nodes that are promised to asks, reserved ones included, by name."""
        self._names: list[str] = []
        self._later: dict[str, Node] | None = None
        """The changed nodes whose places are renewed by `settle`; None: each is renewed at once."""

    @property
    def columns(self) -> Columns:
        """The columns of the nodes and of all allocations on them."""
        self._columns.settle()
        return self._columns

    def _set_order(self, order: NodeOrder, weights: Mapping[str, int] | None) -> None:
        self._sign = 1 if order is NodeOrder.FAIR else -1
        self._weights = {name: weight for name, weight in (weights or WEIGHTS).items() if weight}
        bits = LARGEST.bit_length() * len(self._weights) + sum(self._weights.values()).bit_length()
        self._shift = 2 * bits + 1
        """The shift with which equal keys mean equal shares; see `ExactRatios`."""

    def reorder(self, order: NodeOrder, weights: Mapping[str, int] | None) -> None:
        """Gives the nodes another order, which may be the same. None or empty weights mean `WEIGHTS`."""
        self._set_order(order, weights)
        nodes = list(self)
        for node in nodes:
            if node.key is not None:
                self.ordered.remove(node.key)
                node.key = None
        for node in nodes:
            self._weigh(node)
            self.changed(node)

    def __iter__(self) -> Iterator[Node]:
        """The nodes in the order of their names."""
        return (self.by_name[name] for name in self._names)

    def fill(self, nodes: Iterable[Node]) -> None:
        """Adds nodes to an empty partition. Raises ValueError like `add`."""
        for node in nodes:
            self._enter(node)
            node.key = self._key(node)
        self._names = sorted(self.by_name)
        self.ordered.fill((node.key, node) for node in self.by_name.values() if node.key is not None)

    def add(self, node: Node) -> None:
        """Adds a node. Raises ValueError if the name is known, or an amount is negative or above `LARGEST`."""
        self._enter(node)
        insort(self._names, node.name)
        self.changed(node)

    def resize(self, node: Node, total: Vector) -> None:
        """Gives a node another total. Raises ValueError like `add`; nothing is changed then."""
        _check(node.name, total)
        for resource in {**node.total, **total}:
            change = total.get(resource, 0) - node.total.get(resource, 0)
            node.free[resource] = node.free.get(resource, 0) + change
        node.total = dict(total)
        self._weigh(node)
        self.changed(node)

    def _enter(self, node: Node) -> None:
        if node.name in self.by_name:
            raise ValueError(f"node {node.name}: exists already")
        _check(node.name, node.total)
        self._weigh(node)
        self.by_name[node.name] = node
        self._columns.enter(node)

    def _weigh(self, node: Node) -> None:
        weighted = [(name, node.total[name], weight) for name, weight in self._weights.items() if node.total.get(name)]
        whole = prod(total for _, total, _ in weighted)
        node.factors = tuple((name, total, weight * whole // total) for name, total, weight in weighted)
        node.whole = whole * sum(weight for *_, weight in weighted) or 1

    def remove(self, name: str) -> Node:
        """Removes a node, and returns the node. Raises KeyError for an unknown one."""
        node = self.by_name.pop(name)
        self._columns.drop(name)
        self.reserving.pop(name, None)
        self.promising.pop(name, None)
        if self._later is not None:
            self._later.pop(name, None)
        del self._names[bisect_left(self._names, name)]
        if node.key is not None:
            self.ordered.remove(node.key)
            node.key = None
        return node

    def use(self, name: str, request: Amounts, sign: int) -> Node:
        """Takes the room of a request on a node (`sign` 1) or gives the room back (-1). Returns the node."""
        node = self.by_name[name]
        for resource, amount in request:
            node.free[resource] = node.free.get(resource, 0) - sign * amount
        self.changed(node)
        return node

    def promise(self, name: str, ask: Ask, *, reserves: bool = False) -> None:
        """Holds room on a node for an ask. `reserves`: the ask has no victims."""
        node = self.by_name[name]
        node.promises[ask.id] = ask
        self.promising[name] = node
        if reserves:
            node.reserving[ask.id] = ask
            self.reserving[name] = node
        add_to(node.reserved if reserves else node.promised, ask.request, 1)
        self.changed(node)

    def withdraw(self, name: str, ask: str) -> Node:
        """Ends a promise, and returns the node. Raises KeyError if the node did not promise the ask anything."""
        node = self.by_name[name]
        reserves = node.reserving.pop(ask, None) is not None
        if reserves and not node.reserving:
            del self.reserving[name]
        add_to(node.reserved if reserves else node.promised, node.promises.pop(ask).request, -1)
        if not node.promises:
            self.promising.pop(name, None)
        self.changed(node)
        return node

    def leave(self, name: str, request: Amounts, sign: int) -> None:
        """Room of a node begins to leave (`sign` 1), or stays or is free (-1)."""
        node = self.by_name[name]
        add_to(node.leaving, request, sign)
        self._columns.changed(node)
        if node.promises:
            self.changed(node)

    def note(self, allocation: Allocation, leaf: Queue) -> None:
        """Notes an allocation of a leaf. The room is taken by `use`."""
        self.by_name[allocation.node].add(allocation, leaf)
        self._columns.add(allocation, leaf)

    def forget(self, allocation: Allocation, leaf: Queue) -> None:
        """Removes an allocation that `note` noted."""
        self.by_name[allocation.node].remove(allocation)
        self._columns.remove(allocation, leaf)

    def find(self, request: Amounts, constraint: Hashable = None) -> Node | None:
        """The first node with room for a request that meets the constraint; None if there is none."""
        for node in self.ordered.fitting(request):
            if self.is_admitted(constraint, node.name):
                return node
        return None

    def has_room(self, name: str, request: Amounts, constraint: Hashable, *, in_turn: bool = False) -> Node | None:
        """The node with a name if it has room for a request; None if it has not, or does not exist. `in_turn`: promises
        come first."""
        node = self.by_name.get(name)
        if (
            node is None
            or not fits_request(request, node.open if in_turn else node.free)
            or not self.is_admitted(constraint, name)
        ):
            return None
        return node

    def is_admitted(self, constraint: Hashable, name: str) -> bool:
        """True if a node meets a constraint; None is met by every node."""
        return constraint is None or self.admits is None or self.admits(constraint, name)

    def changed(self, node: Node) -> None:
        """Renews the place of a node in the order."""
        self._open(node)
        self._columns.changed(node)
        if self._later is not None:
            self._later[node.name] = node
            return
        if node.key is not None:
            self.ordered.remove(node.key)
        node.key = self._key(node)
        self.ordered.add(node.key, node)

    @staticmethod
    def _open(node: Node) -> None:
        node.open = node.open_beside(node.promised, node.reserved) if node.promises else node.free

    def defer(self) -> None:
        """Leaves the places of nodes that change from now on as they are, until `settle`. No node may be searched
        meanwhile."""
        if self._later is None:
            self._later = {}

    def settle(self) -> None:
        """Renews the places of the nodes that have changed since `defer`, each once."""
        changed, self._later = self._later or {}, None
        if len(changed) > len(self.by_name) // REFILLED:
            self._refill(changed.values())
        else:
            for node in changed.values():
                self.changed(node)

    @contextmanager
    def settling(self) -> Iterator[None]:
        """Calls `defer`, and `settle` at the end; does nothing if `defer` was called before."""
        if self._later is not None:
            yield
            return
        self.defer()
        try:
            yield
        finally:
            self.settle()

    def _refill(self, changed: Iterable[Node]) -> None:
        for node in changed:
            node.key = self._key(node)
        self.ordered.clear()
        self.ordered.fill((node.key, node) for node in self.by_name.values() if node.key is not None)

    def _key(self, node: Node) -> tuple[int, str]:
        used = 0
        for name, total, factor in node.factors:
            used += factor * (total - node.free[name])
        return (self._sign * ((used << self._shift) // node.whole), node.name)


class Closings:
    """The times for which nodes are reserved for asks without victims, so that each is open to all asks half of the
    time: the present reservations, and those that have ended within the last `WINDOW`, by name of the node. Times are
    seconds of the clock of the asks."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._ended: dict[str, list[tuple[float, float]]] = {}

    def begin(self, node: str, now: float) -> None:
        """A node is reserved from now on."""
        self._since.setdefault(node, now)

    def settle(self, reserved: Container[str], now: float) -> None:
        """Ends the reservations of nodes that are not reserved any more, and forgets those that ended long ago."""
        for node in [node for node in self._since if node not in reserved]:
            self._ended.setdefault(node, []).append((self._since.pop(node), now))
        for node, spans in list(self._ended.items()):
            spans[:] = [span for span in spans if span[1] > now - WINDOW]
            if not spans:
                del self._ended[node]

    def left(self, node: str, now: float) -> float:
        """Seconds for which a node may be reserved from now on at least, without a break; 0 or less: no longer."""
        since = self._since.get(node, now)
        spans = (*self._ended.get(node, ()), (since, now))
        inside: float = sum(max(0.0, end - max(begin, now - WINDOW)) for begin, end in spans)
        return MOST_IN_WINDOW - inside


def _check(name: str, total: Vector) -> None:
    if any(not 0 <= amount <= LARGEST for amount in total.values()):
        raise ValueError(f"node {name}: an amount is negative or above {LARGEST}")
