"""bcs_scheduler.observability.metrics and gauges: names, labels, buckets, what is shown when, and that gone objects
go."""

from __future__ import annotations

import re
import time
from pathlib import Path

import msgspec
import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from bcs_scheduler.core.interface.cluster_manager import AgentsListed
from bcs_scheduler.core.interface.effects import LogLine, Observed
from bcs_scheduler.observability.metrics import MOVES, PART_FAILURES, PLUGIN_FAULTS, SESSION, Metrics
from bcs_scheduler.observability.queues import QUEUES
from bcs_scheduler.observability.series import LINGER
from bcs_scheduler.prober.probe import Verdict
from store.base import Change
from store.records import AgentSetting, Deployment, Endpoint, Member
from tests.unit.lab import Lab
from tests.unit.metrics_support import (
    LAUNCHED,
    NOW,
    OOM,
    PREFIX,
    Clock,
    agent,
    application,
    core_of,
    feed,
    lead,
    leading,
    named,
    samples,
    taskgroup,
    transaction,
    value,
)

# --- the original's six -------------------------------------------------------------------------------------------


def test_the_six_metrics_have_the_names_and_labels_of_the_original() -> None:
    metrics = Metrics(application_histograms=True)
    lead(metrics, application("web"))
    feed(metrics)
    feed(metrics, LAUNCHED)
    group = {"namespace": "ns", "application": "web", "taskgroup": ""}
    app = {"namespace": "ns", "application": "web"}
    assert value(metrics, "schedule_taskgroup_total", **group, type="launch") == 2
    assert value(metrics, "schedule_taskgroup_latency_ms_sum", **group, type="launch") == 140.0
    assert value(metrics, "schedule_taskgroup_latency_ms_bucket", **group, type="launch", le="50.0") == 0
    assert value(metrics, "schedule_taskgroup_latency_ms_bucket", **group, type="launch", le="100.0") == 2
    assert value(metrics, "operate_application_total", **app, type="launch") == 1
    assert value(metrics, "operate_application_latency_second_sum", **app, type="launch") == 3.0
    assert value(metrics, "taskgroup_report_total", **group, status="Running") == 1
    assert value(metrics, "application_oom_total", **app) == 1


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [("schedule_taskgroup_latency_ms", 10.0, 300_000.0), ("operate_application_latency_second", 0.1, 7500.0)],
)
def test_buckets_suit_the_unit(name: str, first: float, last: float) -> None:
    metrics = Metrics()
    lead(metrics, application("web"))
    feed(metrics)
    bounds = sorted({float(dict(labels)["le"]) for found, labels in samples(metrics) if found == f"{name}_bucket"})
    assert (bounds[0], bounds[-2], bounds[-1]) == (first, last, float("inf"))
    assert len(bounds) <= 16


def test_the_taskgroup_label_is_filled_where_it_is_asked_for() -> None:
    metrics = Metrics(taskgroup_label=True)
    lead(metrics, application("web"), taskgroup("web", 0), taskgroup("web", 1, "Lost"))
    feed(metrics)
    group = {"namespace": "ns", "application": "web", "taskgroup": "web-0"}
    assert value(metrics, "schedule_taskgroup_total", **group, type="launch") == 1
    assert value(metrics, "taskgroup_report_total", **group, status="Running") == 1
    info = {"namespace": "ns", "application": "web"}
    assert value(metrics, "taskgroup_info", **info, taskgroup="0.web.ns.cluster.1000") == 1
    assert value(metrics, "taskgroup_info", **info, taskgroup="1.web.ns.cluster.1001") == 4


def test_everything_the_core_counts_is_a_metric() -> None:
    """Names given to `count` in the pure rooms, read from their source: an unknown one would be lost."""
    root = Path(__file__).parents[2]
    sources = [*root.glob("transactions/**/*.py"), *root.glob("bcs_scheduler/core/**/*.py")]
    names = {name for path in sources for name in re.findall(r'\.count\(\s*"(\w+)"', path.read_text())}
    assert names == {
        "schedule_taskgroup",
        "operate_application",
        "taskgroup_report",
        "application_oom",
        "task_health",
        "message_completed",
        "policy_session",
        "policy_decisions",
        "policy_plugin_faults",
        "part_failures",
        "queue_evictions",
        "rebalance_moves",
    }
    assert names == Metrics()._objects.names | {SESSION, MOVES, PLUGIN_FAULTS, PART_FAILURES, *QUEUES}


