"""Reads documents of kind PriorityClass."""

from __future__ import annotations

from bcs_scheduler.api.documents.parts import names
from bcs_scheduler.api.documents.validate import check_kind
from bcs_scheduler.api.http.errors import invalid
from bcs_scheduler.wire.decoding import decode
from bcs_scheduler.wire.documents.priorities import PriorityClassDocument
from bcs_scheduler.wire.problems import Problems
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
