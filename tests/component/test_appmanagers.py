"""Application managers: found by entry points, started in order, recovered, stopped; the contract for third parties.

The manager of `appmanager_spool` is a package of its own, installed by pip, and used in a program of its own.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from bcs_scheduler.appmanagers.installed import BadManager, enabled_managers
from bcs_scheduler.appmanagers.service import ManagerService, StartFailed
from bcs_scheduler.testing.appmanager import ContractBroken, Rule, TestContext, check
from offers.dimensions import amounts
from offers.policy.applications.interface import (
    GROUP,
    AddApplicationRequest,
    AddTaskRequest,
    ApplicationManagementProtocol,
    ExistingAllocation,
    Services,
    TaskGroupRef,
)
from offers.policy.applications.metadata import ApplicationMetadata, TaskGroup, TaskMetadata

ROOT = Path(__file__).parents[2]
SPOOL = Path(__file__).parent / "appmanager_spool"
ONE = amounts({"cpus": 1000})


class Plain:
    """A manager that keeps the contract: it adds one application in `start`."""

    name = "plain"

    def __init__(self, name: str = "plain", calls: list[str] | None = None) -> None:
        self.name = name
        self.calls = calls if calls is not None else []

    def note(self, call: str) -> None:
        self.calls.append(f"{self.name}.{call}")

    async def service_init(self, context: ApplicationManagementProtocol, services: Services) -> None:
        self.note("service_init")
        self.context, self.services = context, services

    async def start(self) -> None:
        self.note("start")
        self.context.add_application(AddApplicationRequest(ApplicationMetadata(self.name, "root.q")))

    async def stop(self) -> None:
        self.note("stop")


class Remembering(Plain):
    """A manager that is Recoverable. `applications` are listed; units with the label `task` are its tasks."""

    def __init__(self, applications: dict[str, ApplicationMetadata], **more: Any) -> None:
        super().__init__(**more)
        self.applications = applications

    async def list_applications(self) -> dict[str, ApplicationMetadata]:
        self.note("list_applications")
        return self.applications

    def get_existing_allocation(self, unit: TaskGroupRef) -> ExistingAllocation | None:
        task, application = unit.labels.get("task"), unit.labels.get("application", self.name)
        return ExistingAllocation(TaskMetadata(application, task, ONE, unit=unit.unit), unit.node) if task else None


def service(*managers: Any, limit: float = 60.0, settings: Any = None) -> tuple[ManagerService, dict[str, TestContext]]:
    """The managers, each with a context that has a task that runs."""
    contexts = {one.name: TestContext(one.name) for one in managers}
    for context in contexts.values():
        add_running(context, "old", "t1")
    return ManagerService(managers, contexts, time.time, settings, limit), contexts


def add_running(context: TestContext, application: str, *tasks: str, group: TaskGroup | None = None) -> None:
    groups = (group,) if group is not None else ()
    context.add_application(AddApplicationRequest(ApplicationMetadata(application, "root.q", task_groups=groups)))
    container = {"command": "work", "resources": {"limits": {"cpu": "1", "memory": "32"}}}
    definition = json.dumps({"spec": {"template": {"spec": {"containers": [container]}}}})
    for task in tasks:
        metadata = TaskMetadata(application, task, ONE, group.name if group is not None else "", definition=definition)
        context.add_task(AddTaskRequest(metadata))
    assert context.launched[-len(tasks) :] == [(application, task) for task in tasks]


def states(context: TestContext, application: str, *tasks: str) -> list[str]:
    found = [context.applications[application].get_task(task) for task in tasks]
    return [one.state if one is not None else "" for one in found]


# --- start and stop -------------------------------------------------------------------------------------------


def test_managers_are_initialized_then_started_in_order_and_stopped_in_the_opposite_order() -> None:
    calls: list[str] = []
    one, two = Plain("one", calls), Plain("two", calls)
    made, contexts = service(one, two, settings={"two": {"depth": 3}})

    async def run() -> None:
        await made.start()
        await made.stop()
        await made.stop()

    asyncio.run(run())
    assert calls == [
        "one.service_init", "two.service_init", "one.start", "two.start", "two.stop", "one.stop",
    ]  # fmt: skip
    assert (one.services.settings, two.services.settings) == ({}, {"depth": 3})
    assert {name: set(context.applications) for name, context in contexts.items()} == {
        "one": {"old", "one"}, "two": {"old", "two"},
    }  # fmt: skip


class Failing(Plain):
    def __init__(self, call: str, error: BaseException | None, calls: list[str]) -> None:
        super().__init__("failing", calls)
        self.call, self.error = call, error

    async def fail(self, call: str) -> None:
        if call == self.call:
            if self.error is None:
                await asyncio.Event().wait()
            else:
                raise self.error

    async def service_init(self, context: Any, services: Any) -> None:
        await super().service_init(context, services)
        await self.fail("service_init")

    async def start(self) -> None:
        await super().start()
        await self.fail("start")

    async def list_applications(self) -> dict[str, ApplicationMetadata]:
        await self.fail("list_applications")
        return {}

    def get_existing_allocation(self, unit: TaskGroupRef) -> ExistingAllocation | None:
        if self.call == "get_existing_allocation":
            raise self.error or RuntimeError
        return None

    async def stop(self) -> None:
        await super().stop()
        raise RuntimeError("cannot stop either")


@pytest.mark.parametrize("call", ["service_init", "start", "list_applications", "get_existing_allocation"])
def test_a_manager_that_fails_ends_the_start_and_is_named(call: str) -> None:
    calls: list[str] = []
    made, _ = service(Plain("first", calls), Failing(call, OSError("no route"), calls), Plain("last", calls))
    with pytest.raises(StartFailed, match=f"application manager failing: {call}: OSError: no route") as failed:
        asyncio.run(made.start())
    assert (failed.value.manager, failed.value.call) == ("failing", call)
    started = [one for one in calls if one.endswith(".start")]
    assert [one for one in calls if one.endswith(".stop")] == [f"{one[:-6]}.stop" for one in reversed(started)]


def test_a_manager_that_hangs_ends_the_start() -> None:
    made, _ = service(Failing("start", None, []), limit=0.05)
    with pytest.raises(StartFailed, match=r"failing: start: no end after 0.05 s"):
        asyncio.run(made.start())


# --- recovery -------------------------------------------------------------------------------------------------


def test_applications_come_back_in_the_order_of_creation() -> None:
    late = ApplicationMetadata("late", "root.q", created=9.0)
    early = ApplicationMetadata("early", "root.q", created=2.0, task_groups=(TaskGroup("w", 2, ONE),))
    made, contexts = service(Remembering({"late": late, "early": early}, name="m"), Plain("other"))
    asyncio.run(made.start())
    assert list(contexts["m"].applications) == ["old", "m", "early", "late"]
    assert contexts["m"].applications["early"].state == "Running"


def test_a_new_leader_continues_a_gang_that_ran_and_reserves_nothing_again() -> None:
    context = TestContext("m")
    add_running(context, "gang", "t1", "t2", group=TaskGroup("w", 2, ONE))
    context = context.succeeded()
    asyncio.run(ManagerService([Plain("m")], {"m": context}, time.time).start())
    assert states(context, "gang", "t1", "t2") == ["Bound", "Bound"] and context.applications["gang"].state == "Running"
    assert sum(not unit.terminated for unit in context.units()) == 2, "no placeholder and no second task"


def test_notifications_during_recovery_are_handled_once_and_after_the_tasks() -> None:
    seen = []

    class Eager(Remembering):
        async def start(self) -> None:
            self.context.notify_task_complete("old", "t1")

        def get_existing_allocation(self, unit: TaskGroupRef) -> ExistingAllocation | None:
            seen.append(states(contexts["m"], "old", "t1"))
            return None

    made, contexts = service(Eager({}, name="m"))
    calls = contexts["m"].calls
    asyncio.run(made.start())
    assert (seen, states(contexts["m"], "old", "t1")) == ([["Bound"]], ["Completed"])
    assert contexts["m"].calls == calls + 1


# --- the contract ---------------------------------------------------------------------------------------------


def broken(make: Callable[[], Any], **more: Any) -> set[Rule]:
    with pytest.raises(ContractBroken) as found:
        check(make, **more)
    return {breach.rule for breach in found.value.breaches}


def test_a_manager_that_keeps_the_contract_passes() -> None:
    check(Plain)
    metadata = ApplicationMetadata("a", "root.q", task_groups=(TaskGroup("w", 1, ONE),))
    check(lambda: Remembering({"a": metadata}))


class NoStop:
    name = "x"

    async def service_init(self, context: Any, services: Any) -> None: ...

    async def start(self) -> None: ...


class BusyInit(Plain):
    async def service_init(self, context: Any, services: Any) -> None:
        await super().service_init(context, services)
        self.task = asyncio.get_running_loop().create_task(asyncio.Event().wait(), name="early")


class ThreadInit(Plain):
    async def service_init(self, context: Any, services: Any) -> None:
        await super().service_init(context, services)
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.over.wait, name="early", daemon=True)
        self.thread.start()

    async def stop(self) -> None:
        self.over.set()
        self.thread.join()


class AddingInit(Plain):
    async def service_init(self, context: Any, services: Any) -> None:
        await super().service_init(context, services)
        await Plain.start(self)


class Leaving(Plain):
    async def start(self) -> None:
        self.task = asyncio.get_running_loop().create_task(asyncio.Event().wait(), name="left")


class StopsOnce(Plain):
    stopped = 0

    async def stop(self) -> None:
        self.stopped += 1
        if self.stopped > 1:
            raise RuntimeError("stopped already")


class NeedsStart(Plain):
    async def start(self) -> None:
        self.begun = True

    async def stop(self) -> None:
        assert self.begun


class Changing(Plain):
    made = 0

    async def start(self) -> None:
        Changing.made += 1
        self.context.add_application(AddApplicationRequest(ApplicationMetadata(f"a{Changing.made}", "root.q")))


class Orphan(Plain):
    async def start(self) -> None:
        self.context.add_task(AddTaskRequest(TaskMetadata("unknown", "t", ONE)))


class Undefined(Plain):
    async def start(self) -> None:
        await super().start()
        self.context.add_task(AddTaskRequest(TaskMetadata(self.name, "t", ONE)))


class Greedy(Remembering):
    def get_existing_allocation(self, unit: TaskGroupRef) -> ExistingAllocation | None:
        return ExistingAllocation(TaskMetadata("a", unit.unit, ONE), unit.node)


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (NoStop, Rule.INTERFACE),
        (lambda: Plain(""), Rule.INTERFACE),
        (BusyInit, Rule.INIT_IS_QUIET),
        (ThreadInit, Rule.INIT_IS_QUIET),
        (AddingInit, Rule.INIT_IS_QUIET),
        (lambda: Failing("service_init", OSError("no"), []), Rule.INIT_IS_QUIET),
        (lambda: Failing("start", OSError("no"), []), Rule.START),
        (Undefined, Rule.START),
        (Leaving, Rule.STOP_ENDS_WORK),
        (StopsOnce, Rule.STOP_IS_HARMLESS),
        (NeedsStart, Rule.STOP_IS_HARMLESS),
        (Changing, Rule.SAME_AGAIN),
        (Orphan, Rule.KNOWN_APPLICATION),
        (lambda: Remembering({"b": ApplicationMetadata("a", "root.q")}), Rule.RECOVERY),
        (lambda: Remembering({"a": ApplicationMetadata("a", "")}), Rule.RECOVERY),
        (lambda: Remembering({"a": "metadata"}), Rule.RECOVERY),  # type: ignore[dict-item]
        (lambda: Remembering(["a"]), Rule.RECOVERY),  # type: ignore[arg-type]
        (lambda: Remembering({"a": ApplicationMetadata("a", "q", task_groups=(TaskGroup("", 0),))}), Rule.RECOVERY),
        (lambda: Greedy({}), Rule.FOREIGN_UNITS),
    ],
)  # fmt: skip
def test_each_rule_finds_the_manager_that_breaks_it(make: Callable[[], Any], rule: Rule) -> None:
    assert broken(make) == {rule} if rule is not Rule.INIT_IS_QUIET else rule in broken(make)


def test_a_task_that_fits_no_agent_waits_and_delays_no_other() -> None:
    context = TestContext()
    context.add_application(AddApplicationRequest(ApplicationMetadata("far", "root.q")))
    container = {"command": "work", "resources": {"limits": {"cpu": "1", "memory": "32"}}}
    rule = {"name": "InnerIP", "operate": "CLUSTER", "type": 3, "text": {"value": "elsewhere"}}
    document = {
        "constraint": {"intersectionItem": [{"unionData": [rule]}]},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }
    context.add_task(AddTaskRequest(TaskMetadata("far", "t", ONE, definition=json.dumps(document))))
    add_running(context, "near", "t")
    assert states(context, "far", "t") == ["Scheduling"]


def test_a_manager_that_hangs_or_never_becomes_ready_is_found() -> None:
    assert broken(lambda: Failing("start", None, []), seconds=0.05) == {Rule.START}
    assert broken(Plain, ready=lambda context: False, seconds=0.05) == {Rule.READY}


# --- installed packages ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the manager was installed by pip."""
    folder = tmp_path_factory.mktemp("packages")
    source = tmp_path_factory.mktemp("source") / "appmanager"
    copytree(SPOOL, source)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*command, "--target", str(folder), str(source)], check=True, timeout=120)
    return folder


