"""Requests about groups of applications."""

from __future__ import annotations

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.requests import stored_objects
from bcs_scheduler.core.requests.answers import Data, Handlers
from store.ids import object_key
from store.records import DEFAULT_QUEUE, PodGroup
from transactions.base import Refused
from transactions.text import counted

NAMED = 3
"""Number of applications that a message names, the first ones."""


def put_pod_group(turn: TurnContext, command: requests.PutPodGroup) -> Data:
    """Stores a group. Work that waits is judged by the new minimum at once, running work stays. Raises Refused (exists,
    not_found, conflict; invalid for a priority class that does not exist, and for another queue than that of the
    namespace)."""
    wanted, state = command.pod_group, turn.state
    before = state.pod_groups.get(wanted.key)
    shown = f"pod group {wanted.key}"
    stored_objects.check_existence(shown, before is not None, command.create)
    if wanted.priority_class and wanted.priority_class not in state.priority_classes:
        words = f"priority class {wanted.priority_class} does not exist"
        raise Refused("invalid", words, "$.spec.priorityClassName")
    namespace = state.namespaces.get(wanted.namespace)
    queue = (namespace.queue if namespace is not None else "") or DEFAULT_QUEUE
    if wanted.queue not in ("", queue):
        words = f"is {wanted.queue}, but namespace {wanted.namespace} belongs to queue {queue}"
        raise Refused("invalid", f"pod group {wanted.key}: the queue {words}", "$.spec.queue")
    record = stored_objects.put(turn, wanted, before, command.expected, shown, _settings(wanted))
    answer = {"namespace": wanted.namespace, "name": wanted.name}
    return answer if record is not None else answer | {"unchanged": True}


def delete_pod_group(turn: TurnContext, command: requests.DeletePodGroup) -> Data:
    """Removes a group. Raises Refused (not_found; conflict while applications name the group)."""
    key = object_key(command.namespace, command.name)
    record = turn.state.pod_groups.get(key)
    if record is None:
        raise Refused("not_found", f"pod group {key} does not exist")
    members = list(turn.state.indexes.applications_in(key))
    if members:
        more = f" and {len(members) - NAMED} more" if len(members) > NAMED else ""
        listed = f"{', '.join(members[:NAMED])}{more}"
        raise Refused("conflict", f"pod group {key} has {counted(len(members), 'application')}: {listed}")
    stored_objects.delete(turn, record)
    return {"namespace": command.namespace, "name": command.name}


def _settings(record: PodGroup) -> str:
    members = ", ".join(f"{name} {least}" for name, least in sorted(record.min_task_member.items()))
    return f"minimum {record.min_member}" + (f"; by member: {members}" if members else "")


HANDLERS: Handlers = {
    requests.PutPodGroup: put_pod_group,
    requests.DeletePodGroup: delete_pod_group,
}
