"""A policy engine with one queue that sorts by submission, over nodes with room: the reference engine of gangs.

The figures of queue and nodes are kept apart and checked at each change: no node gives more than it has, and the usage
of the queue is the sum of its allocations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from offers.dimensions import Amounts
from offers.policy.amounts import Vector, fits, fits_limit
from offers.policy.applications.gangs.gang import Gang


class OneQueue:
    """The engine. `most`: the maximum of the queue; a resource that it does not name is not limited."""

    def __init__(
        self,
        nodes: Mapping[str, Vector],
        most: Vector | None = None,
        by_submission: bool = True,
        suits: Callable[[str, str], bool] | None = None,
    ) -> None:
        self.totals = {name: dict(total) for name, total in nodes.items()}
        self.free = {name: dict(total) for name, total in nodes.items()}
        self.most, self.by_submission = dict(most or {}), by_submission
        self.used: dict[str, int] = {}
        self.allocations: dict[str, tuple[Amounts, str]] = {}
        self.held: dict[str, tuple[Amounts, str]] = {}
        self.pending: dict[str, tuple[float, Amounts]] = {}
        self._suits = suits or (lambda task, node: True)
        self.withdrawn = 0
        self.checked = True

    def refusal(self, application: str, queue: str, placeholder_ask: Vector) -> str | None:
        if not self.by_submission:
            return f"the queue {queue} does not sort by submission"
        return None if fits_limit(placeholder_ask, self.most) else f"the maximum of {queue} is smaller than the gang"

    def ask(self, application: str, name: str, request: Amounts, created: float) -> None:
        assert name not in self.pending and name not in self.allocations
        self.pending[name] = (created, request)

    def withdraw(self, application: str, name: str) -> None:
        del self.pending[name]
        self.withdrawn += 1

    def occupy(self, application: str, name: str, request: Amounts, node: str) -> None:
        assert name not in self.allocations
        self._node(node, request, -1)
        self._queue(request, 1)
        self.allocations[name] = (request, node)
        self.check()

    def release(self, application: str, name: str) -> None:
        if name in self.held:
            request, node = self.held.pop(name)
        else:
            request, node = self.allocations.pop(name)
            self._queue(request, -1)
        self._node(node, request, 1)
        self.check()

    def hold(self, application: str, name: str, request: Amounts, node: str) -> None:
        assert name not in self.held
        self._node(node, request, -1)
        self.held[name] = (request, node)
        self.check()

    def replace(self, application: str, placeholder: str, name: str, request: Amounts, node: str) -> None:
        old, place = self.allocations.pop(placeholder)
        self._node(place, old, 1)
        self._queue(old, -1)
        if name in self.held:
            assert self.held.pop(name) == (request, node)
        else:
            self._node(node, request, -1)
        self._queue(request, 1)
        self.allocations[name] = (request, node)
        self.check()

    def suits(self, application: str, name: str, node: str) -> bool:
        return self._suits(name, node)

    def find(self, application: str, name: str, request: Amounts) -> str | None:
        suitable = (node for node in sorted(self.free) if self._suits(name, node))
        return next((node for node in suitable if fits(dict(request), self.free[node])), None)

    def cycle(self, gang: Gang, now: float, limit: int | None = None) -> int:
        """Allocates what fits, the oldest ask first, at most `limit` times (None: without limit). Returns how many."""
        done = 0
        for name, (_, request) in sorted(self.pending.items(), key=lambda one: (one[1][0], one[0])):
            room = {key: most - self.used.get(key, 0) for key, most in self.most.items()}
            node = self.find("", name, request) if fits_limit(dict(request), room) else None
            if node is None or done == limit:
                continue
            del self.pending[name]
            self.occupy("", name, request, node)
            gang.allocated(name, node, now)
            done += 1
        return done

    def check(self) -> None:
        """The figures are the sums of what is allocated, and no node gives more than it has."""
        if not self.checked:
            return
        used: dict[str, int] = {}
        nodes = {name: dict(total) for name, total in self.totals.items()}
        for request, node in (*self.allocations.values(), *self.held.values()):
            for key, amount in request:
                nodes[node][key] = nodes[node].get(key, 0) - amount
        for request, _ in self.allocations.values():
            for key, amount in request:
                used[key] = used.get(key, 0) + amount
        assert nodes == self.free
        assert {key: amount for key, amount in self.used.items() if amount} == {k: a for k, a in used.items() if a}
        assert min((amount for node in self.free.values() for amount in node.values()), default=0) >= 0

    def _node(self, node: str, request: Amounts, sign: int) -> None:
        for key, amount in request:
            self.free[node][key] = self.free[node].get(key, 0) + sign * amount

    def _queue(self, request: Amounts, sign: int) -> None:
        for key, amount in request:
            self.used[key] = self.used.get(key, 0) + sign * amount
