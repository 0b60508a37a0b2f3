"""Gangs survive crashes at any moment: nothing is lost, nothing is held without end, no task is launched twice."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offers.dimensions import amounts
from offers.policy.applications.metadata import (
    ApplicationMetadata,
    SchedulingPolicyParameters,
    Style,
    TaskGroup,
    TaskMetadata,
)
from offers.policy.applications.records import Traits
from tests.unit.offers.policy.applications.gang_world import World

FORMS = {
    "sleep tasks": Traits(at_once=False, lasting=True),
    "reservations": Traits(at_once=True, lasting=True),
    "held offers": Traits(at_once=True, lasting=False),
}
GROUPS = (TaskGroup("drv", 1, amounts({"cpus": 1})), TaskGroup("exe", 2, amounts({"cpus": 2})))


def world(form: Traits, style: Style = Style.SOFT, cores: int = 8, large: bool = False, **more: object) -> World:
    """An application with a driver, three executors and one task without a group."""
    tasks = (
        TaskMetadata("job", "driver", amounts({"cpus": 1}), "drv", created=1.0),
        TaskMetadata("job", "e0", amounts({"cpus": 3 if large else 2}), "exe", created=2.0),
        TaskMetadata("job", "e1", amounts({"cpus": 1}), "exe", created=3.0),
        TaskMetadata("job", "e2", amounts({"cpus": 2}), "exe", created=4.0),
        TaskMetadata("job", "other", amounts({"cpus": 1}), created=5.0),
    )
    parameters = SchedulingPolicyParameters(60, style)
    metadata = ApplicationMetadata("job", "root.batch", task_groups=GROUPS, parameters=parameters)
    half = cores // 2
    return World(metadata, tasks, {"n1": {"cpus": half}, "n2": {"cpus": cores - half}}, form, **more)  # type: ignore[arg-type]


CASES = {
    "together": {},
    "too large a task": {"large": True},
    "too little room": {"cores": 4},
    "too little room, hard": {"cores": 4, "style": Style.HARD},
}


def outcome(made: World) -> tuple[str, dict[str, str], list[str]]:
    states = {name: str(one.life.state) for name, one in made.gang.members.items()}
    return str(made.gang.record.core.state), states, sorted(made.launches)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("form", FORMS)
def test_a_crash_at_each_single_step_changes_nothing_of_the_outcome(form: str, case: str) -> None:
    plain = world(FORMS[form], **CASES[case])  # type: ignore[arg-type]
    plain.run()
    plain.finally_()
    steps = 0
    for step in itertools.count():
        counter = itertools.count()
        made = world(FORMS[form], crash=lambda: next(counter) == step, **CASES[case])  # type: ignore[arg-type]  # noqa: B023
        made.run()
        made.finally_()
        assert outcome(made) == outcome(plain), f"after a crash at step {step}"
        if not made.crashes:
            break
        steps += 1
    assert steps > 20
    hard = case.endswith("hard")
    assert outcome(plain)[0] == ("Failed" if hard else "Completed")
    assert len(plain.launches) == (0 if hard else 5)


@given(st.sampled_from(sorted(FORMS)), st.sampled_from(sorted(CASES)), st.integers(0, 2**32))
@settings(max_examples=100)
def test_many_crashes_at_random_steps_change_nothing_of_the_outcome(form: str, case: str, seed: int) -> None:
    plain = world(FORMS[form], **CASES[case])  # type: ignore[arg-type]
    plain.run()
    draw = random.Random(seed)
    chance, left = draw.choice([0.02, 0.1, 0.3]), itertools.count()
    made = world(FORMS[form], crash=lambda: draw.random() < chance and next(left) < 12, **CASES[case])  # type: ignore[arg-type]
    made.run(turns=2000)
    made.finally_()
    assert outcome(made) == outcome(plain)


def test_an_application_without_records_finds_its_placeholders_by_group() -> None:
    made = world(FORMS["sleep tasks"])
    made.tasks = ()
    while made.gang.record.manager.state != "Running":
        made.commit()
        assert made.turn()
    before = dict(made.placeholders)
    assert len(before) == 3
    made.placeholders = {f"other-{n}": one._replace(placeholder=f"other-{n}") for n, one in enumerate(before.values())}
    made.requests = {f"other-{n}": made.requests[name] for n, name in enumerate(before)}  # the names have a random part
    made.stored.clear()
    made.again()
    made.commit()
    assert set(made.gang.placeholders) == set(made.placeholders)
    assert made.gang.record.manager.state == "Running"
    events = [change.event for change in made.gang.record.manager.history]
    assert events == ["Recover", "Accept", "TryReserve", "UpdateReservation", "Run"]
    made.check()


def test_placeholders_beyond_the_members_of_a_group_are_released() -> None:
    made = world(FORMS["sleep tasks"])
    tasks, made.tasks = made.tasks, ()
    while made.gang.record.manager.state != "Running":
        made.commit()
        made.turn()
    one = next(iter(made.placeholders.values()))
    made.placeholders["more"] = one._replace(placeholder="more", node="n2")
    made.requests["more"] = ("n2", amounts({"cpus": 1}))
    made.again()
    assert made.gang.placeholders["more"].release == "TIMEOUT"
    made.tasks = tasks
    made.run()
    made.finally_()
