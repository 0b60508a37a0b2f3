"""Starts, recovers and stops application managers.

The order is part of the contract: `service_init` of all, `start` of all, recovery of applications in the order of their
creation, then of tasks, then the replay of notifications that arrived meanwhile. A manager that fails or takes too long
ends the start and is named.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

import structlog

from offers.policy.applications.gangs.recovery import Existing
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
from offers.policy.applications.lifecycle.recovery import Recovery, Step
from offers.policy.applications.metadata import ApplicationMetadata, BadTaskGroups, TaskMetadata

log = structlog.get_logger(__name__)

MANAGER_SECONDS = 60.0
"""The time that one call of a manager may take during a start."""

MOST_DIFFERENCES = 20
"""Differences between answers of managers and records that one start logs."""

Result = TypeVar("Result")


class StartFailed(Exception):
    """A manager has failed, so the start ends. `manager` is its name, `call` the method."""

    def __init__(self, manager: str, call: str, cause: str) -> None:
        super().__init__(f"application manager {manager}: {call}: {cause}")
        self.manager, self.call = manager, call


class Context(ApplicationManagementProtocol, Protocol):
    """The scheduler's part behind the protocol, with its methods for recovery."""

    def recover_task(self, metadata: TaskMetadata, unit: TaskGroupRef) -> ManagedTask | None:
        """Adds a task that exists; None if its application is unknown."""

    def differences(self, unit: TaskGroupRef, allocation: ExistingAllocation | None) -> Iterable[str]:
        """The differences between the answer of the manager about a unit and the records, in words. `allocation` None:
        the manager says that the unit is none of its tasks."""

    def resume(self, existing: Mapping[str, Iterable[Existing]]) -> None:
        """Recovery has found all tasks. `existing`: the placeholders that exist, by application."""


class _Notification(NamedTuple):
    call: Callable[..., None]
    arguments: tuple[str, ...]


class RecoveringContext:
    """The context as managers get it. Notifications that arrive during recovery are kept for the replay."""

    def __init__(self, context: Context, recovery: Recovery) -> None:
        self._context, self._recovery = context, recovery

    def get_application(self, application: str) -> ManagedApp | None:
        """See `ApplicationManagementProtocol.get_application`."""
        return self._context.get_application(application)

    def add_application(self, request: AddApplicationRequest) -> ManagedApp:
        """See `ApplicationManagementProtocol.add_application`."""
        if not self._recovery.complete:
            request = request._replace(recovered=True)
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
        if not self._recovery.hear("", _Notification(call, arguments)):
            call(*arguments)


def replay(event: object) -> None:
    """Handles a notification that was kept during recovery."""
    if isinstance(event, _Notification):
        event.call(*event.arguments)


class ManagerService:
    """All enabled managers. The caller has begun the steps of recovery before MANAGERS."""

    def __init__(
        self,
        managers: Sequence[AppManager],
        context: Context,
        recovery: Recovery,
        now: Callable[[], float],
        settings: Mapping[str, Mapping[str, object]] | None = None,
        limit: float = MANAGER_SECONDS,
        contexts: Mapping[str, Context] | None = None,
    ) -> None:
        """`settings` by name of the manager, None: no manager has settings; `limit`: seconds for one call; `now`: Unix
        seconds; `contexts`: those of single managers in place of `context`, by name; None: all share `context`."""
        self.managers, self.context, self.recovery = tuple(managers), context, recovery
        self._now, self._settings, self._limit = now, settings or {}, limit
        self._contexts = {one.name: (contexts or {}).get(one.name, context) for one in managers}
        self._protocols = {name: RecoveringContext(one, recovery) for name, one in self._contexts.items()}
        self._begun: list[AppManager] = []
        self.differing = 0
        """The number of answers about units that differ from the records."""

    async def start(self) -> None:
        """Initializes and starts all managers. Raises StartFailed; those that had begun are stopped then."""
        self.recovery.begin(Step.MANAGERS, self._now())
        try:
            for manager in self.managers:
                services = Services(self._settings.get(manager.name, {}), self._now)
                await self._call(manager, "service_init", manager.service_init(self._protocols[manager.name], services))
            for manager in self.managers:
                self._begun.append(manager)
                await self._call(manager, "start", manager.start())
        except StartFailed:
            await self.stop()
            raise

    async def recover(
        self, units: Iterable[TaskGroupRef], existing: Mapping[str, Iterable[Existing]]
    ) -> tuple[TaskGroupRef, ...]:
        """Recovers applications and tasks, and lets work start. `units`: the units of work that exist; `existing`: the
        placeholders that exist, by application. Returns the units of no application, which occupy their nodes. Raises
        StartFailed; the managers are stopped then."""
        try:
            return await self._recover(units, existing)
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

    async def _recover(
        self, units: Iterable[TaskGroupRef], existing: Mapping[str, Iterable[Existing]]
    ) -> tuple[TaskGroupRef, ...]:
        self.recovery.begin(Step.APPLICATIONS, self._now())
        recoverable = [(one, one) for one in self.managers if isinstance(one, Recoverable)]
        found: list[tuple[AppManager, ApplicationMetadata]] = []
        for manager, source in recoverable:
            found += [(manager, one) for one in await self._call(manager, "list_applications", _listed(source))]
        for owner, metadata in sorted(found, key=lambda one: (one[1].created, one[1].id)):
            request = AddApplicationRequest(metadata, recovered=True)
            try:
                self._contexts[owner.name].add_application(request)
            except (ManagementError, BadTaskGroups) as refused:
                log.error("appmanager.refused", manager=owner.name, application=metadata.id, error=str(refused))
        self.recovery.begin(Step.NODES, self._now())
        occupying = [unit for unit in units if not self._recover_unit(unit, recoverable) and not unit.terminated]
        self.recovery.begin(Step.REPLAY, self._now())
        for context in {id(one): one for one in self._contexts.values()}.values():
            context.resume(existing)
        for kept in self.recovery.replay(()):
            try:
                replay(kept)
            except ManagementError as refused:
                log.error("appmanager.replay_failed", error=str(refused))
        self.recovery.begin(Step.SCHEDULING, self._now())
        return tuple(unit for unit in occupying if unit.node)

    def _recover_unit(self, unit: TaskGroupRef, recoverable: Sequence[tuple[AppManager, Recoverable]]) -> bool:
        for manager, source in recoverable:
            context = self._contexts[manager.name]
            try:
                allocation = source.get_existing_allocation(unit)
                if not isinstance(allocation, ExistingAllocation | None):
                    raise TypeError(f"{type(allocation).__name__} in place of ExistingAllocation")
            except Exception as error:
                raise StartFailed(
                    manager.name, "get_existing_allocation", f"{type(error).__name__}: {error}"
                ) from error
            for words in context.differences(unit, allocation):
                self._tell(manager.name, unit, words)
            if allocation is not None:
                return context.recover_task(allocation.task, unit) is not None
        return False

    def _tell(self, manager: str, unit: TaskGroupRef, words: str) -> None:
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
    found = list(listed.values())
    for metadata in found:
        if not isinstance(metadata, ApplicationMetadata):
            raise TypeError(f"{type(metadata).__name__} in place of ApplicationMetadata")
    return found
