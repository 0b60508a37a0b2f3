"""Runs the application managers of a leader in a thread of their own: starts, recovers and stops them.

The order is part of the contract: `service_init` of all, `start` of all, recovery of applications in the order of their
creation, then of tasks, then the replay of notifications that arrived meanwhile. A manager that fails or hangs at its
start is named in the log; all managers are stopped and started again after a pause. The core never waits for a manager.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import structlog

from bcs_scheduler.appmanagers.bridge import CoreContext, Submit
from offers.policy.applications.interface import (
    AddApplicationRequest,
    AddTaskRequest,
    ApplicationManagementProtocol,
    AppManager,
    ExistingAllocation,
    ManagedApp,
    ManagedTask,
    ManagementError,
    Recoverable,
    Services,
    TaskGroupRef,
)
from offers.policy.applications.metadata import ApplicationMetadata, BadTaskGroups
from offers.policy.applications.recovery import Recovery, Step
from store import threads
from store.state.reader import StateReader

log = structlog.get_logger(__name__)

MANAGER_SECONDS = 60.0
"""The time that one call of a manager may take during a start."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds until the managers are started again after a failure: doubled each time up to the longest."""
STOP_SECONDS = 3.0
"""Seconds that `stop` waits for the managers. A manager that hangs is left behind; nothing that it does reaches the
core any more."""
MOST_DIFFERENCES = 20
"""Differences between answers of managers and records that one start logs."""

Observe = Callable[[str, bool], None]
"""Takes the name of a manager, and whether it runs."""
Starting = Recovery[Callable[[], None]]
"""The progress of a start, with the notifications that are kept meanwhile."""
Result = TypeVar("Result")


class StartFailed(Exception):
    """A manager has failed, so the start ends. `manager` is its name, `call` the method."""

    def __init__(self, manager: str, call: str, cause: str) -> None:
        super().__init__(f"application manager {manager}: {call}: {cause}")
        self.manager, self.call = manager, call


class RecoveringContext:
    """The context as managers get it. Notifications that arrive during recovery are kept for the replay."""

    def __init__(self, context: ApplicationManagementProtocol, recovery: Starting) -> None:
        self._context, self._recovery = context, recovery

    def get_application(self, application: str) -> ManagedApp | None:
        """See `ApplicationManagementProtocol.get_application`."""
        return self._context.get_application(application)

    def add_application(self, request: AddApplicationRequest) -> ManagedApp:
        """See `ApplicationManagementProtocol.add_application`."""
        return self._context.add_application(request)

    def remove_application(self, application: str) -> None:
        """See `ApplicationManagementProtocol.remove_application`."""
        self._context.remove_application(application)

    def add_task(self, request: AddTaskRequest) -> ManagedTask | None:
        """See `ApplicationManagementProtocol.add_task`."""
        return self._context.add_task(request)

    def remove_task(self, application: str, task: str) -> None:
        """See `ApplicationManagementProtocol.remove_task`."""
        self._context.remove_task(application, task)

    def notify_application_complete(self, application: str) -> None:
        """See `ApplicationManagementProtocol.notify_application_complete`."""
        self._notify(self._context.notify_application_complete, application)

    def notify_application_fail(self, application: str, cause: str = "") -> None:
        """See `ApplicationManagementProtocol.notify_application_fail`."""
        self._notify(self._context.notify_application_fail, application, cause)

    def notify_task_complete(self, application: str, task: str) -> None:
        """See `ApplicationManagementProtocol.notify_task_complete`."""
        self._notify(self._context.notify_task_complete, application, task)

    def _notify(self, call: Callable[..., None], *arguments: str) -> None:
        if not self._recovery.hear("", partial(call, *arguments)):
            call(*arguments)


