"""Events in their order, recovery before scheduling, the log of outstanding applications, and the check of sums."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offers.dimensions import amounts
from offers.policy.applications.lifecycle.dispatcher import DISPATCH_SECONDS, FEWEST_WAITING, Dispatcher, Overloaded
from offers.policy.applications.lifecycle.health import (
    AllocationFigure,
    Figures,
    NodeFigure,
    ProblemCode,
    problems_of,
)
from offers.policy.applications.lifecycle.outstanding import OutstandingApplications
from offers.policy.applications.lifecycle.recovery import (
    NODES_SECONDS,
    OutOfOrder,
    Recovery,
    RecoveryFailed,
    Step,
    Unit,
    existing_usage,
)
from offers.policy.applications.machines import Life
from offers.policy.applications.tables import APPLICATION, NODE, TASK

ONE = amounts({"cpus": 1})


# --- events ---------------------------------------------------------------------------------------------------


def dispatcher(capacity: int = 10) -> tuple[Dispatcher, list[Hashable]]:
    seen: list[Hashable] = []
    made = Dispatcher(capacity)
    made.register("task", lambda event, now: seen.append(event))
    return made, seen


@given(st.lists(st.integers(0, 9), max_size=60), st.integers(1, 5), st.lists(st.integers(0, 4), max_size=20))
def test_events_are_handled_once_and_in_the_order_of_sending(sent: list[int], capacity: int, pauses: list[int]) -> None:
    made, seen = dispatcher(capacity)
    turns = iter(pauses)
    for event in sent:
        made.send("task", event, 1.0)
        made.run(1.0, limit=next(turns, 0))
    made.run(1.0)
    assert seen == sent and len(made) == 0 and made.dropped == 0


def test_a_full_queue_does_not_stop_the_sender_and_the_event_arrives_later() -> None:
    made, seen = dispatcher(2)
    for event in range(5):
        made.send("task", event, 1.0)
    assert made.run(2.0, limit=1) == 1
    made.send("task", 5, 2.0)
    assert made.run(2.0) == 5
    assert seen == [0, 1, 2, 3, 4, 5]


def test_an_event_that_finds_no_room_in_time_is_dropped_with_its_cause() -> None:
    made, seen = dispatcher(1)
    made.send("task", "first", 1.0)
    made.send("task", "second", 1.0)
    made.run(1.0 + DISPATCH_SECONDS)
    assert seen == ["first"]
    (fault,) = made.faults
    assert (fault.event, fault.cause, fault.illegal) == ("second", "no room in the queue for 300 s", False)


def test_too_many_events_end_the_scheduler() -> None:
    made, _ = dispatcher(1)
    for event in range(1 + FEWEST_WAITING):
        made.send("task", event, 1.0)
    with pytest.raises(Overloaded, match="1 events are queued and 10000 wait"):
        made.send("task", "more", 1.0)
    assert Dispatcher(1_000_000).most_waiting == 100_000


def test_an_illegal_event_and_a_failing_handler_concern_one_event() -> None:
    lives = {"t": TASK.born("t")}
    made = Dispatcher()

    def handle(event: Hashable, now: float) -> None:
        if event == "explode":
            raise RuntimeError("it broke")
        lives["t"] = TASK.after(lives["t"], str(event), now)

    made.register("task", handle)
    for event in ("InitTask", "TaskBound", "explode", "SubmitTask"):
        made.send("task", event, 1.0)
    assert made.run(1.0) == 4
    assert lives["t"].state == "Scheduling"
    illegal, broken = made.faults
    assert illegal.illegal and "no event TaskBound in the state Pending; 1.000 InitTask" in illegal.cause
    assert (broken.illegal, broken.cause, made.dropped) == (False, "RuntimeError: it broke", 2)


def test_handlers_may_send_and_families_are_known() -> None:
    made, seen = dispatcher()

    def again(event: Hashable, now: float) -> None:
        made.send("task", "sent by a handler", now)
        assert made.run(now) == 0

    made.register("application", again)
    made.send("application", "go", 1.0)
    made.send("task", "before", 1.0)
    made.run(1.0)
    assert seen == ["before", "sent by a handler"]
    with pytest.raises(KeyError):
        made.send("weather", "rain", 1.0)
    with pytest.raises(ValueError, match="the family task has a handler"):
        made.register("task", again)


# --- recovery -------------------------------------------------------------------------------------------------


def at(step: Step) -> Recovery:
    made = Recovery()
    for one in Step:
        if one <= step:
            made.begin(one, 100.0)
    return made


@pytest.mark.parametrize("step", Step)
def test_steps_follow_each_other_and_only_the_last_one_lets_work_start(step: Step) -> None:
    made = at(step)
    assert made.complete is (step is Step.SCHEDULING)
    for other in Step:
        if other != step + 1:
            with pytest.raises(OutOfOrder):
                made.begin(other, 100.0)
    assert made.step is step


def test_a_start_begins_with_the_configuration() -> None:
    with pytest.raises(OutOfOrder, match="STORE follows nothing"):
        Recovery().begin(Step.STORE, 1.0)


def test_events_during_recovery_are_neither_lost_nor_handled_twice() -> None:
    made = at(Step.MANAGERS)
    for number, unit in enumerate(("a", "ended", "b", "a")):
        assert made.hear(unit, number)
    with pytest.raises(OutOfOrder):
        made.replay(())
    for step in (Step.APPLICATIONS, Step.NODES, Step.REPLAY):
        made.begin(step, 100.0)
    assert made.hear("c", 4)
    with pytest.raises(OutOfOrder, match="5 events have not been replayed"):
        made.begin(Step.SCHEDULING, 100.0)
    assert made.replay({"ended"}) == [0, 2, 3, 4]
    assert made.replay(()) == []
    made.begin(Step.SCHEDULING, 100.0)
    assert not made.hear("a", 5)


def test_recovery_waits_for_applications_that_are_new_or_recovering() -> None:
    made = at(Step.APPLICATIONS)
    new = APPLICATION.born("new")
    recovering = APPLICATION.after(APPLICATION.born("recovering"), "Recover", 1.0)
    accepted = APPLICATION.after(recovering, "Accept", 1.0)
    rejected = APPLICATION.after(recovering, "Reject", 1.0)
    lives = {"new": new, "recovering": recovering, "accepted": accepted, "rejected": rejected}
    assert made.waiting_applications(lives) == ["new", "recovering"]


def test_nodes_have_a_limit_that_the_error_names() -> None:
    made = at(Step.NODES)
    states = ("New", "Recovering", "Accepted", "Healthy", "Draining", "Rejected")
    lives = {f"n-{state}": Life(NODE.kind, state, state) for state in states}
    assert made.waiting_nodes(lives, 100.0 + NODES_SECONDS) == ["n-Accepted", "n-New", "n-Recovering"]
    with pytest.raises(RecoveryFailed, match="after 300 s these nodes are not recovered: n-Accepted, n-New"):
        made.waiting_nodes(lives, 100.1 + NODES_SECONDS)
    assert made.waiting_nodes({"n": lives["n-Healthy"]}, 999.0) == []


def test_units_are_allocations_or_occupy_their_node_and_terminated_ones_do_neither() -> None:
    mine = Unit("u1", "n1", ONE, "app")
    foreign = Unit("u2", "n1", ONE)
    unknown = Unit("u3", "n2", ONE, "forgotten")
    units = [mine, foreign, unknown, mine._replace(id="u4", terminated=True), foreign._replace(id="u5", node="")]
    found = existing_usage(units, {"app"})
    assert found.allocations == (mine,)
    assert found.occupied == {"n1": (foreign,), "n2": (unknown,)}


# --- outstanding applications ---------------------------------------------------------------------------------


def test_each_quiet_period_has_one_message_and_a_period_with_work_has_none() -> None:
    log = OutstandingApplications(0.0)
    assert [log.look(now) for now in (0.0, 60.0, 119.9)] == [None] * 3
    assert log.look(120.0) == "no outstanding applications for 120 s"
    assert log.look(121.0) is None
    log.seen()
    assert log.look(240.0) is None
    assert log.look(360.0) == "no outstanding applications for 120 s"


# --- sums -----------------------------------------------------------------------------------------------------


def figures(**changes: Any) -> Figures:
    sound = Figures(
        allocations=(AllocationFigure("a", "t0", "n1", ONE), AllocationFigure("b", "t0", "n1", ONE)),
        nodes={
            "n1": NodeFigure({"cpus": 4}, {"cpus": 2}, {"cpus": 1}, {"cpus": 1}),
            "n2": NodeFigure({"cpus": 4}, {}, {"cpus": 4}),
        },
        queues={"root": {"cpus": 2}, "root.x": {"cpus": 1}, "root.y": {"cpus": 1}},
        parents={"root": "", "root.x": "root", "root.y": "root"},
        applications={"a": ("root.x", {"cpus": 1}), "b": ("root.y", {"cpus": 1})},
    )
    return sound._replace(**changes)


def test_sound_figures_have_no_problem() -> None:
    assert problems_of(figures()) == []


@pytest.mark.parametrize(
    ("changes", "codes"),
    [
        ({"queues": {"root": {"cpus": 2}, "root.x": {"cpus": 2}, "root.y": {"cpus": 1}}}, {ProblemCode.QUEUE_SUM}),
        ({"queues": {"root": {"cpus": 1}, "root.x": {"cpus": 1}, "root.y": {"cpus": 1}}}, {ProblemCode.QUEUE_SUM}),
        ({"queues": {"root": {"cpus": 2}, "root.x": {"cpus": 1}}}, {ProblemCode.NO_QUEUE, ProblemCode.QUEUE_SUM}),
        ({"applications": {"a": ("root.x", {"cpus": 1})}}, {ProblemCode.NO_APPLICATION, ProblemCode.QUEUE_SUM,
                                                           ProblemCode.NODE_SUM}),
        ({"applications": {"a": ("root.x", {"cpus": 3}), "b": ("root.y", {"cpus": 1})}},
         {ProblemCode.APPLICATION_SUM}),
        ({"nodes": {"n2": NodeFigure({"cpus": 4}, {}, {"cpus": 4})}}, {ProblemCode.NO_NODE}),
        ({"nodes": {"n1": NodeFigure({"cpus": 4}, {"cpus": 2}, {"cpus": 2}, {"cpus": 1})}}, {ProblemCode.NODE_SUM}),
        ({"nodes": {"n1": NodeFigure({"cpus": 1}, {"cpus": 2}, {"cpus": -1})}}, {ProblemCode.NEGATIVE}),
        ({"allocations": ()}, {ProblemCode.QUEUE_SUM, ProblemCode.NODE_SUM, ProblemCode.APPLICATION_SUM}),
    ],
)  # fmt: skip
def test_each_wrong_figure_is_found(changes: dict[str, Any], codes: set[ProblemCode]) -> None:
    assert {problem.code for problem in problems_of(figures(**changes))} == codes
