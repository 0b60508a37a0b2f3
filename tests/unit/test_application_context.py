"""The applications of managers: idempotence, removal, originators, recovered tasks, and the dump for operators."""

from __future__ import annotations

from typing import Any

import pytest

from offers.dimensions import amounts
from offers.policy.applications.context import ApplicationContext
from offers.policy.applications.gangs.effects import Create, Launch, Release, Traits
from offers.policy.applications.gangs.gang import Gang
from offers.policy.applications.gangs.recovery import Existing
from offers.policy.applications.interface import (
    AddApplicationRequest,
    AddTaskRequest,
    ApplicationManagementProtocol,
    TaskGroupRef,
    TasksNotTerminated,
    UnknownApplication,
)
from offers.policy.applications.metadata import ApplicationMetadata, BadTaskGroups, TaskGroup, TaskMetadata
from tests.vectors.scenarios.engine import OneQueue

ONE = amounts({"cpus": 1})
GANG = (TaskGroup("w", 2, ONE),)


class Lab:
    """A context with its engine. Effects are confirmed by `work`."""

    def __init__(self) -> None:
        self.now = 1.0
        self.engine = OneQueue({"n1": {"cpus": 8}})
        self.registered: list[str] = []
        self.context = ApplicationContext(
            self.engine, Traits(), lambda: self.now, lambda application: self.registered.append(application.id)
        )
        self.protocol: ApplicationManagementProtocol = self.context

    def application(self, name: str = "app", recovered: bool = False, **fields: object) -> None:
        metadata = ApplicationMetadata(name, "root.q", **fields)  # type: ignore[arg-type]
        self.protocol.add_application(AddApplicationRequest(metadata, recovered))

    def task(self, name: str, application: str = "app", group: str = "") -> object:
        metadata = TaskMetadata(application, name, ONE, group, created=self.now)
        return self.protocol.add_task(AddTaskRequest(metadata))

    def work(self) -> list[str]:
        """Allocates and confirms until nothing is due. Returns the tasks that were launched."""
        launched = []
        for application in self.context.applications.values():
            self.engine.cycle(application.gang, self.now)
        while due := list(self.context.due()):
            for name, effect in due:
                gang = self.context.applications[name].gang
                match effect:
                    case Create(placeholder=key):
                        gang.bound(key, self.now)
                    case Release(placeholder=key):
                        gang.gone(key, self.now)
                    case Launch(task=key):
                        launched.append(key)
                        gang.launched(key, self.now)
                    case _:
                        gang.ended(effect.task, self.now)
        return launched

    def state(self, task: str) -> str:
        found = self.context.applications["app"].get_task(task)
        assert found is not None
        return found.state


def test_adding_twice_returns_the_same_object_unchanged() -> None:
    lab = Lab()
    lab.application(user="ann")
    first = lab.protocol.get_application("app")
    assert first is not None and (first.user, first.queue, first.state) == ("ann", "root.q", "Running")
    other = lab.protocol.add_application(AddApplicationRequest(ApplicationMetadata("app", "root.other", "bob")))
    assert other is first and first.user == "ann"
    task = lab.task("t")
    assert task is not None and lab.task("t") is task and first.get_task("t") is task
    assert lab.registered == ["app"]


def test_unknown_identifiers_are_none_or_nothing() -> None:
    lab = Lab()
    assert lab.protocol.get_application("app") is None
    assert lab.task("t") is None
    lab.protocol.notify_task_complete("app", "t")
    lab.protocol.notify_application_complete("app")
    lab.protocol.notify_application_fail("app")
    lab.protocol.remove_task("app", "t")
    with pytest.raises(UnknownApplication, match="no application has the id app"):
        lab.protocol.remove_application("app")
    assert lab.context.take_changes() == {}


def test_bad_task_groups_add_nothing() -> None:
    lab = Lab()
    with pytest.raises(BadTaskGroups):
        lab.application(task_groups=(TaskGroup("", 0),))
    assert lab.context.applications == {} and lab.registered == []


