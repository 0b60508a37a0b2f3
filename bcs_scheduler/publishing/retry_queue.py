"""Nodes that could not be written. These nodes do not delay the others, and are tried again with exponential
back-off."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bcs_scheduler.core.work_queue import WorkQueue
from bcs_scheduler.publishing.tree import Write

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds until a node is tried again: doubled each time up to the longest."""
LOSSES = 3
"""So often in a row the connection may be lost while a node is written before it is taken for the reason."""


@dataclass(slots=True)
class _Failure:
    data: bytes | None
    reason: str


class RetryQueue:
    """The publishing thread's own. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._failed: dict[str, _Failure] = {}
        self._again = WorkQueue()
        """When a node is tried again, by its path."""
        self._losses: dict[str, int] = {}

    def failed(self, write: Write, reason: str, now: float) -> bool:
        """True if that is news: nothing was known against the node, or something else."""
        before = self._failed.get(write.path)
        self._failed[write.path] = _Failure(write.data, reason)
        self._again.put(write.path, now + self._again.pause(write.path, FIRST_PAUSE, LONGEST_PAUSE))
        return before is None or before.reason != reason

    def lost(self, batch: Iterable[Write]) -> bool:
        """The connection was lost while these were written. Whether that has happened too often."""
        paths = [write.path for write in batch]
        for path in paths:
            self._losses[path] = self._losses.get(path, 0) + 1
        return len(paths) == 1 and self._losses[paths[0]] >= LOSSES

    def waits(self, write: Write, now: float) -> bool:
        """The same has failed a short while ago. Something else is tried at once."""
        known, due = self._failed.get(write.path), self._again.time_of(write.path)
        return known is not None and known.data == write.data and due is not None and now < due

    def is_suspect(self, path: str) -> bool:
        """Returns True if the path has failed before: it is written alone, because it could spoil a transaction with
        others."""
        return path in self._failed or path in self._losses

    def succeeded(self, path: str) -> bool:
        """Records that the path has been written. Returns True if it had failed before."""
        self._losses.pop(path, None)
        self._again.forget(path)
        return self._failed.pop(path, None) is not None

    def skipped(self) -> dict[str, str]:
        """Reasons of the nodes that could not be written, by path. Any thread."""
        return {path: failure.reason for path, failure in self._failed.copy().items()}

    def due(self, now: float) -> list[str]:
        return [path for path in self._again if (due := self._again.time_of(path)) is not None and due <= now]

    def next(self) -> float:
        """When one is tried again; infinity if there is none."""
        first = self._again.first()
        return first if first is not None else float("inf")
