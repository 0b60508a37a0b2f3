"""Requests about services. Their endpoints follow: bcs_scheduler.core.controllers.services."""

from __future__ import annotations

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.interface.effects import Changed
from bcs_scheduler.core.requests import stored_objects
from bcs_scheduler.core.requests.answers import Data, Handlers
from bcs_scheduler.core.requests.concurrency import revised
from store.ids import object_key
from transactions.base import Refused

SERVICE_BYTES = 100_000
"""Largest service: it travels with every list of them, and its ports with every change of its endpoint."""


def put(turn: TurnContext, command: requests.PutService) -> Data:
    """Creates or replaces a service. Raises Refused (exists, not_found, conflict, invalid)."""
    record = command.service
    before = turn.state.services.get(record.key)
    shown = f"service {record.key}"
    stored_objects.check_existence(shown, before is not None, command.create)
    stored_objects.check_size(shown, record, SERVICE_BYTES)
    after = revised(record, before, command.expected, shown, turn.now)
    if after is not None:
        record = turn.uow.put(after)
        turn.emit(Changed(kind=record.kind, key=record.key, record=record, cause=turn.cause))
        words = ", ".join(f"{key}={value}" for key, value in sorted(record.selector.items())) or "everything"
        turn.record_event(
            "service", record.key, "ServiceCreated" if before is None else "ServiceUpdated", f"selects {words}"
        )
        return {"namespace": record.namespace, "name": record.name}
    return {"namespace": record.namespace, "name": record.name, "unchanged": True}


def delete(turn: TurnContext, command: requests.DeleteService) -> Data:
    """Removes a service; its endpoint goes with it. Raises Refused (not_found)."""
    record = turn.state.services.get(object_key(command.namespace, command.name))
    if record is None:
        raise Refused("not_found", f"service {object_key(command.namespace, command.name)} does not exist")
    turn.uow.delete(record)
    turn.emit(Changed(kind=record.kind, key=record.key, record=None, cause=turn.cause))
    turn.record_event(
        "service", record.key, "ServiceDeleted", "the endpoint of the service was deleted, the taskgroups stay"
    )
    return {"namespace": record.namespace, "name": record.name}


HANDLERS: Handlers = {
    requests.PutService: put,
    requests.DeleteService: delete,
}
