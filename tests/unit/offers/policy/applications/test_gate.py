"""The gate: the nine lines of its table, the three settings for work without an application, and launches that fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offers.policy.applications.gate import Answer, Cause, GateTask, PlacementGate, Unnamed, Verdict
from offers.policy.applications.tables import TASK, TaskState
from tests.vectors.reading import read
from tests.vectors.running import judge

SPECIFIED = Path(__file__).parents[4] / "vectors" / "policy_vectors.json"
D16 = next(vector for vector in read(SPECIFIED) if vector.id == "D16")


def work(name: str, application: str = "app", state: str = TaskState.BOUND) -> GateTask:
    return GateTask(name, application, state)


def maps(gate: PlacementGate) -> tuple[dict[str, str], dict[str, str]]:
    return dict(gate.pending), dict(gate.in_progress)


def test_the_specified_vector_passes() -> None:
    assert [verdict.line for verdict in judge([D16]) if verdict.differences] == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("results", ["Success"]),
        ("pending_after", D16.expect["in_progress_after"]),
        ("in_progress_after", D16.expect["pending_after"]),
        ("events", ["RejectTask p3"]),
        ("surprise", 1),
    ],
)
def test_another_expectation_fails(field: str, value: Any) -> None:
    (verdict,) = judge([D16._replace(expect={**D16.expect, field: value})])
    assert verdict.differences and all(line.startswith(f"expect.{field}") for line in verdict.differences)


@pytest.mark.parametrize(
    "changes",
    [{"colour": "red"}, {"calls": ["explode(p1)"]}, {"tasks": [{"id": "p1", "application_id": None, "colour": 1}]}],
)
def test_an_input_that_is_not_understood_fails(changes: dict[str, Any]) -> None:
    (verdict,) = judge([D16._replace(input={**D16.input, **changes})])
    assert verdict.differences[0].startswith("ValueError: input")


def test_a_scenario_of_an_unknown_area_fails() -> None:
    (verdict,) = judge([D16._replace(area="weather")])
    assert verdict.differences == ["no engine plays the area weather"]


@pytest.mark.parametrize(
    ("unnamed", "answer"),
    [
        (Unnamed.BYPASS, Answer(Verdict.SUCCESS, Cause.BYPASSED)),
        (Unnamed.WAIT, Answer(Verdict.UNRESOLVABLE, Cause.NO_APPLICATION)),
        (Unnamed.REFUSE, Answer(Verdict.REFUSED, Cause.NO_APPLICATION)),
    ],
)
def test_work_without_application_is_treated_by_setting_and_leaves_nothing(unnamed: Unnamed, answer: Answer) -> None:
    gate = PlacementGate(unnamed)
    one = work("w", application="")
    assert gate.pre_filter(one) == gate.filter(one, "n1") == answer
    assert gate.post_launch(one) is False
    assert maps(gate) == ({}, {})
    gate.approve("t", "n1")
    assert gate.pre_filter(work("t")).verdict is Verdict.SUCCESS


def test_an_approval_is_used_once_and_counts_for_its_application() -> None:
    gate = PlacementGate()
    gate.approve("t", "n1")
    assert gate.pre_filter(work("t")) == Answer(Verdict.SUCCESS, Cause.APPROVED)
    assert gate.pre_filter(work("t", state=TaskState.SCHEDULING)).cause is Cause.NOT_APPROVED
    assert gate.filter(work("t"), "n2").cause is Cause.OTHER_NODE
    assert gate.filter(work("t"), "n1") == Answer(Verdict.SUCCESS, Cause.APPROVED)
    assert maps(gate) == ({}, {"t": "n1"})
    assert gate.filter(work("t"), "n1").cause is Cause.NOT_APPROVED
    assert gate.post_launch(work("t")) is True
    assert maps(gate) == ({}, {})


def test_a_launch_that_did_not_happen_is_returned_and_can_be_approved_again() -> None:
    gate = PlacementGate()
    gate.approve("t", "n1")
    gate.filter(work("t"), "n1")
    life = TASK.born("t")
    for event in ("InitTask", "SubmitTask", "TaskAllocated", "TaskBound"):
        life = TASK.after(life, event, 1.0)
    answer = gate.pre_filter(work("t", state=life.state))
    assert answer == Answer(Verdict.UNRESOLVABLE, Cause.LAUNCH_FAILED, returned="t")
    assert maps(gate) == ({}, {})
    life = TASK.after(life, "TaskReturned", 2.0)
    assert life.state == TaskState.SCHEDULING
    gate.approve("t", "n2")
    assert gate.pre_filter(work("t")).verdict is Verdict.SUCCESS
    assert gate.filter(work("t"), "n2").verdict is Verdict.SUCCESS


def test_a_second_approval_replaces_the_launch_in_progress() -> None:
    gate = PlacementGate()
    gate.approve("t", "n1")
    gate.filter(work("t"), "n1")
    gate.approve("t", "n2")
    assert maps(gate) == ({"t": "n2"}, {})
    gate.forget("t")
    assert maps(gate) == ({}, {})


STEPS = st.tuples(
    st.sampled_from(["approve", "pre_filter", "filter", "post_launch", "forget"]),
    st.sampled_from(["a", "b", "free"]),
    st.sampled_from(["n1", "n2"]),
)


@given(st.lists(STEPS, max_size=40))
def test_no_task_is_in_both_maps_and_every_success_was_approved(steps: list[tuple[str, str, str]]) -> None:
    gate = PlacementGate()
    for step, name, node in steps:
        one = work(name, application="" if name == "free" else "app")
        before = maps(gate)
        if step == "approve" and name != "free":
            gate.approve(name, node)
        elif step == "pre_filter":
            answer = gate.pre_filter(one)
            assert bool(answer.returned) == (name in before[1])
        elif step == "filter":
            admitted = gate.filter(one, node).verdict is Verdict.SUCCESS
            assert admitted == (name == "free" or before[0].get(name) == node)
        elif step == "post_launch":
            gate.post_launch(one)
        elif step == "forget":
            gate.forget(name)
        assert not set(gate.pending) & set(gate.in_progress)
        assert "free" not in {*gate.pending, *gate.in_progress}
