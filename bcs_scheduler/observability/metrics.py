"""Prometheus metrics: those of the original, under their names and labels, and further ones for operators.

Events update counters and histograms; values that can be read from the live state are gauges computed at the scrape
(bcs_scheduler.observability.gauges). Series that name an application are removed after its deletion: at a scrape the
known ones are compared with the state, and those that have been without an object for a while are removed
(bcs_scheduler.observability.series). The delay lets the last sample (the deletion itself) be scraped, and bridges
moments in which a taskgroup has no record.
"""

from __future__ import annotations

import time
from collections import Counter as Tally
from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics

from bcs_scheduler.core.interface.effects import LogLine, Observed
from bcs_scheduler.leadership.gateway import Role
from bcs_scheduler.leadership.listeners import Leading
from bcs_scheduler.leadership.standby import FollowerStatus
from bcs_scheduler.observability import exposition
from bcs_scheduler.observability.exposition import PREFIX
from bcs_scheduler.observability.gauges import Gauges
from bcs_scheduler.observability.queues import QUEUES, QueueSeries
from bcs_scheduler.observability.series import ApplicationSeries, TrackedObjects
from bcs_scheduler.prober.probe import Verdict
from bcs_scheduler.security.caller import PROGRAM_RIGHTS
from bcs_scheduler.settings.sections import MetricsSettings
from store.base import Change

COMMIT_MS = (1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 5000, 30_000)
LAG_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
TURN_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)

SESSION = "policy_session"
MOVES = "rebalance_moves"
SUMS = "managed_sums_wrong"
PLUGIN_FAULTS = "policy_plugin_faults"
PART_FAILURES = "part_failures"
"""The name under which the core counts sessions."""


