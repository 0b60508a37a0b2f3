"""Requests about namespaces: their settings, quotas (see bcs_scheduler.core.quotas) and queues."""

from __future__ import annotations

from collections.abc import Mapping

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.requests import stored_objects
from bcs_scheduler.core.requests.answers import Data, Handlers
from bcs_scheduler.core.requests.concurrency import revised
from bcs_scheduler.core.requests.kinds import trees
from offers.dimensions import recorded
from store.records import DEFAULT_QUEUE, Namespace, Queue
from store.state.reader import StateReader
from transactions.base import Refused
from transactions.rules import priority_limits, quota_usage
from transactions.text import counted

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
"""Kinds of records that keep a namespace from being deleted, with their names in messages."""
NAMED = 3
"""Number of namespaces that a message names, the first ones."""


def put_namespace(turn: TurnContext, command: requests.PutNamespace) -> Data:
    """Stores the settings of a namespace. A quota below the present usage is accepted: it only stops growth. Raises
    Refused (exists, not_found, conflict; invalid for a queue that does not exist)."""
    wanted = command.namespace
    before = turn.state.namespaces.get(wanted.key)
    if command.create is True and before is not None:
        raise Refused("exists", f"namespace {wanted.name} has settings already", "$.metadata.name")
    if command.create is False and before is None:
        raise Refused("not_found", f"namespace {wanted.name} has no settings", "$.metadata.name")
    if wanted.queue and wanted.queue not in turn.state.queues and not trees.has_queue(turn, wanted.queue):
        raise Refused("invalid", f"queue {wanted.queue} does not exist", "$.spec.queue")
    shown = f"namespace {wanted.name}"
    if stored_objects.put(turn, wanted, before, command.expected, shown, _words(wanted)) is None:
        return {"name": wanted.name, "unchanged": True}
    kept = _kept(turn, wanted.name)
    return {"name": wanted.name, **({"warnings": kept} if kept else {})}


def delete_namespace(turn: TurnContext, command: requests.DeleteNamespace) -> Data:
    """Removes the settings of a namespace. Raises Refused (not_found; conflict while objects are in the namespace)."""
    record = turn.state.namespaces.get(command.name)
    if record is None:
        raise Refused("not_found", f"namespace {command.name} has no settings")
    held = contents(turn.state, command.name).get(command.name, {})
    if held:
        listed = ", ".join(f"{count} {kind}" for kind, count in held.items())
        raise Refused("conflict", f"namespace {command.name} is not empty: {listed}")
    stored_objects.delete(turn, record)
    return {"name": command.name}


def put_queue(turn: TurnContext, command: requests.PutQueue) -> Data:
    """Stores the settings of a queue; the next session decides by them. The default queue exists without a record.
    Raises Refused (exists, not_found, conflict)."""
    wanted = command.queue
    before = turn.state.queues.get(wanted.key)
    exists = before is not None or wanted.name == DEFAULT_QUEUE
    stored_objects.check_existence(f"queue {wanted.name}", exists, command.create)
    record = revised(wanted, before, command.expected, f"queue {wanted.name}", turn.now)
    if record is None:
        return {"name": wanted.name, "unchanged": True}
    turn.uow.put(record)
    turn.record_event("queue", record.key, "QueueUpdated" if exists else "QueueCreated", _settings(record))
    return {"name": wanted.name}


def delete_queue(turn: TurnContext, command: requests.DeleteQueue) -> Data:
    """Removes a queue. Raises Refused (not_found; conflict for the default queue and while namespaces belong to the
    queue)."""
    if command.name == DEFAULT_QUEUE:
        raise Refused("conflict", f"queue {command.name} cannot be deleted: it has all namespaces without a queue")
    record = turn.state.queues.get(command.name)
    if record is None:
        raise Refused("not_found", f"queue {command.name} does not exist")
    names = list(turn.state.indexes.namespaces_of(command.name))
    if names:
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        listed = f"{', '.join(names[:NAMED])}{more}"
        raise Refused("conflict", f"queue {command.name} has {counted(len(names), 'namespace')}: {listed}")
    stored_objects.delete(turn, record)
    return {"name": command.name}


def contents(state: StateReader, only: str | None = None) -> dict[str, dict[str, int]]:
    """Number of objects by namespace and kind, without empty namespaces; `only`: one namespace, None = all. Any thread
    may call."""
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


def _kept(turn: TurnContext, namespace: str) -> list[str]:
    """A warning that names the work with more priority than the namespace allows; empty if there is none."""
    most = priority_limits.greatest(turn.state, namespace, turn.options.max_priority)
    found = list(priority_limits.excesses(turn.state, namespace, turn.options.max_priority))
    if not found:
        return []
    more = f", and {len(found) - NAMED} more" if len(found) > NAMED else ""
    listed = ", ".join(map(priority_limits.shown, found[:NAMED]))
    return [f"the greatest priority of namespace {namespace} is {most}; work with more is kept: {listed}{more}"]


def _words(record: Namespace) -> str:
    bounds = []
    for name, bound in quota_usage.bounds(record.quota):
        if bound is not None:
            bounds.append(f"{name} {quota_usage.displayed(name, bound):.12g}")
    parts = [f"quota {', '.join(bounds)}" if bounds else "no quota"]
    if record.queue:
        parts.append(f"queue {record.queue}")
    if record.max_priority is not None:
        parts.append(f"greatest priority {record.max_priority}")
    if record.priority_classes:
        parts.append(f"priority classes {', '.join(record.priority_classes)}")
    return "; ".join(parts)


def _settings(record: Queue) -> str:
    parts = [f"weight {record.weight}"]
    for title, given in (("guarantee", record.guaranteed), ("capability", record.limits)):
        shown = [f"{name} {recorded(name).displayed(amount):.12g}" for name, amount in sorted(given.items())]
        if shown:
            parts.append(f"{title} {', '.join(shown)}")
    parts.append("reclaimable" if record.reclaimable else "not reclaimable")
    if record.priority:
        parts.append(f"priority {record.priority}")
    if record.max_priority is not None:
        parts.append(f"greatest priority {record.max_priority}")
    return "; ".join(parts)


HANDLERS: Handlers = {
    requests.PutNamespace: put_namespace,
    requests.DeleteNamespace: delete_namespace,
    requests.PutQueue: put_queue,
    requests.DeleteQueue: delete_queue,
}
