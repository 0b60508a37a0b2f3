"""State machines as tables, one per kind of object of the manager's side: which event leads from which state to which.

A table is the whole machine. `Table.after` gives the next life of an object; the old one stays as it was, so an illegal
event changes nothing, neither here nor elsewhere.

States and events have the names of Apache YuniKorn, so that its documentation applies. An application has two
machines: one for the decisions about its room (`CORE_APPLICATION`), one for its life towards the manager that brought
the application (`APPLICATION`). docs/decisions/0045-application-managers.md says who sends which event.

Exception tree:

    OfferError
      IllegalEvent      an event that the table does not allow in the present state
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from offers.errors import OfferError

HISTORY_LINES = 10
"""Number of changes that a life remembers: the latest ones."""


class Change(NamedTuple):
    """One change of state. `at`: Unix seconds."""

    at: float
    event: str
    before: str
    after: str


class Life(NamedTuple):
    """The state of one object and how the object got there. `kind` is the name of its table."""

    kind: str
    key: str
    state: str
    history: tuple[Change, ...] = ()


class IllegalEvent(OfferError):
    """The table of the object has no row for this event in the present state. `life` is unchanged, and has the history
    of the object, oldest change first."""

    def __init__(self, life: Life, event: str) -> None:
        self.life, self.event = life, event
        past = [f"{change.at:.3f} {change.event}: {change.before} to {change.after}" for change in life.history]
        super().__init__("; ".join([f"{life.kind} {life.key}: no event {event} in the state {life.state}", *past]))


class Table:
    """A state machine. `rows` gives the next state for each pair of event and present state."""

    __slots__ = ("initial", "kind", "rows", "states")

    def __init__(self, kind: str, initial: str, rows: Iterable[tuple[str, str, str]]) -> None:
        """`rows`: event, the present states separated by blanks, and the next state; an empty next state: the present
        state stays. Raises ValueError if two rows have the same event and present state."""
        self.kind, self.initial = kind, initial
        table: dict[tuple[str, str], str] = {}
        for event, befores, after in rows:
            for before in befores.split():
                if (event, before) in table:
                    raise ValueError(f"{kind}: two rows for the event {event} in the state {before}")
                table[event, before] = after or before
        self.rows: Mapping[tuple[str, str], str] = table
        self.states = frozenset({initial, *(before for _, before in table), *table.values()})

    def born(self, key: str) -> Life:
        """The life of a new object."""
        return Life(self.kind, key, self.initial)

    def allows(self, life: Life, event: str) -> bool:
        """True if the event is legal in the present state."""
        return (event, life.state) in self.rows

    def after(self, life: Life, event: str, at: float) -> Life:
        """The life after an event; `at` in Unix seconds. Raises IllegalEvent."""
        following = self.rows.get((event, life.state))
        if following is None:
            raise IllegalEvent(life, event)
        history = (*life.history, Change(at, event, life.state, following))[-HISTORY_LINES:]
        return Life(life.kind, life.key, following, history)


class CoreState(StrEnum):
    """States of an application towards its queue."""

    NEW = "New"
    ACCEPTED = "Accepted"
    RUNNING = "Running"
    RESUMING = "Resuming"
    COMPLETING = "Completing"
    COMPLETED = "Completed"
    FAILING = "Failing"
    FAILED = "Failed"
    REJECTED = "Rejected"
    EXPIRED = "Expired"


CORE_APPLICATION = Table(
    "application in its queue",
    CoreState.NEW,
    [
        ("reject", "New", "Rejected"),
        ("run", "New Resuming", "Accepted"),
        ("run", "Accepted Running Completing", "Running"),
        ("complete", "Accepted Running", "Completing"),
        ("complete", "Completing", "Completed"),
        ("fail", "New Accepted Running", "Failing"),
        ("fail", "Failing", "Failed"),
        ("resume", "New Accepted", "Resuming"),
        ("expire", "Completed Failed Rejected", "Expired"),
    ],
)
"""An application that completes may run again when another ask arrives. One whose gang did not come together resumes
as an ordinary one (Soft), or fails (Hard)."""


class AppState(StrEnum):
    """States of an application towards its manager."""

    NEW = "New"
    SUBMITTED = "Submitted"
    RECOVERING = "Recovering"
    ACCEPTED = "Accepted"
    RESERVING = "Reserving"
    RESUMING = "Resuming"
    RUNNING = "Running"
    COMPLETED = "Completed"
    REJECTED = "Rejected"
    FAILING = "Failing"
    FAILED = "Failed"
    KILLING = "Killing"
    KILLED = "Killed"


UNDECIDED = (AppState.NEW, AppState.SUBMITTED, AppState.RECOVERING, AppState.ACCEPTED, AppState.RESERVING)
"""States of an application before its tasks may start."""

APPLICATION = Table(
    "application",
    AppState.NEW,
    [
        ("Submit", "New", "Submitted"),
        ("Recover", "New", "Recovering"),
        ("Accept", "Submitted Recovering", "Accepted"),
        ("TryReserve", "Accepted", "Reserving"),
        ("UpdateReservation", "Reserving", ""),
        ("Resuming", "Reserving", "Resuming"),
        ("AppTaskCompleted", "Resuming", ""),
        ("Run", "Accepted Reserving Resuming Running", "Running"),
        ("ReleaseAllocation", "Running Failing Resuming Accepted Reserving", ""),
        ("ReleaseAsk", "Running Accepted Reserving", "Running"),
        ("ReleaseAsk", "Failing Resuming", ""),
        ("Complete", "Running", "Completed"),
        ("Reject", "Submitted Recovering", "Rejected"),
        ("Fail", "Submitted Accepted Running Reserving", "Failing"),
        ("Fail", "Failing Rejected", "Failed"),
        ("Kill", "Accepted Running Reserving", "Killing"),
        ("Killed", "Killing", "Killed"),
    ],
)
"""An allocation may be released before the application runs, because placeholders are allocations."""


class TaskState(StrEnum):
    """States of a task of an application."""

    NEW = "New"
    PENDING = "Pending"
    SCHEDULING = "Scheduling"
    ALLOCATED = "Allocated"
    BOUND = "Bound"
    COMPLETED = "Completed"
    KILLING = "Killing"
    KILLED = "Killed"
    REJECTED = "Rejected"
    FAILED = "Failed"


TASK = Table(
    "task",
    TaskState.NEW,
    [
        ("InitTask", "New", "Pending"),
        ("SubmitTask", "Pending", "Scheduling"),
        ("TaskAllocated", "Scheduling", "Allocated"),
        ("TaskAllocated", "Completed", ""),
        ("TaskBound", "Allocated", "Bound"),
        ("TaskReturned", "Allocated Bound", "Scheduling"),
        ("CompleteTask", " ".join(TaskState), "Completed"),
        ("KillTask", "Pending Scheduling Allocated Bound", "Killing"),
        ("TaskKilled", "Killing", "Killed"),
        ("TaskRejected", "New Pending Scheduling", "Rejected"),
        ("TaskFail", "Rejected Allocated", "Failed"),
    ],
)
"""A task may end at any time, because its end is a fact and not a request. An allocation for a completed task is
released again at once. A task whose launch did not happen is returned: its allocation is released, and the task asks
again."""

TERMINATED = frozenset({TaskState.REJECTED, TaskState.KILLED, TaskState.FAILED, TaskState.COMPLETED})
"""States of tasks that do not keep their application from being removed."""


class PlaceholderState(StrEnum):
    """States of a placeholder. Asked: waits for a node; Allocated: has a node and is being created; Bound: exists and
    holds its room; Releasing: its removal is requested; Gone: its removal is confirmed."""

    ASKED = "Asked"
    ALLOCATED = "Allocated"
    BOUND = "Bound"
    RELEASING = "Releasing"
    GONE = "Gone"


PLACEHOLDER = Table(
    "placeholder",
    PlaceholderState.ASKED,
    [
        ("Allocate", "Asked", "Allocated"),
        ("Bind", "Allocated", "Bound"),
        ("Bind", "Releasing", ""),
        ("Lost", "Bound", "Allocated"),
        ("Withdraw", "Asked", "Gone"),
        ("Release", "Allocated Bound", "Releasing"),
        ("Gone", "Allocated Bound Releasing", "Gone"),
    ],
)
"""A placeholder without a node is withdrawn at once. A creation may be confirmed after its release was requested; the
release is repeated then. A placeholder that is lost with its scheduler is created again."""
