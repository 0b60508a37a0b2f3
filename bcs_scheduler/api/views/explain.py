"""Why an application is not (fully) as it should be: operations under way, what they lack, what taskgroups wait for."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from bcs_scheduler.api.views.base import rfc3339
from offers.model import Diagnosis
from store.records import Application, TaskGroup, Transaction, Version
from store.state import State
from transactions import explain, health, relaunch
from transactions.lifecycle import is_ready, serves
from transactions.progress import progress

TASKGROUPS_SHOWN = 50
"""Waiting taskgroups listed one by one; the rest is counted."""


class ReasonCount(msgspec.Struct, frozen=True, kw_only=True):
    """`agents` is the number of agents that failed this test first."""

    reason: str
    agents: int


class Closest(msgspec.Struct, frozen=True, kw_only=True):
    """The most of a resource that is free on an agent which passes every other test. Cores, MB, or numbers."""

    resource: str
    needed: float
    free: float


class Placing(msgspec.Struct, frozen=True, kw_only=True):
    """The last placement pass for the open taskgroups of a transaction."""

    wanted: int
    placed: int
    agents: int
    reasons: list[ReasonCount]
    closest: list[Closest]
    message: str


class OperationState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A transaction under way. `placing` is null while nothing of it failed to find a place."""

    transaction_id: str = msgspec.field(name="transactionID")
    type: str
    taskgroup: str
    progress: int
    target: int
    due_in_seconds: float
    left_seconds: float
    deadline: str
    placing: Placing | None


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A taskgroup that is not ready, and what it waits for."""

    id: str
    name: str
    status: str
    message: str


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """`text` says the same as the rest in sentences, the most important first."""

    namespace: str
    name: str
    status: str
    message: str
    instances: int
    existing: int
    ready: int
    text: list[str]
    transactions: list[OperationState]
    taskgroups: list[Waiting]


def explain_application(
    state: State, application: Application, diagnosis: Callable[[str], Diagnosis | None], now: float
) -> Explanation:
    """`now` in Unix seconds."""
    active = sorted(state.active_of(application.key).values(), key=lambda t: (t.created_at, t.id))
    operations = [_operation(state, transaction, diagnosis(transaction.id), now) for transaction in active]
    groups = sorted(state.groups_of(application.key).values(), key=lambda group: (group.index, group.id))
    reschedules = {transaction.taskgroup: transaction for transaction in active if transaction.type == "RESCHEDULE"}
    lasting = application.type == "daemonset" or bool(application.deployment)
    unready = [group for group in groups if not (serves if lasting else is_ready)(group)]
    waiting = [
        Waiting(
            id=group.id,
            name=group.name,
            status=group.status,
            message=_waits_for(group, state.version(application.key, group.version), reschedules.get(group.id), now),
        )
        for group in unready[:TASKGROUPS_SHOWN]
    ]
    return Explanation(
        namespace=application.namespace,
        name=application.name,
        status=application.status,
        message=application.message,
        instances=application.instances,
        existing=len(groups),
        ready=len(groups) - len(unready),
        text=_sentences(application, groups, operations, waiting, len(unready)),
        transactions=operations,
        taskgroups=waiting,
    )


def _operation(state: State, transaction: Transaction, diagnosis: Diagnosis | None, now: float) -> OperationState:
    return OperationState(
        transaction_id=transaction.id,
        type=transaction.type,
        taskgroup=transaction.taskgroup,
        progress=progress(state, transaction).done,
        target=transaction.target,
        due_in_seconds=round(max(0.0, transaction.due_at - now), 1),
        left_seconds=round(max(0.0, transaction.deadline - now), 1),
        deadline=rfc3339(transaction.deadline),
        placing=_placing(diagnosis) if diagnosis is not None else None,
    )


def _placing(diagnosis: Diagnosis) -> Placing:
    ranked = sorted(diagnosis.reasons.items(), key=lambda item: (-item[1], item[0]))
    return Placing(
        wanted=diagnosis.wanted,
        placed=diagnosis.placed,
        agents=diagnosis.agents,
        reasons=[ReasonCount(reason=explain.wording(reason), agents=count) for reason, count in ranked],
        closest=[
            Closest(resource=name, needed=_plain(name, needed), free=_plain(name, free))
            for name, needed, free in diagnosis.closest
        ],
        message=explain.reasons(diagnosis),
    )


def _plain(resource: str, amount: int) -> float:
    """Thousandths as users write them; ports are counted in whole numbers already."""
    return float(amount) if resource.startswith("port") else amount / 1000


def _waits_for(group: TaskGroup, version: Version | None, reschedule: Transaction | None, now: float) -> str:
    if reschedule is not None and reschedule.due_at > now and relaunch.is_due(group):
        return f"is launched again in {reschedule.due_at - now:.0f} s: {group.message}"
    if reschedule is not None and reschedule.due_at > now:
        return f"restarts in {reschedule.due_at - now:.0f} s (restart {group.restarts + 1}): {group.message}"
    if group.unreachable_since:
        return _unreachable(group, version, now)
    if group.killing_since and not group.ended:
        return f"is being ended for {now - group.killing_since:.0f} s: {group.kill_reason or 'no longer wanted'}"
    if reschedule is not None:
        return "waits for a place for its replacement"
    if group.ended:
        return f"has ended and is not replaced: {group.message}" if group.message else "has ended and is not replaced"
    if group.status == "Running":
        return f"is not healthy: {health.complaints(group)}"
    return group.message or f"is {group.status}"


def _unreachable(group: TaskGroup, version: Version | None, now: float) -> str:
    patience = version.unreachable_policy.replace_after if version is not None else -1.0
    text = f"its agent {group.hostname} is unreachable for {now - group.unreachable_since:.0f} s"
    if patience < 0:
        return f"{text}; it is never replaced (unreachablePolicy)"
    left = group.unreachable_since + patience - now
    return f"{text}; replaced in {left:.0f} s" if left > 0 else f"{text}; it is being replaced"


def _sentences(
    application: Application,
    groups: list[TaskGroup],
    operations: list[OperationState],
    waiting: list[Waiting],
    unready: int,
) -> list[str]:
    wanted = application.instances
    lines = [f"{application.status}: {len(groups) - unready} of {wanted} taskgroups are ready, {len(groups)} exist"]
    if application.message and application.status not in ("Running", "Finish"):
        lines.append(application.message)
    for operation in operations:
        about = f" of {operation.taskgroup}" if operation.taskgroup else ""
        when = f", starts in {operation.due_in_seconds:.0f} s" if operation.due_in_seconds else ""
        lines.append(
            f"{operation.type}{about} {operation.transaction_id}: {operation.progress} of {operation.target}{when}, "
            f"{operation.left_seconds:.0f} s left"
        )
        if operation.placing is not None:
            missing = operation.placing.wanted - operation.placing.placed
            lines.append(f"{missing} taskgroups find no place: {operation.placing.message}")
    lines += [f"{group.name} is {group.status}: {group.message}" for group in waiting]
    if unready > len(waiting):
        lines.append(f"{unready - len(waiting)} more taskgroups are not ready")
    if not operations and not unready and len(groups) < wanted:
        lines.append(f"{wanted - len(groups)} taskgroups are missing and no operation makes them; scale or update")
    return lines
