"""Application managers against a core: calls become requests, tasks become taskgroups, and failures stay with their
manager."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from bcs_scheduler.appmanagers.bridge import CoreContext, unit_name
from bcs_scheduler.appmanagers.runner import ManagerRunner
from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.interface.effects import Reply
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.leadership.gateway import Busy
from offers.policy.applications.interface import (
    AddApplicationRequest,
    AddTaskRequest,
    BadRequest,
    TasksNotTerminated,
    Unavailable,
    UnknownApplication,
)
from offers.policy.applications.metadata import (
    ApplicationMetadata,
    BadTaskGroups,
    SchedulingPolicyParameters,
    Style,
    TaskGroup,
    TaskMetadata,
)
from store.records import ANNOTATION_OF_PLACEHOLDER
from store.records import TaskGroup as Running
from store.state.validation import validate
from tests.unit.lab import Lab, version
from tests.waiting import wait_for

WHOLE = 150
REQUEST = (("cpus", 100), ("mem", 32_000))


class ManagedLab(Lab):
    """A lab whose requests come from a manager."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(CoreOptions(strict=True, placeholders="sleep"), *arguments, **more)
        self.context = CoreContext("m", "batch", self.core.state, self.submit)

    def submit(self, request: requests.Request) -> Future[Reply]:
        future: Future[Reply] = Future()
        future.set_result(self.ask(request))
        return future

    def groups_of(self, application: str) -> list[Running]:
        found = self.core.state.groups_of(f"batch/{application}").values()
        return [group for group in found if not group.ended]

    @property
    def sleeping(self) -> list[Running]:
        applications = self.core.state.applications.values()
        holders = [one.name for one in applications if ANNOTATION_OF_PLACEHOLDER in one.annotations]
        return [group for name in holders for group in self.groups_of(name)]

    def start(self) -> None:
        for group in list(self.core.state.taskgroups.values()):
            if not group.ended and not group.started and not group.killing_since:
                self.report(group, "RUNNING")
        self.wait(0.1)

    def stop_ending(self) -> list[Running]:
        ended = [group for group in self.core.state.taskgroups.values() if group.killing_since and not group.ended]
        for group in ended:
            self.report(group, "KILLED")
        self.wait(0.1)
        return ended

    def add(self, name: str, tasks: int, members: int = 0, style: Style = Style.SOFT) -> None:
        groups = (TaskGroup("w", members, REQUEST),) if members else ()
        parameters = SchedulingPolicyParameters(60.0, style)
        metadata = ApplicationMetadata(name, "root.q", task_groups=groups, parameters=parameters)
        self.context.add_application(AddApplicationRequest(metadata))
        for number in range(tasks):
            self.context.add_task(AddTaskRequest(task(name, f"t{number}", "w" if members else "")))
        self.wait(0.1)

    def states(self, name: str) -> list[str]:
        keys = self.core.state.indexes.managed_by("managedtask", f"batch/{name}")
        return [self.core.state.managed_tasks[key].state for key in keys]

    def state_of(self, name: str) -> str:
        found = self.context.get_application(name)
        return found.state if found is not None else ""


def task(application: str, name: str, group: str = "", **more: Any) -> TaskMetadata:
    container = {"command": "work", "resources": {"limits": {"cpu": "0.1", "memory": "32"}}}
    definition = {"metadata": {"labels": {"task": name}}, "spec": {"template": {"spec": {"containers": [container]}}}}
    return TaskMetadata(application, name, REQUEST, group, definition=json.dumps(definition | more))


def test_tasks_without_groups_are_launched_and_their_ends_complete_the_application() -> None:
    lab = ManagedLab()
    lab.add("solo", 2)
    lab.offer("a")
    lab.start()
    assert lab.states("solo") == ["Bound", "Bound"]
    assert lab.core.state.applications["batch/solo-t0"].labels == {"task": "t0"}
    for number in range(2):
        lab.report(lab.groups_of(f"solo-t{number}")[0], "FINISHED")
    lab.wait(0.1)
    assert lab.states("solo") == ["Completed", "Completed"]
    lab.wait(31.0)
    assert lab.state_of("solo") == "Completed"
    lab.context.remove_application("solo")
    lab.wait(1.0)
    state = lab.core.state
    assert not (state.managed_applications or state.managed_tasks or state.applications)
    assert validate(state) == []


