"""Sessions with running tasks. They begin with a WebSocket handshake (bcs_scheduler.api.sessions.endpoint); the
declarations here describe them in the description of the API, and find the task."""

from __future__ import annotations

from collections.abc import Mapping

from bcs_scheduler.api.http import errors
from bcs_scheduler.api.http.errors import ApiError, not_found
from bcs_scheduler.api.http.operation import Answer, Call, Operation, Param, Table
from bcs_scheduler.api.routes.logs import find_task, host_port_of
from bcs_scheduler.api.sessions.programs import Opener, Opening
from bcs_scheduler.core.interface.effects import Reason
from bcs_scheduler.security.caller import ProgramRight
from store.records import Task, TaskGroup
from store.records.definition import Container

table = Table("sessions")
TASK = Param("task", "text", "Id, name or number of the task; not needed if there is only one.")
REASONS: errors.Reasons = (
    Reason.NOT_FOUND,
    Reason.CONFLICT,
    errors.BAD_PARAMETER,
    errors.NO_UPGRADE,
    errors.AGENT,
    Reason.UNAVAILABLE,
    errors.TOO_MANY_SESSIONS,
)


SESSIONS: Mapping[ProgramRight, tuple[str, str]] = {
    "exec": ("run_program", "Run a program beside a task, with its streams (WebSocket)"),
    "portforward": ("forward_port", "Connect to a port of a task (WebSocket)"),
    "attach": ("attach_to_task", "Follow the streams of a running task (WebSocket)"),
    "copy": ("copy_files", "Copy a file or folder into a task, or out of it (WebSocket)"),
}
"""Names and summaries of the operations by their kind, the last part of the path."""
KINDS: dict[object, ProgramRight] = {}
"""Kinds by the handler of the operation."""


def _declare(kind: ProgramRight, name: str, summary: str) -> None:
    def begin(call: Call) -> Answer:
        raise _no_upgrade(call)

    begin.__name__ = name
    KINDS[begin] = kind
    table.read(f"/taskgroup/{{id}}/{kind}", summary, query=(TASK,), reasons=REASONS, leader=True, upgrade=True)(begin)


for _kind, (_name, _summary) in SESSIONS.items():
    _declare(_kind, _name, _summary)


def opener_of(operation: Operation, call: Call) -> Opener:
    """The function that begins the session of the call. Raises ApiError."""
    group = _find(call)
    task = find_task(group, call.query.get("task", ""))
    if task.status not in ("Running", "Restarting"):
        raise ApiError(Reason.CONFLICT, f"task {task.name or task.id} of {group.name} does not run: {task.status}")
    definition = _definition_of(call, group, task)
    address, python = host_port_of(call, group), call.settings.executor_python
    opening = Opening(address, call.state().framework.id, group, task, definition, python)
    openers: dict[ProgramRight, Opener] = {
        "exec": opening.run,
        "attach": opening.attach,
        "portforward": opening.connect,
        "copy": opening.copy,
    }
    return openers[kind_of(operation)]


def kind_of(operation: Operation) -> ProgramRight:
    """The kind of session of an operation of this table."""
    return KINDS[operation.handler]


def _definition_of(call: Call, group: TaskGroup, task: Task) -> Container:
    """The definition of a task; an empty one if the version has been removed."""
    version = call.state().version(group.application_key, group.version)
    return version.containers[group.tasks.index(task)] if version is not None else Container()


def _find(call: Call) -> TaskGroup:
    """Raises ApiError."""
    group = call.state().taskgroups.get(call.path["id"])
    if group is None:
        raise not_found("taskgroup", call.path["id"])
    return group


def _no_upgrade(call: Call) -> ApiError:
    _find(call)
    words = "this is the path of a session: ask for an upgrade to a WebSocket (RFC 6455)"
    return ApiError(errors.NO_UPGRADE, words, headers={"Upgrade": "websocket"})
