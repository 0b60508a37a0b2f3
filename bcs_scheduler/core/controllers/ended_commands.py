"""Ended commands: each stays readable with its messages for the time that its user requested, unless too many newer
commands have ended.

A command has ended when all its messages are written and none of them is open. The total size of ended commands is
limited, because one command may have a message for each of 100,000 taskgroups, and one message may hold the output of a
whole log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.controllers.cluster.message_sender import restore_version
from bcs_scheduler.core.controllers.ended_objects import EndedObjects
from bcs_scheduler.core.open_commands import size_of
from bcs_scheduler.core.work_queue import WorkQueue
from store.records import Command, Message

AT_ONCE = 500
"""Records removed in one turn at most: a command with very many messages is removed over several turns."""
AGAIN = 30.0
"""Seconds until the removal of a command that has failed is tried again."""

_Target = tuple[str, str, str]
"""Kind, namespace and name of the object that a command was given to."""


class _Tally:
    """State of a command that has not ended."""

    __slots__ = ("open", "size", "sizes")

    def __init__(self, command: Command) -> None:
        self.size = 1 + len(msgspec.json.encode(command.body)) // 1000
        """Size of the command and its answered messages, in kB."""
        self.sizes: dict[str, int] = {}
        """Sizes in kB by message; 0 = open."""
        self.open = 0

    def count(self, message: Message) -> None:
        """Takes a message as it is now, again and again."""
        before, now = self.sizes.get(message.id), size_of(message)
        self.sizes[message.id] = now
        self.size += now - (before or 0)
        self.open += (now == 0) - (before == 0)


class EndedCommands:
    """Removes ended commands. All its state is derived from the records of commands and messages."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn
        self._tallies: dict[str, _Tally] = {}
        """Commands that have not ended."""
        self._answered: dict[str, None] = {}
        """Commands without an open message: they have ended unless messages are still being written."""
        self._ended: EndedObjects[_Target] = EndedObjects(turn.options.command_keep, turn.options.command_keep_total)
        self._expiry = WorkQueue()
        """Ended commands by the time until which they are kept."""
        self._removed = ""
        """Id of the command that is being removed."""
        self._steps = 0
        """Steps of removals that are left for this turn."""
        self._work: Iterator[None] | None = None
        """Remaining work of the removal of a command; None = no command is being removed."""

    # --- records ------------------------------------------------------------------------------------------------

    def recover(self) -> None:
        """Takes up all commands in the order of their latest changes."""
        for known in (self._tallies, self._answered, self._ended, self._expiry):
            known.clear()
        self._work = None
        state, latest = self._turn.state, dict[str, tuple[float, str]]()

        def begin(key: str) -> None:
            command = state.commands[key]
            latest[key] = (command.created_at, key)
            self._begin(command)

        def count(key: str) -> None:
            message = state.messages[key]
            tally = self._tallies.get(message.command)
            if tally is not None:
                latest[message.command] = max(latest[message.command], (message.completed_at, message.command))
                tally.count(message)

        self._turn.each(Command.kind, state.commands, begin)
        self._turn.each(Message.kind, state.messages, count)
        for identity in sorted(self._tallies, key=latest.__getitem__):
            self._look(identity)
        self._settle()

    def notice(self, changed: Iterable[tuple[str, str]]) -> None:
        """Follows commands and their messages."""
        self._turn.each_change(changed, self._follow)
        self._settle()

    def _follow(self, kind: str, key: str) -> None:
        state = self._turn.state
        if kind == "message":
            message = state.messages.get(key)
            tally = self._tallies.get(message.command) if message is not None else None
            if message is not None and tally is not None:
                tally.count(message)
                self._look(message.command)
        elif kind == "command":
            command = state.commands.get(key)
            if command is None:
                self._forget(key)
            elif key not in self._tallies and key not in self._expiry:
                self._begin(command)
                self._look(key)

    def _begin(self, command: Command) -> None:
        self._tallies[command.id] = _Tally(command)

    def _look(self, identity: str) -> None:
        if self._tallies[identity].open:
            self._answered.pop(identity, None)
        else:
            self._answered[identity] = None

    def _forget(self, identity: str) -> None:
        self._expiry.drop(identity)
        self._tallies.pop(identity, None)
        self._answered.pop(identity, None)
        self._ended.remove(identity)

    # --- time ---------------------------------------------------------------------------------------------------

    def next_timer(self) -> float | None:
        """Like `Controller.next_timer`: None, because regular turns are frequent enough."""
        return None

    def tick(self) -> None:
        """Deletes commands whose time is over, and the oldest ones above the bounds. A command that its user has just
        deleted pushes out no other."""
        if self._ended.surplus() is not None:
            for identity in self._turn.removed(Command.kind):
                self._forget(identity)
        self._steps = AT_ONCE
        while self._steps > 0:
            self._work = self._work or self._next()
            if self._work is None:
                return
            self._turn.attempt("command", self._removed, self._go_on)
            if self._turn.context.time_is_up():
                return

    def _go_on(self) -> None:
        """Continues a removal. One that fails is tried again later."""
        work, self._work = self._work or iter(()), None
        self._steps -= 1
        for _ in work:
            self._steps -= 1
            if self._steps <= 0 or self._turn.context.time_is_up():
                self._work = work
                return

    def _settle(self) -> None:
        """Marks commands as ended whose last message has been written. Only commands that are still being written are
        examined, and these are few."""
        turn = self._turn
        turn.each(Command.kind, [one for one in self._answered if one not in turn.incomplete], self._end)

    def _end(self, identity: str) -> None:
        del self._answered[identity]
        tally = self._tallies.pop(identity)
        command = self._turn.state.commands[identity]
        self._ended.add(identity, (command.owner, command.namespace, command.application), tally.size)
        self._expiry.put(identity, command.keep_until)

    def _next(self) -> Iterator[None] | None:
        """Begins with the removal of a command that is not kept any longer."""
        turn = self._turn
        identity = self._expiry.pop(turn.now) or self._ended.surplus()
        if identity is None:
            return None
        self._removed = identity
        self._ended.remove(identity)
        self._expiry.put(identity, turn.now + AGAIN)
        command = turn.state.commands.get(identity)
        return self._removal(command) if command is not None else iter(())

    def _removal(self, command: Command) -> Iterator[None]:
        yield from remove(self._turn, command)


def remove(turn: TurnContext, command: Command) -> Iterator[None]:
    """Removes a command after its messages, one with each step: no message ever lacks its command, also if messages are
    still being written."""
    turn.incomplete.discard(command.id)
    turn.open_commands.written(command.id)
    while keys := list(turn.state.messages_of(command.id)):
        for key in keys:
            message = turn.state.messages.get(key)
            if message is None:
                continue
            if message.open:
                restore_version(turn, command, message)
            turn.uow.delete(message)
            turn.checkpoint()
            yield
    turn.uow.delete(command)
    turn.checkpoint()
