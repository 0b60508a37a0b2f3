"""Follows the ends of taskgroups, for estimates of the time at which room becomes free."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from bcs_scheduler.core.context import TurnContext

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
