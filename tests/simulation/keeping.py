"""What has ended and is kept for its users: transactions (I11), commands (I32), last outputs of tasks (I35).

I32  a command with its messages is removed when its user asks for it, or when it has ended and its reserve time is over
     or too many newer ones have ended; what is too much is removed (C11)
I35  the last output of a failed task is written only while its application exists, and is removed with the
     deployment of the application, or with the application if it has none;
     before that only when its time is over or there are too many newer ones; what is too much is removed (C11)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from bcs_scheduler.core.controllers.kept_outputs import size_of
from bcs_scheduler.core.options import CoreOptions
from store.base import Change
from store.ids import TaskId, object_key
from store.records import Application, Command, Deployment, FailedOutput, Message, Record, Transaction
from tests.simulation.timekeeping import Timekeeping
from tests.simulation.violation import Violation
from tests.simulation.world import World

Records = dict[tuple[str, str], Record]


class End(NamedTuple):
    shelf: tuple[object, ...]
    """What it pushes out."""
    at: float
    """When it ended, by the clock of the term."""
    size: int


class Keeping:
    def __init__(
        self,
        world: World,
        options: CoreOptions,
        durable: Records,
        unwanted: set[str],
        time: Timekeeping,
    ) -> None:
        """`unwanted`: commands that users have asked to delete."""
        self._world, self._options, self._durable = world, options, durable
        self._unwanted, self._time = unwanted, time
        self._transactions: dict[str, End] = {}
        """All that have ever ended."""
        self._commands: dict[str, Command] = {}
        """All that have ever been durable."""
        self._messages: dict[str, dict[str, Message]] = {}
        """The same of their messages, as they were last, by command."""
        self._outputs: dict[str, FailedOutput] = {}
        """All that have ever been durable."""
        self._batch: set[tuple[str, str]] = set()
        """What the batch that is about to become durable changes."""
        self._deleting: set[str] = set()
        """Keys of the deployments that this batch removes or begins to remove."""
        self._removed: set[str] = set()
        """Keys of the applications that this batch removes."""
        self._begun: set[str] = set()
        """Keys of the applications whose DELETE begins in this batch."""

    def committing(self, changes: Sequence[Change]) -> None:
        """A batch is about to become durable. What ends in it may push out what is removed in it."""
        self._batch = {(change.kind, change.key) for change in changes if change.record is not None}
        for change in changes:
            match change.record:
                case Transaction() as ended if ended.ended:
                    shelf = (ended.namespace, ended.application, ended.inner)
                    self._transactions.setdefault(ended.id, End(shelf, ended.finished_at, 1))
                case Command() as command:
                    self._commands[command.id] = command
                case FailedOutput() as output:
                    self._output_is_written(output)
                case Message() as message:
                    self._messages.setdefault(message.command, {})[message.id] = message
        self._deleting = {
            change.key
            for change in changes
            if change.kind == Deployment.kind
            and (not isinstance(change.record, Deployment) or change.record.status == "Deleting")
        }
        self._begun = {
            change.record.application_key
            for change in changes
            if isinstance(change.record, Transaction) and change.record.type == "DELETE"
        }
        self._removed.clear()
        for change in changes:
            old = self._durable.get((change.kind, change.key))
            if isinstance(old, Application) and _is_another(old, change.record):
                self._application_is_removed(old, change.record, changes)
            elif isinstance(old, Deployment) and change.record is None:
                self._deployment_is_removed(old, changes)
        for change in changes:
            old = self._durable.get((change.kind, change.key))
            if change.record is None and isinstance(old, Transaction):
                self.transaction_is_removed(old)
            elif change.record is None and isinstance(old, Command):
                self.command_is_removed(old)
            elif change.record is None and isinstance(old, FailedOutput):
                self._output_is_removed(old)
            elif change.record is None and isinstance(old, Message) and old.command in self._commands:
                self.command_is_removed(self._commands[old.command])

    def transaction_is_removed(self, old: Transaction) -> None:
        """I11: a transaction that has ended stays readable for the retention time, unless too many newer ones have
        ended."""
        if old.ended and self._time.may_be_forgotten(old):
            return
        limits, end = self._options.transactions, self._transactions.get(old.id)
        present = [known for key, known in self._transactions.items() if self._is_present("transaction", key)]
        if end is None or not _too_many(end, present, limits.keep_each, limits.keep_total):
            raise Violation("I11", f"{old.id} ({old.type} {old.status}) was forgotten", old.id)
        self._world.count("transactions pushed out")

    def command_is_removed(self, old: Command) -> None:
        """I32."""
        if old.id in self._unwanted:
            return
        end, limits = self._end(old), self._options
        if end is None:
            raise Violation("I32", f"{old.id} is removed although it has not ended", old.id)
        if self._time.reserve_is_over(old):
            return
        present = [end, *self._ends(besides=old.id)]
        if not _too_many(end, present, limits.command_keep, limits.command_keep_total):
            raise Violation("I32", f"{old.id} is removed before its time", old.id)
        self._world.count("commands pushed out")

    def _output_is_written(self, output: FailedOutput) -> None:
        """I35."""
        task = TaskId.parse(output.id)
        if task is None or (str(task.taskgroup), task.namespace, task.application) != (
            output.taskgroup,
            output.namespace,
            output.application,
        ):
            raise Violation("I35", f"{output.id} is said to be the output of {output.taskgroup}", output.id)
        if not self._is_present("application", object_key(output.namespace, output.application)):
            raise Violation("I35", f"the output of {output.id} is kept without its application", output.id)
        self._outputs[output.id] = output
        self._world.count("outputs kept")

    def _output_is_removed(self, old: FailedOutput) -> None:
        """I35."""
        if self._time.output_may_go(old):
            return
        if self._owner_is_being_deleted(old):
            self._world.count("outputs removed with their application")
            return
        present = [_output_end(known) for key, known in self._outputs.items() if self._is_present("output", key)]
        limits = self._options
        if not _too_many(_output_end(old), present, limits.output_keep, limits.output_keep_total):
            raise Violation("I35", f"the output of {old.id} is removed before its time", old.id)
        self._world.count("outputs pushed out")

    def _application_is_removed(self, old: Application, new: Record | None, changes: Sequence[Change]) -> None:
        """I35. The batch may have an application of the same name, with outputs of its own."""
        self._removed.add(old.key)
        written = {change.key for change in changes if isinstance(change.record, FailedOutput)}
        removed = {change.key for change in changes if change.kind == FailedOutput.kind and change.record is None}
        left = {key for kind, key in self._durable if kind == FailedOutput.kind} - removed - written
        for key in left | (written if new is None else set()):
            output = self._outputs[key]
            if output.owner == (old.kind, old.key):
                raise Violation("I35", f"the output of {key} outlives its application", key)

    def _deployment_is_removed(self, old: Deployment, changes: Sequence[Change]) -> None:
        """I35."""
        removed = {change.key for change in changes if change.kind == FailedOutput.kind and change.record is None}
        for key in {key for kind, key in self._durable if kind == FailedOutput.kind} - removed:
            if self._outputs[key].owner == (old.kind, old.key):
                raise Violation("I35", f"the output of {key} outlives its deployment", key)

    def _owner_is_being_deleted(self, output: FailedOutput) -> bool:
        kind, key = output.owner
        if kind == "application":
            return self._is_being_deleted(key)
        known = self._durable.get((kind, key))
        return not isinstance(known, Deployment) or known.status == "Deleting" or key in self._deleting

    def _is_being_deleted(self, application: str) -> bool:
        """A DELETE is under way or begins in this batch, or the batch removes the application."""
        return application in self._removed | self._begun or any(
            isinstance(known, Transaction)
            and known.type == "DELETE"
            and known.active
            and known.application_key == application
            for known in self._durable.values()
        )

    def surplus(self) -> tuple[str, ...] | None:
        """C11: no more is kept than there should be."""
        limits, options = self._options, self._options.transactions
        ended = [end for key, end in self._transactions.items() if ("transaction", key) in self._durable]
        commands = self._ends()
        outputs = [_output_end(known) for key, known in self._outputs.items() if ("output", key) in self._durable]
        for name, ends, each, total in (
            ("transactions", ended, options.keep_each, options.keep_total),
            ("commands", commands, limits.command_keep, limits.command_keep_total),
            ("outputs", outputs, limits.output_keep, limits.output_keep_total),
        ):
            crowded = [end.shelf for end in ends if sum(other.shelf == end.shelf for other in ends) > each]
            if crowded or (sum(end.size for end in ends) > total and len(ends) > 1):
                return "C11", f"too many ended {name} are kept: {crowded or total}"
        return None

    def _ends(self, besides: str = "") -> list[End]:
        """Commands that have ended and are kept."""
        commands = [c for key, c in self._commands.items() if key != besides and self._is_present("command", key)]
        return [end for command in commands if (end := self._end(command)) is not None]

    def _end(self, command: Command) -> End | None:
        """None while a message is open."""
        messages = self._messages.get(command.id, {}).values()
        if any(message.open for message in messages):
            return None
        at = max([command.created_at, *(message.completed_at for message in messages)])
        size = 1 + len(msgspec.json.encode(command.body)) // 1000 + sum(map(_size, messages))
        return End((command.owner, command.namespace, command.application), at, size)

    def _is_present(self, kind: str, key: str) -> bool:
        return (kind, key) in self._durable or (kind, key) in self._batch


def _is_another(old: Application, new: Record | None) -> bool:
    return not isinstance(new, Application) or new.created_at > old.created_at


def _output_end(output: FailedOutput) -> End:
    return End(output.owner, output.at, size_of(output))


def _too_many(end: End, ends: Iterable[End], each: int, total: int) -> bool:
    """So many others have ended at the same time or later."""
    later = [other for other in ends if other is not end and other.at >= end.at]
    return sum(other.shelf == end.shelf for other in later) >= each or (
        bool(later) and end.size + sum(other.size for other in later) > total
    )


def _size(message: Message) -> int:
    """In kB: one, and one for each 1000 characters of output."""
    return 1 + sum(len(r.stdout) + len(r.stderr) + len(r.message) for r in message.results) // 1000
