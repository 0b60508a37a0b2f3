"""Prometheus metrics: the original's, under their names and labels, and what an operator needs besides.

Counters and histograms are fed by what happens; everything that can be read from the live state is a gauge computed at
the scrape (bcs_scheduler.gauges). Series that name an application go when it goes: at a scrape the known ones are
compared with the state, and those that have been without an object for LINGER seconds are removed. The delay lets the
last sample (the deletion itself) be scraped, and bridges the moment in which a taskgroup has no record.
"""

from __future__ import annotations

import threading
import time
from collections import Counter as Tally
from collections.abc import Callable, Sequence

import structlog
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from bcs_scheduler.core.effects import Observed, Story
from bcs_scheduler.gateway import Role
from bcs_scheduler.gauges import PREFIX, Gauges, Leading
from store.base import Change
from store.state import State

__all__ = ["Leading", "Metrics"]

log = structlog.get_logger(__name__)

LINGER = 300.0
"""Seconds for which series outlive their object: several scrapes at any usual interval."""
PLACEMENT_MS = (10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000, 300_000)
OPERATION_SECONDS = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 180, 480, 1800, 7500)
"""Up to the longest usual life period of a transaction (bcs_internals 4.2)."""
COMMIT_MS = (1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 5000, 30_000)
TURN_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)
CROWD = 10_000
"""Owners of series above which gone ones are looked for even if nobody scrapes."""

PER_TASKGROUP = frozenset({"schedule_taskgroup", "taskgroup_report"})
"""Metrics whose third label is the taskgroup."""

Owner = tuple[str, str, str]
"""Namespace, application, taskgroup name; the last is empty for series of the whole application."""


class ObjectSeries:
    """The metrics with labels of applications, and whom each of their series belongs to."""

    def __init__(self, registry: CollectorRegistry, taskgroup_label: bool) -> None:
        self._taskgroup_label = taskgroup_label
        self._lock = threading.Lock()
        self._of: dict[Owner, set[tuple[Counter | Histogram, tuple[str, ...]]]] = {}
        self._gone: dict[Owner, float] = {}
        """Since when (monotonic seconds) an owner of series has not existed."""
        self._crowd = CROWD
        app, group = ("namespace", "application"), ("namespace", "application", "taskgroup")

        def counter(name: str, documentation: str, labels: Sequence[str]) -> Counter:
            return Counter(PREFIX + name, documentation, labels, registry=registry)

        def histogram(name: str, documentation: str, labels: Sequence[str], buckets: Sequence[float]) -> Histogram:
            return Histogram(PREFIX + name, documentation, labels, buckets=buckets, registry=registry)

        self._metrics: dict[str, tuple[Counter, Histogram | None]] = {
            "schedule_taskgroup": (
                counter("schedule_taskgroup", "Launches decided, by kind of transaction", (*group, "type")),
                histogram(
                    "schedule_taskgroup_latency_ms",
                    "Milliseconds from the begin of the transaction to the placement of the taskgroup",
                    (*group, "type"),
                    PLACEMENT_MS,
                ),
            ),
            "operate_application": (
                counter("operate_application", "Transactions ended, whatever their verdict", (*app, "type")),
                histogram(
                    "operate_application_latency_second",
                    "Seconds from the begin of a transaction to its end",
                    (*app, "type"),
                    OPERATION_SECONDS,
                ),
            ),
            "taskgroup_report": (
                counter("taskgroup_report", "Stored status reports, by the status that followed", (*group, "status")),
                None,
            ),
            "application_oom": (counter("application_oom", "Tasks ended for want of memory", app), None),
        }

    def observe(self, observed: Observed) -> None:
        if observed.name not in self._metrics:
            log.error("something is counted that is no metric", name=observed.name)
            return
        counter, histogram = self._metrics[observed.name]
        labels = observed.labels
        owner = (labels[0], labels[1], "")
        if observed.name in PER_TASKGROUP:
            owner = (labels[0], labels[1], labels[2] if self._taskgroup_label else "")
            labels = (*owner, *labels[3:])
        with self._lock:
            series = self._of.setdefault(owner, set())
            counter.labels(*labels).inc(1.0 if histogram is not None else observed.value)
            series.add((counter, labels))
            if histogram is not None:
                histogram.labels(*labels).observe(observed.value)
                series.add((histogram, labels))

    @property
    def crowded(self) -> bool:
        return len(self._of) > self._crowd

    def prune(self, state: State, now: float) -> None:
        """Removes series whose owner has been gone for LINGER seconds. `now`: monotonic."""
        with self._lock:
            missing = [owner for owner in self._of if not _exists(state, owner)]
            self._gone = {owner: self._gone.get(owner, now) for owner in missing}
            for owner, since in list(self._gone.items()):
                if now - since >= LINGER:
                    self._remove(owner)
            self._crowd = max(CROWD, 2 * len(self._of))

    def clear(self) -> None:
        with self._lock:
            for owner in list(self._of):
                self._remove(owner)

    def _remove(self, owner: Owner) -> None:
        self._gone.pop(owner, None)
        for metric, labels in self._of.pop(owner):
            metric.remove(*labels)


