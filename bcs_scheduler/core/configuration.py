"""Commands about configmaps and secrets. What they hold is never put in words, only how much it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from bcs_scheduler.core import events
from bcs_scheduler.core.concurrency import revised
from bcs_scheduler.core.desk import Desk
from store.records import ConfigMap, Secret
from transactions.base import Refused

OBJECT_BYTES = 300_000
"""Largest configmap or secret: it must fit the smallest record limit of the stores with room for others beside it."""


def put_config_map(desk: Desk, command: events.PutConfigMap) -> dict[str, Any]:
    record = command.config_map
    before = desk.state.config_maps.get(record.key)
    _check(record, before, command.create)
    return _put(desk, record, before, revised(record, before, command.expected, f"configmap {record.key}", desk.now))


def put_secret(desk: Desk, command: events.PutSecret) -> dict[str, Any]:
    record = command.secret
    before = desk.state.secrets.get(record.key)
    _check(record, before, command.create)
    return _put(desk, record, before, revised(record, before, command.expected, f"secret {record.key}", desk.now))


def delete_config_map(desk: Desk, command: events.DeleteConfigMap) -> dict[str, Any]:
    return _delete(desk, desk.state.config_maps.get(f"{command.namespace}/{command.name}"), "configmap", command)


def delete_secret(desk: Desk, command: events.DeleteSecret) -> dict[str, Any]:
    return _delete(desk, desk.state.secrets.get(f"{command.namespace}/{command.name}"), "secret", command)


def _check(record: ConfigMap | Secret, before: ConfigMap | Secret | None, create: bool | None) -> None:
    if create is True and before is not None:
        raise Refused("exists", f"{record.kind} {record.key} exists already", "$.metadata.name")
    if create is False and before is None:
        raise Refused("not_found", f"{record.kind} {record.key} does not exist", "$.metadata.name")
    size = len(msgspec.json.encode(record))
    if size > OBJECT_BYTES:
        raise Refused("invalid", f"{record.kind} {record.key} has {size} bytes, of {OBJECT_BYTES} allowed", "$")


def _put(
    desk: Desk, record: ConfigMap | Secret, before: ConfigMap | Secret | None, after: ConfigMap | Secret | None
) -> dict[str, Any]:
    answer = {"namespace": record.namespace, "name": record.name}
    if after is None:
        return {**answer, "unchanged": True}
    desk.uow.put(after)
    desk.tell(record.kind, record.key, "created" if before is None else "updated", f"{len(record.items)} keys")
    return answer


def _delete(
    desk: Desk,
    record: ConfigMap | Secret | None,
    kind: str,
    command: events.DeleteConfigMap | events.DeleteSecret,
) -> dict[str, Any]:
    if record is None:
        raise Refused("not_found", f"{kind} {command.namespace}/{command.name} does not exist")
    desk.uow.delete(record)
    desk.tell(kind, record.key, "deleted", "what runs keeps what it was launched with")
    return {"namespace": record.namespace, "name": record.name}


HANDLERS: Mapping[type[events.Command], Callable[[Desk, Any], dict[str, Any]]] = {
    events.PutConfigMap: put_config_map,
    events.DeleteConfigMap: delete_config_map,
    events.PutSecret: put_secret,
    events.DeleteSecret: delete_secret,
}
