"""bcs_scheduler.loop.lanes: order, fairness between namespaces, answers behind news, costs."""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcs_scheduler.core.interface import cluster_manager, inputs, leased
from bcs_scheduler.loop.lanes import ANSWERS_PART, SPARE, Lanes, is_answer, lane_of
from store.ids import TaskGroupId
from transactions.rules.task_states import TaskState

GROUPS = [
    TaskGroupId.make(index, "web", namespace, "dc1.example.com", 1_000 + index)
    for namespace in ("a", "b", "c")
    for index in range(3)
]
CLUSTER = ("offers", "rescinded", "agent", "list", "failed")
BARRIERS = ("subscribed", "disconnected", "removed")
ENDS = (cluster_manager.Connected, cluster_manager.Disconnected, cluster_manager.RegistrationRevoked)
NEWS = ("update", "steady", "message", "ended", "probed")


def made(what: str, group: TaskGroupId, number: int) -> inputs.Input:
    """`number` is in the cause, so that all events differ."""
    cause, task, executor = str(number), str(group.task(0)), str(group)
    makers: dict[str, Callable[[], inputs.Input]] = {
        "update": lambda: cluster_manager.StatusUpdate(task_id=task, state=TaskState.RUNNING, cause=cause),
        "answer": lambda: cluster_manager.StatusUpdate(task_id=task, state=TaskState.RUNNING, answer=True, cause=cause),
        "steady": lambda: cluster_manager.TasksReported(agent_id="S", executor_id=executor, tasks=(), cause=cause),
        "message": lambda: cluster_manager.MessageAnswered(
            agent_id="S", executor_id=executor, message_id="m", status="success", cause=cause
        ),
        "ended": lambda: cluster_manager.ExecutorTerminated(agent_id="S", executor_id=executor, cause=cause),
        "probed": lambda: inputs.HealthReported(task_id=task, type="REMOTE_TCP", healthy=True, cause=cause),
        "offers": lambda: leased.OffersArrived(offers=(), cause=cause),
        "rescinded": lambda: leased.OfferRescinded(offer_id="o", cause=cause),
        "agent": lambda: cluster_manager.AgentRemoved(agent_id="S", cause=cause),
        "list": lambda: cluster_manager.AgentsListed(agents=(), cause=cause),
        "failed": lambda: cluster_manager.LaunchFailed(taskgroups=(executor,), reason="", cause=cause),
        "foreign": lambda: cluster_manager.StatusUpdate(
            task_id="no-task-of-ours", state=TaskState.RUNNING, cause=cause
        ),
        "subscribed": lambda: cluster_manager.Connected(framework_id="f", cause=cause),
        "disconnected": lambda: cluster_manager.Disconnected(cause=cause),
        "removed": lambda: cluster_manager.RegistrationRevoked(message="", cause=cause),
    }
    return makers[what]()


def update(namespace: str, index: int = 0, number: int = 0) -> inputs.Input:
    return made("update", TaskGroupId.make(index, "web", namespace, "c", 1_000 + index), number)


def answer(namespace: str, index: int = 0, number: int = 0) -> inputs.Input:
    return made("answer", TaskGroupId.make(index, "web", namespace, "c", 1_000 + index), number)


def filled(arriving: Sequence[inputs.Input]) -> Lanes:
    lanes = Lanes()
    for event in arriving:
        lanes.put(event)
    return lanes


kinds = st.sampled_from((*NEWS * 3, *("answer",) * 12, *CLUSTER, "foreign", *BARRIERS))
arrivals = st.builds(
    lambda drawn: [made(what, group, number) for number, (what, group) in enumerate(drawn)],
    st.lists(st.tuples(kinds, st.sampled_from(GROUPS)), max_size=60),
)
plans = st.lists(st.one_of(st.just(-1), st.integers(0, 9)), max_size=90)
"""-1: the next event arrives; else so many are taken at most."""


def played(arriving: Sequence[inputs.Input], plan: Sequence[int]) -> list[inputs.Input]:
    """Everything in the order in which it was taken. Takes all at the end."""
    lanes, taken, waiting = Lanes(), [], list(arriving)
    for step in plan:
        if step < 0 and waiting:
            lanes.put(waiting.pop(0))
        elif step >= 0:
            found = lanes.take(step)
            assert len(found) <= step
            taken += found
        assert len(lanes) == len(arriving) - len(waiting) - len(taken)
    for event in waiting:
        lanes.put(event)
    while len(lanes):
        found = lanes.take(7)
        assert found, "events are counted that cannot be taken"
        taken += found
    assert lanes.take(7) == []
    return taken


@given(arrivals, plans)
def test_nothing_is_lost_and_nothing_comes_twice(arriving: list[inputs.Input], plan: list[int]) -> None:
    assert sorted(int(event.cause) for event in played(arriving, plan)) == list(range(len(arriving)))


@given(arrivals, plans)
def test_events_of_a_taskgroup_and_of_the_cluster_keep_their_order(
    arriving: list[inputs.Input], plan: list[int]
) -> None:
    ordered: dict[tuple[str, str], list[int]] = defaultdict(list)
    for event in played(arriving, plan):
        ordered[lane_of(event)].append(int(event.cause))
    for place, numbers in ordered.items():
        assert numbers == sorted(numbers), place


