"""Custom resources in the form of Kubernetes, under the paths at which the original passes requests on to a Kubernetes
(docs/api.md#clients-of-the-original). Kinds and objects are those of `/crr` and `/crd`: a definition is the
registration of its kind, and group and plural are in its document.

Answers are objects and lists of Kubernetes, without an envelope. Refusals have the envelope.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bcs_scheduler.api.documents.validate import known_version
from bcs_scheduler.api.http import errors
from bcs_scheduler.api.http.errors import not_found
from bcs_scheduler.api.http.operation import Call, Plain, Table
from bcs_scheduler.api.objects.custom import read_custom_object, read_definition, show_custom_object
from bcs_scheduler.core.interface.effects import Reason
from bcs_scheduler.core.interface.requests import DeleteCustomKind, DeleteCustomObject, PutCustomKind, PutCustomObject
from bcs_scheduler.wire.documents.extensions import CustomObjectDocument, DefinitionDocument
from bcs_scheduler.wire.times import rfc3339
from store.ids import custom_key, object_key
from store.records import CustomKind, CustomObject
from store.state.reader import StateReader

table = Table("custom resources")
DEFINITIONS = "/customresourcedefinitions"
DEFINITION = f"{DEFINITIONS}/{{definition}}"
EVERYWHERE = "/customresources/{group}/{version}/{plural}"
OBJECTS = "/customresources/{group}/{version}/namespaces/{ns}/{plural}"
OBJECT = f"{OBJECTS}/{{name}}"
_DEFINITION = "CustomResourceDefinition"
_WRITES: errors.Reasons = (Reason.NOT_FOUND, Reason.EXISTS, Reason.CONFLICT, Reason.INVALID)
_encoder = msgspec.json.Encoder()


def _plain(value: Any, status: int = 200) -> Plain:
    return Plain(_encoder.encode(value), status=status)


def _deleted(name: str) -> Plain:
    return _plain({"kind": "Status", "apiVersion": "v1", "status": "Success", "details": {"name": name}})


# --- definitions ----------------------------------------------------------------------------------------------------


@table.read(DEFINITIONS, "List the definitions of custom resources", answer=dict[str, Any], reasons=(), enveloped=False)
def list_resource_definitions(call: Call) -> Plain:
    found = [_show_definition(record) for _, record in sorted(_definitions(call.state()).items())]
    return _plain({"apiVersion": "v4", "kind": f"{_DEFINITION}List", "metadata": {}, "items": found})


@table.read(DEFINITION, "Fetch a definition of custom resources", answer=dict[str, Any], enveloped=False)
def get_resource_definition(call: Call) -> Plain:
    return _plain(_show_definition(_definition(call.state(), call.path["definition"])))


@table.write(
    "POST",
    DEFINITIONS,
    "Define custom resources",
    body=DefinitionDocument,
    reasons=_WRITES,
    status=201,
    enveloped=False,
)
async def create_resource_definition(call: Call) -> Plain:
    return await _put_definition(call, None)


@table.write(
    "PUT", DEFINITION, "Replace a definition", body=DefinitionDocument, reasons=_WRITES, status=200, enveloped=False
)
async def replace_resource_definition(call: Call) -> Plain:
    return await _put_definition(call, call.path["definition"])


async def _put_definition(call: Call, name: str | None) -> Plain:
    """`name`: of the path; None: the definition is new."""
    record = read_definition(call.body, name, call.problems)
    if name is not None and _definition(call.state(), name).name != record.name:
        raise not_found("custom resource definition", f"{name} of kind {record.name}")
    await call.reply(PutCustomKind(custom_kind=record, create=name is None))
    stored = call.state().custom_kinds.get(record.name, record)
    return _plain(_show_definition(record if call.dry_run else stored), 201 if name is None else 200)


@table.write(
    "DELETE",
    DEFINITION,
    "Delete a definition that has no objects",
    reasons=(Reason.NOT_FOUND, Reason.CONFLICT),
    status=200,
    enveloped=False,
)
async def delete_resource_definition(call: Call) -> Plain:
    record = _definition(call.state(), call.path["definition"])
    await call.reply(DeleteCustomKind(name=record.name))
    return _deleted(call.path["definition"])


def _definitions(state: StateReader) -> dict[str, CustomKind]:
    """The kinds that are defined with a group, by the names of their definitions."""
    found = ((_given(record), record) for record in list(state.custom_kinds.values()))
    return {given["metadata"]["name"]: record for given, record in found if given["spec"].get("group")}


def _definition(state: StateReader, name: str) -> CustomKind:
    record = _definitions(state).get(name)
    if record is None:
        raise not_found("custom resource definition", name)
    return record


def _given(record: CustomKind) -> dict[str, Any]:
    given: dict[str, Any] = msgspec.json.decode(record.raw)
    return given


def _show_definition(record: CustomKind) -> dict[str, Any]:
    given = _given(record)
    metadata = {**given["metadata"], "creationTimestamp": rfc3339(record.created_at)}
    return {"apiVersion": "v4", "kind": _DEFINITION, "metadata": metadata, "spec": given["spec"]}


# --- objects --------------------------------------------------------------------------------------------------------


@table.read(EVERYWHERE, "List custom resources of all namespaces", answer=dict[str, Any], enveloped=False)
@table.read(OBJECTS, "List custom resources of a namespace", answer=dict[str, Any], enveloped=False)
def list_custom_resources(call: Call) -> Plain:
    state = call.state()
    kind = _kind(state, call)
    prefix = (call.path["ns"],) if "ns" in call.path else ()
    found = [_show(call, record) for _, record in state.in_order(CustomObject, prefix) if record.type == kind.name]
    return _plain({"apiVersion": _version(call), "kind": f"{kind.name}List", "metadata": {}, "items": found})


@table.read(OBJECT, "Fetch a custom resource", answer=dict[str, Any], enveloped=False)
def get_custom_resource(call: Call) -> Plain:
    return _plain(_show(call, _find(call.state(), call, _kind(call.state(), call).name)))


@table.write(
    "POST", OBJECTS, "Create a custom resource", body=CustomObjectDocument, reasons=_WRITES, status=201, enveloped=False
)
async def create_custom_resource(call: Call) -> Plain:
    return await _put(call, None)


@table.write(
    "PUT", OBJECT, "Replace a custom resource", body=CustomObjectDocument, reasons=_WRITES, status=200, enveloped=False
)
async def replace_custom_resource(call: Call) -> Plain:
    return await _put(call, call.path["name"])


async def _put(call: Call, name: str | None) -> Plain:
    """`name`: of the path; None: the object is new."""
    kind = _kind(call.state(), call).name
    record = read_custom_object(call.body, kind, call.path["ns"], name, problems=call.problems)
    request = PutCustomObject(custom_object=record, create=name is None, expected=known_version(call.body))
    await call.reply(request)
    stored = record if call.dry_run else call.state().custom_objects.get(record.key, record)
    return _plain(_show(call, stored), 201 if name is None else 200)


@table.write(
    "DELETE",
    OBJECT,
    "Delete a custom resource",
    reasons=(Reason.NOT_FOUND,),
    status=200,
    enveloped=False,
)
async def delete_custom_resource(call: Call) -> Plain:
    record = _find(call.state(), call, _kind(call.state(), call).name)
    request = DeleteCustomObject(type=record.type, namespace=record.namespace, name=record.name)
    await call.reply(request)
    return _deleted(record.name)


def _version(call: Call) -> str:
    return f"{call.path['group']}/{call.path['version']}"


def _kind(state: StateReader, call: Call) -> CustomKind:
    """The kind of the plural in the path. Raises ApiError (404)."""
    name = f"{call.path['plural']}.{call.path['group']}"
    for record in list(state.custom_kinds.values()):
        spec = _given(record)["spec"]
        if spec.get("group") != call.path["group"] or spec["names"].get("plural") != call.path["plural"]:
            continue
        if call.path["version"] in [one.get("name") for one in spec.get("versions", ())] + [spec.get("version")]:
            return record
        raise not_found("version", f"{call.path['version']} of {name}")
    raise not_found("custom resource definition", name)


def _find(state: StateReader, call: Call, kind: str) -> CustomObject:
    namespace, name = call.path["ns"], call.path["name"]
    record = state.custom_objects.get(custom_key(kind, namespace, name))
    if record is None:
        raise not_found(kind, object_key(namespace, name))
    return record


def _show(call: Call, record: CustomObject) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(show_custom_object(record))
    made = {**shown, "apiVersion": _version(call)}
    return made if made["status"] is not None else {name: made[name] for name in made if name != "status"}
