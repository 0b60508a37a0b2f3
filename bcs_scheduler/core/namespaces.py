"""Commands about namespaces: their settings and quotas. What a quota bounds: bcs_scheduler.core.quotas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bcs_scheduler.core import events, orders
from bcs_scheduler.core.concurrency import revised
from bcs_scheduler.core.desk import Desk
from store.records import Namespace
from store.state import State
from transactions import wants
from transactions.base import Refused

TITLES: Mapping[str, str] = {
    "application": "applications",
    "deployment": "deployments",
    "daemonset": "daemonsets",
    "service": "services",
    "configmap": "configmaps",
    "secret": "secrets",
    "webhook": "webhooks",
    "customobject": "custom objects",
}
"""Kinds of records that keep a namespace from being deleted, with what they are called in messages."""


def put_namespace(desk: Desk, command: orders.PutNamespace) -> dict[str, Any]:
    """A quota below what is wanted already is taken: it only stops growth."""
    wanted = command.namespace
    before = desk.state.namespaces.get(wanted.key)
    if command.create is True and before is not None:
        raise Refused("exists", f"namespace {wanted.name} has settings already", "$.metadata.name")
    if command.create is False and before is None:
        raise Refused("not_found", f"namespace {wanted.name} has no settings", "$.metadata.name")
    record = revised(wanted, before, command.expected, f"namespace {wanted.name}", desk.now)
    if record is None:
        return {"name": wanted.name, "unchanged": True}
    desk.uow.put(record)
    desk.tell("namespace", record.key, "created" if before is None else "updated", _words(record))
    return {"name": wanted.name}


def delete_namespace(desk: Desk, command: orders.DeleteNamespace) -> dict[str, Any]:
    record = desk.state.namespaces.get(command.name)
    if record is None:
        raise Refused("not_found", f"namespace {command.name} has no settings")
    held = contents(desk.state, command.name).get(command.name, {})
    if held:
        listed = ", ".join(f"{count} {kind}" for kind, count in held.items())
        raise Refused("conflict", f"namespace {command.name} is not empty: {listed}")
    desk.uow.delete(record)
    desk.tell("namespace", record.key, "deleted", "")
    return {"name": command.name}


def contents(state: State, only: str | None = None) -> dict[str, dict[str, int]]:
    """How many objects of which kind are in each namespace that has any (any thread); `only`: one namespace."""
    sizes = (
        state.indexes.sizes()
        if only is None
        else {(kind, only): len(state.indexes.keys_in(kind, only)) for kind in TITLES}
    )
    found: dict[str, dict[str, int]] = {}
    for kind, title in TITLES.items():
        for (held, namespace), count in sizes.items():
            if held == kind and count:
                found.setdefault(namespace, {})[title] = count
    return found


def _words(record: Namespace) -> str:
    bounds = []
    for name, bound in wants.bounds(record.quota):
        if bound is not None:
            bounds.append(f"{name} {bound if name == 'taskgroups' else bound / 1000:.12g}")
    return f"quota {', '.join(bounds)}" if bounds else "no quota"


HANDLERS: Mapping[type[events.Command], Callable[[Desk, Any], dict[str, Any]]] = {
    orders.PutNamespace: put_namespace,
    orders.DeleteNamespace: delete_namespace,
}
