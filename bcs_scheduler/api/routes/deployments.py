"""Deployments: create or adopt, update in steps, steer the update, roll back, scale, delete, list, fetch, watch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import msgspec
from starlette.concurrency import run_in_threadpool

from bcs_scheduler.api.documents.convert import requests_left_out
from bcs_scheduler.api.documents.deployment import as_application, read_deployment, to_definition, to_deployment
from bcs_scheduler.api.documents.validate import Present, named_in
from bcs_scheduler.api.http import errors
from bcs_scheduler.api.http.errors import not_found
from bcs_scheduler.api.http.operation import CONTINUE, LIMIT, Answer, Answered, Call, Param, Table
from bcs_scheduler.api.reading.lists import LISTING, find, listed, lists
from bcs_scheduler.api.reading.query import page
from bcs_scheduler.api.reading.redaction import with_kept_passwords
from bcs_scheduler.api.routes.applications import ON_CONFLICT, check_remote, instances_of, on_conflict
from bcs_scheduler.api.routes.taskgroups import OF_OWNER
from bcs_scheduler.api.routes.taskgroups import listed as taskgroups_listed
from bcs_scheduler.api.streams.live import WATCHABLE, Live, fits_filters, in_order, watching
from bcs_scheduler.api.streams.streaming import WATCH_SECONDS, WATCHING, long_poll, shared
from bcs_scheduler.api.views.deployments import (
    DeploymentView,
    RevisionDetail,
    RevisionView,
    show_deployment,
    show_revision,
    show_revision_in_full,
)
from bcs_scheduler.api.views.taskgroups import TaskGroupView
from bcs_scheduler.api.views.versions import show_definition
from bcs_scheduler.core.interface.effects import Reason
from bcs_scheduler.core.interface.requests import (
    ControlDeployment,
    CreateDeployment,
    DeleteDeployment,
    Request,
    RollbackDeployment,
    ScaleDeployment,
    UpdateDeployment,
)
from bcs_scheduler.wire.documents.deployment import DeploymentDocument
from store.ids import object_key
from store.records import Deployment
from store.records.workloads import DeploymentStatus
from store.state.reader import StateReader

table = Table("deployments")
DEPLOYMENTS = "/namespaces/{ns}/deployments"
DEPLOYMENT = f"{DEPLOYMENTS}/{{name}}"
MAX_REVISION = 10**9
STATUS = Param("status", "text", "Only objects in this status.", choices=get_args(DeploymentStatus))
ARGS = Param("args", "text", "`resource`: change only resource limits, in place.", choices=("resource",))
REVISION = Param("revision", "int", "Number of the revision. Default: the previous revision.", 1, MAX_REVISION)


class DeploymentAccepted(msgspec.Struct, rename="camel"):
    """`transactionID`, `commandID` of the first started operation, if there is one; the deployment shows the progress.
    `unchanged` instead: the deployment already has this state."""

    namespace: str
    name: str
    revision: int = 0
    transaction_id: str = msgspec.field(name="transactionID", default="")
    command_id: str = msgspec.field(name="commandID", default="")
    superseded: list[str] | msgspec.UnsetType = msgspec.UNSET
    """Ids of the transactions that the request has superseded, oldest first."""
    queue_position: int | msgspec.UnsetType = msgspec.UNSET
    """Position in the queue of the object, from 1 on; of a request that waits only."""
    queued_behind: str | msgspec.UnsetType = msgspec.UNSET
    """Id of the transaction before a request that waits: of the request before, else of the running operation. A halted
    update has none."""


def find_deployment(state: StateReader, namespace: str, name: str) -> Deployment:
    """Raises ApiError (404)."""
    return find(state.deployments, "deployment", namespace, name)


# --- reading ------------------------------------------------------------------------------------------------------


LIVE = Live(
    "deployment",
    lambda gateway, state, key: state.deployments.get(key),
    lambda gateway, state, record: show_deployment(state, record, gateway.diagnosis, gateway.now()),
    in_order(Deployment),
    lambda state, record, filters: fits_filters(record, record.labels, filters),
)


@lists(
    table,
    DEPLOYMENTS,
    "/deployments",
    "deployments",
    query=(*LISTING, STATUS, *WATCHABLE),
    answer=list[DeploymentView],
    watcher=watching(LIVE),
)
def list_deployments(call: Call) -> Answered:
    state, at = call.state(), call.gateway.now()
    return listed(call, Deployment, lambda deployment: show_deployment(state, deployment, call.diagnosis, at))


@table.read(
    DEPLOYMENT,
    "Fetch a deployment, or watch it",
    query=WATCHING,
    answer=DeploymentView,
    reasons=(Reason.NOT_FOUND, errors.BAD_PARAMETER, errors.TOO_MANY_WATCHERS),
)
async def get_deployment(call: Call) -> Answer:
    """A watch sees every change of the record at once; changes of counts alone are seen within a second."""

    def present() -> Deployment:
        return find_deployment(call.state(), call.path["ns"], call.path["name"])

    def show(deployment: Deployment) -> DeploymentView:
        return show_deployment(call.state(), deployment, call.diagnosis, call.gateway.now())

    def news(view: DeploymentView) -> bool:
        return view.resource_version != call.query.get("resourceVersion")

    if not call.query.get("watch", False):
        return Answer(await run_in_threadpool(lambda: show(present())))
    key = object_key(call.path["ns"], call.path["name"])
    seconds = call.query.get("timeoutSeconds", WATCH_SECONDS)
    with shared(call, ("deployment", key), present, show, news) as look:
        view = await long_poll(call, look, news, seconds, "deployment", key)
    return Answer(view)


@table.read(
    f"{DEPLOYMENT}/taskgroups",
    "List the taskgroups of a deployment; during an update, of all its applications",
    query=OF_OWNER,
    answer=list[TaskGroupView],
    reasons=(Reason.NOT_FOUND, errors.BAD_PARAMETER),
)
def list_taskgroups_of_deployment(call: Call) -> Answered:
    state = call.state()
    deployment = find_deployment(state, call.path["ns"], call.path["name"])
    return taskgroups_listed(call, state, *((deployment.namespace, name) for name in deployment.sides))


@table.read(
    f"{DEPLOYMENT}/revisions",
    "List the stored revisions of a deployment, oldest first",
    query=(LIMIT, CONTINUE),
    answer=list[RevisionView],
)
def list_revisions(call: Call) -> Answer:
    state = call.state()
    deployment = find_deployment(state, call.path["ns"], call.path["name"])
    found = list(state.revisions_of(deployment.key).values())
    return page(found, lambda r: (r.number,), call.query, lambda r: show_revision(deployment, r))


@table.read(f"{DEPLOYMENT}/revisions/{{id}}", "Fetch a revision of a deployment", answer=RevisionDetail)
def get_revision(call: Call) -> Answer:
    state = call.state()
    deployment = find_deployment(state, call.path["ns"], call.path["name"])
    text = call.path["id"]
    proper = text.isascii() and text.isdigit() and len(text) <= len(str(MAX_REVISION))
    revision = state.revisions_of(deployment.key).get(int(text)) if proper else None
    if revision is None:
        raise not_found("revision", f"{text[:40]} of deployment {deployment.key}")
    return Answer(show_revision_in_full(deployment, revision))


@table.read(
    "/definition/deployment/{ns}/{name}",
    "Fetch the user's document of a deployment, with the present number of taskgroups, without passwords",
    answer=dict[str, Any],
)
def get_definition_of_deployment(call: Call) -> Answer:
    deployment = find_deployment(call.state(), call.path["ns"], call.path["name"])
    if not deployment.raw:
        raise not_found("definition of deployment", deployment.key)
    return Answer(show_definition(deployment.raw, deployment.instances))


# --- changing -----------------------------------------------------------------------------------------------------


async def _submit(call: Call, command: Request) -> Answer:
    """Status 202 for work in progress, 200 for a plan and for a state that is reached already."""
    reply = await call.reply(command)
    data = reply.data if isinstance(reply.data, dict) else {}
    return Answer(reply.data, status=200 if call.dry_run or data.get("unchanged") else 202)


@table.write(
    "POST",
    DEPLOYMENTS,
    "Create a deployment, or adopt an application as one",
    body=DeploymentDocument,
    answer=DeploymentAccepted,
    reasons=(Reason.EXISTS, Reason.CONFLICT, Reason.INVALID),
)
async def create_deployment(call: Call) -> Answer:
    document = read_deployment(
        call.body,
        namespace=call.path["ns"],
        default_executor=call.settings.default_executor,
        least=call.fewest_instances,
        problems=call.problems,
    )
    application = as_application(document)
    if application is not None:
        check_remote(call, application)
    return await _submit(
        call,
        CreateDeployment(
            deployment=to_deployment(document),
            version=to_definition(document),
            type="process" if application is not None and application.kind == "process" else "application",
            **call.submitter,
        ),
    )


@table.write(
    "PUT",
    DEPLOYMENTS,
    "Update a deployment to a new definition, strategy or number",
    query=(ARGS, ON_CONFLICT),
    body=DeploymentDocument,
    answer=DeploymentAccepted,
)
async def update_deployment(call: Call) -> Answer:
    return await _update(call, None)


@table.write(
    "PUT",
    DEPLOYMENT,
    "Update a deployment to a new definition, strategy or number",
    query=(ARGS, ON_CONFLICT),
    body=DeploymentDocument,
    answer=DeploymentAccepted,
)
async def update_named_deployment(call: Call) -> Answer:
    return await _update(call, call.path["name"])


async def _update(call: Call, name: str | None) -> Answer:
    """`name` as in the path, if it is there. The present numbers of the deployment are for checks only: where the
    document leaves its number out, the core fills in the one it has then."""
    state = call.state()
    stored = state.deployments.get(named_in(call.body, call.path["ns"], name))
    document = read_deployment(
        with_kept_passwords(call.body, stored.raw) if stored is not None else call.body,
        namespace=call.path["ns"],
        name=name,
        present=_present(state, stored) if stored is not None else Present(0),
        default_executor=call.settings.default_executor,
        least=call.fewest_instances,
        problems=call.problems,
    )
    find_deployment(call.state(), document.metadata.namespace, document.metadata.name)
    application, version = as_application(document), to_definition(document)
    assert application is not None and version is not None, "an update without a template was let through"
    check_remote(call, application)
    return await _submit(
        call,
        UpdateDeployment(
            deployment=to_deployment(document),
            version=version,
            size=document.spec.instance,
            resources_only=call.query.get("args") == "resource",
            requests_left_out=requests_left_out(application.spec.template.spec),
            on_conflict=on_conflict(call),
        ),
    )


def _present(state: StateReader, stored: Deployment) -> Present:
    revision, canary = state.revisions.get(stored.revision_key), stored.strategy.canary
    gang = revision.version.min_available if revision is not None else 0
    return Present(stored.instances, gang, canary.instances if canary is not None else 0)


@table.write(
    "PUT",
    f"{DEPLOYMENT}/scale/{{instances}}",
    "Scale a deployment",
    query=(ON_CONFLICT,),
    answer=DeploymentAccepted,
)
async def scale_deployment(call: Call) -> Answer:
    return await _submit(
        call,
        ScaleDeployment(
            namespace=call.path["ns"],
            name=call.path["name"],
            instances=instances_of(call.path["instances"]),
            on_conflict=on_conflict(call),
        ),
    )


@table.write(
    "PUT",
    f"{DEPLOYMENT}/rollback",
    "Roll a deployment back to a stored revision",
    query=(REVISION,),
    answer=DeploymentAccepted,
)
@table.write(
    "POST",
    f"{DEPLOYMENT}/rollback",
    "Roll a deployment back to a stored revision",
    query=(REVISION,),
    answer=DeploymentAccepted,
)
async def rollback_deployment(call: Call) -> Answer:
    return await _submit(
        call,
        RollbackDeployment(namespace=call.path["ns"], name=call.path["name"], revision=call.query.get("revision")),
    )


@table.write(
    "DELETE",
    DEPLOYMENT,
    "Delete a deployment with its applications",
    answer=DeploymentAccepted,
    query=(
        Param("enforce", "bool", "1: remove the records of taskgroups that do not end, for example on lost agents."),
    ),
)
async def delete_deployment(call: Call) -> Answer:
    return await _submit(
        call,
        DeleteDeployment(namespace=call.path["ns"], name=call.path["name"], enforce=call.query.get("enforce", False)),
    )


Action = Literal["pause", "resume", "cancel", "restart"]
ACTIONS: dict[str, tuple[Action, str]] = {
    "pauseupdate": ("pause", "Pause the update of a deployment after the current step"),
    "resumeupdate": ("resume", "Resume an update that is paused or suspended"),
    "cancelupdate": ("cancel", "Cancel an update: roll back to the revision before the update"),
    "restart": ("restart", "Replace the taskgroups of a deployment in steps, with the same definition"),
}
"""Actions and summaries by the last part of the path. The original takes POST at one level and PUT at the other
(docs/original.md#verbs); so both are taken."""


def _control(action: Action) -> Callable[[Call], Any]:
    async def control(call: Call) -> Answer:
        return await _submit(
            call,
            ControlDeployment(namespace=call.path["ns"], name=call.path["name"], action=action),
        )

    control.__name__ = f"{action}_deployment"
    return control


for word, (action, summary) in ACTIONS.items():
    handler = _control(action)
    for method in ("PUT", "POST"):
        table.write(method, f"{DEPLOYMENT}/{word}", summary, answer=DeploymentAccepted)(handler)