class ManagerService:
    """All enabled managers, in one start."""

    def __init__(
        self,
        managers: Sequence[AppManager],
        contexts: Mapping[str, CoreContext],
        now: Callable[[], float],
        settings: Mapping[str, Mapping[str, object]] | None = None,
        limit: float = MANAGER_SECONDS,
    ) -> None:
        """`contexts` and `settings` by name of the manager, None: no manager has settings; `limit`: seconds for one
        call; `now`: Unix seconds."""
        self.managers, self._contexts = tuple(managers), contexts
        self._now, self._settings, self._limit = now, settings or {}, limit
        self._recovery = Starting(Step.ENGINE)  # the core has read the store and continued all applications before
        self._begun: list[AppManager] = []
        self.differing = 0
        """The number of answers about units that differ from the records."""

    async def start(self) -> None:
        """Initializes, starts and recovers all managers. Raises StartFailed; those that had begun are stopped then."""
        try:
            await self._start()
            await self._recover()
        except StartFailed:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stops the managers in the opposite order. A failure is logged, and the others are stopped. A second call does
        nothing."""
        while self._begun:
            manager = self._begun.pop()
            try:
                await asyncio.wait_for(manager.stop(), self._limit)
            except Exception as error:
                log.error("appmanager.stop_failed", manager=manager.name, exc_info=error)

    async def _start(self) -> None:
        self._recovery.begin(Step.MANAGERS)
        for manager in self.managers:
            context = RecoveringContext(self._contexts[manager.name], self._recovery)
            services = Services(self._settings.get(manager.name, {}), self._now)
            await self._call(manager, "service_init", manager.service_init(context, services))
        for manager in self.managers:
            self._begun.append(manager)
            await self._call(manager, "start", manager.start())

    async def _recover(self) -> None:
        """Recovers applications and tasks, and lets notifications pass."""
        self._recovery.begin(Step.APPLICATIONS)
        recoverable = [(manager, manager) for manager in self.managers if isinstance(manager, Recoverable)]
        applications: list[tuple[AppManager, ApplicationMetadata]] = []
        for manager, source in recoverable:
            applications += [
                (manager, metadata) for metadata in await self._call(manager, "list_applications", _listed(source))
            ]
        for owner, metadata in sorted(applications, key=lambda entry: (entry[1].created, entry[1].id)):
            request = AddApplicationRequest(metadata, recovered=True)
            try:
                self._contexts[owner.name].add_application(request)
            except (ManagementError, BadTaskGroups) as refused:
                log.error("appmanager.refused", manager=owner.name, application=metadata.id, error=str(refused))
        self._recovery.begin(Step.NODES)
        for unit in [unit for context in self._contexts.values() for unit in context.units()]:
            self._compare(unit, recoverable)
        self._recovery.begin(Step.REPLAY)
        for kept in self._recovery.replay(()):
            try:
                kept()
            except ManagementError as refused:
                log.error("appmanager.replay_failed", error=str(refused))
        self._recovery.begin(Step.SCHEDULING)

    def _compare(self, unit: TaskGroupRef, recoverable: Sequence[tuple[AppManager, Recoverable]]) -> None:
        """Compares the answers of the managers about a unit with the records, up to the one that says it is its own."""
        for manager, source in recoverable:
            try:
                allocation = source.get_existing_allocation(unit)
                if not isinstance(allocation, ExistingAllocation | None):
                    raise TypeError(f"{type(allocation).__name__} in place of ExistingAllocation")
            except Exception as error:
                raise StartFailed(
                    manager.name, "get_existing_allocation", f"{type(error).__name__}: {error}"
                ) from error
            for words in self._contexts[manager.name].differences(unit, allocation):
                self._report(manager.name, unit, words)
            if allocation is not None:
                return

    def _report(self, manager: str, unit: TaskGroupRef, words: str) -> None:
        self.differing += 1
        if self.differing <= MOST_DIFFERENCES:
            log.warning("appmanager.differs", manager=manager, unit=unit.unit, difference=words)
        elif self.differing == MOST_DIFFERENCES + 1:
            log.warning("appmanager.differs", manager=manager, difference="further differences are not logged")

    async def _call(self, manager: AppManager, name: str, call: Awaitable[Result]) -> Result:
        try:
            return await asyncio.wait_for(call, self._limit)
        except TimeoutError:
            raise StartFailed(manager.name, name, f"no end after {self._limit:g} s") from None
        except Exception as error:
            raise StartFailed(manager.name, name, f"{type(error).__name__}: {error}") from error


async def _listed(source: Recoverable) -> list[ApplicationMetadata]:
    """The applications that a manager lists. Raises TypeError for an answer of another form."""
    listed = await source.list_applications()
    applications = list(listed.values())
    for metadata in applications:
        if not isinstance(metadata, ApplicationMetadata):
            raise TypeError(f"{type(metadata).__name__} in place of ApplicationMetadata")
    return applications


class ManagerRunner:
    """The managers of one term of leadership."""

    def __init__(
        self,
        make: Callable[[], Sequence[AppManager]],
        settings: Mapping[str, Mapping[str, object]],
        reader: StateReader,
        submit: Submit,
        now: Callable[[], float],
        observe: Observe = lambda name, runs: None,
    ) -> None:
        """`make`: the managers, new objects in each call. `settings` by name of the manager; `namespace` among them
        names the namespace of its applications, by default the name of the manager. `now`: Unix seconds."""
        self._make, self._settings, self._reader = make, settings, reader
        self._submit, self._now, self._observe = submit, now, observe
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over: asyncio.Event | None = None
        self._stopped = False
        self._thread = threads.ending("app-managers", self._run)

    def start(self) -> None:
        """Begins to start the managers, and returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """Stops the managers, in bounded time. May be called from any thread."""
        self._stopped = True
        loop, over = self._loop, self._over
        if loop is not None and over is not None:
            threads.harmless("app-managers", lambda: loop.call_soon_threadsafe(over.set))
        if self._thread.ident is not None:
            self._thread.join(STOP_SECONDS)
            if self._thread.is_alive():
                log.warning("appmanager.left_behind", seconds=STOP_SECONDS)

    def _run(self) -> None:
        asyncio.run(self._live())

    async def _live(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        pause = FIRST_PAUSE
        while not (self._stopped or self._over.is_set()):
            try:
                service = await self._begin()
            except StartFailed as failed:
                log.error("appmanager.start_failed", manager=failed.manager, error=str(failed), again_in=pause)
                self._observe(failed.manager, False)
                await self._wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
                continue
            for manager in service.managers:
                self._observe(manager.name, True)
                log.info("appmanager.running", manager=manager.name)
            await self._over.wait()
            await service.stop()

    async def _begin(self) -> ManagerService:
        managers = self._make()
        contexts = {manager.name: self._context_of(manager.name) for manager in managers}
        service = ManagerService(managers, contexts, self._now, self._settings)
        await service.start()
        return service

    def _context_of(self, manager: str) -> CoreContext:
        namespace = str(self._settings.get(manager, {}).get("namespace", manager))
        return CoreContext(manager, namespace, self._reader, self._submit)

    async def _wait(self, seconds: float) -> None:
        if self._over is not None:
            try:
                await asyncio.wait_for(self._over.wait(), seconds)
            except TimeoutError:
                return
