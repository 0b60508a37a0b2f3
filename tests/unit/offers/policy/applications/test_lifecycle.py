"""Events in their order, and recovery before scheduling."""

from __future__ import annotations

from collections.abc import Hashable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offers.policy.applications.dispatcher import DISPATCH_SECONDS, FEWEST_WAITING, Dispatcher, Overloaded
from offers.policy.applications.recovery import OutOfOrder, Recovery, Step
from offers.policy.applications.tables import TASK

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


def at(step: Step) -> Recovery[int]:
    made = Recovery[int]()
    for one in Step:
        if one <= step:
            made.begin(one)
    return made


@pytest.mark.parametrize("step", Step)
def test_steps_follow_each_other_and_only_the_last_one_lets_work_start(step: Step) -> None:
    made = at(step)
    assert made.complete is (step is Step.SCHEDULING)
    for other in Step:
        if other != step + 1:
            with pytest.raises(OutOfOrder):
                made.begin(other)
    assert made.step is step


def test_a_start_begins_with_the_configuration() -> None:
    with pytest.raises(OutOfOrder, match="STORE follows nothing"):
        Recovery[int]().begin(Step.STORE)


def test_a_caller_that_has_done_steps_begins_after_them() -> None:
    made = Recovery[int](Step.ENGINE)
    with pytest.raises(OutOfOrder, match="APPLICATIONS follows ENGINE"):
        made.begin(Step.APPLICATIONS)
    made.begin(Step.MANAGERS)


def test_events_during_recovery_are_neither_lost_nor_handled_twice() -> None:
    made = at(Step.MANAGERS)
    for number, unit in enumerate(("a", "ended", "b", "a")):
        assert made.hear(unit, number)
    with pytest.raises(OutOfOrder):
        made.replay(())
    for step in (Step.APPLICATIONS, Step.NODES, Step.REPLAY):
        made.begin(step)
    assert made.hear("c", 4)
    with pytest.raises(OutOfOrder, match="5 events have not been replayed"):
        made.begin(Step.SCHEDULING)
    assert made.replay({"ended"}) == [0, 2, 3, 4]
    assert made.replay(()) == []
    made.begin(Step.SCHEDULING)
    assert not made.hear("a", 5)
