"""Reads documents of kind PodGroup."""

from __future__ import annotations

from bcs_scheduler.api.documents.parts import names
from bcs_scheduler.api.documents.validate import check_identity, check_kind, check_metadata, with_namespace
from bcs_scheduler.api.http.errors import invalid
from bcs_scheduler.wire.decoding import decode
from bcs_scheduler.wire.documents.policy.groups import PodGroupDocument
from bcs_scheduler.wire.problems import Problems, member
from store.records import PodGroup


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
