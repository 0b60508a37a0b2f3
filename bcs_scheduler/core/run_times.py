"""The running times of taskgroups that have ended by themselves, in a ring, by application and by kind, for estimates
of the time at which room becomes free.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from bcs_scheduler.core.context import TurnContext

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


REMEMBERED = 5000
"""Ended taskgroups that are known to be counted; their records change a few times after the end."""


class EndedRuns:
    """Adds the running time of each taskgroup that has finished by itself to `TurnContext.run_times`."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn
        self._counted: OrderedDict[str, None] = OrderedDict()

    def recover(self) -> None:
        """Does nothing: the running times begin with the term, and an error makes none of them wrong."""

    def notice(self, changed: Sequence[tuple[str, str]]) -> None:
        """Counts the taskgroups among the changed records that have finished and were not requested to end."""
        self._turn.each("taskgroup", [key for kind, key in changed if kind == "taskgroup"], self._follow)

    def _follow(self, key: str) -> None:
        group = self._turn.state.taskgroups.get(key)
        if group is None or group.status != "Finish" or group.killing_since or key in self._counted:
            return
        application = self._turn.state.applications.get(group.application_key)
        if application is None or not group.ended_at:
            return
        if len(self._counted) >= REMEMBERED:
            self._counted.popitem(last=False)
        self._counted[key] = None
        seconds = max(0.0, group.ended_at - group.created_at)
        self._turn.run_times.add(application.key, application.type, seconds)

    def tick(self) -> None:
        """Does nothing: no work depends on time."""

    def next_timer(self) -> float | None:
        """Returns None: no moment (Unix seconds) matters."""
        return None
