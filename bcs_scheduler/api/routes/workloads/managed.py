"""Managed applications: list, fetch. Only their managers change them."""

from __future__ import annotations

from bcs_scheduler.api.http.operation import CONTINUE, LIMIT, Answer, Answered, Call, Table
from bcs_scheduler.api.reading.lists import find, lists, namespace_of
from bcs_scheduler.api.reading.query import page_or_all
from bcs_scheduler.api.views.workloads.managed import (
    ManagedApplicationDetail,
    ManagedApplicationView,
    show_managed,
    show_managed_detail,
)
from store.records import ManagedApplication

table = Table("managed applications")
OF_NAMESPACE = "/namespaces/{ns}/managedapplications"


@lists(
    table,
    OF_NAMESPACE,
    "/managedapplications",
    "managed applications",
    query=(LIMIT, CONTINUE),
    answer=list[ManagedApplicationView],
)
def list_managed_applications(call: Call) -> Answered:
    state, namespace = call.state(), namespace_of(call)
    prefix = () if namespace is None else (namespace,)
    return page_or_all(
        lambda after: state.in_order(ManagedApplication.kind, prefix, after),
        call.query,
        lambda record: show_managed(state, record),
    )


@table.read(
    f"{OF_NAMESPACE}/{{name}}",
    "Fetch a managed application with its tasks and placeholders",
    answer=ManagedApplicationDetail,
)
def get_managed_application(call: Call) -> Answer:
    state = call.state()
    found = find(state.managed_applications, "managed application", call.path["ns"], call.path["name"])
    return Answer(show_managed_detail(state, found))
