"""What tests of the metrics share: objects to be measured, and reading what is scraped."""

from __future__ import annotations

from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from bcs_scheduler.core.interface.effects import Observed
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.scheduler import Core
from bcs_scheduler.leadership.hub import Hub
from bcs_scheduler.leadership.listeners import Leading
from bcs_scheduler.observability.metrics import Metrics
from bcs_scheduler.publishing.status import Status
from offers.agents import ListedAgent
from store.records import Application, Record, Task, TaskGroup, Transaction

PREFIX = "bkbcs_scheduler_"
NOW = 1_700_000_000.0


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def application(name: str, status: Any = "Running", namespace: str = "ns") -> Application:
    return Application(namespace=namespace, name=name, status=status, instances=2, version="1")


def taskgroup(app: str, index: int, status: Any = "Running", namespace: str = "ns") -> TaskGroup:
    identity = f"{index}.{app}.{namespace}.cluster.{1000 + index}"
    return TaskGroup(
        id=identity, namespace=namespace, application=app, index=index, version="1", agent_id="agent",
        status=status, tasks=(Task(id=f"{1000 + index}.0.{index}.{app}.{namespace}.cluster", status="Running"),),
    )  # fmt: skip


def leading(core: Core, epoch: int = 3, quarantined: int = 0, connected: bool = True) -> Leading:
    return Leading(
        core=core,
        epoch=epoch,
        quarantined=quarantined,
        queues=lambda: {"inbox": 4, "commit": 5, "replies": 6, "mesos": 7},
        mesos=lambda: {"connected": connected, "garbage": {"not JSON": 3}, "outputs": {"empty": 1}},
        stalled_for=lambda: 0.0,
        hub=Hub(latest=41, most=5),
        publishing=lambda: Status(connected=False, pending=8, problem="no connection", since=0.0),
    )


def core_of(*records: Record) -> Core:
    return Core(records, CoreOptions(), NOW)


def lead(metrics: Metrics, *records: Record) -> Core:
    core = core_of(*records)
    metrics.role = "master"
    metrics.lead(leading(core))
    return core


def samples(metrics: Metrics) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Value by name and labels, of our own metrics; fails on a series that appears twice."""
    found: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for family in text_string_to_metric_families(metrics.render().decode()):
        for sample in family.samples:
            key = (sample.name.removeprefix(PREFIX), frozenset(sample.labels.items()))
            assert key not in found, f"{key} appears twice"
            if sample.name.startswith(PREFIX):
                found[key] = sample.value
    return found


def value(metrics: Metrics, metric: str, /, **labels: str) -> float | None:
    return samples(metrics).get((metric, frozenset(labels.items())))


def named(metrics: Metrics, word: str) -> set[str]:
    """Names of the series that carry this label value."""
    return {name for name, labels in samples(metrics) if word in dict(labels).values()}


LAUNCHED = Observed(name="schedule_taskgroup", labels=("ns", "web", "web-0", "launch"), value=0.07)
ENDED = Observed(name="operate_application", labels=("ns", "web", "launch"), value=3.0)
REPORTED = Observed(name="taskgroup_report", labels=("ns", "web", "web-0", "Running"))
OOM = Observed(name="application_oom", labels=("ns", "web"))
SICK = Observed(name="task_health", labels=("ns", "web", "unhealthy"))
ANSWERED = Observed(name="message_completed", labels=("ns", "web", "signal", "success"))
DECIDED = Observed(name="policy_decisions", labels=("default", "launch"))
EVICTED = Observed(name="queue_evictions", labels=("default", "default", "preempt"))
SESSION = Observed(name="policy_session", value=0.02)
FAULT = Observed(name="policy_plugin_faults", labels=("power", "hung"))
FAILURE = Observed(name="part_failures", labels=("services", "tick"))
MOVE = Observed(name="rebalance_moves", labels=("pack",))


def feed(metrics: Metrics, *observed: Observed) -> None:
    usual = (LAUNCHED, ENDED, REPORTED, OOM, SICK, ANSWERED, DECIDED, EVICTED, SESSION, FAULT, FAILURE, MOVE)
    for item in observed or usual:
        metrics.observe(item)


def transaction(identity: str, kind: Any, status: Any = "INIT") -> Transaction:
    return Transaction(
        id=identity, type=kind, namespace="ns", application="a", status=status, created_at=NOW, due_at=NOW,
        deadline=NOW + 480,
    )  # fmt: skip


def agent(number: int, ip: str, active: bool = True, **allocated: int) -> ListedAgent:
    return ListedAgent(
        id=f"agent-{number}",
        hostname=f"host-{number}",
        ip=ip,
        active=active,
        attributes={"InnerIP": ip},
        total={"cpus": 8000, "mem": 16_384_000},
        allocated={"cpus": 1500, **allocated},
    )
