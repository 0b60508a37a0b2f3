"""The journal: what happened, as users want to hear it, in one numbered stream (store.objects: Happening, Journal).

Story lines become events in the unit that changes what they tell of, so both are durable together or not at all, and a
new leader goes on counting where the last durable event ends. Events are kept in runs: the newest run is written again
with each event until it is full. Not every line is an event: steps on the way, and reports of what nobody wants, are
for the log. What an event says anybody may read who may see its namespace: story lines never quote what secrets and
configmaps hold.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bcs_scheduler.core.effects import Happened, Story
from store.codec import CHANGE_OVERHEAD
from store.ids import TaskGroupId, TaskId, namespace_of
from store.records import Happening, Journal
from store.state import State
from store.unit_of_work import UnitOfWork
from transactions.base import REPLACED

RUN = 64
"""Events of a full run: enough that the records are few, few enough that writing the run again costs little."""
RUN_BYTES = 16 * 1024
"""Bytes at which a run is full, whatever the number of its events."""
RUN_OVERHEAD = 100
"""Bytes of a run beside its events, at most."""
LONGEST = 500
"""Characters of a message; the rest is in the log."""
OVERHEAD = 700
"""Bytes of an event, at most, beside what its line says: names of 63 characters for namespace and reason, two numbers,
two words, and the id and the cause of the transaction, which are looked up."""

UNTOLD = frozenset(
    {
        ("taskgroup", "Staging"),
        ("taskgroup", "Starting"),
        ("taskgroup", "Killing"),
        ("taskgroup", "Restarting"),
        ("taskgroup", "replaced"),
        ("transaction", REPLACED),
        ("taskgroup", "removed"),
        ("taskgroup", "unknown"),
        ("task", "unknown"),
        ("task", "ignored"),
    }
)
"""(kind, reason) of lines that are no events."""
INTERNAL = frozenset({"event", "core"})
"""Kinds of lines about the scheduler's own parts: for the log."""
LEVELS = {
    ("taskgroup", "Failed"): "warning",
    ("taskgroup", "Error"): "warning",
    ("taskgroup", "Lost"): "warning",
    ("taskgroup", "Unknown"): "warning",
    ("application", "Abnormal"): "warning",
    ("application", "Error"): "warning",
    ("transaction", "fail"): "warning",
    ("transaction", "timeout"): "warning",
    ("framework", "disconnected"): "warning",
    ("framework", "removed"): "error",
}
"""Levels of lines that are told as ordinary: the log need not raise its voice for what users must see."""
_NAMED = frozenset({"secret", "configmap", "application", "deployment", "daemonset", "service", "endpoint", "webhook"})
"""Kinds whose keys are ``namespace/name``."""
_FOLLOWED = ("", "turn", "takeover")
"""Causes that say nothing: that of the transaction says more."""


class Scribe:
    """Writes the journal. What it holds is the newest run, read from the records after an election."""

    def __init__(self, state: State) -> None:
        self._state = state
        newest = max(state.journals, default="")
        self._run: Journal | None = state.journals.get(newest)
        self._key = newest
        self._size = sum(map(_size, self._run.happenings)) if self._run is not None else 0
        self.latest = self._run.number + len(self._run.happenings) - 1 if self._run is not None else 0
        """Number of the last event decided (not necessarily durable), 0 if there never was one."""
        self._pass_unreadable_runs()

    def _pass_unreadable_runs(self) -> None:
        """Goes on behind every run that is stored but cannot be read: it may hold up to RUN events, and neither its
        record nor their numbers may be used again."""
        unreadable = [int(key) for kind, key in self._state.kept if kind == Journal.kind and key.isdigit()]
        last = max(unreadable, default=0) + RUN - 1
        if unreadable and last > self.latest:
            self.latest, self._run = last, None

    def write(self, uow: UnitOfWork, now: float) -> None:
        """Makes events of the story lines in the open unit and puts them there."""
        told = [self._happening(line, now) for line in _told(uow.effects)]
        if not told:
            return
        waiting: list[Happening] = []
        for happening in told:
            if self._full(len(waiting)):
                self._extend(uow, waiting)
                self._begin(happening.number)
                waiting = []
            waiting.append(happening)
            self._size += _size(happening)
        self._extend(uow, waiting)
        uow.effect(Happened(happenings=tuple(told), cause=told[0].cause))

    def bound(self, effects: Sequence[object]) -> int:
        """Bytes that the journal will add at most to a unit with these effects."""
        sizes = [_bound(line) for line in _told(effects)]
        runs = 2 + len(sizes) // RUN + sum(sizes) // RUN_BYTES
        return self._size + sum(sizes) + runs * (RUN_OVERHEAD + CHANGE_OVERHEAD)

    def _full(self, more: int) -> bool:
        run = self._run
        return run is None or len(run.happenings) + more >= RUN or self._size >= RUN_BYTES

    def _begin(self, number: int) -> None:
        self._run = Journal(number=number)
        self._key, self._size = self._run.key, 0

    def _extend(self, uow: UnitOfWork, happenings: list[Happening]) -> None:
        before = self._run
        if happenings and before is not None:
            self._run = Journal(number=before.number, happenings=before.happenings + tuple(happenings))
            bound = RUN_OVERHEAD + self._size
            uow.overwrite("journal", self._key, before if before.happenings else None, self._run, bound)

    def _happening(self, line: Story, now: float) -> Happening:
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
        # An exception may quote anything; only its name is fit to be seen by all.
        words = _text(line.message)
        message = words if line.reason != "error" else words.partition(":")[0] + "; the log has the rest"
        self.latest += 1
        return Happening(
            number=self.latest,
            at=now,
            object=kind,
            key=key,
            namespace=namespace,
            reason=line.reason,
            message=message if len(message) <= LONGEST else message[: LONGEST - 1] + "…",
            level=line.level if line.level != "info" else LEVELS.get((kind, line.reason), "info"),
            transaction=transaction,
            cause=cause,
        )

    def _place(self, kind: str, key: str) -> tuple[str, str]:
        """Namespace (empty for what belongs to none), and key of the application whose operation it is about."""
        state = self._state
        if kind == "taskgroup":
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
        if kind in ("customobject", "revision"):
            return key.split("/")[1 if kind == "customobject" else 0], ""
        return "", ""


def _told(effects: Sequence[object]) -> list[Story]:
    """The lines among the effects that become events."""
    return [
        effect
        for effect in effects
        if type(effect) is Story and (effect.kind, effect.reason) not in UNTOLD and effect.kind not in INTERNAL
    ]


def _size(happening: Happening) -> int:
    """Its bytes as JSON in a list."""
    return len(msgspec.json.encode(happening)) + 1


def _bound(line: Story) -> int:
    """Bytes of its event at most."""
    texts = (_text(line.key), _text(line.message[:LONGEST]), line.cause, line.transaction)
    return OVERHEAD + len(msgspec.json.encode(texts))


def _text(words: str) -> str:
    """The words without what has no encoding: they may quote what was refused for that."""
    return words if words.isascii() else words.encode(errors="replace").decode()
