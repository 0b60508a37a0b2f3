"""The figures of a run: waiting times, use and evictions, in total and per group of namespaces.

A group is the queue that a namespace names, else the namespace itself, so that runs with different policies compare.

All figures are running sums, which follow the changes of records: a sample looks at no taskgroup.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from store.ids import namespace_of
from store.records import Application, TaskGroup, Version
from transactions.base import Overhead
from transactions.resource_request import total


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
    cpus: int = 0
    mem: int = 0
    """Thousandths that taskgroups hold now."""
    pending: int = 0
    """Taskgroups that wait for a place now."""


class Moment(NamedTuple):
    """One group at one moment. `cpus`, `mem`: parts of the cluster that taskgroups hold; `pending`: taskgroups that
    wait for a place; `waited`: seconds for which the oldest of them has waited; `preempted`: taskgroups since the
    start."""

    cpus: float
    mem: float
    pending: int
    waited: float
    preempted: int


class Sample(NamedTuple):
    """One moment. `at`: seconds from the start; `cpus`, `mem`: parts of the cluster that taskgroups hold; `waiting`:
    taskgroups; `waited`: seconds for which the oldest of them has waited; `fragmented`: part of the free cores on
    agents that cannot take the largest taskgroup; `preempted`: taskgroups since the start."""

    at: float
    cpus: float
    mem: float
    waiting: int
    waited: float
    fragmented: float
    preempted: int
    groups: dict[str, Moment]


class _Running(NamedTuple):
    application: str
    group: str
    cpus: int
    mem: int
    since: float


@dataclass(eq=False, slots=True)
class _Work:
    """One application. `waits`: moments since which taskgroups wait, the oldest first; `live`: taskgroups that run or
    start; `settled`: ended taskgroups that are not replaced, by id."""

    group: str
    cpus: int = 0
    waits: deque[float] = field(default_factory=deque)
    live: int = 0
    settled: set[str] = field(default_factory=set)


class Recorder:
    """Figures from the changes of records."""

    def __init__(
        self, groups: dict[str, str], overhead: Overhead, version_of: Callable[[Application], Version | None]
    ) -> None:
        """`groups`: group by namespace; others are groups of their own. `version_of`: the newest version."""
        self._groups, self._overhead, self._version_of = groups, overhead, version_of
        self.groups: dict[str, Group] = {}
        self._running: dict[str, _Running] = {}
        self._work: dict[str, _Work] = {}
        self._settled: dict[str, str] = {}
        """Applications of ended taskgroups that are not replaced."""

    @property
    def waiting(self) -> int:
        """Taskgroups that wait for a place."""
        return sum(one.pending for one in self.groups.values())

    def adopt(self, group: TaskGroup, now: float) -> None:
        """A taskgroup that runs at the start."""
        self._hold(group, now)

    def changed(self, key: str, record: TaskGroup | None, now: float) -> str:
        """A record of a taskgroup has changed, or was removed (None). Returns the key of its application if the number
        of its taskgroups has changed; else an empty text."""
        known = self._running.get(key)
        if record is None or record.ended:
            owner = known.application if known is not None else ""
            if known is not None:
                self._ended(key, known, record, now)
            if record is None and key in self._settled:
                owner = self._settled.pop(key)
                self._work[owner].settled.discard(key)
            return owner
        if known is None:
            work = self._hold(record, now)
            found = self._of(work.group)
            found.launched += 1
            if work.waits:
                since = self._unwait(work, now, newest=False)
                found.waits.append(now - since)
            return record.application_key
        return ""

    def settle(self, applications: dict[str, Application | None], now: float) -> None:
        """Applications that have changed, or whose taskgroups have, by key; None: removed. Taskgroups that an
        application lacks wait from now on."""
        for key, application in applications.items():
            work = self._work.get(key)
            lacking = 0
            if application is not None:
                work = work or self._of_application(key)
                version = self._version_of(application)
                if version is not None:
                    work.cpus = total(version, self._overhead).cpus
                lacking = max(0, application.instances - work.live - len(work.settled))
            if work is None:
                continue
            while len(work.waits) > lacking:
                self._unwait(work, now, newest=True)
            if len(work.waits) < lacking:
                self._of(work.group).pending += lacking - len(work.waits)
                work.waits.extend([now] * (lacking - len(work.waits)))
            if application is None and not work.live:
                for taskgroup in work.settled:
                    del self._settled[taskgroup]
                del self._work[key]

    def close(self, now: float) -> None:
        """The end of the run: taskgroups that run or wait count until now."""
        for known in self._running.values():
            self._count(known, now)
        for work in self._work.values():
            self._of(work.group).wanted += sum(now - since for since in work.waits) * work.cpus / 1000

    def sample(self, now: float, at: float, capacity: dict[str, int], fragmented: float) -> Sample:
        """The present moment. `at`: seconds from the start; `capacity`: thousandths of all agents."""
        oldest = dict.fromkeys(self.groups, now)
        for work in self._work.values():
            if work.waits:
                oldest[work.group] = min(oldest[work.group], work.waits[0])
        cpus, mem = max(capacity["cpus"], 1), max(capacity["mem"], 1)
        groups = {
            name: Moment(one.cpus / cpus, one.mem / mem, one.pending, now - oldest[name], one.evicted)
            for name, one in self.groups.items()
        }
        found = self.groups.values()
        return Sample(
            at,
            sum(one.cpus for one in found) / cpus,
            sum(one.mem for one in found) / mem,
            self.waiting,
            now - min(oldest.values(), default=now),
            fragmented,
            sum(one.evicted for one in found),
            groups,
        )

    def _hold(self, record: TaskGroup, now: float) -> _Work:
        work, amounts = self._of_application(record.application_key), record.resources
        self._running[record.id] = _Running(record.application_key, work.group, amounts.cpus, amounts.mem, now)
        found = self._of(work.group)
        found.cpus += amounts.cpus
        found.mem += amounts.mem
        work.live += 1
        return work

    def _ended(self, key: str, known: _Running, record: TaskGroup | None, now: float) -> None:
        del self._running[key]
        found, work = self._of(known.group), self._work[known.application]
        found.cpus -= known.cpus
        found.mem -= known.mem
        work.live -= 1
        self._count(known, now)
        if record is None:
            return
        if record.end_cause == "Evicted":
            found.evicted += 1
        if record.status == "Finish":
            found.finished += 1
        if record.status in ("Finish", "Failed") and not self._restarted(record):
            work.settled.add(key)
            self._settled[key] = known.application

    def _restarted(self, record: TaskGroup) -> bool:
        """True if the policy of the application starts the ended taskgroup again."""
        application = Application(namespace=record.namespace, name=record.application, version=record.version)
        version = self._version_of(application)
        policy = version.restart_policy.policy if version is not None else "OnFailure"
        return policy == "Always" or (policy == "OnFailure" and record.status != "Finish")

    def _unwait(self, work: _Work, now: float, *, newest: bool) -> float:
        """The moment since which one taskgroup has waited, which waits no more."""
        since = work.waits.pop() if newest else work.waits.popleft()
        found = self._of(work.group)
        found.pending -= 1
        found.wanted += (now - since) * work.cpus / 1000
        return since

    def _count(self, known: _Running, now: float) -> None:
        found, core_seconds = self._of(known.group), (now - known.since) * known.cpus / 1000
        found.used += core_seconds
        found.wanted += core_seconds

    def _of_application(self, key: str) -> _Work:
        work = self._work.get(key)
        if work is None:
            namespace = namespace_of(key)
            work = self._work[key] = _Work(self._groups.get(namespace, namespace))
            self._of(work.group)
        return work

    def _of(self, name: str) -> Group:
        return self.groups.setdefault(name, Group())
