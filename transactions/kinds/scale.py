"""SCALE and INNERSCALE: bring the number of taskgroups to a target.

Up fills the missing indexes, down ends those with the highest indexes. INNERSCALE does the same without touching the
status of the application. As half of a step of a rolling update it brings the growing side to a number of taskgroups,
with any indexes, or removes the named victims of the shrinking side.
"""

from __future__ import annotations

import math
from typing import ClassVar

import msgspec

from store.records import Application, RollingPayload, TaskGroup, Transaction, TransactionKind, UpdatePayload
from store.state.reader import StateReader
from transactions import base, conflicts, groups
from transactions.base import Context, Periods, Progress, Refused, Step, Terms
from transactions.conflicts import OnConflict
from transactions.kinds import launch, update
from transactions.kinds.kind import Kind, filled, limit_to_existing
from transactions.rules import endings, lifecycle, rolling
from transactions.text import counted


def create(
    ctx: Context,
    application: Application,
    target: int,
    *,
    inner: bool = False,
    on_conflict: OnConflict = "fail",
    stand_ins: int = 0,
) -> Transaction | None:
    """Writes the new instance count and the transaction. None if there is nothing to do
    (docs/original.md#scale-to-the-same), or if the running operation leads to that number anyway. A superseded update
    continues as an update with the new number of taskgroups. `stand_ins`: number of the taskgroups that stand in for
    those of a drained agent. Raises Refused (conflict, invalid)."""
    running = conflicts.to_supersede(ctx, application, "scale", on_conflict, inner=inner)
    if target < 0:
        raise Refused("invalid", f"instances must be at least 0, not {target}", "$.instances")
    taken = ctx.state.indexes_of(application.key)
    if application.instances == target and (running or (len(taken) == target and max(taken, default=-1) < target)):
        return None
    for transaction in running:
        if isinstance(transaction.payload, UpdatePayload):
            return update.resize(ctx, application, transaction, target, running)
    down = bool(taken) and max(taken) >= target
    terms = Terms(
        target=target,
        version=application.version,
        inner=inner,
        life=ctx.options.periods.rolling_down if inner and down else 0.0,
        note=f"application in scaling from {len(taken)} to {target}"
        + (f": {counted(stand_ins, 'stand-in')} for a drain" if stand_ins else ""),
    )
    transaction = base.begin(ctx, INNER_SCALE if inner else SCALE, application, terms)
    conflicts.supersede(ctx, running, transaction)
    changed = msgspec.structs.replace(application, instances=target, updated_at=ctx.now)
    ctx.uow.put(changed if inner else base.mark_operating(ctx, changed, transaction, "application in scaling"))
    return transaction


def grow(ctx: Context, application: Application, target: int, life: float) -> Transaction:
    """Begins the adding half of a step of a rolling update: the application gets `target` taskgroups, without those
    that leave. `life`: seconds until the deadline."""
    note = f"rolling update: {application.key} grows to {counted(target, 'taskgroup')}"
    terms = Terms(target=target, version=application.version, inner=True, life=life, waves=0, note=note)
    transaction = base.begin(ctx, GROW, application, terms)
    ctx.uow.put(msgspec.structs.replace(application, instances=target, updated_at=ctx.now))
    return transaction


def shrink(ctx: Context, application: Application, victims: tuple[str, ...], left: int, life: float) -> Transaction:
    """Begins the removing half of a step of a rolling update: the victims (taskgroup ids) are ended, `left` taskgroups
    stay. `life`: seconds until the deadline."""
    note = f"rolling update: {counted(len(victims), 'taskgroup')} of {application.key} to end, {left} to stay"
    terms = Terms(target=left, version=application.version, inner=True, life=life, note=note)
    transaction = base.begin(ctx, SHRINK, application, terms, RollingPayload(victims=victims))
    ctx.uow.put(msgspec.structs.replace(application, instances=left, updated_at=ctx.now))
    return transaction


