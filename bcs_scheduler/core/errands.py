"""Commands that take several turns: what they change follows in slices, and the answer comes after the last one.

A command is carried out in one piece as far as that costs the same whatever its size. What costs something for each of
the taskgroups that it concerns (messages, placements of a plan) is an iterator that the command leaves on the desk
(`Desk.later`): each of its steps leaves consistent records. Errands take turns, so a big one does not hold up others. A
leader that ends before its errands leaves those who asked without an answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from bcs_scheduler.core import events
from bcs_scheduler.core.desk import UNFIT, Desk
from bcs_scheduler.core.effects import Problem, Reason, Reply
from bcs_scheduler.core.pace import COMMANDS, Pace
from store.base import RecordKept
from transactions.base import Refused

Data = dict[str, Any]


class _Errand(NamedTuple):
    command: events.Command
    data: Data
    """Of the answer; the work may still fill it."""
    work: Iterator[None]


class Errands:
    """Carries out commands and answers each of them once."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._waiting: deque[_Errand] = deque()

    def __len__(self) -> int:
        """Commands that are not done yet."""
        return len(self._waiting)

    def carry_out(self, command: events.Command, run: Callable[[events.Command], Data]) -> None:
        """Runs the command and answers it, or leaves what is left of it to `go_on`."""
        desk = self._desk
        answers: list[Data] = []

        def work() -> None:
            answers.append(run(command))
            desk.fits()

        desk.errands = []
        accepted = self._accepted(command, work)
        left, desk.errands = desk.errands, []
        if accepted and left:
            self._waiting.append(_Errand(command, answers[0], chain.from_iterable(left)))
        elif accepted:
            desk.emit(Reply(token=command.token, data=answers[0], cause=desk.cause))

    def go_on(self, now: float, pace: Pace) -> None:
        """Does at least one step of an errand, and more as long as the pace allows."""
        desk = self._desk
        for _ in range(len(self._waiting)):
            errand = self._waiting.popleft()
            desk.start(now, errand.command.cause)
            failure = desk.attempt("event", errand.command.cause, partial(self._some, errand, pace))
            if failure:
                desk.emit(
                    Reply(
                        token=errand.command.token,
                        error=Reason.INTERNAL,
                        message=failure,
                        cause=desk.cause,
                    )
                )
            desk.cut()
            if pace.spent() >= COMMANDS:
                break

    def _some(self, errand: _Errand, pace: Pace) -> None:
        ended = False

        def work() -> None:
            nonlocal ended
            for _ in errand.work:
                if pace.spent() >= COMMANDS:
                    return
            ended = True

        if not self._accepted(errand.command, work):
            return
        if ended:
            desk = self._desk
            desk.emit(Reply(token=errand.command.token, data=errand.data, cause=desk.cause))
        else:
            self._waiting.append(errand)

    def _accepted(self, command: events.Command, work: Callable[[], None]) -> bool:
        """Does work of a command. If it is refused, what has changed since the last cut is undone, the command is
        answered with the reason, and False is returned."""
        desk = self._desk
        try:
            work()
        except Refused as refused:
            problems = tuple(Problem(path, message) for path, message in refused.problems)
            reply = Reply(
                token=command.token,
                error=refused.reason,
                message=refused.message,
                problems=problems,
                cause=desk.cause,
            )
        except UNFIT as unfit:
            reply = Reply(token=command.token, error=Reason.INVALID, message=str(unfit), cause=desk.cause)
        except RecordKept as kept:
            reply = Reply(token=command.token, error=Reason.CONFLICT, message=str(kept), cause=desk.cause)
        else:
            return True
        desk.uow.rollback()
        desk.emit(reply)
        return False
