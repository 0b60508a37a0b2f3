"""Requests about configmaps and secrets. Messages name the size of their content and never the content."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.requests.concurrency import revised
from store.ids import object_key
from store.reasons import KEPT
from store.records import ConfigMap, Secret
from transactions.base import Refused

OBJECT_BYTES = 300_000
"""Largest configmap or secret: it must fit the smallest record limit of the stores with room for others beside it."""


def put_config_map(turn: TurnContext, command: requests.PutConfigMap) -> dict[str, Any]:
    """Creates or replaces a configmap. Raises Refused (exists, not_found, conflict, invalid)."""
    record = command.config_map
    before = turn.state.config_maps.get(record.key)
    _check(record, before, command.create)
    return _put(turn, record, before, revised(record, before, command.expected, f"configmap {record.key}", turn.now))


def put_secret(turn: TurnContext, command: requests.PutSecret) -> dict[str, Any]:
    """Creates or replaces a secret. Raises Refused (exists, not_found, conflict, invalid)."""
    record = command.secret
    before = turn.state.secrets.get(record.key)
    _check(record, before, command.create)
    return _put(turn, record, before, revised(record, before, command.expected, f"secret {record.key}", turn.now))


def delete_config_map(turn: TurnContext, command: requests.DeleteConfigMap) -> dict[str, Any]:
    """Removes a configmap. Raises Refused (not_found), RecordUnreadable."""
    return _delete(turn, turn.state.config_maps.get(object_key(command.namespace, command.name)), "configmap", command)


def delete_secret(turn: TurnContext, command: requests.DeleteSecret) -> dict[str, Any]:
    """Removes a secret. Raises Refused (not_found), RecordUnreadable."""
    return _delete(turn, turn.state.secrets.get(object_key(command.namespace, command.name)), "secret", command)


def _check(record: ConfigMap | Secret, before: ConfigMap | Secret | None, create: bool | None) -> None:
    if create is True and before is not None:
        raise Refused("exists", f"{record.kind} {record.key} exists already", "$.metadata.name")
    if create is False and before is None:
        raise Refused("not_found", f"{record.kind} {record.key} does not exist", "$.metadata.name")
    size = len(msgspec.json.encode(record))
    if size > OBJECT_BYTES:
        raise Refused("invalid", f"{record.kind} {record.key} has {size} bytes, of {OBJECT_BYTES} allowed", "$")


def _put(
    turn: TurnContext, record: ConfigMap | Secret, before: ConfigMap | Secret | None, after: ConfigMap | Secret | None
) -> dict[str, Any]:
    answer = {"namespace": record.namespace, "name": record.name}
    if after is None:
        return {**answer, "unchanged": True}
    old = before.items if before is not None else {}
    differs = [key for key in dict.fromkeys((*old, *after.items)) if old.get(key) != after.items.get(key)]
    turn.uow.put(after)
    created, updated, _ = KEPT[record.kind]
    turn.record_event(record.kind, record.key, created if before is None else updated, f"{len(record.items)} keys")
    return {**answer, "differs": differs}


def _delete(
    turn: TurnContext,
    record: ConfigMap | Secret | None,
    kind: str,
    command: requests.DeleteConfigMap | requests.DeleteSecret,
) -> dict[str, Any]:
    if record is None:
        key = object_key(command.namespace, command.name)
        turn.uow.check_readable(kind, key)
        raise Refused("not_found", f"{kind} {key} does not exist")
    turn.uow.delete(record)
    turn.record_event(kind, record.key, KEPT[kind][2], "running taskgroups keep the values they were launched with")
    return {"namespace": record.namespace, "name": record.name}


HANDLERS: Mapping[type[requests.Request], Callable[[TurnContext, Any], dict[str, Any]]] = {
    requests.PutConfigMap: put_config_map,
    requests.DeleteConfigMap: delete_config_map,
    requests.PutSecret: put_secret,
    requests.DeleteSecret: delete_secret,
}
