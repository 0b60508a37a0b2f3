"""Takes objects best first while their keys change."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import Any

from offers.policy.session.state.jobs import JobState


class BestJobs:
    """Jobs of which the best is taken. `log` names jobs whose figures changed; these are put in order again."""

    def __init__(
        self, jobs: Iterable[JobState], key: Callable[[JobState], tuple[Any, ...]], log: list[JobState]
    ) -> None:
        self._key = key
        self._log, self._seen = log, len(log)
        self._left = {job.number: job for job in jobs}
        self._keys = {number: key(job) for number, job in self._left.items()}
        self._heap = [(entry, number) for number, entry in self._keys.items()]
        heapify(self._heap)

    def take(self) -> JobState | None:
        """The best job that is left; None if none is left."""
        for job in self._log[self._seen :]:
            if job.number in self._left:
                entry = self._key(job)
                if entry != self._keys[job.number]:
                    self._keys[job.number] = entry
                    heappush(self._heap, (entry, job.number))
        self._seen = len(self._log)
        while self._heap:
            entry, number = heappop(self._heap)
            if number in self._left and self._keys[number] == entry:
                return self._left.pop(number)
        return None
