"""RESCHEDULE: replace one taskgroup by a new one of the same index, after a failure (inner) or on request.

The old record stays until the moment its replacement is placed; both changes are one unit, so the index is never lost
and never held twice (W-16).
"""

from __future__ import annotations

from typing import Literal

import msgspec

from store.records import Application, TaskGroup, Transaction, Version
from transactions import base, groups, injection, lifecycle, relaunch, update
from transactions.base import Context, Refused, Slot, Step, Verdict
from transactions.lifecycle import Restart


def create(ctx: Context, group: TaskGroup, host_retain_time: float, *, drained: str = "") -> Transaction:
    """On request: the taskgroup is ended and replaced whatever its restart policy says. `drained`: the agent is being
    emptied; its name."""
    application = ctx.state.applications.get(f"{group.namespace}/{group.application}")
    if application is None:
        raise Refused("not_found", f"application {group.namespace}/{group.application} does not exist")
    if lifecycle.is_leaving(group):
        raise Refused("conflict", f"taskgroup {group.id} is being {group.kill_reason}")
    if not application.rolling:
        base.refuse_if_busy(ctx, application, "reschedule a taskgroup of")
    version = ctx.state.version(application.key, group.version)
    if version is not None and not group.ended:
        # What runs is not ended for a replacement that could not be launched.
        injection.refuse_if_missing(ctx.state, version)
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
        drained=drained,
        note=f"reschedule of {group.id} on request" + (f", to empty agent {drained}" if drained else ""),
    )
    groups.end(ctx, group, f"moved away from agent {drained}" if drained else "rescheduled on request")
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


def follow(
    ctx: Context, transaction: Transaction, group: TaskGroup, before: TaskGroup | None
) -> tuple[TaskGroup, Literal["restarted", "relaunched"]]:
    """Writes the replacement with the counts that follow from the taskgroup it replaces. A launch after one that did
    not happen is no restart, and neither is a move away from an agent that is drained."""
    done: Literal["restarted", "relaunched"] = "restarted"
    if before is not None and transaction.inner and relaunch.is_due(before):
        done = "relaunched"
        group = relaunch.follow(group, before)
    else:
        restarts = transaction.restarts + (not transaction.drained)
        group = msgspec.structs.replace(group, restarts=restarts, last_restart_at=ctx.now)
    words = f"{transaction.taskgroup} -> {group.id}"
    ctx.tell("taskgroup", group.id, done, words, transaction=transaction.id)
    return ctx.uow.put(group), done


def settled(ctx: Context, transaction: Transaction) -> Verdict | None:
    """Why nothing has to be done (any more); it need not be due to find that out."""
    application = ctx.application(transaction)
    if application is None:
        return "FAIL", "the application is gone"
    group = ctx.state.taskgroups.get(transaction.taskgroup)
    if group is None:
        return "FINISH", "the taskgroup is gone already"
    owner = ctx.state.transactions.get(application.operation)
    if owner is not None and owner.active and update.takes_care_of(owner, group):
        return "FINISH", f"the update {owner.id} replaces it"
    if lifecycle.is_leaving(group) or groups.beyond(application, group.index):
        return "FINISH", "the taskgroup is not wanted any more"
    if transaction.inner and not (group.ended or group.unreachable_since or group.killing_since):
        return "FINISH", f"taskgroup recovered to {group.status.lower()}, id: {group.id}"
    return None


def step(ctx: Context, transaction: Transaction) -> Step:
    verdict = settled(ctx, transaction)
    application = ctx.application(transaction)
    if verdict is not None or application is None:
        return Step(verdict=verdict)
    group = ctx.state.taskgroups[transaction.taskgroup]
    if not group.ended and not group.unreachable_since:
        groups.end(ctx, group, "rescheduled")
        return Step()
    version = ctx.state.version(application.key, group.version)
    if application.type == "daemonset":
        if not group.ended:
            return Step()  # it may come back with its agent, where there is room for one only
        agents = frozenset((group.agent_id,))
        return Step(slots=(Slot(group.index, group.id),), version=group.version, per_agent=True, only_agents=agents)
    if transaction.inner and not group.ended and version is not None:
        # It may have been back in between: the wait counts from when it went away last.
        at = lifecycle.replaceable_at(group, version.unreachable_policy)
        if at is None or ctx.now < at:
            return Step(wake_at=at or 0.0)
    retained = transaction.host_retain if ctx.now < transaction.host_retain_until else ""
    return Step(
        slots=(Slot(group.index, group.id),),
        version=version.name if version is not None else application.version,
        only_host=retained,
        wake_at=transaction.host_retain_until if retained else 0.0,
    )
