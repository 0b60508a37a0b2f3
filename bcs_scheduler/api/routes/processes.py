"""The collection of processes: the operations of applications.py, for documents and applications of kind process
only."""

from __future__ import annotations

from bcs_scheduler.api.http import errors
from bcs_scheduler.api.http.errors import not_found
from bcs_scheduler.api.http.operation import Answer, Answered, Call, Param, Table
from bcs_scheduler.api.reading.lists import LISTING
from bcs_scheduler.api.routes import applications
from bcs_scheduler.api.routes.applications import (
    ARGS,
    INSTANCES,
    MAX_UNAVAILABLE,
    ON_CONFLICT,
    STATUS,
    VERSION,
    Accepted,
)
from bcs_scheduler.api.views.applications import ApplicationView
from bcs_scheduler.core.interface.effects import Reason
from bcs_scheduler.wire.documents.application import ApplicationDocument

table = Table("processes")
KINDS = ("process",)
PROCESSES = "/namespaces/{ns}/processes"
PROCESS = f"{PROCESSES}/{{name}}"


@table.read(
    PROCESSES,
    "List the processes of a namespace",
    query=(*LISTING, STATUS, applications.PODS),
    answer=list[ApplicationView],
    reasons=(errors.BAD_PARAMETER,),
)
def list_processes(call: Call) -> Answered:
    return applications.list_of_kind(call, "process")


@table.read(PROCESS, "Fetch a process", answer=ApplicationView)
def get_process(call: Call) -> Answer:
    _check(call)
    return applications.get_application(call)


@table.write(
    "POST",
    PROCESSES,
    "Create a process",
    body=ApplicationDocument,
    answer=Accepted,
    reasons=(Reason.EXISTS, Reason.INVALID),
)
async def create_process(call: Call) -> Answer:
    return await applications.create(call, KINDS)


@table.write(
    "PUT",
    PROCESSES,
    "Update a process to a new definition",
    query=(INSTANCES, MAX_UNAVAILABLE, ARGS, ON_CONFLICT),
    body=ApplicationDocument,
    answer=Accepted,
)
async def update_process(call: Call) -> Answer:
    return await applications.update(call, None, KINDS)


@table.write(
    "PUT",
    f"{PROCESSES}/rollback",
    "Roll a process back: to the document in the body, or to a stored version, `{name, version}`",
    query=(INSTANCES, ON_CONFLICT),
    body=ApplicationDocument,
    answer=Accepted,
)
async def rollback_process_to(call: Call) -> Answer:
    return await applications.rollback(call, KINDS)


@table.write(
    "PUT", f"{PROCESS}/rollback", "Roll a process back", query=(VERSION, INSTANCES, ON_CONFLICT), answer=Accepted
)
async def rollback_process(call: Call) -> Answer:
    _check(call)
    return await applications.rollback_named_application(call)


@table.write("PUT", f"{PROCESS}/scale/{{instances}}", "Scale a process", query=(ON_CONFLICT,), answer=Accepted)
async def scale_process(call: Call) -> Answer:
    _check(call)
    return await applications.scale_application(call)


@table.write(
    "DELETE",
    PROCESS,
    "Delete a process",
    query=(
        Param("enforce", "bool", "1: remove the records of taskgroups that do not end, for example on lost agents."),
    ),
    answer=Accepted,
)
async def delete_process(call: Call) -> Answer:
    _check(call)
    return await applications.delete_application(call)


def _check(call: Call) -> None:
    """Raises ApiError (404) if the object of this name is no process (docs/original.md#process-routes)."""
    found = applications.find_application(call.state(), call.path["ns"], call.path["name"])
    if found.type != "process":
        raise not_found("process", found.key)
