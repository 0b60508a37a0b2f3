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
    tables: tuple[tuple[str, Mapping[str, Any]], ...] = (
        ("applications", state.applications),
        ("deployments", state.deployments),
        ("daemonsets", state.daemonsets),
        ("services", state.services),
        ("configmaps", state.config_maps),
        ("secrets", state.secrets),
        ("webhooks", state.webhooks),
        ("custom objects", state.custom_objects),
    )
    found: dict[str, dict[str, int]] = {}
    for kind, table in tables:
        for record in list(table.values()):
            if only is None or record.namespace == only:
                counts = found.setdefault(record.namespace, {})
                counts[kind] = counts.get(kind, 0) + 1
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