def test_moves_of_rebalancing_are_counted_by_goal() -> None:
    metrics = Metrics()
    lead(metrics)
    for goal in ("pack", "pack", "spread"):
        feed(metrics, Observed(name=MOVES, labels=(goal,), value=1.0))
    assert value(metrics, "rebalance_moves_total", goal="pack") == 2


# --- series of what is gone ---------------------------------------------------------------------------------------


def test_series_of_a_deleted_application_disappear_after_its_last_sample_could_be_read() -> None:
    clock = Clock()
    metrics = Metrics(clock=clock)
    core = lead(metrics, application("web"), application("other"))
    feed(metrics)
    feed(metrics, Observed(name="application_oom", labels=("ns", "other")))
    core.state.apply("application", "ns/web", None)
    feed(metrics, Observed(name="operate_application", labels=("ns", "web", "delete"), value=2.0))
    assert value(metrics, "operate_application_total", namespace="ns", application="web", type="delete") == 1
    clock.now += LINGER / 2
    assert "operate_application_total" in named(metrics, "web")
    clock.now += LINGER / 2
    assert named(metrics, "web") == set()
    assert named(metrics, "other") == {"application_oom_total", "object_resource_info"}


def test_an_application_made_again_under_its_name_keeps_its_series() -> None:
    clock = Clock()
    metrics = Metrics(clock=clock)
    core = lead(metrics, application("web"))
    feed(metrics)
    core.state.apply("application", "ns/web", None)
    metrics.render()
    clock.now += LINGER - 1
    core.state.apply("application", "ns/web", application("web"))
    metrics.render()
    core.state.apply("application", "ns/web", None)
    clock.now += LINGER - 1
    assert value(metrics, "application_oom_total", namespace="ns", application="web") == 1
    clock.now += LINGER
    assert named(metrics, "web") == set()


def test_series_of_a_removed_taskgroup_disappear() -> None:
    clock = Clock()
    metrics = Metrics(taskgroup_label=True, clock=clock)
    groups = [taskgroup("web", 0), taskgroup("web", 1)]
    core = lead(metrics, application("web"), *groups)
    feed(metrics, LAUNCHED, msgspec.structs.replace(LAUNCHED, labels=("ns", "web", "web-1", "launch")))
    core.state.apply("taskgroup", groups[1].id, None)
    metrics.render()
    clock.now += LINGER
    assert named(metrics, "web-1") == set()
    assert "schedule_taskgroup_total" in named(metrics, "web-0")


def test_series_do_not_pile_up_where_nobody_scrapes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bcs_scheduler.observability.series.CROWD", 10)
    clock = Clock()
    metrics = Metrics(clock=clock)
    core = lead(metrics)
    for number in range(2000):
        clock.now += 60.0
        core.state.apply("application", f"ns/app{number}", application(f"app{number}"))
        feed(metrics, Observed(name="application_oom", labels=("ns", f"app{number}")))
        core.state.apply("application", f"ns/app{number}", None)
    assert len(metrics._objects) < 100


def test_series_of_applications_end_with_the_term() -> None:
    metrics = Metrics()
    lead(metrics, application("web"))
    feed(metrics)
    metrics.lead(None)
    metrics.role = "slave"
    feed(metrics)
    assert named(metrics, "web") == set()
    lead(metrics, application("web"))
    feed(metrics, OOM)
    assert value(metrics, "application_oom_total", namespace="ns", application="web") == 1


# --- gauges -------------------------------------------------------------------------------------------------------


