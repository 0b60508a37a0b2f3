"""The metrics of very many applications: bounded in size and time, and sums over all series stay true."""

from __future__ import annotations

from time import process_time
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from bcs_scheduler.core.interface.effects import Observed
from bcs_scheduler.observability.metrics import Metrics
from bcs_scheduler.observability.series import LINGER
from store.records import Daemonset, Deployment, Endpoint, Member
from store.state import State
from tests.counting import Calls
from tests.unit.metrics_support import Clock, application, core_of, lead, leading, samples, taskgroup, value

pytestmark = pytest.mark.rotating

APPLICATIONS = 10_000


def observe(metrics: Metrics, name: str, namespace: str = "ns") -> None:
    """What a launch of one taskgroup and its first reports are counted as."""
    metrics.observe(Observed(name="schedule_taskgroup", labels=(namespace, name, "", "launch"), value=0.07))
    for status in ("Starting", "Running"):
        metrics.observe(Observed(name="taskgroup_report", labels=(namespace, name, "", status)))
    metrics.observe(Observed(name="operate_application", labels=(namespace, name, "launch"), value=3.0))


def large(metrics: Metrics, count: int = APPLICATIONS) -> None:
    records: list[Any] = []
    for number in range(count):
        name = f"an-application-{number:05}"
        records += (application(name), taskgroup(name, 0))
    core: Any = core_of()
    core.state = State(records)
    shown = SimpleNamespace(
        state=core.state,
        fatal="",
        turn_context=core.turn_context,
        agents=[],
        pending=0,
        open_questions=0,
        outputs=SimpleNamespace(kept=(0, 0), dropped=0),
    )
    metrics.lead(leading(shown))  # type: ignore[arg-type]
    for record in records[::2]:
        observe(metrics, record.name)


Found = dict[tuple[str, frozenset[tuple[str, str]]], float]


def total(found: Found, name: str, **labels: str) -> float:
    """Over all series with these labels."""
    wanted = set(labels.items())
    return sum(amount for (series, own), amount in found.items() if series == name and wanted <= own)


@pytest.mark.slow
@pytest.mark.costs
def test_a_scrape_of_ten_thousand_applications_is_small_and_quick() -> None:
    metrics = Metrics()
    large(metrics)
    spent = []
    for _ in range(3):
        began = process_time()
        text = metrics.render()
        spent.append(process_time() - began)
    assert len(text) < 5_000_000
    assert min(spent) < 0.3
    found = samples(metrics)
    assert found["applications_without_series", frozenset()] == APPLICATIONS - 2_000
    for name, times in (
        ("schedule_taskgroup_total", 1),
        ("operate_application_total", 1),
        ("taskgroup_report_total", 2),
    ):
        assert total(found, name) == times * APPLICATIONS
    assert total(found, "object_resource_info", resource="application") == APPLICATIONS
    assert total(found, "taskgroups", status="Running") == APPLICATIONS
    assert total(found, "schedule_taskgroup_latency_ms_count") == APPLICATIONS


@pytest.mark.slow
def test_every_application_has_its_series_where_they_are_asked_for() -> None:
    metrics = Metrics(application_series=20_000, application_histograms=True)
    large(metrics, 200)
    found = samples(metrics)
    for name in ("schedule_taskgroup_total", "operate_application_total", "schedule_taskgroup_latency_ms_count"):
        assert sum(series == name for series, _ in found) == 200
    assert value(metrics, "applications_without_series") == 0


