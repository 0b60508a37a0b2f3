"""Gangs: reservation, swap, counters, time-outs, completion, and facts that arrive twice or too late."""

from __future__ import annotations

from time import process_time
from typing import Any

import pytest

from offers.dimensions import amounts
from offers.policy.applications.gang import RETENTION_SECONDS, Gang
from offers.policy.applications.metadata import (
    ApplicationMetadata,
    BadTaskGroups,
    SchedulingPolicyParameters,
    Style,
    TaskGroup,
    TaskMetadata,
    parameters_of,
)
from offers.policy.applications.records import (
    Counter,
    Create,
    Kill,
    Launch,
    NoticeCode,
    Release,
    ReleaseType,
    Traits,
    placeholder_name,
)
from offers.policy.applications.tables import TaskState
from tests.vectors.scenarios.engine import OneQueue, records_of, restored

ONE, TWO = amounts({"cpus": 1}), amounts({"cpus": 2})
SLEEP = Traits(at_once=False, lasting=True)
RESERVE = Traits(at_once=True, lasting=True)


class Case:
    """A gang of `members` placeholders of two cores each, with its engine."""

    def __init__(
        self, members: int = 2, nodes: dict[str, int] | None = None, traits: Traits = SLEEP, style: Style = Style.SOFT,
        groups: tuple[TaskGroup, ...] | None = None, **engine: Any,
    ) -> None:  # fmt: skip
        self.engine = OneQueue(
            {name: {"cpus": cores} for name, cores in (nodes or {"n1": 2 * members}).items()}, **engine
        )
        own = (TaskGroup("w", members, TWO),) if groups is None else groups
        self.metadata = ApplicationMetadata(
            "app", "root.q", task_groups=own, parameters=SchedulingPolicyParameters(60, style)
        )
        self.gang = self.engine.gang = Gang.born(self.metadata, self.engine, traits)

    def reserved(self) -> Case:
        """All placeholders are bound at 1 s."""
        self.gang.submit(0.0)
        self.engine.cycle(1.0)
        self.confirm(1.0)
        return self

    def confirm(self, now: float) -> list[Any]:
        """Carries out what is due, and confirms, until nothing is due. Returns the effects in their order."""
        done: list[Any] = []
        while due := list(self.gang.due()):
            done += due
            for effect in due:
                match effect:
                    case Create(placeholder=name):
                        self.gang.bound(name, now)
                    case Release(placeholder=name):
                        self.gang.gone(name, now)
                    case Launch(task=name):
                        self.gang.launched(name, now)
                    case Kill(task=name):
                        self.gang.ended(name, now)
        return done

    def add(self, name: str, now: float = 2.0, request: Any = TWO, group: str = "w") -> None:
        self.gang.add_task(TaskMetadata("app", name, request, group, created=now), now)

    @property
    def states(self) -> tuple[str, str]:
        return str(self.gang.record.core.state), str(self.gang.record.manager.state)

    @property
    def counter(self) -> tuple[int, int, int]:
        one: Counter = self.gang.record.counters[0]
        return one.total, one.replaced, one.timed_out

    def state(self, task: str) -> str:
        return str(self.gang.members[task].life.state)


# --- parameters and groups ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "timeout", "style", "warnings"),
    [
        ("", 900.0, Style.SOFT, 0),
        ("placeholderTimeoutInSeconds=60", 60.0, Style.SOFT, 0),
        ("gangSchedulingStyle=Hard", 900.0, Style.HARD, 0),
        ("placeholderTimeoutInSeconds=60 gangSchedulingStyle=Hard", 60.0, Style.HARD, 0),
        ("placeholderTimeoutInSeconds gangSchedulingStyle=Hard", 900.0, Style.HARD, 1),
        ("placeholderTimeoutInSeconds=60 gangSchedulingStyle=Firm", 60.0, Style.SOFT, 1),
        ("placeholderTimeoutInSeconds=-1 a=b =c d= e=f=g", 900.0, Style.SOFT, 5),
    ],
)
def test_the_text_of_parameters(text: str, timeout: float, style: Style, warnings: int) -> None:
    parameters, found = parameters_of(text)
    assert (parameters.timeout, parameters.style, len(found)) == (timeout, style, warnings)


