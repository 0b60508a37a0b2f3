"""Counts and sums of live taskgroups for constraints and queues, kept beside the records they follow from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TypeVar

from store.ids import namespace_of
from store.records import TaskGroup, Version
from store.records.definition import Amounts, AttributeValue

Key = str
K = TypeVar("K")
TASKGROUPS = "taskgroups"
_NONE: Mapping[str, int] = Counter()
RESOURCES = Amounts.__struct_fields__
"""Resources of which the sums are kept, beside extended ones."""
EXTENDED = "extended resource "
"""Begins the names of extended resources among those of other resources."""


class Census:
    """Counts of live taskgroups that constraints ask for (offers.model.Census), kept up to date incrementally.

    A taskgroup is live until it is certain that no task of it runs; one on an unreachable agent still counts.
    """

    def __init__(
        self, groups: Mapping[Key, Mapping[str, TaskGroup]], versions: Mapping[Key, Mapping[str, Version]]
    ) -> None:
        """`groups`, `versions`: those of every application, kept up to date by the state. The census holds no reference
        to the state itself: a reference cycle would keep 100,000s of records in memory until the garbage collector
        finds them."""
        self._groups, self._versions = groups, versions
        self._values: dict[tuple[Key, str], Counter[str | float]] = {}
        self._totals: Counter[Key] = Counter()
        self._extended: Counter[tuple[str, str]] = Counter()
        self._held: dict[tuple[str, str], Counter[str]] = {}
        """Amounts by namespace and role."""
        self._evicted: dict[Key, Counter[str]] = {}
        """Evicted taskgroups that are to get another place, by application and status."""
        self._labelled: dict[str, dict[str, Counter[Key]]] = {}
        """Versions with a label, by label, namespace and application."""

    def attribute_counts(self, application: str, attribute: str) -> Mapping[str | float, int]:
        """Taskgroups of the application that have not ended, by the value that the attribute has on their agent."""
        return self._values.get((application, attribute), Counter())

    def total(self, application: str) -> int:
        """Number of taskgroups of the application that have not ended."""
        return self._totals[application]

    def agents_with_label(self, pair: str, except_application: str) -> Mapping[str, int]:
        """Taskgroups by agent id that carry the label ``key:value`` and have not ended; those of `except_application`
        do not count."""
        found: Counter[str] = Counter()
        for app in self._applications_with(pair):
            if app == except_application:
                continue
            versions = self._versions.get(app, {})
            for group in self._groups.get(app, {}).values():
                version = versions.get(group.version)
                if not group.ended and version is not None and pair in _pairs(version):
                    found[group.agent_id] += 1
        return found

    def applications_with(self, namespace: str, name: str, value: str) -> list[Key]:
        """Applications of a namespace of which a version has this label."""
        return list(self._labelled.get(f"{name}:{value}", {}).get(namespace, ()))

    def _applications_with(self, pair: str) -> list[Key]:
        return [app for counts in self._labelled.get(pair, {}).values() for app in counts]

    def extended_used(self, agent_id: str, name: str) -> int:
        """Thousandths of the extended resource that taskgroups on the agent hold."""
        return self._extended[agent_id, name]

    def held(self) -> dict[tuple[str, str], dict[str, int]]:
        """Resources of the taskgroups that have not ended, by namespace and role: thousandths by resource (extended
        ones: `EXTENDED` and the name), and their number under `TASKGROUPS`. Costs with the number of namespaces; any
        thread may call."""
        return {owner: dict(amounts) for owner, amounts in list(self._held.items())}

    def evicted(self, application: str) -> Mapping[str, int]:
        """Number of evicted taskgroups of the application by status, from the eviction until they are replaced."""
        return self._evicted.get(application, _NONE)

    def evictions_changed(self, before: TaskGroup | None, after: TaskGroup | None) -> None:
        """Counts a changed taskgroup like `taskgroup_changed`; unlike there, every change is to be given."""
        for group, step in ((before, -1), (after, +1)):
            if group is not None and group.end_cause == "Evicted" and not group.held:
                counts = self._evicted.setdefault(group.application_key, Counter())
                add(counts, group.status, step)
                if not counts:
                    del self._evicted[group.application_key]

    def taskgroup_changed(self, before: TaskGroup | None, after: TaskGroup | None) -> None:
        """Counts a changed taskgroup; `before` None: the record is new, `after` None: it was removed."""
        was = before is not None and not before.ended
        now = after is not None and not after.ended
        if was and now and before is not None and after is not None and before.agent_id == after.agent_id:
            return
        if was and before is not None:
            self._count(before, -1)
        if now and after is not None:
            self._count(after, +1)

    def version_changed(self, app: Key, before: Version | None, after: Version | None) -> None:
        """Counts the labels of a changed version; `before` None: the record is new, `after` None: it was removed."""
        for version, step in ((before, -1), (after, +1)):
            for pair in _pairs(version) if version is not None else ():
                spaces = self._labelled.setdefault(pair, {})
                counts = spaces.setdefault(namespace_of(app), Counter())
                add(counts, app, step)
                if not counts:
                    del spaces[namespace_of(app)]
                if not spaces:
                    del self._labelled[pair]

    def _count(self, group: TaskGroup, step: int) -> None:
        app = group.application_key
        add(self._totals, app, step)
        for name, amount in group.extended.items():
            add(self._extended, (group.agent_id, name), step * amount)
        self._count_held(group, step)
        self._count_value(app, "hostname", group.hostname, step)
        for name, value in group.attributes.items():
            if name != "hostname":
                self._count_value(app, name, _plain(value), step)

    def _count_held(self, group: TaskGroup, step: int) -> None:
        owner = (group.namespace, group.role)
        held = self._held.get(owner)
        if held is None:
            held = self._held[owner] = Counter()
        add(held, TASKGROUPS, step)
        for name in RESOURCES:
            amount = getattr(group.resources, name)
            if amount:
                add(held, name, step * amount)
        for name, amount in group.extended.items():
            add(held, EXTENDED + name, step * amount)
        if not held:
            del self._held[owner]

    def _count_value(self, app: Key, name: str, value: str | float, step: int) -> None:
        counts = self._values.get((app, name))
        if counts is None:
            counts = self._values[app, name] = Counter()
        add(counts, value, step)
        if not counts:
            del self._values[app, name]


def _plain(value: AttributeValue) -> str | float:
    return value.text if value.number is None else value.number


def _pairs(version: Version) -> list[str]:
    return [f"{k}:{v}" for k, v in version.labels.items()]


def add(counts: Counter[K], key: K, step: int) -> None:
    """Adds `step` to a count and removes the key at zero, so that counters that are equal hold equal keys."""
    counts[key] += step
    if not counts[key]:
        del counts[key]
