"""Daemonsets: create, update, roll back, restart, delete, list, fetch, and how each agent stands to one."""

from __future__ import annotations

from typing import Any, get_args

import msgspec

from bcs_scheduler.api.documents.daemonset import as_application, read_daemonset, to_daemonset, to_definition
from bcs_scheduler.api.documents.validate import named_in
from bcs_scheduler.api.http.errors import not_found
from bcs_scheduler.api.http.operation import CONTINUE, LIMIT, Answer, Answered, Call, Param, Table
from bcs_scheduler.api.reading.lists import LISTING, find, listed, lists
from bcs_scheduler.api.reading.query import page
from bcs_scheduler.api.reading.redaction import with_kept_passwords
from bcs_scheduler.api.routes.applications import DOCUMENTS, check_remote
from bcs_scheduler.api.routes.taskgroups import OF_OWNER
from bcs_scheduler.api.routes.taskgroups import listed as taskgroups_listed
from bcs_scheduler.api.views.daemonsets import DaemonsetAgent, DaemonsetView, show_agents_of, show_daemonset
from bcs_scheduler.api.views.explain import Explanation, explain_application
from bcs_scheduler.api.views.taskgroups import TaskGroupView
from bcs_scheduler.api.views.versions import definition_of
from bcs_scheduler.core.interface.effects import Reason
from bcs_scheduler.core.interface.requests import (
    CreateDaemonset,
    DeleteDaemonset,
    RestartDaemonset,
    RollbackDaemonset,
    UpdateDaemonset,
)
from bcs_scheduler.wire.documents.daemonset import DaemonsetDocument
from store.records import Daemonset
from store.records.workloads import DaemonsetStatus
from store.state.reader import StateReader

table = Table("daemonsets")
DAEMONSETS = "/namespaces/{ns}/daemonsets"
DAEMONSET = f"{DAEMONSETS}/{{name}}"
ORIGINAL = "/namespaces/{ns}/daemonset"
"""Path of daemonsets in the original's driver."""
STATUS = Param("status", "text", "Only objects in this status.", choices=get_args(DaemonsetStatus))
VERSION = Param("version", "text", "Id of the stored version. Default: the version before the newest one.")
ENFORCE = Param("enforce", "bool", "1: remove the records of taskgroups that do not end, for example on lost agents.")


class DaemonsetAccepted(msgspec.Struct, rename="camel"):
    """`transactionID` of the started transaction, if there is work to do at once; the daemonset shows the progress.
    `unchanged` instead: the daemonset already has this state."""

    namespace: str
    name: str
    transaction_id: str = msgspec.field(name="transactionID", default="")


def find_daemonset(state: StateReader, namespace: str, name: str) -> Daemonset:
    """Raises ApiError (404)."""
    return find(state.daemonsets, "daemonset", namespace, name)


def _found(call: Call) -> tuple[StateReader, Daemonset]:
    state = call.state()
    return state, find_daemonset(state, call.path["ns"], call.path["name"])


# --- reading ------------------------------------------------------------------------------------------------------


@lists(table, DAEMONSETS, "/daemonsets", "daemonsets", query=(*LISTING, STATUS, DOCUMENTS), answer=list[DaemonsetView])
def list_daemonsets(call: Call) -> Answered:
    state = call.state()
    documents = call.query.get("documents", False)
    return listed(call, Daemonset, lambda one: show_daemonset(state, one, call.diagnosis, document=documents))


@table.read(DAEMONSET, "Fetch a daemonset", query=(DOCUMENTS,), answer=DaemonsetView)
def get_daemonset(call: Call) -> Answer:
    documents = call.query.get("documents", False)
    return Answer(show_daemonset(*_found(call), call.diagnosis, document=documents))


@table.read(
    f"{DAEMONSET}/taskgroups",
    "List the taskgroups of a daemonset",
    query=OF_OWNER,
    answer=list[TaskGroupView],
)
def list_taskgroups_of_daemonset(call: Call) -> Answered:
    state, daemonset = _found(call)
    return taskgroups_listed(call, state, (daemonset.namespace, daemonset.name))


@table.read(
    f"{DAEMONSET}/agents",
    "List the agents with the state of a daemonset on each of them",
    query=(LIMIT, CONTINUE),
    answer=list[DaemonsetAgent],
)
def list_agents_of_daemonset(call: Call) -> Answer:
    state, daemonset = _found(call)
    found = show_agents_of(state, daemonset, call.gateway.agents())
    return page(found, lambda standing: (standing.hostname, standing.id), call.query, lambda standing: standing)


