"""Requests about extensions of the system: admission webhooks and custom resources. The core only stores them: the API
calls the webhooks, and custom resources have a meaning only for their owners."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.requests import stored_objects
from bcs_scheduler.core.requests.answers import Data, Handlers
from store.ids import custom_key, object_key
from store.records import CustomObject, Webhook
from transactions.base import Refused

OBJECT_BYTES = 300_000
"""Largest object: it must fit the smallest record limit of the stores with room for others beside it."""
R = TypeVar("R", Webhook, CustomObject)


def put_webhook(turn: TurnContext, command: requests.PutWebhook) -> Data:
    """Creates or replaces an admission webhook. Raises Refused (exists, not_found, conflict, invalid)."""
    record = command.webhook
    before = turn.state.webhooks.get(record.key)
    return {"namespace": record.namespace, "name": record.name} | _put(turn, "webhook", record, before, command)


def delete_webhook(turn: TurnContext, command: requests.DeleteWebhook) -> Data:
    """Removes an admission webhook. Raises Refused (not_found)."""
    record = turn.state.webhooks.get(object_key(command.namespace, command.name))
    if record is None:
        raise Refused("not_found", f"admission webhook {object_key(command.namespace, command.name)} does not exist")
    stored_objects.delete(turn, record)
    return {"namespace": record.namespace, "name": record.name}


def put_custom_kind(turn: TurnContext, command: requests.PutCustomKind) -> Data:
    """Registers a kind; a second registration is answered with ``unchanged``, unless the request says that it replaces
    the first. Users name kinds in any case, and with an s or not, so no two kinds may differ in that only. Raises
    Refused (exists, not_found, conflict, invalid)."""
    record = command.custom_kind
    before = turn.state.custom_kinds.get(record.key)
    if before is not None and command.create:
        raise Refused("exists", f"kind {record.name} is registered already", "$.spec.names.kind")
    if before is None and command.create is False:
        raise Refused("not_found", f"kind {record.name} is not registered", "$.spec.names.kind")
    if before is not None and (command.create is None or before.raw == record.raw):
        return {"kind": record.name, "unchanged": True}
    if before is None and (like := _alike(turn, record.name)):
        raise Refused("conflict", f"kind {record.name} cannot be distinguished from kind {like}", "$.spec.names.kind")
    stored_objects.check_size(f"custom kind {record.name}", record, OBJECT_BYTES)
    turn.uow.put(msgspec.structs.replace(record, created_at=turn.now if before is None else before.created_at))
    turn.record_event("customkind", record.key, "CustomKindRegistered", "")
    return {"kind": record.name}


def delete_custom_kind(turn: TurnContext, command: requests.DeleteCustomKind) -> Data:
    """Removes a registered kind. Raises Refused (not_found; conflict while objects of the kind exist)."""
    record = turn.state.custom_kinds.get(command.name)
    if record is None:
        raise Refused("not_found", f"kind {command.name} is not registered")
    held = turn.state.indexes.objects_of(command.name)
    if held:
        raise Refused("conflict", f"kind {command.name} cannot be removed: {held} objects of it exist")
    turn.uow.delete(record)
    turn.record_event("customkind", record.key, "CustomKindDeleted", "")
    return {"kind": record.name}


def put_custom_object(turn: TurnContext, command: requests.PutCustomObject) -> Data:
    """Creates or replaces an object of a registered kind. Raises Refused (not_found, exists, conflict, invalid)."""
    record = command.custom_object
    if record.type not in turn.state.custom_kinds:
        raise Refused("not_found", f"kind {record.type} is not registered", "$.kind")
    before = turn.state.custom_objects.get(record.key)
    answer = {"kind": record.type, "namespace": record.namespace, "name": record.name}
    return answer | _put(turn, record.type, record, before, command)


def delete_custom_object(turn: TurnContext, command: requests.DeleteCustomObject) -> Data:
    """Removes an object of a registered kind. Raises Refused (not_found)."""
    record = turn.state.custom_objects.get(custom_key(command.type, command.namespace, command.name))
    if record is None:
        raise Refused("not_found", f"{command.type} {object_key(command.namespace, command.name)} does not exist")
    stored_objects.delete(turn, record)
    return {"kind": record.type, "namespace": record.namespace, "name": record.name}


def _put(turn: TurnContext, what: str, record: R, before: R | None, command: requests.Put) -> Data:
    """Stores the object and returns the fields to be added to the answer."""
    shown = f"{what} {object_key(record.namespace, record.name)}"
    stored_objects.check_existence(shown, before is not None, command.create)
    stored_objects.check_size(shown, record, OBJECT_BYTES)
    after = stored_objects.put(turn, record, before, command.expected, shown, "")
    return {} if after is not None else {"unchanged": True}


def _alike(turn: TurnContext, kind: str) -> str:
    """A registered kind whose name, in any case and with an s or not, is the same; empty if there is none."""
    name = kind.lower()
    for form in (name, f"{name}s", name.removesuffix("s")):
        for known in turn.state.indexes.custom_kinds_like(form):
            return known
    return ""


HANDLERS: Handlers = {
    requests.PutWebhook: put_webhook,
    requests.DeleteWebhook: delete_webhook,
    requests.PutCustomKind: put_custom_kind,
    requests.DeleteCustomKind: delete_custom_kind,
    requests.PutCustomObject: put_custom_object,
    requests.DeleteCustomObject: delete_custom_object,
}
