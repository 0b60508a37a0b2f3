"""Conflicts between a new operation and an operation that already works on the same application.

One operation at a time works on an application. A user who requests another state while an operation runs wants that
state: by default the new operation supersedes the running one. The running operation ends with the verdict SUPERSEDED
in the same commit in which the new one begins. The new operation brings the application to the whole wanted state:
taskgroups that the running operation has launched count, and its successor launches and ends the remaining ones.
docs/decisions/0038-the-wanted-state-wins.md has the reasons.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from store.records import Application, Transaction
from transactions import base
from transactions.base import Context
from transactions.kinds import fill
from transactions.text import named

OnConflict = Literal["supersede", "queue", "fail"]
"""supersede: the new operation ends a running operation that scales or updates. queue: the request waits until the
running operation has ended (bcs_scheduler.core.requests.queue). fail: the new operation is refused."""


def to_supersede(
    ctx: Context, application: Application, action: str, on_conflict: OnConflict, *, inner: bool = False
) -> tuple[Transaction, ...]:
    """The active operations that exclude others and that a new one supersedes, oldest first; empty if none runs.
    `action`: the new operation as a verb, for messages; `inner`: the new operation is a step of a rolling update.
    Raises Refused (conflict) if the running operation cannot be superseded."""
    running = base.exclusive_operations(ctx, application)
    yields = on_conflict == "supersede" and all(
        ctx.kind_of(ctx.state, transaction).can_be_superseded for transaction in running
    )
    if not yields or application.status == "RollingUpdate":
        base.refuse_if_busy(ctx, application, action, inner=inner)
    return running


def supersede(ctx: Context, running: Iterable[Transaction], successor: Transaction) -> None:
    """Ends the running operations, whose successor owns the application from now on, and the launch of missing
    taskgroups, which the successor does as well."""
    application = ctx.application(successor)
    beside = [] if application is None else [fill.active(ctx, application)]
    for transaction in (*running, *filter(None, beside)):
        done = ctx.kind_of(ctx.state, transaction).progress(ctx.state, transaction).done
        base.end(ctx, transaction, "SUPERSEDED", f"superseded by {named(successor.type, successor.id)}", done)