def test_the_role_is_shown_and_a_standby_describes_only_itself() -> None:
    metrics = Metrics("BCS-1")
    assert value(metrics, "role", role="unknown") == 1
    metrics.role = "slave"
    shown = samples(metrics)
    assert [dict(labels)["role"] for (name, labels), on in shown.items() if name == "role" and on] == ["slave"]
    cluster = ("epoch", "mesos_connected", "offers_held", "pending_taskgroups", "cluster_cpu_resource_total")
    assert not {name for name, _ in shown} & set(cluster)
    assert sum(on for (name, _), on in shown.items() if name == "build_info") == 1


def test_the_leader_shows_its_term_and_queues() -> None:
    metrics = Metrics()
    core = core_of()
    core.fatal = "framework removed"
    metrics.lead(leading(core, epoch=9, quarantined=2, connected=False))
    assert value(metrics, "epoch") == 9
    assert value(metrics, "quarantined_records") == 2
    assert value(metrics, "mesos_connected") == 0
    assert value(metrics, "framework_removed") == 1
    assert value(metrics, "store_stalled_seconds") == 0
    assert value(metrics, "executor_unreadable_total", reason="not_json") == 3
    assert value(metrics, "publish_pending") == 8
    assert value(metrics, "publishing") == 0
    depths = {name: value(metrics, "queue_depth", queue=name) for name in ("inbox", "commit", "replies", "mesos")}
    assert depths == {"inbox": 4, "commit": 5, "replies": 6, "mesos": 7}
    assert value(metrics, "offers_held") == 0
    assert value(metrics, "pending_taskgroups") == 0
    assert value(metrics, "unanswered_reconciliations") == 0


def test_objects_and_transactions_are_counted_at_the_scrape() -> None:
    metrics = Metrics()
    core = lead(
        metrics,
        application("a", "Running"),
        application("b", "Abnormal"),
        application("c", "RollingUpdate"),
        application("d", "Finish"),
        *(taskgroup("a", n) for n in range(3)),
        taskgroup("a", 3, "Lost"),
        *(transaction(f"t-{n}", "RESCHEDULE") for n in range(2)),
        transaction("t-9", "LAUNCH", "FINISH"),
    )
    objects = {"resource": "application", "namespace": "ns"}
    for name, status in (("a", "running"), ("b", "failed"), ("c", "operating"), ("d", "finish")):
        assert value(metrics, "object_resource_info", **objects, name=name, status=status) == 1
    counted = {"namespace": "ns", "application": "a"}
    assert value(metrics, "taskgroups", **counted, status="Running") == 3
    assert value(metrics, "taskgroups", **counted, status="Lost") == 1
    assert value(metrics, "transactions_active", type="RESCHEDULE") == 2
    assert value(metrics, "transactions_active", type="LAUNCH") is None
    core.state.apply("application", "ns/a", application("a", "Error"))
    assert value(metrics, "object_resource_info", **objects, name="a", status="failed") == 1
    assert value(metrics, "object_resource_info", **objects, name="a", status="running") is None
    assert not any(name == "taskgroup_info" for name, _ in samples(metrics))


def test_deployments_are_objects_too() -> None:
    metrics = Metrics()
    statuses = {"Running": "running", "UpdateSuspend": "failed", "Update": "operating", "Deleting": "operating"}
    records = [Deployment(namespace="ns", name=name.lower(), status=name) for name in statuses]  # type: ignore[arg-type]
    lead(metrics, *records)
    for name, status in statuses.items():
        found = {"resource": "deployment", "namespace": "ns", "name": name.lower()}
        assert value(metrics, "object_resource_info", **found, status=status) == 1


