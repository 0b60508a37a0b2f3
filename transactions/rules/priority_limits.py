"""The greatest priority that new work of a namespace may have, and the priority classes that may exceed it.

The namespace and its queue may each have a greatest priority. The lesser one counts; without both, that of the settings
does. A namespace names the classes that it may use beyond it. The present default class may be used by every namespace,
because an admin chose it for work that asks for no priority. Critical classes protect work from evictions,
so they must be named, with any number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from store.records import CRITICAL_CLASSES, DEFAULT_QUEUE, Application, Version
from store.state.reader import StateReader


class Excess(NamedTuple):
    """An object whose priority its namespace does not allow any more, or has never allowed."""

    kind: str
    """application, deployment or daemonset"""
    key: str
    priority: int
    priority_class: str
    """Empty: the document has the number."""


def greatest(state: StateReader, namespace: str, default: int) -> int:
    """The greatest priority of new work in a namespace. `default`: that of the settings."""
    record = state.namespaces.get(namespace)
    queue = state.queues.get((record.queue if record is not None else "") or DEFAULT_QUEUE)
    own = record.max_priority if record is not None else None
    given = [most for most in (own, queue.max_priority if queue is not None else None) if most is not None]
    return min(given, default=default)


def allows(state: StateReader, version: Version, default: int) -> bool:
    """True if new work of the namespace may have the priority of this version."""
    record = state.namespaces.get(version.namespace)
    named = record is not None and version.priority_class in record.priority_classes
    found = state.priority_classes.get(version.priority_class) if version.priority_from != "document" else None
    if named or (found is not None and found.global_default and found.value >= version.priority):
        return True
    if version.priority_class in CRITICAL_CLASSES:
        return False
    return version.priority <= greatest(state, version.namespace, default)


def keeps(version: Version, present: Iterable[Version]) -> bool:
    """True if one of the definitions that are in force has the same rights already. Work that exceeds the greatest
    priority may be changed in other parts."""
    return any(
        one.priority >= version.priority
        and (version.priority_class not in CRITICAL_CLASSES or one.priority_class == version.priority_class)
        for one in present
    )


def excess_of(state: StateReader, application: Application, default: int) -> Excess | None:
    """The excess of an application by its present definition, in the name of its owner; None: it has none."""
    version = state.version(application.key, application.version)
    if version is None or allows(state, version, default):
        return None
    owner = application.owner
    kind, key = (owner.kind, owner.key) if owner is not None else ("application", application.key)
    return Excess(kind, key, version.priority, version.priority_class)


def excesses(state: StateReader, namespace: str, default: int) -> Iterator[Excess]:
    """All objects of a namespace with more priority than it allows, each once. The cost does not depend on other
    namespaces; any thread may call."""
    seen = set()
    for key in list(state.indexes.keys_in("application", namespace)):
        application = state.applications.get(key)
        found = excess_of(state, application, default) if application is not None else None
        if found is not None and found[:2] not in seen:
            seen.add(found[:2])
            yield found


def shown(found: Excess) -> str:
    """The object and its priority, for users."""
    by_class = f" (class {found.priority_class})" if found.priority_class else ""
    return f"{found.kind} {found.key}: priority {found.priority}{by_class}"
