"""The parts of the core, which are called through one guarded function (docs/decisions/0096-parts-that-fail.md).

A part keeps data that it has derived from the records. An unexpected error in a step of a part undoes the changes since
the last cut and is reported. The data of the part may then be wrong, so it is dropped and derived again from the
records, as at the begin of a term. A part that fails again rests, longer each time; all other parts continue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import NoReturn, TypeVar

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.controllers.controller import Controller
from bcs_scheduler.core.interface.leased import Decline

FIRST_REST, LONGEST_REST = 1.0, 60.0
"""Seconds that a part rests after its second error, and at most; each rest is twice as long as the one before."""
FORGIVEN = 300.0
"""Seconds without an error after which the next one is the first again."""
ERRORS_AT_ONCE = 3
"""Errors about single changes that a resting part reports in one turn at most."""

Change = tuple[str, str]
T = TypeVar("T")


def _nothing(changed: Sequence[Change]) -> None:
    """Stands for `notice` of parts that follow no records."""


class Part:
    """One part. `name`: in logs and metrics."""

    def __init__(
        self,
        turn: TurnContext,
        name: str,
        derive: Callable[[], None],
        notice: Callable[[Sequence[Change]], None] = _nothing,
        next_timer: Callable[[], float | None] = lambda: None,
        busy: Callable[[], bool] = lambda: False,
    ) -> None:
        """`derive`: drops the data and derives it from the records. `notice`, `next_timer`: as in
        core.controllers.controller. `busy`: True if the part could continue right now."""
        self.name = name
        self._turn = turn
        self._derive, self._notice, self._next_timer, self._busy = derive, notice, next_timer, busy
        self._failures = 0
        """Number of errors in a row."""
        self._failed_at = -inf
        self._rests_until: float | None = None
        """Unix seconds at which the data is derived again; None: the data is right."""
        self._unreported: Exception | None = None
        """An error between two turns, to be reported in the next one."""

    # --- steps ------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Derives the data at the begin of a term."""
        self._try("recover", self._derive)

    def call(self, step: str, work: Callable[[], None]) -> bool:
        """Runs a step as units of its own. `step`: in logs and metrics. False: the step has failed, or the part
        rests."""
        self._report_late()
        if self._rests_until is not None:
            if self._turn.now < self._rests_until:
                return False
            self._rests_until = None
            if not self._try("recover", self._derive):
                return False
        return self._try(step, work)

    def notice(self, changed: Sequence[Change]) -> None:
        """Passes on changed records, given as (kind, key). A part that rests gets them one by one, so that one object
        delays no other."""
        if not self._resting:
            self.call("notice", partial(self._notice, changed))
            return
        failures = 0
        for kind, key in changed:
            work = partial(self._notice, [(kind, key)])
            failures += bool(self._turn.attempt("core", f"{self.name}.notice {kind} {key}", work))
            if failures >= ERRORS_AT_ONCE:
                return

    # --- questions --------------------------------------------------------------------------------------------

    def next_timer(self) -> float | None:
        """Unix seconds at which the part needs a turn at the latest; None: at no particular time."""
        return self._rests_until if self._rests_until is not None else self._ask(self._next_timer, None)

    @property
    def busy(self) -> bool:
        """True if the part could continue right now."""
        return self._rests_until is None and self._ask(self._busy, otherwise=False)

    @property
    def _resting(self) -> bool:
        return self._rests_until is not None and self._turn.now < self._rests_until

    def _ask(self, question: Callable[[], T], otherwise: T) -> T:
        try:
            return question()
        except Exception as error:
            if self._turn.options.strict:
                raise
            self._unreported = error
            return otherwise

    # --- errors -----------------------------------------------------------------------------------------------

    def _report_late(self) -> None:
        error, self._unreported = self._unreported, None
        if error is not None:
            self._try("next_timer", partial(_raise, error))

    def _try(self, step: str, work: Callable[[], None]) -> bool:
        turn = self._turn
        taken = len(turn.pool.taken)
        if not turn.attempt("core", f"{self.name}.{step}", work):
            return True
        # The calls that would have used these offers are undone. Their room would be lost without an answer.
        if lost := tuple(turn.pool.taken[taken:]):
            turn.emit(Decline(offer_ids=lost, refuse_seconds=0.0, cause=turn.cause))
        turn.count("part_failures", (self.name, step), 1.0)
        turn.cut()
        self._failed(step)
        return False

    def _failed(self, step: str) -> None:
        now = self._turn.now
        self._failures = self._failures + 1 if now < self._failed_at + FORGIVEN else 1
        self._failed_at = now
        if self._failures == 1 and step != "recover":
            self._try("recover", self._derive)
        else:
            self._rests_until = now + min(FIRST_REST * 2 ** min(max(self._failures - 2, 0), 10), LONGEST_REST)


class ControllerPart(Part):
    """A controller as a part."""

    def __init__(self, turn: TurnContext, controller: Controller, busy: Callable[[], bool] = lambda: False) -> None:
        name = type(controller).__name__.lower()
        super().__init__(turn, name, controller.recover, controller.notice, controller.next_timer, busy)
        self.controller = controller

    def tick(self) -> None:
        """Does the work that depends on time."""
        self.call("tick", self.controller.tick)


def _raise(error: Exception) -> NoReturn:
    raise error
