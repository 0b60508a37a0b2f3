"""Custom resources (docs/original.md#custom-resources): registered kinds, and objects of them, which are kept and
given back as they are.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from bcs_scheduler.api.documents.validate import check_head, known_version, with_namespace
from bcs_scheduler.api.http import errors
from bcs_scheduler.api.http.errors import invalid, not_found
from bcs_scheduler.api.http.operation import CONTINUE, LIMIT, Answer, Answered, Call, Table
from bcs_scheduler.api.objects.webhooks import TARGETS
from bcs_scheduler.api.reading.lists import listed, lists
from bcs_scheduler.api.reading.query import page
from bcs_scheduler.api.views.base import KeptMeta, show_meta
from bcs_scheduler.core.interface.effects import Reason
from bcs_scheduler.core.interface.requests import DeleteCustomKind, DeleteCustomObject, PutCustomKind, PutCustomObject
from bcs_scheduler.wire.decoding import decode
from bcs_scheduler.wire.documents.extensions import (
    CustomKindDocument,
    CustomObjectDocument,
    DefinitionDocument,
)
from bcs_scheduler.wire.problems import Problems
from bcs_scheduler.wire.times import rfc3339
from store.ids import custom_key, object_key
from store.records import CustomKind, CustomObject
from store.state.reader import StateReader

BUILT_IN = frozenset(
    (
        *TARGETS, "processes", "secret", "namespace", "queue", "priorityclass", "admissionwebhook", "webhook",
        "command", "message",
        "taskgroup", "task", "transaction", "version", "endpoint", "event", "agent", "agentsetting",
        "extendedresource", "offer", "cluster",
        "server", "definition", "kind", "customkind", "crr", "crd", "watch", "all",
        "pod", "po", "node", "no",
        "app", "dep", "deploy", "ds", "tg", "tx", "ag", "cm", "svc", "ep", "ns", "cmd", "ev", "msg",
        "pc", "priorityclasses", "pg", "podgroup", "managed", "managedapplication",
    )
)  # fmt: skip
"""Words with a meaning, so no custom kind may have one of them as name (in any case, or with an s): kinds, parts of
paths, and the names of kinds in `bcs`."""
_CUSTOM_KIND = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,62}\Z")


def read_custom_kind(raw: object, problems: Problems | None = None) -> CustomKind:
    """A record without time. Raises ApiError (422)."""
    problems = Problems() if problems is None else problems
    document: CustomKindDocument = decode(raw, CustomKindDocument, problems)
    return _custom_kind(document, problems)


def read_definition(raw: object, name: str | None = None, problems: Problems | None = None) -> CustomKind:
    """A record without time, from a definition in the form of Kubernetes. `name`: of the path, if it has one. Raises
    ApiError (422)."""
    problems = Problems() if problems is None else problems
    document: DefinitionDocument = decode(raw, DefinitionDocument, problems)
    spec = document.spec
    given, expected = document.metadata.get("name"), f"{spec.names.plural}.{spec.group}"
    if not problems and given != expected:
        problems.add("$.metadata.name", f'must be "{expected}": plural and group of the definition')
    elif name is not None and given != name:
        problems.add("$.metadata.name", f'is "{given}", but the path says "{name}"')
    if not spec.version and not any(isinstance(one.get("name"), str) and one["name"] for one in spec.versions):
        problems.add("$.spec.versions", "must name a version")
    return _custom_kind(document, problems)


def _custom_kind(document: CustomKindDocument | DefinitionDocument, problems: Problems) -> CustomKind:
    """Raises ApiError (422)."""
    name = document.spec.names.kind
    if not _CUSTOM_KIND.match(name):
        problems.add("$.spec.names.kind", "must be letters, digits and '-', start with a letter, at most 63 long")
    elif {name.lower(), name.lower().removesuffix("s")} & BUILT_IN:
        problems.add("$.spec.names.kind", f"{name} is reserved")
    if problems:
        raise invalid(problems.listed())
    return CustomKind(name=name, raw=msgspec.json.encode(document).decode())


def read_custom_object(
    raw: object, kind: str, namespace: str, name: str | None = None, problems: Problems | None = None
) -> CustomObject:
    """A record without times; its document must be of the `kind` of the path. Raises ApiError (422)."""
    problems = Problems() if problems is None else problems
    if isinstance(raw, dict):
        raw = with_namespace(raw, namespace)
    document: CustomObjectDocument = decode(raw, CustomObjectDocument, problems)
    if document.kind != kind:
        problems.add("$.kind", f"is {document.kind[:80]!r}, but the path says {kind!r}")
    check_head(document.metadata, namespace, name, problems)
    if problems:
        raise invalid(problems.listed())
    given = document.metadata
    body = {"apiVersion": document.api_version, "spec": document.spec, "status": document.status}
    return CustomObject(
        type=kind,
        namespace=given.namespace,
        name=given.name,
        labels=given.labels,
        annotations=given.annotations,
        raw=msgspec.json.encode(body).decode(),
    )


class CustomKindView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A kind in the form in which it was registered."""

    api_version: str
    kind: str
    metadata: dict[str, Any]
    spec: dict[str, Any]
    creation_timestamp: str


class CustomObjectView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    api_version: str
    kind: str
    metadata: KeptMeta
    spec: Any
    status: Any


def show_custom_kind(record: CustomKind) -> CustomKindView:
    given = msgspec.json.decode(record.raw)
    return CustomKindView(
        api_version=given.get("apiVersion", "v4"),
        kind=given.get("kind", ""),
        metadata=given.get("metadata", {}),
        spec=given.get("spec", {}),
        creation_timestamp=rfc3339(record.created_at),
    )


def show_custom_object(record: CustomObject) -> CustomObjectView:
    given = msgspec.json.decode(record.raw)
    return CustomObjectView(
        api_version=given.get("apiVersion", "v4"),
        kind=record.type,
        metadata=show_meta(record),
        spec=given.get("spec"),
        status=given.get("status"),
    )


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
    return await call.submit(PutCustomKind(custom_kind=record))


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
    return await call.submit(DeleteCustomKind(name=call.path["kind"]))


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
    command = PutCustomObject(custom_object=record, expected=known_version(call.body))
    return await call.submit(command)


@table.write("DELETE", OBJECT, "Delete a custom resource", reasons=(Reason.NOT_FOUND,), status=200)
async def delete_object(call: Call) -> Answer:
    command = DeleteCustomObject(type=call.path["kind"], namespace=call.path["ns"], name=call.path["name"])
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
    return listed(call, CustomObject, show_custom_object, lambda custom: custom.type == kind)


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