def test_a_failed_task_is_not_launched_again() -> None:
    lab = ManagedLab()
    lab.add("solo", 1)
    lab.offer("a")
    lab.start()
    lab.report(lab.groups_of("solo-t0")[0], "FAILED")
    lab.wait(5.0)
    lab.offer("a")
    assert lab.groups_of("solo-t0") == []
    assert lab.states("solo") == ["Completed"]


def test_a_gang_of_a_manager_reserves_its_room_and_takes_it_over() -> None:
    lab = ManagedLab()
    lab.add("gang", 2, members=2)
    assert lab.state_of("gang") == "Reserving"
    for agent in ("a", "b"):
        lab.offer(agent, cpus=WHOLE)
        lab.start()
    ended = lab.stop_ending()
    assert {group.agent_id for group in ended} == {"a", "b"}
    for group in ended:
        lab.offer(group.agent_id, cpus=WHOLE)
    lab.start()
    assert lab.states("gang") == ["Bound", "Bound"]
    assert sorted(lab.groups_of(f"gang-t{number}")[0].agent_id for number in range(2)) == ["a", "b"]
    assert not lab.core.state.placeholders


def test_a_hard_gang_that_times_out_fails_with_its_tasks() -> None:
    lab = ManagedLab()
    lab.add("gang", 2, members=2, style=Style.HARD)
    lab.offer("a", cpus=WHOLE)
    lab.start()
    lab.wait(61.0)
    lab.stop_ending()
    lab.wait(1.0)
    assert lab.state_of("gang") == "Failed"
    assert lab.states("gang") == ["Failed", "Failed"]
    assert not (lab.sleeping or lab.core.state.placeholders)


def test_an_application_that_its_manager_ends_loses_tasks_and_placeholders() -> None:
    lab = ManagedLab()
    lab.add("gang", 3, members=2)
    for agent in ("a", "b"):
        lab.offer(agent, cpus=WHOLE)
    lab.start()
    for group in lab.stop_ending():
        lab.offer(group.agent_id, cpus=WHOLE)
    lab.start()
    with pytest.raises(TasksNotTerminated, match="t0, t1"):
        lab.context.remove_application("gang")
    lab.context.notify_application_complete("gang")
    lab.wait(0.1)
    lab.stop_ending()
    lab.wait(31.0)
    assert sorted(lab.states("gang")) == ["Failed", "Killed", "Killed"]
    assert lab.state_of("gang") == "Completed"


def test_the_manager_ends_a_task() -> None:
    lab = ManagedLab()
    lab.add("solo", 1)
    lab.offer("a")
    lab.start()
    lab.context.notify_task_complete("solo", "t0")
    lab.wait(0.1)
    assert lab.states("solo") == ["Completed"]
    assert len(lab.stop_ending()) == 1
    lab.wait(0.1)
    lab.context.remove_task("solo", "t0")
    lab.wait(0.1)
    assert lab.states("solo") == []


def test_a_new_leader_continues_with_all_applications() -> None:
    lab = ManagedLab()
    lab.add("gang", 2, members=2)
    lab.offer("a", cpus=WHOLE)
    lab.start()
    lab = ManagedLab(lab.records(), lab.now)
    lab._serial = 5000
    lab.wait(0.1)
    assert lab.state_of("gang") == "Reserving"
    lab.offer("b", cpus=WHOLE)
    lab.start()
    for group in lab.stop_ending():
        lab.offer(group.agent_id, cpus=WHOLE)
    lab.start()
    assert lab.states("gang") == ["Bound", "Bound"]


def test_calls_are_idempotent_and_bad_ones_are_refused() -> None:
    lab = ManagedLab()
    context = lab.context
    lab.add("solo", 1)
    before = list(lab.core.state.managed_tasks)
    lab.add("solo", 1)
    assert list(lab.core.state.managed_tasks) == before
    assert context.add_task(AddTaskRequest(task("unknown", "t"))) is None
    with pytest.raises(UnknownApplication):
        context.remove_application("unknown")
    context.notify_application_complete("unknown")
    context.notify_task_complete("unknown", "t")
    with pytest.raises(BadTaskGroups):
        context.add_application(AddApplicationRequest(ApplicationMetadata("x", "q", task_groups=(TaskGroup("", 0),))))
    with pytest.raises(BadRequest, match="application 'Not A Name': not a name"):
        context.add_application(AddApplicationRequest(ApplicationMetadata("Not A Name", "q")))
    with pytest.raises(BadRequest, match="501 members in task groups, the most is 500"):
        context.add_application(
            AddApplicationRequest(ApplicationMetadata("big", "q", task_groups=(TaskGroup("w", 501, REQUEST),)))
        )
    for definition, words in {"": "missing", "{": "not JSON", "[]": "not an object", "{}": "is required"}.items():
        bad = TaskMetadata("solo", "bad", REQUEST, definition=definition)
        with pytest.raises(BadRequest, match=f"task bad of application solo: definition: .*{words}"):
            context.add_task(AddTaskRequest(bad))
    other = CoreContext("other", "batch", lab.core.state, lab.submit)
    assert other.get_application("solo") is None
    with pytest.raises(BadRequest, match="belongs to manager m"):
        other.add_application(AddApplicationRequest(ApplicationMetadata("solo", "q")))