def test_an_application_is_removed_when_its_tasks_are_terminated() -> None:
    lab = Lab()
    lab.application()
    lab.task("a")
    lab.task("b")
    lab.work()
    lab.protocol.notify_task_complete("app", "a")
    with pytest.raises(TasksNotTerminated, match="application app: these tasks are not terminated: b"):
        lab.protocol.remove_application("app")
    with pytest.raises(TasksNotTerminated, match="b"):
        lab.protocol.remove_task("app", "b")
    lab.protocol.remove_task("app", "a")
    lab.protocol.notify_task_complete("app", "b")
    lab.context.take_changes()
    lab.protocol.remove_application("app")
    assert lab.context.take_changes() == {("app", "application", "app"): None, ("app", "member", "b"): None}
    assert not lab.engine.allocations


def test_placeholders_keep_their_application() -> None:
    lab = Lab()
    lab.application(task_groups=GANG)
    with pytest.raises(TasksNotTerminated, match="tg-app-w-"):
        lab.protocol.remove_application("app")
    lab.protocol.notify_application_complete("app")
    lab.work()
    lab.now += 30
    lab.context.tick()
    assert lab.context.applications["app"].state == "Completed"
    lab.protocol.remove_application("app")


def test_the_first_task_of_the_owner_is_the_originator() -> None:
    lab = Lab()
    lab.application(owner="driver")
    application = lab.context.applications["app"]
    lab.task("other")
    assert application.originator == ""
    lab.task("driver")
    lab.work()
    lab.protocol.notify_task_complete("app", "driver")
    lab.protocol.remove_task("app", "driver")
    lab.task("driver")
    assert application.originator == "driver"


@pytest.mark.parametrize(
    ("node", "terminated", "state"), [("n1", False, "Bound"), ("n1", True, "Completed"), ("", False, "New")]
)
def test_recovered_tasks_have_the_state_of_their_units(node: str, terminated: bool, state: str) -> None:
    lab = Lab()
    lab.application(recovered=True)
    metadata = TaskMetadata("app", "t", ONE)
    unit = TaskGroupRef("u", {}, node, terminated)
    task = lab.context.recover_task(metadata, unit)
    assert task is not None and task.state == state
    assert lab.context.recover_task(metadata, unit) is task
    assert set(lab.engine.allocations) == ({"t"} if state == "Bound" else set())
    lab.context.resume({})
    assert lab.state("t") == ("Scheduling" if state == "New" else state)
    assert lab.context.recover_task(metadata._replace(application="unknown"), unit) is None


def test_a_task_that_its_manager_adds_before_its_unit_is_known_is_not_launched_again() -> None:
    lab = Lab()
    lab.application(recovered=True)
    task = lab.task("t")
    assert lab.context.recover_task(TaskMetadata("app", "t", ONE), TaskGroupRef("u", {}, "n1")) is task
    lab.context.resume({})
    assert lab.work() == [] and lab.state("t") == "Bound"


def test_a_gang_that_ran_before_reserves_nothing_again() -> None:
    lab = Lab()
    lab.application(recovered=True, task_groups=GANG)
    lab.context.recover_task(TaskMetadata("app", "t", ONE, "w"), TaskGroupRef("u", {}, "n1"))
    lab.context.resume({"app": [Existing("left-over", "w", "n1")]})
    assert set(lab.context.applications["app"].gang.placeholders) == {"left-over"}
    assert [type(effect) for _, effect in lab.context.due()] == [Release]
    assert lab.context.applications["app"].state == "Running"


def test_a_gang_without_tasks_finds_its_placeholders_and_asks_for_the_missing_one() -> None:
    lab = Lab()
    lab.application(recovered=True, task_groups=GANG)
    lab.context.resume({"app": [Existing("one", "w", "n1")]})
    application = lab.context.applications["app"]
    assert application.state == "Reserving" and len(lab.engine.pending) == 1
    lab.work()
    assert application.state == "Running" and "one" in application.gang.placeholders


