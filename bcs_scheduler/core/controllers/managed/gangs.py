"""The gangs in memory, made from their records, and the applications that belong to each of them.

The core is the engine of gangs (offers.policy.applications.gangs.effects.Engine): asks, allocations and placeholders
are applications with one taskgroup each, so the placement in force gives them room and counts their usage. Calls of the
gang that change something change its records, too; only its questions are answered here.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.controllers.managed import conversion
from bcs_scheduler.core.placement.placer import WhatIf
from offers.dimensions import Amounts
from offers.policy.amounts import Vector, added
from offers.policy.applications.gangs.effects import Traits
from offers.policy.applications.gangs.gang import Gang
from offers.policy.applications.gangs.records import GangRecord, MemberRecord, PlaceholderRecord, Record
from store.ids import namespace_of, object_key, part_key
from store.records import ManagedApplication, ManagedTask, Queue, TaskGroup, Version
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
        for name, amount in added(*together.values()).items():
            most = getattr(record.capability, name, None) if record is not None else None
            if most is not None and amount > most:
                return f"the capability of queue {actual} is smaller than the gang: {name}"
        return None

    def _together(self, application: str, placeholder_ask: Vector) -> dict[str, Vector]:
        """The room of the placeholders of all reservations that must be complete together, by application."""
        state = self._turn.state
        record: ManagedApplication | None = state.managed_applications.get(application)
        if record is None or not record.pod_group:
            return {application: placeholder_ask}
        found = reserved_in(state, record.pod_group_key)
        return {one.key: conversion.metadata_of(one).placeholder_ask for one in found}

    def _role(self, application: str) -> str:
        record = self._turn.state.applications.get(application)
        version = self._turn.state.version(application, record.version) if record is not None else None
        return (version.role if version is not None else "") or self._turn.options.transactions.role

    def ask(self, application: str, name: str, request: Amounts, created: float) -> None:
        """Does nothing: the records say that the task asks."""

    def withdraw(self, application: str, name: str) -> None:
        """Does nothing: the records say that the task does not ask any more."""

    def occupy(self, application: str, name: str, request: Amounts, node: str) -> None:
        """Does nothing: the taskgroup counts."""

    def release(self, application: str, name: str) -> None:
        """Does nothing: the taskgroup counts until it has ended."""

    def hold(self, application: str, name: str, request: Amounts, node: str) -> None:
        """Does nothing: room on another node is never chosen (`find`)."""

    def replace(self, application: str, placeholder: str, name: str, request: Amounts, node: str) -> None:
        """Does nothing: the task is placed on the node before any other work (`Step.promised`)."""

    def suits(self, application: str, name: str, node: str) -> bool:
        """True if the task may run on the node of a placeholder when the placeholder is gone."""
        task: ManagedTask | None = self._turn.state.managed_tasks.get(part_key(application, name))
        if task is None:
            return True
        version = self._definition(application, task)
        if version is None or not version.constraints:
            return True  # the placeholder has passed the same tests
        return self._fits(version, task.index, application, node)

    def find(self, application: str, name: str, request: Amounts) -> str | None:  # noqa: ARG002
        """Returns None: a task that fits no placeholder waits for another one, or for the end of the reservation."""
        return None

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
        return bool(turn.placer.plan([demand], WhatIf(gone)).placements)


def reserved_in(state: State, group: str) -> list[ManagedApplication]:
    """The reservations of the members of a group (``namespace/name``)."""
    found = (state.managed_applications.get(key) for key in state.indexes.applications_in(group))
    return [record for record in found if record is not None and record.pod_group_key == group]


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
        metadata = conversion.metadata_of(record)
        return self._engine.refusal(metadata.id, metadata.queue, metadata.placeholder_ask)

    def load(self, record: ManagedApplication) -> Gang:
        """The gang of the record, made anew from its records."""
        state, key = self._turn.state, record.key
        records: list[Record] = [conversion.gang_of(record)]
        names = state.indexes.managed_by("placeholder", key)
        records += [conversion.holder_of(state.placeholders[name]) for name in names]
        records += [conversion.member_of(state.managed_tasks[name]) for name in self.task_keys(key)]
        gang = self.loaded[key] = Gang.continued(records, self._engine, TRAITS)
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
                    turn.uow.put(conversion.placeholder_record(record, change, created))
                    self.add(place, Unit(key, "placeholder", name))
                elif known is not None:
                    turn.uow.delete(known)
                    self.remove(place)
            elif kind == "member":
                task = state.managed_tasks.get(part_key(key, name))
                if task is not None and isinstance(change, MemberRecord):
                    turn.uow.put(conversion.task_changed(task, change))
                elif task is not None:
                    turn.uow.delete(task)
                    self.remove(object_key(task.namespace, task.unit))
            elif isinstance(change, GangRecord):
                turn.uow.put(conversion.application_changed(state.managed_applications[key], change))
        return changes

    def group_of(self, unit: Unit) -> TaskGroup | None:
        """The newest taskgroup of a task or placeholder of a gang; None if there is none."""
        record = self._turn.state.managed_applications.get(unit.gang)
        if record is None:
            return None
        groups = self._turn.state.groups_of(object_key(record.namespace, self._application(unit)))
        return max(groups.values(), key=lambda group: group.created_at, default=None)

    def _application(self, unit: Unit) -> str:
        if unit.kind == "placeholder":
            return unit.name
        task = self._turn.state.managed_tasks.get(part_key(unit.gang, unit.name))
        return task.unit if task is not None else ""
