"""Delivers messages to executors until each has the last word of its executor, or has failed for good.

Executors may be away, die, or lose an answer, and MESSAGE is best effort in both directions. So a message is sent
again, with backoff, until it is answered; executors carry out an id once and repeat their answer. What is due when is
derived from the open messages of the state: nothing is lost by a failover.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import msgspec

from bcs_scheduler.core import instructions
from bcs_scheduler.core.desk import Desk
from bcs_scheduler.core.effects import SendMessage
from bcs_scheduler.core.events import MessageAnswered
from store.records import Command, Message, MessageResult, MessageStatus

RESEND, RESEND_MAX = 5.0, 60.0
"""Seconds until an unanswered message is sent again: at first, and at most (each pause is twice the one before)."""
BURST = 500
"""Messages looked at in one turn; more follow in the next ones, so that a big command does not hold up all else."""
BURST_PAUSE = 0.02
"""Seconds until the next turn while more are due."""
OUTPUT_LIMIT = 100_000
"""Characters kept of all results of a message."""
RESULT_BYTES = 300_000
"""Bytes that all results of a message may have in its record, which must fit any store: a character may take six."""
WORDS_LIMIT = 1000


@dataclass(slots=True)
class _Due:
    """When a message is looked at next, and the pause after that."""

    at: float
    pause: float = RESEND


class Messenger:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._due: dict[str, _Due] = {}
        """Open messages by id."""
        self._queue: list[tuple[float, str]] = []
        """Heap of (time, message id); entries that `_due` does not confirm are void."""

    # --- what happens -----------------------------------------------------------------------------------------

    def recover(self) -> None:
        for message in self._desk.state.open_messages():
            self._plan(message.id, self._desk.now)

    def notice(self, changed: Iterable[tuple[str, str]]) -> None:
        """New messages are due at once; so are those whose taskgroup has changed: it may have ended, or be back."""
        state = self._desk.state
        for kind, key in changed:
            if kind == "message":
                message = state.messages.get(key)
                if message is None or not message.open:
                    self._due.pop(key, None)
                elif key not in self._due:
                    self._plan(key, self._desk.now)
            elif kind == "taskgroup":
                self._look_again(key)

    def subscribed(self) -> None:
        """Whatever was under way may be lost."""
        for key in self._due:
            self._plan(key, self._desk.now)

    def heard(self, taskgroup: str) -> None:
        """Its executor is there: what it has not answered for a while is sent again at once."""
        for key in self._desk.state.open_messages_of(taskgroup):
            due = self._due.get(key)
            if due is not None and due.pause > 2 * RESEND:
                self._plan(key, self._desk.now)

    def answered(self, event: MessageAnswered) -> None:
        """The first last word counts; what comes later, or from somebody else, is ignored."""
        message = self._desk.state.messages.get(event.message_id)
        if message is None or not message.open or message.taskgroup != event.executor_id:
            return
        if event.status != "running":
            self._complete(message, event.status, event.message, _bounded(message, event.results))
        elif message.status == "staging":
            words = event.message[:WORDS_LIMIT]
            self._desk.uow.put(msgspec.structs.replace(message, status="running", message=words))

    # --- time -------------------------------------------------------------------------------------------------

    def next_timer(self) -> float | None:
        """When something is due (Unix seconds)."""
        if not self._queue:
            return None
        return max(self._queue[0][0], self._desk.now + BURST_PAUSE)

    def tick(self) -> None:
        """Sends what is due, fails what is overdue or has nobody left to carry it out."""
        desk, left = self._desk, BURST
        while self._queue and self._queue[0][0] <= desk.now and left:
            at, key = heapq.heappop(self._queue)
            due = self._due.get(key)
            if due is None or due.at != at:
                continue
            left -= 1
            if desk.attempt("message", key, partial(self._advance, key, due)):
                self._plan(key, desk.now + RESEND_MAX)

    def _advance(self, key: str, due: _Due) -> None:
        state = self._desk.state
        message = state.messages.get(key)
        command = state.commands.get(message.command) if message is not None else None
        if message is None or command is None or not message.open:
            del self._due[key]
        elif not self._fail_if_hopeless(message, command):
            self._send(message, command, due)

    def _fail_if_hopeless(self, message: Message, command: Command) -> bool:
        group = self._desk.state.taskgroups.get(message.taskgroup)
        if group is None or group.ended:
            self._complete(message, "failed", "the taskgroup has ended")
        elif self._desk.now >= command.deadline:
            waited = command.deadline - command.created_at
            self._complete(message, "failed", f"no answer from the executor within {waited:.0f} s")
        else:
            return False
        return True

    def _send(self, message: Message, command: Command, due: _Due) -> None:
        """Sends it if its executor can be reached."""
        desk = self._desk
        group = desk.state.taskgroups[message.taskgroup]
        if not desk.connected or group.unreachable_since:
            self._plan(message.id, command.deadline, due.pause)
            return
        desk.emit(
            SendMessage(
                agent_id=group.agent_id,
                executor_id=group.id,
                message_id=message.id,
                type=command.type,
                tasks=message.tasks,
                body=command.body,
                timeout=command.timeout,
                cause=command.cause,
            )
        )
        self._plan(message.id, min(desk.now + due.pause, command.deadline), min(2 * due.pause, RESEND_MAX))

    # --- parts ------------------------------------------------------------------------------------------------

    def _look_again(self, taskgroup: str) -> None:
        messages = self._desk.state.open_messages_of(taskgroup)
        if not messages:
            return
        group = self._desk.state.taskgroups.get(taskgroup)
        if group is None or group.ended:
            for key in messages:
                self._plan(key, self._desk.now)
        elif not group.unreachable_since:
            for key in messages:
                due, command = self._due.get(key), self._desk.state.commands.get(messages[key].command)
                if due is not None and command is not None and due.at >= command.deadline:
                    # It was put off because its agent was away.
                    self._plan(key, self._desk.now)

    def _plan(self, key: str, at: float, pause: float = RESEND) -> None:
        known = self._due.get(key)
        if known is None or known.at != at:
            heapq.heappush(self._queue, (at, key))
        self._due[key] = _Due(at, pause)

    def _complete(
        self, message: Message, status: MessageStatus, words: str, results: tuple[MessageResult, ...] = ()
    ) -> None:
        desk = self._desk
        command = desk.state.commands.get(message.command)
        self._due.pop(message.id, None)
        desk.uow.put(
            msgspec.structs.replace(
                message, status=status, message=words[:WORDS_LIMIT], results=results, completed_at=desk.now
            )
        )
        if command is not None:
            if status == "failed":
                instructions.take_back(desk, command, message)
            desk.count("message_completed", (command.namespace, command.application, command.type, status), 1.0)


def _bounded(message: Message, results: tuple[MessageResult, ...]) -> tuple[MessageResult, ...]:
    """Results of the tasks that were asked, each with its share of the room there is."""
    known = [result for result in results if result.task in message.tasks][: len(message.tasks)]
    share = OUTPUT_LIMIT // max(1, len(known))
    kept = tuple([_cut(result, share) for result in known])
    while share and len(msgspec.json.encode(kept)) > RESULT_BYTES:
        share //= 2
        kept = tuple([_cut(result, share) for result in known])
    return kept


def _cut(result: MessageResult, share: int) -> MessageResult:
    words = result.message[: min(WORDS_LIMIT, share)]
    room = max(0, share - len(words)) // 2
    if words == result.message and len(result.stdout) <= room and len(result.stderr) <= room:
        return result
    return msgspec.structs.replace(
        result, message=words, stdout=result.stdout[:room], stderr=result.stderr[:room], truncated=True
    )
