"""The applications of all managers: implements `ApplicationManagementProtocol` over gangs.

Pure: the engine and the clock are passed in. After each call `take_changes` has the records for one commit, and `due`
the effects that follow when these are durable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from offers.policy.applications.followed import Followed
from offers.policy.applications.gangs.effects import Effect, Engine, Notice, Traits
from offers.policy.applications.gangs.gang import Gang
from offers.policy.applications.gangs.records import Record
from offers.policy.applications.gangs.recovery import Existing
from offers.policy.applications.interface import (
    AddApplicationRequest,
    AddTaskRequest,
    ExistingAllocation,
    ManagedApp,
    TaskGroupRef,
    TasksNotTerminated,
    UnknownApplication,
)
from offers.policy.applications.interface import ManagedTask as TaskProtocol
from offers.policy.applications.metadata import Outcome, TaskMetadata
from offers.policy.applications.tables import TERMINATED


class ManagedTask:
    """A task of an application."""

    __slots__ = ("_gang", "id", "unit")

    def __init__(self, gang: Gang, metadata: TaskMetadata) -> None:
        self._gang, self.id, self.unit = gang, metadata.id, metadata.unit or metadata.id

    @property
    def state(self) -> str:
        """The present state, one of `tables.TaskState`. Raises KeyError for a task that was removed."""
        return str(self._gang.members[self.id].life.state)

    @property
    def outcome(self) -> Outcome | None:
        """The end of the task; None while it is not terminated. Raises KeyError for a task that was removed."""
        return self._gang.members[self.id].ended_as


class ManagedApplication:
    """An application with its gang. `originator`: the task that owns the others; empty while there is none."""

    __slots__ = ("gang", "originator", "tasks")

    def __init__(self, gang: Gang) -> None:
        self.gang = gang
        self.originator = ""
        self.tasks: dict[str, ManagedTask] = {}

    @property
    def id(self) -> str:
        """The identifier."""
        return self.gang.record.key

    @property
    def state(self) -> str:
        """The present state, one of `tables.AppState`."""
        return str(self.gang.record.manager.state)

    @property
    def queue(self) -> str:
        """The full name of the queue."""
        return self.gang.record.metadata.queue

    @property
    def user(self) -> str:
        """The user."""
        return self.gang.record.metadata.user

    def get_task(self, task: str) -> ManagedTask | None:
        """The task with this identifier; None if there is none."""
        return self.tasks.get(task)

    def add(self, metadata: TaskMetadata) -> ManagedTask:
        """Adds the view of a task. The first task that the metadata names as owner becomes the originator."""
        task = self.tasks[metadata.id] = ManagedTask(self.gang, metadata)
        if not self.originator and metadata.id == self.gang.record.metadata.owner:
            self.originator = metadata.id
        return task


class ApplicationContext:
    """All applications."""

    def __init__(
        self,
        engine: Engine,
        traits: Traits,
        now: Callable[[], float],
        register: Callable[[ManagedApp], None] = lambda application: None,
    ) -> None:
        """`now`: the time in Unix seconds. `register` is called before the first ask of an application, so that the
        engine knows it."""
        self._engine, self._traits, self._now, self._register = engine, traits, now, register
        self.applications: dict[str, ManagedApplication] = {}
        self._followed = Followed()
        self._notices: list[Notice] = []
        self._removed: dict[tuple[str, str, str], None] = {}

    # --- read by the scheduler --------------------------------------------------------------------------------

    def take_changes(self) -> dict[tuple[str, str, str], Record | None]:
        """The records that changed since the last call, by application, kind and key; None: the record is removed."""
        changes: dict[tuple[str, str, str], Record | None] = dict(self._removed)
        self._removed = {}
        for name, gang in self._followed.take_changed():
            self._notices += gang.take_notices()
            for (kind, key), record in gang.take_changes().items():
                changes[name, kind, key] = record
        return changes

    def take_notices(self) -> list[Notice]:
        """The notices since the last call."""
        for name, gang in self._followed.take_changed():
            self._notices += gang.take_notices()
            self._followed.keep(name)
        notices, self._notices = self._notices, []
        return notices

    def due(self) -> Iterator[tuple[str, Effect]]:
        """The effects that have not been confirmed, each with its application."""
        for name, gang in self._followed.due():
            for effect in gang.due():
                yield name, effect

    def next_wake(self) -> float | None:
        """The time of the next `tick` that has something to do, in Unix seconds; None if there is none."""
        return self._followed.next_wake()

    def tick(self) -> None:
        """Time has passed."""
        for gang in self._followed.awake(self._now()):
            gang.tick(self._now())

    def dump(self) -> Mapping[str, object]:
        """The state of all applications for operators: states, tasks, placeholders, counters of groups."""
        return {
            name: {
                "state": one.state,
                "core": str(one.gang.record.core.state),
                "queue": one.queue,
                "user": one.user,
                "tasks": {key: member.life.state for key, member in one.gang.members.items()},
                "placeholders": {key: holder.life.state for key, holder in one.gang.placeholders.items()},
                "groups": {
                    counter.group: {
                        "count": counter.total,
                        "replaced": counter.replaced,
                        "timed_out": counter.timed_out,
                    }
                    for counter in one.gang.record.counters
                },
            }
            for name, one in self.applications.items()
        }

    # --- called by managers -----------------------------------------------------------------------------------

    def get_application(self, application: str) -> ManagedApplication | None:
        """The application with this identifier; None if there is none."""
        return self.applications.get(application)

    def add_application(self, request: AddApplicationRequest) -> ManagedApplication:
        """Adds an application. One that exists is returned unchanged. Raises BadTaskGroups."""
        metadata = request.metadata
        existing = self.applications.get(metadata.id)
        if existing is not None:
            return existing
        made = ManagedApplication(Gang.born(metadata, self._engine, self._traits))
        self._register(made)
        self.applications[metadata.id] = made
        self._followed.add(metadata.id, made.gang)
        made.gang.submit(self._now(), recovered=request.recovered)
        return made

    def remove_application(self, application: str) -> None:
        """Removes an application. Raises UnknownApplication, or TasksNotTerminated for tasks and placeholders."""
        found = self.applications.get(application)
        if found is None:
            raise UnknownApplication(application)
        gang = found.gang
        left = [key for key, member in gang.members.items() if member.life.state not in TERMINATED]
        left += gang.placeholders
        if left:
            raise TasksNotTerminated(application, tuple(sorted(left)))
        for kind, key in [("application", application), *(("member", key) for key in gang.members)]:
            self._removed[application, kind, key] = None
        self._notices += gang.take_notices()
        self._followed.remove(application)
        del self.applications[application]

    def add_task(self, request: AddTaskRequest) -> TaskProtocol | None:
        """Adds a task. One that exists is returned unchanged. None if the application is unknown."""
        metadata = request.metadata
        application = self.applications.get(metadata.application)
        if application is None:
            return None
        existing = application.tasks.get(metadata.id)
        if existing is not None:
            return existing
        application.gang.add_task(metadata, self._now())
        return application.add(metadata)

    def remove_task(self, application: str, task: str) -> None:
        """Removes a task that is terminated. Raises TasksNotTerminated for another one."""
        found = self.applications.get(application)
        member = found.gang.members.get(task) if found is not None else None
        if found is None or member is None:
            return
        if member.life.state not in TERMINATED:
            raise TasksNotTerminated(application, (task,))
        found.gang.remove_task(task)
        del found.tasks[task]

    def notify_application_complete(self, application: str) -> None:
        """The manager has ended the application: its placeholders are released."""
        found = self.applications.get(application)
        if found is not None:
            found.gang.complete(self._now())

    def notify_application_fail(self, application: str, cause: str = "") -> None:
        """The application has failed: its tasks end, its placeholders are released."""
        found = self.applications.get(application)
        if found is not None:
            found.gang.fail(self._now(), cause)

    def notify_task_complete(self, application: str, task: str) -> None:
        """A task has ended."""
        found = self.applications.get(application)
        if found is not None:
            found.gang.ended(task, self._now())

    # --- recovery ---------------------------------------------------------------------------------------------

    def recover_task(self, metadata: TaskMetadata, unit: TaskGroupRef) -> TaskProtocol | None:
        """Adds a task that exists: Bound with a node, Completed if its unit is terminated, New without a node. None if
        the application is unknown."""
        application = self.applications.get(metadata.application)
        if application is None:
            return None
        application.gang.recover_task(metadata, unit.node, unit.terminated, self._now())
        return application.tasks.get(metadata.id) or application.add(metadata)

    def differences(self, unit: TaskGroupRef, allocation: ExistingAllocation | None) -> Iterable[str]:  # noqa: ARG002
        """Returns nothing, because there are no records beside the answers of managers. `allocation` None: the manager
        says that the unit is none of its tasks."""
        return ()

    def resume(self, existing: Mapping[str, Iterable[Existing]]) -> None:
        """Recovery has found all tasks. `existing`: the placeholders that exist, by application. Recovered applications
        continue from here."""
        for name, application in self.applications.items():
            application.gang.adopt(existing.get(name, ()), self._now())

    def restore(self, gang: Gang, tasks: Mapping[str, str]) -> ManagedApplication:
        """Adds an application that was rebuilt from records. `tasks`: the unit of work of each of its tasks; a task
        without entry is its own unit. Raises ValueError if the application exists."""
        name = gang.record.key
        if name in self.applications:
            raise ValueError(f"application {name}: exists already")
        made = self.applications[name] = ManagedApplication(gang)
        self._followed.add(name, gang)
        for key in gang.members:
            made.add(TaskMetadata(name, key, unit=tasks.get(key, "")))
        return made
