"""Documents of kind namespace: settings and quota of a namespace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, field

from bcs_scheduler.api.documents import names
from bcs_scheduler.api.documents.quantities import QuantityError, Written, cores, memory, storage
from bcs_scheduler.api.documents.validate import check_kind
from bcs_scheduler.api.documents.walk import Document, Problems, decode, member
from bcs_scheduler.api.errors import invalid
from store.records import Namespace, Quota


class NamespaceMetadata(Document, frozen=True, kw_only=True):
    """`namespace` may repeat the name, which is how tools that fill it in everywhere work. Times and version as in
    KeptMetadata."""

    name: str
    namespace: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    creation_timestamp: str = ""
    update_timestamp: str = ""
    resource_version: Annotated[str, Meta(max_length=100)] = ""


class QuotaDocument(Document, frozen=True, kw_only=True):
    """Bounds of what all workloads want together; what is left out is not bounded."""

    aliases: ClassVar[dict[str, str]] = {"cpu": "cpus", "memory": "mem", "storage": "disk"}

    cpus: str | int | float | None = None
    mem: str | int | float | None = None
    disk: str | int | float | None = None
    taskgroups: Annotated[int, Meta(ge=0, le=1_000_000_000)] | None = None


class NamespaceSpec(Document, frozen=True, kw_only=True):
    quota: QuotaDocument = QuotaDocument()


class NamespaceDocument(Document, frozen=True, kw_only=True):
    """`status` is what reads show, and means nothing here."""

    api_version: Literal["v4"] = "v4"
    kind: Literal["namespace"]
    metadata: NamespaceMetadata
    spec: NamespaceSpec = NamespaceSpec()
    status: Any = None


def read_namespace(raw: object, name: str | None = None) -> Namespace:
    """A record without times; `name` as in the path, if it is there. Raises ApiError (422)."""
    problems = Problems()
    check_kind(raw, ("namespace",), problems)
    document: NamespaceDocument = decode(raw, NamespaceDocument, problems)
    metadata, quota = document.metadata, document.spec.quota
    names.check_namespace(metadata.name, "$.metadata.name", problems)
    if name is not None and metadata.name != name:
        problems.add("$.metadata.name", f'is "{metadata.name}", but the path says "{name}"')
    if metadata.namespace not in ("", metadata.name):
        problems.add("$.metadata.namespace", f'is "{metadata.namespace}"; a namespace is in none')
    names.check_labels(metadata.labels, "$.metadata.labels", problems)
    names.check_labels(metadata.annotations, "$.metadata.annotations", problems)
    bounds = Quota(
        cpus=_bound(quota.cpus, "cpus", cores, problems),
        mem=_bound(quota.mem, "mem", memory, problems),
        disk=_bound(quota.disk, "disk", storage, problems),
        taskgroups=quota.taskgroups,
    )
    if problems:
        raise invalid(problems.listed())
    return Namespace(name=metadata.name, labels=metadata.labels, annotations=metadata.annotations, quota=bounds)


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
