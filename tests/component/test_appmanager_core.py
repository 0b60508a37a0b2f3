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
from bcs_scheduler.appmanagers.service import ManagerRunner
from bcs_scheduler.core.interface import cluster_manager, managed, requests
from bcs_scheduler.core.interface.effects import LogLine, Reply
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.leadership.gateway import Busy
from offers.policy.applications.interface import (
    AddApplicationRequest,
    AddTaskRequest,
    BadRequest,
    ExistingAllocation,
    TaskGroupRef,
    TasksNotTerminated,
    Unavailable,
    UnknownApplication,
)
from offers.policy.applications.metadata import (
    ApplicationMetadata,
    BadTaskGroups,
    Outcome,
    SchedulingPolicyParameters,
    Style,
    TaskGroup,
    TaskMetadata,
)
from store.records import ANNOTATION_OF_PLACEHOLDER
from store.records import TaskGroup as Running
from store.records.definition import Toleration
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


def test_a_manager_learns_the_outcome_of_a_task() -> None:
    lab = ManagedLab()
    lab.add("solo", 3)
    lab.offer("a")
    lab.start()
    owner = lab.context.get_application("solo")
    assert owner is not None
    tasks = [owner.get_task(f"t{number}") for number in range(3)]
    assert [one.outcome for one in tasks if one is not None] == [None] * 3
    failed, finished, killed = (lab.groups_of(f"solo-t{number}")[0] for number in range(3))
    detail = cluster_manager.TaskDetail(exit_code=3)
    lab.report(failed, "FAILED", reason="REASON_COMMAND_EXECUTOR_FAILED", message="exited with 3", detail=detail)
    lab.report(finished, "FINISHED", detail=cluster_manager.TaskDetail(exit_code=0))
    lab.context.notify_application_fail("solo", "the user wants no more")
    lab.wait(0.1)
    lab.report(killed, "KILLED")
    lab.wait(0.1)
    assert [one.state for one in tasks if one is not None] == ["Completed", "Completed", "Killed"]
    outcomes = [one.outcome for one in tasks if one is not None]
    assert outcomes[0] == Outcome("Failed", "REASON_COMMAND_EXECUTOR_FAILED", "exited with 3", 3)
    assert outcomes[1] is not None and (outcomes[1].status, outcomes[1].exit_code) == ("Finish", 0)
    assert outcomes[2] is not None and outcomes[2].status == "Killed"


def test_a_task_that_is_never_launched_has_its_cause_as_outcome() -> None:
    lab = ManagedLab()
    lab.ask(
        requests.CreateApplication(
            version=msgspec.structs.replace(version(1), namespace="batch", application="solo-t0")
        )
    )
    lab.add("solo", 1)
    lab.wait(0.1)
    owner = lab.context.get_application("solo")
    found = owner.get_task("t0") if owner is not None else None
    assert found is not None and found.outcome == Outcome(reason="application batch/solo-t0 exists already")


ONLY_B = {
    "constraint": {
        "intersectionItem": [
            {"unionData": [{"name": "InnerIP", "operate": "CLUSTER", "type": 3, "text": {"value": "b"}}]},
            {"unionData": [{"name": "dedicated", "operate": "TOLERATION", "type": 3, "text": {"value": "db"}}]},
        ]
    },
    "spec": {"template": {"spec": {"role": "batch"}}},
}


def test_the_terms_of_a_task_group_reach_its_placeholders_before_there_is_a_task() -> None:
    lab = ManagedLab()
    terms = {**ONLY_B, "spec": {}}
    group = TaskGroup("w", 2, REQUEST, json.dumps(terms))
    lab.context.add_application(AddApplicationRequest(ApplicationMetadata("far", "q", task_groups=(group,))))
    lab.wait(0.1)
    lab.offer("a")
    lab.wait(0.1)
    assert lab.sleeping == []
    lab.offer("b")
    lab.wait(0.1)
    assert [one.agent_id for one in lab.sleeping] == ["b", "b"]
    state = lab.core.state
    holders = [one for one in state.applications.values() if ANNOTATION_OF_PLACEHOLDER in one.annotations]
    made = [state.version(one.key, one.version) for one in holders]
    assert [one.tolerations for one in made if one is not None] == [(Toleration(key="dedicated", value="db"),)] * 2


def test_terms_win_over_those_of_a_task_and_bad_ones_are_refused() -> None:
    lab = ManagedLab()
    group = TaskGroup("w", 1, REQUEST, json.dumps(ONLY_B))
    lab.context.add_application(AddApplicationRequest(ApplicationMetadata("far", "q", task_groups=(group,))))
    lab.context.add_task(AddTaskRequest(task("far", "t0", "w")))
    lab.wait(0.1)
    state = lab.core.state
    (holder,) = [one for one in state.applications.values() if ANNOTATION_OF_PLACEHOLDER in one.annotations]
    made = state.version(holder.key, holder.version)
    assert made is not None and made.role == "batch" and made.constraints
    for terms, words in (("{", "not JSON"), ("[]", "not an object"), ('{"constraint": 3}', r"\$\.constraint")):
        bad = ApplicationMetadata("bad", "q", task_groups=(TaskGroup("w", 1, REQUEST, terms),))
        with pytest.raises(BadRequest, match=f"task group w of application bad: terms: .*{words}"):
            lab.context.add_application(AddApplicationRequest(bad))


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


