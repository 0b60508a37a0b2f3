"""Requests of application managers. They only write the wishes of the manager; the controller carries them out."""

from __future__ import annotations

from typing import Any

import msgspec

from bcs_scheduler.core import new_versions
from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.interface import managed, requests
from bcs_scheduler.core.requests.answers import Handlers, refuse_oversized
from offers.policy.applications.tables import TERMINATED
from store.ids import object_key, part_key
from store.records import GROUP_ANNOTATION, ManagedApplication
from store.state import State
from transactions import injection
from transactions.base import Refused
from transactions.rules.gangs import is_admitted, is_reserved_by_group

MOST_MEMBERS = 500
"""Greatest number of members of all task groups of an application: its placeholders change in one unit."""
NAMED = 3
"""Number of tasks that a message names, the first ones."""


def refuse_unmanaged(turn: TurnContext, command: requests.Request) -> None:
    """Raises Refused for new work that nothing admits, if the setting says so."""
    if turn.options.unmanaged != "refuse":
        return
    creates = isinstance(command, requests.CreateApplication | requests.CreateDeployment)
    version = command.version if isinstance(command, requests.CreateApplication | requests.CreateDeployment) else None
    if not creates or version is None or is_admitted(version.annotations):
        return
    name = version.annotations.get(GROUP_ANNOTATION, "")
    if not (name and is_reserved_by_group(turn.state, object_key(version.namespace, name))):
        words = "work without a managed application or a reservation is refused (scheduler.unmanaged)"
        raise Refused("conflict", words)


def add_application(turn: TurnContext, command: managed.AddManagedApplication) -> dict[str, Any]:
    """Stores an application. Raises Refused (exists for a key of another manager; invalid for too large groups)."""
    wanted, state = command.application, turn.state
    known = state.managed_applications.get(wanted.key)
    if known is not None and known.manager != wanted.manager:
        owner = f"manager {known.manager}" if known.manager else "a reservation"
        raise Refused("exists", f"managed application {wanted.key} belongs to {owner}")
    if known is not None:
        return {"unchanged": True}
    if known is None and wanted.key in state.applications:
        raise Refused("exists", f"application {wanted.key} exists already, and is not of a manager")
    members = sum(group.min_member for group in wanted.task_groups)
    if members > MOST_MEMBERS:
        raise Refused("invalid", f"{members} members in task groups, the most is {MOST_MEMBERS}", "taskGroups")
    created = min(wanted.created_at, turn.now) if wanted.created_at > 0 else turn.now
    turn.uow.put(msgspec.structs.replace(wanted, created_at=created))
    return {}


def add_task(turn: TurnContext, command: managed.AddManagedTask) -> dict[str, Any]:
    """Stores a task. Raises Refused (not_found, invalid)."""
    wanted, state = command.task, turn.state
    owner = state.managed_applications.get(wanted.application_key)
    if owner is None or owner.wanted == "remove":
        raise Refused("not_found", f"managed application {wanted.application_key} does not exist")
    if wanted.key in state.managed_tasks:
        return {"unchanged": True}
    if wanted.version is not None:
        refuse_oversized(wanted.version)
        injection.refuse_if_missing(state, wanted.version)
        wanted = msgspec.structs.replace(wanted, version=new_versions.resolved(turn, wanted.version))
    turn.uow.put(msgspec.structs.replace(wanted, created_at=turn.now))
    return {}


def end_application(turn: TurnContext, command: managed.EndManagedApplication) -> dict[str, Any]:
    """Notes the end of an application. Raises Refused (not_found; conflict for a removal while tasks have not
    ended)."""
    record = _application(turn.state, command.namespace, command.name)
    if command.removed:
        left = _unended(turn.state, record)
        if left:
            more = f" and {len(left) - NAMED} more" if len(left) > NAMED else ""
            raise Refused("conflict", f"tasks that are not terminated: {', '.join(left[:NAMED])}{more}")
    end = "remove" if command.removed else "fail" if command.failed else "complete"
    if record.wanted not in ("remove", end):
        turn.uow.put(msgspec.structs.replace(record, wanted=end, wanted_cause=command.reason))
    return {}


def end_task(turn: TurnContext, command: managed.EndManagedTask) -> dict[str, Any]:
    """Notes the end of a task, or removes its record. Raises Refused (conflict: not ended)."""
    state = turn.state
    task = state.managed_tasks.get(part_key(object_key(command.namespace, command.application), command.name))
    if task is None:
        return {"unchanged": True}
    if not command.removed:
        turn.uow.put(msgspec.structs.replace(task, done=True))
        return {}
    if task.state not in TERMINATED:
        raise Refused("conflict", f"task {task.key} is not terminated: {task.state or 'New'}")
    turn.uow.put(msgspec.structs.replace(task, done=True, removed=True))
    return {}


def _application(state: State, namespace: str, name: str) -> ManagedApplication:
    found: ManagedApplication | None = state.managed_applications.get(object_key(namespace, name))
    if found is None or not found.manager:
        raise Refused("not_found", f"managed application {object_key(namespace, name)} does not exist")
    return found


def _unended(state: State, record: ManagedApplication) -> list[str]:
    tasks = (state.managed_tasks[key] for key in state.indexes.managed_by("managedtask", record.key))
    left = sorted(task.name for task in tasks if task.state not in TERMINATED)
    holders = (state.placeholders[key] for key in state.indexes.managed_by("placeholder", record.key))
    return [*left, *sorted(holder.name for holder in holders)]


HANDLERS: Handlers = {
    managed.AddManagedApplication: add_application,
    managed.AddManagedTask: add_task,
    managed.EndManagedApplication: end_application,
    managed.EndManagedTask: end_task,
}
