"""The check of sums in the background: the numbers of each task group must be those of its placeholders.

A fault means that a task may wait for a placeholder that does not exist, or that room is held for no task. Each fault
is reported once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from bcs_scheduler.core.context import TurnContext
from offers.policy.applications.records import ReleaseType
from offers.policy.applications.tables import PlaceholderState
from store.records import ManagedApplication
from store.state import State
from transactions.text import counted

PERIOD = 60.0
"""Seconds from the end of one round over all managed applications to the next."""
SLICE = 1000
"""Managed applications, placeholders and tasks that are looked at in one turn: about a millisecond."""
METRIC = "managed_sums_wrong"
SERVES = (PlaceholderState.ASKED, PlaceholderState.ALLOCATED, PlaceholderState.BOUND)


def faults_of(state: State, record: ManagedApplication) -> tuple[str, ...]:
    """One sentence for each number of a managed application that is wrong."""
    faults: list[str] = []
    for _ in _steps(state, record, faults):
        pass
    return tuple(faults)


def _steps(state: State, record: ManagedApplication, faults: list[str]) -> Iterator[None]:
    """Adds the faults to `faults`, in steps of `SLICE` records."""
    serving: Counter[str] = Counter()
    for number, key in enumerate(list(state.indexes.managed_by("placeholder", record.key)), 1):
        holder = state.placeholders.get(key)
        if holder is not None and (holder.state in SERVES or holder.release == ReleaseType.REPLACED):
            serving[holder.group] += 1
        if number % SLICE == 0:
            yield
    for group in record.task_groups:
        expected = group.replaced + group.timed_out + serving[group.name]
        if group.total != expected:
            faults.append(
                f"task group {group.name}: {group.total} placeholders were asked for, but {group.replaced} were "
                f"replaced, {group.timed_out} given up, and {serving[group.name]} serve"
            )
    taken: Counter[str] = Counter()
    for number, key in enumerate(list(state.indexes.managed_by("managedtask", record.key)), 1):
        task = state.managed_tasks.get(key)
        if task is not None and task.placeholder:
            taken[task.placeholder] += 1
        if number % SLICE == 0:
            yield
    faults += [
        f"the room of placeholder {name} is promised to {counted(number, 'task')}"
        for name, number in taken.items()
        if number > 1
    ]


class SumsCheck:
    """Goes over all managed applications, in slices."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn
        self.next_wake = 0.0
        """Unix seconds of the next slice."""
        self._round: Iterator[None] | None = None
        """The rest of the present round; None between rounds."""
        self._reported: dict[str, tuple[str, ...]] = {}
        """The faults that have been reported, by managed application."""

    def begin(self) -> None:
        """A term begins: the first round comes after the period."""
        self.next_wake = self._turn.now + PERIOD
        self._round = None

    def go_on(self) -> None:
        """Looks at a slice when its time has come."""
        turn = self._turn
        if turn.now < self.next_wake:
            return
        self._round = self._round or self._slices()
        for _ in self._round:
            self.next_wake = turn.now
            return
        self._round = None
        self.next_wake = turn.now + PERIOD

    def _slices(self) -> Iterator[None]:
        """One round. A fault that seems to be there although records may have changed between the slices is looked for
        again at one moment."""
        state = self._turn.state
        self._reported = {key: words for key, words in self._reported.items() if key in state.managed_applications}
        looked_at = 0
        for key in list(state.managed_applications):
            record = state.managed_applications.get(key)
            if record is None:
                continue
            faults: list[str] = []
            yield from _steps(state, record, faults)
            present = state.managed_applications.get(key)
            if present is None:
                continue
            self._report(key, faults_of(state, present) if faults else ())
            looked_at += 1 + sum(len(state.indexes.managed_by(kind, key)) for kind in ("placeholder", "managedtask"))
            if looked_at >= SLICE:
                looked_at = 0
                yield

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
