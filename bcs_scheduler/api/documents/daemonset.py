"""The document of kind daemonset (bcs_api 6.14): the head and template of an application, without a number.

Ours: `constraint` with tolerations, `unreachablePolicy`, `updatePolicy.maxUnavailable` are honoured. `spec.instance` is
accepted and says nothing: there is one taskgroup on every agent that the document admits.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from bcs_scheduler.api.documents.application import (
    MAX_INSTANCES,
    ApplicationDocument,
    ApplicationSpec,
    ConstraintDocument,
    KillPolicyDocument,
    Metadata,
    PodTemplate,
    RestartPolicyDocument,
    UnreachablePolicyDocument,
    UpdatePolicyDocument,
)
from bcs_scheduler.api.documents.convert import to_version
from bcs_scheduler.api.documents.pod import ExecutorName
from bcs_scheduler.api.documents.validate import check_application, check_identity, check_kind, with_namespace
from bcs_scheduler.api.documents.walk import Document, Problems, decode
from bcs_scheduler.api.errors import invalid
from store.records import Daemonset, Version

KINDS = ("daemonset",)
DEFAULT_BOUND = 1
"""Taskgroups an update takes down at once where the document does not say."""


class DaemonsetSpec(Document, frozen=True, kw_only=True):
    """`instance` is ignored: the agents decide."""

    refused: ClassVar[dict[str, str]] = {
        "selector": "has no meaning for a daemonset; constraint decides which agents it is for",
        "strategy": "belongs to deployments; a daemonset has updatePolicy.maxUnavailable",
    }

    instance: Annotated[int, Meta(ge=0, le=MAX_INSTANCES)] | None = None
    template: PodTemplate


class DaemonsetDocument(Document, frozen=True, kw_only=True):
    """`updatePolicy.maxUnavailable`: taskgroups an update may have down at once; 0 or left out: one."""

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


def read_daemonset(
    raw: object, *, namespace: str, name: str | None = None, default_executor: str = "bcs"
) -> DaemonsetDocument:
    """The checked document. An empty namespace is filled from the path; a different one (or name) is a problem (W8).

    Raises ApiError (422) with all problems.
    """
    problems = Problems()
    check_kind(raw, KINDS, problems)
    document: DaemonsetDocument = decode(with_namespace(raw, namespace), DaemonsetDocument, problems)
    check_identity(document.metadata, namespace, name, problems)
    check_application(as_application(document), default_executor, problems)
    if problems:
        raise invalid(problems.listed())
    return document


def as_application(document: DaemonsetDocument) -> ApplicationDocument:
    """What it runs on each agent, as an application of its name."""
    template = document.spec.template
    return ApplicationDocument(
        kind="process" if template.spec.processes and not template.spec.containers else "application",
        metadata=document.metadata,
        restart_policy=document.restart_policy,
        kill_policy=document.kill_policy,
        unreachable_policy=document.unreachable_policy,
        constraint=document.constraint,
        executor=document.executor,
        spec=ApplicationSpec(template=template),
    )


def to_daemonset(document: DaemonsetDocument) -> Daemonset:
    return Daemonset(
        namespace=document.metadata.namespace,
        name=document.metadata.name,
        labels=document.metadata.labels,
        annotations=document.metadata.annotations,
        max_unavailable=document.update_policy.max_unavailable or DEFAULT_BOUND,
    )


def to_definition(document: DaemonsetDocument) -> Version:
    """What runs, with the user's document: a version is what is rolled back to."""
    return msgspec.structs.replace(to_version(as_application(document), 1), raw=msgspec.json.encode(document).decode())
