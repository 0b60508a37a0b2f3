"""Stored versions of applications, and the user's own document."""

from __future__ import annotations

from typing import Any

from bcs_scheduler.api.http.errors import ApiError, not_found
from bcs_scheduler.api.http.operation import CONTINUE, LIMIT, Answer, Answered, Call, Table
from bcs_scheduler.api.reading.lists import listed, lists
from bcs_scheduler.api.reading.query import page
from bcs_scheduler.api.routes.applications import find_application
from bcs_scheduler.api.views.demands import DemandView, show_demand
from bcs_scheduler.api.views.versions import VersionView, definition_of, show_version
from bcs_scheduler.core.interface.effects import Reason
from store.records import Application

table = Table("versions")
VERSIONS = "/namespaces/{ns}/applications/{name}/versions"


@table.read(
    VERSIONS,
    "List the ids of an application's stored versions, oldest first",
    query=(LIMIT, CONTINUE),
    answer=list[str],
)
def list_versions(call: Call) -> Answer:
    state = call.state()
    application = find_application(state, call.path["ns"], call.path["name"])
    return page(list(state.versions_of(application.key)), lambda name: (name,), call.query, lambda name: name)


@table.read(f"{VERSIONS}/{{id}}", "Fetch a stored version", answer=VersionView)
def get_version(call: Call) -> Answer:
    state = call.state()
    application = find_application(state, call.path["ns"], call.path["name"])
    version = state.version(application.key, call.path["id"])
    if version is None:
        raise not_found("version", f"{call.path['id']} of application {application.key}")
    return Answer(show_version(version))


@table.read(
    "/definition/application/{ns}/{name}",
    "Fetch the user's document of the newest version, with the present number of taskgroups, without passwords",
    answer=dict[str, Any],
)
def get_definition(call: Call) -> Answer:
    state = call.state()
    application = find_application(state, call.path["ns"], call.path["name"])
    document = definition_of(state, application)
    if document is None and application.deployment:
        owner = f"deployment {application.deployment_key}"
        raise ApiError(Reason.NOT_FOUND, f"application {application.key} has no document of its own: see {owner}")
    if document is None:
        raise not_found("definition of application", application.key)
    return Answer(document)


@lists(table, "/namespaces/{ns}/demands", "/demands", "demands of applications", answer=list[DemandView])
def list_demands(call: Call) -> Answered:
    state = call.state()
    return listed(call, Application, lambda one: show_demand(one, state.version(one.key, one.version)))
