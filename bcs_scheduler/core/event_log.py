"""The event log: the changes that concern users, in one numbered stream (store.records.objects: Event, EventLog).

A log line becomes an event in the unit that holds the reported change, so both are durable together or not at all. A
new leader continues the numbers after the last durable event. Events are kept in runs: the newest run is written again
with each event until the run is full. Not every line becomes an event: intermediate steps, and reports about unwanted
tasks, are only logged. All users who may see the namespace may read its events, so log lines never quote the contents
of secrets and configmaps.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bcs_scheduler.core.interface.effects import EventsRecorded, LogLine
from store.encoding.codec import CHANGE_OVERHEAD
from store.ids import TaskGroupId, TaskId, custom_namespace_of, namespace_of
from store.reasons import REASONS
from store.records import Event, EventLog
from store.state import State
from store.state.unit_of_work import UnitOfWork

RUN = 64
"""Events of a full run: enough that the records are few, few enough that writing the run again costs little."""
RUN_BYTES = 16 * 1024
"""Bytes at which a run is full, independent of the number of its events."""
RUN_OVERHEAD = 100
"""Bytes of a run beside its events, at most."""
LONGEST = 500
"""Characters of a message; the rest is in the log."""
OVERHEAD = 760
"""Bytes of an event, at most, beside the contents of its line: names of 63 characters for namespace and reason, two
numbers, two words, the address of an agent, and the id and the cause of the transaction, which are looked up."""

INTERNAL = frozenset({"event", "core"})
"""Kinds of lines about the scheduler's own parts: for the log."""
_NAMED = frozenset(
    {"secret", "configmap", "application", "deployment", "daemonset", "service", "endpoint", "webhook", "podgroup"}
)
"""Kinds whose keys are ``namespace/name``."""
_FOLLOWED = ("", "turn", "takeover")
"""Causes that are replaced by the cause of the transaction."""


class EventRecorder:
    """Writes the event log. Holds the newest run, which a new leader reads from the records."""

    def __init__(self, state: State) -> None:
        self._state = state
        newest = max(state.event_logs, default="")
        self._run: EventLog | None = state.event_logs.get(newest)
        self._key = newest
        self._size = sum(map(_size, self._run.events)) if self._run is not None else 0
        self.latest = self._run.number + len(self._run.events) - 1 if self._run is not None else 0
        """Number of the last event decided (not necessarily durable), 0 if there never was one."""
        self._pass_unreadable_runs()

    def _pass_unreadable_runs(self) -> None:
        """Continues behind every run that is stored but cannot be read: such a run may have RUN events, and neither its
        record nor the numbers of its events may be used again."""
        unreadable = [int(key) for kind, key in self._state.unreadable if kind == EventLog.kind and key.isdigit()]
        last = max(unreadable, default=0) + RUN - 1
        if unreadable and last > self.latest:
            self.latest, self._run = last, None

    def write(self, uow: UnitOfWork, now: float) -> None:
        """Makes events of the log lines in the open unit and adds them to the unit."""
        events = [self._event(line, now) for line in _event_lines(uow.effects)]
        if not events:
            return
        waiting: list[Event] = []
        for event in events:
            if self._full(len(waiting)):
                self._extend(uow, waiting)
                self._begin(event.number)
                waiting = []
            waiting.append(event)
            self._size += _size(event)
        self._extend(uow, waiting)
        uow.effect(EventsRecorded(events=tuple(events), cause=events[0].cause))

    def bound(self, effects: Sequence[object]) -> int:
        """Most bytes that the event log adds to a unit with these effects."""
        sizes = [_bound(line) for line in _event_lines(effects)]
        runs = 2 + len(sizes) // RUN + sum(sizes) // RUN_BYTES
        return self._size + sum(sizes) + runs * (RUN_OVERHEAD + CHANGE_OVERHEAD)

    def _full(self, more: int) -> bool:
        run = self._run
        return run is None or len(run.events) + more >= RUN or self._size >= RUN_BYTES

    def _begin(self, number: int) -> None:
        self._run = EventLog(number=number)
        self._key, self._size = self._run.key, 0

    def _extend(self, uow: UnitOfWork, events: list[Event]) -> None:
        before = self._run
        if events and before is not None:
            self._run = EventLog(number=before.number, events=before.events + tuple(events))
            bound = RUN_OVERHEAD + self._size
            uow.overwrite("journal", self._key, before if before.events else None, self._run, bound)

    def _event(self, line: LogLine, now: float) -> Event:
        kind, key = line.kind, _text(line.key)
        namespace, owner = self._place(kind, key)
        transaction = line.transaction
        if not transaction and owner:
            application = self._state.applications.get(owner)
            transaction = application.operation if application is not None else ""
        elif not transaction and kind == "transaction":
            transaction = key
        cause = line.cause
        if cause in _FOLLOWED and transaction:
            started = self._state.transactions.get(transaction)
            cause = started.cause if started is not None else cause
        message = _text(line.public or line.message)
        self.latest += 1
        return Event(
            number=self.latest,
            at=now,
            object=kind,
            key=key,
            namespace=namespace,
            reason=line.reason,
            message=message if len(message) <= LONGEST else message[: LONGEST - 1] + "…",
            level=line.level if line.level != "info" else REASONS[line.reason].level,
            transaction=transaction,
            cause=cause,
            agent=group.agent_ip if kind == "taskgroup" and (group := self._state.taskgroups.get(key)) else "",
        )

    def _place(self, kind: str, key: str) -> tuple[str, str]:
        """Returns the namespace (empty for an object without namespace), and the key of the application whose operation
        the event is about."""
        state = self._state
        if kind == "taskgroup":
            group = state.taskgroups.get(key)
            if group is not None:  # the usual case, which needs no parsing
                return group.namespace, group.application_key
            taskgroup = TaskGroupId.parse(key)
            return (taskgroup.namespace, taskgroup.owner) if taskgroup is not None else ("", "")
        if kind in _NAMED:
            return namespace_of(key), key if kind == "application" else ""
        if kind == "transaction":
            transaction = state.transactions.get(key)
            return transaction.namespace if transaction is not None else "", ""
        if kind == "task":
            task = TaskId.parse(key)
            return task.namespace if task is not None else "", ""
        if kind == "command":
            command = state.commands.get(key)
            return command.namespace if command is not None else "", ""
        if kind == "namespace":
            return key, ""
        if kind == "customobject":
            return custom_namespace_of(key), ""
        if kind == "revision":
            return namespace_of(key), ""
        return "", ""


def _event_lines(effects: Sequence[object]) -> list[LogLine]:
    """The lines among the effects that become events."""
    return [
        effect
        for effect in effects
        if type(effect) is LogLine and REASONS[effect.reason].event and effect.kind not in INTERNAL
    ]


def _size(event: Event) -> int:
    """Its bytes as JSON in a list."""
    return len(msgspec.json.encode(event)) + 1


def _bound(line: LogLine) -> int:
    """Bytes of its event at most."""
    texts = (_text(line.key), _text(line.message[:LONGEST]), line.cause, line.transaction)
    return OVERHEAD + len(msgspec.json.encode(texts))


def _text(words: str) -> str:
    """Returns the words without characters that have no encoding: a message may quote an input that was refused for
    such characters."""
    return words if words.isascii() else words.encode(errors="replace").decode()