PROGRAM = """
import asyncio, json, sys, time
from pathlib import Path
from bcs_scheduler.appmanagers.installed import enabled_managers
from bcs_scheduler.appmanagers.service import ManagerService
from bcs_scheduler.testing.appmanager import TestContext, check

folder, state = Path(sys.argv[1]), {}
settings = {"folder": str(folder), "seconds": 0.01}
loaded = "bcs_appmanager_spool" in sys.modules
(manager,) = enabled_managers(["spool"])
check(type(manager), settings, ready=lambda context: len(context.launched) == 3)

async def until(context, holds):
    while not holds():
        context.changed.clear()
        await asyncio.wait_for(context.changed.wait(), 30)

async def begun(context):
    service = ManagerService([type(manager)()], {"spool": context}, time.time, {"spool": settings})
    await service.start()
    return service

async def main():
    context = TestContext("spool")
    service = await begun(context)
    await until(context, lambda: len(context.launched) == 3)
    state["launched"] = sorted(context.launched)
    await service.stop()
    context = context.succeeded()
    service = await begun(context)
    solo, pair = context.applications["solo"], context.applications["pair"]
    state["recovered"], state["differing"] = solo.get_task("s0").state, service.differing
    document = json.loads((folder / "solo.json").read_text())
    document["tasks"][0]["done"] = True
    (folder / "next").write_text(json.dumps(document))
    (folder / "next").rename(folder / "solo.json")
    await until(context, lambda: solo.get_task("s0").state == "Completed")
    (folder / "pair.json").unlink()
    await until(context, lambda: pair.get_task("w1").state == "Killed")
    state["killed"] = pair.get_task("w0").state
    await service.stop()
    state["again"], state["left"] = len(context.launched), len(asyncio.all_tasks()) - 1

asyncio.run(main())
print(json.dumps({"loaded": loaded, **state}))
"""


