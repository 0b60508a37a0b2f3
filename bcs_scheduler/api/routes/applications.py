"""Applications: create, update, roll back, scale, delete, list, fetch."""

from __future__ import annotations

import msgspec

from bcs_scheduler.api import errors
from bcs_scheduler.api.documents.application import MAX_INSTANCES, ApplicationDocument
from bcs_scheduler.api.documents.convert import to_version
from bcs_scheduler.api.documents.engine import check_remote_variables, run_by_mesos
from bcs_scheduler.api.documents.validate import KINDS, POD, read_application
from bcs_scheduler.api.documents.walk import Document, Problems, decode
from bcs_scheduler.api.errors import invalid
from bcs_scheduler.api.lists import LISTING, find, listed, lists
from bcs_scheduler.api.operation import Answer, Answered, Call, Param, Table
from bcs_scheduler.api.views.applications import ApplicationView, show_application
from bcs_scheduler.api.views.explain import Explanation, explain_application
from bcs_scheduler.core.effects import Problem, Reason
from bcs_scheduler.core.events import (
    CreateApplication,
    DeleteApplication,
    RollbackApplication,
    ScaleApplication,
    UpdateApplication,
)
from store.records import Application
from store.state import State

table = Table("applications")
STATUSES = ("Staging", "Operating", "Deploying", "Running", "Abnormal", "Error", "Finish", "RollingUpdate")
STATUS = Param("status", "text", "Only those in this status.", choices=STATUSES)
INSTANCES = Param(
    "instances", "int", "How many taskgroups to bring to the new version; all if left out.", 1, MAX_INSTANCES
)
MAX_UNAVAILABLE = Param(
    "maxUnavailable", "int", "How many taskgroups may be down at once; overrides the document.", 1, MAX_INSTANCES
)
VERSION = Param("version", "text", "Id of the stored version; the one before the newest if left out.")
ARGS = Param("args", "text", "resource: change nothing but limits, in place.", choices=("resource",))
PODS = Param(
    "pods",
    "bool",
    "Whether to name the taskgroups of each application. Without `limit` they are named, as in the original; with "
    "`limit` they are not, unless this is true.",
)
KIND = Param("kind", "text", "Only those of this kind.", choices=("application", "process", "daemonset"))


class Accepted(msgspec.Struct, rename="camel"):
    """Handle of the operation that was started; what else the scheduler says about it is beside it."""

    transaction_id: str = msgspec.field(name="transactionID")


class RollbackRequest(Document, frozen=True, kw_only=True):
    name: str
    version: str = ""


def find_application(state: State, namespace: str, name: str) -> Application:
    """Raises ApiError (404)."""
    return find(state.applications, "application", namespace, name)


@lists(
    table,
    "/namespaces/{ns}/applications",
    "/applications",
    "applications",
    query=(*LISTING, STATUS, KIND, PODS),
    answer=list[ApplicationView],
)
def list_applications(call: Call) -> Answered:
    return list_of_kind(call, call.query.get("kind"))


def list_of_kind(call: Call, kind: str | None) -> Answered:
    """Of this kind, or of every one."""
    state, pods = call.state(), call.query.get("pods", "limit" not in call.query)

    def show(application: Application) -> ApplicationView:
        return show_application(state, application, pods=pods)

    return listed(call, "application", show, None if kind is None else lambda application: application.type == kind)


@table.read("/namespaces/{ns}/applications/{name}", "Fetch an application", answer=ApplicationView)
def get_application(call: Call) -> Answer:
    state = call.state()
    return Answer(show_application(state, find_application(state, call.path["ns"], call.path["name"])))


@table.read(
    "/namespaces/{ns}/applications/{name}/explain",
    "Say why an application is not as it should be",
    answer=Explanation,
)
def explain_one(call: Call) -> Answer:
    state = call.state()
    application = find_application(state, call.path["ns"], call.path["name"])
    return Answer(explain_application(state, application, call.gateway.diagnosis, call.gateway.now()))


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
    """From a document of one of the kinds."""
    document = _read(call, None, kinds, creating=True)
    return await call.submit(
        CreateApplication(version=to_version(document, 0), type=document.kind, dry_run=call.dry_run, cause=call.cause)
    )


def _read(call: Call, name: str | None, kinds: tuple[str, ...], *, creating: bool) -> ApplicationDocument:
    document = read_application(
        call.body,
        namespace=call.path["ns"],
        name=name,
        creating=creating,
        kinds=kinds,
        default_executor=call.settings.default_executor,
    )
    check_remote(call, document)
    return document


