"""Indexes of the state by contents of records: their namespace, labels and application, the names of agents, the
drained agent of a move.

The time of an answer does not depend on the objects outside the answer. Indexes are derived; State keeps them up to
date with every change, undone changes included. Any thread may read them, with a copy of the container before an
iteration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TypeVar

from store.ids import namespace_of, object_key
from store.records import (
    Application,
    ConfigMap,
    CustomKind,
    CustomObject,
    Daemonset,
    Deployment,
    FailedOutput,
    ManagedApplication,
    ManagedTask,
    Namespace,
    Placeholder,
    PodGroup,
    PriorityClass,
    Record,
    ReschedulePayload,
    Secret,
    Service,
    TaskGroup,
    Transaction,
    Webhook,
)

Key = str
K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R", bound=Record)
NAMESPACED = (
    Application, Deployment, Daemonset, Service, ConfigMap, Secret, Webhook, CustomObject, PodGroup, ManagedApplication,
)  # fmt: skip
"""Types of the records that are indexed by their namespace."""
_NOTHING: Mapping[Key, None] = {}


class Indexes:
    """The indexes of one State. State calls `changed` for every record that is put or removed, except for transactions,
    of which it calls `transaction_changed`, and taskgroups: it calls `taskgroup_changed` for every change of one that
    concerns an index."""

    def __init__(self) -> None:
        self._members: dict[tuple[str, str], dict[Key, None]] = {}
        self._labelled: dict[tuple[str, str, str], dict[Key, None]] = {}
        self._owned: dict[tuple[str, str], dict[Key, None]] = {}
        self._objects: Counter[str] = Counter()
        self._kinds: dict[str, dict[Key, None]] = {}
        self._outputs: dict[tuple[str, Key], dict[Key, None]] = {}
        self._queued: dict[str, dict[Key, None]] = {}
        self._grouped: dict[Key, dict[Key, None]] = {}
        self._managed: dict[tuple[str, Key], dict[Key, None]] = {}
        self._default_classes: dict[Key, None] = {}
        self._agents: dict[str, dict[str, int]] = {}
        """Taskgroups by name of their agent and its id."""
        self._drained: dict[str, dict[Key, None]] = {}

    # --- reading ----------------------------------------------------------------------------------------------

    def keys_in(self, kind: str, namespace: str) -> Mapping[Key, None]:
        """Keys of the records of a kind (one of NAMESPACED) in a namespace, in the order of their creation."""
        return self._members.get((kind, namespace), _NOTHING)

    def sizes(self) -> dict[tuple[str, str], int]:
        """Number of records by (kind, namespace), without zeros."""
        return {place: len(keys) for place, keys in list(self._members.items())}

    def applications_labelled(self, namespace: str, name: str, value: str) -> Mapping[Key, None]:
        """Keys of the applications of a namespace that have this label."""
        return self._labelled.get((namespace, name, value), _NOTHING)

    def applications_owned(self, namespace: str, name: str) -> Mapping[Key, None]:
        """Keys of the applications that belong to the deployment (or daemonset) of this name."""
        return self._owned.get((namespace, name), _NOTHING)

    def outputs_of(self, application: Key) -> Mapping[Key, None]:
        """Ids of the tasks of an application (``namespace/name``) whose last output is kept."""
        return self._outputs.get(("application", application), _NOTHING)

    def outputs_of_deployment(self, deployment: Key) -> Mapping[Key, None]:
        """Ids of the tasks of a deployment (``namespace/name``) whose last output is kept."""
        return self._outputs.get(("deployment", deployment), _NOTHING)

    def objects_of(self, custom_kind: str) -> int:
        """Number of custom objects of a custom kind."""
        return self._objects.get(custom_kind, 0)

    def custom_kinds_like(self, name: str) -> list[Key]:
        """Custom kinds whose names are the same in lower case."""
        return list(self._kinds.get(name.lower(), _NOTHING))

    def namespaces_of(self, queue: str) -> Mapping[Key, None]:
        """Names of the namespaces with this value in the field `queue`."""
        return self._queued.get(queue, _NOTHING)

    def applications_in(self, group: Key) -> Mapping[Key, None]:
        """Keys of the applications that name this group (``namespace/name``)."""
        return self._grouped.get(group, _NOTHING)

    def managed_by(self, kind: str, application: Key) -> Mapping[Key, None]:
        """Keys of the tasks (kind managedtask) or placeholders (kind placeholder) of a managed application."""
        return self._managed.get((kind, application), _NOTHING)

    def default_priority_classes(self) -> list[Key]:
        """Names of the priority classes that are the default: one at most."""
        return list(self._default_classes)

    def agents_called(self, name: str) -> list[str]:
        """Ids of the agents that hold taskgroups and that these know by this host name or address."""
        return list(self._agents.get(name, ()))

    def drained_from(self, agent: str) -> Mapping[Key, None]:
        """Ids of the remembered transactions that move taskgroups away from an agent that is being drained. `agent`:
        key of its settings."""
        return self._drained.get(agent, _NOTHING)

    # --- changing ---------------------------------------------------------------------------------------------

    def changed(self, kind: str, key: Key, before: Record | None, after: Record | None) -> None:
        """Follows one changed record; `before` None: the record is new, `after` None: it was removed."""
        known, there = after if after is not None else before, after is not None
        if (before is None) != (after is None):
            if isinstance(known, NAMESPACED):
                _toggle(self._members, (kind, known.namespace), key, there=there)
            if isinstance(known, CustomKind):
                _toggle(self._kinds, key.lower(), key, there=there)
            elif isinstance(known, ManagedTask | Placeholder):
                _toggle(self._managed, (kind, known.application_key), key, there=there)
            elif isinstance(known, CustomObject):
                self._count_object(known, 1 if there else -1)
        if isinstance(known, Application):
            self._application_changed(key, _as(Application, before), _as(Application, after))
        elif isinstance(known, FailedOutput):
            application = "application", object_key(known.namespace, known.application)
            for place in dict.fromkeys((application, known.owner)):
                _toggle(self._outputs, place, key, there=there)
        elif isinstance(known, Namespace):
            old, new = _as(Namespace, before), _as(Namespace, after)
            _move(self._queued, key, old.queue if old is not None else "", new.queue if new is not None else "")
        elif isinstance(known, PriorityClass):
            if there and known.global_default:
                self._default_classes[key] = None
            else:
                self._default_classes.pop(key, None)

    def _application_changed(self, key: Key, before: Application | None, after: Application | None) -> None:
        self._relabel(key, before, after)
        self._own(key, before, after)
        _move(self._grouped, key, before.group if before is not None else "", after.group if after is not None else "")

    def taskgroup_changed(self, before: TaskGroup | None, after: TaskGroup | None) -> None:
        """Follows a taskgroup that was added (`before` None), was removed (`after` None), or is on another agent
        now."""
        if before is not None:
            self._count_agent(before.hostname, before.agent_id, -1)
            if before.agent_ip != before.hostname:
                self._count_agent(before.agent_ip, before.agent_id, -1)
        if after is not None:
            self._count_agent(after.hostname, after.agent_id, 1)
            if after.agent_ip != after.hostname:
                self._count_agent(after.agent_ip, after.agent_id, 1)

    def transaction_changed(self, key: Key, before: Transaction | None, after: Transaction | None) -> None:
        """Follows a transaction that was added (`before` None), was removed (`after` None), or has changed."""
        _move(self._drained, key, _drained_by(before), _drained_by(after))

    def _count_agent(self, name: str, agent_id: str, step: int) -> None:
        counts = self._agents.get(name)
        if counts is None:
            counts = self._agents[name] = {}
        count = counts.get(agent_id, 0) + step
        if count:
            counts[agent_id] = count
        else:
            del counts[agent_id]
            if not counts:
                del self._agents[name]

    def _relabel(self, key: Key, before: Application | None, after: Application | None) -> None:
        old = before.labels if before is not None else {}
        new = after.labels if after is not None else {}
        if old == new:
            return
        namespace = namespace_of(key)
        for name, value in old.items():
            _toggle(self._labelled, (namespace, name, value), key, there=False)
        for name, value in new.items():
            _toggle(self._labelled, (namespace, name, value), key, there=True)

    def _own(self, key: Key, before: Application | None, after: Application | None) -> None:
        old = before.deployment if before is not None else ""
        new = after.deployment if after is not None else ""
        if old == new:
            return
        namespace = namespace_of(key)
        if old:
            _toggle(self._owned, (namespace, old), key, there=False)
        if new:
            _toggle(self._owned, (namespace, new), key, there=True)

    def _count_object(self, custom: CustomObject, step: int) -> None:
        self._objects[custom.type] += step
        if not self._objects[custom.type]:
            del self._objects[custom.type]


def _as(kind: type[R], record: Record | None) -> R | None:
    return record if isinstance(record, kind) else None


def _drained_by(transaction: Transaction | None) -> str:
    payload = transaction.payload if transaction is not None else None
    return payload.drained if isinstance(payload, ReschedulePayload) else ""


def _move(index: dict[str, dict[Key, None]], key: Key, before: str, after: str) -> None:
    """Moves a key from one place to another; empty = no place."""
    if before != after:
        if before:
            _toggle(index, before, key, there=False)
        if after:
            _toggle(index, after, key, there=True)


def _toggle(index: dict[K, dict[Key, None]], place: K, key: Key, *, there: bool) -> None:
    """Enters a key under a place of the index, or takes it out."""
    if there:
        index.setdefault(place, {})[key] = None
        return
    members = index.get(place)
    if members is not None:
        members.pop(key, None)
        if not members:
            del index[place]


def put(table: dict[Key, R], key: Key, record: R | None) -> None:
    """Puts a record into a table; None removes the record of the key."""
    if record is None:
        table.pop(key, None)
    else:
        table[key] = record


def discard(index: dict[str, dict[str, V]], outer: str, inner: str) -> None:
    """Removes the entry `inner` of `outer` from a nested index, and `outer` with its last entry. Missing ones are
    ignored."""
    members = index.get(outer)
    if members is not None:
        members.pop(inner, None)
        if not members:
            del index[outer]
