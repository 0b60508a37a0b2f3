"""Namespaces: settings and quota, and the use of the quota. A namespace without settings exists as long as it has
objects."""

from __future__ import annotations

from bcs_scheduler.api.documents.namespaces import read_namespace
from bcs_scheduler.api.documents.validate import known_version
from bcs_scheduler.api.http import errors
from bcs_scheduler.api.http.errors import not_found
from bcs_scheduler.api.http.operation import CONTINUE, LABEL_SELECTOR, LIMIT, Answer, Call, Table
from bcs_scheduler.api.reading.query import page, parse_selector, selected
from bcs_scheduler.api.views.objects.namespaces import NamespaceView, show_namespace
from bcs_scheduler.core.interface.effects import Reason
from bcs_scheduler.core.interface.requests import DeleteNamespace, PutNamespace
from bcs_scheduler.core.requests.kinds.namespaces import contents
from bcs_scheduler.wire.documents.namespaces import NamespaceDocument

table = Table("namespaces")


@table.read(
    "/namespaces",
    "List the namespaces with quota and quota usage",
    query=(LIMIT, CONTINUE, LABEL_SELECTOR),
    answer=list[NamespaceView],
    reasons=(errors.BAD_PARAMETER,),
)
def list_namespaces(call: Call) -> Answer:
    state = call.state()
    requirements = parse_selector(call.query.get("labelSelector", ""))
    held = contents(state)
    known = dict(state.namespaces.items())
    found = [name for name in {*held, *known} if selected(known[name].labels if name in known else {}, requirements)]
    return page(
        found,
        lambda name: (name,),
        call.query,
        lambda name: show_namespace(state, name, known.get(name), held.get(name, {}), call.settings),
    )


@table.read("/namespaces/{ns}", "Fetch a namespace with quota and quota usage", answer=NamespaceView)
def get_namespace(call: Call) -> Answer:
    state, name = call.state(), call.path["ns"]
    record, held = state.namespaces.get(name), contents(state, name).get(name, {})
    if record is None and not held:
        raise not_found("namespace", name)
    return Answer(show_namespace(state, name, record, held, call.settings))


@table.write(
    "POST",
    "/namespaces",
    "Create the settings of a namespace",
    body=NamespaceDocument,
    reasons=(Reason.EXISTS, Reason.INVALID),
    status=200,
)
async def create_namespace(call: Call) -> Answer:
    return await _put(call, None, create=True)


@table.write(
    "PUT",
    "/namespaces",
    "Replace the settings of a namespace; a quota below the quota usage only prevents growth",
    body=NamespaceDocument,
    reasons=(Reason.NOT_FOUND, Reason.CONFLICT, Reason.INVALID),
    status=200,
)
async def replace_namespace(call: Call) -> Answer:
    return await _put(call, None, create=False)


@table.write(
    "PUT",
    "/namespaces/{ns}",
    "Replace the settings of a namespace; a quota below the quota usage only prevents growth",
    body=NamespaceDocument,
    reasons=(Reason.NOT_FOUND, Reason.CONFLICT, Reason.INVALID),
    status=200,
)
async def replace_named_namespace(call: Call) -> Answer:
    return await _put(call, call.path["ns"], create=False)


async def _put(call: Call, name: str | None, *, create: bool) -> Answer:
    record = read_namespace(call.body, name, call.problems)
    command = PutNamespace(
        namespace=record, create=create, expected=known_version(call.body), dry_run=call.dry_run, cause=call.cause
    )
    return await call.submit(command)


@table.write(
    "DELETE",
    "/namespaces/{ns}",
    "Delete the settings of an empty namespace",
    reasons=(Reason.NOT_FOUND, Reason.CONFLICT),
    status=200,
)
async def delete_namespace(call: Call) -> Answer:
    return await call.submit(DeleteNamespace(name=call.path["ns"], dry_run=call.dry_run, cause=call.cause))
