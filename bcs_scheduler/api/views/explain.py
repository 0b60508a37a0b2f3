"""Explains why an application is not fully as it should be: operations in progress, places that they lack, causes of
waiting taskgroups."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from bcs_scheduler.api.objects.managed import gathered, reserved_in
from bcs_scheduler.api.views.reasons import causes, not_replaced
from bcs_scheduler.wire.reasons import cause_of_end, ended
from bcs_scheduler.wire.times import rfc3339
from offers.dimensions import recorded
from offers.model import DecidedBy, Diagnosis, GroupGap, HeldBack
from offers.policy.obstacles import Attempt
from store.ids import taskgroup_name
from store.records import Application, Placeholder, TaskGroup, Transaction, Version
from store.state.reader import StateReader
from transactions import explain, obstacles, text
from transactions.kinds.registry import progress
from transactions.rules import endings, health, relaunch
from transactions.rules.application_types import lasting
from transactions.rules.lifecycle import is_ready, is_ready_or_finished
from transactions.text import counted, duration

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


MEMBERS_APART = "membersApart"
"""Reason of a group whose members several policies decide about."""


class Gang(msgspec.Struct, frozen=True, kw_only=True):
    """A gang that is not launched: the places that it needs at the same time, and how many were found."""

    needed: int
    found: int


class PartitionView(msgspec.Struct, frozen=True, kw_only=True):
    """A policy, and the roles whose taskgroups it places; ``*`` stands for all other roles. `name`: that of the
    partition of roles; empty: it has none."""

    policy: str
    roles: list[str]
    name: str = ""


class GroupHold(msgspec.Struct, frozen=True, kw_only=True):
    """A pod group below its minimum. `needed`: places that must be found at the same time, `found`: of these, `wanted`:
    taskgroups that the applications of the group request, `missing`: by member with a minimum of its own. `reason` is
    `membersApart` if the group can never start together, because the policies in `partitions` decide about its members;
    else empty."""

    name: str
    needed: int
    found: int
    wanted: int
    missing: dict[str, int]
    reason: str = ""
    partitions: list[PartitionView] = []


class QueueHold(msgspec.Struct, frozen=True, kw_only=True):
    """The queue that holds taskgroups back although agents have room. `limited`: by a hard limit of the queue;
    otherwise the queue has its deserved share. Amounts by resource: cores, MB, numbers; `deserved` is empty if no
    plug-in gives shares."""

    name: str
    limited: bool
    allocated: dict[str, float]
    deserved: dict[str, float]


class ObstacleView(msgspec.Struct, frozen=True, kw_only=True):
    """An obstacle of an attempt to make room. `code`: see docs/policies.md. `number`: taskgroups (agents, for the codes
    `NotOnOneAgent` and `Reserved`) that it concerns; 0: it concerns the attempt as a whole. `whose`: the first queues
    or applications that it belongs to; `others`: number of further ones. `until`: the moment at which it ends, empty if
    that is not known. `text` repeats it in words. `change`: the change that would end it."""

    code: str
    number: int
    whose: list[str]
    others: int
    until: str
    text: str
    change: str


class AttemptView(msgspec.Struct, frozen=True, kw_only=True):
    """The latest attempt to make room by ending other work. `evicted`: taskgroups that are ended, on `agent`; 0: they
    have left, and the agent has not offered their room yet. Without an agent, the attempt was in vain, because of the
    `obstacles`, the most important first."""

    at: str
    evicted: int
    agent: str
    obstacles: list[ObstacleView]


class Placing(msgspec.Struct, frozen=True, kw_only=True):
    """The last placement pass for the open taskgroups of a transaction. `gang` is null unless they wait for each
    other, `group` unless a pod group is below its minimum, `queue` unless a queue of the policy holds them back,
    `partition` if all roles have one policy, and `attempt` unless other work was to be ended for them."""

    wanted: int
    placed: int
    agents: int
    reasons: list[ReasonCount]
    closest: list[Closest]
    message: str
    gang: Gang | None
    group: GroupHold | None
    queue: QueueHold | None
    partition: PartitionView | None = None
    attempt: AttemptView | None = None


class ReservationState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The room that placeholders gather for the application. `state` is that of the reservation; `needed`: placeholders
    that are to hold room at the same time, `holding`: of these, `waiting`: reason of the first one without a place,
    empty if all have places; `leftSeconds`: until it times out, null before the first placeholder has a place. `group`:
    the pod group whose reservations are complete together, with the numbers of all its members in `groupNeeded` and
    `groupHolding`; empty and 0 if there is none."""

    state: str
    needed: int
    holding: int
    waiting: str
    left_seconds: float | None
    group: str = ""
    group_needed: int = 0
    group_holding: int = 0