@pytest.mark.parametrize(
    ("group", "fault"),
    [
        (TaskGroup("", 1, ONE), r"taskGroups\[1\].name: empty"),
        (TaskGroup("w", 1, ONE), "w is used twice"),
        (TaskGroup("x", 0, ONE), "minMember: 0 is less than 1"),
        (TaskGroup("x", -3, ONE), "minMember: -3 is less than 1"),
        (TaskGroup("x", 1, (("cpus", -1),)), "minResource.cpus: negative"),
    ],
)
def test_task_groups_that_cannot_be_are_refused(group: TaskGroup, fault: str) -> None:
    with pytest.raises(BadTaskGroups, match=fault):
        Case(groups=(TaskGroup("w", 1, ONE), group))


def test_names_of_placeholders_are_short_and_unique() -> None:
    names = {placeholder_name("a" * 60 + end, "g" * 40, number) for end in "xy" for number in range(500)}
    assert len(names) == 1000
    assert {len(name) for name in names} == {3 + 28 + 1 + 20 + 1 + 10}
    assert placeholder_name("job", "w", 0).startswith("tg-job-w-")


# --- reservation ----------------------------------------------------------------------------------------------


def test_an_application_without_groups_runs_at_once() -> None:
    case = Case(groups=())
    case.gang.submit(0.0)
    assert case.states == ("New", "Running")
    case.add("t", group="")
    case.engine.cycle(2.0)
    assert case.states == ("Running", "Running")
    assert list(case.gang.due()) == [Launch("t", "app", "n1")]


@pytest.mark.parametrize("engine", [{"by_submission": False}, {"most": {"cpus": 3}}])
def test_a_queue_that_cannot_take_the_gang_rejects_the_application(engine: dict[str, Any]) -> None:
    case = Case(**engine)
    case.add("t", 0.0)
    case.gang.submit(1.0)
    assert case.states == ("Rejected", "Failed")
    assert (case.state("t"), case.gang.members["t"].cause) == ("Failed", "ApplicationRejected")
    assert [one.code for one in case.gang.take_notices()] == [NoticeCode.APPLICATION_REJECTED]
    assert not case.gang.placeholders and not case.engine.pending


def test_a_gang_larger_than_the_cluster_waits() -> None:
    case = Case(members=3, nodes={"n1": 4})
    case.gang.submit(0.0)
    assert case.engine.cycle(1.0) == 2
    assert case.states == ("Accepted", "Reserving")


def test_tasks_wait_until_every_placeholder_is_bound() -> None:
    case = Case()
    case.add("t", 0.0)
    case.gang.submit(0.0)
    case.engine.cycle(1.0)
    assert case.states == ("Running", "Reserving")
    first, second = (effect.placeholder for effect in case.gang.due() if isinstance(effect, Create))
    case.gang.bound(first, 1.0)
    assert (case.states, case.state("t")) == (("Running", "Reserving"), "New")
    case.gang.bound(second, 1.0)
    assert (case.states, case.state("t")) == (("Running", "Running"), "Scheduling")


def test_a_placeholder_that_ends_while_the_gang_is_reserved_is_replaced_by_another() -> None:
    case = Case()
    case.gang.submit(0.0)
    case.engine.cycle(1.0)
    first = next(iter(case.gang.placeholders))
    case.gang.bound(first, 1.0)
    case.gang.gone(first, 2.0)
    assert len(case.gang.placeholders) == 2 and len(case.engine.pending) == 1
    case.engine.cycle(3.0)
    case.confirm(3.0)
    assert case.states == ("Running", "Running")
    assert case.counter == (2, 0, 0)


