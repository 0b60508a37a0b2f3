"""UPDATE: bring taskgroups to a new version, a bounded number at a time.

The old taskgroup of an index is ended first, then its place is taken by one of the new version. At no moment does the
update by its own act leave more than `max_unavailable` taskgroups not ready (W-68); what fails by itself counts against
that budget, so the update waits. A taskgroup with health checks is ready when all of them pass. Nothing is ended while
a configmap or secret that the new version needs does not exist.
"""

from __future__ import annotations

import math
from operator import attrgetter

import msgspec

from store.records import Application, TaskGroup, Transaction, Version
from transactions import base, groups, injection, launch, lifecycle
from transactions.base import Context, Refused, Slot, Step
from transactions.lifecycle import READY, is_ready


def create(
    ctx: Context,
    application: Application,
    version: Version,
    *,
    instances: int | None = None,
    max_unavailable: int | None = None,
) -> Transaction | None:
    """Writes the new version and the transaction together (W40); None if nothing would change. `instances` limits how
    many taskgroups are brought to the version. `version` may be a stored one (roll back) or come without a name."""
    base.refuse_if_busy(ctx, application, "update")
    if not application.instances:
        raise Refused("conflict", f"application {application.key} wants no taskgroups; scale it first")
    if instances is not None and not 1 <= instances <= application.instances:
        raise Refused(
            "invalid", f"instances must be between 1 and {application.instances}, not {instances}", "instances"
        )
    if max_unavailable is not None and max_unavailable < 1:
        raise Refused("invalid", f"maxUnavailable must be at least 1, not {max_unavailable}", "maxUnavailable")
    newest = ctx.state.version(application.key, application.version)
    if newest is not None and same_definition(newest, version):
        version = newest
    else:
        version = msgspec.structs.replace(
            version, name=str(ctx.ids.next(ctx.now)), created_at=ctx.now, instances=application.instances
        )
    target = instances or application.instances
    if sum(1 for g in ctx.state.groups_of(application.key).values() if g.version == version.name) >= target:
        return None
    injection.refuse_if_missing(ctx.state, version)
    bound = max_unavailable or version.max_unavailable or default_bound(application.instances)
    transaction = base.begin(
        ctx,
        "UPDATE",
        application,
        delay=ctx.options.periods.update_delay,
        target=target,
        version=version.name,
        max_unavailable=bound,
        note=f"application in updating: {target} to version {version.name}, at most {bound} unavailable",
    )
    changed = msgspec.structs.replace(
        application, version=version.name, labels=version.labels, annotations=version.annotations
    )
    ctx.uow.put(version)
    ctx.uow.put(base.own(ctx, changed, transaction, "application in updating"))
    return transaction


def default_bound(instances: int) -> int:
    """A quarter of the taskgroups, at least one: never all at once unless there is only one."""
    return max(1, instances // 4)


def same_definition(one: Version, other: Version) -> bool:
    """Equal but for name, time, the wording of the document and the instance count."""
    return msgspec.structs.replace(one, name="", created_at=0.0, raw="", instances=0) == msgspec.structs.replace(
        other, name="", created_at=0.0, raw="", instances=0
    )


def step(ctx: Context, transaction: Transaction) -> Step:
    found, ending = prospect(ctx, transaction)
    return end_these(ctx, found, ending)


def end_these(ctx: Context, found: Step, ending: list[TaskGroup]) -> Step:
    """Ends taskgroups for the sake of a new version, as many as the turn allows. Another look finds the rest, and with
    it what has changed."""
    for number, group in enumerate(ending, 1):
        groups.end(ctx, group, "replaced by a new version")
        ctx.checkpoint()
        if ctx.enough() and number < len(ending):
            return found._replace(again=True)
    return found


def prospect(ctx: Context, transaction: Transaction) -> tuple[Step, list[TaskGroup]]:
    """What the update wants now, and which taskgroups it ends next. Walks over the members once: a look at an update of
    50,000 takes some 20 ms."""
    application = ctx.application(transaction)
    if application is None:
        return Step(verdict=("FAIL", "the application is gone")), []
    version = ctx.state.version(application.key, transaction.version)
    if version is None:
        return Step(verdict=("FAIL", f"version {transaction.version} is gone")), []
    name, instances, new_ready = transaction.version, application.instances, 0
    new_count = 0
    old: list[TaskGroup] = []
    for group in ctx.state.groups_of(application.key).values():
        if group.index >= instances:
            continue
        if group.version == name:
            new_count += 1
            new_ready += is_ready(group)
        else:
            old.append(group)
    if new_ready >= transaction.target:
        return Step(verdict=("FINISH", f"{transaction.target} taskgroups at version {transaction.version}")), []
    away = {g.id: _replaceable_at(ctx, application, g) for g in old if g.unreachable_since}
    gone = sorted((g for g in old if g.ended or away.get(g.id, math.inf) <= ctx.now), key=lambda g: g.index)
    missing = launch.missing_slots(ctx, application, application.instances)
    wanted = max(0, transaction.target - new_count)
    slots = (*missing, *(Slot(g.index, g.id) for g in gone))[:wanted]
    ending = [g for g in old if g.killing_since and not g.ended and g.id not in away]
    ready = new_ready + sum(map(is_ready, old))
    budget = transaction.max_unavailable - (instances - ready)
    lacking = injection.missing(ctx.state, version)
    chosen: list[TaskGroup] = []
    if not lacking:
        changing = len(slots) + len(ending) + new_count - new_ready
        spare = transaction.max_unavailable - changing
        chosen = next_to_end(old, wanted - len(slots) - len(ending), budget, spare)
    waiting = [at for at in away.values() if ctx.now < at < math.inf]
    found = Step(slots=slots, version=transaction.version, wake_at=min(waiting, default=0.0), missing=lacking)
    return found, chosen


def _replaceable_at(ctx: Context, application: Application, group: TaskGroup) -> float:
    """When an unreachable taskgroup may be replaced: an update does not overrule the policy, so perhaps never (inf)."""
    version = ctx.state.version(application.key, group.version)
    at = lifecycle.replaceable_at(group, version.unreachable_policy) if version is not None else ctx.now
    return math.inf if at is None else at


def next_to_end(old: list[TaskGroup], wanted: int, budget: int, spare: int) -> list[TaskGroup]:
    """Up to `wanted` more old taskgroups that are to be ended now: those that are not ready anyway first, then the
    oldest, while the budget of unavailable ones lasts. One that runs but is not healthy may serve all the same (its
    check may be wrong, or nobody probes): such end while no more than max_unavailable places are changing, of which
    `spare` are left."""
    if wanted <= 0:
        return []
    chosen: list[TaskGroup] = []
    candidates = [g for g in old if not (g.ended or g.killing_since or g.unreachable_since)]
    for group in sorted((g for g in candidates if not is_ready(g)), key=_AGE):
        if len(chosen) >= wanted:
            return chosen
        runs = group.status in READY
        if runs and spare <= 0:
            continue
        spare -= runs
        chosen.append(group)
    left = min(wanted - len(chosen), budget)
    # Those that are ready are nearly all, and the budget is mostly used up: they are looked at only if some may go.
    return chosen + sorted(filter(is_ready, candidates), key=_AGE)[:left] if left > 0 else chosen


_AGE = attrgetter("created_at", "index")


def takes_care_of(transaction: Transaction, group: TaskGroup) -> bool:
    """The update will replace this taskgroup itself."""
    return transaction.type == "UPDATE" and group.version != transaction.version
