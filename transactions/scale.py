"""SCALE and INNERSCALE: bring the number of taskgroups to a target.

Up fills the missing indexes, down ends those with the highest indexes. INNERSCALE does the same without touching the
status of the application. As half of a step of a rolling update it brings the growing side to a number of taskgroups,
whatever their indexes are, or removes the named victims of the shrinking side.
"""

from __future__ import annotations

import math

import msgspec

from store.records import Application, TaskGroup, Transaction
from transactions import base, groups, launch, lifecycle, rolling
from transactions.base import Context, Refused, Step
from transactions.explain import several


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


def grow(ctx: Context, application: Application, target: int, life: float) -> Transaction:
    """The adding half of a rolling step: the application gets `target` taskgroups, those that leave not counted."""
    transaction = base.begin(
        ctx,
        "INNERSCALE",
        application,
        target=target,
        version=application.version,
        inner=True,
        life=life,
        note=f"rolling update: {application.key} grows to {target} taskgroups",
    )
    ctx.uow.put(msgspec.structs.replace(application, instances=target, updated_at=ctx.now))
    return transaction


def shrink(ctx: Context, application: Application, victims: tuple[str, ...], left: int, life: float) -> Transaction:
    """The removing half of a rolling step: the victims go, `left` taskgroups stay."""
    transaction = base.begin(
        ctx,
        "INNERSCALE",
        application,
        target=left,
        version=application.version,
        inner=True,
        down=True,
        victims=victims,
        life=life,
        note=f"rolling update: {len(victims)} taskgroups of {application.key} go, {left} stay",
    )
    ctx.uow.put(msgspec.structs.replace(application, instances=left, updated_at=ctx.now))
    return transaction


def step(ctx: Context, transaction: Transaction) -> Step:
    application = ctx.application(transaction)
    if application is None:
        return Step(verdict=("FAIL", "the application is gone"))
    if transaction.victims:
        return _remove(ctx, application, transaction)
    if application.rolling:
        return _fill(ctx, application, transaction)
    left = False
    for group in victims(ctx, application, transaction.target):
        if group.ended or group.unreachable_since:
            ended(ctx, transaction, group)
        else:
            left = True
            if group.killing_since:
                continue
            groups.end(ctx, group, _reason(transaction))
        ctx.checkpoint()
        if ctx.enough():
            return Step(again=True)
    missing = launch.missing_slots(ctx, application, transaction.target)
    if left or missing:
        return Step(slots=missing, version=application.version)
    return Step(verdict=("FINISH", f"scaled to {transaction.target}"))


def _remove(ctx: Context, application: Application, transaction: Transaction) -> Step:
    left, wake_at = 0, math.inf
    spare = rolling.spare(ctx.state, application)
    for identity in transaction.victims:
        group = ctx.state.taskgroups.get(identity)
        if group is None:
            continue
        at = math.inf
        if not group.ended and group.unreachable_since:
            at = rolling.given_up_at(ctx.state, application, group)
        if group.ended or at <= ctx.now:
            groups.remove(ctx, group, lifecycle.ROLLED)
            continue
        left, wake_at = left + 1, min(wake_at, at)
        if lifecycle.serves(group):
            # What has failed since they were chosen counts: those that are needed now are ended when others are ready.
            if spare <= 0:
                continue
            spare -= 1
        if lifecycle.is_leaving(group):
            continue
        groups.choose(ctx, group)
        ctx.checkpoint()
        if ctx.enough():
            return Step(again=True)
    if left:
        return Step(wake_at=wake_at if wake_at < math.inf else 0.0)
    return Step(verdict=("FINISH", f"{several(len(transaction.victims), 'taskgroup')} removed"))


def _fill(ctx: Context, application: Application, transaction: Transaction) -> Step:
    """The lowest free indexes below the number its deployment wants. Those that leaving taskgroups hold become free
    when they have ended."""
    side = rolling.side(ctx.state, application)
    missing = transaction.target - len(side.wanted)
    if missing <= 0:
        return Step(verdict=("FINISH", f"{transaction.target} taskgroups are there"))
    deployment = ctx.state.deployments.get(f"{application.namespace}/{application.deployment}")
    limit = deployment.instances if deployment is not None else transaction.target
    free = launch.missing_slots(ctx, application, limit)
    return Step(slots=free[:missing], version=application.version)


def victims(ctx: Context, application: Application, target: int) -> list[TaskGroup]:
    """Taskgroups beyond the target, mostly highest index first: that of later launches. All of them go, so no sorting
    is needed. Not their number decides: after a cancelled operation the indexes may have gaps."""
    if max(ctx.state.indexes_of(application.key), default=-1) < target:
        return []
    return [g for g in reversed(list(ctx.state.groups_of(application.key).values())) if g.index >= target]


def ended(ctx: Context, transaction: Transaction, group: TaskGroup) -> None:
    """A taskgroup beyond the target has ended, or is out of reach. Cared for one by one, as in `delete.ended`."""
    groups.remove(ctx, group, _reason(transaction))


def _reason(transaction: Transaction) -> str:
    return f"scaled down to {transaction.target}"


def prospect(ctx: Context, transaction: Transaction) -> tuple[Step, list[TaskGroup]]:
    """For a plan: what the first look would find, without its changes, and which taskgroups it would end."""
    application = ctx.application(transaction)
    if application is None:
        return Step(), []
    going = victims(ctx, application, transaction.target)
    slots = launch.missing_slots(ctx, application, transaction.target)
    ending = [g for g in going if not (g.ended or g.unreachable_since or g.killing_since)]
    return Step(slots=slots, version=application.version), ending
