"""Requests about configmaps and secrets. Messages name the size of their content and never the content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.requests import stored_objects
from bcs_scheduler.core.requests.answers import Data, Handlers
from store.ids import object_key
from store.records import ConfigMap, Secret
from transactions.base import Refused

OBJECT_BYTES = 300_000
"""Largest configmap or secret: it must fit the smallest record limit of the stores with room for others beside it."""
R = TypeVar("R", ConfigMap, Secret)


def put_config_map(turn: TurnContext, command: requests.PutConfigMap) -> Data:
    """Creates or replaces a configmap. Raises Refused (exists, not_found, conflict, invalid)."""
    return _put(turn, command.config_map, turn.state.config_maps.get(command.config_map.key), command)


def put_secret(turn: TurnContext, command: requests.PutSecret) -> Data:
    """Creates or replaces a secret. Raises Refused (exists, not_found, conflict, invalid)."""
    return _put(turn, command.secret, turn.state.secrets.get(command.secret.key), command)


def delete_config_map(turn: TurnContext, command: requests.DeleteConfigMap) -> Data:
    """Removes a configmap. Raises Refused (not_found), RecordUnreadable."""
    return _delete(turn, turn.state.config_maps.get(object_key(command.namespace, command.name)), "configmap", command)


def delete_secret(turn: TurnContext, command: requests.DeleteSecret) -> Data:
    """Removes a secret. Raises Refused (not_found), RecordUnreadable."""
    return _delete(turn, turn.state.secrets.get(object_key(command.namespace, command.name)), "secret", command)


def _put(turn: TurnContext, record: R, before: R | None, command: requests.Put) -> Data:
    shown = f"{record.kind} {record.key}"
    stored_objects.check_existence(shown, before is not None, command.create)
    stored_objects.check_size(shown, record, OBJECT_BYTES)
    answer = {"namespace": record.namespace, "name": record.name}
    if stored_objects.put(turn, record, before, command.expected, shown, f"{len(record.items)} keys") is None:
        return {**answer, "unchanged": True}
    old: Mapping[str, object] = before.items if before is not None else {}
    differs = [key for key in dict.fromkeys((*old, *record.items)) if old.get(key) != record.items.get(key)]
    return {**answer, "differs": differs}


def _delete(
    turn: TurnContext,
    record: ConfigMap | Secret | None,
    kind: str,
    command: requests.DeleteConfigMap | requests.DeleteSecret,
) -> Data:
    if record is None:
        key = object_key(command.namespace, command.name)
        turn.uow.check_readable(kind, key)
        raise Refused("not_found", f"{kind} {key} does not exist")
    stored_objects.delete(turn, record, "running taskgroups keep the values they were launched with")
    return {"namespace": record.namespace, "name": record.name}


HANDLERS: Handlers = {
    requests.PutConfigMap: put_config_map,
    requests.DeleteConfigMap: delete_config_map,
    requests.PutSecret: put_secret,
    requests.DeleteSecret: delete_secret,
}
