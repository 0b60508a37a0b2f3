"""All agents that pass the predicates for one template, best first; their room does not matter."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from offers.policy.session.state.candidates import NOT, Candidates


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
            for key in shown:
                heappush(heap, key)

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
            return
        for rank in changed:
            key = candidates.key(rank)
            if key != self._keys[rank]:
                self._keys[rank] = key
                if key != NOT:
                    heappush(self._heap, key)
