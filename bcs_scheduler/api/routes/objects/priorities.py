"""Priority classes: names for priorities, which documents of workloads use."""

from __future__ import annotations

from bcs_scheduler.api.documents.priorities import read_priority_class
from bcs_scheduler.api.documents.validate import known_version
from bcs_scheduler.api.http import errors
from bcs_scheduler.api.http.errors import not_found
from bcs_scheduler.api.http.operation import CONTINUE, LABEL_SELECTOR, LIMIT, Answer, Call, Table
from bcs_scheduler.api.reading.query import page, parse_selector, selected
from bcs_scheduler.api.views.objects.priorities import PriorityClassView, show_priority_class
from bcs_scheduler.core.interface.effects import Reason
from bcs_scheduler.core.interface.requests import DeletePriorityClass, PutPriorityClass
from bcs_scheduler.wire.documents.priorities import PriorityClassDocument

table = Table("priority classes")


@table.read(
    "/priorityclasses",
    "List the priority classes",
    query=(LIMIT, CONTINUE, LABEL_SELECTOR),
    answer=list[PriorityClassView],
    reasons=(errors.BAD_PARAMETER,),
)
def list_priority_classes(call: Call) -> Answer:
    requirements = parse_selector(call.query.get("labelSelector", ""))
    found = [one for one in list(call.state().priority_classes.values()) if selected(one.labels, requirements)]
    return page(found, lambda one: (one.name,), call.query, show_priority_class)


@table.read("/priorityclasses/{name}", "Fetch a priority class", answer=PriorityClassView)
def get_priority_class(call: Call) -> Answer:
    record = call.state().priority_classes.get(call.path["name"])
    if record is None:
        raise not_found("priority class", call.path["name"])
    return Answer(show_priority_class(record))


@table.write(
    "POST",
    "/priorityclasses",
    "Create a priority class",
    body=PriorityClassDocument,
    reasons=(Reason.EXISTS, Reason.INVALID),
    status=200,
)
async def create_priority_class(call: Call) -> Answer:
    return await _put(call, None, create=True)


@table.write(
    "PUT",
    "/priorityclasses",
    "Replace a priority class; value and preemption policy stay",
    body=PriorityClassDocument,
    reasons=(Reason.NOT_FOUND, Reason.CONFLICT, Reason.INVALID),
    status=200,
)
async def replace_priority_class(call: Call) -> Answer:
    return await _put(call, None, create=False)


@table.write(
    "PUT",
    "/priorityclasses/{name}",
    "Replace a priority class; value and preemption policy stay",
    body=PriorityClassDocument,
    reasons=(Reason.NOT_FOUND, Reason.CONFLICT, Reason.INVALID),
    status=200,
)
async def replace_named_priority_class(call: Call) -> Answer:
    return await _put(call, call.path["name"], create=False)


async def _put(call: Call, name: str | None, *, create: bool) -> Answer:
    record = read_priority_class(call.body, name, call.problems)
    command = PutPriorityClass(
        priority_class=record, create=create, expected=known_version(call.body), dry_run=call.dry_run, cause=call.cause
    )
    return await call.submit(command)


@table.write(
    "DELETE",
    "/priorityclasses/{name}",
    "Delete a priority class; work that uses the class keeps its priority",
    reasons=(Reason.NOT_FOUND,),
    status=200,
)
async def delete_priority_class(call: Call) -> Answer:
    return await call.submit(DeletePriorityClass(name=call.path["name"], dry_run=call.dry_run, cause=call.cause))
