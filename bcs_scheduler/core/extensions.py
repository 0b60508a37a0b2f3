"""Commands about what extends the system: admission webhooks and custom resources. The core only keeps them: the API
asks the webhooks, and what custom resources mean is their owners' business."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from bcs_scheduler.core import events, orders
from bcs_scheduler.core.concurrency import revised
from bcs_scheduler.core.desk import Desk
from store.records import CustomObject, Webhook
from transactions.base import Refused

OBJECT_BYTES = 300_000
"""Largest object: it must fit the smallest record limit of the stores with room for others beside it."""
R = TypeVar("R", Webhook, CustomObject)


def put_webhook(desk: Desk, command: orders.PutWebhook) -> dict[str, Any]:
    record = command.webhook
    before = desk.state.webhooks.get(record.key)
    return {"namespace": record.namespace, "name": record.name} | _put(desk, "webhook", record, before, command)


def delete_webhook(desk: Desk, command: orders.DeleteWebhook) -> dict[str, Any]:
    record = desk.state.webhooks.get(f"{command.namespace}/{command.name}")
    if record is None:
        raise Refused("not_found", f"admission webhook {command.namespace}/{command.name} does not exist")
    desk.uow.delete(record)
    desk.tell("webhook", record.key, "deleted", "")
    return {"namespace": record.namespace, "name": record.name}


def put_custom_kind(desk: Desk, command: orders.PutCustomKind) -> dict[str, Any]:
    """Once registered, a kind stays as it was registered first. Users name kinds in any case, and with an s or not, so
    no two may differ in that only."""
    record = command.custom_kind
    if record.key in desk.state.custom_kinds:
        return {"kind": record.name, "unchanged": True}
    if like := _alike(desk, record.name):
        raise Refused("conflict", f"kind {record.name} cannot be told from kind {like}", "$.spec.names.kind")
    _check_size("custom kind", record.name, len(msgspec.json.encode(record)))
    desk.uow.put(msgspec.structs.replace(record, created_at=desk.now))
    desk.tell("customkind", record.key, "registered", "")
    return {"kind": record.name}


def delete_custom_kind(desk: Desk, command: orders.DeleteCustomKind) -> dict[str, Any]:
    record = desk.state.custom_kinds.get(command.name)
    if record is None:
        raise Refused("not_found", f"kind {command.name} is not registered")
    held = desk.state.indexes.objects_of(command.name)
    if held:
        raise Refused("conflict", f"kind {command.name} cannot be removed: {held} objects of it exist")
    desk.uow.delete(record)
    desk.tell("customkind", record.key, "deleted", "")
    return {"kind": record.name}


def put_custom_object(desk: Desk, command: orders.PutCustomObject) -> dict[str, Any]:
    record = command.custom_object
    if record.type not in desk.state.custom_kinds:
        raise Refused("not_found", f"kind {record.type} is not registered", "$.kind")
    before = desk.state.custom_objects.get(record.key)
    answer = {"kind": record.type, "namespace": record.namespace, "name": record.name}
    return answer | _put(desk, record.type, record, before, command)


def delete_custom_object(desk: Desk, command: orders.DeleteCustomObject) -> dict[str, Any]:
    record = desk.state.custom_objects.get(f"{command.type}/{command.namespace}/{command.name}")
    if record is None:
        raise Refused("not_found", f"{command.type} {command.namespace}/{command.name} does not exist")
    desk.uow.delete(record)
    desk.tell("customobject", record.key, "deleted", "")
    return {"kind": record.type, "namespace": record.namespace, "name": record.name}


def _put(desk: Desk, what: str, record: R, before: R | None, command: events.Put) -> dict[str, Any]:
    """What is added to the answer."""
    shown = f"{what} {record.namespace}/{record.name}"
    if command.create is True and before is not None:
        raise Refused("exists", f"{shown} exists already", "$.metadata.name")
    if command.create is False and before is None:
        raise Refused("not_found", f"{shown} does not exist", "$.metadata.name")
    _check_size(what, f"{record.namespace}/{record.name}", len(msgspec.json.encode(record)))
    after = revised(record, before, command.expected, shown, desk.now)
    if after is None:
        return {"unchanged": True}
    desk.uow.put(after)
    desk.tell(record.kind, record.key, "created" if before is None else "updated", "")
    return {}


def _alike(desk: Desk, kind: str) -> str:
    """A registered kind whose name, in any case and with an s or not, is the same; empty if there is none."""
    name = kind.lower()
    for form in (name, f"{name}s", name.removesuffix("s")):
        for known in desk.state.indexes.custom_kinds_like(form):
            return known
    return ""


def _check_size(what: str, name: str, size: int) -> None:
    if size > OBJECT_BYTES:
        raise Refused("invalid", f"{what} {name} has {size} bytes, of {OBJECT_BYTES} allowed", "$")


HANDLERS: Mapping[type[events.Command], Callable[[Desk, Any], dict[str, Any]]] = {
    orders.PutWebhook: put_webhook,
    orders.DeleteWebhook: delete_webhook,
    orders.PutCustomKind: put_custom_kind,
    orders.DeleteCustomKind: delete_custom_kind,
    orders.PutCustomObject: put_custom_object,
    orders.DeleteCustomObject: delete_custom_object,
}
