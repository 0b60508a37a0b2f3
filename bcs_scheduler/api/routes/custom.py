"""Custom resources: registered kinds, and objects of them, which are kept and given back as they are."""

from __future__ import annotations

from bcs_scheduler.api import errors
from bcs_scheduler.api.documents.extensions import (
    CustomKindDocument,
    CustomObjectDocument,
    read_custom_kind,
    read_custom_object,
)
from bcs_scheduler.api.documents.validate import known_version
from bcs_scheduler.api.errors import not_found
from bcs_scheduler.api.lists import listed, lists
from bcs_scheduler.api.operation import CONTINUE, LIMIT, Answer, Answered, Call, Table
from bcs_scheduler.api.query import page
from bcs_scheduler.api.views.extensions import CustomKindView, CustomObjectView, show_custom_kind, show_custom_object
from bcs_scheduler.core.effects import Reason
from bcs_scheduler.core.orders import DeleteCustomKind, DeleteCustomObject, PutCustomKind, PutCustomObject
from store.state import State

table = Table("custom resources")
OBJECTS = "/crd/namespaces/{ns}/{kind}"
OBJECT = f"{OBJECTS}/{{name}}"


# --- kinds ----------------------------------------------------------------------------------------------------


@table.write(
    "POST",
    "/crr/register",
    "Register a kind of custom resources; again, it changes nothing",
    body=CustomKindDocument,
    reasons=(Reason.CONFLICT, Reason.INVALID),
    status=200,
)
async def register_kind(call: Call) -> Answer:
    record = read_custom_kind(call.body)
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
    "Remove a kind of which there are no objects",
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
    """Both upsert, as the original's do."""
    record = read_custom_object(call.body, call.path["kind"], call.path["ns"])
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
    state, kind, key = call.state(), call.path["kind"], f"{call.path['ns']}/{call.path['name']}"
    _check_registered(state, kind)
    record = state.custom_objects.get(f"{kind}/{key}")
    if record is None:
        raise not_found(kind, key)
    return Answer(show_custom_object(record))


def _check_registered(state: State, kind: str) -> None:
    """Raises ApiError (404): a misspelt kind is no empty list."""
    if kind not in state.custom_kinds:
        raise not_found("custom kind", kind)
