"""Delivers messages to executors until each message has the final answer of its executor, or has failed.

Executors may be away, die, or lose an answer, and MESSAGE is best effort in both directions. A message is therefore
sent again, with backoff, until the executor answers. Executors carry out each id once and repeat their answer. The due
times are derived from the open messages of the state, so a failover loses no message.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import msgspec

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.interface.cluster_manager import MessageAnswered, SendMessage
from bcs_scheduler.core.work_queue import WorkQueue
from store.records import Command, Message, MessageResult, MessageStatus
from transactions.text import duration

RESEND, RESEND_MAX = 5.0, 60.0
"""Seconds until an unanswered message is sent again: at first, and at most (each pause is twice the one before)."""
BURST = 500
"""Most messages that one turn examines. The next turns examine the others, so that a big command does not delay other
work."""
BURST_PAUSE = 0.02
"""Seconds until the next turn while more are due."""
OUTPUT_LIMIT = 100_000
"""Characters kept of all results of a message."""
RESULT_BYTES = 300_000
"""Bytes that all results of a message may have in its record, which must fit any store: a character may take six."""
WORDS_LIMIT = 1000


class MessageSender:
    """Sends open messages to executors, repeats them until they are answered, and completes them."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn
        self._due = WorkQueue()
        """Times at which open messages are looked at next, by message id."""

    # --- inputs -----------------------------------------------------------------------------------------------

    def recover(self) -> None:
        """Makes every open message due now."""
        self._due.clear()
        for message in self._turn.state.open_messages():
            self._plan(message.id, self._turn.now)

    def notice(self, changed: Iterable[tuple[str, str]]) -> None:
        """New messages are due at once; so are those whose taskgroup has changed: it may have ended, or be back."""
        self._turn.each_change(changed, self._follow)

    def _follow(self, kind: str, key: str) -> None:
        if kind == "message":
            message = self._turn.state.messages.get(key)
            if message is None or not message.open:
                self._due.forget(key)
            elif key not in self._due:
                self._plan(key, self._turn.now)
        elif kind == "taskgroup":
            self._look_again(key)

    def subscribed(self) -> None:
        """Makes all open messages due now, because messages in transit may be lost."""
        for key in self._due:
            self._plan(key, self._turn.now)

    def heard(self, taskgroup: str) -> None:
        """Records that the executor is connected: messages that it has not answered for a while are sent again at
        once."""
        for key in self._turn.state.open_messages_of(taskgroup):
            if key in self._due and self._due.next_pause(key, RESEND) > 2 * RESEND:
                self._plan(key, self._turn.now)

    def answered(self, event: MessageAnswered) -> None:
        """Takes the first final answer of the executor; later answers, and answers of other executors, are ignored."""
        message = self._turn.state.messages.get(event.message_id)
        if message is None or not message.open or message.taskgroup != event.executor_id:
            return
        if event.status != "running":
            self._complete(message, event.status, event.message, _bounded(message, event.results))
        elif message.status == "staging":
            words = event.message[:WORDS_LIMIT]
            self._turn.uow.put(msgspec.structs.replace(message, status="running", message=words))

    # --- time -------------------------------------------------------------------------------------------------

    def next_timer(self) -> float | None:
        """Returns the Unix seconds of the next deadline or repetition; None if there is none."""
        first = self._due.first()
        return max(first, self._turn.now + BURST_PAUSE) if first is not None else None

    def tick(self) -> None:
        """Sends the messages that are due. Fails messages that are overdue or whose taskgroup cannot carry them out any
        more."""
        turn = self._turn
        for _ in range(BURST):
            key = self._due.pop(turn.now)
            if key is None:
                return
            if turn.attempt("message", key, partial(self._advance, key)) is not None:
                self._plan(key, turn.now + RESEND_MAX)

    def _advance(self, key: str) -> None:
        state = self._turn.state
        message = state.messages.get(key)
        command = state.commands.get(message.command) if message is not None else None
        if message is None or command is None or not message.open:
            self._due.forget(key)
        elif not self._fail_if_hopeless(message, command):
            self._send(message, command)

    def _fail_if_hopeless(self, message: Message, command: Command) -> bool:
        group = self._turn.state.taskgroups.get(message.taskgroup)
        if group is None or group.ended:
            self._complete(message, "failed", "the taskgroup has ended")
        elif self._turn.now >= command.deadline:
            waited = command.deadline - command.created_at
            self._complete(message, "failed", f"no answer from the executor within {duration(waited)}")
        else:
            return False
        return True

    def _send(self, message: Message, command: Command) -> None:
        """Sends it if its executor can be reached."""
        turn = self._turn
        group = turn.state.taskgroups[message.taskgroup]
        if not turn.connected or group.unreachable_since:
            self._due.put(message.id, command.deadline)
            return
        turn.emit(
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
        pause = self._due.pause(message.id, RESEND, RESEND_MAX)
        self._due.put(message.id, min(turn.now + pause, command.deadline))

    # --- parts ------------------------------------------------------------------------------------------------

    def _look_again(self, taskgroup: str) -> None:
        messages = self._turn.state.open_messages_of(taskgroup)
        if not messages:
            return
        group = self._turn.state.taskgroups.get(taskgroup)
        if group is None or group.ended:
            for key in messages:
                self._plan(key, self._turn.now)
        elif not group.unreachable_since:
            for key in messages:
                due, command = self._due.time_of(key), self._turn.state.commands.get(messages[key].command)
                if due is not None and command is not None and due >= command.deadline:
                    # The message was postponed because its agent was unreachable.
                    self._plan(key, self._turn.now)

    def _plan(self, key: str, at: float) -> None:
        """Looks at the message at this time; the pauses begin anew."""
        self._due.reset_pause(key)
        self._due.put(key, at)

    def _complete(
        self, message: Message, status: MessageStatus, words: str, results: tuple[MessageResult, ...] = ()
    ) -> None:
        turn = self._turn
        command = turn.state.commands.get(message.command)
        self._due.forget(message.id)
        turn.uow.put(
            msgspec.structs.replace(
                message, status=status, message=words[:WORDS_LIMIT], results=results, completed_at=turn.now
            )
        )
        if command is not None:
            if status == "failed":
                restore_version(turn, command, message)
            turn.count("message_completed", (command.namespace, command.application, command.type, status), 1.0)


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


def restore_version(turn: TurnContext, command: Command, message: Message) -> None:
    """Gives a taskgroup that has not taken its new limits the version back whose limits it has. The same request then
    sends the limits again, and an update replaces the taskgroup. An executor that did not answer may have taken the
    limits; sending them twice does no harm."""
    group = turn.state.taskgroups.get(message.taskgroup)
    if group is None or group.ended or not message.previous or group.version != command.version:
        return
    if turn.state.version(group.application_key, message.previous) is not None:
        turn.uow.put(msgspec.structs.replace(group, version=message.previous))