def test_placeholders_that_cannot_be_created_make_the_application_an_ordinary_one() -> None:
    case = Case(members=3, nodes={"n1": 4})
    case.add("t", 0.0)
    case.gang.submit(0.0)
    case.engine.cycle(1.0)
    first = next(effect.placeholder for effect in case.gang.due() if isinstance(effect, Create))
    case.gang.creation_failed(first, 2.0)
    assert case.states == ("Accepted", "Running")
    assert not [one for one in case.engine.pending if one != "t"]
    case.confirm(2.0)
    case.engine.cycle(3.0)
    assert case.confirm(3.0) == [Launch("t", "app", "n1")]
    assert case.states == ("Running", "Running")


# --- swap -----------------------------------------------------------------------------------------------------


def test_a_task_is_launched_when_its_placeholder_is_gone() -> None:
    case = Case().reserved()
    case.add("t")
    (release,) = case.gang.due()
    assert isinstance(release, Release) and release.type is ReleaseType.REPLACED
    case.gang.gone(release.placeholder, 3.0)
    assert list(case.gang.due()) == [Launch("t", "app", "n1")]
    assert case.counter == (2, 1, 0)


def test_a_form_without_confirmation_launches_in_one_operation() -> None:
    case = Case(traits=RESERVE).reserved()
    before = set(case.gang.placeholders)
    case.add("t")
    (holder,) = before - set(case.gang.placeholders)
    assert list(case.gang.due()) == [Launch("t", "app", "n1", consumes=holder)]
    assert case.counter == (2, 1, 0)
    case.gang.launched("t", 3.0)
    assert list(case.gang.due()) == []


def test_a_smaller_task_gives_the_difference_back() -> None:
    case = Case().reserved()
    case.add("t", request=ONE)
    case.confirm(3.0)
    assert case.engine.used == {"cpus": 3}
    assert case.engine.free["n1"] == {"cpus": 1}


def test_the_gang_of_one_never_looks_empty() -> None:
    case = Case(members=1).reserved()
    case.add("t")
    case.confirm(3.0)
    assert [change.after for change in case.gang.record.core.history] == ["Accepted", "Running"]


def test_a_task_takes_the_room_of_a_placeholder_whose_node_admits_it() -> None:
    case = Case(nodes={"n1": 2, "n2": 2}, suits=lambda task, node: node != "n1" or task != "task").reserved()
    case.add("task")
    assert case.gang.members["task"].node == "n2"
    case.confirm(3.0)
    assert case.engine.allocations["task"] == (TWO, "n2") and case.engine.used == {"cpus": 4}


def test_a_task_that_no_node_takes_waits_and_ends_without_trace() -> None:
    case = Case(suits=lambda task, node: not task.startswith("t-"))
    # The names of placeholders begin with tg-.
    case.reserved()
    case.add("t-1")
    assert (case.state("t-1"), list(case.gang.due())) == ("Scheduling", [])
    case.gang.ended("t-1", 3.0)
    assert case.states == ("Completing", "Running")


def test_a_task_beyond_the_placeholders_of_its_group_is_an_ordinary_one() -> None:
    case = Case(nodes={"n1": 6}).reserved()
    for name in ("a", "b", "c"):
        case.add(name)
    assert "c" not in case.engine.pending
    case.confirm(3.0)
    assert set(case.engine.pending) == {"c"}
    case.engine.cycle(4.0)
    case.confirm(4.0)
    assert {case.state(name) for name in "abc"} == {"Bound"}


def test_too_small_placeholders_of_the_group_go_and_those_of_others_stay() -> None:
    groups = (TaskGroup("v", 1, ONE), TaskGroup("w", 2, TWO))
    case = Case(groups=groups, nodes={"n1": 8}).reserved()
    case.add("t", request=amounts({"cpus": 3}))
    assert {one.group for one in case.gang.placeholders.values() if one.release is ReleaseType.TIMEOUT} == {"w"}
    assert {one.group for one in case.gang.placeholders.values() if one.release is None} == {"v"}
    assert [one.code for one in case.gang.take_notices()] == [NoticeCode.PLACEHOLDER_INCOMPATIBLE] * 2


