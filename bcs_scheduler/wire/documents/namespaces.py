"""Documents of kind namespace: settings, quota and queue of a namespace."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, field

from bcs_scheduler.wire.decoding import Document
from bcs_scheduler.wire.documents.application import API_VERSION

DEFAULT_QUEUE = "default"
"""As `store.records.DEFAULT_QUEUE`, without the records."""
MaxPriority = Annotated[int, Meta(ge=0, le=1_000_000_000)]
"""A greatest priority. Work without a priority has 0 and is always possible."""


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
    """Upper bounds of the requests of all workloads together; an omitted resource is not bounded. `objects`: number of
    workloads, configmaps, secrets, services, groups and custom objects; `objectStorage`: MB of the texts of those that
    are no workloads."""

    aliases: ClassVar[dict[str, str]] = {"cpu": "cpus", "memory": "mem", "storage": "disk"}

    cpus: str | int | float | None = None
    mem: str | int | float | None = None
    disk: str | int | float | None = None
    taskgroups: Annotated[int, Meta(ge=0, le=1_000_000_000)] | None = None
    objects: Annotated[int, Meta(ge=0, le=1_000_000_000)] | None = None
    object_storage: str | int | float | None = None


class NamespaceSpec(Document, frozen=True, kw_only=True):
    """`queue`: name of the queue that the work of the namespace belongs to with the policy `session`. `maxPriority`:
    greatest priority of new work; left out: that of the queue, else of the settings. `priorityClasses`: classes that
    the namespace may use although their priority is greater."""

    quota: QuotaDocument = QuotaDocument()
    queue: str = DEFAULT_QUEUE
    max_priority: MaxPriority | None = None
    priority_classes: Annotated[list[str], Meta(max_length=100)] = field(default_factory=list)


class NamespaceDocument(Document, frozen=True, kw_only=True):
    """`status` is part of answers and has no effect in a request."""

    lenient: ClassVar[dict[str, str]] = API_VERSION

    api_version: Literal["v4"] = "v4"
    kind: Literal["namespace"]
    metadata: NamespaceMetadata
    spec: NamespaceSpec = NamespaceSpec()
    status: Any = None