class Metrics:
    """Everything that is measured in this process. All methods may be called from any thread."""

    def __init__(
        self,
        cluster: str = "",
        taskgroup_label: bool = False,
        clock: Callable[[], float] = time.monotonic,
        *,
        application_series: int = MetricsSettings().application_series,
        application_histograms: bool = False,
    ) -> None:
        """`cluster`: value of the label clusterId. `taskgroup_label`: fill the label `taskgroup`, and show each
        taskgroup; otherwise that label is empty. `clock`: monotonic seconds. `application_series`: so many applications
        have series of their own, the others are added up. `application_histograms`: whether these have histograms of
        their own, too; otherwise all are added up."""
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._clock = clock
        self.registry = CollectorRegistry()
        individuals = TrackedObjects(application_series)
        self._objects = ApplicationSeries(taskgroup_label, individuals, application_histograms)
        self.registry.register(self._objects)
        self._gauges = Gauges(cluster, taskgroup_label, individuals, application_series)
        self.registry.register(self._gauges)
        self._queues = QueueSeries()
        self.registry.register(self._queues)
        ProcessCollector(registry=self.registry)
        self._turns = self._histogram("turn_duration_seconds", "Duration of a turn of the core", (), TURN_SECONDS)
        self._policy_sessions = self._histogram(
            "policy_session_duration_seconds", "Duration of a session of the policy", (), TURN_SECONDS
        )
        self._events = self._counter("events", "Events that the core has processed")
        self._recorded = self._counter(
            "recorded_events", "Events of applications, transactions and the framework; warnings", "kind", "reason"
        )
        self._commits = self._histogram("commit_latency_ms", "From a commit's call until it is durable", (), COMMIT_MS)
        self._records = self._counter("committed_records", "Records written or deleted durably", "kind")
        self._operations = self._counter("storage_operator", "Records read, written, deleted", "operator")
        self._failures = self._counter("storage_operator_failed", "Failed reads and writes of records", "operator")
        self._latency = self._histogram(
            "storage_operator_latency_ms",
            "Duration of the commit or load that contained the record",
            ("operator",),
            COMMIT_MS,
        )

        self._plugin_faults = self._counter(
            PLUGIN_FAULTS, "Faults of third-party plug-ins of the policy: failed, hung", "plugin", "how"
        )
        self._part_failures = self._counter(
            PART_FAILURES, "Unexpected errors of parts of the core, which were made anew", "part", "step"
        )
        self._sums_wrong = self._counter(
            "managed_sums_wrong", "Numbers of managed applications that contradict their placeholders"
        )
        self._manager_starts = self._counter(
            "app_manager_starts", "Starts of application managers that have ended", "manager", "result"
        )
        self._rebalance_moves = self._counter(MOVES, "Moves that rebalancing has begun", "goal")
        self._probes = self._counter("health_probe", "Probes of REMOTE health checks that ended", "type", "result")
        self._probe_lag = self._histogram(
            "health_probe_lag_seconds", "From the due time of a probe to its start", (), LAG_SECONDS
        )

        self._refusals = self._counter("api_refused", "Requests refused for missing rights or for a limit", "reason")
        self._connections = Gauge(PREFIX + "api_connections", "Open connections of the API", registry=self.registry)
        self._idle_closed = self._counter(
            "api_idle_connections_closed", "Idle connections that were closed to make room for others"
        )
        self._broken = self._counter(
            "broken_files", "Changed files that could not be read; the old content stays", "file"
        )
        # There from the start with 0: else the first one would not count as an increase.
        for reason in (
            "unauthenticated",
            "forbidden",
            "too_many_requests",
            "too_many_connections",
            "too_many_sessions",
            "too_many_watchers",
        ):
            self._refusals.labels(reason)
        for file in ("tokens", "TLS certificate"):
            self._broken.labels(file)
        self._unaudited = self._counter("audit_lost", "Lines that could not be written to the audit log")
        self._turns_lost = self._counter("decision_log_turns_lost", "Turns that are missing in the decision log")

        self._webhooks = self._counter("webhook_calls", "Calls of admission webhooks, by outcome", "webhook", "outcome")
        self._webhook_latency = self._histogram(
            "webhook_latency_seconds", "Duration of a call of an admission webhook", ("webhook",), LAG_SECONDS
        )

        self._alarms = self._counter("alarms", "Alarms by outcome", "outcome")

        self._sessions = Gauge(
            PREFIX + "sessions", "Sessions that are open, by kind", ("kind",), registry=self.registry
        )
        self._session_bytes = self._counter(
            "session_bytes", "Bytes that sessions have passed on; in: from users to programs", "direction"
        )
        for kind in PROGRAM_RIGHTS:
            self._sessions.labels(kind)
        for direction in ("in", "out"):
            self._session_bytes.labels(direction)

        self._published = self._counter(
            "published_nodes",
            "Nodes of services published in ZooKeeper; skipped: failed attempts; failed: sessions",
            "kind",
            "done",
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
        self._gauges.leading = self._queues.leading = leading
        if leading is None:
            self._objects.clear()
            self._queues.clear()

    def stand_by(self, following: Callable[[], FollowerStatus] | None) -> None:
        """The process follows the store, or (None) has begun to lead."""
        self._gauges.following = following

    def turn_ended(self, events: int, seconds: float) -> None:
        self._events.inc(events)
        self._turns.observe(seconds)

    def observe(self, observed: Observed) -> None:
        """Counts a durable event. Events after the end of the term are not counted."""
        leading = self._gauges.leading
        if leading is None:
            return
        if observed.name == SESSION:
            self._policy_sessions.observe(observed.value)
        elif observed.name == SUMS:
            self._sums_wrong.inc()
        elif observed.name == MOVES:
            self._rebalance_moves.labels(*observed.labels).inc(observed.value)
        elif observed.name == PLUGIN_FAULTS:
            self._plugin_faults.labels(*observed.labels).inc(observed.value)
        elif observed.name == PART_FAILURES:
            self._part_failures.labels(*observed.labels).inc(observed.value)
        elif observed.name in QUEUES:
            self._queues.observe(observed)
        elif self._objects.observe(observed):
            self._objects.prune(leading.core.state, self._clock())

    def manager_runs(self, manager: str, runs: bool) -> None:
        """Counts a start of an application manager, which runs now, or has failed."""
        self._manager_starts.labels(manager, "running" if runs else "failed").inc()

    def probed(self, kind: str, verdict: Verdict, lag: float) -> None:
        """Counts a probe of the prober. `lag`: seconds."""
        result = "timeout" if verdict.timed_out else "healthy" if verdict.healthy else "unhealthy"
        self._probes.labels(kind, result).inc()
        self._probe_lag.observe(lag)

    def refused(self, reason: str) -> None:
        """Counts a request that the API refused."""
        self._refusals.labels(reason).inc()

    def connection_opened(self) -> None:
        """By the API."""
        self._connections.inc()

    def connection_closed(self) -> None:
        self._connections.dec()

    def idle_closed(self) -> None:
        """By the API: an idle connection was closed for another one."""
        self._idle_closed.inc()

    def file_broken(self, what: str) -> None:
        self._broken.labels(what).inc()

    def audit_lost(self) -> None:
        self._unaudited.inc()

    def decision_lost(self) -> None:
        """Counts a turn that is missing in the decision log."""
        self._turns_lost.inc()

    def webhook_asked(self, webhook: str, outcome: str, seconds: float) -> None:
        """By the API. `webhook`: namespace, configuration and name."""
        self._webhooks.labels(webhook, outcome).inc()
        self._webhook_latency.labels(webhook).observe(seconds)

    def alarmed(self, outcome: str) -> None:
        """By the alarms: sent, failed, dropped, suppressed."""
        self._alarms.labels(outcome).inc()

    def session_opened(self, kind: str) -> None:
        """By the API. `kind`: a ProgramRight."""
        self._sessions.labels(kind).inc()

    def session_closed(self, kind: str) -> None:
        self._sessions.labels(kind).dec()

    def session_bytes(self, direction: str, size: int) -> None:
        """`direction`: in (from users to programs) or out."""
        self._session_bytes.labels(direction).inc(size)

    def published(self, kind: str, done: str, nodes: int) -> None:
        """By the publisher: nodes written, deleted or skipped, and sessions that failed (without a kind)."""
        self._published.labels(kind, done).inc(nodes)

    def logged(self, line: LogLine) -> None:
        """An event, or a line of the log, that concerns more than one taskgroup or is a warning."""
        self._recorded.labels(line.kind, line.reason).inc()

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
        """Counts the changed records that a standby has read: at first all records."""
        self._operations.labels("fetch").inc(records)
        self._latency.labels("fetch").observe(seconds * 1000.0)

    # --- read by the API --------------------------------------------------------------------------------------

    def render(self) -> bytes:
        """Prometheus text."""
        leading = self._gauges.leading
        if leading is not None:
            self._objects.prune(leading.core.state, self._clock())
        return exposition.text(self.registry)


def _operators(changes: Sequence[Change]) -> Tally[str]:
    """Operators of the original. A store does not tell a record's creation from its update: both count as update."""
    return Tally("delete" if change.record is None else "update" for change in changes)
