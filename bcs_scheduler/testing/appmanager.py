"""The contract of application managers as a test that any package can run.

    from bcs_scheduler.testing.appmanager import check

    def test_my_manager(tmp_path):
        check(MyManager, {"folder": str(tmp_path)}, ready=lambda context: "my-app" in context.applications)

`check` makes several managers, one after the other, and calls them as the scheduler does. It raises ContractBroken with
every rule that the manager breaks. Nothing of a cluster is needed.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from offers.dimensions import Amounts
from offers.policy.amounts import Vector
from offers.policy.applications.context import ApplicationContext, ManagedApplication
from offers.policy.applications.gangs.effects import Create, Kill, Launch, Release, Traits
from offers.policy.applications.interface import (
    AddApplicationRequest,
    AddTaskRequest,
    AppManager,
    ManagedTask,
    Recoverable,
    Services,
    TaskGroupRef,
)
from offers.policy.applications.metadata import ApplicationMetadata, check_groups

SECONDS = 30.0
"""The time for one call of the manager, and for becoming ready."""


class Rule(StrEnum):
    """The rules of the contract."""

    INTERFACE = "the manager has a name and the methods of AppManager"
    INIT_IS_QUIET = "service_init begins no thread and no task, and adds nothing"
    START = "start returns in time and without an error"
    READY = "the manager becomes ready in time"
    KNOWN_APPLICATION = "a task is added to an application that was added before"
    SAME_AGAIN = "a manager that starts again adds the same applications"
    STOP_ENDS_WORK = "stop ends every thread and task that start began"
    STOP_IS_HARMLESS = "a second stop, and a stop without a start, do nothing"
    RECOVERY = "list_applications returns valid metadata by identifier, and the same twice"
    FOREIGN_UNITS = "get_existing_allocation returns None for a unit that is not of the manager"


class Breach(NamedTuple):
    """A rule that is broken."""

    rule: Rule
    message: str


class ContractBroken(AssertionError):
    """The manager breaks rules of the contract. `breaches` has all of them."""

    def __init__(self, breaches: list[Breach]) -> None:
        super().__init__("\n".join(f"{breach.rule}: {breach.message}" for breach in breaches))
        self.breaches = breaches


class OpenEngine:
    """A policy engine with room for everything, on one node."""

    NODE = "node"

    def __init__(self) -> None:
        self.pending: dict[tuple[str, str], Amounts] = {}

    def refusal(self, application: str, queue: str, placeholder_ask: Vector) -> str | None:
        """See `Engine.refusal`. Returns None always."""
        return None

    def ask(self, application: str, name: str, request: Amounts, created: float) -> None:
        """See `Engine.ask`."""
        self.pending[application, name] = request

    def withdraw(self, application: str, name: str) -> None:
        """See `Engine.withdraw`."""
        self.pending.pop((application, name), None)

    def occupy(self, application: str, name: str, request: Amounts, node: str) -> None:
        """See `Engine.occupy`."""

    def release(self, application: str, name: str) -> None:
        """See `Engine.release`."""

    def hold(self, application: str, name: str, request: Amounts, node: str) -> None:
        """See `Engine.hold`."""

    def replace(self, application: str, placeholder: str, name: str, request: Amounts, node: str) -> None:
        """See `Engine.replace`."""

    def suits(self, application: str, name: str, node: str) -> bool:
        """See `Engine.suits`. Returns True always."""
        return True

    def find(self, application: str, name: str, request: Amounts) -> str | None:
        """See `Engine.find`. Returns the one node; never None."""
        return self.NODE


class TestContext(ApplicationContext):
    """The applications of one manager, with room for everything: placeholders are bound and tasks launched at once.
    `launched` has the tasks that run, as application and task."""

    __test__ = False

    def __init__(self) -> None:
        self._room = OpenEngine()
        super().__init__(self._room, Traits(), time.time)
        self.calls = 0
        self.launched: list[tuple[str, str]] = []
        self.breaches: list[Breach] = []
        self.changed = asyncio.Event()

    def add_application(self, request: AddApplicationRequest) -> ManagedApplication:
        """See `ApplicationManagementProtocol.add_application`."""
        made = super().add_application(request)
        self._advance()
        return made

    def add_task(self, request: AddTaskRequest) -> Any:
        """See `ApplicationManagementProtocol.add_task`. Returns None for an unknown application, which is a breach."""
        made: ManagedTask | None = super().add_task(request)
        if made is None:
            metadata = request.metadata
            message = f"the task {metadata.id} names the application {metadata.application}, which was not added"
            self.breaches.append(Breach(Rule.KNOWN_APPLICATION, message))
        self._advance()
        return made

    def notify_application_complete(self, application: str) -> None:
        """See `ApplicationManagementProtocol.notify_application_complete`."""
        super().notify_application_complete(application)
        self._advance()

    def notify_application_fail(self, application: str, cause: str = "") -> None:
        """See `ApplicationManagementProtocol.notify_application_fail`."""
        super().notify_application_fail(application, cause)
        self._advance()

    def notify_task_complete(self, application: str, task: str) -> None:
        """See `ApplicationManagementProtocol.notify_task_complete`."""
        super().notify_task_complete(application, task)
        self._advance()

    def _advance(self) -> None:
        """Carries out everything that is due."""
        self.calls += 1
        while self._room.pending or list(self.due()):
            for application, name in list(self._room.pending):
                del self._room.pending[application, name]
                self.applications[application].gang.allocated(name, OpenEngine.NODE, time.time())
            for application, effect in list(self.due()):
                gang, now = self.applications[application].gang, time.time()
                match effect:
                    case Create(placeholder=name):
                        gang.bound(name, now)
                    case Release(placeholder=name):
                        gang.gone(name, now)
                    case Launch(task=name):
                        self.launched.append((application, name))
                        gang.launched(name, now)
                    case Kill(task=name):
                        gang.ended(name, now)
        self.changed.set()


def check(
    make: Callable[[], AppManager],
    settings: Mapping[str, object] | None = None,
    ready: Callable[[TestContext], bool] = lambda context: True,
    seconds: float = SECONDS,
) -> None:
    """Tests a manager. `make` makes a new one; `settings`: its part of the configuration, None: empty. `ready` is true
    when a started manager has added all its applications. `seconds`: the time for each call, and for becoming ready.
    Raises ContractBroken."""
    breaches = asyncio.run(breaches_of(make, settings or {}, ready, seconds))
    if breaches:
        raise ContractBroken(breaches)


async def breaches_of(
    make: Callable[[], AppManager],
    settings: Mapping[str, object],
    ready: Callable[[TestContext], bool],
    seconds: float = SECONDS,
) -> list[Breach]:
    """The rules that a manager breaks; for callers with an event loop. `seconds`: the time for each call, and for
    becoming ready."""
    test = _Test(make, Services(settings, time.time), ready, seconds)
    await test.run()
    return list(dict.fromkeys(test.breaches))


class _Failed(Exception):
    """The rest of the test makes no sense."""


class _Test:
    def __init__(
        self, make: Callable[[], AppManager], services: Services, ready: Callable[[TestContext], bool], seconds: float
    ) -> None:
        self.make, self.services, self.ready, self.seconds = make, services, ready, seconds
        self.breaches: list[Breach] = []

    async def run(self) -> None:
        try:
            first = await self.life()
            second = await self.life()
            if first != second:
                self.broken(Rule.SAME_AGAIN, f"{sorted(first)} at first, {sorted(second)} afterwards")
            await self.stop_without_start()
            await self.recovery()
        except _Failed:
            return

    def broken(self, rule: Rule, message: str) -> None:
        self.breaches.append(Breach(rule, message))

    async def call(self, rule: Rule, call: Any) -> Any:
        try:
            return await asyncio.wait_for(call, self.seconds)
        except TimeoutError:
            self.broken(rule, f"no end after {self.seconds:g} s")
        except Exception as error:
            self.broken(rule, f"{type(error).__name__}: {error}")
        raise _Failed

    async def initialized(self, context: TestContext) -> AppManager:
        manager = self.make()
        if not isinstance(manager, AppManager) or not isinstance(manager.name, str) or not manager.name:
            self.broken(Rule.INTERFACE, f"{type(manager).__name__} is no AppManager with a name")
            raise _Failed
        before = _work()
        await self.call(Rule.INIT_IS_QUIET, manager.service_init(context, self.services))
        if begun := _names(_work() - before):
            self.broken(Rule.INIT_IS_QUIET, f"service_init began {begun}")
        if context.calls:
            self.broken(Rule.INIT_IS_QUIET, f"service_init made {context.calls} calls")
        return manager

    async def life(self) -> set[str]:
        """One manager from its start to its end. Returns the applications that it added."""
        before = _work()
        context = TestContext()
        manager = await self.initialized(context)
        await self.call(Rule.START, manager.start())
        try:
            await asyncio.wait_for(self.becomes_ready(context), self.seconds)
        except TimeoutError:
            self.broken(Rule.READY, f"not ready after {self.seconds:g} s: {sorted(context.applications)}")
        await self.call(Rule.STOP_IS_HARMLESS, manager.stop())
        if left := _names(_work() - before):
            self.broken(Rule.STOP_ENDS_WORK, f"after stop, these are left: {left}")
        await self.call(Rule.STOP_IS_HARMLESS, manager.stop())
        self.breaches += context.breaches
        return set(context.applications)

    async def becomes_ready(self, context: TestContext) -> None:
        while not self.ready(context):
            context.changed.clear()
            await context.changed.wait()

    async def stop_without_start(self) -> None:
        manager = await self.initialized(TestContext())
        await self.call(Rule.STOP_IS_HARMLESS, manager.stop())

    async def recovery(self) -> None:
        manager = await self.initialized(TestContext())
        if not isinstance(manager, Recoverable):
            return
        listed = [await self.call(Rule.RECOVERY, manager.list_applications()) for _ in range(2)]
        if not isinstance(listed[0], dict):
            self.broken(Rule.RECOVERY, f"list_applications returned {type(listed[0]).__name__}")
            raise _Failed
        if listed[0] != listed[1]:
            self.broken(Rule.RECOVERY, "two calls returned different applications")
        for key, metadata in listed[0].items():
            self.check_metadata(key, metadata)
        for unit in (TaskGroupRef("", {}), TaskGroupRef("of-others", {"owner": "others"}, "node")):
            try:
                found = manager.get_existing_allocation(unit)
            except Exception as error:
                self.broken(Rule.FOREIGN_UNITS, f"{type(error).__name__}: {error}")
            else:
                if found is not None:
                    self.broken(Rule.FOREIGN_UNITS, f"the unit {unit.unit!r} is said to be {found}")
        await self.call(Rule.STOP_IS_HARMLESS, manager.stop())

    def check_metadata(self, key: object, metadata: object) -> None:
        if not isinstance(metadata, ApplicationMetadata):
            self.broken(Rule.RECOVERY, f"{key}: {type(metadata).__name__} in place of ApplicationMetadata")
            return
        if metadata.id != key or not metadata.id or not metadata.queue:
            self.broken(Rule.RECOVERY, f"{key}: the identifier is {metadata.id!r}, the queue is {metadata.queue!r}")
        try:
            check_groups(metadata.task_groups)
        except ValueError as error:
            self.broken(Rule.RECOVERY, f"{key}: {error}")


def _work() -> set[threading.Thread | asyncio.Task[Any]]:
    """The threads and tasks of this moment."""
    return {*threading.enumerate(), *asyncio.all_tasks()}


def _names(work: set[threading.Thread | asyncio.Task[Any]]) -> str:
    kinds = ((one.name if isinstance(one, threading.Thread) else one.get_name()) for one in work)
    return ", ".join(sorted(kinds))