@table.read(f"{DAEMONSET}/explain", "Explain why a daemonset does not have its desired state", answer=Explanation)
def explain_daemonset(call: Call) -> Answer:
    state, daemonset = _found(call)
    application = state.applications.get(daemonset.key)
    if application is None:
        raise not_found("daemonset", daemonset.key)
    found = explain_application(state, application, call.diagnosis, call.gateway.now())
    first = f"daemonset is {daemonset.status}: {daemonset.message}"
    return Answer(
        msgspec.structs.replace(found, status=daemonset.status, message=daemonset.message, text=[first, *found.text])
    )


@table.read(
    "/definition/daemonset/{ns}/{name}",
    "Fetch the user's document of a daemonset, without passwords",
    answer=dict[str, Any],
)
def get_definition_of_daemonset(call: Call) -> Answer:
    state, daemonset = _found(call)
    application = state.applications.get(daemonset.key)
    document = definition_of(state, application) if application is not None else None
    if document is None:
        raise not_found("definition of daemonset", daemonset.key)
    return Answer(document)


# --- changing -----------------------------------------------------------------------------------------------------


def _read(call: Call, name: str | None, *, creating: bool) -> DaemonsetDocument:
    state, body = call.state(), call.body
    stored = state.applications.get(named_in(call.body, call.path["ns"], name)) if not creating else None
    version = state.version(stored.key, stored.version) if stored is not None else None
    document = read_daemonset(
        with_kept_passwords(body, version.raw) if version is not None else body,
        namespace=call.path["ns"],
        name=name,
        default_executor=call.settings.default_executor,
        problems=call.problems,
    )
    check_remote(call, as_application(document))
    return document


@table.write(
    "POST",
    DAEMONSETS,
    "Create a daemonset: one taskgroup on every agent that its definition accepts",
    body=DaemonsetDocument,
    answer=DaemonsetAccepted,
    reasons=(Reason.EXISTS, Reason.CONFLICT, Reason.INVALID),
)
@table.write(
    "POST",
    ORIGINAL,
    "Create a daemonset: one taskgroup on every agent that its definition accepts",
    body=DaemonsetDocument,
    answer=DaemonsetAccepted,
    reasons=(Reason.EXISTS, Reason.CONFLICT, Reason.INVALID),
)
async def create_daemonset(call: Call) -> Answer:
    document = _read(call, None, creating=True)
    return await call.submit(
        CreateDaemonset(
            daemonset=to_daemonset(document),
            version=to_definition(document),
            **call.submitter,
        )
    )


@table.write(
    "PUT",
    DAEMONSETS,
    "Update a daemonset to a new definition, within its disruption budget",
    body=DaemonsetDocument,
    answer=DaemonsetAccepted,
)
async def update_daemonset(call: Call) -> Answer:
    return await _update(call, None)


@table.write(
    "PUT",
    DAEMONSET,
    "Update a daemonset to a new definition, within its disruption budget",
    body=DaemonsetDocument,
    answer=DaemonsetAccepted,
)
async def update_named_daemonset(call: Call) -> Answer:
    return await _update(call, call.path["name"])


async def _update(call: Call, name: str | None) -> Answer:
    document = _read(call, name, creating=False)
    return await call.submit(UpdateDaemonset(daemonset=to_daemonset(document), version=to_definition(document)))


@table.write(
    "PUT",
    f"{DAEMONSET}/rollback",
    "Roll a daemonset back to a stored version, within its disruption budget",
    query=(VERSION,),
    answer=DaemonsetAccepted,
)
async def rollback_daemonset(call: Call) -> Answer:
    return await call.submit(
        RollbackDaemonset(namespace=call.path["ns"], name=call.path["name"], version=call.query.get("version") or None)
    )


@table.write(
    "PUT",
    f"{DAEMONSET}/restart",
    "Replace the taskgroups of a daemonset with the same definition, within its disruption budget",
    answer=DaemonsetAccepted,
)
async def restart_daemonset(call: Call) -> Answer:
    return await call.submit(RestartDaemonset(namespace=call.path["ns"], name=call.path["name"]))


@table.write("DELETE", DAEMONSET, "Delete a daemonset with its taskgroups", query=(ENFORCE,), answer=DaemonsetAccepted)
@table.write(
    "DELETE",
    f"{ORIGINAL}/{{name}}",
    "Delete a daemonset with its taskgroups",
    query=(ENFORCE,),
    answer=DaemonsetAccepted,
)
async def delete_daemonset(call: Call) -> Answer:
    return await call.submit(
        DeleteDaemonset(namespace=call.path["ns"], name=call.path["name"], enforce=call.query.get("enforce", False))
    )
