"""What `explain` says of taskgroups that run and are not ready."""

from __future__ import annotations

import pytest

from bcs_scheduler.api.views.explain import Explanation, explain_application
from bcs_scheduler.core.interface import inputs
from offers.matching.explain import KEPT, WITH_GANG, WITH_GROUP
from offers.model import Diagnosis, GroupGap
from store.records.definition import Amounts, Container, HealthCheck
from tests.unit.lab import Lab, running
from transactions import explain

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


def test_numbers_of_a_gang_are_about_the_places_that_are_missing() -> None:
    """Agents that match no more beside the places that were found are not agents that match nothing."""
    short = Diagnosis("d", 8, 0, 3, {"cpus": 3}, min_members=8, reached=6)
    words = "gang: 8 places needed at the same time, 6 found; for the other 2, 0 of 3 agents match: 3 lack CPUs"
    assert explain.reasons(short) == words
    gap = GroupGap("default/train", 9, 6, 9, ())
    assert explain.reasons(Diagnosis("d", 8, 0, 3, {"cpus": 3}, gap=gap)) == (
        "group default/train: 9 places needed at the same time, 6 found; "
        "for the other 3, 0 of 3 agents match: 3 lack CPUs"
    )
    none = explain.reasons(short._replace(reached=0))
    assert none == "gang: 8 places needed at the same time, 0 found; 0 of 3 agents match: 3 lack CPUs"


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (WITH_GANG, "1 agent has room for a part of the gang"),
        (WITH_GROUP, "1 agent has room, and the group must start together"),
        (KEPT, "1 agent has room, and the policy keeps it for others"),
    ],
)
def test_agents_with_room_are_not_said_to_match_nothing(reason: str, words: str) -> None:
    assert explain.reasons(Diagnosis("d", 2, 0, 1, {reason: 1})) == words
    assert "0 of" not in explain.reasons(Diagnosis("d", 2, 0, 1, {reason: 1}, min_members=4, reached=2))


def test_what_passes_its_checks_is_ready() -> None:
    lab = running(1, containers=(CHECKED,))
    probe(lab, 0, True)
    assert (explained(lab).ready, explained(lab).taskgroups) == (1, [])
