"""The original's metrics of applications: counters and histograms with series that are removed after the deletion of
their application.

Ten thousand applications with a histogram each would make a scrape of 47 MB. The number of applications with series of
their own is therefore limited (`TrackedObjects`), and histograms are added up over all applications unless a setting
requests them. Sums over several applications have empty labels, so sums over all series stay true.

The values are kept in plain dictionaries and given to prometheus-client at the scrape. Every launched taskgroup
increments several of them; a labelled child of prometheus-client costs ten times as much, and its removal needs a
search.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import structlog
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from bcs_scheduler.core.interface.effects import Observed
from bcs_scheduler.observability.exposition import PREFIX
from store.ids import object_key
from store.state.reader import StateReader

log = structlog.get_logger(__name__)

LINGER = 300.0
"""Seconds for which series outlive their object: several scrapes at any usual interval."""
CROWD = 20_000
"""Number of series above which series of deleted objects are searched even without a scrape."""
PLACEMENT_MS = (10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000, 300_000)
OPERATION_SECONDS = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 180, 480, 1800, 7500)
"""Up to the longest usual life period of a transaction (docs/original.md#life-periods)."""

Labels = tuple[str, ...]
Owner = tuple[str, str, str]
"""Namespace, application, taskgroup name; the last is empty for series of the whole application."""


class TrackedObjects:
    """The objects that have series of their own: the first `most` that are seen, as long as they exist. So no series
    changes its meaning while its object lives. Several threads may use it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._members: set[str] = set()

    def has(self, key: str) -> bool:
        """Admits the object if there is room."""
        if key in self._members:
            return True
        if len(self._members) >= self._most:
            return False
        self._members.add(key)
        return True

    def keep(self, existing: Container[str]) -> None:
        """Makes room for others in the place of those that are gone."""
        self._members -= {key for key in list(self._members) if key not in existing}

    def labels(self, namespace: str, name: str) -> tuple[str, str]:
        """Of the object's series: its own, or empty ones."""
        return (namespace, name) if self.has(object_key(namespace, name)) else ("", "")


@dataclass(slots=True)
class _Histogram:
    count: float
    total: float
    """Sum of the observed values."""
    buckets: list[int]
    """Observations per bucket, not added up; the last one is +Inf."""


@dataclass(frozen=True)
class _Metric:
    """A counter, and with `bounds` a histogram of durations. Durations are counted in seconds; the name of a histogram
    says in which unit it shows them, and `per_second` is how many of these units a second has."""

    name: str
    documentation: str
    labels: Labels
    histogram: str = ""
    histogram_documentation: str = ""
    bounds: tuple[float, ...] = ()
    """In the unit that the histogram shows."""
    per_second: int = 1
    counts: dict[Labels, float] = field(default_factory=dict)
    histograms: dict[Labels, _Histogram] = field(default_factory=dict)

    @cached_property
    def of_taskgroups(self) -> bool:
        return "taskgroup" in self.labels

    def owner(self, labels: Labels) -> Owner:
        return labels[0], labels[1], labels[2] if self.of_taskgroups else ""

    def count(self, labels: Labels, value: float) -> bool:
        """True if these labels are new."""
        known = self.counts.get(labels)
        self.counts[labels] = (known or 0.0) + (1.0 if self.bounds else value)
        return known is None

    def measure(self, labels: Labels, value: float) -> None:
        """Into the histogram, if there is one. `value`: seconds."""
        if not self.bounds:
            return
        value *= self.per_second
        found = self.histograms.get(labels)
        if found is None:
            found = self.histograms[labels] = _Histogram(0.0, 0.0, [0] * (len(self.bounds) + 1))
        found.count += 1.0
        found.total += value
        found.buckets[bisect_left(self.bounds, value)] += 1

    def owners(self) -> set[Owner]:
        return {self.owner(labels) for series in (self.counts, self.histograms) for labels in series}

    def drop(self, owners: set[Owner]) -> None:
        for series in (self.counts, self.histograms):
            for labels in [labels for labels in series if self.owner(labels) in owners]:
                del series[labels]


class ApplicationSeries(Collector):
    """Counters and histograms of applications and, where the taskgroup label is filled, of their taskgroups."""

    def __init__(self, taskgroup_label: bool, individuals: TrackedObjects, histograms: bool) -> None:
        """`individuals`: the applications with series of their own. `histograms`: whether they have some of their own,
        too."""
        self._taskgroup_label = taskgroup_label
        self._individuals = individuals
        self._histograms = histograms
        self._lock = threading.Lock()
        self._gone: dict[Owner, float] = {}
        """Since when (monotonic seconds) an owner of series has not existed."""
        self._crowd = CROWD
        application, taskgroup = ("namespace", "application"), ("namespace", "application", "taskgroup")
        self._metrics = {
            "schedule_taskgroup": _Metric(
                "schedule_taskgroup",
                "Launches decided, by kind of transaction",
                (*taskgroup, "type"),
                "schedule_taskgroup_latency_ms",
                "Milliseconds from the start of the transaction to the placement of the taskgroup",
                PLACEMENT_MS,
                per_second=1000,
            ),
            "operate_application": _Metric(
                "operate_application",
                "Transactions ended, with any verdict",
                (*application, "type"),
                "operate_application_latency_second",
                "Seconds from the start of a transaction to its end",
                OPERATION_SECONDS,
            ),
            "taskgroup_report": _Metric(
                "taskgroup_report", "Stored status reports, by the resulting status", (*taskgroup, "status")
            ),
            "task_health": _Metric(
                "task_health", "Changes of the health of tasks, by the new verdict", (*application, "verdict")
            ),
            "message_completed": _Metric(
                "message_completed",
                "Messages to executors with a final answer, by type and status",
                (*application, "type", "status"),
            ),
            "application_oom": _Metric(
                "application_oom", "Tasks killed because they exceeded their memory limit", application
            ),
        }

    @property
    def names(self) -> set[str]:
        """Names that core.interface.effects.Observed may have."""
        return set(self._metrics)

    def __len__(self) -> int:
        return sum(len(metric.counts) for metric in self._metrics.values())

    def observe(self, observed: Observed) -> bool:
        """Counts an event. Returns True if there are now so many series that those of deleted objects should be
        removed."""
        metric = self._metrics.get(observed.name)
        if metric is None:
            log.error("unknown metric", name=observed.name)
            return False
        labels = observed.labels
        if not self._taskgroup_label and metric.of_taskgroups:
            labels = (*labels[:2], "", *labels[3:])
        if not self._individuals.has(object_key(labels[0], labels[1])):
            labels = _nobodys(metric, labels)
        with self._lock:
            metric.measure(labels if self._histograms else _nobodys(metric, labels), observed.value)
            return metric.count(labels, observed.value) and len(self) > self._crowd

    def prune(self, state: StateReader, now: float) -> None:
        """Removes series whose owner has been gone for LINGER seconds. `now`: monotonic."""
        with self._lock:
            owners = set().union(*(metric.owners() for metric in self._metrics.values()))
            self._gone = {owner: self._gone.get(owner, now) for owner in owners if not _exists(state, owner)}
            expired = {owner for owner, since in self._gone.items() if now - since >= LINGER}
            if expired:
                for metric in self._metrics.values():
                    metric.drop(expired)
                lingering = {object_key(namespace, name) for namespace, name, _ in self._gone.keys() - expired}
                self._individuals.keep({*state.applications, *lingering})
            self._crowd = max(CROWD, len(self) * 3 // 2)

    def clear(self) -> None:
        with self._lock:
            self._gone.clear()
            for metric in self._metrics.values():
                metric.counts.clear()
                metric.histograms.clear()

    def collect(self) -> Iterator[CounterMetricFamily | HistogramMetricFamily]:
        for metric in self._metrics.values():
            with self._lock:
                counts = list(metric.counts.items())
                seen = [(labels, s.total, list(s.buckets)) for labels, s in metric.histograms.items()]
            counter = CounterMetricFamily(PREFIX + metric.name, metric.documentation, labels=metric.labels)
            for labels, count in counts:
                counter.add_metric(labels, count)
            yield counter
            if metric.bounds:
                bounds = [*(str(float(bound)) for bound in metric.bounds), "+Inf"]
                histogram = HistogramMetricFamily(
                    PREFIX + metric.histogram, metric.histogram_documentation, labels=metric.labels
                )
                for labels, total, buckets in seen:
                    histogram.add_metric(labels, _added_up(bounds, buckets), total)
                yield histogram


def _added_up(bounds: list[str], buckets: list[int]) -> list[tuple[str, float]]:
    """Returns the cumulative buckets that Prometheus requires: each counts all values up to its bound."""
    result, so_far = [], 0
    for bound, count in zip(bounds, buckets, strict=True):
        so_far += count
        result.append((bound, float(so_far)))
    return result


def _nobodys(metric: _Metric, labels: Labels) -> Labels:
    """Returns the labels of the sum over applications: without their names."""
    names = 3 if metric.of_taskgroups else 2
    return ("",) * names + labels[names:]


def _exists(state: StateReader, owner: Owner) -> bool:
    namespace, application, taskgroup = owner
    if not application:
        return True
    key = object_key(namespace, application)
    if key not in state.applications:
        return False
    index = taskgroup.rpartition("-")[2]
    return not taskgroup or (index.isdigit() and int(index) in state.indexes_of(key))
