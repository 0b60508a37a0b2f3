"""Applications: create, update, roll back, scale, delete, list, fetch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args

import msgspec

from bcs_scheduler.api.documents.convert import requests_left_out, to_version
from bcs_scheduler.api.documents.engine import check_remote_variables, run_by_mesos
from bcs_scheduler.api.documents.validate import KINDS, POD, Present, named_in, read_application
from bcs_scheduler.api.http import errors
from bcs_scheduler.api.http.errors import invalid, not_found
from bcs_scheduler.api.http.operation import Answer, Answered, Call, Param, Table
from bcs_scheduler.api.reading.lists import LISTING, find, listed, lists
from bcs_scheduler.api.reading.redaction import with_kept_passwords
from bcs_scheduler.api.streams.live import WATCHABLE, Live, fits_filters, in_order, watching
from bcs_scheduler.api.views.applications import ApplicationView, show_application
from bcs_scheduler.api.views.explain import Explanation, explain_application
from bcs_scheduler.api.views.whatif import WhatIf, show_what_if
from bcs_scheduler.core.interface.effects import Problem, Reason
from bcs_scheduler.core.interface.requests import (
    AskWhatIf,
    CreateApplication,
    DeleteApplication,
    RollbackApplication,
    ScaleApplication,
    UpdateApplication,
)
from bcs_scheduler.wire.decoding import Document, decode
from bcs_scheduler.wire.documents.application import MAX_INSTANCES, ApplicationDocument
from bcs_scheduler.wire.problems import Problems
from store.ids import object_key
from store.records import Application
from store.state.reader import StateReader
from transactions.conflicts import OnConflict

table = Table("applications")
STATUSES = (
    "Staging",
    "Operating",
    "Deploying",
    "Running",
    "Abnormal",
    "Error",
    "Finish",
    "RollingUpdate",
    "Pending",
    "Stopped",
)
STATUS = Param("status", "text", "Only objects in this status.", choices=STATUSES)
INSTANCES = Param(
    "instances", "int", "Number of taskgroups to update to the new version. Default: all.", 1, MAX_INSTANCES
)
MAX_UNAVAILABLE = Param(
    "maxUnavailable",
    "int",
    "Number of taskgroups that may be unavailable at a time; overrides the document.",
    1,
    MAX_INSTANCES,
)
VERSION = Param("version", "text", "Id of the stored version. Default: the version before the newest one.")
ON_CONFLICT = Param(
    "onConflict",
    "text",
    "Effect on an operation in progress on the object. `supersede` (default): the running operation ends, "
    "and the new one begins. `queue`: the request waits until the running operation has ended; the answer has the id "
    "of its transaction. `fail`: the request is refused.",
    choices=get_args(OnConflict),
)
ARGS = Param("args", "text", "`resource`: change only resource limits, in place.", choices=("resource",))
PODS = Param(
    "pods",
    "bool",
    "Whether each application lists the ids of its taskgroups. Default: true without `limit`, as in the original; "
    "false with `limit`.",
)
DOCUMENTS = Param("documents", "bool", "Whether each object has its document, as of `/definition`.")
CHANGES = Param("changes", "bool", "False: only the estimate `when`, without a search for changes.")
KIND = Param("kind", "text", "Only objects of this kind.", choices=("application", "process", "daemonset"))


class Accepted(msgspec.Struct, rename="camel"):
    """The operation that was started, or that waits."""

    transaction_id: str = msgspec.field(name="transactionID")
    superseded: list[str] | msgspec.UnsetType = msgspec.UNSET
    """Ids of the transactions that the request has superseded, oldest first."""
    queue_position: int | msgspec.UnsetType = msgspec.UNSET
    """Position in the queue of the object, from 1 on; of a request that waits only."""
    queued_behind: str | msgspec.UnsetType = msgspec.UNSET
    """Id of the transaction before a request that waits: of the request before, else of the running operation."""


class RollbackRequest(Document, frozen=True, kw_only=True):
    name: str
    version: str = ""


def _fits(state: StateReader, record: Application, filters: Mapping[str, Any]) -> bool:
    return filters.get("kind") in (None, record.type) and fits_filters(record, record.labels, filters)


LIVE = Live(
    "application",
    lambda gateway, state, key: state.applications.get(key),
    lambda gateway, state, record: show_application(state, record, gateway.diagnosis, pods=False),
    in_order(Application),
    _fits,
)


def on_conflict(call: Call) -> OnConflict:
    """The rule of the request for an operation that works on the object already."""
    found: OnConflict = call.query.get("onConflict", "supersede")
    return found


def find_application(state: StateReader, namespace: str, name: str) -> Application:
    """Raises ApiError (404)."""
    return find(state.applications, "application", namespace, name)


@lists(
    table,
    "/namespaces/{ns}/applications",
    "/applications",
    "applications",
    query=(*LISTING, STATUS, KIND, PODS, DOCUMENTS, *WATCHABLE),
    answer=list[ApplicationView],
    watcher=watching(LIVE),
)
def list_applications(call: Call) -> Answered:
    return list_of_kind(call, call.query.get("kind"))


def list_of_kind(call: Call, kind: str | None) -> Answered:
    """Lists the applications of this kind; None = of every kind."""
    state, pods = call.state(), call.query.get("pods", "limit" not in call.query)

    documents = call.query.get("documents", False)

    def show(application: Application) -> ApplicationView:
        return show_application(state, application, call.diagnosis, pods=pods, document=documents)

    return listed(call, Application, show, None if kind is None else lambda application: application.type == kind)


@table.read("/namespaces/{ns}/applications/{name}", "Fetch an application", query=(DOCUMENTS,), answer=ApplicationView)
def get_application(call: Call) -> Answer:
    state = call.state()
    application = find_application(state, call.path["ns"], call.path["name"])
    documents = call.query.get("documents", False)
    return Answer(show_application(state, application, call.diagnosis, document=documents))


@table.read(
    "/namespaces/{ns}/applications/{name}/explain",
    "Explain why an application does not have its desired state",
    answer=Explanation,
)
def explain_one(call: Call) -> Answer:
    state = call.state()
    application = find_application(state, call.path["ns"], call.path["name"])
    return Answer(explain_application(state, application, call.diagnosis, call.gateway.now()))


@table.read(
    "/namespaces/{ns}/applications/{name}/whatif",
    "Find the smallest sets of changes that would give the open taskgroups places",
    query=(CHANGES,),
    answer=WhatIf,
    reasons=(Reason.NOT_FOUND, Reason.UNAVAILABLE, errors.UNKNOWN_OUTCOME, errors.NOT_LEADING),
    leader=True,
)
async def ask_what_if(call: Call) -> Answer:
    find_application(call.state(), call.path["ns"], call.path["name"])
    changes = call.query.get("changes", True)
    asked = AskWhatIf(namespace=call.path["ns"], name=call.path["name"], changes=changes)
    reply = await call.reply(asked)
    return Answer(show_what_if(reply.data))


@table.write(
    "POST",
    "/namespaces/{ns}/applications",
    "Create an application, of containers or of processes",
    body=ApplicationDocument,
    answer=Accepted,
    reasons=(Reason.EXISTS, Reason.INVALID),
)
async def create_application(call: Call) -> Answer:
    return await create(call, KINDS)


async def create(call: Call, kinds: tuple[str, ...]) -> Answer:
    """Creates an application from a document of one of the kinds."""
    document = _read(call, None, kinds, creating=True)
    return await call.submit(
        CreateApplication(
            version=to_version(document, 0),
            type=document.kind,
            **call.submitter,
        )
    )


def _read(call: Call, name: str | None, kinds: tuple[str, ...], *, creating: bool) -> ApplicationDocument:
    body, present = call.body, None
    if not creating:
        state = call.state()
        stored = state.applications.get(named_in(body, call.path["ns"], name))
        version = state.version(stored.key, stored.version) if stored is not None else None
        if stored is not None and version is not None:
            present, body = Present(stored.instances, version.min_available), with_kept_passwords(body, version.raw)
    document = read_application(
        body,
        namespace=call.path["ns"],
        name=name,
        creating=creating,
        present=present,
        kinds=kinds,
        default_executor=call.settings.default_executor,
        least=call.fewest_instances if creating else 0,
        problems=call.problems,
    )
    check_remote(call, document)
    return document


def check_remote(call: Call, document: ApplicationDocument) -> None:
    """Refuses remote variables that the executor of the definition cannot fetch. The configmap determines whether its
    content is fetched, so the document alone is not enough. Raises ApiError (422)."""
    pod = document.spec.template.spec
    executor = pod.executor or document.executor
    if not run_by_mesos(pod, executor, call.settings.default_executor):
        return
    config_maps, namespace = call.state().config_maps, document.metadata.namespace

    def is_remote(name: str, key: str) -> bool:
        found = config_maps.get(object_key(namespace, name))
        return found is not None and key in found.items and found.items[key].type != "file"

    problems = Problems()
    check_remote_variables(pod, executor, is_remote, POD, problems)
    if problems:
        raise invalid(problems.listed())


@table.write(
    "PUT",
    "/namespaces/{ns}/applications",
    "Update an application to a new definition",
    query=(INSTANCES, MAX_UNAVAILABLE, ARGS, ON_CONFLICT),
    body=ApplicationDocument,
    answer=Accepted,
)
async def update_application(call: Call) -> Answer:
    return await update(call, None, KINDS)


@table.write(
    "PUT",
    "/namespaces/{ns}/applications/{name}",
    "Update an application to a new definition",
    query=(INSTANCES, MAX_UNAVAILABLE, ARGS, ON_CONFLICT),
    body=ApplicationDocument,
    answer=Accepted,
)
async def update_named_application(call: Call) -> Answer:
    return await update(call, call.path["name"], KINDS)


async def update(call: Call, name: str | None, kinds: tuple[str, ...]) -> Answer:
    """Updates an application to a document of one of the kinds. `name` is the name in the path; None if the path has
    none."""
    document = _read(call, name, kinds, creating=False)
    stored = find_application(call.state(), document.metadata.namespace, document.metadata.name)
    if document.kind != stored.type:
        raise invalid([Problem("$.kind", f'is "{document.kind}", but {stored.key} is of kind "{stored.type}"')])
    if call.original:
        document = _with_stored_number(call, document, stored)
    return await call.submit(
        UpdateApplication(
            version=to_version(document, 0),
            size=document.spec.instance,
            instances=call.query.get("instances"),
            max_unavailable=call.query.get("maxUnavailable"),
            resources_only=call.query.get("args") == "resource",
            requests_left_out=requests_left_out(document.spec.template.spec),
            on_conflict=on_conflict(call),
        )
    )


def _with_stored_number(call: Call, document: ApplicationDocument, stored: Application) -> ApplicationDocument:
    """Sets the stored number of taskgroups: an update of the original never changes the number, for any value in its
    document. Raises ApiError (422)."""
    given = document.spec.instance
    if given is None or given == stored.instances:
        return document
    words = f"is {given}, but an update keeps the number of taskgroups ({stored.instances})"
    call.problems.warn("$.spec.instance", words, "scale changes it")
    if call.problems:
        raise invalid(call.problems.listed())
    return msgspec.structs.replace(document, spec=msgspec.structs.replace(document.spec, instance=None))


@table.write(
    "PUT",
    "/namespaces/{ns}/applications/rollback",
    "Roll an application back: to the document in the body, or to a stored version, `{name, version}`",
    query=(INSTANCES, ON_CONFLICT),
    body=ApplicationDocument,
    answer=Accepted,
)
async def rollback_application(call: Call) -> Answer:
    return await rollback(call, KINDS)


async def rollback(call: Call, kinds: tuple[str, ...]) -> Answer:
    """Rolls back to a document of one of the kinds, as in the original, or to a stored version. The number of
    taskgroups stays."""
    if isinstance(call.body, dict) and any(key.lower() == "spec" for key in call.body):
        return await update(replace(call, original=True), None, kinds)
    problems = call.problems
    request: RollbackRequest = decode(call.body, RollbackRequest, problems)
    if problems:
        raise invalid(problems.listed())
    if find_application(call.state(), call.path["ns"], request.name).type not in (*kinds, "daemonset"):
        raise not_found(kinds[0], object_key(call.path["ns"], request.name))
    return await _rollback(call, request.name, request.version)


@table.write(
    "PUT",
    "/namespaces/{ns}/applications/{name}/rollback",
    "Roll an application back to a stored version",
    query=(VERSION, INSTANCES, ON_CONFLICT),
    answer=Accepted,
)
async def rollback_named_application(call: Call) -> Answer:
    return await _rollback(call, call.path["name"], call.query.get("version", ""))


async def _rollback(call: Call, name: str, version: str) -> Answer:
    return await call.submit(
        RollbackApplication(
            namespace=call.path["ns"],
            name=name,
            version=version or None,
            instances=call.query.get("instances"),
            on_conflict=on_conflict(call),
        )
    )


@table.write(
    "PUT",
    "/namespaces/{ns}/applications/{name}/scale/{instances}",
    "Scale an application",
    query=(ON_CONFLICT,),
    answer=Accepted,
)
async def scale_application(call: Call) -> Answer:
    return await call.submit(
        ScaleApplication(
            namespace=call.path["ns"],
            name=call.path["name"],
            instances=instances_of(call.path["instances"]),
            on_conflict=on_conflict(call),
        )
    )


def instances_of(text: str) -> int:
    """Proper whole numbers only (docs/original.md#whole-numbers); leading zeros, signs and blanks are mistakes."""
    proper = text.isascii() and text.isdigit() and len(text) <= 9 and str(int(text)) == text
    if not proper or int(text) > MAX_INSTANCES:
        message = f"must be a whole number from 0 to {MAX_INSTANCES}, not {text[:40]!r}"
        raise errors.ApiError(
            errors.BAD_PARAMETER, f"the number of instances {message}", (Problem("/instances", message),)
        )
    return int(text)


@table.write(
    "DELETE",
    "/namespaces/{ns}/applications/{name}",
    "Delete an application",
    answer=Accepted,
    query=(
        Param("enforce", "bool", "1: remove the records of taskgroups that do not end, for example on lost agents."),
    ),
)
async def delete_application(call: Call) -> Answer:
    return await call.submit(
        DeleteApplication(namespace=call.path["ns"], name=call.path["name"], enforce=call.query.get("enforce", False))
    )
