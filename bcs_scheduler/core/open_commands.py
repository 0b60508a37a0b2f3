"""Commands that are open: messages of them are still being written, or wait for the answer of an executor.

The size of ended commands is limited by core.controllers.ended_commands. Open commands exist until their
deadlines, up to a day. A further command is therefore refused while the size of the open commands has reached its
limit. The size of the new command does not count: one command to a large application is never refused for its size
alone, and at most one command exceeds the limit.

The sums follow the records, undone changes included, so the cost of a check does not depend on the number of open
commands.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from store.records import Command, Message, Record
from store.state import Watch
from transactions.base import Context, Refused


class _Weight:
    """Size of one command and its messages, in kB."""

    __slots__ = ("answered", "command", "namespace", "open", "unwritten")

    def __init__(self, command: Command) -> None:
        self.namespace = command.namespace
        self.command = 1 + len(msgspec.json.encode(command.body)) // 1000
        self.open = 0
        """Messages without an answer."""
        self.answered = 0
        self.unwritten = 0
        """Messages that are still to be written."""

    @property
    def counted(self) -> int:
        """0 as soon as the command has ended."""
        waiting = self.open + self.unwritten
        return self.command + self.answered + waiting if waiting else 0


class OpenCommands:
    """Bounds for the size of open commands in the store. `of_namespace`, `total`: bounds in kB."""

    def __init__(self, context: Context, watch: Watch, of_namespace: int, total: int) -> None:
        """`watch`: as `State.watch`. The sums are there after `recover`."""
        self._context = context
        self._bounds = of_namespace, total
        self._weights: dict[str, _Weight] = {}
        self._sums: Counter[str] = Counter()
        self._total = 0
        watch(("command",), self._command_changed)
        watch(("message",), self._message_changed)

    def recover(self) -> None:
        """Drops the sums and works them out from the records; messages that are not written yet do not count."""
        self._weights.clear()
        self._sums.clear()
        self._total = 0
        commands, messages, each = self._context.state.commands, self._context.state.messages, self._context.each_change
        each([("command", key) for key in commands], lambda _, key: self._command_changed(key, None, commands[key]))
        each([("message", key) for key in messages], lambda _, key: self._message_changed(key, None, messages[key]))

    @property
    def total(self) -> int:
        """Approximate size in the store of all open commands and their messages, in kB."""
        return self._total

    def of(self, namespace: str) -> int:
        """The same of one namespace."""
        return self._sums[namespace]

    def check_bounds(self, namespace: str) -> None:
        """Raises Refused (too_many_open) if no further command can be taken for the namespace now."""
        each, most = self._bounds
        if self._sums[namespace] >= each:
            self._refuse(f"of namespace {namespace}", self._sums[namespace], each, "scheduler.command_open")
        if self._total >= most:
            self._refuse("of all namespaces", self._total, most, "scheduler.command_open_total")

    def begin(self, identity: str, messages: int) -> None:
        """Counts the messages of a command that are going to be written."""
        self._count(identity, unwritten=messages)

    def written(self, identity: str) -> None:
        """No further message of the command is going to be written; does nothing if that is known."""
        weight = self._weights.get(identity)
        if weight is not None and weight.unwritten:
            self._count(identity, unwritten=-weight.unwritten)

    def _refuse(self, whose: str, size: int, bound: int, setting: str) -> None:
        raise Refused(
            "too_many_open",
            f"open commands {whose} take {size} kB, of {bound} allowed ({setting}); a command is open until every"
            " executor has answered or its timeout is over: wait, or delete commands that are not needed",
        )

    # --- the sums -----------------------------------------------------------------------------------------------

    def _count(self, identity: str, open: int = 0, answered: int = 0, unwritten: int = 0) -> None:
        weight = self._weights.get(identity)
        if weight is None:
            return
        before = weight.counted
        weight.open += open
        weight.answered += answered
        weight.unwritten = max(weight.unwritten + unwritten, 0)
        self._add(weight.namespace, weight.counted - before)

    def _add(self, namespace: str, size: int) -> None:
        if size:
            self._total += size
            self._sums[namespace] += size
            if not self._sums[namespace]:
                del self._sums[namespace]

    def _command_changed(self, identity: str, _before: Record | None, after: Record | None) -> None:
        if isinstance(after, Command) and identity not in self._weights:
            self._weights[identity] = _Weight(after)
        elif after is None and (weight := self._weights.pop(identity, None)) is not None:
            self._add(weight.namespace, -weight.counted)

    def _message_changed(self, _key: str, before: Record | None, after: Record | None) -> None:
        for message, sign in ((before, -1), (after, 1)):
            if isinstance(message, Message):
                self._count(
                    message.command,
                    open=sign * message.open,
                    answered=sign * size_of(message),
                )
        if before is None and isinstance(after, Message):
            self._count(after.command, unwritten=-1)


def size_of(message: Message) -> int:
    """Approximate size of an answered message in the store, in kB: at least 1; 0 while the message is open."""
    if message.open:
        return 0
    words = sum(len(result.stdout) + len(result.stderr) + len(result.message) for result in message.results)
    return 1 + words // 1000