def _exists(state: State, owner: Owner) -> bool:
    namespace, application, taskgroup = owner
    key = f"{namespace}/{application}"
    if key not in state.applications:
        return False
    index = taskgroup.rpartition("-")[2]
    return not taskgroup or (index.isdigit() and int(index) in state.indexes_of(key))


class Metrics:
    """Everything that is measured in this process. All methods may be called from any thread."""

    def __init__(
        self, cluster: str = "", taskgroup_label: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`cluster`: value of the label clusterId. `taskgroup_label`: fill the label `taskgroup`, and show each
        taskgroup; otherwise that label is empty. `clock`: monotonic seconds."""
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._clock = clock
        self.registry = CollectorRegistry()
        self._objects = ObjectSeries(self.registry, taskgroup_label)
        self._gauges = Gauges(cluster, taskgroup_label)
        self.registry.register(self._gauges)
        ProcessCollector(registry=self.registry)
        self._turns = self._histogram("turn_duration_seconds", "Duration of a turn of the core", (), TURN_SECONDS)
        self._events = self._counter("events", "Events the core has handled")
        self._stories = self._counter(
            "story", "What happened to applications, transactions and the framework", "kind", "reason"
        )
        self._commits = self._histogram("commit_latency_ms", "From a commit's call until it is durable", (), COMMIT_MS)
        self._records = self._counter("committed_records", "Records written or deleted durably", "kind")
        self._operations = self._counter("storage_operator", "Records read, written, deleted", "operator")
        self._failures = self._counter("storage_operator_failed", "Of these, those that failed", "operator")
        self._latency = self._histogram(
            "storage_operator_latency_ms", "Duration of the commit or load they were part of", ("operator",), COMMIT_MS
        )

    def _counter(self, name: str, documentation: str, *labels: str) -> Counter:
        return Counter(PREFIX + name, documentation, labels, registry=self.registry)

    def _histogram(self, name: str, documentation: str, labels: Sequence[str], buckets: Sequence[float]) -> Histogram:
        return Histogram(PREFIX + name, documentation, labels, buckets=buckets, registry=self.registry)

    # --- fed by the running parts -----------------------------------------------------------------------------

    @property
    def role(self) -> Role:
        return self._gauges.role

    @role.setter
    def role(self, role: Role) -> None:
        self._gauges.role = role

    def lead(self, leading: Leading | None) -> None:
        """A term of leadership begins, or (None) ends. Series of applications belong to the term: another process
        counts on from now."""
        self._gauges.leading = leading
        if leading is None:
            self._objects.clear()

    def turned(self, events: int, seconds: float) -> None:
        self._events.inc(events)
        self._turns.observe(seconds)

    def observe(self, observed: Observed) -> None:
        """Counts a durable event. What leaves after the term has ended is not counted."""
        leading = self._gauges.leading
        if leading is None:
            return
        self._objects.observe(observed)
        if self._objects.crowded:
            self._objects.prune(leading.core.state, self._clock())

    def told(self, story: Story) -> None:
        self._stories.labels(story.kind, story.reason).inc()

    def committed(self, changes: Sequence[Change], seconds: float) -> None:
        milliseconds = seconds * 1000.0
        self._commits.observe(milliseconds)
        for kind, count in Tally(change.kind for change in changes).items():
            self._records.labels(kind).inc(count)
        for operator, count in _operators(changes).items():
            self._operations.labels(operator).inc(count)
            self._latency.labels(operator).observe(milliseconds)

    def commit_failed(self, changes: Sequence[Change]) -> None:
        for operator, count in _operators(changes).items():
            self._failures.labels(operator).inc(count)

    def loaded(self, records: int, seconds: float) -> None:
        """All records have been read: at a take-over, or for reads on a standby."""
        self._operations.labels("fetch").inc(records)
        self._latency.labels("fetch").observe(seconds * 1000.0)

    # --- read by the API --------------------------------------------------------------------------------------

    def render(self) -> bytes:
        """Prometheus text."""
        leading = self._gauges.leading
        if leading is not None:
            self._objects.prune(leading.core.state, self._clock())
        return generate_latest(self.registry)


def _operators(changes: Sequence[Change]) -> Tally[str]:
    """Operators of the original. A store does not tell a record's creation from its update: both count as update."""
    return Tally("delete" if change.record is None else "update" for change in changes)
