"""Reads documents of kind PodGroup."""

from __future__ import annotations

from bcs_scheduler.api.documents.parts import names
from bcs_scheduler.api.documents.validate import (
    check_identity,
    check_kind,
    check_metadata,
    check_reservation,
    with_namespace,
)
from bcs_scheduler.api.http.errors import invalid
from bcs_scheduler.core.requests.kinds.managed import MOST_MEMBERS
from bcs_scheduler.wire.decoding import decode
from bcs_scheduler.wire.documents.groups import PodGroupDocument
from bcs_scheduler.wire.problems import Problems, member
from store.records import PodGroup
from transactions.rules.gangs import PARAMETERS


def read_pod_group(raw: object, namespace: str, name: str | None, problems: Problems | None = None) -> PodGroup:
    """A record without times; `name` as in the path, if it is there. Raises ApiError (422)."""
    problems = Problems() if problems is None else problems
    check_kind(raw, ("PodGroup",), problems)
    document: PodGroupDocument = decode(with_namespace(raw, namespace), PodGroupDocument, problems)
    given, spec = document.metadata, document.spec
    check_identity(given, namespace, name, problems)
    check_metadata(given, problems)
    if not spec.min_member and not spec.min_task_member:
        problems.add("$.spec.minMember", "is required, or minTaskMember: the number of taskgroups that start together")
    for task in spec.min_task_member:
        names.check_name(task, member("$.spec.minTaskMember", task), problems)
    for field, value in (("queue", spec.queue), ("priorityClassName", spec.priority_class_name)):
        if value:
            names.check_name(value, member("$.spec", field), problems)
    _check_reservation(document, problems)
    if problems:
        raise invalid(problems.listed())
    return PodGroup(
        namespace=given.namespace,
        name=given.name,
        labels=given.labels,
        annotations=given.annotations,
        min_member=spec.min_member,
        min_task_member=spec.min_task_member,
        queue=spec.queue,
        priority_class=spec.priority_class_name,
    )


def _check_reservation(document: PodGroupDocument, problems: Problems) -> None:
    """A reservation launches placeholders for each member, so it needs the number of each member."""
    spec = document.spec
    if PARAMETERS not in document.metadata.annotations:
        return
    check_reservation(document.metadata, problems)
    reserved = sum(spec.min_task_member.values())
    if not spec.min_task_member:
        words = "is required for a reservation: the number of taskgroups of each member that start together"
        problems.add("$.spec.minTaskMember", words)
    elif spec.min_member > reserved:
        words = f"must be at most the sum of minTaskMember ({reserved}), for which room is reserved"
        problems.add("$.spec.minMember", words)
    if reserved > MOST_MEMBERS:
        words = f"has the sum {reserved}; a reservation has {MOST_MEMBERS} taskgroups at most"
        problems.add("$.spec.minTaskMember", words)
