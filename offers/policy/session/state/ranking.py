"""All agents that pass the predicates for one template, best first; their room does not matter.

A `Search` also passes over agents on which no victims were found, as long as this cannot have changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush

from offers.policy.session.state.candidates import NOT, Candidates
from offers.policy.session.state.statements import Changes


class Ranking:
    """Follows the log of the agents like `Candidates`, and is asked by searches for room that is not there yet."""

    def __init__(self, candidates: Candidates) -> None:
        self._candidates = candidates
        self._heap: list[int] = []
        self._keys: list[int] = []
        self._seen = -1

    def __iter__(self) -> Iterator[int]:
        """Yields the ranks, best first. The agents may change while the iteration is not continued."""
        self._refresh()
        heap, keys = self._heap, self._keys
        count = len(keys)
        shown: list[int] = []
        try:
            while heap:
                key = heappop(heap)
                if keys[key % count] != key or (shown and shown[-1] == key):
                    continue
                shown.append(key)
                yield key % count
        finally:
            self._show_again(shown)

    def _show_again(self, shown: list[int]) -> None:
        for key in shown:
            heappush(self._heap, key)

    def _refresh(self) -> None:
        candidates = self._candidates
        log = candidates.log
        if self._seen == len(log):
            return
        changed = dict.fromkeys(log[self._seen :]) if self._seen >= 0 else {}
        every = self._seen < 0 or candidates.depends_on_others or len(changed) * 4 > len(self._keys)
        self._seen = len(log)
        if every:
            self._keys = candidates.keys_of_accepted()
            self._heap = [key for key in self._keys if key != NOT]
            heapify(self._heap)
            self._have_changed(None)
            return
        self._have_changed(changed)
        for rank in changed:
            key = candidates.key(rank)
            if key != self._keys[rank]:
                self._keys[rank] = key
                if key != NOT:
                    heappush(self._heap, key)

    def _have_changed(self, ranks: Iterable[int] | None) -> None:
        """Agents have changed; None means all, which are in the heap."""


class Search(Ranking):
    """A ranking for tasks that are alike: same template, same possible victims. While operations are added, victims
    become fewer: so an agent without enough victims is set aside until something changes on the agent, or until the
    state in which the agent was set aside is undone. Belongs to the turn of one queue in one action."""

    def __init__(self, candidates: Candidates, changes: Changes) -> None:
        super().__init__(candidates)
        self._changes = changes
        self._undone = len(changes.undone)
        self._aside: dict[int, int] = {}
        """The versions of the state in which ranks were set aside, in this order; all precede the present one."""

    def set_aside(self, rank: int) -> None:
        """The agent, which the iteration has just given, has not enough victims as things stand."""
        self._aside[rank] = self._changes.version

    def _show_again(self, shown: list[int]) -> None:
        count, aside = len(self._keys), self._aside
        super()._show_again([key for key in shown if key % count not in aside])

    def _refresh(self) -> None:
        undone = self._changes.undone
        if self._undone < len(undone):
            reached = min(undone[self._undone :])
            self._undone = len(undone)
            self._return([rank for rank, version in self._aside.items() if version > reached])
        super()._refresh()

    def _have_changed(self, ranks: Iterable[int] | None) -> None:
        if ranks is None:
            self._aside.clear()
        else:
            self._return(rank for rank in ranks if rank in self._aside)

    def _return(self, ranks: Iterable[int]) -> None:
        for rank in list(ranks):
            del self._aside[rank]
            heappush(self._heap, self._keys[rank])