def test_a_scrape_costs_the_same_however_many_taskgroups_a_daemonset_has() -> None:
    def scrape(count: int) -> tuple[int, Found]:
        groups = [taskgroup("agent", number) for number in range(count)]
        groups[0] = msgspec.structs.replace(groups[0], status="Failed")
        groups[1] = msgspec.structs.replace(groups[1], killing_since=1.0)
        metrics = Metrics()
        core: Any = core_of()
        core.state = State([application("agent"), Daemonset(namespace="ns", name="agent"), *groups])
        shown = SimpleNamespace(
            state=core.state,
            fatal="",
            turn_context=core.turn_context,
            agents=[],
            pending=0,
            open_questions=0,
            outputs=SimpleNamespace(kept=(0, 0), dropped=0),
        )
        metrics.lead(leading(shown))  # type: ignore[arg-type]
        metrics.render()
        with Calls() as calls:
            metrics.render()
        return calls.number, samples(metrics)

    small, found = scrape(100)
    assert found["daemonset_taskgroups", frozenset({("namespace", "ns"), ("name", "agent"), ("state", "ready")})] == 98
    assert scrape(5_000)[0] == small


def test_histograms_are_added_up_unless_they_are_asked_for() -> None:
    metrics = Metrics()
    lead(metrics, application("a"), application("b"))
    for name in ("a", "b", "b"):
        observe(metrics, name)
    nobodys = {"namespace": "", "application": "", "type": "launch"}
    assert value(metrics, "operate_application_latency_second_count", **nobodys) == 3
    assert value(metrics, "operate_application_latency_second_sum", **nobodys) == 9.0
    assert value(metrics, "operate_application_total", namespace="ns", application="b", type="launch") == 2


def test_an_application_keeps_its_series_and_gives_them_to_another_when_it_has_gone() -> None:
    clock = Clock()
    metrics = Metrics(clock=clock, application_series=1)
    core = lead(metrics, application("old"), application("new"))
    for name in ("old", "new", "old"):
        observe(metrics, name)
    of_old = {"namespace": "ns", "application": "old", "type": "launch"}
    of_nobody = {"namespace": "", "application": "", "type": "launch"}
    assert value(metrics, "operate_application_total", **of_old) == 2
    assert value(metrics, "operate_application_total", **of_nobody) == 1
    core.state.apply("application", "ns/old", None)
    metrics.render()
    clock.now += LINGER
    metrics.render()
    observe(metrics, "new")
    assert value(metrics, "operate_application_total", **of_old) is None
    assert value(metrics, "operate_application_total", namespace="ns", application="new", type="launch") == 1
    assert value(metrics, "operate_application_total", **of_nobody) == 1
    assert value(metrics, "applications_without_series") == 0


def test_deployments_and_services_beyond_the_bound_are_added_up() -> None:
    metrics = Metrics(application_series=1)
    deployments = [Deployment(namespace="ns", name=f"d-{n}", application=f"d-{n}", status="Running") for n in range(3)]
    member = Member(taskgroup="t", name="t", application="d-0", ready=True)
    endpoints = [Endpoint(namespace="ns", name=f"s-{n}", members=(member, member)) for n in range(3)]
    lead(metrics, *deployments, *endpoints)
    assert value(metrics, "object_resource_info", resource="deployment", namespace="", name="", status="running") == 2
    assert value(metrics, "endpoint_members", namespace="ns", service="s-0", state="ready") == 2
    assert value(metrics, "endpoint_members", namespace="", service="", state="ready") == 4


def test_only_applications_with_failing_checks_are_looked_at_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    sick = taskgroup("sick", 0)
    sick = msgspec.structs.replace(sick, tasks=tuple(msgspec.structs.replace(t, healthy=False) for t in sick.tasks))
    metrics = Metrics()
    core = lead(metrics, application("well"), taskgroup("well", 0), application("sick"), sick)
    looked_at: list[str] = []
    groups_of = State.groups_of
    monkeypatch.setattr(State, "groups_of", lambda state, key: looked_at.append(key) or groups_of(state, key))  # type: ignore[func-returns-value]
    assert value(metrics, "unhealthy_tasks", namespace="ns", application="sick") == 1
    assert looked_at == ["ns/sick"]
    assert core.state.unhealthy_applications() == ["ns/sick"]