def test_resources_of_agents_and_of_the_cluster() -> None:
    metrics = Metrics("BCS-1")
    core = lead(metrics, AgentSetting(agent="10.0.0.2", disabled=True))
    agents = (agent(1, "10.0.0.1", mem=1_000_000), agent(2, "10.0.0.2"), agent(3, "10.0.0.3", active=False))
    core.turn([AgentsListed(agents=agents)], NOW)
    one = {"InnerIP": "10.0.0.1", "clusterId": "BCS-1"}
    assert value(metrics, "agent_cpu_resource_total", **one) == 8.0
    assert value(metrics, "agent_cpu_resource_remain", **one) == 6.5
    assert value(metrics, "agent_memory_resource_total", **one) == 16_384.0
    assert value(metrics, "agent_memory_resource_remain", **one) == 15_384.0
    assert value(metrics, "cluster_cpu_resource_total", clusterId="BCS-1") == 24.0
    assert value(metrics, "cluster_cpu_resource_remain", clusterId="BCS-1") == 19.5
    assert value(metrics, "cluster_cpu_resource_available", clusterId="BCS-1") == 6.5
    assert value(metrics, "cluster_memory_resource_available", clusterId="BCS-1") == 15_384.0


def test_agents_on_one_machine_are_added_up() -> None:
    metrics = Metrics("BCS-1")
    core = lead(metrics)
    core.turn([AgentsListed(agents=(agent(1, "127.0.0.1"), agent(2, "127.0.0.1")))], NOW)
    assert value(metrics, "agent_cpu_resource_remain", InnerIP="127.0.0.1", clusterId="BCS-1") == 13.0


# --- what the running parts measure -------------------------------------------------------------------------------


def test_turns_commits_loads_and_stories_are_measured() -> None:
    metrics = Metrics()
    metrics.turn_ended(5, 0.002)
    metrics.turn_ended(0, 0.001)
    changes = [Change("agentsetting", key, AgentSetting(agent=key)) for key in "ab"]
    changes.append(Change("taskgroup", "t", None))
    metrics.committed(changes, 0.004)
    metrics.commit_failed(changes)
    metrics.loaded(40, 0.5)
    metrics.logged(LogLine(kind="transaction", key="t-1", reason="TransactionTimedOut", message=""))
    assert value(metrics, "events_total") == 5
    assert value(metrics, "turn_duration_seconds_count") == 2
    assert value(metrics, "commit_latency_ms_sum") == 4.0
    assert value(metrics, "committed_records_total", kind="agentsetting") == 2
    assert value(metrics, "committed_records_total", kind="taskgroup") == 1
    operators = {
        name: value(metrics, "storage_operator_total", operator=name) for name in ("update", "delete", "fetch")
    }
    assert operators == {"update": 2, "delete": 1, "fetch": 40}
    assert value(metrics, "storage_operator_failed_total", operator="update") == 2
    assert value(metrics, "storage_operator_latency_ms_sum", operator="delete") == 4.0
    assert value(metrics, "storage_operator_latency_ms_sum", operator="fetch") == 500.0
    assert value(metrics, "recorded_events_total", kind="transaction", reason="TransactionTimedOut") == 1


def test_process_metrics_are_there_and_no_created_series() -> None:
    text = Metrics().render().decode()
    assert "process_resident_memory_bytes " in text
    assert "_created" not in text


def test_scraping_ten_thousand_taskgroups_is_quick() -> None:
    """Measured in CPU time of this thread: what else runs on the machine does not matter."""
    metrics = Metrics()
    apps = [application(f"app{n}") for n in range(100)]
    groups = [taskgroup(f"app{n}", index) for n in range(100) for index in range(100)]
    core = lead(metrics, *apps, *groups)
    core.turn([AgentsListed(agents=tuple(agent(n, f"10.0.{n // 250}.{n % 250}") for n in range(1000)))], NOW)
    for group in groups:
        name = f"{group.application}-{group.index}"
        feed(metrics, msgspec.structs.replace(LAUNCHED, labels=("ns", group.application, name, "launch")))
    metrics.render()
    durations = []
    for _ in range(3):
        began = time.thread_time()
        metrics.render()
        durations.append(time.thread_time() - began)
    assert min(durations) < 0.3