def test_completion_ends_tasks_and_waits_for_their_end() -> None:
    lab = Lab()
    lab.application()
    lab.task("t")
    lab.work()
    lab.protocol.notify_application_complete("app")
    lab.now += 31
    lab.context.tick()
    application = lab.context.applications["app"]
    assert (application.state, lab.state("t")) == ("Running", "Killing")
    lab.work()
    assert (application.state, lab.state("t")) == ("Completed", "Killed")


def test_failure_names_its_cause() -> None:
    lab = Lab()
    lab.application(task_groups=GANG)
    lab.task("t", group="w")
    lab.protocol.notify_application_fail("app", "BadImage")
    gang = lab.context.applications["app"].gang
    assert (gang.record.cause, gang.members["t"].cause, lab.state("t")) == ("BadImage", "BadImage", "Failed")


def test_an_application_of_records_is_the_same_again() -> None:
    lab, other = Lab(), Lab()
    lab.application(owner="t")
    lab.task("t")
    lab.work()
    records = [record for record in lab.context.take_changes().values() if record is not None]
    gang = Gang.restored(records, (), other.engine, Traits(), 2.0)
    restored = other.context.restore(gang, {"t": "unit-1"})
    assert (restored.originator, restored.tasks["t"].unit, restored.state) == ("t", "unit-1", "Running")
    assert other.context.dump() == lab.context.dump()
    with pytest.raises(ValueError, match="application app: exists already"):
        other.context.restore(gang, {})


def test_the_dump_shows_states_and_counters() -> None:
    lab = Lab()
    lab.application(task_groups=GANG)
    lab.work()
    lab.task("t", group="w")
    lab.work()
    (shown,) = lab.context.dump().values()
    assert isinstance(shown, dict)
    assert (shown["state"], shown["core"], shown["tasks"]) == ("Running", "Running", {"t": "Bound"})
    assert shown["groups"] == {"w": {"count": 2, "replaced": 1, "timed_out": 0}}
    assert list(shown["placeholders"].values()) == ["Bound"]
    assert lab.context.next_wake() == 1.0 + 900
    assert lab.context.take_notices() == []


@pytest.mark.parametrize("others", [0, 200])
def test_a_step_asks_only_the_applications_that_it_concerns(others: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab()
    for number in range(others):
        lab.application(f"idle-{number}")
    lab.application("app")
    lab.context.take_changes()
    lab.context.take_notices()
    assert lab.context.next_wake() is None
    asked: list[str] = []
    for name in ("take_changes", "take_notices", "due", "next_wake", "tick"):
        original = getattr(Gang, name)

        def counted(gang: Gang, *arguments: float, name: str = name, original: Any = original) -> Any:
            asked.append(f"{gang.record.key} {name}")
            return original(gang, *arguments)

        monkeypatch.setattr(Gang, name, counted)
    lab.task("t")
    changes, effects, notices = lab.context.take_changes(), list(lab.context.due()), lab.context.take_notices()
    lab.context.tick()
    assert ("app", "member", "t") in changes and not effects and not notices
    assert {one.partition(" ")[0] for one in asked} == {"app"} and len(asked) < 10


def test_the_next_wake_is_the_earliest_of_all_applications() -> None:
    lab = Lab()

    def earliest() -> float | None:
        wakes = [application.gang.next_wake() for application in lab.context.applications.values()]
        return min((wake for wake in wakes if wake is not None), default=None)

    seen = set()
    for name, groups in (("one", GANG), ("two", ()), ("three", ())):
        lab.now += 1.0
        lab.application(name, task_groups=groups)
        lab.work()
        seen.add(lab.context.next_wake())
        assert lab.context.next_wake() == earliest()
        lab.context.notify_application_complete(name)
        assert lab.context.next_wake() == earliest()
    for _ in range(20):
        wake = lab.context.next_wake()
        if wake is None:
            break
        lab.now = wake
        lab.context.tick()
        lab.work()
        seen.add(wake)
        assert lab.context.next_wake() == earliest()
    assert len(seen) > 3
