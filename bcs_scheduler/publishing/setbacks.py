"""Nodes that could not be written: they must not hold up the others, and are tried again, the more rarely the longer
it goes on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bcs_scheduler.publishing.tree import Write

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds until a node is tried again: doubled each time up to the longest."""
LOSSES = 3
"""So often in a row the connection may be lost while a node is written before it is taken for the reason."""


@dataclass(slots=True)
class _Setback:
    data: bytes | None
    reason: str
    pause: float
    due: float


class Setbacks:
    """The publishing thread's own. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._failed: dict[str, _Setback] = {}
        self._losses: dict[str, int] = {}

    def failed(self, write: Write, reason: str, now: float) -> bool:
        """Whether that is news: nothing was known against the node, or something else."""
        before = self._failed.get(write.path)
        pause = min(before.pause * 2, LONGEST_PAUSE) if before is not None else FIRST_PAUSE
        self._failed[write.path] = _Setback(write.data, reason, pause, now + pause)
        return before is None or before.reason != reason

    def lost(self, batch: Iterable[Write]) -> bool:
        """The connection was lost while these were written. Whether that has happened too often."""
        paths = [write.path for write in batch]
        for path in paths:
            self._losses[path] = self._losses.get(path, 0) + 1
        return len(paths) == 1 and self._losses[paths[0]] >= LOSSES

    def waits(self, write: Write, now: float) -> bool:
        """The same has failed a short while ago. Something else is tried at once."""
        known = self._failed.get(write.path)
        return known is not None and known.data == write.data and now < known.due

    def suspect(self, path: str) -> bool:
        """It is written alone, or it could spoil the transaction of others."""
        return path in self._failed or path in self._losses

    def overcome(self, path: str) -> bool:
        """It is as it should be. Whether it was not."""
        self._losses.pop(path, None)
        return self._failed.pop(path, None) is not None

    def due(self, now: float) -> list[str]:
        return [path for path, setback in self._failed.items() if setback.due <= now]

    def next(self) -> float:
        """When one is tried again; infinity if there is none."""
        return min((setback.due for setback in self._failed.values()), default=float("inf"))
