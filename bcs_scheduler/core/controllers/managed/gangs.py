"""The gangs in memory, made from their records and written back, and the applications that belong to each of them.

The core is the engine of gangs (offers.policy.applications.records.Engine): asks, allocations and placeholders are
applications with one taskgroup each, so the placement in force gives them room and counts their usage. Only questions
of gangs are answered here.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import msgspec

from bcs_scheduler.core.context import TurnContext
from offers.dimensions import amounts
from offers.policy.amounts import Vector, added
from offers.policy.applications.gang import Gang
from offers.policy.applications.metadata import (
    ApplicationMetadata,
    Outcome,
    SchedulingPolicyParameters,
    Style,
    TaskGroup,
    TaskMetadata,
)
from offers.policy.applications.records import (
    Counter,
    GangRecord,
    MemberRecord,
    PlaceholderRecord,
    Record,
    ReleaseType,
    Traits,
    Way,
)
from offers.policy.applications.tables import APPLICATION, CORE_APPLICATION, PLACEHOLDER, TASK, Change, Life
from store.ids import namespace_of, object_key, part_key
from store.records import (
    ManagedApplication,
    ManagedTask,
    MemberGroup,
    Placeholder,
    Queue,
    StateChange,
    TaskOutcome,
    Version,
)
from store.state import State
from transactions import resource_request
from transactions.base import Slot, Step
from transactions.rules.queues import queue_of

TRAITS = Traits(at_once=False, lasting=True)
"""Placeholders are taskgroups: a swap waits for their end, and they outlive the scheduler."""


class Unit(NamedTuple):
    """The part of an application in a gang. `own`: its taskgroups are the tasks of the gang; `task` and `placeholder`:
    its only taskgroup is the one with this name."""

    gang: str
    kind: Literal["own", "task", "placeholder"]
    name: str = ""


class CoreEngine:
    """Answers gangs from the records and the offers."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn

    def refusal(self, application: str, queue: str, placeholder_ask: Vector) -> str | None:
        """A message if the queue cannot take a gang of this size; None if the queue takes the gang. A policy without
        queues takes every gang."""
        role = self._role(application)
        together = self._together(application, placeholder_ask)
        if self._turn.options.part_of(role).policy is None:
            full = self._turn.queues.too_small(role, together)
            return f"the maximum of queue {full} is smaller than the gang" if full is not None else None
        actual = queue_of(self._turn.state, namespace_of(application))
        if queue and queue != actual:
            return f"the namespace {namespace_of(application)} belongs to queue {actual}, not to {queue}"
        record: Queue | None = self._turn.state.queues.get(actual)
        limits = record.limits if record is not None else {}
        for name, amount in added(*together.values()).items():
            if amount > limits.get(name, amount):
                return f"the capability of queue {actual} is smaller than the gang: {name}"
        return None

    def _together(self, application: str, placeholder_ask: Vector) -> dict[str, Vector]:
        """The room of the placeholders of all reservations that must be complete together, by application."""
        state = self._turn.state
        record: ManagedApplication | None = state.managed_applications.get(application)
        if record is None or not record.pod_group:
            return {application: placeholder_ask}
        records = reserved_in(state, record.pod_group_key)
        return {other.key: metadata_of(other).placeholder_ask for other in records}

    def _role(self, application: str) -> str:
        record = self._turn.state.applications.get(application)
        version = self._turn.state.version(application, record.version) if record is not None else None
        return (version.role if version is not None else "") or self._turn.options.transactions.role

    def suits(self, application: str, name: str, node: str) -> bool:
        """True if the task may run on the node of a placeholder when the placeholder is gone."""
        task: ManagedTask | None = self._turn.state.managed_tasks.get(part_key(application, name))
        if task is None:
            return True
        version = self._definition(application, task)
        if version is None or not version.constraints:
            return True  # the placeholder has passed the same tests
        return self._fits(version, task.index, application, node)

    def _definition(self, application: str, task: ManagedTask) -> Version | None:
        if task.version is not None:
            return task.version
        owner = self._turn.state.applications.get(application)
        return self._turn.state.version(application, owner.version) if owner is not None else None

    def _fits(self, version: Version, index: int, application: str, node: str) -> bool:
        turn = self._turn
        holders = turn.state.indexes.managed_by("placeholder", application)
        gone = tuple(occupant for occupant in turn.occupants(node) if occupant.application in holders)
        step = Step(slots=(Slot(index),), version=version.name, only_agents=frozenset({node}))
        options = turn.options
        demand = resource_request.demand("swap", version, step, options.transactions.role, options.traits.overhead)
        return bool(turn.placer.suppose([demand], gone).placements)


def reserved_in(state: State, group: str) -> list[ManagedApplication]:
    """The reservations of the members of a group (``namespace/name``)."""
    records = (state.managed_applications.get(key) for key in state.indexes.applications_in(group))
    return [record for record in records if record is not None and record.pod_group_key == group]


