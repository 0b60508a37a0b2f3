"""The check of sums in the background: the numbers of each task group must be those of its placeholders.

A fault means that a task may wait for a placeholder that does not exist, or that room is held for no task. Each fault
is reported once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from bcs_scheduler.core.context import TurnContext
from offers.policy.applications.gangs.records import ReleaseType
from offers.policy.applications.tables import PlaceholderState
from store.records import ManagedApplication
from store.state import State
from transactions.text import counted

PERIOD = 60.0
"""Seconds from the end of one round over all managed applications to the next."""
SLICE = 50
"""Managed applications that are looked at in one turn."""
METRIC = "managed_sums_wrong"
SERVES = (PlaceholderState.ASKED, PlaceholderState.ALLOCATED, PlaceholderState.BOUND)


def faults_of(state: State, record: ManagedApplication) -> Iterator[str]:
    """One sentence for each number of a managed application that is wrong."""
    serving: Counter[str] = Counter()
    for key in state.indexes.managed_by("placeholder", record.key):
        holder = state.placeholders[key]
        if holder.state in SERVES or holder.release == ReleaseType.REPLACED:
            serving[holder.group] += 1
    for group in record.task_groups:
        wanted = group.replaced + group.timed_out + serving[group.name]
        if group.total != wanted:
            yield (
                f"task group {group.name}: {group.total} placeholders were asked for, but {group.replaced} were "
                f"replaced, {group.timed_out} given up, and {serving[group.name]} serve"
            )
    taken = Counter(
        task.placeholder
        for key in state.indexes.managed_by("managedtask", record.key)
        if (task := state.managed_tasks[key]).placeholder
    )
    for name, number in taken.items():
        if number > 1:
            yield f"the room of placeholder {name} is promised to {counted(number, 'task')}"


class SumsCheck:
    """Goes over all managed applications, in slices."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn
        self.next_wake = 0.0
        """Unix seconds of the next slice."""
        self._left: list[str] = []
        self._reported: dict[str, tuple[str, ...]] = {}
        """The faults that have been reported, by managed application."""

    def begin(self) -> None:
        """A term begins: the first round comes after the period."""
        self.next_wake = self._turn.now + PERIOD

    def go_on(self) -> None:
        """Looks at a slice when its time has come."""
        turn = self._turn
        if turn.now < self.next_wake:
            return
        applications = turn.state.managed_applications
        if not self._left:
            self._left = list(applications)
            self._reported = {key: words for key, words in self._reported.items() if key in applications}
        for key in self._left[:SLICE]:
            record = applications.get(key)
            if record is not None:
                self._report(key, tuple(faults_of(turn.state, record)))
        del self._left[:SLICE]
        self.next_wake = turn.now if self._left else turn.now + PERIOD

    def _report(self, key: str, faults: tuple[str, ...]) -> None:
        turn = self._turn
        if faults != self._reported.get(key, ()):
            for words in faults:
                turn.record_event("application", key, "ManagedSumsWrong", words)
                turn.count(METRIC, (), 1)
        if faults:
            self._reported[key] = faults
        else:
            self._reported.pop(key, None)
