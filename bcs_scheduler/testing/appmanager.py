"""The contract of application managers as a test that any package can run.

    from bcs_scheduler.testing.appmanager import check

    def test_my_manager(tmp_path):
        check(MyManager, {"folder": str(tmp_path)}, ready=lambda context: "my-app" in context.applications)

`check` makes several managers, one after the other, and calls them as the scheduler does: their applications come into
a core as the scheduler runs it, in memory. It raises ContractBroken with every rule that the manager breaks. Nothing of
a cluster is needed.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from enum import StrEnum
from typing import Any, NamedTuple

from bcs_scheduler.appmanagers.bridge import ApplicationView, CoreContext
from bcs_scheduler.core.interface.cluster_manager import Connected, End, LaunchOnAgent, StatusUpdate
from bcs_scheduler.core.interface.effects import Reply
from bcs_scheduler.core.interface.inputs import Input
from bcs_scheduler.core.interface.leased import OffersArrived
from bcs_scheduler.core.interface.requests import Request
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.scheduler import Core
from offers.model import Offer, ResourceKey
from offers.policy.applications.interface import (
    AddTaskRequest,
    AppManager,
    ManagedApp,
    ManagedTask,
    Recoverable,
    Services,
    TaskGroupRef,
)
from offers.policy.applications.metadata import ApplicationMetadata, check_groups
from store.records import Record
from transactions.rules.task_states import TaskState

SECONDS = 30.0
"""The time for one call of the manager, and for becoming ready."""
MOST_TURNS = 1000
"""Turns of the core after one call, at most: a task that fits no agent does not delay the test."""


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


class TestContext(CoreContext):
    """The applications of one manager in a core of its own, with room for everything: taskgroups run as soon as the
    core launches them, and are gone as soon as it ends them."""

    __test__ = False

    def __init__(self, manager: str = "tested", records: Iterable[Record] = ()) -> None:
        """`manager`: its name; its applications are in a namespace of this name. `records`: those that the store has
        when the scheduler begins."""
        self._core = Core(records, CoreOptions(placeholders="sleep"), time.time())
        super().__init__(manager, manager, self._core.state, self._carry_out)
        self.calls = 0
        self.breaches: list[Breach] = []
        self.changed = asyncio.Event()
        self._advance(Connected(framework_id="test", cluster="test"))

    @property
    def applications(self) -> dict[str, ManagedApp]:
        """The applications by identifier."""
        state = self._core.state
        return {one.name: ApplicationView(state, one.key, one) for one in state.managed_applications.values()}

    @property
    def launched(self) -> list[tuple[str, str]]:
        """The tasks that were launched, as application and task."""
        tasks = self._core.state.managed_tasks.values()
        return [(one.application, one.name) for one in tasks if any(past.after == "Bound" for past in one.history)]

    def succeeded(self) -> TestContext:
        """The context of the next leader, which has the records of this one."""
        return TestContext(self._manager, self._core.state.records())

    def add_task(self, request: AddTaskRequest) -> ManagedTask | None:
        """See `ApplicationManagementProtocol.add_task`. Returns None for an unknown application, which is a breach."""
        made = super().add_task(request)
        if made is None:
            metadata = request.metadata
            message = f"the task {metadata.id} names the application {metadata.application}, which was not added"
            self.breaches.append(Breach(Rule.KNOWN_APPLICATION, message))
        return made

    def _carry_out(self, request: Request) -> Future[Reply]:
        self.calls += 1
        future: Future[Reply] = Future()
        future.set_result(next(one for one in self._advance(request) if isinstance(one, Reply)))
        self.changed.set()
        return future

    def _advance(self, *batch: Input) -> list[object]:
        """Lets the core work until it has nothing to do, and returns its effects."""
        found, now = list[object](), time.time()
        for turn in range(MOST_TURNS):
            effects = [effect for unit in self._core.turn(batch, now) for effect in unit.effects]
            batch = tuple(report for effect in effects for report in _reports(effect))
            found += effects
            if self._core.pending and not self._core.offers():
                batch += (OffersArrived(offers=(_offer(f"offer-{now}-{turn}"),)),)
            if not batch and self._core.next_wakeup(now) > now:
                break
            now = max(time.time(), now)
        return found


def _reports(effect: object) -> Iterator[Input]:
    """The news of the cluster about the tasks that the core launches or ends."""
    if isinstance(effect, LaunchOnAgent):
        for task in (task for launch in effect.launches for task in launch.taskgroup.tasks):
            yield StatusUpdate(task_id=task.id, state=TaskState.RUNNING, agent_id=effect.agent_id, uuid=b"r")
    elif isinstance(effect, End):
        for name in effect.tasks:
            yield StatusUpdate(task_id=name, state=TaskState.KILLED, agent_id=effect.agent_id, uuid=b"k")


def _offer(name: str) -> Offer:
    scalars = tuple((ResourceKey(kind, "*"), 1_000_000_000) for kind in ("cpus", "mem", "disk", "gpus"))
    ports = ((ResourceKey("ports", "*"), ((31_000, 32_000),)),)
    return Offer(name, "agent", "agent", "127.0.0.1", "*", {}, scalars, ports)


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
