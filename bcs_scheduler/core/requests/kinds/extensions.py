"""Requests about extensions of the system: admission webhooks and custom resources. The core only stores them: the API
calls the webhooks, and custom resources have a meaning only for their owners."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.requests.concurrency import revised
from store.ids import custom_key, object_key
from store.reasons import KEPT
from store.records import CustomObject, Webhook
from transactions.base import Refused

OBJECT_BYTES = 300_000
"""Largest object: it must fit the smallest record limit of the stores with room for others beside it."""
R = TypeVar("R", Webhook, CustomObject)


def put_webhook(turn: TurnContext, command: requests.PutWebhook) -> dict[str, Any]:
    """Creates or replaces an admission webhook. Raises Refused (exists, not_found, conflict, invalid)."""
    record = command.webhook
    before = turn.state.webhooks.get(record.key)
    return {"namespace": record.namespace, "name": record.name} | _put(turn, "webhook", record, before, command)


def delete_webhook(turn: TurnContext, command: requests.DeleteWebhook) -> dict[str, Any]:
    """Removes an admission webhook. Raises Refused (not_found)."""
    record = turn.state.webhooks.get(object_key(command.namespace, command.name))
    if record is None:
        raise Refused("not_found", f"admission webhook {object_key(command.namespace, command.name)} does not exist")
    turn.uow.delete(record)
    turn.record_event("webhook", record.key, "WebhookDeleted", "")
    return {"namespace": record.namespace, "name": record.name}


def put_custom_kind(turn: TurnContext, command: requests.PutCustomKind) -> dict[str, Any]:
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
    _check_size("custom kind", record.name, len(msgspec.json.encode(record)))
    turn.uow.put(msgspec.structs.replace(record, created_at=turn.now if before is None else before.created_at))
    turn.record_event("customkind", record.key, "CustomKindRegistered", "")
    return {"kind": record.name}


def delete_custom_kind(turn: TurnContext, command: requests.DeleteCustomKind) -> dict[str, Any]:
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


def put_custom_object(turn: TurnContext, command: requests.PutCustomObject) -> dict[str, Any]:
    """Creates or replaces an object of a registered kind. Raises Refused (not_found, exists, conflict, invalid)."""
    record = command.custom_object
    if record.type not in turn.state.custom_kinds:
        raise Refused("not_found", f"kind {record.type} is not registered", "$.kind")
    before = turn.state.custom_objects.get(record.key)
    answer = {"kind": record.type, "namespace": record.namespace, "name": record.name}
    return answer | _put(turn, record.type, record, before, command)


def delete_custom_object(turn: TurnContext, command: requests.DeleteCustomObject) -> dict[str, Any]:
    """Removes an object of a registered kind. Raises Refused (not_found)."""
    record = turn.state.custom_objects.get(custom_key(command.type, command.namespace, command.name))
    if record is None:
        raise Refused("not_found", f"{command.type} {object_key(command.namespace, command.name)} does not exist")
    turn.uow.delete(record)
    turn.record_event("customobject", record.key, "CustomObjectDeleted", "")
    return {"kind": record.type, "namespace": record.namespace, "name": record.name}


def _put(turn: TurnContext, what: str, record: R, before: R | None, command: requests.Put) -> dict[str, Any]:
    """Stores the object and returns the fields to be added to the answer."""
    shown = f"{what} {object_key(record.namespace, record.name)}"
    if command.create is True and before is not None:
        raise Refused("exists", f"{shown} exists already", "$.metadata.name")
    if command.create is False and before is None:
        raise Refused("not_found", f"{shown} does not exist", "$.metadata.name")
    _check_size(what, object_key(record.namespace, record.name), len(msgspec.json.encode(record)))
    after = revised(record, before, command.expected, shown, turn.now)
    if after is None:
        return {"unchanged": True}
    turn.uow.put(after)
    created, updated, _ = KEPT[record.kind]
    turn.record_event(record.kind, record.key, created if before is None else updated, "")
    return {}


def _alike(turn: TurnContext, kind: str) -> str:
    """A registered kind whose name, in any case and with an s or not, is the same; empty if there is none."""
    name = kind.lower()
    for form in (name, f"{name}s", name.removesuffix("s")):
        for known in turn.state.indexes.custom_kinds_like(form):
            return known
    return ""


def _check_size(what: str, name: str, size: int) -> None:
    if size > OBJECT_BYTES:
        raise Refused("invalid", f"{what} {name} has {size} bytes, of {OBJECT_BYTES} allowed", "$")


HANDLERS: Mapping[type[requests.Request], Callable[[TurnContext, Any], dict[str, Any]]] = {
    requests.PutWebhook: put_webhook,
    requests.DeleteWebhook: delete_webhook,
    requests.PutCustomKind: put_custom_kind,
    requests.DeleteCustomKind: delete_custom_kind,
    requests.PutCustomObject: put_custom_object,
    requests.DeleteCustomObject: delete_custom_object,
}
