"""Documents of kind PodGroup: applications whose taskgroups start together."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, field

from bcs_scheduler.wire.decoding import Document
from bcs_scheduler.wire.documents.application import API_VERSION, MAX_INSTANCES, KeptMetadata

BatchVersion = Literal[
    "v4",
    "scheduling.volcano.sh/v1beta1",
    "scheduling.incubator.k8s.io/v1alpha1",
    "scheduling.incubator.k8s.io/v1alpha2",
]
"""The values of `apiVersion` in documents that kube-batch and Volcano have, too."""

Least = Annotated[int, Meta(ge=0, le=MAX_INSTANCES)]


class PodGroupSpec(Document, frozen=True, kw_only=True):
    """`minMember`: taskgroups of all members that start together. `minTaskMember`: the same for single members, by the
    name of the deployment or application. `queue`: as the namespace says, if it is given. `priorityClassName`: for
    members that give no priority."""

    ignored: ClassVar[dict[str, str]] = {"minResources": "the requests of the taskgroups count"}

    min_member: Least = 0
    min_task_member: dict[str, Annotated[int, Meta(ge=1, le=MAX_INSTANCES)]] = field(default_factory=dict)
    queue: str = ""
    priority_class_name: str = ""


class PodGroupDocument(Document, frozen=True, kw_only=True):
    """`apiVersion` may be that of kube-batch and Volcano. `status` is part of answers, and means nothing here."""

    lenient: ClassVar[dict[str, str]] = API_VERSION

    api_version: BatchVersion = "v4"
    kind: Literal["PodGroup"]
    metadata: KeptMetadata
    spec: PodGroupSpec
    status: Any = None
