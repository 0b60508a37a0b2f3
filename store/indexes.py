"""Indexes of the state by what records say: their namespace, their labels, the names of agents.

Each answers in a time that does not depend on the objects that are not asked for. They are derived, kept up to date by
State with every change, also by one that is undone, and may be read by any thread that copies what it walks over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from store.ids import namespace_of
from store.records import Application, CustomObject, TaskGroup

Key = str
NAMESPACED = frozenset(
    {"application", "deployment", "daemonset", "service", "configmap", "secret", "webhook", "customobject"}
)
"""Kinds whose records are indexed by their namespace."""
_NOTHING: Mapping[Any, None] = {}


class Indexes:
    """`changed` is called by State for every record that is put or removed, `taskgroup_changed` for taskgroups."""

    def __init__(self) -> None:
        self._members: dict[tuple[str, str], dict[Key, None]] = {}
        self._labelled: dict[tuple[str, str, str], dict[Key, None]] = {}
        self._owned: dict[tuple[str, str], dict[Key, None]] = {}
        self._objects: Counter[str] = Counter()
        self._kinds: dict[str, dict[Key, None]] = {}
        self._agents: dict[str, Counter[str]] = {}

    # --- reading ----------------------------------------------------------------------------------------------

    def keys_in(self, kind: str, namespace: str) -> Mapping[Key, None]:
        """Keys of the records of a kind (one of NAMESPACED) in a namespace, in the order of their creation."""
        return self._members.get((kind, namespace), _NOTHING)

    def sizes(self) -> dict[tuple[str, str], int]:
        """How many records there are by kind and namespace, where there are any."""
        return {place: len(keys) for place, keys in list(self._members.items())}

    def applications_labelled(self, namespace: str, name: str, value: str) -> Mapping[Key, None]:
        """Keys of the applications of a namespace that have this label."""
        return self._labelled.get((namespace, name, value), _NOTHING)

    def applications_owned(self, namespace: str, name: str) -> Mapping[Key, None]:
        """Keys of the applications that belong to the deployment (or daemonset) of this name."""
        return self._owned.get((namespace, name), _NOTHING)

    def objects_of(self, custom_kind: str) -> int:
        """Number of custom objects of a custom kind."""
        return self._objects.get(custom_kind, 0)

    def custom_kinds_like(self, name: str) -> list[Key]:
        """Custom kinds whose names are the same in lower case."""
        return list(self._kinds.get(name.lower(), _NOTHING))

    def agents_called(self, name: str) -> list[str]:
        """Ids of the agents that hold taskgroups and that these know by this host name or address."""
        return list(self._agents.get(name, ()))

    # --- changing ---------------------------------------------------------------------------------------------

    def changed(self, kind: str, key: Key, before: Any, after: Any) -> None:
        if kind in NAMESPACED and (before is None) != (after is None):
            _toggle(self._members, (kind, (after or before).namespace), key, there=after is not None)
        if kind == "application":
            self._relabel(key, before, after)
            self._own(key, before, after)
        elif kind == "customkind" and (before is None) != (after is None):
            _toggle(self._kinds, key.lower(), key, there=after is not None)
        elif kind == "customobject" and (before is None) != (after is None):
            self._count_object(after or before, 1 if after is not None else -1)

    def taskgroup_changed(self, before: TaskGroup | None, after: TaskGroup | None) -> None:
        """To be called when a taskgroup is added or removed, or its agent is another."""
        for group, step in ((before, -1), (after, 1)):
            if group is not None:
                for name in {group.agent_ip, group.hostname}:
                    counts = self._agents.get(name)
                    if counts is None:
                        counts = self._agents[name] = Counter()
                    counts[group.agent_id] += step
                    if not counts[group.agent_id]:
                        del counts[group.agent_id]
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


def _toggle(index: dict[Any, dict[Key, None]], place: Any, key: Key, *, there: bool) -> None:
    """Enters a key under a place of the index, or takes it out."""
    if there:
        index.setdefault(place, {})[key] = None
        return
    members = index.get(place)
    if members is not None:
        members.pop(key, None)
        if not members:
            del index[place]