class OperationState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A transaction in progress. `placing` is null while no taskgroup of the transaction has failed to find a place."""

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
    """A taskgroup that is not ready, and the cause."""

    id: str
    name: str
    status: str
    message: str


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """`text` repeats the other fields in sentences, the most important first."""

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
    reservation: ReservationState | None


def explain_application(
    state: StateReader, application: Application, diagnosis: Callable[[str], Diagnosis | None], now: float
) -> Explanation:
    """`now` in Unix seconds. Costs with the taskgroups that are not ready and with the operations, not with the
    taskgroups that are as they should be."""
    active = sorted(state.active_of(application.key).values(), key=lambda t: (t.created_at, t.id))
    operations = [_operation(state, transaction, diagnosis(transaction.id), now) for transaction in active]
    existing = len(state.groups_of(application.key))
    is_right = is_ready if lasting(application) else is_ready_or_finished
    unready = [group for group in state.unready_of(application.key) if not is_right(group)]
    unready.sort(key=lambda group: (group.index, group.id))
    reschedules = {transaction.taskgroup: transaction for transaction in active if transaction.taskgroup}
    waiting = [
        Waiting(
            id=group.id,
            name=group.name,
            status=group.status,
            message=_waits_for(group, state.version(application.key, group.version), reschedules.get(group.id), now),
        )
        for group in unready[:TASKGROUPS_SHOWN]
    ]
    reservation = _reservation(state, application, diagnosis, now)
    found = causes(state, application, diagnosis)
    return Explanation(
        namespace=application.namespace,
        name=application.name,
        status=application.status,
        message=application.message,
        instances=application.instances,
        existing=existing,
        ready=existing - len(unready),
        text=[
            *_sentences(application, existing, operations, waiting, len(unready), found),
            *_reserved(reservation),
        ],
        transactions=operations,
        taskgroups=waiting,
        reservation=reservation,
    )


def _reservation(
    state: StateReader, application: Application, diagnosis: Callable[[str], Diagnosis | None], now: float
) -> ReservationState | None:
    record = state.managed_applications.get(application.key)
    if record is None or record.manager:
        return None
    keys = list(state.indexes.managed_by(Placeholder.kind, record.key))
    holders = [holder for key in keys if (holder := state.placeholders.get(key)) is not None]
    asking = [operation.id for holder in holders if not holder.node for operation in _operations(state, holder)]
    found = next((one for identity in asking if (one := diagnosis(identity)) is not None), None)
    own = gathered(state, [record])
    whole = gathered(state, reserved_in(state, record.pod_group_key)) if record.pod_group else own
    return ReservationState(
        state=record.state,
        needed=own.needed,
        holding=own.holding,
        waiting=explain.reasons(found) if found is not None else "",
        left_seconds=round(max(0.0, whole.until - now), 1) if whole.until is not None else None,
        group=record.pod_group,
        group_needed=whole.needed if record.pod_group else 0,
        group_holding=whole.holding if record.pod_group else 0,
    )


def _operations(state: StateReader, holder: Placeholder) -> list[Transaction]:
    return list(state.active_of(holder.key).values())


def _reserved(found: ReservationState | None) -> list[str]:
    """Sentences about a reservation that is not complete."""
    if found is None or found.state != "Reserving":
        return []
    holding, needed = (found.group_holding, found.group_needed) if found.group else (found.holding, found.needed)
    if holding >= needed:
        return []
    left = f", {duration(found.left_seconds)} left" if found.left_seconds is not None else ""
    whose = f"reservation of group {found.group}" if found.group else "reservation"
    own = f"; of this application {found.holding} of {found.needed}" if found.group else ""
    lines = [f"{whose}: {holding} of {counted(needed, 'placeholder')} hold room{left}{own}"]
    return [*lines, f"the next placeholder has no place: {found.waiting}"] if found.waiting else lines


def _operation(state: StateReader, transaction: Transaction, diagnosis: Diagnosis | None, now: float) -> OperationState:
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
        wanted=diagnosis.slots,
        placed=diagnosis.placed,
        agents=diagnosis.agents,
        reasons=[ReasonCount(reason=explain.reason_text(reason), agents=count) for reason, count in ranked],
        closest=[
            Closest(resource=name, needed=recorded(name).displayed(needed), free=recorded(name).displayed(free))
            for name, needed, free in diagnosis.closest
        ],
        message=explain.reasons(diagnosis),
        gang=Gang(needed=diagnosis.min_members, found=diagnosis.reached) if diagnosis.min_members > 1 else None,
        group=_group(diagnosis.gap) if diagnosis.gap is not None else None,
        queue=_hold(diagnosis.held_back) if diagnosis.held_back is not None else None,
        partition=show_partition(diagnosis.decided_by) if diagnosis.decided_by is not None else None,
        attempt=_attempt(diagnosis.attempt) if diagnosis.attempt is not None else None,
    )


def _attempt(found: Attempt) -> AttemptView:
    return AttemptView(
        at=rfc3339(found.at),
        evicted=found.evicted,
        agent=found.agent,
        obstacles=[
            ObstacleView(
                code=str(one.code),
                number=one.number,
                whose=list(one.whose),
                others=one.others,
                until=rfc3339(one.until) if one.until else "",
                text=obstacles.obstacle(one),
                change=obstacles.change(one.code),
            )
            for one in found.met
        ],
    )


def show_partition(found: DecidedBy) -> PartitionView:
    return PartitionView(policy=found.policy, roles=list(found.roles), name=found.name)


def _group(gap: GroupGap) -> GroupHold:
    return GroupHold(
        name=gap.group,
        needed=gap.needed,
        found=gap.places,
        wanted=gap.slots,
        missing=dict(gap.short),
        reason=MEMBERS_APART if gap.apart else "",
        partitions=list(map(show_partition, gap.apart)),
    )


def _hold(found: HeldBack) -> QueueHold:
    allocated, deserved = (
        {name: recorded(name).displayed(amount) for name, amount in amounts}
        for amounts in (found.allocated, found.deserved)
    )
    return QueueHold(name=found.queue, limited=found.at_limit, allocated=allocated, deserved=deserved)


def _tried(attempt: AttemptView | None) -> list[str]:
    """The latest attempt to make room: its time, and for each obstacle the change that would end it."""
    if attempt is None or not attempt.obstacles:
        return []
    lines = [f"last attempt to end other work for it: {attempt.at}, in vain"]
    return lines + [f"{one.text}; to change that, {one.change}" for one in attempt.obstacles]


def _waits_for(group: TaskGroup, version: Version | None, reschedule: Transaction | None, now: float) -> str:
    cause = cause_of_end(group.end_cause, group.kill_reason, group.message)
    if reschedule is not None and reschedule.due_at > now:
        number = "" if relaunch.is_due(group) else f" (restart {group.restarts + 1})"
        return f"{ended(cause, again=duration(reschedule.due_at - now))}{number}"
    if group.unreachable_since:
        return _unreachable(group, version, now)
    left = group.killing_since + endings.shutdown_delay(group, version) - now
    if group.killing_since and not group.ended and left > 0:
        reason = group.kill_reason or "no longer wanted"
        return f"has left its services and stops in {duration(left)} (shutdown delay): {reason}"
    if group.killing_since and not group.ended:
        return f"is being ended for {duration(now - group.killing_since)}: {group.kill_reason or 'no longer wanted'}"
    if reschedule is not None:
        return ", ".join(filter(None, (cause, "waits for a place for its replacement")))
    if group.ended:
        why = not_replaced(group, version, restarting=False)
        limit = version.restart_policy.max_times if version is not None else None
        return ended(cause, not_replaced=why, limit=limit) or "has ended and is not replaced"
    if group.status == "Running":
        return f"is not healthy: {health.describe_failures(group)}"
    return group.message or f"is {group.status}"


def _unreachable(group: TaskGroup, version: Version | None, now: float) -> str:
    patience = version.unreachable_policy.replace_after if version is not None else -1.0
    text = f"its agent {group.hostname} is unreachable for {duration(now - group.unreachable_since)}"
    if patience < 0:
        return f"{text}; it is never replaced (unreachablePolicy)"
    left = group.unreachable_since + patience - now
    return f"{text}; replaced in {duration(left)}" if left > 0 else f"{text}; it is being replaced"


def _sentences(
    application: Application,
    existing: int,
    operations: list[OperationState],
    waiting: list[Waiting],
    unready: int,
    found: list[str],
) -> list[str]:
    wanted = application.instances
    lines = [f"{application.status}: {existing - unready} of {counted(wanted, 'taskgroup')} ready, {existing} present"]
    if found:
        lines += found
    elif application.message and application.status not in ("Running", "Finish"):
        lines.append(application.message)
    for operation in operations:
        about = f" of {taskgroup_name(operation.taskgroup)}" if operation.taskgroup else ""
        when = f", starts in {duration(operation.due_in_seconds)}" if operation.due_in_seconds else ""
        progress = f"{operation.progress} of {operation.target}{when}, {duration(operation.left_seconds)} left"
        lines.append(f"{text.named(operation.type, operation.transaction_id)}{about}: {progress}")
        if operation.placing is not None:
            missing = operation.placing.wanted - operation.placing.placed
            why = f" without a place: {operation.placing.message}"
            lines += [] if any(one.endswith(why) for one in found) else [f"{counted(missing, 'taskgroup')}{why}"]
            lines += _tried(operation.placing.attempt)
            part = operation.placing.partition
            if part is not None:
                lines.append(f"the policy {part.policy} decides about the roles {', '.join(part.roles)}")
    lines += [f"{group.name} is {group.status}: {group.message}" for group in waiting]
    if unready > len(waiting):
        lines.append(f"{counted(unready - len(waiting), 'more taskgroup')} not ready")
    if not operations and not unready and existing < wanted:
        lines.append(f"{counted(wanted - existing, 'taskgroup')} missing, and no operation creates more")
    return lines
