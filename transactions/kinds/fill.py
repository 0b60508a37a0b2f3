"""FILL: the taskgroups that an application still wants after the operation that was to launch them has ended.

A launch, a scale or an update that runs out of time leaves indexes without a taskgroup. The missing taskgroups stay
wanted: the scheduler begins a FILL, which places these taskgroups as soon as there is room. The FILL begins only if no
other operation works on the application, never owns the application, and is superseded by every operation of a user.
"""

from __future__ import annotations

from typing import ClassVar

from store.records import Application, Transaction, TransactionKind
from transactions import base
from transactions.base import Context, Periods, Step, Terms
from transactions.kinds.launch import Launch, missing_slots
from transactions.rules import application_types
from transactions.text import counted

PAUSE, LONGEST_PAUSE = 60.0, 3600.0
"""Seconds between an operation that has failed unexpectedly and the next FILL. The pause doubles with each failure, so
that a defect causes no endless loop."""


class Fill(Launch):
    """Like a launch, but the target is the number of instances that the application wants at the moment of each
    step."""

    type: ClassVar[TransactionKind] = "FILL"
    exclusive = False
    sizes = False
    reserves = (
        False  # it follows a launch whose reservation has ended, again and again: others would never get the room
    )

    def life(self, periods: Periods, *, inner: bool) -> float:
        """Like `Kind.life`; another FILL follows as long as taskgroups are missing."""
        return periods.inner_reschedule

    def step(self, ctx: Context, transaction: Transaction) -> Step:
        """Wants every index below the present number that no taskgroup holds, with the present version."""
        application = ctx.application(transaction)
        if application is None:
            return Step(verdict=("FAIL", "the application does not exist any more"))
        missing = missing_slots(ctx, application, application.instances)
        if not missing:
            return Step(verdict=("FINISH", "no taskgroup is missing"))
        return Step(slots=missing, version=application.version)


FILL = Fill()


def active(ctx: Context, application: Application) -> Transaction | None:
    """Returns the active FILL of the application; None if there is none."""
    found = ctx.state.active_of(application.key).values()
    return next((transaction for transaction in found if transaction.type == FILL.type), None)


def begin_if_missing(ctx: Context, application: Application) -> None:
    """Begins a FILL for an application of a user that no operation works on, if taskgroups are missing. The controllers
    of deployments and daemonsets see to the applications that they own."""
    missing = application.instances - len(ctx.state.indexes_of(application.key))
    if missing <= 0 or application.deployment or application_types.bound_to_agents(application):
        return
    if application.status == "RollingUpdate" or base.exclusive_operations(ctx, application) or active(ctx, application):
        return
    if ctx.state.version(application.key, application.version) is None:
        return
    terms = Terms(
        target=application.instances,
        version=application.version,
        inner=True,
        delay=_delay(ctx, application),
        waves=0,
        note=f"{missing} of {counted(application.instances, 'taskgroup')} missing, launched as soon as there is room",
    )
    base.begin(ctx, FILL, application, terms)


def _delay(ctx: Context, application: Application) -> float:
    """Seconds until the next FILL is due: none, except after failures."""
    ended = sorted(ctx.state.transactions_of(application.key).values(), key=lambda t: t.finished_at, reverse=True)
    failed = 0
    while failed < len(ended) and ended[failed].status == "FAIL":
        failed += 1
    if not failed:
        return 0.0
    pause = min(PAUSE * 2.0 ** (failed - 1), LONGEST_PAUSE)
    return max(0.0, ended[0].finished_at + pause - ctx.now)