def test_a_task_that_ends_during_its_swap_leaves_nothing() -> None:
    case = Case(members=1).reserved()
    case.add("t")
    case.gang.ended("t", 3.0)
    case.confirm(3.0)
    assert not case.gang.placeholders and not case.engine.allocations
    assert case.counter == (1, 1, 0)
    case.gang.tick(33.0)
    assert case.states == ("Completed", "Completed")


# --- time-outs and ends ---------------------------------------------------------------------------------------


def test_placeholders_that_no_task_wants_are_released_after_the_time_out() -> None:
    case = Case().reserved()
    case.add("t")
    case.confirm(3.0)
    assert case.gang.next_wake() == 61.0
    case.gang.tick(60.9)
    assert list(case.gang.due()) == []
    case.gang.tick(61.0)
    (release,) = case.gang.due()
    assert isinstance(release, Release) and release.type is ReleaseType.TIMEOUT
    case.confirm(61.0)
    assert case.states == ("Running", "Running")
    assert case.counter == (2, 1, 1)
    assert case.gang.next_wake() is None


def test_a_time_out_of_a_gang_whose_tasks_have_all_ended_releases_its_placeholders() -> None:
    """The gang completes while one of its placeholders has no room."""
    case = Case(nodes={"n1": 2})
    case.gang.submit(0.0)
    case.engine.cycle(1.0)
    case.confirm(1.0)
    case.add("t")
    case.gang.ended("t", 50.0)
    assert case.states == ("Completing", "Reserving")
    case.gang.tick(61.0)
    assert [type(effect) for effect in case.confirm(61.0)] == [Release]
    case.gang.tick(90.0)
    assert case.states == ("Completed", "Completed")


@pytest.mark.parametrize(("style", "after"), [(Style.SOFT, ("Running", "Running")), (Style.HARD, ("Failed", "Failed"))])
def test_a_gang_whose_placeholders_have_places_and_do_not_run_times_out_by_its_style(
    style: Style, after: tuple[str, str]
) -> None:
    case = Case(style=style)
    case.gang.submit(0.0)
    case.engine.cycle(1.0)
    assert case.states == ("Running", "Reserving")
    case.gang.tick(61.0)
    for holder in list(case.gang.placeholders):
        case.gang.gone(holder, 62.0)
    assert case.states == after


def test_completion_releases_the_rest_first() -> None:
    case = Case().reserved()
    case.add("t")
    case.confirm(3.0)
    case.gang.ended("t", 4.0)
    assert case.states == ("Completing", "Running") and case.gang.next_wake() == 34.0
    case.gang.tick(34.0)
    assert case.states == ("Completing", "Running")
    case.confirm(35.0)
    assert case.states == ("Completed", "Completed")
    assert case.gang.next_wake() == 35.0 + RETENTION_SECONDS
    case.gang.tick(35.0 + RETENTION_SECONDS)
    assert case.states == ("Expired", "Completed")


def test_a_task_that_arrives_while_the_application_completes_lets_it_run() -> None:
    case = Case().reserved()
    case.add("a")
    case.confirm(3.0)
    case.gang.ended("a", 4.0)
    case.add("b", 5.0)
    assert case.states[0] == "Running"
    case.gang.tick(40.0)
    assert case.states[0] == "Running"


def test_a_failed_application_kills_and_releases_everything() -> None:
    case = Case(members=3).reserved()
    case.add("a")
    case.confirm(3.0)
    case.add("b", request=amounts({"cpus": 6}), group="")
    case.gang.fail(4.0, "BadImage")
    assert case.states == ("Failing", "Failing")
    assert (case.state("a"), case.state("b"), case.gang.members["b"].cause) == ("Killing", "Failed", "BadImage")
    case.confirm(5.0)
    assert case.states == ("Failed", "Failed")
    assert case.state("a") == "Killed"
    assert not case.engine.allocations and not case.engine.pending


