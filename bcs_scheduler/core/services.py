"""Commands about services. Their endpoints follow: bcs_scheduler.core.controllers.services."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from bcs_scheduler.core import events, orders
from bcs_scheduler.core.concurrency import revised
from bcs_scheduler.core.desk import Desk
from bcs_scheduler.core.effects import Changed
from transactions.base import Refused

SERVICE_BYTES = 100_000
"""Largest service: it travels with every list of them, and its ports with every change of its endpoint."""


def put(desk: Desk, command: orders.PutService) -> dict[str, Any]:
    record = command.service
    before = desk.state.services.get(record.key)
    if command.create is True and before is not None:
        raise Refused("exists", f"service {record.key} exists already", "$.metadata.name")
    if command.create is False and before is None:
        raise Refused("not_found", f"service {record.key} does not exist", "$.metadata.name")
    size = len(msgspec.json.encode(record))
    if size > SERVICE_BYTES:
        raise Refused("invalid", f"service {record.key} has {size} bytes, of {SERVICE_BYTES} allowed", "$")
    after = revised(record, before, command.expected, f"service {record.key}", desk.now)
    if after is not None:
        record = desk.uow.put(after)
        desk.emit(Changed(kind=record.kind, key=record.key, record=record, cause=desk.cause))
        words = ", ".join(f"{key}={value}" for key, value in sorted(record.selector.items())) or "everything"
        desk.tell("service", record.key, "created" if before is None else "updated", f"selects {words}")
        return {"namespace": record.namespace, "name": record.name}
    return {"namespace": record.namespace, "name": record.name, "unchanged": True}


def delete(desk: Desk, command: orders.DeleteService) -> dict[str, Any]:
    record = desk.state.services.get(f"{command.namespace}/{command.name}")
    if record is None:
        raise Refused("not_found", f"service {command.namespace}/{command.name} does not exist")
    desk.uow.delete(record)
    desk.emit(Changed(kind=record.kind, key=record.key, record=None, cause=desk.cause))
    desk.tell("service", record.key, "deleted", "its endpoint goes with it, its taskgroups stay")
    return {"namespace": record.namespace, "name": record.name}


HANDLERS: Mapping[type[events.Command], Callable[[Desk, Any], dict[str, Any]]] = {
    orders.PutService: put,
    orders.DeleteService: delete,
}