def test_each_two_minutes_without_new_work_are_told_once() -> None:
    lab = ManagedLab()
    lab.add("solo", 1)

    def told(seconds: float) -> list[str]:
        lines = [one for one in lab.wait(seconds) if isinstance(one, LogLine)]
        return [one.message for one in lines if one.reason == "NoOutstandingApplications"]

    words = "no outstanding applications for 2m"
    assert told(120.0) == [], "the task was new work"
    assert told(119.0) == []
    assert told(2.0) == [words]
    assert told(120.0) == [words]


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
    monkeypatch.setattr("bcs_scheduler.appmanagers.service.FIRST_PAUSE", 0.01)
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


class Knowing(Simple):
    """A manager that is Recoverable: `listed` are its applications, `answers` its tasks by name of the unit."""

    def __init__(self, calls: list[str], listed: dict[str, Any], answers: dict[str, ExistingAllocation]) -> None:
        super().__init__("m", calls)
        self.listed, self.answers = listed, answers

    async def list_applications(self) -> dict[str, Any]:
        return self.listed

    def get_existing_allocation(self, unit: TaskGroupRef) -> ExistingAllocation | None:
        return self.answers.get(unit.labels.get("task", ""))


def started(lab: ManagedLab, manager: Simple) -> list[Any]:
    """The log of a start of the manager."""
    seen: list[tuple[str, bool]] = []
    made = ManagerRunner(
        lambda: [manager],
        {"m": {"namespace": "batch"}},
        lab.core.state,
        lab.submit,
        time.time,
        lambda *one: seen.append(one),
    )
    with capture_logs() as logs:
        made.start()
        wait_for(lambda: seen, what="the start")
        made.stop()
    return [line for line in logs if line["log_level"] in ("warning", "error")]


def test_answers_about_units_that_differ_from_the_records_are_told(calls: list[str]) -> None:
    lab = ManagedLab()
    lab.add("solo", 5)
    lab.offer("a")
    lab.start()
    ran = {number: TaskMetadata("solo", f"t{number}", REQUEST) for number in range(5)}
    answers = {
        "t0": ExistingAllocation(ran[0], "a"),
        "t1": ExistingAllocation(ran[1], "elsewhere"),
        "t2": ExistingAllocation(ran[0], "a"),
        "t3": ExistingAllocation(ran[3]._replace(group="w", request=(("cpus", 7),)), "a"),
    }
    told = started(lab, Knowing(calls, {}, answers))
    assert {line["event"] for line in told} == {"appmanager.differs"} and {line["manager"] for line in told} == {"m"}
    assert sorted(line["difference"] for line in told) == [
        "task batch/solo/t1: the manager says node elsewhere, the unit is on a",
        "task batch/solo/t3: the manager says group w, the record none",
        "task batch/solo/t3: the manager says {'cpus': 7}, the record {'cpus': 100, 'mem': 32000}",
        "the manager says task batch/solo/t0, the record says batch/solo/t2",
        "the unit is task batch/solo/t4, and the manager does not know it",
    ]
    assert lab.states("solo") == ["Bound"] * 5, "the records count"


def test_a_task_that_no_record_names_is_told(calls: list[str]) -> None:
    lab = ManagedLab()
    lab.ask(
        requests.CreateApplication(
            version=msgspec.structs.replace(version(1), namespace="batch", labels={"task": "t0"})
        )
    )
    lab.offer("a")
    answers = {"t0": ExistingAllocation(TaskMetadata("solo", "t0", REQUEST), "a")}
    (line,) = started(lab, Knowing(calls, {}, answers))
    assert line["difference"] == "the manager says task batch/solo/t0, which does not exist"


@pytest.mark.parametrize(
    ("listed", "event"),
    [
        ({"bad": ApplicationMetadata("bad", "q", task_groups=(TaskGroup("", 0),))}, "appmanager.refused"),
        ({"bad": ApplicationMetadata("BAD", "q")}, "appmanager.refused"),
        ({"bad": "nonsense"}, "appmanager.start_failed"),
        (None, "appmanager.start_failed"),
    ],
)
def test_what_a_manager_lists_wrongly_ends_no_thread(calls: list[str], listed: Any, event: str) -> None:
    lines = started(ManagedLab(), Knowing(calls, listed, {}))
    assert {line["event"] for line in lines} == {event}
    assert calls[:2] == ["m started", "m stopped"]


def test_an_answer_of_another_form_ends_the_start(calls: list[str]) -> None:
    lab = ManagedLab()
    lab.add("solo", 1)
    lab.offer("a")
    answers: Any = {"t0": "nonsense"}
    (line,) = started(lab, Knowing(calls, {}, answers))
    assert line["error"].endswith("get_existing_allocation: TypeError: str in place of ExistingAllocation")


def test_a_notification_whose_replay_fails_is_logged(calls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    class Eager(Knowing):
        async def start(self) -> None:
            self.context.notify_application_complete("solo")
            await super().start()

    lab = ManagedLab()
    lab.add("solo", 1)
    monkeypatch.setattr(lab, "submit", refusing(lab, managed.EndManagedApplication))
    (line,) = started(lab, Eager(calls, {}, {}))
    assert (line["event"], line["error"]) == ("appmanager.replay_failed", "no leader")


def refusing(lab: ManagedLab, kind: type[requests.Request]) -> Callable[[requests.Request], Future[Reply]]:
    def submit(request: requests.Request) -> Future[Reply]:
        if isinstance(request, kind):
            raise Busy("no leader")
        return ManagedLab.submit(lab, request)

    return submit