def test_an_allocation_for_a_completed_task_is_released_at_once() -> None:
    case = Case(groups=())
    case.gang.submit(0.0)
    case.add("t", group="")
    case.gang.ended("t", 3.0)
    assert not case.gang.allocated("t", "n1", 4.0), "nothing waits for it"
    assert not case.engine.allocations
    assert case.state("t") == "Completed"


def test_a_launch_that_did_not_happen_asks_again() -> None:
    case = Case().reserved()
    case.add("t")
    (release,) = case.gang.due()
    case.gang.gone(release.placeholder, 3.0)  # type: ignore[union-attr]
    case.gang.returned("t", 4.0)
    assert (case.state("t"), set(case.engine.pending)) == ("Scheduling", {"t"})
    case.engine.cycle(5.0)
    case.confirm(5.0)
    assert case.state("t") == "Bound"


@pytest.mark.parametrize("fact", ["bound", "gone", "creation_failed", "launched", "returned", "ended", "nothing"])
def test_facts_about_unknown_objects_and_facts_that_repeat_change_nothing(fact: str) -> None:
    case = Case().reserved()
    case.add("t")
    case.confirm(3.0)
    case.gang.submit(3.0)
    case.add("t")
    case.gang.take_changes()
    before = records_of(case.gang)
    if fact != "nothing":
        getattr(case.gang, fact)("unknown", 4.0)
    case.gang.launched("t", 4.0)
    case.gang.tick(4.0)
    assert records_of(case.gang) == before
    assert case.gang.take_changes() == {}


def test_tasks_are_removed_when_they_are_terminated() -> None:
    case = Case().reserved()
    case.add("t")
    with pytest.raises(ValueError, match="task t: not terminated"):
        case.gang.remove_task("t")
    case.gang.ended("t", 3.0)
    case.gang.remove_task("t")
    case.gang.remove_task("t")
    assert "t" not in case.gang.members
    assert case.gang.take_changes()["member", "t"] is None


def processor_seconds(members: int) -> float:
    """The time of a gang from its submission until all tasks run."""
    before = process_time()
    case = Case(members=members)
    case.reserved()
    for number in range(members):
        case.add(f"t{number}")
    case.confirm(3.0)
    assert case.counter == (members, members, 0)
    assert {one.life.state for one in case.gang.members.values()} == {TaskState.BOUND}
    return process_time() - before


@pytest.mark.costs
def test_a_large_gang_costs_in_proportion_to_its_members() -> None:
    small = min(processor_seconds(500) for _ in range(3))
    assert min(processor_seconds(2000) for _ in range(2)) < 8 * small


def test_placeholders_that_end_with_the_scheduler_are_created_again_on_their_nodes() -> None:
    held = Traits(at_once=True, lasting=False)
    case = Case(traits=held).reserved()
    other = OneQueue({"n1": {"cpus": 4}})
    gang = other.gang = restored(records_of(case.gang), other, held)
    gang.adopt((), 5.0)
    assert {type(effect) for effect in gang.due()} == {Create}
    assert {one.key: (one.node, one.life.state) for one in gang.placeholders.values()} == dict.fromkeys(
        case.gang.placeholders, ("n1", "Allocated")
    )
    assert gang.record.counters == case.gang.record.counters and not other.pending


def test_tasks_that_exist_without_records_are_taken_over_as_they_are() -> None:
    """Pods have no records: a new leader finds them on their nodes."""
    case = Case(members=3, groups=())
    case.gang.submit(0.0, recovered=True)
    for name, node, terminated in (("ended", "n1", True), ("runs", "n1", False), ("waits", "", False)):
        case.gang.recover_task(TaskMetadata("app", name, TWO), node, terminated, 5.0)
    assert {task: case.state(task) for task in case.gang.members} == {
        "ended": "Completed", "runs": "Bound", "waits": "New",
    }  # fmt: skip
    case.gang.recover_task(TaskMetadata("app", "runs", TWO), "", True, 6.0)
    assert case.state("runs") == "Bound", "a task that is known stays as it is"
    case.gang.adopt((), 6.0)
    assert case.state("waits") == "Scheduling" and case.states == ("Running", "Running")
