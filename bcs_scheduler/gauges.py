"""What is read from the live state when somebody scrapes: nothing is counted beside it, nothing runs in between.

Units: agent and cluster CPU in cores, memory in MB. A process that does not lead shows only what is known of itself:
the cluster is the leader's to describe.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from bcs_scheduler.core.scheduler import Core
from bcs_scheduler.exposition import PREFIX
from bcs_scheduler.gateway import Role
from bcs_scheduler.hub import Hub
from bcs_scheduler.publishing.publisher import Status as PublishingStatus
from bcs_scheduler.series import Individuals, Labels
from bcs_scheduler.standby import Following
from bcs_scheduler.version import VERSION
from offers.agents import agent_key
from store.state import State
from transactions.lifecycle import serves

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
}
"""Status of an application -> label `status` of object_resource_info (bcs_internals 8)."""
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
"""Status of a taskgroup -> value of taskgroup_info; everything else is 5 (bcs_internals 8)."""
OTHER = 5
THOUSANDTHS = 1000.0


class Leading(NamedTuple):
    """What is to be seen of a term of leadership. Everything may be read by any thread."""

    core: Core
    epoch: int
    quarantined: int
    """Records that could not be decoded when the term began."""
    queues: Callable[[], dict[str, int]]
    mesos: Callable[[], dict[str, Any]]
    """Status of the driver; `connected` is looked at."""
    stalled_for: Callable[[], float]
    publishing: Callable[[], PublishingStatus | None] = lambda: None
    hub: Hub | None = None


class Gauges(Collector):
    def __init__(self, cluster: str, taskgroup_label: bool, individuals: Individuals, most: int) -> None:
        """`individuals`: the applications with series of their own; of other kinds there are at most `most` with such.
        The others of a kind are added up under empty labels."""
        self._cluster = cluster
        self._taskgroup_label = taskgroup_label
        self._applications = individuals
        self._deployments, self._services = Individuals(most), Individuals(most)
        self.role: Role = "unknown"
        self.leading: Leading | None = None
        self.following: Callable[[], Following] | None = None
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
            yield from self._agents(leading.core)

    def _process(self, leading: Leading) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        yield _gauge("epoch", "Epoch of the term of leadership", {}, leading.epoch)
        connected = bool(leading.mesos().get("connected"))
        yield _gauge("mesos_connected", "1 while subscribed with a Mesos master", {}, float(connected))
        removed = float(bool(leading.core.fatal))
        yield _gauge("framework_removed", "1 if Mesos will not have this framework any more", {}, removed)
        yield _gauge("store_stalled_seconds", "Seconds for which no commit has got through", {}, leading.stalled_for())
        quarantined = leading.quarantined
        yield _gauge("quarantined_records", "Records that could not be decoded at take-over", {}, quarantined)
        yield _unreadable(leading.mesos().get("garbage", {}))
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
            "daemonset_taskgroups", "Agents for it, and its ready taskgroups", "namespace", "name", "state"
        )
        for daemonset in list(state.daemonsets.values()):
            names = (daemonset.namespace, daemonset.name)
            objects["daemonset", *names, DAEMONSET_STATUS.get(daemonset.status, "operating")] += 1
            app_behind = state.applications.get(daemonset.key)
            wanted.add_metric([*names, "desired"], app_behind.instances if app_behind is not None else 0)
            ready = sum(map(serves, list(state.groups_of(daemonset.key).values())))
            wanted.add_metric([*names, "ready"], ready)
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
            yield _gauge("publishing", "1 while services are published in ZooKeeper", {}, float(not status.trouble))
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
        drains = Tally(
            "failed" if s.drain.failed else "drained" if s.drain.done_at else "draining" for s in settings if s.drain
        )
        drained = _family("agent_drains", "Agents that are being drained or have been", "state")
        for name in ("draining", "drained", "failed"):
            drained.add_metric([name], drains[name])
        yield drained
        for resource, title, name in (("cpus", "CPU in cores", "cpu"), ("mem", "Memory in MB", "memory")):
            total: Tally[str] = Tally()
            remain: Tally[str] = Tally()
            available = 0
            for agent in core.agents:
                whole = agent["total"].get(resource, 0)
                free = whole - agent["allocated"].get(resource, 0)
                total[agent["ip"] or agent["hostname"]] += whole
                remain[agent["ip"] or agent["hostname"]] += free
                if agent["active"] and agent_key(agent) not in disabled:
                    available += free
            for what, amounts in (("total", total), ("remain", remain)):
                family = _family(
                    f"agent_{name}_resource_{what}", f"{title} of an agent, {what}", "InnerIP", "clusterId"
                )
                for address, amount in amounts.items():
                    family.add_metric([address, self._cluster], amount / THOUSANDTHS)
                yield family
            sums = {"total": total.total(), "remain": remain.total(), "available": available}
            for what, amount in sums.items():
                yield _gauge(
                    f"cluster_{name}_resource_{what}",
                    f"{title} of all agents, {what}",
                    {"clusterId": self._cluster},
                    round(amount / THOUSANDTHS, 2),
                )


def _unreadable(counts: Mapping[str, int]) -> CounterMetricFamily:
    """`counts`: by what is wrong with the documents."""
    family = CounterMetricFamily(
        PREFIX + "executor_unreadable", "Documents of executors that could not be read", labels=["reason"]
    )
    for reason, count in counts.items():
        family.add_metric([reason.replace(" ", "_").lower()], count)
    return family


def _work(core: Core) -> Iterator[GaugeMetricFamily]:
    active = _family("transactions_active", "Transactions that have not ended", "type")
    for kind, count in Tally(t.type for t in core.state.active_transactions()).items():
        active.add_metric([kind], count)
    yield active
    yield _gauge("pending_taskgroups", "Taskgroups that wait for a place", {}, core.pending)
    yield _gauge("offers_held", "Offers held now", {}, len(core.desk.pool))
    yield _gauge(
        "unanswered_reconciliations", "Tasks whose state Mesos was asked for without an answer", {}, core.open_questions
    )


def _standby(following: Following) -> Iterator[GaugeMetricFamily]:
    if following.age is not None:
        yield _gauge(
            "standby_lag_seconds", "Age of what this standby shows: since its last read began", {}, following.age
        )
    if following.position is not None:
        position = _family("standby_position", "Last commit this standby has followed", "part")
        position.add_metric(["epoch"], following.position.epoch)
        position.add_metric(["number"], following.position.number)
        yield position
    yield _gauge("standby_records", "Records that this standby holds", {}, following.records)
    yield _gauge("standby_quarantined_records", "Records it could not decode", {}, following.quarantined)


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
