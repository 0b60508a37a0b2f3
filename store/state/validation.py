"""True if a state is right in itself: its indexes equal a recount, and records refer to records that exist.

The simulation asks after every turn, the core after every turn with changes if `scheduler.validate` is set.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from store.ids import object_key, part_key
from store.state import State
from store.state.census import Census
from store.state.indexes import Indexes

HISTORY = frozenset({"newest", "latest_of", "kept", "_watchers", "moment"})
"""Attributes of a state that are not derived from its records: high-water marks, unreadable records, watchers."""


def validate(state: State) -> list[str]:
    """Checks all records of the state against each other. Returns one sentence for each fault; empty if there is none.
    The cost grows with the number of all records, some 10 us for each. Call it only while no change is in progress."""
    words = wrong_index(state, State(state.records()))
    return [*([words] if words else []), *dangling(state)]


# --- indexes ------------------------------------------------------------------------------------------------------


def wrong_index(state: State, fresh: State) -> str:
    """Names the first table or index of `state` that differs from that of `fresh`, with both; empty if none does."""
    return _wrong("", vars(state), vars(fresh))


def _wrong(prefix: str, found: dict[str, Any], wanted: dict[str, Any]) -> str:
    for name, value in wanted.items():
        if name in HISTORY or isinstance(value, State):
            continue
        if isinstance(value, Census | Indexes):
            words = _wrong(f"{name}.", vars(found[name]), vars(value))
            if words:
                return words
        elif name != "_state" and found[name] != value:
            return f"{prefix}{name} is {found[name]}, should be {value}"
    return ""


# --- references ---------------------------------------------------------------------------------------------------


def dangling(state: State) -> list[str]:
    """References to records that do not exist. A record that lies in the store and cannot be read exists."""
    return [
        f"{source} refers to {kind} {key}, which does not exist"
        for source, kind, key in _references(state)
        if state.get(kind, key) is None and (kind, key) not in state.unreadable
    ]


Reference = tuple[str, str, str]
"""A reference between records: the referring object for messages, and kind and key of the other record."""


def _references(state: State) -> Iterator[Reference]:
    yield from _of_workloads(state)
    for group in state.taskgroups.values():
        yield f"taskgroup {group.id}", "application", group.application_key
    for output in state.outputs.values():
        yield f"output {output.id}", *output.owner
    for message in state.messages.values():
        yield f"message {message.id}", "command", message.command
    for revision in state.revisions.values():
        yield f"revision {revision.key}", "deployment", revision.deployment_key
    for thing in state.custom_objects.values():
        yield f"custom resource {thing.key}", "customkind", thing.type
    for namespace in state.namespaces.values():
        # Queues of a tree are no records, and a tree may lose the queue that a namespace names.
        if namespace.queue and not state.queue_trees:
            yield f"namespace {namespace.name}", "queue", namespace.queue
    for application in state.applications.values():
        if application.group:
            yield f"application {application.key}", "podgroup", application.group
    for key in state.endpoints:
        yield f"endpoint {key}", "service", key
    for key in state.services:
        yield f"service {key}", "endpoint", key


def _of_workloads(state: State) -> Iterator[Reference]:
    for application in state.applications.values():
        source = f"application {application.key}"
        if application.version:
            yield source, "version", part_key(application.key, application.version)
        if application.status == "Operating":
            yield source, "transaction", application.operation
        if application.owner is not None:
            yield source, *application.owner
    for daemonset in state.daemonsets.values():
        yield f"daemonset {daemonset.key}", "application", daemonset.key
    for deployment in state.deployments.values():
        for name in deployment.sides:
            if deployment.status != "Deleting":
                yield f"deployment {deployment.key}", "application", object_key(deployment.namespace, name)
