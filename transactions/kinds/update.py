"""UPDATE: bring taskgroups to a new version, a bounded number at a time.

The old taskgroup of an index is ended first, then its place is taken by one of the new version. At no moment does the
update by its own act leave more than `max_unavailable` taskgroups not ready (docs/original.md#update-in-batches);
taskgroups that fail by themselves count against that budget, so the update waits. A taskgroup with health checks is
ready when all of them pass. No taskgroup is ended while a configmap or secret that the new version needs does not
exist.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable
from itertools import chain
from operator import attrgetter

import msgspec

from store.records import Application, TaskGroup, Transaction, UpdatePayload, Version
from store.state.reader import StateReader
from transactions import base, conflicts, groups, injection, resource_request
from transactions.base import Context, Progress, Refused, Slot, Step, Terms
from transactions.conflicts import OnConflict
from transactions.kinds import launch
from transactions.kinds.kind import NAMED, NO_OFFERS, Kind, limit_to_existing, not_running
from transactions.rules import health, lifecycle
from transactions.rules.lifecycle import READY, is_ready_or_finished
from transactions.text import are, counted

AT_ONCE = 500
"""Ready taskgroups chosen in one look: more than a turn has time to end."""


def create(
    ctx: Context,
    application: Application,
    version: Version,
    *,
    instances: int | None = None,
    max_unavailable: int | None = None,
    size: int | None = None,
    on_conflict: OnConflict = "fail",
) -> Transaction | None:
    """Writes the new version and the transaction together (docs/original.md#refused-updates); None if nothing would
    change, or if the running operation leads to the same state anyway. `instances` limits how many taskgroups are
    brought to the version. `size`: number of taskgroups that the application wants from now on; None: as many as now.
    `version` may be a stored one (roll back) or come without a name."""
    running = conflicts.to_supersede(ctx, application, "update", on_conflict)
    wanted = application.instances if size is None else size
    if instances is not None and not min(1, wanted) <= instances <= wanted:
        raise Refused("invalid", f"instances must be between 1 and {wanted}, not {instances}", "instances")
    if max_unavailable is not None and max_unavailable < 1:
        raise Refused("invalid", f"maxUnavailable must be at least 1, not {max_unavailable}", "maxUnavailable")
    version = _stored(ctx, application, version) or msgspec.structs.replace(
        version, name=str(ctx.ids.next(ctx.now)), created_at=ctx.now, instances=wanted
    )
    target = instances or wanted
    if wanted == application.instances and _is_reached(ctx, application, running, version.name, target):
        return None
    injection.refuse_if_missing(ctx.state, version)
    resource_request.refuse_too_few_addresses(version, wanted)
    bound = max_unavailable or version.max_unavailable or default_bound(wanted)
    changed = msgspec.structs.replace(
        application, instances=wanted, version=version.name, labels=version.labels, annotations=version.annotations
    )
    ctx.uow.put(version)
    note = f"application in updating: {target} to version {version.name}, at most {bound} unavailable"
    return _begin(ctx, changed, running, target, bound, note)


def resize(
    ctx: Context, application: Application, update: Transaction, size: int, running: tuple[Transaction, ...]
) -> Transaction:
    """Supersedes a running update by an update with another number of taskgroups. An update of a part of the taskgroups
    remains a partial update. `running`: the superseded operations, `update` among them."""
    target = size if update.target >= application.instances else min(update.target, size)
    bound = UpdatePayload.of(update).max_unavailable
    changed = msgspec.structs.replace(application, instances=size)
    note = f"application in updating and scaling to {size}: {target} to version {update.version}"
    return _begin(ctx, changed, running, target, bound, f"{note}, at most {bound} unavailable")


def _begin(
    ctx: Context, application: Application, running: tuple[Transaction, ...], target: int, bound: int, note: str
) -> Transaction:
    terms = Terms(
        target=target,
        version=application.version,
        delay=ctx.options.periods.update_delay,
        waves=-(-target // bound) or 1,
        note=note,
    )
    transaction = base.begin(ctx, UPDATE, application, terms, UpdatePayload(max_unavailable=bound))
    conflicts.supersede(ctx, running, transaction)
    ctx.uow.put(base.mark_operating(ctx, application, transaction, "application in updating"))
    return transaction


def _stored(ctx: Context, application: Application, version: Version) -> Version | None:
    """The stored version of this definition: the newest one, or one that taskgroups still have, so that these need not
    be replaced. None: the definition is new."""
    versions = ctx.state.versions_of(application.key)
    newest = versions.get(application.version)
    if newest is not None and same_definition(newest, version):
        return newest
    held = {group.version for group in ctx.state.groups_of(application.key).values()}
    same = [found for name, found in versions.items() if name in held and same_definition(found, version)]
    return max(same, key=lambda found: found.created_at, default=None)


def _is_reached(
    ctx: Context, application: Application, running: tuple[Transaction, ...], name: str, target: int
) -> bool:
    """Enough taskgroups have the version, or will have it when the running operations have ended."""
    if not target and not running:
        return application.version == name
    groups_at = [group.version == name for group in ctx.state.groups_of(application.key).values()]
    updates = [transaction for transaction in running if isinstance(transaction.payload, UpdatePayload)]
    if updates:
        return all(update.version == name and update.target >= target for update in updates)
    if running and application.version == name and all(groups_at):
        return True
    return sum(groups_at) >= target


def default_bound(instances: int) -> int:
    """A quarter of the taskgroups, at least one: never all at once unless there is only one."""
    return max(1, instances // 4)


def same_definition(one: Version, other: Version) -> bool:
    """Equal but for name, time, the wording of the document and the instance count."""
    return msgspec.structs.replace(one, name="", created_at=0.0, raw="", instances=0) == msgspec.structs.replace(
        other, name="", created_at=0.0, raw="", instances=0
    )


def end_chosen(ctx: Context, found: Step, ending: list[TaskGroup]) -> Step:
    """Ends the chosen taskgroups and those above the wanted number, as many as the turn allows. The next step finds the
    rest and all changes in between."""
    for number, group in enumerate(ending, 1):
        application = ctx.state.applications.get(group.application_key)
        if application is not None and groups.is_surplus(application, group.index):
            groups.end(ctx, group, "ScaledDown", f"scaled down to {application.instances}")
        else:
            groups.end(ctx, group, "NewVersion")
        ctx.checkpoint()
        if ctx.time_is_up() and number < len(ending):
            return found._replace(unfinished=True)
    return found


def _remove_surplus(ctx: Context, transaction: Transaction) -> None:
    """Removes ended taskgroups above the wanted number, which a restart was to replace: no report follows that would
    have them removed."""
    application = ctx.application(transaction)
    if application is None:
        return
    for group in list(ctx.state.readiness.unready(application.key).values()):
        if group.ended and groups.is_surplus(application, group.index):
            groups.remove(ctx, group, group.kill_reason or "no longer wanted")


def preview(ctx: Context, transaction: Transaction, most: int | None = None) -> tuple[Step, list[TaskGroup]]:
    """Returns the slots of the next step and the taskgroups that the update ends next; `most`: greatest number of ready
    ones among them (None = no bound). Only taskgroups that are not ready are examined one by one, the others are
    counted. One call for 50,000 taskgroups takes some 15 ms."""
    application = ctx.application(transaction)
    if application is None:
        return Step(verdict=("FAIL", "the application does not exist any more")), []
    version = ctx.state.version(application.key, transaction.version)
    if version is None:
        return Step(verdict=("FAIL", f"version {transaction.version} is gone")), []
    name, instances, members = transaction.version, application.instances, ctx.state.groups_of(application.key)
    old = [group for group in members.values() if group.version != name and group.index < instances]
    new_count = len([1 for group in members.values() if group.version == name and group.index < instances])
    unready = [g for g in ctx.state.readiness.unready(application.key).values() if g.index < instances]
    old_unready = [g for g in unready if g.version != name]
    new_ready = new_count - sum(not is_ready_or_finished(g) for g in unready if g.version == name)
    # An operation that this update has superseded may have reduced the number of taskgroups.
    surplus = [g for g in members.values() if g.index >= instances] if len(members) > len(old) + new_count else []
    beyond = [g for g in surplus if not (g.killing_since or g.ended)]
    if new_ready >= transaction.target and not beyond:
        return Step(
            verdict=("FINISH", f"{counted(transaction.target, 'taskgroup')} at version {transaction.version}")
        ), []
    away = {g.id: _replaceable_at(ctx, application, g) for g in old_unready if g.unreachable_since}
    gone = sorted((g for g in old_unready if g.ended or away.get(g.id, math.inf) <= ctx.now), key=lambda g: g.index)
    missing = launch.missing_slots(ctx, application, application.instances)
    wanted = max(0, transaction.target - new_count)
    slots = (*missing, *(Slot(g.index, g.id) for g in gone))[:wanted]
    ending = [g for g in old_unready if g.killing_since and not g.ended and g.id not in away]
    ready = new_ready + len(old) - sum(not is_ready_or_finished(g) for g in old_unready)
    bound = UpdatePayload.of(transaction).max_unavailable
    budget = bound - (instances - ready)
    missing_configuration = injection.missing(ctx.state, version)
    chosen: list[TaskGroup] = []
    if not missing_configuration:
        changing = len(slots) + len(ending) + new_count - new_ready
        places_left = bound - changing
        served = (g for g in old if g.id not in ctx.state.readiness.unready(application.key))
        chosen = choose_to_end(served, old_unready, wanted - len(slots) - len(ending), budget, places_left, most)
    waiting = [at for at in away.values() if ctx.now < at < math.inf]
    found = Step(
        slots=slots, version=transaction.version, wake_at=min(waiting, default=0.0), missing=missing_configuration
    )
    return found, [*beyond, *chosen]


def _replaceable_at(ctx: Context, application: Application, group: TaskGroup) -> float:
    """Unix seconds from which an unreachable taskgroup may be replaced; infinity = never, because an update does not
    overrule the policy."""
    version = ctx.state.version(application.key, group.version)
    at = lifecycle.replaceable_at(group, version.unreachable_policy) if version is not None else ctx.now
    return math.inf if at is None else at


def choose_to_end(
    serving: Iterable[TaskGroup],
    old_unready: list[TaskGroup],
    wanted: int,
    budget: int,
    places_left: int,
    most: int | None = None,
) -> list[TaskGroup]:
    """Chooses up to `wanted` old taskgroups to be ended now: first those that are not ready, then the oldest ready ones
    (`most` of them, None = no bound), as far as the budget of unavailable taskgroups allows. A taskgroup that runs but
    is not healthy may work nevertheless (its check may be wrong, or no prober works). Such taskgroups are only ended
    while no more than max_unavailable places are changing; `places_left` more may change."""
    if wanted <= 0:
        return []
    chosen: list[TaskGroup] = []
    candidates = [g for g in old_unready if not (g.ended or g.killing_since or g.unreachable_since)]
    for group in sorted((g for g in candidates if not is_ready_or_finished(g)), key=_AGE):
        if len(chosen) >= wanted:
            return chosen
        runs = group.status in READY
        if runs and places_left <= 0:
            continue
        places_left -= runs
        chosen.append(group)
    left = min(wanted - len(chosen), budget, most if most is not None else budget)
    # Nearly all are ready, and the budget is usually used up: ready ones are examined only if some may be ended.
    if left > 0:
        chosen += heapq.nsmallest(left, chain(serving, filter(is_ready_or_finished, candidates)), key=_AGE)
    return chosen


_AGE = attrgetter("created_at", "index")


class Update(Kind):
    """Brings taskgroups to a version within a bound of unavailable ones."""

    type = "UPDATE"
    can_be_superseded = True
    in_place = True
    scans_all = True

    def step(self, ctx: Context, transaction: Transaction) -> Step:
        """Ends old taskgroups within the bound, `AT_ONCE` at most, and asks for new ones."""
        _remove_surplus(ctx, transaction)
        found, ending = preview(ctx, transaction, AT_ONCE)
        done = end_chosen(ctx, found, ending)
        return done._replace(unfinished=True) if len(ending) >= AT_ONCE else done

    def preview(self, ctx: Context, transaction: Transaction) -> tuple[Step, list[TaskGroup]]:
        """The slots and the ends of the first step."""
        return preview(ctx, transaction)

    def handles(self, ctx: Context, transaction: Transaction, application: Application, group: TaskGroup) -> bool:
        """Returns True if the update replaces the taskgroup."""
        return self.replaces(ctx.state, transaction, group) and not groups.is_surplus(application, group.index)

    def replaces(self, state: StateReader, transaction: Transaction, group: TaskGroup) -> bool:
        """Returns True if the taskgroup is of an older version, and the update is for all taskgroups or has ended this
        one: others are restarted with their version, because the update may have enough already."""
        if group.version == transaction.version:
            return False
        application = state.applications.get(transaction.application_key)
        partial = application is not None and transaction.target < application.instances
        return not partial or group.end_cause == "NewVersion"

    def ends(self, state: StateReader, transaction: Transaction, group: TaskGroup) -> bool:
        """Returns True if the application wants fewer taskgroups."""
        application = state.applications.get(transaction.application_key)
        return application is not None and groups.is_surplus(application, group.index)

    def progress(self, state: StateReader, transaction: Transaction) -> Progress:
        """Taskgroups of the wanted version that are ready."""
        return update_progress(state, transaction, is_ready_or_finished)

    def max_unavailable(self, transaction: Transaction) -> int:
        """Number of taskgroups that the update may leave not ready at once."""
        return UpdatePayload.of(transaction).max_unavailable

    def cancelled(self, ctx: Context, transaction: Transaction) -> None:
        """The number of taskgroups may have changed with the version. Taskgroups above the number end, as after a
        cancelled scale."""
        limit_to_existing(ctx, transaction)
        application = ctx.application(transaction)
        if application is None:
            return
        for group in list(ctx.state.groups_of(application.key).values()):
            if groups.is_surplus(application, group.index) and not (group.ended or group.killing_since):
                groups.end(ctx, group, "ScaledDown", f"scaled down to {application.instances}")

    def late(self, ctx: Context, transaction: Transaction) -> str:
        """The taskgroups that do not run, or are not healthy; else that no offers were seen."""
        return not_running(ctx, transaction) or _unhealthy(ctx, transaction) or NO_OFFERS


UPDATE = Update()


def update_progress(state: StateReader, transaction: Transaction, counted: Callable[[TaskGroup], bool]) -> Progress:
    """Progress by the taskgroups of the wanted version that are `counted`."""
    target, groups_there = transaction.target, state.groups_of(transaction.application_key)
    ready = sum(1 for g in list(groups_there.values()) if g.version == transaction.version and counted(g))
    return Progress(min(ready, target), max(0, target - ready))


def _unhealthy(ctx: Context, transaction: Transaction) -> str:
    members = ctx.state.groups_of(transaction.application_key).values()
    unhealthy = sorted((g for g in members if not is_ready_or_finished(g)), key=lambda g: g.index)
    if not unhealthy:
        return ""
    told = "; ".join(f"{group.name} ({health.describe_failures(group) or 'is to end'})" for group in unhealthy[:NAMED])
    return f"{counted(len(unhealthy), 'taskgroup')} {are(len(unhealthy))} not healthy: {told}"
