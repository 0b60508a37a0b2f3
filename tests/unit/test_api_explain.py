"""What `explain` says of taskgroups that run and are not ready."""

from __future__ import annotations

from bcs_scheduler.api.views.running.explain import Explanation, explain_application
from bcs_scheduler.core.interface import inputs
from store.records.definition import Amounts, Container, HealthCheck
from tests.unit.lab import Lab, running

CHECKED = Container(
    name="serve",
    command="serve",
    requests=Amounts(cpus=100, mem=32_000),
    health_checks=(HealthCheck(type="REMOTE_TCP", port=80),),
)


def explained(lab: Lab) -> Explanation:
    application = lab.core.state.applications["default/web"]
    return explain_application(lab.core.state, application, lab.core.diagnosis, lab.now)


def probe(lab: Lab, index: int, healthy: bool, message: str = "") -> None:
    task = lab.group(index).tasks[0].id
    lab.turn(inputs.HealthReported(task_id=task, type="REMOTE_TCP", healthy=healthy, message=message))


def test_what_runs_and_is_not_healthy_is_not_ready_and_its_checks_say_why() -> None:
    lab = running(2, containers=(CHECKED,))
    probe(lab, 0, False, "connection refused")
    found = explained(lab)
    assert (found.status, found.existing, found.ready) == ("Running", 2, 0)
    assert [group.message for group in found.taskgroups] == [
        "is not healthy: serve REMOTE_TCP: connection refused",
        "is not healthy: serve REMOTE_TCP: not probed yet",
    ]
    assert found.text[0] == "Running: 0 of 2 taskgroups ready, 2 present"
    assert any("connection refused" in line for line in found.text[1:])


def test_what_passes_its_checks_is_ready() -> None:
    lab = running(1, containers=(CHECKED,))
    probe(lab, 0, True)
    assert (explained(lab).ready, explained(lab).taskgroups) == (1, [])
