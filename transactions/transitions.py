"""The tables of allowed changes of status, one per kind of record, and the error for a change that no table allows.

The unit of work asks these tables whenever the status of a record changes (store.state.unit_of_work.Transitions). An
illegal change is a defect of the scheduler: no part of the change is stored, the work that requested it is undone
(TurnContext.attempt), and all other work continues. docs/architecture.md explains the tables.

Exception tree:

    InvalidTransition        a status was to follow another one that it must not follow
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NoReturn

from store.records import Transaction
from store.state.reader import StateReader
from store.state.unit_of_work import Pair, Transitions

HISTORY_LINES = 10
"""Number of lines of an object's history that an InvalidTransition carries: the latest ones."""
RUNS_READ = 50
"""Runs of events, newest first, that are searched for them."""


class InvalidTransition(Exception):
    """The status of the object (`kind`, `key`) was to become `after`, which must not follow `before`; empty: there is
    no record. `history`: the last events of the object, or the history of a transaction, oldest first."""

    def __init__(self, kind: str, key: str, before: str, after: str, history: tuple[str, ...]) -> None:
        self.kind, self.key, self.before, self.after, self.history = kind, key, before, after, history
        super().__init__("; ".join([self.change, *history]))

    @property
    def change(self) -> str:
        """The change alone, without the history."""
        return f"{self.kind} {self.key} cannot change from {self.before or 'nothing'} to {self.after or 'nothing'}"


def _from(before: str, *after: str) -> Iterable[Pair]:
    return ((before, status) for status in after)


TRANSACTION: frozenset[Pair] = frozenset(
    {("", "INIT"), ("", "QUEUED"), ("FINISH", ""), ("FAIL", ""), ("TIMEOUT", ""), ("CANCEL", ""), ("SUPERSEDED", "")}
    | set(_from("INIT", "FINISH", "FAIL", "TIMEOUT", "CANCEL", "SUPERSEDED"))
    | set(_from("QUEUED", "INIT", "FINISH", "FAIL", "TIMEOUT", "CANCEL", "SUPERSEDED"))
)
"""A request may wait for its turn before its operation begins, or end without one. A verdict is final, and only ended
transactions are removed."""

_ENDS = ("Finish", "Killed", "Failed", "Error")
_GONE = ("Staging", "Starting", "Running", "Restarting", "Killing", *_ENDS, "Lost", "Unknown")
TASKGROUP: frozenset[Pair] = frozenset(
    {
        ("", "Staging"),
        *_from("Staging", "Starting", "Running", "Restarting", "Killing", "Lost", "Unknown", *_ENDS),
        *_from("Starting", "Running", "Restarting", "Killing", "Lost", "Unknown", *_ENDS),
        *_from("Running", "Starting", "Restarting", "Killing", "Lost", "Unknown", *_ENDS),
        *_from("Restarting", "Starting", "Running", "Killing", "Lost", "Unknown", *_ENDS),
        *_from("Killing", "Starting", "Running", "Restarting", "Lost", "Unknown", *_ENDS),
        *_from("Unknown", "Starting", "Running", "Restarting", "Killing", "Lost", *_ENDS),
        *_from("Lost", "Staging", "Starting", "Running", "Restarting", "Killing", "Unknown", *_ENDS),
        *_from("Error", "Killing", "Failed"),
        *((status, "") for status in _GONE),
    }
)
"""Follows from the statuses of the tasks, which are derived in transactions.rules.lifecycle: a task that
has ended stays as it ended, so Finish, Killed and Failed are final. Beside an invalid task (Error) others may still be
killed or fail. Running and Killing may be followed by earlier ones because the tasks of a taskgroup differ: one of them
is killed and gone while another one starts. A lost taskgroup comes back with its agent, in the status that it has
there."""

_SETTLED = ("Deploying", "Running", "Abnormal", "Error", "Finish", "Pending", "Stopped")
"""Statuses of an application that follow from its taskgroups."""
APPLICATION: frozenset[Pair] = frozenset(
    {
        *_from("", "Staging", "Operating", "RollingUpdate"),
        *_from("Staging", "Operating", *_SETTLED),
        *_from("Operating", "", *_SETTLED),
        *_from("RollingUpdate", "Operating", "Deploying"),
        *((before, after) for before in _SETTLED for after in _SETTLED if before != after),
        *((before, after) for before in _SETTLED for after in ("Operating", "RollingUpdate")),
    }
)
"""An operation begins from any status and ends with one that follows from the taskgroups. A side of a rolling update
stays one until the update is complete (Deploying) or the side is deleted (Operating). An application is removed only by
the operation that deletes it."""

DEPLOYMENT: frozenset[Pair] = frozenset(
    {
        *_from("", "Deploying", "Running"),
        *_from("Deploying", "Running", "Update", "Deleting"),
        *_from("Running", "Deploying", "Update", "UpdateResource", "Deleting"),
        *_from("Update", "Running", "UpdatePaused", "UpdateSuspend", "Deleting"),
        *_from("UpdatePaused", "Update", "UpdateSuspend", "Deleting"),
        *_from("UpdateSuspend", "Update", "Deleting"),
        *_from("UpdateResource", "Running", "Deleting"),
        ("Deleting", ""),
    }
)
"""A halted update continues as Update before it can be complete. Deleting is final. A paused update is suspended if an
application of it is gone when it is to be undone."""

_FOLLOWED = ("Starting", "Running", "Abnormal", "Updating")
"""Statuses of a daemonset that follow from its taskgroups and its update."""
DAEMONSET: frozenset[Pair] = frozenset(
    {
        ("", "Starting"),
        *((before, after) for before in _FOLLOWED for after in _FOLLOWED if before != after),
        *((before, "Deleting") for before in _FOLLOWED),
        *((before, "") for before in (*_FOLLOWED, "Deleting")),
    }
)
"""Agents join and leave, taskgroups fail and recover and definitions change at any time, so each status that follows
from them may follow each other one. Deleting is final. The record may be removed in any status when no application has
its name (any more)."""

TABLES: Mapping[str, frozenset[Pair]] = {
    "transaction": TRANSACTION,
    "taskgroup": TASKGROUP,
    "application": APPLICATION,
    "deployment": DEPLOYMENT,
    "daemonset": DAEMONSET,
}


def refuse(state: StateReader, kind: str, key: str, before: str, after: str) -> NoReturn:
    """Raises InvalidTransition with the history of the object."""
    raise InvalidTransition(kind, key, before, after, history_of(state, kind, key))


def history_of(state: StateReader, kind: str, key: str) -> tuple[str, ...]:
    """Returns the latest lines about an object, oldest first: the history of a transaction, the events of other
    objects. Each line begins with its time in Unix seconds."""
    record = state.get(kind, key)
    if isinstance(record, Transaction):
        return tuple(f"{note.at:.3f} {note.text}" for note in record.history[-HISTORY_LINES:])
    found: list[str] = []
    for run in sorted(state.event_logs, reverse=True)[:RUNS_READ]:
        for event in reversed(state.event_logs[run].events):
            if (event.object, event.key) == (kind, key) and len(found) < HISTORY_LINES:
                found.append(f"{event.at:.3f} {event.reason}: {event.message}")
    return tuple(reversed(found))


RULES = Transitions(TABLES, refuse)
"""The rules that the unit of work of the core checks."""