def test_a_task_whose_name_is_taken_fails_with_the_reason() -> None:
    lab = ManagedLab()
    other = msgspec.structs.replace(version(1), namespace="batch", application="solo-t0")
    lab.ask(requests.CreateApplication(version=other))
    lab.add("solo", 1)
    lab.wait(0.1)
    assert lab.states("solo") == ["Failed"]
    (record,) = lab.core.state.managed_tasks.values()
    assert record.cause == "application batch/solo-t0 exists already"
    assert "batch/solo-t0" in lab.core.state.applications


def test_a_scheduler_that_does_not_lead_is_unavailable() -> None:
    def refuse(request: requests.Request) -> Future[Reply]:
        raise Busy("leadership has just ended")

    context = CoreContext("m", "batch", Lab().core.state, refuse)
    with pytest.raises(Unavailable, match="leadership has just ended"):
        context.add_application(AddApplicationRequest(ApplicationMetadata("solo", "q")))


def test_names_of_units_are_bounded_and_unique() -> None:
    assert unit_name("a", "t") == "a-t"
    long = {unit_name("a" * 40, "t" * 30 + str(number)) for number in range(9)}
    assert len(long) == 9 and {len(name) for name in long} == {63}


# --- the thread of the managers -------------------------------------------------------------------------------


class Simple:
    """A manager that adds one application. `fault` is carried out in `start`."""

    def __init__(self, name: str, calls: list[str], fault: Callable[[], None] = lambda: None) -> None:
        self.name, self.calls, self.fault = name, calls, fault

    async def service_init(self, context: Any, services: Any) -> None:
        self.context, self.services = context, services

    async def start(self) -> None:
        self.fault()
        self.context.add_application(AddApplicationRequest(ApplicationMetadata(self.name, "q")))
        self.calls.append(f"{self.name} started")

    async def stop(self) -> None:
        self.calls.append(f"{self.name} stopped")


@pytest.fixture
def calls() -> list[str]:
    return []


def runner(lab: ManagedLab, make: Callable[[], list[Any]], seen: list[tuple[str, bool]]) -> Iterator[ManagerRunner]:
    made = ManagerRunner(
        make, {"one": {"namespace": "batch"}}, lab.core.state, lab.submit, time.time, lambda *one: seen.append(one)
    )
    made.start()
    try:
        yield made
    finally:
        made.stop()


def test_managers_start_beside_the_core_and_stop_with_the_term(calls: list[str]) -> None:
    lab, seen = ManagedLab(), []  # type: ignore[var-annotated]
    for made in runner(lab, lambda: [Simple("one", calls)], seen):
        wait_for(lambda: ("one", True) in seen, what="the start")
        assert list(lab.core.state.managed_applications) == ["batch/one"]
        made.stop()
        assert calls == ["one started", "one stopped"]
        made.stop()


def test_a_manager_that_fails_is_named_and_started_again(calls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bcs_scheduler.appmanagers.runner.FIRST_PAUSE", 0.01)
    lab, seen, tries = ManagedLab(), [], []  # type: ignore[var-annotated]

    def fault() -> None:
        tries.append(1)
        if len(tries) < 3:
            raise OSError("no route")

    with capture_logs() as logs:
        for _ in runner(lab, lambda: [Simple("one", calls, fault)], seen):
            wait_for(lambda: ("one", True) in seen, what="the third start")
    assert seen == [("one", False), ("one", False), ("one", True)]
    failures = [line for line in logs if line["event"] == "appmanager.start_failed"]
    assert [line["error"] for line in failures] == ["application manager one: start: OSError: no route"] * 2
