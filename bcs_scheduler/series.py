"""The original's metrics of applications: counters and histograms whose series go when their application goes.

They are kept in plain dictionaries and handed to prometheus-client at the scrape: several are counted for every
taskgroup launched, and a labelled child of prometheus-client costs ten times as much, and its removal a search.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import structlog
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from bcs_scheduler.core.effects import Observed
from bcs_scheduler.exposition import PREFIX
from store.state import State

log = structlog.get_logger(__name__)

LINGER = 300.0
"""Seconds for which series outlive their object: several scrapes at any usual interval."""
CROWD = 20_000
"""Series above which gone ones are looked for even if nobody scrapes."""
PLACEMENT_MS = (10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000, 300_000)
OPERATION_SECONDS = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 180, 480, 1800, 7500)
"""Up to the longest usual life period of a transaction (bcs_internals 4.2)."""

Labels = tuple[str, ...]
Owner = tuple[str, str, str]
"""Namespace, application, taskgroup name; the last is empty for series of the whole application."""


@dataclass(slots=True)
class _Series:
    count: float
    total: float
    """Sum of the observed values, for a histogram."""
    buckets: list[int]
    """Observations per bucket, not added up; the last one is +Inf."""


@dataclass(frozen=True)
class _Metric:
    """A counter, and with `bounds` a histogram of the values that were counted."""

    name: str
    documentation: str
    labels: Labels
    histogram: str = ""
    histogram_documentation: str = ""
    bounds: tuple[float, ...] = ()
    series: dict[Labels, _Series] = field(default_factory=dict)

    @cached_property
    def of_taskgroups(self) -> bool:
        return "taskgroup" in self.labels

    def owner(self, labels: Labels) -> Owner:
        return labels[0], labels[1], labels[2] if self.of_taskgroups else ""

    def count(self, labels: Labels, value: float) -> bool:
        """True if these labels are new."""
        series = self.series.get(labels)
        new = series is None
        if series is None:
            series = self.series[labels] = _Series(0.0, 0.0, [0] * (len(self.bounds) + 1))
        if self.bounds:
            series.count += 1.0
            series.total += value
            series.buckets[bisect_left(self.bounds, value)] += 1
        else:
            series.count += value
        return new


class ApplicationSeries(Collector):
    """What is counted of applications and, where the taskgroup label is filled, of their taskgroups."""

    def __init__(self, taskgroup_label: bool) -> None:
        self._taskgroup_label = taskgroup_label
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
                "Milliseconds from the begin of the transaction to the placement of the taskgroup",
                PLACEMENT_MS,
            ),
            "operate_application": _Metric(
                "operate_application",
                "Transactions ended, whatever their verdict",
                (*application, "type"),
                "operate_application_latency_second",
                "Seconds from the begin of a transaction to its end",
                OPERATION_SECONDS,
            ),
            "taskgroup_report": _Metric(
                "taskgroup_report", "Stored status reports, by the status that followed", (*taskgroup, "status")
            ),
            "task_health": _Metric(
                "task_health", "Tasks whose health checks turned, by what they turned to", (*application, "verdict")
            ),
            "message_completed": _Metric(
                "message_completed",
                "Messages to executors that have their last word, by type of command and status",
                (*application, "type", "status"),
            ),
            "application_oom": _Metric("application_oom", "Tasks ended for want of memory", application),
        }

    @property
    def names(self) -> set[str]:
        """What core.effects.Observed may name."""
        return set(self._metrics)

    def __len__(self) -> int:
        return sum(len(metric.series) for metric in self._metrics.values())

    def observe(self, observed: Observed) -> bool:
        """Counts it. True if there are so many series now that gone ones should be removed."""
        metric = self._metrics.get(observed.name)
        if metric is None:
            log.error("something is counted that is no metric", name=observed.name)
            return False
        labels = observed.labels
        if not self._taskgroup_label and metric.of_taskgroups:
            labels = (*labels[:2], "", *labels[3:])
        with self._lock:
            return metric.count(labels, observed.value) and len(self) > self._crowd

    def prune(self, state: State, now: float) -> None:
        """Removes series whose owner has been gone for LINGER seconds. `now`: monotonic."""
        with self._lock:
            owners = {metric.owner(labels) for metric in self._metrics.values() for labels in metric.series}
            self._gone = {owner: self._gone.get(owner, now) for owner in owners if not _exists(state, owner)}
            expired = {owner for owner, since in self._gone.items() if now - since >= LINGER}
            if expired:
                for metric in self._metrics.values():
                    for labels in [labels for labels in metric.series if metric.owner(labels) in expired]:
                        del metric.series[labels]
            self._crowd = max(CROWD, len(self) * 3 // 2)

    def clear(self) -> None:
        with self._lock:
            self._gone.clear()
            for metric in self._metrics.values():
                metric.series.clear()

    def collect(self) -> Iterator[CounterMetricFamily | HistogramMetricFamily]:
        for metric in self._metrics.values():
            with self._lock:
                seen = [(labels, s.count, s.total, list(s.buckets)) for labels, s in metric.series.items()]
            counter = CounterMetricFamily(PREFIX + metric.name, metric.documentation, labels=metric.labels)
            for labels, count, _, _ in seen:
                counter.add_metric(labels, count)
            yield counter
            if metric.bounds:
                bounds = [*(str(float(bound)) for bound in metric.bounds), "+Inf"]
                histogram = HistogramMetricFamily(
                    PREFIX + metric.histogram, metric.histogram_documentation, labels=metric.labels
                )
                for labels, _, total, buckets in seen:
                    histogram.add_metric(labels, _added_up(bounds, buckets), total)
                yield histogram


def _added_up(bounds: list[str], buckets: list[int]) -> list[tuple[str, float]]:
    """Prometheus wants in each bucket everything up to its bound."""
    result, so_far = [], 0
    for bound, count in zip(bounds, buckets, strict=True):
        so_far += count
        result.append((bound, float(so_far)))
    return result


def _exists(state: State, owner: Owner) -> bool:
    namespace, application, taskgroup = owner
    key = f"{namespace}/{application}"
    if key not in state.applications:
        return False
    index = taskgroup.rpartition("-")[2]
    return not taskgroup or (index.isdigit() and int(index) in state.indexes_of(key))