def check_remote(call: Call, document: ApplicationDocument) -> None:
    """Whether content is fetched is written in the configmap, not in the document. Raises ApiError (422)."""
    pod = document.spec.template.spec
    executor = pod.executor or document.executor
    if not run_by_mesos(pod, executor, call.settings.default_executor):
        return
    config_maps, namespace = call.state().config_maps, document.metadata.namespace

    def is_remote(name: str, key: str) -> bool:
        found = config_maps.get(f"{namespace}/{name}")
        return found is not None and key in found.items and found.items[key].type != "file"

    problems = Problems()
    check_remote_variables(pod, executor, is_remote, POD, problems)
    if problems:
        raise invalid(problems.listed())


@table.write(
    "PUT",
    "/namespaces/{ns}/applications",
    "Update an application to a new definition",
    query=(INSTANCES, MAX_UNAVAILABLE, ARGS),
    body=ApplicationDocument,
    answer=Accepted,
)
async def update_application(call: Call) -> Answer:
    return await update(call, None, KINDS)


@table.write(
    "PUT",
    "/namespaces/{ns}/applications/{name}",
    "Update an application to a new definition",
    query=(INSTANCES, MAX_UNAVAILABLE, ARGS),
    body=ApplicationDocument,
    answer=Accepted,
)
async def update_named_application(call: Call) -> Answer:
    return await update(call, call.path["name"], KINDS)


async def update(call: Call, name: str | None, kinds: tuple[str, ...]) -> Answer:
    """To a document of one of the kinds. `name` as in the path, if it is there."""
    document = _read(call, name, kinds, creating=False)
    stored = find_application(call.state(), document.metadata.namespace, document.metadata.name)
    if document.kind != stored.type:
        raise invalid([Problem("$.kind", f'is "{document.kind}", but {stored.key} is of kind "{stored.type}"')])
    return await call.submit(
        UpdateApplication(
            version=to_version(document, 0),
            instances=call.query.get("instances"),
            max_unavailable=call.query.get("maxUnavailable"),
            resources_only=call.query.get("args") == "resource",
            dry_run=call.dry_run,
            cause=call.cause,
        )
    )


@table.write(
    "PUT",
    "/namespaces/{ns}/applications/rollback",
    "Roll an application back to a stored version",
    query=(INSTANCES,),
    body=RollbackRequest,
    answer=Accepted,
)
async def rollback_application(call: Call) -> Answer:
    problems = Problems()
    request: RollbackRequest = decode(call.body, RollbackRequest, problems)
    if problems:
        raise invalid(problems.listed())
    return await _rollback(call, request.name, request.version)


@table.write(
    "PUT",
    "/namespaces/{ns}/applications/{name}/rollback",
    "Roll an application back to a stored version",
    query=(VERSION, INSTANCES),
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
            dry_run=call.dry_run,
            cause=call.cause,
        )
    )


@table.write("PUT", "/namespaces/{ns}/applications/{name}/scale/{instances}", "Scale an application", answer=Accepted)
async def scale_application(call: Call) -> Answer:
    return await call.submit(
        ScaleApplication(
            namespace=call.path["ns"],
            name=call.path["name"],
            instances=instances_of(call.path["instances"]),
            dry_run=call.dry_run,
            cause=call.cause,
        )
    )


def instances_of(text: str) -> int:
    """Proper whole numbers only (W13); leading zeros, signs and blanks are mistakes."""
    proper = text.isascii() and text.isdigit() and text[0] != "0" and len(text) <= 9
    if not proper or int(text) > MAX_INSTANCES:
        message = f"must be a whole number from 1 to {MAX_INSTANCES}, not {text[:40]!r}"
        raise errors.ApiError(
            errors.BAD_PARAMETER, f"the number of instances {message}", (Problem("/instances", message),)
        )
    return int(text)


@table.write(
    "DELETE",
    "/namespaces/{ns}/applications/{name}",
    "Delete an application",
    answer=Accepted,
    query=(Param("enforce", "bool", "1: forget taskgroups that do not end, e.g. on lost agents."),),
)
async def delete_application(call: Call) -> Answer:
    return await call.submit(
        DeleteApplication(
            namespace=call.path["ns"],
            name=call.path["name"],
            enforce=call.query.get("enforce", False),
            dry_run=call.dry_run,
            cause=call.cause,
        )
    )
