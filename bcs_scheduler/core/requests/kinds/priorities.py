"""Requests about priority classes. A class gives its number when work is made (core.new_versions). A later change or
deletion of the class leaves versions as they are."""

from __future__ import annotations

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.requests import stored_objects
from bcs_scheduler.core.requests.answers import Data, Handlers
from store.advice import advise
from store.records import PriorityClass
from transactions.base import Refused


def put_priority_class(turn: TurnContext, command: requests.PutPriorityClass) -> Data:
    """Stores a priority class. Raises Refused (exists, not_found, conflict; invalid for a changed value or preemption
    policy, and for a second default class)."""
    wanted = command.priority_class
    before = turn.state.priority_classes.get(wanted.key)
    shown = f"priority class {wanted.name}"
    stored_objects.check_existence(shown, before is not None, command.create)
    if before is not None:
        _refuse_changes(before, wanted)
    others = [name for name in turn.state.indexes.default_priority_classes() if name != wanted.name]
    if wanted.global_default and others:
        raise Refused("invalid", f"priority class {others[0]} is the default already", "$.globalDefault")
    record = stored_objects.put(turn, wanted, before, command.expected, shown, _settings(wanted))
    return {"name": wanted.name} if record is not None else {"name": wanted.name, "unchanged": True}


def _refuse_changes(before: PriorityClass, wanted: PriorityClass) -> None:
    """Taskgroups of one class would otherwise have different priorities."""
    problems = []
    if wanted.value != before.value:
        problems.append(("$.value", f"is {before.value} and cannot change; {advise('recreate_class')}"))
    if wanted.preemption_policy != before.preemption_policy:
        words = f"is {before.preemption_policy} and cannot change; {advise('recreate_class')}"
        problems.append(("$.preemptionPolicy", words))
    if problems:
        words = f"priority class {wanted.name}: value and preemptionPolicy cannot change"
        raise Refused("invalid", words, problems=tuple(problems))


def delete_priority_class(turn: TurnContext, command: requests.DeletePriorityClass) -> Data:
    """Removes a priority class. Work that uses the class keeps its priority. Raises Refused (not_found)."""
    record = turn.state.priority_classes.get(command.name)
    if record is None:
        raise Refused("not_found", f"priority class {command.name} does not exist")
    stored_objects.delete(turn, record)
    return {"name": command.name}


def _settings(record: PriorityClass) -> str:
    parts = [f"value {record.value}", f"preemption policy {record.preemption_policy}"]
    return "; ".join([*parts, "default for new work"] if record.global_default else parts)


HANDLERS: Handlers = {
    requests.PutPriorityClass: put_priority_class,
    requests.DeletePriorityClass: delete_priority_class,
}
