"""Custom resources: registered kinds, and objects of them, which are kept and given back as they are."""

from __future__ import annotations

from bcs_scheduler.api.documents.extensions import read_custom_kind, read_custom_object
from bcs_scheduler.api.documents.validate import known_version
from bcs_scheduler.api.http import errors
from bcs_scheduler.api.http.errors import not_found
from bcs_scheduler.api.http.operation import CONTINUE, LIMIT, Answer, Answered, Call, Table
from bcs_scheduler.api.reading.lists import listed, lists
from bcs_scheduler.api.reading.query import page
from bcs_scheduler.api.views.objects.extensions import (
    CustomKindView,
    CustomObjectView,
    show_custom_kind,
    show_custom_object,
)
from bcs_scheduler.core.interface.effects import Reason
from bcs_scheduler.core.interface.requests import DeleteCustomKind, DeleteCustomObject, PutCustomKind, PutCustomObject
from bcs_scheduler.wire.documents.extensions import CustomKindDocument, CustomObjectDocument
from store.ids import custom_key, object_key
from store.state.reader import StateReader

table = Table("custom resources")
OBJECTS = "/crd/namespaces/{ns}/{kind}"
OBJECT = f"{OBJECTS}/{{name}}"


# --- kinds ----------------------------------------------------------------------------------------------------


@table.write(
    "POST",
    "/crr/register",
    "Register a kind of custom resources; a repeated registration changes nothing",
    body=CustomKindDocument,
    reasons=(Reason.CONFLICT, Reason.INVALID),
    status=200,
)
async def register_kind(call: Call) -> Answer:
    record = read_custom_kind(call.body, call.problems)
    return await call.submit(PutCustomKind(custom_kind=record, dry_run=call.dry_run, cause=call.cause))


@table.read(
    "/crr",
    "List the registered kinds",
    query=(LIMIT, CONTINUE),
    answer=list[CustomKindView],
    reasons=(errors.BAD_PARAMETER,),
)
def list_kinds(call: Call) -> Answer:
    found = list(call.state().custom_kinds.values())
    return page(found, lambda record: (record.name,), call.query, show_custom_kind)


@table.read("/crr/{kind}", "Fetch a registered kind", answer=CustomKindView)
def get_kind(call: Call) -> Answer:
    record = call.state().custom_kinds.get(call.path["kind"])
    if record is None:
        raise not_found("kind", call.path["kind"])
    return Answer(show_custom_kind(record))


@table.write(
    "DELETE",
    "/crr/{kind}",
    "Delete a kind that has no objects",
    reasons=(Reason.NOT_FOUND, Reason.CONFLICT),
    status=200,
)
async def delete_kind(call: Call) -> Answer:
    return await call.submit(DeleteCustomKind(name=call.path["kind"], dry_run=call.dry_run, cause=call.cause))


# --- objects --------------------------------------------------------------------------------------------------


@table.write(
    "POST",
    OBJECTS,
    "Create or replace a custom resource",
    body=CustomObjectDocument,
    reasons=(Reason.NOT_FOUND, Reason.CONFLICT, Reason.INVALID),
    status=200,
)
@table.write(
    "PUT",
    OBJECTS,
    "Create or replace a custom resource",
    body=CustomObjectDocument,
    reasons=(Reason.NOT_FOUND, Reason.CONFLICT, Reason.INVALID),
    status=200,
)
async def put_object(call: Call) -> Answer:
    """Creates or replaces the object, for both methods, as in the original."""
    record = read_custom_object(call.body, call.path["kind"], call.path["ns"], problems=call.problems)
    command = PutCustomObject(
        custom_object=record, expected=known_version(call.body), dry_run=call.dry_run, cause=call.cause
    )
    return await call.submit(command)


@table.write("DELETE", OBJECT, "Delete a custom resource", reasons=(Reason.NOT_FOUND,), status=200)
async def delete_object(call: Call) -> Answer:
    command = DeleteCustomObject(
        type=call.path["kind"],
        namespace=call.path["ns"],
        name=call.path["name"],
        dry_run=call.dry_run,
        cause=call.cause,
    )
    return await call.submit(command)


@lists(
    table,
    OBJECTS,
    "/crd/{kind}",
    "custom resources of a kind",
    reasons=(Reason.NOT_FOUND, errors.BAD_PARAMETER),
    answer=list[CustomObjectView],
)
def list_objects(call: Call) -> Answered:
    kind = call.path["kind"]
    _check_registered(call.state(), kind)
    return listed(call, "customobject", show_custom_object, lambda custom: custom.type == kind)


@table.read(OBJECT, "Fetch a custom resource", answer=CustomObjectView)
def get_object(call: Call) -> Answer:
    state, kind, namespace, name = call.state(), call.path["kind"], call.path["ns"], call.path["name"]
    _check_registered(state, kind)
    record = state.custom_objects.get(custom_key(kind, namespace, name))
    if record is None:
        raise not_found(kind, object_key(namespace, name))
    return Answer(show_custom_object(record))


def _check_registered(state: StateReader, kind: str) -> None:
    """Raises ApiError (404): a misspelt kind is no empty list."""
    if kind not in state.custom_kinds:
        raise not_found("custom kind", kind)