class Gangs:
    """The gangs that have been loaded, and the units of all of them."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn
        self._engine = CoreEngine(turn)
        self.loaded: dict[str, Gang] = {}
        self.units: dict[str, Unit] = {}
        """The units by key of their application."""
        self._units_of: dict[str, dict[str, None]] = {}

    def clear(self) -> None:
        """Forgets everything."""
        for known in (self.loaded, self.units, self._units_of):
            known.clear()

    def follow(self, record: ManagedApplication) -> None:
        """Knows the units of a managed application."""
        state, key = self._turn.state, record.key
        if not record.manager:
            self.add(key, Unit(key, "own"))
        for name in state.indexes.managed_by("placeholder", key):
            self.add(name, Unit(key, "placeholder", state.placeholders[name].name))
        for name in state.indexes.managed_by("managedtask", key):
            self.add_task(state.managed_tasks[name])

    def add_task(self, task: ManagedTask) -> None:
        """Knows the unit of a task."""
        if task.unit:
            self.add(object_key(task.namespace, task.unit), Unit(task.application_key, "task", task.name))

    def add(self, application: str, unit: Unit) -> None:
        """Knows one unit."""
        self.units[application] = unit
        self._units_of.setdefault(unit.gang, {})[application] = None

    def remove(self, application: str) -> None:
        """The application is no unit any more."""
        unit = self.units.pop(application, None)
        if unit is not None:
            self._units_of[unit.gang].pop(application, None)

    def refusal(self, record: ManagedApplication) -> str | None:
        """Like `CoreEngine.refusal`, for the gang of a record."""
        metadata = metadata_of(record)
        return self._engine.refusal(metadata.id, metadata.queue, metadata.placeholder_ask)

    def load(self, record: ManagedApplication) -> Gang:
        """The gang of the record, made anew from its records."""
        state, key = self._turn.state, record.key
        holders = [holder_of(state.placeholders[name]) for name in state.indexes.managed_by("placeholder", key)]
        members = [member_of(state.managed_tasks[name]) for name in self.task_keys(key)]
        gang = self.loaded[key] = Gang(gang_of(record), self._engine, TRAITS, holders, members)
        return gang

    def task_keys(self, key: str) -> list[str]:
        """Keys of the records of the tasks of a managed application."""
        return list(self._turn.state.indexes.managed_by("managedtask", key))

    def unload(self, key: str) -> None:
        """Forgets the gang; it is made from the records when it is needed again."""
        self.loaded.pop(key, None)

    def forget(self, key: str) -> None:
        """Forgets a managed application that does not exist any more."""
        self.unload(key)
        for application in self._units_of.pop(key, {}):
            self.units.pop(application, None)

    def save(self, record: ManagedApplication, gang: Gang) -> dict[tuple[str, str], Record | None]:
        """Writes the changes of a gang into its records, and returns them."""
        turn, changes = self._turn, gang.take_changes()
        state, key = turn.state, record.key
        for (kind, name), change in changes.items():
            if kind == "placeholder":
                place = object_key(record.namespace, name)
                known = state.placeholders.get(place)
                if isinstance(change, PlaceholderRecord):
                    created = known.created_at if known is not None else turn.now
                    turn.uow.put(placeholder_record(record, change, created))
                    self.add(place, Unit(key, "placeholder", name))
                elif known is not None:
                    turn.uow.delete(known)
                    self.remove(place)
            elif kind == "member":
                task = state.managed_tasks.get(part_key(key, name))
                if task is not None and isinstance(change, MemberRecord):
                    turn.uow.put(task_changed(task, change))
                elif task is not None:
                    turn.uow.delete(task)
                    self.remove(object_key(task.namespace, task.unit))
            elif isinstance(change, GangRecord):
                turn.uow.put(application_changed(state.managed_applications[key], change))
        return changes


# --- records of the store and records of gangs, one made from the other -----------------------------------------


def metadata_of(record: ManagedApplication) -> ApplicationMetadata:
    """The application as a manager describes it; its identifier is the key of the record."""
    return ApplicationMetadata(
        id=record.key,
        queue=record.queue,
        user=record.user,
        groups=record.groups,
        tags=tuple(sorted(record.tags.items())),
        task_groups=tuple(
            TaskGroup(group.name, group.min_member, amounts(group.request)) for group in record.task_groups
        ),
        owner=record.owner,
        parameters=SchedulingPolicyParameters(record.timeout, Style(record.style)),
        created=record.created_at,
    )


def task_of(record: ManagedTask) -> TaskMetadata:
    """The task as a manager describes it."""
    return TaskMetadata(
        record.application_key, record.name, amounts(record.request), record.group, created=record.created_at
    )


def gang_of(record: ManagedApplication) -> GangRecord:
    """The record of the gang; a record without states is of a new application."""
    return GangRecord(
        metadata=metadata_of(record),
        core=_life(CORE_APPLICATION.born(record.key), record.core_state, record.core_history),
        manager=_life(APPLICATION.born(record.key), record.state, record.history),
        counters=tuple(
            sorted(Counter(group.name, group.total, group.replaced, group.timed_out) for group in record.task_groups)
        ),
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
        request=amounts(record.request),
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
        request=amounts(record.request),
        life=_life(PLACEHOLDER.born(record.name), record.state, record.history),
        node=record.node,
        release=ReleaseType(record.release) if record.release else None,
        member=record.member,
    )


def application_changed(before: ManagedApplication, gang: GangRecord) -> ManagedApplication:
    """The record with the state of the gang."""
    counters = {counter.group: counter for counter in gang.counters}
    return msgspec.structs.replace(
        before,
        core_state=gang.core.state,
        core_history=_history(gang.core),
        state=gang.manager.state,
        history=_history(gang.manager),
        task_groups=tuple(_counted(group, counters.get(group.name)) for group in before.task_groups),
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


def _counted(group: MemberGroup, counter: Counter | None) -> MemberGroup:
    if counter is None:
        return group
    return msgspec.structs.replace(group, total=counter.total, replaced=counter.replaced, timed_out=counter.timed_out)


def _life(born: Life, state: str, history: tuple[StateChange, ...]) -> Life:
    if not state:
        return born
    changes = tuple(Change(change.at, change.event, change.before, change.after) for change in history)
    return born._replace(state=state, history=changes)


def _history(life: Life) -> tuple[StateChange, ...]:
    return tuple(
        StateChange(at=change.at, event=change.event, before=change.before, after=change.after)
        for change in life.history
    )
