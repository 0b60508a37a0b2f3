"""SCALE and INNERSCALE: bring the number of taskgroups to a target.

Up fills the missing indexes, down ends those with the highest indexes. INNERSCALE (a step of a rolling update) does the
same without touching the status of the application.
"""

from __future__ import annotations

import msgspec

from store.records import Application, TaskGroup, Transaction
from transactions import base, groups, launch
from transactions.base import Context, Refused, Step


def create(ctx: Context, application: Application, target: int, *, inner: bool = False) -> Transaction | None:
    """Writes the new instance count and the transaction; None if there is nothing to do (W53)."""
    base.refuse_if_busy(ctx, application, "scale", inner=inner)
    if target < (0 if inner else 1):
        raise Refused("invalid", f"instances must be at least 1, not {target}", "$.instances")
    taken = ctx.state.indexes_of(application.key)
    if application.instances == target and len(taken) == target:
        return None
    down = bool(taken) and max(taken) >= target
    text = f"application in scaling from {len(taken)} to {target}"
    transaction = base.begin(
        ctx,
        "INNERSCALE" if inner else "SCALE",
        application,
        target=target,
        version=application.version,
        inner=inner,
        down=down,
        note=text,
    )
    changed = msgspec.structs.replace(application, instances=target, updated_at=ctx.now)
    ctx.uow.put(changed if inner else base.own(ctx, changed, transaction, "application in scaling"))
    return transaction


def step(ctx: Context, transaction: Transaction) -> Step:
    application = ctx.application(transaction)
    if application is None:
        return Step(verdict=("FAIL", "the application is gone"))
    left = 0
    # Not their number decides: after a cancelled operation the indexes may have gaps.
    if max(ctx.state.indexes_of(application.key), default=-1) >= transaction.target:
        for group in victims(ctx, application, transaction.target):
            if group.ended or group.unreachable_since:
                groups.remove(ctx, group, f"scaled down to {transaction.target}")
            else:
                groups.end(ctx, group, f"scaled down to {transaction.target}")
                left += 1
            ctx.checkpoint()
    missing = launch.missing_slots(ctx, application, transaction.target)
    if left or missing:
        return Step(slots=missing, version=application.version)
    return Step(verdict=("FINISH", f"scaled to {transaction.target}"))


def victims(ctx: Context, application: Application, target: int) -> list[TaskGroup]:
    """Taskgroups beyond the target, highest index first."""
    found = [g for g in ctx.state.groups_of(application.key).values() if g.index >= target]
    return sorted(found, key=lambda g: (-g.index, g.id))
