"""The agents on which a task of one template could be placed now, best first.

One cache per template. It follows the log of changes of the agents: an agent that did not change keeps its place in
the heap, and entries that are no longer true are passed over. A change that concerns other agents as well makes the
cache anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from typing import TYPE_CHECKING, Any

import numpy as np

from offers.policy.session.columns import Array
from offers.policy.session.state.agents import AgentTable
from offers.policy.session.state.templates import Need

if TYPE_CHECKING:
    from offers.policy.session.plugins.interface import Feasibility, Scorer

NOT = 2**62
"""Stands for the key of an agent that is no candidate."""
_FEW = 4
"""The cache is made anew if more than one in so many agents changed."""


class Candidates:
    """Keys are ``rank - agents * score``: the smallest key is the highest score, then the lowest name."""

    def __init__(
        self, table: AgentTable, need: Need, tests: Sequence[Feasibility], scorers: Sequence[tuple[int, Scorer]]
    ) -> None:
        """`scorers`: with their weights."""
        self.need = need
        self._table = table
        self._tests = tests
        self._scorers = scorers
        self._dynamic = [test.dynamic for test in tests if test.dynamic is not None]
        self._volatile = any(test.volatile for test in tests) or any(scorer.volatile for _, scorer in scorers)
        self._relative = any(scorer.relative for _, scorer in scorers) and bool(self._dynamic)
        static = np.ones(len(table), dtype=bool)
        for test in tests:
            static &= test.static
        self.static_mask = static
        """The agents that pass the part of the predicates that cannot change, as booleans by rank."""
        self.static: list[bool] | None = None if static.all() else static.tolist()
        self.mark = hash(static.tobytes())
        """Tells apart which agents pass that part."""
        self._heap: list[int] = []
        self._keys: list[int] = []
        self._accepted: list[Any] = []
        self._rows = [(amount, table.idle[d], table.future[d]) for d, amount in need.row]
        self._seen = -1
        self._none_later = -1
        self._score = self._score_of()
        self.log = table.log
        self.depends_on_others = self._volatile or any(scorer.relative for _, scorer in scorers)
        """True if a change on one agent may change the keys of others."""

    # --- questions --------------------------------------------------------------------------------------------

    def best_now(self) -> int | None:
        """The rank of the best agent on which the request fits now; None if there is none."""
        self._refresh()
        heap, keys, count = self._heap, self._keys, len(self._table)
        while heap:
            key = heap[0]
            if keys[key % count] == key:
                return key % count
            heappop(heap)
        return None

    def best_later(self) -> int | None:
        """The rank of the best agent on which the request fits later; None if there is none. Asked if nothing fits now:
        then only agents count that something is leaving."""
        table = self._table
        if not table.leaving or self._none_later == len(table.log):
            return None
        best = None
        for rank in table.leaving:
            if table.fits_later(rank, self.need) and self.accepts(rank):
                key = rank - len(table) * self.score(rank)
                if best is None or key < best:
                    best = key
        if best is None:
            self._none_later = len(table.log)
            return None
        return best % len(table)

    def accepts(self, rank: int) -> bool:
        """True if every predicate holds on an agent."""
        return (self.static is None or self.static[rank]) and all(test(rank) for test in self._dynamic)

    def score(self, rank: int) -> int:
        """The score of an agent now."""
        self._refresh()
        return self._score(rank)

    def key(self, rank: int) -> int:
        """The key of an agent now, regardless of its room; `NOT` if a predicate refuses the agent."""
        return rank - len(self._table) * self._score(rank) if self.accepts(rank) else NOT

    def keys_of_accepted(self) -> list[int]:
        """The same for all agents, by rank."""
        mask = self.mask()
        keys = np.arange(len(self._table)) - len(self._table) * self._scores(mask)
        accepted: list[int] = np.where(mask, keys, NOT).tolist()
        return accepted

    def capacity(self, *, ever: bool) -> int:
        """Counts the tasks of the template that agents which pass the predicates could take at most, now or later. With
        `ever`, nothing else is there, and only predicates count that cannot change."""
        if not self.need.row:
            return NOT
        table = self._table
        columns = table.snapshot.columns.total_arrays if ever else table.arrays().future
        counts = np.where(self.static_mask if ever else self.mask(), NOT, 0)
        for d, amount in self.need.row:
            counts = np.minimum(counts, np.maximum(columns[d], 0) // amount)
        return int(counts.sum())

    def refusals(self) -> dict[str, int]:
        """The number of agents by the first reason that refuses each, in the order of the reasons' first appearance."""
        refusals: dict[str, int] = {}
        names = self._table.snapshot.dimensions
        short = [
            (f"Insufficient {names[d]}", np.minimum(self._table.arrays().idle[d], self._table.arrays().future[d]) < q)
            for d, q in self.need.row
        ]
        left = self.mask()
        for rank in np.nonzero(~left)[0]:
            reason = next((why for test in self._tests if (why := test.why(int(rank))) is not None), "Refused")
            refusals[reason] = refusals.get(reason, 0) + 1
        for reason, mask in short:
            number = int((left & mask).sum())
            if number:
                refusals[reason] = number
                left = left & ~mask
        return refusals

    # --- placing ----------------------------------------------------------------------------------------------

    def place(self, number: int) -> list[int]:
        """Takes the room of up to so many tasks, each on the agent that is best when its turn comes. The ranks."""
        self._refresh()
        if self._volatile or self._relative:
            return self._place_one_by_one(number)
        table, need = self._table, self.need
        heap, keys, count = self._heap, self._keys, len(table)
        tasks, cpus, mem, log = table.count, table.score_cpus, table.score_mem, table.log
        more_cpus, more_mem, rows, dynamic = need.score_cpus, need.score_mem, self._rows, self._dynamic
        score = self._score
        ranks: list[int] = []
        while heap and len(ranks) < number:
            key = heap[0]
            rank = key % count
            if keys[rank] != key:
                heappop(heap)
                continue
            fits = True
            for amount, idle, future in rows:
                left = idle[rank] - amount
                idle[rank] = left
                later = future[rank] - amount
                future[rank] = later
                if left < amount or later < amount:
                    fits = False
            tasks[rank] += 1
            cpus[rank] += more_cpus
            mem[rank] += more_mem
            if need.ports:
                table.take_ports(rank, need.ports, 1)
            log.append(rank)
            ranks.append(rank)
            if fits:
                for test in dynamic:
                    if not test(rank):
                        fits = False
            if fits:
                key = rank - count * score(rank)
                keys[rank] = key
                heapreplace(heap, key)
            else:
                keys[rank] = NOT
                heappop(heap)
        self._seen = len(log)
        return ranks

    def _place_one_by_one(self, number: int) -> list[int]:
        ranks: list[int] = []
        while len(ranks) < number and (rank := self.best_now()) is not None:
            self._table.place(rank, self.need, 1, later=False)
            ranks.append(rank)
        return ranks

    # --- keeping up -------------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        log = self._table.log
        if self._seen == len(log):
            return
        changed = log[self._seen :] if self._seen >= 0 else []
        if len(changed) > 1:
            changed = list(dict.fromkeys(changed))
        if self._seen < 0 or self._volatile or len(changed) * _FEW > len(self._table):
            self._rebuild()
            return
        count, keys = len(self._table), self._keys
        self._seen = len(log)
        for rank in changed:
            accepted = self.accepts(rank)
            if self._relative and self._accepted[rank] is not accepted:
                self._rebuild()
                return
            key = NOT
            if accepted:
                for amount, idle, future in self._rows:
                    if idle[rank] < amount or future[rank] < amount:
                        break
                else:
                    key = rank - count * self._score(rank)
            if key != keys[rank]:
                keys[rank] = key
                if key != NOT:
                    heappush(self._heap, key)

    def mask(self) -> Array:
        """The agents that pass every predicate which can answer for all agents at once, as booleans by rank."""
        mask = self.static_mask
        for test in self._tests:
            if test.dynamic_all is not None:
                mask = mask & test.dynamic_all()
        return mask

    def _scores(self, mask: Array) -> Array:
        scores = np.zeros(len(self._table), dtype=np.int64)
        for weight, scorer in self._scorers:
            scores = scores + weight * scorer.all(mask)
        return scores

    def _rebuild(self) -> None:
        self._seen = len(self._table.log)
        mask = self.mask()
        if self._relative:
            self._accepted = mask.tolist()
        keys = np.arange(len(self._table)) - len(self._table) * self._scores(mask)
        arrays = self._table.arrays()
        fits = mask
        for d, amount in self.need.row:
            fits = fits & (arrays.idle[d] >= amount) & (arrays.future[d] >= amount)
        self._heap = keys[fits].tolist()
        heapify(self._heap)
        self._keys = np.where(fits, keys, NOT).tolist()

    def _score_of(self) -> Callable[[int], int]:
        if len(self._scorers) == 1 and self._scorers[0][0] == 1:
            return self._scorers[0][1].of_agent
        scorers = [(weight, scorer.of_agent) for weight, scorer in self._scorers]
        return lambda rank: sum(weight * score(rank) for weight, score in scorers)