class Scale(Kind):
    """Fills the missing indexes below the target and ends the taskgroups beyond it. Downwards it is looked at when
    there are no more taskgroups than it wants: those beyond that end are removed one by one (`handles`)."""

    type: ClassVar[TransactionKind] = "SCALE"
    can_be_superseded = True
    sizes = True

    def form(self, state: StateReader, transaction: Transaction) -> Kind:
        """On a side of a rolling update only the number of taskgroups counts."""
        if isinstance(transaction.payload, RollingPayload) and transaction.payload.victims:
            return SHRINK
        application = state.applications.get(transaction.application_key)
        return GROW if application is not None and application.rolling else self

    def step(self, ctx: Context, transaction: Transaction) -> Step:
        """Asks for free indexes below the target, and ends the taskgroups above the target."""
        application = ctx.application(transaction)
        if application is None:
            return Step(verdict=("FAIL", "the application does not exist any more"))
        left = False
        missing = launch.missing_slots(ctx, application, transaction.target)
        going = victims(ctx, application, transaction.target)
        stand_in = _stand_ins(ctx, application, transaction, going, len(missing))
        for group in going:
            if group.id in stand_in:
                left = True
            elif group.ended or group.unreachable_since:
                groups.remove(ctx, group, _reason(transaction))
            else:
                left = True
                if group.killing_since:
                    continue
                groups.end(ctx, group, "ScaledDown", _reason(transaction))
            ctx.checkpoint()
            if ctx.time_is_up():
                return Step(unfinished=True)
        if left or missing:
            return Step(slots=missing, version=application.version)
        return Step(verdict=("FINISH", f"scaled to {transaction.target}"))

    def preview(self, ctx: Context, transaction: Transaction) -> tuple[Step, list[TaskGroup]]:
        """The slots and the ends of the first step."""
        application = ctx.application(transaction)
        if application is None:
            return Step(), []
        going = victims(ctx, application, transaction.target)
        slots = launch.missing_slots(ctx, application, transaction.target)
        ending = [g for g in going if not (g.ended or g.unreachable_since or g.killing_since)]
        return Step(slots=slots, version=application.version), ending

    def concerns(self, ctx: Context, transaction: Transaction, group: TaskGroup | None) -> bool:
        """Like `Kind.concerns`: True only for taskgroups above the target, and only when there are no more taskgroups
        than the target."""
        application = ctx.application(transaction)
        if application is None:
            return True
        if group is not None and _is_new(application, transaction, group):
            return bool(victims(ctx, application, transaction.target))
        beyond = group is None or group.index >= transaction.target
        return beyond and len(ctx.state.groups_of(application.key)) <= transaction.target

    def handles(self, ctx: Context, transaction: Transaction, application: Application, group: TaskGroup) -> bool:
        """Removes a taskgroup above the target that has ended. False for all others."""
        if application.rolling or group.index < transaction.target:
            return False
        groups.remove(ctx, group, _reason(transaction))
        return True

    def ends(self, state: StateReader, transaction: Transaction, group: TaskGroup) -> bool:
        """Returns True if the taskgroup is above the target."""
        return group.index >= transaction.target

    def progress(self, state: StateReader, transaction: Transaction) -> Progress:
        """Returns the progress towards the target number of indexes: see `filled`."""
        return filled(state, transaction)

    def cancelled(self, ctx: Context, transaction: Transaction) -> None:
        """The application keeps the taskgroups that are there."""
        limit_to_existing(ctx, transaction)


class InnerScale(Scale):
    """A scale that leaves the status of the application alone."""

    type = "INNERSCALE"
    sizes = False
    scans_all = True

    @property
    def label(self) -> str:
        """Name of the operation in metrics: the same as for SCALE."""
        return "scale"

    def life(self, periods: Periods, *, inner: bool) -> float:
        """Like `BasicKind.life`."""
        return periods.rolling_up


class Grow(InnerScale):
    """The adding half of a rolling step: taskgroups are added until there are as many as the target, those that leave
    not counted."""

    def form(self, state: StateReader, transaction: Transaction) -> Kind:
        """Returns itself: the record has the exact form of the operation already."""
        return self

    def step(self, ctx: Context, transaction: Transaction) -> Step:
        """The lowest free indexes below the number its deployment wants. Those that leaving taskgroups hold become
        free when they have ended."""
        application = ctx.application(transaction)
        if application is None:
            return Step(verdict=("FAIL", "the application does not exist any more"))
        side = rolling.side(ctx.state, application)
        missing = transaction.target - side.wanted
        if missing <= 0:
            return Step(verdict=("FINISH", f"{counted(transaction.target, 'taskgroup')} present"))
        deployment = ctx.state.deployments.get(application.deployment_key)
        limit = deployment.instances if deployment is not None else transaction.target
        free = launch.missing_slots(ctx, application, limit)
        return Step(slots=free[:missing], version=application.version)

    def preview(self, ctx: Context, transaction: Transaction) -> tuple[Step, list[TaskGroup]]:
        """Returns the result of the step, which ends no taskgroup."""
        return self.step(ctx, transaction), []

    def concerns(self, ctx: Context, transaction: Transaction, group: TaskGroup | None) -> bool:
        """Like `Kind.concerns`: always True, because a rolling update is examined after each change."""
        return True

    def ends(self, state: StateReader, transaction: Transaction, group: TaskGroup) -> bool:
        """Always False: the indexes have no meaning."""
        return False

    def progress(self, state: StateReader, transaction: Transaction) -> Progress:
        """Taskgroups that are there."""
        target, members = transaction.target, state.groups_of(transaction.application_key)
        there = sum(not lifecycle.is_chosen_by_rollout(group) for group in list(members.values()))
        return Progress(min(there, target), max(0, target - there))


