"""Records of the store and records of gangs (offers.policy.applications.gangs.records), one made from the other."""

from __future__ import annotations

from typing import Any

import msgspec

from offers.dimensions import Amounts
from offers.policy.applications.gangs.records import (
    Counter,
    GangRecord,
    MemberRecord,
    PlaceholderRecord,
    ReleaseType,
    Way,
)
from offers.policy.applications.machines import Change, Life
from offers.policy.applications.metadata import (
    ApplicationMetadata,
    Outcome,
    SchedulingPolicyParameters,
    Style,
    TaskGroup,
    TaskMetadata,
)
from offers.policy.applications.tables import APPLICATION, CORE_APPLICATION, PLACEHOLDER, TASK
from store.records import ManagedApplication, ManagedTask, MemberGroup, Placeholder, StateChange, TaskOutcome


def metadata_of(record: ManagedApplication) -> ApplicationMetadata:
    """The application as a manager describes it; its identifier is the key of the record."""
    return ApplicationMetadata(
        id=record.key,
        queue=record.queue,
        user=record.user,
        groups=record.groups,
        tags=tuple(sorted(record.tags.items())),
        task_groups=tuple(TaskGroup(one.name, one.min_member, _amounts(one.request)) for one in record.task_groups),
        owner=record.owner,
        parameters=SchedulingPolicyParameters(record.timeout, Style(record.style)),
        created=record.created_at,
    )


def task_of(record: ManagedTask) -> TaskMetadata:
    """The task as a manager describes it."""
    return TaskMetadata(
        record.application_key, record.name, _amounts(record.request), record.group, created=record.created_at
    )


def gang_of(record: ManagedApplication) -> GangRecord:
    """The record of the gang; a record without states is of a new application."""
    return GangRecord(
        metadata=metadata_of(record),
        core=_life(CORE_APPLICATION.born(record.key), record.core_state, record.core_history),
        manager=_life(APPLICATION.born(record.key), record.state, record.history),
        counters=tuple(sorted(Counter(one.name, one.total, one.replaced, one.timed_out) for one in record.task_groups)),
        issued=record.issued,
        timer=record.timer or None,
        completing=record.completing or None,
        ended=record.ended or None,
        cause=record.cause,
        group=record.pod_group_key,
    )


def member_of(record: ManagedTask) -> MemberRecord:
    """The record of the task in its gang."""
    return MemberRecord(
        key=record.name,
        group=record.group,
        request=_amounts(record.request),
        created=record.created_at,
        life=_life(TASK.born(record.name), record.state, record.history),
        way=Way(record.way),
        node=record.node,
        placeholder=record.placeholder,
        cause=record.cause,
        outcome=outcome_of(record.outcome),
    )


def outcome_of(record: TaskOutcome | None) -> Outcome | None:
    """The reported end of a task; None: none was reported."""
    return Outcome(record.status, record.reason, record.message, record.exit_code) if record is not None else None


def holder_of(record: Placeholder) -> PlaceholderRecord:
    """The record of the placeholder in its gang."""
    return PlaceholderRecord(
        key=record.name,
        group=record.group,
        number=record.number,
        request=_amounts(record.request),
        life=_life(PLACEHOLDER.born(record.name), record.state, record.history),
        node=record.node,
        release=ReleaseType(record.release) if record.release else None,
        member=record.member,
    )


def application_changed(before: ManagedApplication, gang: GangRecord) -> ManagedApplication:
    """The record with the state of the gang."""
    counters = {one.group: one for one in gang.counters}
    return msgspec.structs.replace(
        before,
        core_state=gang.core.state,
        core_history=_history(gang.core),
        state=gang.manager.state,
        history=_history(gang.manager),
        task_groups=tuple(_counted(one, counters.get(one.name)) for one in before.task_groups),
        issued=gang.issued,
        timer=gang.timer or 0.0,
        completing=gang.completing or 0.0,
        ended=gang.ended or 0.0,
        cause=gang.cause,
    )


def task_changed(before: ManagedTask, member: MemberRecord) -> ManagedTask:
    """The record with the state of the task."""
    values: dict[str, Any] = {"way": str(member.way)}
    return msgspec.structs.replace(
        before,
        state=member.life.state,
        history=_history(member.life),
        node=member.node,
        placeholder=member.placeholder,
        cause=member.cause,
        outcome=TaskOutcome(**member.outcome._asdict()) if member.outcome is not None else None,
        **values,
    )


def placeholder_record(owner: ManagedApplication, holder: PlaceholderRecord, created: float) -> Placeholder:
    """The record of a placeholder. `created`: Unix seconds."""
    return Placeholder(
        namespace=owner.namespace,
        application=owner.name,
        name=holder.key,
        group=holder.group,
        number=holder.number,
        request=dict(holder.request),
        state=holder.life.state,
        history=_history(holder.life),
        node=holder.node,
        release=holder.release or "",
        member=holder.member,
        created_at=created,
    )


def amounts_of(request: dict[str, int]) -> Amounts:
    """The amounts of a record in the form of the room `offers`."""
    return _amounts(request)


def _amounts(request: dict[str, int]) -> Amounts:
    return tuple(sorted((name, amount) for name, amount in request.items() if amount))


def _counted(group: MemberGroup, counter: Counter | None) -> MemberGroup:
    if counter is None:
        return group
    return msgspec.structs.replace(group, total=counter.total, replaced=counter.replaced, timed_out=counter.timed_out)


def _life(born: Life, state: str, history: tuple[StateChange, ...]) -> Life:
    if not state:
        return born
    changes = tuple(Change(one.at, one.event, one.before, one.after) for one in history)
    return born._replace(state=state, history=changes)


def _history(life: Life) -> tuple[StateChange, ...]:
    return tuple(StateChange(at=one.at, event=one.event, before=one.before, after=one.after) for one in life.history)
