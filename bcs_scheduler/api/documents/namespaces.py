"""Documents of kind namespace: settings, quota and queue of a namespace."""

from __future__ import annotations

from collections.abc import Callable

from bcs_scheduler.api.documents.parts import names
from bcs_scheduler.api.documents.validate import check_kind
from bcs_scheduler.api.http.errors import invalid
from bcs_scheduler.wire.decoding import decode
from bcs_scheduler.wire.documents.namespaces import NamespaceDocument
from bcs_scheduler.wire.problems import Problems, element, member
from bcs_scheduler.wire.quantities import QuantityError, Written, cores, memory, storage
from store.records import DEFAULT_QUEUE, Namespace, Quota


def read_namespace(raw: object, name: str | None = None, problems: Problems | None = None) -> Namespace:
    """A record without times; `name` as in the path, if it is there. Raises ApiError (422)."""
    problems = Problems() if problems is None else problems
    check_kind(raw, ("namespace",), problems)
    document: NamespaceDocument = decode(raw, NamespaceDocument, problems)
    metadata, quota = document.metadata, document.spec.quota
    names.check_namespace(metadata.name, "$.metadata.name", problems)
    if name is not None and metadata.name != name:
        problems.add("$.metadata.name", f'is "{metadata.name}", but the path says "{name}"')
    if metadata.namespace not in ("", metadata.name):
        problems.add("$.metadata.namespace", f'is "{metadata.namespace}"; a namespace is in none')
    names.check_labels(metadata.labels, "$.metadata.labels", problems)
    names.check_labels(metadata.annotations, "$.metadata.annotations", problems, selected=False)
    queue = document.spec.queue
    for part in queue.split("."):  # a queue of the tree may be named by its full name
        names.check_name(part, "$.spec.queue", problems)
    for number, name in enumerate(document.spec.priority_classes):
        names.check_name(name, element("$.spec.priorityClasses", number), problems)
    bounds = Quota(
        cpus=_bound(quota.cpus, "cpus", cores, problems),
        mem=_bound(quota.mem, "mem", memory, problems),
        disk=_bound(quota.disk, "disk", storage, problems),
        taskgroups=quota.taskgroups,
        objects=quota.objects,
        object_storage=_bound(quota.object_storage, "objectStorage", storage, problems),
    )
    if problems:
        raise invalid(problems.listed())
    return Namespace(
        name=metadata.name,
        labels=metadata.labels,
        annotations=metadata.annotations,
        quota=bounds,
        queue="" if queue == DEFAULT_QUEUE else queue,
        max_priority=document.spec.max_priority,
        priority_classes=tuple(dict.fromkeys(document.spec.priority_classes)),
    )


MOST = 10**9
"""Cores or MB: a sum over many agents, so the bounds of one do not hold."""


def _bound(written: Written | None, name: str, read: Callable[[Written, int], int], problems: Problems) -> int | None:
    if written is None:
        return None
    try:
        return read(written, MOST)
    except QuantityError as error:
        problems.add(member("$.spec.quota", name), str(error))
        return None
