"""Requests that take several turns: their changes follow in slices, and the answer comes after the last slice.

The part of a request with a constant cost is carried out in one piece. The part with a cost per taskgroup (messages,
placements of a plan) is an iterator that the request handler passes to the turn context (`TurnContext.later`): each
step of the iterator leaves consistent records. Sliced requests take turns, so a big one does not delay others. If the
leader ends before the last slice, the request gets no answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import NamedTuple

from bcs_scheduler.core.context import UNFIT, TurnContext
from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.interface.effects import Problem, Reason, Reply
from bcs_scheduler.core.requests.answers import Data
from bcs_scheduler.core.time_budget import COMMANDS, TimeBudget
from store.base import RecordUnreadable
from transactions.base import Failure, Refused


def failed(command: requests.Request, failure: Failure) -> Reply:
    """The answer to a request whose work has failed unexpectedly; nothing was changed."""
    return Reply(token=command.token, error=Reason.INTERNAL, message=failure.message, cause=command.cause)


class _SlicedRequest(NamedTuple):
    command: requests.Request
    data: Data
    """Data of the answer; the work may still add to it."""
    work: Iterator[None]


class SlicedRequests:
    """Carries out requests and answers each of them once."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn
        self._waiting: deque[_SlicedRequest] = deque()

    def __len__(self) -> int:
        """Returns the number of requests that are not done yet."""
        return len(self._waiting)

    def carry_out(self, command: requests.Request, run: Callable[[requests.Request], Data]) -> None:
        """Runs the request and answers it, or leaves the remaining work to `go_on`."""
        turn = self._turn
        answers: list[Data] = []

        def work() -> None:
            answers.append(run(command))
            turn.fits()

        turn.remaining_work = []
        accepted = self._accepted(command, work)
        left, turn.remaining_work = turn.remaining_work, []
        if accepted and left:
            self._waiting.append(_SlicedRequest(command, answers[0], chain.from_iterable(left)))
        elif accepted:
            turn.emit(Reply(token=command.token, data=answers[0], cause=turn.cause))

    def go_on(self, now: float, pace: TimeBudget) -> None:
        """Does at least one step of the remaining work, and more as long as the time budget allows. `now`: Unix
        seconds."""
        turn = self._turn
        for _ in range(len(self._waiting)):
            sliced = self._waiting.popleft()
            turn.start(now, sliced.command.cause)
            failure = turn.attempt("event", sliced.command.cause, partial(self._some, sliced, pace))
            if failure is not None:
                turn.emit(failed(sliced.command, failure))
            turn.cut()
            if pace.spent() >= COMMANDS:
                break

    def _some(self, sliced: _SlicedRequest, pace: TimeBudget) -> None:
        ended = False

        def work() -> None:
            nonlocal ended
            for _ in sliced.work:
                if pace.spent() >= COMMANDS:
                    return
            ended = True

        if not self._accepted(sliced.command, work):
            return
        if ended:
            turn = self._turn
            turn.emit(Reply(token=sliced.command.token, data=sliced.data, cause=turn.cause))
        else:
            self._waiting.append(sliced)

    def _accepted(self, command: requests.Request, work: Callable[[], None]) -> bool:
        """Does work of a request. Returns False if the work is refused: then the changes since the last cut are undone,
        and the request is answered with the reason."""
        turn = self._turn
        try:
            work()
        except Refused as refused:
            problems = tuple(Problem(path, message) for path, message in refused.problems)
            reply = Reply(
                token=command.token,
                error=refused.reason,
                message=refused.message,
                problems=problems,
                cause=turn.cause,
            )
        except UNFIT as not_storable:
            reply = Reply(
                token=command.token,
                error=Reason.INVALID,
                message=str(not_storable),
                cause=turn.cause,
                not_storable=True,
            )
        except RecordUnreadable as unreadable:
            reply = Reply(token=command.token, error=Reason.CONFLICT, message=str(unreadable), cause=turn.cause)
        else:
            return True
        turn.uow.rollback()
        turn.emit(reply)
        return False
