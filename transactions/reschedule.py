"""RESCHEDULE: replace one taskgroup by a new one of the same index, after a failure (inner) or on request.

The old record stays until the moment its replacement is placed; both changes are one unit, so the index is never lost
and never held twice (W-16).
"""

from __future__ import annotations

from store.records import Application, TaskGroup, Transaction, Version
from transactions import base, groups, update
from transactions.base import Context, Refused, Slot, Step
from transactions.lifecycle import Restart


def create(ctx: Context, group: TaskGroup, host_retain_time: float) -> Transaction:
    """On request: the taskgroup is ended and replaced whatever its restart policy says."""
    application = ctx.state.applications.get(f"{group.namespace}/{group.application}")
    if application is None:
        raise Refused("not_found", f"application {group.namespace}/{group.application} does not exist")
    base.refuse_if_busy(ctx, application, "reschedule a taskgroup of")
    for other in ctx.state.active_of(application.key).values():
        if other.taskgroup == group.id and not other.inner:
            raise Refused("conflict", f"taskgroup {group.id} is being rescheduled already (transaction {other.id})")
        if other.taskgroup == group.id:
            base.end(ctx, other, "CANCEL", "rescheduled on request instead", 0)
            break
    transaction = base.begin(
        ctx,
        "RESCHEDULE",
        application,
        delay=ctx.options.periods.reschedule_delay,
        target=1,
        taskgroup=group.id,
        force=True,
        restarts=group.restarts,
        host_retain=group.hostname if host_retain_time > 0 else "",
        host_retain_time=host_retain_time,
        note=f"reschedule of {group.id} on request",
    )
    groups.end(ctx, group, "rescheduled on request")
    return transaction


def create_inner(
    ctx: Context, application: Application, group: TaskGroup, version: Version, restart: Restart
) -> Transaction:
    """After a failure, by the restart policy."""
    retain = version.restart_policy.host_retain if group.ended else 0.0
    delay = max(0.0, restart.at - ctx.now)
    return base.begin(
        ctx,
        "RESCHEDULE",
        application,
        delay=delay,
        inner=True,
        target=1,
        taskgroup=group.id,
        restarts=restart.restarts,
        host_retain=group.hostname if retain > 0 else "",
        host_retain_time=retain,
        note=f"restart of {group.id} in {delay:.0f} s: {restart.why}",
    )


def step(ctx: Context, transaction: Transaction) -> Step:
    application = ctx.application(transaction)
    if application is None:
        return Step(verdict=("FAIL", "the application is gone"))
    group = ctx.state.taskgroups.get(transaction.taskgroup)
    if group is None:
        return Step(verdict=("FINISH", "the taskgroup is gone already"))
    owner = ctx.state.transactions.get(application.operation)
    if owner is not None and owner.active and update.takes_care_of(owner, group):
        return Step(verdict=("FINISH", f"the update {owner.id} replaces it"))
    if group.index >= application.instances:
        return Step(verdict=("FINISH", "the taskgroup is not wanted any more"))
    if transaction.inner and not group.ended and not group.unreachable_since and group.status == "Running":
        return Step(verdict=("FINISH", f"taskgroup recovered to running, id: {group.id}"))
    if not group.ended and not group.unreachable_since:
        groups.end(ctx, group, "rescheduled")
        return Step()
    version = group.version if ctx.state.version(application.key, group.version) else application.version
    retained = transaction.host_retain if ctx.now < transaction.host_retain_until else ""
    return Step(
        slots=(Slot(group.index, group.id),),
        version=version,
        only_host=retained,
        wake_at=transaction.host_retain_until if retained else 0.0,
    )


def progress(ctx: Context, transaction: Transaction) -> int:
    """1 once the old taskgroup has made way, else 0."""
    return 0 if transaction.taskgroup in ctx.state.taskgroups else 1