def test_label_values_are_escaped_and_the_text_is_what_prometheus_client_writes() -> None:
    metrics = Metrics('a "quoted"\\ name\nof two lines')
    core = lead(metrics, application("web"), taskgroup("web", 0))
    core.turn([AgentsListed(agents=(agent(1, "10.0.0.1"),))], NOW)
    feed(metrics)
    ours = samples(metrics)
    theirs = generate_latest(metrics.registry).decode()
    parsed = {
        (sample.name.removeprefix(PREFIX), frozenset(sample.labels.items()))
        for family in text_string_to_metric_families(theirs)
        for sample in family.samples
        if sample.name.startswith(PREFIX)
    }
    assert set(ours) == parsed
    assert value(metrics, "cluster_cpu_resource_total", clusterId='a "quoted"\\ name\nof two lines') == 8.0


def test_unhealthy_tasks_are_counted_by_application() -> None:
    metrics = Metrics()
    groups = [taskgroup("a", 0), taskgroup("a", 1), taskgroup("b", 0), taskgroup("c", 0)]
    for number, changes in ((0, {"healthy": False}), (1, {"healthy": False}), (3, {"healthy": False, "ended": True})):
        task = msgspec.structs.replace(groups[number].tasks[0], **changes)
        groups[number] = msgspec.structs.replace(groups[number], tasks=(task,))
    lead(metrics, *(application(name) for name in "abc"), *groups)
    shown = {
        dict(labels)["application"]: on for (name, labels), on in samples(metrics).items() if name == "unhealthy_tasks"
    }
    assert shown == {"a": 2}


def test_probes_are_counted_by_type_and_result() -> None:
    metrics = Metrics()
    for verdict in (Verdict(True, "200"), Verdict(False, "500"), Verdict(False, "timed out", timed_out=True)):
        metrics.probed("REMOTE_HTTP", verdict, 0.2)
    for result in ("healthy", "unhealthy", "timeout"):
        assert value(metrics, "health_probe_total", type="REMOTE_HTTP", result=result) == 1
    assert value(metrics, "health_probe_lag_seconds_bucket", le="0.1") == 0
    assert value(metrics, "health_probe_lag_seconds_bucket", le="0.25") == 3


def test_members_of_services_by_state() -> None:
    metrics = Metrics()
    core = lead(metrics)
    members = tuple(Member(taskgroup=f"{n}.a.ns.c.1", name=f"a-{n}", application="a", ready=n > 0) for n in range(3))
    core.state.apply("endpoint", "ns/a", Endpoint(namespace="ns", name="a", members=members))
    counts = [value(metrics, "endpoint_members", namespace="ns", service="a", state=s) for s in ("ready", "not_ready")]
    assert counts == [2, 1]


def test_alarms_and_watchers_are_counted() -> None:
    metrics = Metrics("BCS-1")
    lead(metrics)
    for outcome in ("sent", "suppressed", "suppressed"):
        metrics.alarmed(outcome)
    assert value(metrics, "alarms_total", outcome="sent") == 1.0
    assert value(metrics, "alarms_total", outcome="suppressed") == 2.0
    assert value(metrics, "newest_event") == 41.0
    assert (value(metrics, "watchers"), value(metrics, "slow_watchers_total")) == (0.0, 0.0)


def test_durations_are_counted_in_seconds_and_shown_in_the_unit_of_the_metric_s_name() -> None:
    """A launch that waited 7 s for an offer, from the core to the histograms: milliseconds, and seconds."""
    lab = Lab()
    lab.create(1)
    lab.wait(7.0)
    lab.offer()
    counted = [effect for effect in lab.sent(Observed) if effect.name in ("schedule_taskgroup", "operate_application")]
    assert {effect.name for effect in counted} == {"schedule_taskgroup", "operate_application"}
    metrics = Metrics(application_histograms=True)
    lead(metrics, *lab.records())
    for effect in counted:
        assert effect.value == pytest.approx(7.0, abs=0.5)
        metrics.observe(effect)
    shown = {name: value for (name, _), value in samples(metrics).items()}
    assert shown["schedule_taskgroup_latency_ms_sum"] == pytest.approx(7000.0, abs=500.0)
    assert shown["operate_application_latency_second_sum"] == pytest.approx(7.0, abs=0.5)
