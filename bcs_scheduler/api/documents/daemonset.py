"""The document of kind daemonset (docs/original.md#daemonset-documents): the head and template of an application,
without a number.

Ours: `constraint` with tolerations, `unreachablePolicy`, `updatePolicy.maxUnavailable` are honoured. `spec.instance` is
accepted and has no effect: there is one taskgroup on every agent that the document admits.
"""

from __future__ import annotations

import msgspec

from bcs_scheduler.api.documents.addresses import refuse_addresses
from bcs_scheduler.api.documents.convert import to_version
from bcs_scheduler.api.documents.validate import check_application, check_identity, check_kind, with_namespace
from bcs_scheduler.api.http.errors import invalid
from bcs_scheduler.wire.decoding import decode
from bcs_scheduler.wire.documents.application import (
    ApplicationDocument,
    ApplicationSpec,
)
from bcs_scheduler.wire.documents.daemonset import DaemonsetDocument
from bcs_scheduler.wire.problems import Problems
from store.records import Daemonset, Version

KINDS = ("daemonset",)
DEFAULT_BOUND = 1
"""The most taskgroups that an update takes down at once, if the document names no number."""


def read_daemonset(
    raw: object,
    *,
    namespace: str,
    name: str | None = None,
    default_executor: str = "bcs",
    problems: Problems | None = None,
) -> DaemonsetDocument:
    """The checked document. An empty namespace is filled from the path; a different one (or name) is a problem
    (docs/original.md#path-and-body).

    Raises ApiError (422) with all problems.
    """
    problems = Problems() if problems is None else problems
    check_kind(raw, KINDS, problems)
    document: DaemonsetDocument = decode(with_namespace(raw, namespace), DaemonsetDocument, problems)
    check_identity(document.metadata, namespace, name, problems)
    application = as_application(document)
    refuse_addresses(application, problems)
    check_application(application, default_executor, problems)
    if problems:
        raise invalid(problems.listed())
    return document


def as_application(document: DaemonsetDocument) -> ApplicationDocument:
    """Converts the definition of the daemonset into an application of the same name."""
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
    """The version that the daemonset runs, with the user's document: a rollback returns to a version."""
    return msgspec.structs.replace(to_version(as_application(document), 1), raw=msgspec.json.encode(document).decode())
