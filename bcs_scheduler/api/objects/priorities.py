"""Priority classes: names for priorities, which documents of workloads use."""

from __future__ import annotations

import msgspec

from bcs_scheduler.api.documents import names
from bcs_scheduler.api.documents.validate import check_kind
from bcs_scheduler.api.http import errors
from bcs_scheduler.api.http.errors import invalid, not_found
from bcs_scheduler.api.http.operation import CONTINUE, LABEL_SELECTOR, LIMIT, Answer, Call, Table
from bcs_scheduler.api.objects.changes import changes
from bcs_scheduler.api.objects.namespaces import NamespaceMeta
from bcs_scheduler.api.reading.query import page, parse_selector, selected
from bcs_scheduler.core.interface.requests import DeletePriorityClass, PutPriorityClass
from bcs_scheduler.core.requests.concurrency import version_of
from bcs_scheduler.wire.decoding import decode
from bcs_scheduler.wire.documents.priorities import PriorityClassDocument
from bcs_scheduler.wire.problems import Problems
from bcs_scheduler.wire.times import rfc3339
from store.records import PriorityClass

RESERVED = "system-"
"""Prefix of the names that Kubernetes keeps for its own classes."""


def read_priority_class(raw: object, name: str | None = None, problems: Problems | None = None) -> PriorityClass:
    """A record without times; `name` as in the path, if it is there. Raises ApiError (422)."""
    problems = Problems() if problems is None else problems
    check_kind(raw, ("PriorityClass",), problems)
    document: PriorityClassDocument = decode(raw, PriorityClassDocument, problems)
    metadata = document.metadata
    names.check_name(metadata.name, "$.metadata.name", problems)
    if metadata.name.startswith(RESERVED):
        problems.add("$.metadata.name", f'must not begin with "{RESERVED}": such names are reserved')
    if name is not None and metadata.name != name:
        problems.add("$.metadata.name", f'is "{metadata.name}", but the path says "{name}"')
    if metadata.namespace not in ("", metadata.name):
        problems.add("$.metadata.namespace", f'is "{metadata.namespace}"; a priority class is in no namespace')
    names.check_labels(metadata.labels, "$.metadata.labels", problems)
    names.check_labels(metadata.annotations, "$.metadata.annotations", problems, selected=False)
    if problems:
        raise invalid(problems.listed())
    return PriorityClass(
        name=metadata.name,
        labels=metadata.labels,
        annotations=metadata.annotations,
        value=document.value,
        global_default=document.global_default,
        preemption_policy=document.preemption_policy,
        description=document.description,
    )


class PriorityClassView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`value`: the greater, the more urgent."""

    api_version: str = "v4"
    kind: str = "PriorityClass"
    metadata: NamespaceMeta
    value: int
    global_default: bool
    preemption_policy: str
    description: str


def show_priority_class(record: PriorityClass) -> PriorityClassView:
    return PriorityClassView(
        metadata=NamespaceMeta(
            name=record.name,
            creation_timestamp=rfc3339(record.created_at),
            update_timestamp=rfc3339(record.updated_at),
            resource_version=version_of(record),
            labels=record.labels,
            annotations=record.annotations,
        ),
        value=record.value,
        global_default=record.global_default,
        preemption_policy=record.preemption_policy,
        description=record.description,
    )


table = Table("priority classes")
REPLACE = "Replace a priority class; value and preemption policy stay"


@table.read(
    "/priorityclasses",
    "List the priority classes",
    query=(LIMIT, CONTINUE, LABEL_SELECTOR),
    answer=list[PriorityClassView],
    reasons=(errors.BAD_PARAMETER,),
)
def list_priority_classes(call: Call) -> Answer:
    requirements = parse_selector(call.query.get("labelSelector", ""))
    found = [one for one in list(call.state().priority_classes.values()) if selected(one.labels, requirements)]
    return page(found, lambda one: (one.name,), call.query, show_priority_class)


@table.read("/priorityclasses/{name}", "Fetch a priority class", answer=PriorityClassView)
def get_priority_class(call: Call) -> Answer:
    record = call.state().priority_classes.get(call.path["name"])
    if record is None:
        raise not_found("priority class", call.path["name"])
    return Answer(show_priority_class(record))


changes(
    table,
    "priority_class",
    PriorityClassDocument,
    put=lambda call, create: PutPriorityClass(
        priority_class=read_priority_class(call.body, call.path.get("name"), call.problems)
    ),
    remove=lambda call: DeletePriorityClass(name=call.path["name"]),
    create={"/priorityclasses": "Create a priority class"},
    replace={"/priorityclasses": REPLACE},
    replace_named={"/priorityclasses/{name}": REPLACE},
    delete={"/priorityclasses/{name}": "Delete a priority class; work that uses the class keeps its priority"},
)