@given(arrivals, plans)
def test_nothing_passes_the_begin_or_the_end_of_a_subscription(arriving: list[inputs.Input], plan: list[int]) -> None:
    taken = [int(event.cause) for event in played(arriving, plan)]
    barriers = {number for number, event in enumerate(arriving) if isinstance(event, ENDS)}
    for position, number in enumerate(taken):
        if number in barriers:
            assert sorted(taken[:position]) == list(range(number))


@given(st.lists(st.integers(0, 150), min_size=1, max_size=6), st.integers(1, 50), st.booleans())
def test_a_namespace_waits_for_one_event_of_each_other(others: list[int], most: int, with_answers: bool) -> None:
    lanes = Lanes()
    for number, count in enumerate(others):
        for index in range(count):
            lanes.put(update(f"other-{number}", index))
            if with_answers:
                lanes.put(answer(f"other-{number}", count + index))
    lanes.put(update("small"))
    news = 0
    while True:
        batch = lanes.take(most)
        before = list(itertools.takewhile(lambda event: lane_of(event)[0] != "small", batch))
        news += sum(not is_answer(event) for event in before)
        if len(before) < len(batch):
            break
    assert news <= len(others)


@given(st.integers(2, 64), st.integers(1, 300), st.integers(1, 300))
def test_answers_get_their_part_beside_news_and_all_of_what_is_left(most: int, news: int, answers: int) -> None:
    lanes = filled([update("a", index) for index in range(news)])
    for index in range(answers):
        lanes.put(answer("a", news + index))
    left = [news, answers]
    while any(left):
        batch = lanes.take(most)
        told = sum(map(is_answer, batch))
        assert len(batch) == min(most, sum(left)), "a batch is not full although there is more"
        assert told >= min(left[1], most // ANSWERS_PART), "answers starve"
        assert told <= max(-(-most // ANSWERS_PART), most - left[0]), "answers hold up news"
        left[0] -= len(batch) - told
        left[1] -= told


@pytest.mark.slow
def test_news_do_not_wait_for_a_hundred_thousand_answers() -> None:
    lanes = filled([answer("big", index) for index in range(100_000)])
    lanes.take(256)
    lanes.put(update("big", 200_000))
    lanes.put(update("small"))
    assert [lane_of(event)[0] for event in lanes.take(256)[:2]] == ["big", "small"]


def test_an_answer_leaves_before_the_news_of_its_taskgroup_that_came_later() -> None:
    lanes = filled([answer("a", index, index) for index in range(10)])
    lanes.put(update("a", 9, 10))
    assert [int(event.cause) for event in lanes.take(4)] == [9, 10, 0, 1]


def test_an_answer_waits_for_the_news_of_its_taskgroup_that_came_before() -> None:
    lanes = filled([update("a", index, index) for index in range(10)])
    lanes.put(answer("a", 9, 10))
    assert [int(event.cause) for event in lanes.take(99)] == list(range(11))


def test_the_width_is_that_of_one_turn_of_all_lanes() -> None:
    lanes = filled([*(update("a", index) for index in range(9)), update("b"), made("offers", GROUPS[0], 0)])
    assert lanes.width == 3
    assert {lane_of(event)[0] for event in lanes.take(lanes.width + 1)[:3]} == {"a", "b", ""}


def test_the_age_is_that_of_the_oldest_news() -> None:
    now = [100.0]
    lanes = Lanes(lambda: now[0])
    assert lanes.age() == 0.0
    lanes.put(answer("a", 1))
    now[0] = 101.0
    assert lanes.age() == 0.0, "nobody waits for an answer"
    lanes.put(update("a", 2))
    now[0] = 102.0
    lanes.put(update("b", 3))
    now[0] = 104.0
    assert lanes.age() == 3.0
    assert lanes.take(1) == [update("a", 2)]
    assert lanes.age() == 2.0
    lanes.take(99)
    assert lanes.age() == 0.0
    lanes.put(update("a", 2))
    assert lanes.age() == 0.0, "the taskgroup has had news before, which have been taken"


def test_what_has_left_is_not_remembered_for_ever() -> None:
    """The oldest news stays: it is behind all others of its namespace."""
    lanes = filled([update("a", index) for index in range(50)])
    for number in range(20 * SPARE):
        lanes.put(update("b", number))
        lanes.take(1)
    assert len(lanes._parts[0].arrivals) <= 2 * len(lanes) + SPARE + 1


def _seconds(lanes: Callable[[], Lanes], events_: list[inputs.Input]) -> float:
    """Least of several runs: putting these events in and taking them out again."""
    found = []
    for _ in range(3):
        one = lanes()
        began = time.process_time()
        for event in events_:
            one.put(event)
        for _ in events_:
            one.take(2)
        found.append(time.process_time() - began)
    return min(found)


@pytest.mark.costs
@pytest.mark.parametrize("make", [update, answer])
def test_an_event_costs_the_same_beside_many(make: Callable[[str, int], inputs.Input]) -> None:
    few = [make(f"n{number % 5}", number) for number in range(1_000)]
    many = [make(f"m{number % 2_000}", number) for number in range(20_000)]
    alone, beside = _seconds(Lanes, few), _seconds(lambda: filled(many), few)
    assert beside < 3 * alone + 0.002, (alone, beside)
