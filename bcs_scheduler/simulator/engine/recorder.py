"""The figures of a run: waiting times, use and evictions, in total and per group of namespaces.

A group is the queue that a namespace names, else the namespace itself, so that runs with different policies compare.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from bcs_scheduler.simulator.scenario.model import Create
from store.records import TaskGroup
from transactions.base import Overhead
from transactions.resources.resource_request import total

KEPT_WANTED = ("", "TaskEnded", "Evicted", "Rescheduled", "Drained", "Misplaced")
"""Causes of ends after which a taskgroup that has not finished is launched again."""


@dataclass(eq=False, slots=True)
class Group:
    """Waiting times in seconds, core seconds, and numbers of taskgroups."""

    waits: list[float] = field(default_factory=list)
    launched: int = 0
    finished: int = 0
    evicted: int = 0
    used: float = 0.0
    """Core seconds that taskgroups held."""
    wanted: float = 0.0
    """Core seconds that taskgroups held or waited for."""


class Sample(NamedTuple):
    """One moment. `at`: seconds from the start; `cpus`, `mem`: parts of the cluster that taskgroups hold; `waiting`:
    taskgroups; `fragmented`: part of the free cores on agents that cannot take the largest taskgroup."""

    at: float
    cpus: float
    mem: float
    waiting: int
    fragmented: float


class _Running(NamedTuple):
    slot: tuple[str, int]
    group: str
    cpus: int
    mem: int
    since: float


class Recorder:
    """Figures from the creations of users and the changes of records."""

    def __init__(self, groups: dict[str, str], overhead: Overhead) -> None:
        """`groups`: group by namespace; others are groups of their own."""
        self._groups, self._overhead = groups, overhead
        self.groups: dict[str, Group] = {}
        self.samples: list[Sample] = []
        self.cpus = self.mem = 0
        """Thousandths that taskgroups hold now."""
        self._running: dict[str, _Running] = {}
        self._waiting: dict[tuple[str, int], tuple[float, str, int]] = {}
        """Since when, group and thousandths of a core, by application key and index."""

    @property
    def waiting(self) -> int:
        """Taskgroups that wait for a place."""
        return len(self._waiting)

    def adopt(self, group: TaskGroup, now: float) -> None:
        """A taskgroup that runs at the start."""
        self._hold(group, now)

    def created(self, creation: Create, now: float) -> None:
        """The taskgroups of an application wait from now on."""
        version = creation.version
        name, cpus = self._group_of(version.namespace), total(version, self._overhead).cpus
        for index in range(version.instances):
            self._waiting[version.application_key, index] = (now, name, cpus)

    def changed(self, key: str, record: TaskGroup | None, now: float) -> None:
        """A record of a taskgroup has changed, or was removed (None)."""
        known = self._running.get(key)
        if record is None or record.ended:
            if known is not None:
                self._ended(key, known, record, now)
        elif known is None:
            waited = self._waiting.pop((record.application_key, record.index), None)
            found = self._hold(record, now)
            found.launched += 1
            if waited is not None:
                found.waits.append(now - waited[0])
                found.wanted += (now - waited[0]) * waited[2] / 1000

    def close(self, now: float) -> None:
        """The end of the run: taskgroups that run or wait count until now."""
        for known in self._running.values():
            self._count(known, now)
        for since, name, cpus in self._waiting.values():
            self._of(name).wanted += (now - since) * cpus / 1000

    def unplaced(self, name: str) -> int:
        """Taskgroups of a group that wait for a place."""
        return sum(1 for _, group, _ in self._waiting.values() if group == name)

    def _hold(self, record: TaskGroup, now: float) -> Group:
        name, amounts = self._group_of(record.namespace), record.resources
        slot = (record.application_key, record.index)
        self._running[record.id] = _Running(slot, name, amounts.cpus, amounts.mem, now)
        self.cpus += amounts.cpus
        self.mem += amounts.mem
        return self._of(name)

    def _ended(self, key: str, known: _Running, record: TaskGroup | None, now: float) -> None:
        del self._running[key]
        self.cpus -= known.cpus
        self.mem -= known.mem
        self._count(known, now)
        found = self._of(known.group)
        if record is None:
            return
        if record.end_cause == "Evicted":
            found.evicted += 1
        if record.status == "Finish":
            found.finished += 1
        elif record.end_cause in KEPT_WANTED:
            self._waiting[known.slot] = (now, known.group, known.cpus)

    def _count(self, known: _Running, now: float) -> None:
        found, core_seconds = self._of(known.group), (now - known.since) * known.cpus / 1000
        found.used += core_seconds
        found.wanted += core_seconds

    def _group_of(self, namespace: str) -> str:
        return self._groups.get(namespace, namespace)

    def _of(self, name: str) -> Group:
        return self.groups.setdefault(name, Group())
