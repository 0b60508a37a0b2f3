"""Documents of kind PriorityClass: a name for a priority. The fields are those of Kubernetes."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from bcs_scheduler.wire.decoding import Document
from bcs_scheduler.wire.documents.application import API_VERSION
from bcs_scheduler.wire.documents.namespaces import NamespaceMetadata

LEAST, GREATEST = -(2**31), 1_000_000_000
"""Range of the value, as in Kubernetes, where greater values are for classes of the system."""


class PriorityClassDocument(Document, frozen=True, kw_only=True):
    """`apiVersion` may be that of Kubernetes. `value`: the greater, the more urgent. `globalDefault`: for new workloads
    without priority and class; one class at most has it. `preemptionPolicy` Never: no taskgroup is evicted for work of
    this class. `status` means nothing."""

    lenient: ClassVar[dict[str, str]] = API_VERSION

    api_version: Literal["v4", "scheduling.k8s.io/v1"] = "v4"
    kind: Literal["PriorityClass"]
    metadata: NamespaceMetadata
    value: Annotated[int, Meta(ge=LEAST, le=GREATEST)]
    global_default: bool = False
    preemption_policy: Literal["PreemptLowerPriority", "Never"] = "PreemptLowerPriority"
    description: Annotated[str, Meta(max_length=10_000)] = ""
    status: Any = None
