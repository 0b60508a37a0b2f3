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
from bcs_scheduler.testing.appmanager import ContractBroken, OpenEngine, Rule, check
from offers.dimensions import amounts
from offers.policy.applications.context import ApplicationContext
from offers.policy.applications.gangs.effects import Traits
from offers.policy.applications.interface import (
    GROUP,
    AddApplicationRequest,
    AddTaskRequest,
    ApplicationManagementProtocol,
    ExistingAllocation,
    Services,
    TaskGroupRef,
)
from offers.policy.applications.lifecycle.recovery import OutOfOrder, Recovery, Step
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


def ready_to_start() -> Recovery:
    recovery = Recovery()
    for step in Step:
        if step < Step.MANAGERS:
            recovery.begin(step, 1.0)
    return recovery


def service(*managers: Any, limit: float = 60.0, settings: Any = None) -> tuple[ManagerService, ApplicationContext]:
    context = ApplicationContext(OpenEngine(), Traits(), time.time)
    return ManagerService(managers, context, ready_to_start(), time.time, settings, limit), context


# --- start and stop -------------------------------------------------------------------------------------------


def test_managers_are_initialized_then_started_in_order_and_stopped_in_the_opposite_order() -> None:
    calls: list[str] = []
    one, two = Plain("one", calls), Plain("two", calls)
    made, context = service(one, two, settings={"two": {"depth": 3}})

    async def run() -> None:
        await made.start()
        await made.recover([], {})
        await made.stop()
        await made.stop()

    asyncio.run(run())
    assert calls == [
        "one.service_init", "two.service_init", "one.start", "two.start", "two.stop", "one.stop",
    ]  # fmt: skip
    assert (one.services.settings, two.services.settings) == ({}, {"depth": 3})
    assert set(context.applications) == {"one", "two"} and made.recovery.complete


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

    async def run() -> None:
        await made.start()
        await made.recover([TaskGroupRef("u", {}, "n")], {})

    with pytest.raises(StartFailed, match=f"application manager failing: {call}: OSError: no route") as failed:
        asyncio.run(run())
    assert (failed.value.manager, failed.value.call) == ("failing", call)
    started = [one for one in calls if one.endswith(".start")]
    assert [one for one in calls if one.endswith(".stop")] == [f"{one[:-6]}.stop" for one in reversed(started)]
    assert not made.recovery.complete


def test_a_manager_that_hangs_ends_the_start() -> None:
    made, _ = service(Failing("start", None, []), limit=0.05)
    with pytest.raises(StartFailed, match=r"failing: start: no end after 0.05 s"):
        asyncio.run(made.start())


def test_managers_start_after_everything_before_them() -> None:
    context = ApplicationContext(OpenEngine(), Traits(), time.time)
    calls: list[str] = []
    with pytest.raises(OutOfOrder):
        asyncio.run(ManagerService([Plain("one", calls)], context, Recovery(), time.time).start())
    assert calls == []


# --- recovery -------------------------------------------------------------------------------------------------


def test_applications_come_back_in_the_order_of_creation_with_their_tasks() -> None:
    late = ApplicationMetadata("late", "root.q", created=9.0)
    early = ApplicationMetadata("early", "root.q", created=2.0, task_groups=(TaskGroup("w", 2, ONE),))
    made, context = service(Remembering({"late": late, "early": early}, name="m"), Plain("other"))
    units = [
        TaskGroupRef("u1", {"task": "t1", "application": "early"}, "n1"),
        TaskGroupRef("u2", {"task": "t2", "application": "early"}, "n1", terminated=True),
        TaskGroupRef("u3", {"task": "t3", "application": "forgotten"}, "n2"),
        TaskGroupRef("u4", {}, "n2"),
        TaskGroupRef("u5", {}, "n2", terminated=True),
        TaskGroupRef("u6", {}),
    ]

    async def run() -> tuple[TaskGroupRef, ...]:
        await made.start()
        return await made.recover(units, {})

    occupying = asyncio.run(run())
    assert [unit.unit for unit in occupying] == ["u3", "u4"]
    assert [name for name in context.applications if name in ("late", "early")] == ["early", "late"]
    tasks = context.applications["early"].tasks
    assert {name: task.state for name, task in tasks.items()} == {"t1": "Bound", "t2": "Completed"}
    assert not context.applications["early"].gang.placeholders, "a gang that ran reserves nothing again"


def test_notifications_during_recovery_are_handled_once_and_after_the_tasks() -> None:
    class Eager(Remembering):
        async def start(self) -> None:
            self.context.notify_task_complete("app", "t1")

    made, context = service(Eager({"app": ApplicationMetadata("app", "root.q")}, name="m"))

    async def run() -> None:
        await made.start()
        await made.recover([TaskGroupRef("u1", {"task": "t1", "application": "app"}, "n1")], {})

    asyncio.run(run())
    assert context.applications["app"].tasks["t1"].state == "Completed"
    history = context.applications["app"].gang.members["t1"].life.history
    assert [change.event for change in history].count("CompleteTask") == 1


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
from offers.policy.applications.interface import TaskGroupRef
from offers.policy.applications.lifecycle.recovery import Recovery, Step

folder, state = Path(sys.argv[1]), {}
settings = {"folder": str(folder), "seconds": 0.01}
loaded = "bcs_appmanager_spool" in sys.modules
(manager,) = enabled_managers(["spool"])
check(type(manager), settings, ready=lambda context: len(context.launched) == 3)

async def until(context, holds):
    while not holds():
        context.changed.clear()
        await asyncio.wait_for(context.changed.wait(), 30)

async def main():
    context, recovery = TestContext(), Recovery()
    for step in Step:
        if step < Step.MANAGERS:
            recovery.begin(step, time.time())
    service = ManagerService([manager], context, recovery, time.time, {"spool": settings})
    await service.start()
    units = [
        TaskGroupRef("u1", {"spool/application": "solo", "spool/task": "s0"}, "n1"),
        TaskGroupRef("u2", {"owner": "others"}, "n1"),
    ]
    occupying = await service.recover(units, {})
    solo = context.applications["solo"]
    state["recovered"] = solo.tasks["s0"].state
    state["occupying"] = [unit.unit for unit in occupying]
    await until(context, lambda: len(context.launched) == 2)
    state["launched"] = sorted(context.launched)
    document = json.loads((folder / "solo.json").read_text())
    document["tasks"][0]["done"] = True
    (folder / "next").write_text(json.dumps(document))
    (folder / "next").rename(folder / "solo.json")
    await until(context, lambda: solo.tasks["s0"].state == "Completed")
    (folder / "pair.json").unlink()
    pair = context.applications["pair"]
    await until(context, lambda: pair.gang.record.core.state == "Completing")
    state["killed"] = sorted(one.state for one in pair.tasks.values())
    await service.stop()
    state["left"] = len(asyncio.all_tasks()) - 1

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
        "recovered": "Bound",
        "occupying": ["u2"],
        "launched": [["pair", "w0"], ["pair", "w1"]],
        "killed": ["Killed", "Killed"],
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