def test_a_manager_of_another_package_is_found_tested_recovered_and_stopped(packages: Path, tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    folder.mkdir()
    (folder / "solo.json").write_text(json.dumps({"queue": "root.q", "tasks": [{"id": "s0", "cpus": 1}]}))
    pair = {
        "queue": "root.q",
        "taskGroups": [{"name": "w", "minMember": 2, "cpus": 0.5}],
        "tasks": [{"id": "w0", "group": "w", "cpus": 0.5}, {"id": "w1", "group": "w", "cpus": 0.5}],
    }
    (folder / "pair.json").write_text(json.dumps(pair))
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    found = subprocess.run(
        [sys.executable, str(program), str(folder)],
        env={"PYTHONPATH": f"{packages}:{ROOT}"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert found.stderr == ""
    assert json.loads(found.stdout) == {
        "loaded": False,
        "launched": [["pair", "w0"], ["pair", "w1"], ["solo", "s0"]],
        "recovered": "Bound",
        "differing": 0,
        "killed": "Killed",
        "again": 3,
        "left": 0,
    }


def package(folder: Path, name: str, *points: str) -> None:
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *points]) + "\n")


def test_managers_that_cannot_be_used_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path, "faulty", "gone = no_such_module:Gone", "path = pathlib:Path", "other = faulty_manager:Other")
    package(tmp_path, "first", "twice = pathlib:Path")
    package(tmp_path, "second", "twice = pathlib:Path")
    (tmp_path / "faulty_manager.py").write_text(
        "class Other:\n"
        "    name = 'another'\n"
        "    async def service_init(self, context, services): ...\n"
        "    async def start(self): ...\n"
        "    async def stop(self): ...\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, words in {
        "gone": "gone of faulty: ModuleNotFoundError",
        "path": "path of faulty: PosixPath is no application manager",
        "other": "other of faulty: the manager has another name: another",
        "twice": "first and second has the manager twice",
        "unknown": "no installed package has the manager unknown",
    }.items():
        with pytest.raises(BadManager, match=words):
            enabled_managers([name])
    assert enabled_managers([]) == []
