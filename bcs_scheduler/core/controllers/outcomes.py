"""Ended commands: each stays readable with its messages for the time that its user asked for, unless too many newer
ones have ended.

A command has ended when all its messages are written and none of them is open. What is kept in all is bounded by size,
because one command may have a message for each of 100,000 taskgroups, and one message the output of a whole log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from bcs_scheduler.core.agenda import Agenda
from bcs_scheduler.core.desk import Desk
from bcs_scheduler.core.instructions import discard
from bcs_scheduler.core.shelves import Shelves
from store.records import Command, Message

AT_ONCE = 500
"""Records removed in one turn at most: a command with very many messages is removed over several turns."""
AGAIN = 30.0
"""Seconds until the removal of a command that has failed is tried again."""

_Target = tuple[str, str, str]
"""Kind, namespace and name of what a command was given to."""


class _Tally:
    """What is known of a command that has not ended."""

    __slots__ = ("open", "size", "sizes")

    def __init__(self, command: Command) -> None:
        self.size = 1 + len(msgspec.json.encode(command.body)) // 1000
        """Of the command and its answered messages, in kB."""
        self.sizes: dict[str, int] = {}
        """By message; 0 = open."""
        self.open = 0

    def count(self, message: Message) -> None:
        """Takes a message as it is now, again and again."""
        before, now = self.sizes.get(message.id), 0 if message.open else _size(message)
        self.sizes[message.id] = now
        self.size += now - (before or 0)
        self.open += (now == 0) - (before == 0)


class Outcomes:
    """Follows the records of commands and messages. What it holds is derived from them."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._tallies: dict[str, _Tally] = {}
        """Commands that have not ended."""
        self._answered: dict[str, None] = {}
        """Those of them without an open message: they have ended unless messages are still being written."""
        self._ended: Shelves[_Target] = Shelves(desk.options.command_keep, desk.options.command_keep_total)
        self._expiry = Agenda()
        """Ended commands by the time until which they are kept."""
        self._work: Iterator[None] | None = None
        """What is left of the removal of a command; None = none is being removed."""

    # --- records ------------------------------------------------------------------------------------------------

    def recover(self) -> None:
        state, latest = self._desk.state, {}
        for command in state.commands.values():
            self._begin(command)
            latest[command.id] = (command.created_at, command.id)
        for message in state.messages.values():
            tally = self._tallies.get(message.command)
            if tally is not None:
                tally.count(message)
                latest[message.command] = max(latest[message.command], (message.completed_at, message.command))
        for identity in sorted(self._tallies, key=latest.__getitem__):
            self._look(identity)
        self._settle()

    def notice(self, changed: Iterable[tuple[str, str]]) -> None:
        state = self._desk.state
        for kind, key in changed:
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
        self._settle()

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
        """None: the grain of the turns is fine enough."""
        return None

    def tick(self) -> None:
        """Deletes what has had its time and what is too much, the oldest first."""
        for _ in range(AT_ONCE):
            work, self._work = self._work or self._next(), None
            if work is None:
                return
            for _ in work:
                self._work = work
                break
            if self._desk.context.enough():
                return

    def _settle(self) -> None:
        """Commands whose last message has been written and noticed have ended. Those that are being written are as few
        as requests."""
        desk = self._desk
        for identity in [identity for identity in self._answered if identity not in desk.incomplete]:
            del self._answered[identity]
            tally = self._tallies.pop(identity)
            command = desk.state.commands[identity]
            self._ended.add(identity, (command.owner, command.namespace, command.application), tally.size)
            self._expiry.put(identity, command.keep_until)

    def _next(self) -> Iterator[None] | None:
        """Begins with the removal of a command that is not kept any longer."""
        desk = self._desk
        identity = self._expiry.pop(desk.now) or self._ended.surplus()
        if identity is None:
            return None
        self._ended.remove(identity)
        self._expiry.put(identity, desk.now + AGAIN)
        command = desk.state.commands.get(identity)
        return discard(desk, command) if command is not None else iter(())


def _size(message: Message) -> int:
    """About what the record takes in the store, in kB; 1 at least."""
    words = sum(len(result.stdout) + len(result.stderr) + len(result.message) for result in message.results)
    return 1 + words // 1000