class Shrink(Grow):
    """The removing half of a rolling step: the victims go."""

    def step(self, ctx: Context, transaction: Transaction) -> Step:
        """Ends the chosen taskgroups within the disruption budget; FINISH when all are gone."""
        application, going = ctx.application(transaction), RollingPayload.of(transaction).victims
        if application is None:
            return Step(verdict=("FAIL", "the application does not exist any more"))
        left, wake_at = 0, math.inf
        disruption_budget = rolling.disruption_budget(ctx.state, application)
        for identity in going:
            group = ctx.state.taskgroups.get(identity)
            if group is None:
                continue
            at = math.inf
            if not group.ended and group.unreachable_since:
                at = rolling.given_up_at(ctx.state, application, group)
            if group.ended or at <= ctx.now:
                groups.remove(ctx, group, endings.describe("RollingUpdate"))
                continue
            left, wake_at = left + 1, min(wake_at, at)
            if lifecycle.is_ready(group):
                # Taskgroups may have failed since the victims were chosen: victims that are needed now are ended when
                # others are
                # ready.
                if disruption_budget <= 0:
                    continue
                disruption_budget -= 1
            if lifecycle.is_chosen_by_rollout(group):
                continue
            groups.replace_end_cause(ctx, group, "RollingUpdate")
            ctx.checkpoint()
            if ctx.time_is_up():
                return Step(unfinished=True)
        if left:
            return Step(wake_at=wake_at if wake_at < math.inf else 0.0)
        return Step(verdict=("FINISH", f"{counted(len(going), 'taskgroup')} removed"))

    def ends(self, state: StateReader, transaction: Transaction, group: TaskGroup) -> bool:
        """Returns True if the taskgroup is a victim."""
        return group.id in RollingPayload.of(transaction).victims

    def progress(self, state: StateReader, transaction: Transaction) -> Progress:
        """Victims that are gone."""
        going = RollingPayload.of(transaction).victims
        left = sum(identity in state.taskgroups for identity in going)
        return Progress(len(going) - left, left)


SCALE, INNER_SCALE, GROW, SHRINK = Scale(), InnerScale(), Grow(), Shrink()


def victims(ctx: Context, application: Application, target: int) -> list[TaskGroup]:
    """Taskgroups beyond the target, mostly highest index first: that of later launches. All of them go, so no sorting
    is needed. Not their number decides: after a cancelled operation the indexes may have gaps."""
    if max(ctx.state.indexes_of(application.key), default=-1) < target:
        return []
    return [g for g in reversed(list(ctx.state.groups_of(application.key).values())) if g.index >= target]


def _is_new(application: Application, transaction: Transaction, group: TaskGroup) -> bool:
    """The scale of a deployment's application has launched the taskgroup."""
    return bool(application.deployment) and group.created_at >= transaction.due_at


def _stand_ins(
    ctx: Context, application: Application, transaction: Transaction, going: list[TaskGroup], missing: int
) -> set[str]:
    """Ids of the taskgroups of a deployment beyond the target that stay until those that take their place are ready:
    an update that got a smaller number may leave gaps among the wanted indexes."""
    if not going or not application.deployment:
        return set()
    members = ctx.state.readiness.unready(application.key).values()
    coming = sum(g.index < transaction.target and _is_new(application, transaction, g) for g in members)
    serving = [g.id for g in going if lifecycle.is_ready(g)]
    return set(serving[max(0, len(serving) - missing - coming) :])


def _reason(transaction: Transaction) -> str:
    return f"scaled down to {transaction.target}"
