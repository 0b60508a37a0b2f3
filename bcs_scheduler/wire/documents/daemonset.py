"""The document of kind daemonset (docs/original.md#daemonset-documents): the head and template of an application,
without a number.

Fields of this project: `constraint` with tolerations, `unreachablePolicy`, `updatePolicy.maxUnavailable`.
`spec.instance` is accepted and ignored: every agent that the document admits runs one taskgroup.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from bcs_scheduler.wire.decoding import Document
from bcs_scheduler.wire.documents.application import (
    API_VERSION,
    MAX_INSTANCES,
    ConstraintDocument,
    KillPolicyDocument,
    Metadata,
    PodTemplate,
    RestartPolicyDocument,
    UnreachablePolicyDocument,
    UpdatePolicyDocument,
)
from bcs_scheduler.wire.documents.pod import CONSOLE, ExecutorName


class DaemonsetSpec(Document, frozen=True, kw_only=True):
    """`instance` is ignored: the agents decide."""

    ignored: ClassVar[dict[str, str]] = {
        **CONSOLE,
        "selector": "the constraint of a daemonset decides about its agents",
        "strategy": "a daemonset has updatePolicy.maxUnavailable",
    }

    instance: Annotated[int, Meta(ge=0, le=MAX_INSTANCES)] | None = None
    template: PodTemplate


class DaemonsetDocument(Document, frozen=True, kw_only=True):
    """`updatePolicy.maxUnavailable`: taskgroups an update may have down at once; 0 or left out: one."""

    ignored: ClassVar[dict[str, str]] = CONSOLE
    lenient: ClassVar[dict[str, str]] = API_VERSION

    api_version: Literal["v4"] = "v4"
    kind: Literal["daemonset"]
    metadata: Metadata
    restart_policy: RestartPolicyDocument = RestartPolicyDocument()
    kill_policy: KillPolicyDocument = KillPolicyDocument()
    unreachable_policy: UnreachablePolicyDocument = UnreachablePolicyDocument()
    update_policy: UpdatePolicyDocument = UpdatePolicyDocument()
    constraint: ConstraintDocument = ConstraintDocument()
    executor: ExecutorName = ""
    spec: DaemonsetSpec
