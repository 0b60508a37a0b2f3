"""The interfaces between the scheduler and application managers, which bring applications from elsewhere.

A third party writes an `AppManager`, names it by an entry point of the group `bcs_scheduler.app_managers`, and installs
the package. The scheduler calls `service_init` of all enabled managers, then `start` of all, in the order of the
configuration, and `stop` in the opposite order. A call that raises an error, or takes more than a minute, ends the
start: all managers are stopped, and new ones are started after a pause of 1 to 60 s. All other work of the scheduler
continues. `bcs_scheduler.testing.appmanager` has the tests of this contract.

Exception tree:

    ManagementError
      UnknownApplication    no application has this identifier
      TasksNotTerminated    an application was to be removed, and tasks of it are not terminated
      BadRequest            the scheduler has refused an application or a task
      Unavailable           no scheduler can carry out the call now; the same call may succeed later
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol, runtime_checkable

from offers.policy.applications.metadata import ApplicationMetadata, Outcome, TaskMetadata

GROUP = "bcs_scheduler.app_managers"
"""The group of entry points."""


class ManagementError(Exception):
    """Base of the errors that managers get."""


class UnknownApplication(ManagementError):
    """No application has the identifier `application`."""

    def __init__(self, application: str) -> None:
        super().__init__(f"no application has the id {application}")
        self.application = application


class TasksNotTerminated(ManagementError):
    """An application cannot be removed because these tasks are not terminated."""

    def __init__(self, application: str, tasks: tuple[str, ...]) -> None:
        super().__init__(f"application {application}: these tasks are not terminated: {', '.join(tasks)}")
        self.application, self.tasks = application, tasks


class BadRequest(ManagementError):
    """The scheduler has refused an application or a task. The text says why."""


class Unavailable(ManagementError):
    """No scheduler can carry out the call now; the same call may succeed later."""


class TaskGroupRef(NamedTuple):
    """A unit of work that exists in the cluster, as the scheduler found it. `node` is empty while it has none."""

    unit: str
    labels: Mapping[str, str]
    node: str = ""
    terminated: bool = False


class ExistingAllocation(NamedTuple):
    """The task that a unit of work is, with its node."""

    task: TaskMetadata
    node: str


class ManagedTask(Protocol):
    """A task as managers see it."""

    @property
    def id(self) -> str:
        """The identifier, unique in the application."""

    @property
    def state(self) -> str:
        """The present state, one of `tables.TaskState`."""

    @property
    def unit(self) -> str:
        """The unit of work that the manager named."""

    @property
    def outcome(self) -> Outcome | None:
        """The end of the task, with the exit code of its program; None while it is not terminated, and when its record
        is gone."""


class ManagedApp(Protocol):
    """An application as managers see it. Its state follows from events; managers do not set it, and there is no
    TriggerAppRecovery: the store has the records of all applications and tasks, from which a new leader continues them
    before it starts the managers."""

    @property
    def id(self) -> str:
        """The identifier, unique among all managers."""

    @property
    def state(self) -> str:
        """The present state, one of `tables.AppState`."""

    @property
    def queue(self) -> str:
        """The full name of the queue."""

    @property
    def user(self) -> str:
        """The user."""

    @property
    def originator(self) -> str:
        """The identifier of the task that owns the others; empty while there is none."""

    def get_task(self, task: str) -> ManagedTask | None:
        """The task with this identifier; None if there is none."""


class AddApplicationRequest(NamedTuple):
    """The request to add an application. `recovered`: it existed before this scheduler began."""

    metadata: ApplicationMetadata
    recovered: bool = False


class AddTaskRequest(NamedTuple):
    """The request to add a task."""

    metadata: TaskMetadata


class ApplicationManagementProtocol(Protocol):
    """The scheduler as managers see it. Notifications about unknown identifiers do nothing. Managers call it from the
    event loop in which they were started. Calls that change something return when the change is durable. They raise
    BadRequest for a refusal, and Unavailable if no scheduler can carry them out now: nothing was
    changed, or it is not known whether it was. The same call may be repeated, because one that was carried out changes
    nothing the second time. Notifications during recovery are kept; one that fails when it is replayed is logged."""

    def get_application(self, application: str) -> ManagedApp | None:
        """The application with this identifier; None if there is none."""

    def add_application(self, request: AddApplicationRequest) -> ManagedApp:
        """Adds an application. One that exists is returned unchanged. Raises BadTaskGroups, BadRequest (a name that is
        taken or is no name, terms that cannot be read, too many members), and Unavailable."""

    def remove_application(self, application: str) -> None:
        """Removes an application. Raises UnknownApplication, TasksNotTerminated, BadRequest (placeholders are left),
        and Unavailable."""

    def add_task(self, request: AddTaskRequest) -> ManagedTask | None:
        """Adds a task. One that exists is returned unchanged. None if the application is unknown. Raises BadRequest for
        a definition that cannot be launched, and Unavailable. A task that is refused later, because an application has
        the name of its unit, becomes Failed (`ManagedTask.outcome`)."""

    def remove_task(self, application: str, task: str) -> None:
        """Removes a task that is terminated; an unknown one is no error. Raises TasksNotTerminated for another one, and
        Unavailable."""

    def notify_application_complete(self, application: str) -> None:
        """The manager has ended the application: its tasks end, its placeholders are released. Raises Unavailable."""

    def notify_application_fail(self, application: str, cause: str = "") -> None:
        """The application has failed: its tasks end, its placeholders are released. `cause`: for users. Raises
        Unavailable."""

    def notify_task_complete(self, application: str, task: str) -> None:
        """The manager has ended a task: its taskgroup ends. Raises Unavailable."""


class Services(NamedTuple):
    """The services of the scheduler beside the protocol. `settings`: the part of the configuration with the name of the
    manager. `now`: the time in Unix seconds."""

    settings: Mapping[str, object]
    now: Callable[[], float]


@runtime_checkable
class AppManager(Protocol):
    """An application manager."""

    @property
    def name(self) -> str:
        """The name by which the configuration enables the manager."""

    async def service_init(self, context: ApplicationManagementProtocol, services: Services) -> None:
        """Prepares the manager. No background work begins, and nothing is added. An error ends the start; managers that
        were only prepared are not stopped."""

    async def start(self) -> None:
        """Begins the work of the manager. An error ends the start: this manager and those before it are stopped, and
        all start again later."""

    async def stop(self) -> None:
        """Ends everything that `start` began, also after a start that failed. A second call does nothing. An error is
        logged, and the other managers are stopped."""


@runtime_checkable
class Recoverable(Protocol):
    """A manager that knows, after a restart of the scheduler, which applications exist."""

    async def list_applications(self) -> dict[str, ApplicationMetadata]:
        """The applications that exist, by identifier. An error ends the start. One that the scheduler refuses is logged
        (`appmanager.refused`), and the others are added."""

    def get_existing_allocation(self, unit: TaskGroupRef) -> ExistingAllocation | None:
        """The task that a unit of work is; None for a unit of others, and for one without a node. An error ends the
        start. The records of the store count: an answer that differs from them is logged (`appmanager.differs`), and
        changes nothing."""
