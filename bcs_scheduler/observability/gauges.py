"""Gauges that are read from the live state at a scrape, without counters or work between scrapes.

Units: agent and cluster CPU in cores, memory in MB. A process that does not lead shows only its own state; the leader
describes the cluster.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from bcs_scheduler.core.scheduler import Core
from bcs_scheduler.leadership.gateway import Role
from bcs_scheduler.leadership.listeners import Leading
from bcs_scheduler.leadership.standby import FollowerStatus
from bcs_scheduler.observability.exposition import PREFIX
from bcs_scheduler.observability.series import Labels, TrackedObjects
from bcs_scheduler.version import VERSION
from offers.dimensions import recorded
from store.state import State
from transactions.rules.draining import SHOWN

ROLES: tuple[Role, ...] = ("master", "slave", "unknown")
OBJECT_STATUS: Mapping[str, str] = {
    "Staging": "operating",
    "Deploying": "operating",
    "Operating": "operating",
    "RollingUpdate": "operating",
    "Running": "running",
    "Finish": "finish",
    "Error": "failed",
    "Abnormal": "failed",
    "Pending": "operating",
    "Stopped": "finish",
}
"""Status of an application -> label `status` of object_resource_info (docs/original.md#metrics)."""
DEPLOYMENT_STATUS: Mapping[str, str] = {"Running": "running", "UpdateSuspend": "failed"}
"""The same of a deployment; in every other status it is operating."""
DAEMONSET_STATUS: Mapping[str, str] = {"Running": "running", "Abnormal": "failed"}
"""The same of a daemonset."""
TASKGROUP_NUMBER: Mapping[str, int] = {
    "Staging": 0,
    "Starting": 0,
    "Running": 1,
    "Finish": 2,
    "Killing": 2,
    "Killed": 2,
    "Error": 3,
    "Failed": 3,
    "Lost": 4,
}
"""Status of a taskgroup -> value of taskgroup_info; everything else is 5 (docs/original.md#metrics)."""
OTHER = 5


class Gauges(Collector):
    def __init__(self, cluster: str, taskgroup_label: bool, individuals: TrackedObjects, most: int) -> None:
        """`individuals`: the applications with series of their own; of other kinds there are at most `most` with such.
        The others of a kind are added up under empty labels."""
        self._cluster = cluster
        self._taskgroup_label = taskgroup_label
        self._applications = individuals
        self._deployments, self._services = TrackedObjects(most), TrackedObjects(most)
        self.role: Role = "unknown"
        self.leading: Leading | None = None
        self.following: Callable[[], FollowerStatus] | None = None
        """How far a process that does not lead has come; None on the leader."""

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        yield _gauge("build_info", "Always 1; the version is in the label", {"version": VERSION}, 1)
        role = _family("role", "1 for the present role of this process", "role")
        for name in ROLES:
            role.add_metric([name], float(name == self.role))
        yield role
        following = self.following
        if following is not None:
            yield from _standby(following())
        leading = self.leading
        if leading is not None:
            yield from self._process(leading)
            yield from _work(leading.core)
            yield from self._objects(leading.core.state)
            yield from _outputs(leading.core)
            yield from self._agents(leading.core)

    def _process(self, leading: Leading) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        yield _gauge("epoch", "Epoch of the term of leadership", {}, leading.epoch)
        connected = bool(leading.mesos().get("connected"))
        yield _gauge("mesos_connected", "1 while subscribed with a Mesos master", {}, float(connected))
        removed = float(bool(leading.core.fatal))
        yield _gauge("framework_removed", "1 if Mesos refuses this framework permanently", {}, removed)
        yield _gauge("store_stalled_seconds", "Seconds for which no commit has got through", {}, leading.stalled_for())
        quarantined = leading.quarantined
        yield _gauge("quarantined_records", "Records that could not be decoded at take-over", {}, quarantined)
        yield _unreadable(leading.mesos().get("garbage", {}))
        yield _fetched(leading.mesos().get("outputs", {}))
        yield from self._endpoints(leading)
        if leading.hub is not None:
            yield _gauge("watchers", "Watches and streams that are open", {}, leading.hub.watchers)
            yield _gauge("newest_event", "Number of the newest durable event", {}, leading.hub.latest)
            slow = CounterMetricFamily(PREFIX + "slow_watchers", "Watchers that were ended because they were too slow")
            slow.add_metric([], leading.hub.dropped)
            yield slow
        depth = _family("queue_depth", "Entries waiting: events, changes, replies, calls to Mesos", "queue")
        for name, value in leading.queues().items():
            depth.add_metric([name], value)
        yield depth

    def _objects(self, state: State) -> Iterator[GaugeMetricFamily]:
        objects: Tally[Labels] = Tally()
        counts: Tally[Labels] = Tally()
        summed = 0
        for key, app in list(state.applications.items()):
            labels = self._applications.labels(app.namespace, app.name)
            summed += not labels[1]
            objects["application", *labels, OBJECT_STATUS.get(app.status, "running")] += 1
            for group_status, count in list(state.status_counts(key).items()):
                counts[*labels, group_status] += count
        self._deployments.keep(state.deployments)
        for deployment in list(state.deployments.values()):
            labels = self._deployments.labels(deployment.namespace, deployment.name)
            objects["deployment", *labels, DEPLOYMENT_STATUS.get(deployment.status, "operating")] += 1
        wanted = _family(
            "daemonset_taskgroups",
            "Agents that the daemonset selects, and its ready taskgroups",
            "namespace",
            "name",
            "state",
        )
        for daemonset in list(state.daemonsets.values()):
            names = (daemonset.namespace, daemonset.name)
            objects["daemonset", *names, DAEMONSET_STATUS.get(daemonset.status, "operating")] += 1
            app_behind = state.applications.get(daemonset.key)
            wanted.add_metric([*names, "desired"], app_behind.instances if app_behind is not None else 0)
            there, unready = len(state.groups_of(daemonset.key)), len(state.readiness.unready(daemonset.key))
            wanted.add_metric([*names, "ready"], max(0, there - unready))  # both change while they are read
        yield _tallied(
            _family("object_resource_info", "1 per object", "resource", "namespace", "name", "status"), objects
        )
        yield wanted
        yield _tallied(_family("taskgroups", "Taskgroups by status", "namespace", "application", "status"), counts)
        words = "Applications without series of their own: there are more than metrics.application_series"
        yield _gauge("applications_without_series", words, {}, summed)
        yield self._unhealthy(state)
        if self._taskgroup_label:
            info = _family(
                "taskgroup_info", "Status of a taskgroup as a number", "namespace", "application", "taskgroup"
            )
            for group in list(state.taskgroups.values()):
                number = TASKGROUP_NUMBER.get(group.status, OTHER)
                info.add_metric([group.namespace, group.application, group.id], number)
            yield info

    def _endpoints(self, leading: Leading) -> Iterator[GaugeMetricFamily]:
        count: Tally[Labels] = Tally()
        endpoints = leading.core.state.endpoints
        self._services.keep(endpoints)
        for endpoint in list(endpoints.values()):
            labels = self._services.labels(endpoint.namespace, endpoint.name)
            ready = sum(member.ready for member in endpoint.members)
            count[*labels, "ready"] += ready
            count[*labels, "not_ready"] += len(endpoint.members) - ready
        yield _tallied(
            _family("endpoint_members", "Taskgroups behind a service", "namespace", "service", "state"), count
        )
        status = leading.publishing()
        if status is not None:
            yield _gauge("publishing", "1 while services are published in ZooKeeper", {}, float(not status.problem))
            yield _gauge("publish_pending", "Services and endpoints that wait to be published", {}, status.pending)

    def _unhealthy(self, state: State) -> GaugeMetricFamily:
        """Applications without any have no series, and are not looked at."""
        count: Tally[Labels] = Tally()
        for key in state.unhealthy_applications():
            for group in list(state.groups_of(key).values()):
                failing = sum(task.healthy is False and not task.ended for task in group.tasks)
                if failing:
                    count[self._applications.labels(group.namespace, group.application)] += failing
        words = "Tasks that run and fail a health check"
        return _tallied(_family("unhealthy_tasks", words, "namespace", "application"), count)

    def _agents(self, core: Core) -> Iterator[GaugeMetricFamily]:
        """Agents that share an address (several on one machine) are added up: a series may appear only once."""
        settings = list(core.state.agent_settings.values())
        disabled = {s.agent for s in settings if s.disabled}
        drains = Tally(SHOWN[s.drain.phase] for s in settings if s.drain)
        drained = _family("agent_drains", "Agents that are being drained or have been", "state")
        for name in ("draining", "drained", "failed"):
            drained.add_metric([name], drains[name])
        yield drained
        for resource, title, name in (("cpus", "CPU in cores", "cpu"), ("mem", "Memory in MB", "memory")):
            total: Tally[str] = Tally()
            remain: Tally[str] = Tally()
            available = 0
            for agent in core.agents:
                whole = agent.total.get(resource, 0)
                free = whole - agent.allocated.get(resource, 0)
                total[agent.ip or agent.hostname] += whole
                remain[agent.ip or agent.hostname] += free
                if agent.active and agent.key not in disabled:
                    available += free
            for what, amounts in (("total", total), ("remain", remain)):
                family = _family(
                    f"agent_{name}_resource_{what}", f"{title} of an agent, {what}", "InnerIP", "clusterId"
                )
                for address, amount in amounts.items():
                    family.add_metric([address, self._cluster], recorded(resource).displayed(amount))
                yield family
            sums = {"total": total.total(), "remain": remain.total(), "available": available}
            for what, amount in sums.items():
                yield _gauge(
                    f"cluster_{name}_resource_{what}",
                    f"{title} of all agents, {what}",
                    {"clusterId": self._cluster},
                    round(recorded(resource).displayed(amount), 2),
                )


def _unreadable(counts: Mapping[str, int]) -> CounterMetricFamily:
    """`counts`: number of unreadable documents by fault."""
    family = CounterMetricFamily(
        PREFIX + "executor_unreadable", "Documents of executors that could not be read", labels=["reason"]
    )
    for reason, count in counts.items():
        family.add_metric([reason.replace(" ", "_").lower()], count)
    return family


def _fetched(results: Mapping[str, int]) -> CounterMetricFamily:
    """`results`: reads of last outputs from agents by result (bcs_scheduler.agentapi.last_outputs.RESULTS)."""
    words = "Reads of last outputs of failed tasks from agents"
    family = CounterMetricFamily(PREFIX + "failed_outputs_fetched", words, labels=["result"])
    for result, count in results.items():
        family.add_metric([result], count)
    return family


def _outputs(core: Core) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
    number, size = core.outputs.kept
    yield _gauge("failed_outputs", "Last outputs of failed tasks that are kept", {}, number)
    yield _gauge("failed_outputs_bytes", "Size of the last outputs in the store, in bytes", {}, 1000.0 * size)
    words = "Last outputs of failed tasks that were not kept: too many at once"
    dropped = CounterMetricFamily(PREFIX + "failed_outputs_dropped", words)
    dropped.add_metric([], core.outputs.dropped)
    yield dropped


def _work(core: Core) -> Iterator[GaugeMetricFamily]:
    active = _family("transactions_active", "Transactions that have not ended", "type")
    for kind, count in Tally(t.type for t in core.state.active_transactions()).items():
        active.add_metric([kind], count)
    yield active
    yield _gauge("pending_taskgroups", "Taskgroups that wait for a place", {}, core.pending)
    halted = float(core.state.framework.halt is not None)
    yield _gauge("replacements_halted", "1 while a large loss stops the replacement of lost taskgroups", {}, halted)
    unknown = float(core.state.framework.unknown is not None)
    yield _gauge("unknown_tasks_halted", "1 while tasks that the store does not know stop all launches", {}, unknown)
    yield _gauge("offers_held", "Offers held now", {}, len(core.turn_context.pool.hand))
    yield _gauge(
        "unanswered_reconciliations", "Tasks that Mesos was asked about, without an answer yet", {}, core.open_questions
    )


def _standby(following: FollowerStatus) -> Iterator[GaugeMetricFamily]:
    if following.age is not None:
        yield _gauge(
            "standby_lag_seconds",
            "Age of the records of this standby, in seconds since the start of its last read",
            {},
            following.age,
        )
    if following.position is not None:
        position = _family("standby_position", "Last commit this standby has followed", "part")
        position.add_metric(["epoch"], following.position.epoch)
        position.add_metric(["number"], following.position.number)
        yield position
    yield _gauge("standby_records", "Records that this standby holds", {}, following.records)
    yield _gauge("standby_quarantined_records", "Records that this standby could not decode", {}, following.quarantined)


def _family(name: str, documentation: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(PREFIX + name, documentation, labels=labels)


def _tallied(family: GaugeMetricFamily, count: Mapping[Labels, int]) -> GaugeMetricFamily:
    for labels, number in count.items():
        family.add_metric(list(labels), number)
    return family


def _gauge(name: str, documentation: str, labels: Mapping[str, str], value: float) -> GaugeMetricFamily:
    family = _family(name, documentation, *labels)
    family.add_metric(list(labels.values()), value)
    return family
