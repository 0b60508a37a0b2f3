"""Restarts ended taskgroups, launches missing ones, and sets the status of applications that no operation changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice

import msgspec

from store.ids import namespace_of
from store.reasons import APPLICATION_TURNED
from store.records import Application, ApplicationStatus, ReschedulePayload, TaskGroup, Transaction
from transactions import groups
from transactions.base import Context
from transactions.explain import NAMED
from transactions.kinds import daemonset, fill, reschedule
from transactions.kinds.registry import kind_of
from transactions.rules import lifecycle
from transactions.rules.application_types import bound_to_agents
from transactions.rules.queues import queue_of


def is_handled_by_operation(ctx: Context, owners: Iterable[str], application: Application, group: TaskGroup) -> bool:
    """True if an active operation of the application handles the taskgroup. `owners`: ids of the operations of the
    application; ids of ended or unknown operations are passed over. An operation that handles the taskgroup may change
    records of the taskgroup (`Kind.handles`)."""
    for identity in owners:
        owner = ctx.state.transactions.get(identity)
        if owner is None or not owner.active:
            continue
        if kind_of(ctx.state, owner).handles(ctx, owner, application, group):
            return True
    return False


def heal(ctx: Context, group: TaskGroup, owners: Iterable[str]) -> Transaction | None:
    """Restarts, ends or removes a taskgroup that has ended or whose agent is unreachable, unless an operation handles
    the taskgroup. `owners`: as in `is_handled_by_operation`. Returns the reschedule that was begun; None if no
    reschedule is needed."""
    application = ctx.state.applications.get(group.application_key)
    if application is None:
        return None
    if not group.ended and not group.unreachable_since:
        # All its tasks share one lifetime; only a task that has finished does not end the others.
        if any(task.ended and task.status != "Finish" for task in group.tasks):
            groups.end(ctx, group, "TaskEnded")
        return None
    if group.ended and daemonset.is_misplaced(group):  # no operation replaces it, not even an active update
        groups.remove(ctx, group, group.kill_reason)
        return None
    if is_handled_by_operation(ctx, owners, application, group):
        return None
    if (
        lifecycle.is_chosen_by_rollout(group)
        or daemonset.is_misplaced(group)
        or groups.is_surplus(application, group.index)
    ):
        if group.ended:
            groups.remove(ctx, group, group.kill_reason or "no longer wanted")
        return None
    if group.unreachable_since and bound_to_agents(application):
        return None  # it is bound to its agent
    return _restart(ctx, application, group)


def _restart(ctx: Context, application: Application, group: TaskGroup) -> Transaction | None:
    state, key = ctx.state, application.key
    version = state.version(key, group.version) or state.version(key, application.version)
    if version is None:
        return None
    reset = ctx.options.periods.restart_reset
    decision = lifecycle.restart_decision(group, version.restart_policy, version.unreachable_policy, reset, ctx.now)
    return reschedule.create_inner(ctx, application, group, version, decision) if decision is not None else None


def launch_missing(ctx: Context, key: str) -> None:
    """Begins a launch of the missing taskgroups of the application with this key, unless an operation launches them.
    Does nothing for an unknown key."""
    application = ctx.state.applications.get(key)
    if application is not None:
        fill.begin_if_missing(ctx, application)


def update_status(ctx: Context, key: str) -> None:
    """Recomputes and stores the status of the application with this key. Does nothing for an unknown key, and for an
    application that an active operation or a rolling update owns."""
    application = ctx.state.applications.get(key)
    if application is None or application.status == "RollingUpdate":
        return
    if application.status == "Operating":
        owner = ctx.state.transactions.get(application.operation)
        if owner is not None and owner.active:
            return
    status, words = computed_status(ctx, application)
    if status == application.status and (status != "Running" or words == application.message):
        return
    ctx.record_event("application", key, APPLICATION_TURNED[status], words)
    ctx.uow.put(
        msgspec.structs.replace(
            application,
            status=status,
            last_status=application.status,
            message=words,
            operation="",
            updated_at=ctx.now,
        )
    )


def computed_status(ctx: Context, application: Application) -> tuple[ApplicationStatus, str]:
    """Returns the status and the message of the application, computed from its taskgroups. Evicted taskgroups wait for
    another place, so they count as missing, and neither as failed nor as running."""
    state, key = ctx.state, application.key
    counts, evicted = state.status_counts(key), state.evicted(key)
    if evicted:
        counts = Counter(counts) - Counter(evicted)
    status, words = lifecycle.application_status(counts, application.instances, state.unhealthy(key))
    if evicted and status == "Pending":
        words += _beneficiaries(ctx, key)
    return status, words


def _beneficiaries(ctx: Context, key: str) -> str:
    """The applications for which taskgroups were evicted, with their queues, of the first evictions that wait."""
    payloads = (transaction.payload for transaction in islice(ctx.state.active_of(key).values(), NAMED))
    found = {
        payload.beneficiary: payload.beneficiary_queue or queue_of(ctx.state, namespace_of(payload.beneficiary))
        for payload in payloads
        if isinstance(payload, ReschedulePayload) and payload.beneficiary
    }
    own = namespace_of(key)
    sides = [reschedule.evicted_for(name, queue, own) for name, queue in found.items()]
    return f"; evicted for {', '.join(sides)}" if sides else ""


def is_undisturbed(group: TaskGroup | None) -> bool:
    """True if no task of the taskgroup has ended and its agent is reachable, so that `heal` has nothing to do. None
    (the record is gone) counts as undisturbed. False for a taskgroup without tasks."""
    if group is None:
        return True
    if group.unreachable_since or not group.tasks:
        return False
    return not any(task.ended for task in group.tasks)
