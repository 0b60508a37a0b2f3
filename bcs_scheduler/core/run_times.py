"""The running times of taskgroups that have ended by themselves, in a ring, by application and by kind."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import NamedTuple

MOST = 5000
"""Runs that are kept altogether."""
OF_APPLICATION = 3
"""Runs of an application that are a basis for an estimate."""
OF_KIND = 20
"""Runs of a kind of application that are a basis for applications without runs of their own."""
PARTS = (0.1, 0.5, 0.9)
"""The parts of the runs that end until the earliest, the expected and the latest time."""


class _Run(NamedTuple):
    """One run; `seconds` from the launch to the end."""

    application: str
    kind: str
    seconds: float


class RunTimes:
    """Begins empty with each term. Memory and costs do not grow with the number of taskgroups."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._runs: deque[_Run] = deque()
        self._by_application: defaultdict[str, deque[float]] = defaultdict(deque)
        self._by_kind: defaultdict[str, deque[float]] = defaultdict(deque)

    def __len__(self) -> int:
        """Returns the number of runs that are kept."""
        return len(self._runs)

    def add(self, application: str, kind: str, seconds: float) -> None:
        """Adds a run, in seconds. The oldest one leaves if there are too many."""
        if len(self._runs) >= self._most:
            oldest = self._runs.popleft()
            self._by_kind[oldest.kind].popleft()
            left = self._by_application[oldest.application]
            left.popleft()
            if not left:
                del self._by_application[oldest.application]
        self._runs.append(_Run(application, kind, seconds))
        self._by_application[application].append(seconds)
        self._by_kind[kind].append(seconds)

    def basis(self, application: str, kind: str) -> tuple[float, ...]:
        """The runs in seconds, sorted, that an estimate for the application is made from: its own ones, or those of its
        kind; empty if there are too few."""
        own = self.own(application)
        if own is not None:
            return own
        alike = self._by_kind.get(kind, ())
        return tuple(sorted(alike)) if len(alike) >= OF_KIND else ()

    def own(self, application: str) -> tuple[float, ...] | None:
        """The runs of an application in seconds, sorted; None if they are too few for an estimate."""
        own = self._by_application.get(application, ())
        return tuple(sorted(own)) if len(own) >= OF_APPLICATION else None

    def applications(self) -> list[str]:
        """The applications with runs, by key."""
        return list(self._by_application)


def remaining(runs: tuple[float, ...], age: float) -> tuple[float, float, float] | None:
    """Seconds until the end of a run that has lasted `age` seconds: early, expected, late (`PARTS`). None if fewer than
    `OF_APPLICATION` of the runs have lasted longer. `runs`: sorted."""
    later = [seconds - age for seconds in runs if seconds > age]
    if len(later) < OF_APPLICATION:
        return None
    early, middle, late = (later[min(int(part * len(later)), len(later) - 1)] for part in PARTS)
    return early, middle, late
