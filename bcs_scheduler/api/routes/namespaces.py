"""Namespaces: settings and quota, and how much of it is used. One without settings exists by what is in it."""

from __future__ import annotations

from bcs_scheduler.api import errors
from bcs_scheduler.api.documents.namespaces import NamespaceDocument, read_namespace
from bcs_scheduler.api.documents.validate import known_version
from bcs_scheduler.api.errors import not_found
from bcs_scheduler.api.operation import CONTINUE, LABEL_SELECTOR, LIMIT, Answer, Call, Table
from bcs_scheduler.api.query import page, parse_selector, selected
from bcs_scheduler.api.views.namespaces import NamespaceView, show_namespace
from bcs_scheduler.core.effects import Reason
from bcs_scheduler.core.namespaces import contents
from bcs_scheduler.core.orders import DeleteNamespace, PutNamespace
from transactions import wants

table = Table("namespaces")


@table.read(
    "/namespaces",
    "List the namespaces with quota and use",
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
        lambda name: show_namespace(name, known.get(name), wants.of_namespace(state, name), held.get(name, {})),
    )


@table.read("/namespaces/{ns}", "Fetch a namespace with quota and use", answer=NamespaceView)
def get_namespace(call: Call) -> Answer:
    state, name = call.state(), call.path["ns"]
    record, held = state.namespaces.get(name), contents(state, name).get(name, {})
    if record is None and not held:
        raise not_found("namespace", name)
    return Answer(show_namespace(name, record, wants.of_namespace(state, name), held))


@table.write(
    "POST",
    "/namespaces",
    "Give a namespace settings",
    body=NamespaceDocument,
    reasons=(Reason.EXISTS, Reason.INVALID),
    status=200,
)
async def create_namespace(call: Call) -> Answer:
    return await _put(call, None, create=True)


@table.write(
    "PUT",
    "/namespaces",
    "Replace the settings of a namespace; a quota below what is used only stops growth",
    body=NamespaceDocument,
    reasons=(Reason.NOT_FOUND, Reason.CONFLICT, Reason.INVALID),
    status=200,
)
async def replace_namespace(call: Call) -> Answer:
    return await _put(call, None, create=False)


@table.write(
    "PUT",
    "/namespaces/{ns}",
    "Replace the settings of a namespace; a quota below what is used only stops growth",
    body=NamespaceDocument,
    reasons=(Reason.NOT_FOUND, Reason.CONFLICT, Reason.INVALID),
    status=200,
)
async def replace_named_namespace(call: Call) -> Answer:
    return await _put(call, call.path["ns"], create=False)


async def _put(call: Call, name: str | None, *, create: bool) -> Answer:
    record = read_namespace(call.body, name)
    command = PutNamespace(
        namespace=record, create=create, expected=known_version(call.body), dry_run=call.dry_run, cause=call.cause
    )
    return await call.submit(command)


@table.write(
    "DELETE",
    "/namespaces/{ns}",
    "Forget the settings of an empty namespace",
    reasons=(Reason.NOT_FOUND, Reason.CONFLICT),
    status=200,
)
async def delete_namespace(call: Call) -> Answer:
    return await call.submit(DeleteNamespace(name=call.path["ns"], dry_run=call.dry_run, cause=call.cause))
