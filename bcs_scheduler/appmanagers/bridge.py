"""The scheduler as one application manager sees it: reads the records, and turns calls into requests to the core.

Calls come from the thread of the managers and wait there until the change is durable, for a bounded time. Nothing here
runs in the thread of the core.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from hashlib import blake2b

from bcs_scheduler.api.documents.convert import to_version
from bcs_scheduler.api.documents.names import NAME, NAME_LENGTH, NAME_RULE
from bcs_scheduler.api.documents.validate import read_application
from bcs_scheduler.api.http.errors import ApiError
from bcs_scheduler.core.controllers.managed.units import request_of
from bcs_scheduler.core.interface import managed, requests
from bcs_scheduler.core.interface.effects import Reason, Reply
from bcs_scheduler.leadership.gateway import Busy
from bcs_scheduler.wire import depth
from bcs_scheduler.wire.problems import Problems
from offers.policy.applications.interface import (
    AddApplicationRequest,
    AddTaskRequest,
    BadRequest,
    ExistingAllocation,
    ManagedApp,
    TaskGroupRef,
    TasksNotTerminated,
    Unavailable,
    UnknownApplication,
)
from offers.policy.applications.interface import ManagedTask as TaskProtocol
from offers.policy.applications.metadata import ApplicationMetadata, Outcome, TaskGroup, check_groups
from offers.policy.applications.tables import TERMINATED, AppState, TaskState
from store.ids import application_of, object_key, part_key
from store.records import ANNOTATION_OF_TASK, ManagedApplication, ManagedTask, MemberGroup, Version
from store.state.reader import StateReader

REPLY_SECONDS = 30.0
"""Seconds that a call waits until its change is durable."""

Submit = Callable[[requests.Request], "Future[Reply]"]


class TaskView:
    """A task of an application, as its record is now."""

    def __init__(self, reader: StateReader, key: str, name: str) -> None:
        self._reader, self._key, self.id = reader, key, name

    @property
    def state(self) -> str:
        """The present state; Completed for a task whose record is gone."""
        record = self._reader.managed_tasks.get(self._key)
        return (record.state or TaskState.NEW) if record is not None else TaskState.COMPLETED

    @property
    def unit(self) -> str:
        """The application that runs the task; empty if its record is gone."""
        record = self._reader.managed_tasks.get(self._key)
        return record.unit if record is not None else ""

    @property
    def outcome(self) -> Outcome | None:
        """The end of the task; None while it is not terminated, and for a task whose record is gone."""
        record = self._reader.managed_tasks.get(self._key)
        if record is None or record.state not in TERMINATED:
            return None
        outcome = record.outcome
        if outcome is None:
            return Outcome(reason=record.cause)
        return Outcome(outcome.status, outcome.reason, outcome.message, outcome.exit_code)


class ApplicationView:
    """An application, as its record is now."""

    def __init__(self, reader: StateReader, key: str, metadata: ManagedApplication) -> None:
        self._reader, self._key = reader, key
        self.id, self.queue, self.user = metadata.name, metadata.queue, metadata.user
        self._owner = metadata.owner

    @property
    def state(self) -> str:
        """The present state; Completed for an application whose record is gone."""
        record = self._reader.managed_applications.get(self._key)
        return (record.state or AppState.NEW) if record is not None else AppState.COMPLETED

    @property
    def originator(self) -> str:
        """The task that owns the others; empty while there is none."""
        return self._owner if self._owner and self.get_task(self._owner) is not None else ""

    def get_task(self, task: str) -> TaskProtocol | None:
        """The task with this identifier; None if there is none."""
        key = part_key(self._key, task)
        return TaskView(self._reader, key, task) if key in self._reader.managed_tasks else None


class CoreContext:
    """Implements `ApplicationManagementProtocol` for one manager. All its applications are in one namespace."""

    def __init__(self, manager: str, namespace: str, reader: StateReader, submit: Submit) -> None:
        self._manager, self.namespace, self._reader, self._submit = manager, namespace, reader, submit

    def get_application(self, application: str) -> ManagedApp | None:
        """The application with this identifier; None if there is none."""
        record = self._record(application)
        return ApplicationView(self._reader, record.key, record) if record is not None else None

    def add_application(self, request: AddApplicationRequest) -> ManagedApp:
        """Adds an application. Raises BadTaskGroups, BadRequest, Unavailable."""
        metadata = request.metadata
        known = self.get_application(metadata.id)
        if known is not None:
            return known
        check_groups(metadata.task_groups)
        record = self._described(metadata)
        self._ask(managed.AddManagedApplication(application=record))
        return ApplicationView(self._reader, record.key, record)

    def remove_application(self, application: str) -> None:
        """Removes an application. Raises UnknownApplication, TasksNotTerminated, Unavailable."""
        record = self._record(application)
        if record is None:
            raise UnknownApplication(application)
        reader = self._reader
        keys = list(reader.indexes.managed_by("managedtask", record.key))
        tasks = [task for key in keys if (task := reader.managed_tasks.get(key)) is not None]
        left = tuple(sorted(task.name for task in tasks if task.state not in TERMINATED))
        if left:
            raise TasksNotTerminated(application, left)
        self._end(application, removed=True)

    def add_task(self, request: AddTaskRequest) -> TaskProtocol | None:
        """Adds a task. Raises BadRequest for one without a definition that can be launched; Unavailable."""
        metadata = request.metadata
        owner = self.get_application(metadata.application)
        if owner is None:
            return None
        known = owner.get_task(metadata.id)
        if known is not None:
            return known
        _check_name("task", metadata.id)
        unit = unit_name(metadata.application, metadata.id)
        title = f"task {metadata.id} of application {metadata.application}: definition"
        if not metadata.definition:
            raise BadRequest(f"{title}: missing")
        version = _version(title, metadata.definition, self.namespace, unit)
        task = ManagedTask(
            namespace=self.namespace,
            application=metadata.application,
            name=metadata.id,
            unit=unit,
            version=version,
            group=metadata.group,
            request=request_of(version),
        )
        self._ask(managed.AddManagedTask(task=task))
        return TaskView(self._reader, task.key, task.name)

    def remove_task(self, application: str, task: str) -> None:
        """Removes a task that is terminated. Raises TasksNotTerminated, Unavailable."""
        record = self._task(application, task)
        if record is not None and record.state not in TERMINATED:
            raise TasksNotTerminated(application, (task,))
        if record is not None:
            self._end_task(application, task, removed=True)

    def notify_application_complete(self, application: str) -> None:
        """The manager has ended the application. Raises Unavailable."""
        record = self._record(application)
        if record is not None and not record.wanted and record.state != AppState.COMPLETED:
            self._end(application)

    def notify_application_fail(self, application: str, cause: str = "") -> None:
        """The application has failed. Raises Unavailable."""
        record = self._record(application)
        if record is not None and not record.wanted:
            self._end(application, failed=True, reason=cause)

    def notify_task_complete(self, application: str, task: str) -> None:
        """A task has ended. Raises Unavailable."""
        record = self._task(application, task)
        if record is not None and not record.done and record.state not in TERMINATED:
            self._end_task(application, task)

    # --- recovery ---------------------------------------------------------------------------------------------

    def differences(self, unit: TaskGroupRef, allocation: ExistingAllocation | None) -> Iterable[str]:
        """The differences between the answer of the manager about a unit and the records, which count. `allocation`
        None: the manager says that the unit is none of its tasks."""
        recorded = self._task_of(unit)
        if allocation is None:
            if recorded is not None and recorded.state not in TERMINATED and not unit.terminated:
                yield f"the unit is task {recorded.key}, and the manager does not know it"
            return
        task = allocation.task
        key = part_key(object_key(self.namespace, task.application), task.id)
        if recorded is None:
            known = self._reader.managed_tasks.get(key)
            where = f"runs as {known.unit}" if known is not None else "does not exist"
            yield f"the manager says task {key}, which {where}"
            return
        if key != recorded.key:
            yield f"the manager says task {key}, the record says {recorded.key}"
            return
        if allocation.node != unit.node:
            yield f"task {key}: the manager says node {allocation.node or 'none'}, the unit is on {unit.node or 'none'}"
        if task.group != recorded.group:
            yield f"task {key}: the manager says group {task.group or 'none'}, the record {recorded.group or 'none'}"
        if task.request and dict(task.request) != recorded.request:
            yield f"task {key}: the manager says {dict(task.request)}, the record {recorded.request}"

    def _task_of(self, unit: TaskGroupRef) -> ManagedTask | None:
        """The task of this manager that runs as a unit, by the records; None if it is none."""
        application = self._reader.applications.get(application_of(unit.unit))
        owner = application.annotations.get(ANNOTATION_OF_TASK, "") if application is not None else ""
        record = self._record(owner) if owner else None
        if record is None or application is None:
            return None
        tasks = (
            self._reader.managed_tasks.get(key) for key in self._reader.indexes.managed_by("managedtask", record.key)
        )
        return next((task for task in tasks if task is not None and task.unit == application.name), None)

    def units(self) -> Iterator[TaskGroupRef]:
        """The taskgroups of the namespace that are no placeholders."""
        reader = self._reader
        for key in list(reader.indexes.keys_in("application", self.namespace)):
            application = reader.applications.get(key)
            if application is None or key in reader.placeholders:
                continue
            for group in list(reader.groups_of(key).values()):
                yield TaskGroupRef(group.id, dict(application.labels), group.agent_id, group.ended)

    # --- inside -----------------------------------------------------------------------------------------------

    def _record(self, application: str) -> ManagedApplication | None:
        record: ManagedApplication | None = self._reader.managed_applications.get(
            object_key(self.namespace, application)
        )
        return record if record is not None and record.manager == self._manager else None

    def _task(self, application: str, task: str) -> ManagedTask | None:
        key = part_key(object_key(self.namespace, application), task)
        record: ManagedTask | None = self._reader.managed_tasks.get(key)
        return record

    def _described(self, metadata: ApplicationMetadata) -> ManagedApplication:
        _check_name("application", metadata.id)
        groups = tuple(
            MemberGroup(
                name=group.name,
                min_member=group.min_member,
                request=dict(group.min_resource),
                terms=_terms(metadata.id, group, self.namespace),
            )
            for group in metadata.task_groups
        )
        return ManagedApplication(
            namespace=self.namespace,
            name=metadata.id,
            manager=self._manager,
            queue=metadata.queue,
            user=metadata.user,
            groups=metadata.groups,
            tags=dict(metadata.tags),
            owner=metadata.owner,
            task_groups=groups,
            timeout=metadata.parameters.placeholder_timeout,
            style=metadata.parameters.style.value,
            created_at=metadata.created,
        )

    def _end(self, application: str, *, failed: bool = False, removed: bool = False, reason: str = "") -> None:
        self._ask(
            managed.EndManagedApplication(
                namespace=self.namespace, name=application, failed=failed, removed=removed, reason=reason
            )
        )

    def _end_task(self, application: str, task: str, *, removed: bool = False) -> None:
        self._ask(managed.EndManagedTask(namespace=self.namespace, application=application, name=task, removed=removed))

    def _ask(self, request: requests.Request) -> None:
        try:
            reply = self._submit(request).result(REPLY_SECONDS)
        except Busy as busy:
            raise Unavailable(str(busy)) from None
        except TimeoutError:
            raise Unavailable(f"the scheduler has not answered within {REPLY_SECONDS:g} s") from None
        if reply.error in (Reason.UNAVAILABLE, Reason.STEPPED_DOWN, Reason.INTERNAL):
            raise Unavailable(reply.message)
        if reply.error:
            raise BadRequest(reply.message)


def unit_name(application: str, task: str) -> str:
    """The name of the application that runs a task. Long names are cut and made unique."""
    name = f"{application}-{task}"
    if len(name) <= NAME_LENGTH:
        return name
    digest = blake2b(f"{application}/{task}".encode(), digest_size=5).hexdigest()
    return f"{name[: NAME_LENGTH - len(digest) - 1].rstrip('-')}-{digest}"


def _check_name(kind: str, name: str) -> None:
    if not NAME.match(name):
        raise BadRequest(f"{kind} {name[:80]!r}: not a name: it {NAME_RULE}")


def _terms(application: str, group: TaskGroup, namespace: str) -> Version | None:
    """The terms of placement of the placeholders of a group; None if it has none. Raises BadRequest."""
    if not group.terms:
        return None
    title = f"task group {group.name} of application {application}: terms"
    made = _version(title, group.terms, namespace, application, {"containers": [{"command": "sleep"}]})
    return Version(
        namespace=namespace,
        application=application,
        executor=made.executor,
        network_mode=made.network_mode,
        network_type=made.network_type,
        constraints=made.constraints,
        tolerations=made.tolerations,
        priority=made.priority,
        priority_class=made.priority_class,
        role=made.role,
    )


def _version(title: str, text: str, namespace: str, unit: str, template: Mapping[str, object] | None = None) -> Version:
    """The definition that a document means. `template`: the default fields of its template; None: there are none.
    Raises BadRequest."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise BadRequest(f"{title}: not JSON: {error}") from None
    except RecursionError:
        raise BadRequest(f"{title}: {depth.words()}") from None
    if path := depth.too_deep(document):
        raise BadRequest(f"{title}: {depth.words()}: {path}")
    if not isinstance(document, dict):
        raise BadRequest(f"{title}: not an object")
    given = document.get("metadata")
    spec = document.get("spec")
    if template is not None:
        spec = _filled(spec, template)
    document = {
        "kind": "application",
        **document,
        "metadata": {**(given if isinstance(given, dict) else {}), "name": unit, "namespace": namespace},
        "spec": {**(spec if isinstance(spec, dict) else {}), "instance": 1},
    }
    try:
        # As the API without fieldValidation, but a manager has no place for warnings.
        read = read_application(document, namespace=namespace, creating=True, problems=Problems("Ignore"))
        version = to_version(read, 1)
    except ApiError as error:
        raise BadRequest(f"{title}: {error}") from None
    return version


def _filled(spec: object, template: Mapping[str, object]) -> dict[str, object]:
    """The spec with a template that has at least these fields. Parts that are no objects are left to the check."""
    given = spec if isinstance(spec, dict) else {}
    outer = given.get("template", {})
    inner = outer.get("spec", {}) if isinstance(outer, dict) else {}
    if not isinstance(outer, dict) or not isinstance(inner, dict):
        return given
    return {**given, "template": {**outer, "spec": {**template, **inner}}}
