"""The parts of the core, which are called through one guarded function (docs/decisions/0096-parts-that-fail.md).

A part keeps data that it has derived from the records. An unexpected error in a step of a part undoes the changes since
the last cut and is reported. The data of the part may then be wrong, so it is dropped and derived again from the
records, as at the begin of a term. A part that fails again rests, longer each time; all other parts continue. After an
error in the work for one object (`TurnContext.each`), the part continues with the others and is made anew a little
later.

Other parts ask a part through hooks: its gate, and functions that follow the state (`TurnContext.watch`). After an
error there the part is made anew before it is called next. Until then its gate lets no slot pass, and requests that
need its data are refused (`TurnContext.require`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import NoReturn, Protocol, TypeVar

from bcs_scheduler.core.context import ERRORS_AT_ONCE, RETRY, Change, TurnContext
from bcs_scheduler.core.interface.leased import Decline
from store.records import Transaction
from transactions.base import Failure, Gate, Step
from transactions.rules.gangs import FAILED

FIRST_REST, LONGEST_REST = 1.0, 60.0
"""Seconds that a part rests after its second error, and at most; each rest is twice as long as the one before."""
FORGIVEN = 300.0
"""Seconds without an error after which the next one is the first again."""
LONGEST_RETRY = 64 * RETRY
"""Greatest number of seconds from an error of one object until the part is made anew. Each time is twice as long as the
one before: an object that no code can handle costs ever less."""
RESTS = Failure("resting", "the part rests", "the part rests")

T = TypeVar("T")


class Controller(Protocol):
    """Brings the cluster to the recorded state, for one kind of object: it reacts to changed records, through the same
    unit of work."""

    def recover(self) -> None:
        """Drops the state of the controller and derives it from the records: after an election, and after an unexpected
        error (core.parts)."""

    def notice(self, changed: Sequence[tuple[str, str]]) -> None:
        """Handles changed records, given as (kind, key); called until nothing changes any more."""

    def tick(self) -> None:
        """Does work that depends on time, once per turn."""

    def next_timer(self) -> float | None:
        """Returns the Unix seconds at which the part needs a turn at the latest; None: at no particular time."""


class Part:
    """One part. `name`: in logs and metrics."""

    def __init__(
        self,
        turn: TurnContext,
        name: str,
        derive: Callable[[], None],
        notice: Callable[[Sequence[Change]], None] | None = None,
        next_timer: Callable[[], float | None] = lambda: None,
        busy: Callable[[], bool] = lambda: False,
    ) -> None:
        """`derive`: drops the data and derives it from the records. `notice`, `next_timer`: as in
        `Controller`; None: the part follows no changes. `busy`: True if the part could continue
        right now."""
        self.name = name
        self._turn = turn
        self._derive, self._notice, self._next_timer, self._busy = derive, notice, next_timer, busy
        self._failures = 0
        """Number of errors in a row."""
        self._failed_at = -inf
        self._rests_until: float | None = None
        """Unix seconds until which no step is begun; None: the part does not rest."""
        self._object_failed_at = -inf
        self._retry = RETRY
        """Seconds from the next error of one object until the part is made anew."""
        self._retry_at: float | None = None
        """Unix seconds at which the part is made anew because of an error of one object; None: there was none."""
        self._held_back: dict[str, None] = {}
        """Ids of the transactions that the gate has held back because the data may be wrong."""

    # --- steps ------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Derives the data at the begin of a term."""
        self._remake()

    def call(self, step: str, work: Callable[[], T]) -> T | Failure:
        """Runs a step as units of its own and returns its result. `step`: in logs and metrics. A failure: the step has
        failed, or the part rests (`resting`)."""
        if self._turn.unsound or self._rests_until is not None or self._retry_at is not None:
            failure = self.mend()
            if failure is not None:
                return failure
        return self._try(step, work)

    def mend(self) -> Failure | None:
        """Reports errors of questions and hooks, and makes the part anew if its data may be wrong. Returns a failure if
        the part rests or has failed again, else None."""
        if self._resting:
            return RESTS
        self._rests_until = None
        unsound = self._turn.unsound
        if (unreported := unsound.get(self.name)) is not None:
            unsound[self.name] = None
            failure = self._try(unreported[0], partial(_raise, unreported[1]))
            if self._resting:
                return failure
        if self._retry_at is not None and self._turn.now >= self._retry_at:
            unsound[self.name] = None
        return self._remake() if self.name in unsound else None

    def notice(self, changed: Sequence[Change]) -> None:
        """Passes on changed records. A part that rests gets them one by one, so that one object delays no other."""
        if self._notice is None:
            self.mend()
            return
        if not self._resting:
            self.call("notice", partial(self._notice, changed))
            return
        failures = 0
        for kind, key in changed:
            work = partial(self._notice, [(kind, key)])
            if isinstance(self._turn.attempt("core", f"{self.name}.notice {kind} {key}", work), Failure):
                self._turn.unsound.setdefault(self.name, None)
                failures += 1
            if failures >= ERRORS_AT_ONCE:
                return

    # --- questions and hooks ----------------------------------------------------------------------------------

    def next_timer(self) -> float | None:
        """Unix seconds at which the part needs a turn at the latest; None: at no particular time."""
        return self._rests_until if self._rests_until is not None else self._ask("next_timer", self._next_timer, None)

    @property
    def busy(self) -> bool:
        """True if the part could continue right now."""
        return self._rests_until is None and self._ask("busy", self._busy, otherwise=False)

    @property
    def _resting(self) -> bool:
        return self._rests_until is not None and self._turn.now < self._rests_until

    def _ask(self, name: str, question: Callable[[], T], otherwise: T) -> T:
        try:
            return question()
        except Exception as error:
            self._turn.suspect(self.name, name, error)
            return otherwise

    def admitted(self, gate: Gate, transaction: Transaction, step: Step) -> Step:
        """The step as the gate of this part lets it pass. No slot passes while the data may be wrong, or if the gate
        fails: the operation waits, and is looked at again when the part has been made anew."""
        if not step.slots:
            return step
        if self.name not in self._turn.unsound:
            point = self._turn.uow.savepoint()
            try:
                return gate.admitted(transaction, step)
            except Exception as error:
                self._turn.suspect(self.name, "admitted", error)
                self._turn.uow.undo(point)
        self._held_back[transaction.id] = None
        return step._replace(slots=(), missing=(FAILED[self.name], *step.missing))

    # --- errors -----------------------------------------------------------------------------------------------

    def _remake(self) -> Failure | None:
        self._retry_at = None
        failure = self._try("recover", self._derive)
        if failure is not None:
            return failure
        self._turn.unsound.pop(self.name, None)
        held_back, self._held_back = self._held_back, {}
        self._turn.engine.queue_steps(held_back)
        return None

    def _try(self, step: str, work: Callable[[], T]) -> T | Failure:
        turn = self._turn
        taken, errors = len(turn.pool.hand.taken), turn.object_errors
        result = turn.attempt("core", f"{self.name}.{step}", work)
        if turn.object_errors != errors:
            self._object_failed()
        if not isinstance(result, Failure):
            return result
        # The calls that would have used these offers are undone. Their room would be lost without an answer.
        if lost := tuple(turn.pool.hand.taken[taken:]):
            turn.emit(Decline(offer_ids=lost, refuse_seconds=0.0, cause=turn.cause))
        turn.count("part_failures", (self.name, step), 1.0)
        turn.cut()
        self._failed(step)
        return result

    def _object_failed(self) -> None:
        now = self._turn.now
        if self._retry_at is None:
            is_first = now >= self._object_failed_at + 2 * LONGEST_RETRY
            self._retry = RETRY if is_first else min(2 * self._retry, LONGEST_RETRY)
            self._retry_at = now + self._retry
        self._object_failed_at = now

    def _failed(self, step: str) -> None:
        now = self._turn.now
        self._failures = self._failures + 1 if now < self._failed_at + FORGIVEN else 1
        self._failed_at = now
        self._turn.unsound[self.name] = None
        failures = self._failures
        if step != "recover" and self._remake() is None and failures == 1:
            return
        self._rests_until = now + min(FIRST_REST * 2 ** min(max(failures - 2, 0), 10), LONGEST_REST)


class GuardedGate:
    """The gate of a part. Implements `transactions.base.Gate`."""

    def __init__(self, part: Part, gate: Gate) -> None:
        self._part, self._gate = part, gate

    def admitted(self, transaction: Transaction, step: Step) -> Step:
        """See `Part.admitted`."""
        return self._part.admitted(self._gate, transaction, step)


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
