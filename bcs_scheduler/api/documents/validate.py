"""From the body of a request to a Version: shape, meaning, and everything that is wrong, all at once."""

from __future__ import annotations

from typing import Any

from bcs_scheduler.api.documents import names
from bcs_scheduler.api.documents.application import LATER, ApplicationDocument
from bcs_scheduler.api.documents.constraints import check_constraint
from bcs_scheduler.api.documents.containers import check_containers
from bcs_scheduler.api.documents.walk import Problems, decode, member
from bcs_scheduler.api.errors import invalid

KINDS_LATER = ("process", "deployment", "daemonset", "service", "configmap", "secret", "admissionwebhook", "Command")


def read_application(raw: object, *, namespace: str, name: str | None = None, creating: bool) -> ApplicationDocument:
    """The checked document. An empty namespace is filled from the path; a different one (or name) is a problem (W8).

    Raises ApiError (422) with all problems.
    """
    problems = Problems()
    _check_kind(raw, problems)
    if problems:
        raise invalid(problems.listed())
    document: ApplicationDocument = decode(_with_namespace(raw, namespace), ApplicationDocument, problems)
    _check_identity(document, namespace, name, problems)
    if creating and document.spec.instance is None:
        problems.add("$.spec.instance", "is required: how many taskgroups the application has")
    check_application(document, problems)
    if problems:
        raise invalid(problems.listed())
    return document


def check_application(document: ApplicationDocument, problems: Problems) -> None:
    """Everything about the meaning of a document that its shape cannot say."""
    names.check_name(document.metadata.name, "$.metadata.name", problems)
    names.check_namespace(document.metadata.namespace, "$.metadata.namespace", problems)
    template = document.spec.template
    for path, metadata in (("$.metadata", document.metadata), ("$.spec.template.metadata", template.metadata)):
        names.check_labels(metadata.labels, member(path, "labels"), problems)
        names.check_labels(metadata.annotations, member(path, "annotations"), problems)
    check_constraint(document.constraint, "$.constraint", problems)
    pod = template.spec
    _check_network(pod.network_mode, pod.network_type, "$.spec.template.spec", problems)
    _check_role(pod.role, "$.spec.template.spec.role", problems)
    check_containers(pod, "$.spec.template.spec.containers", problems)


def _check_kind(raw: object, problems: Problems) -> None:
    """Another kind has other fields: say that it is the wrong kind instead of listing them all as unknown."""
    if not isinstance(raw, dict):
        problems.add("$", "must be a document: an object with kind, metadata and spec")
        return
    kind = raw.get("kind")
    if kind in KINDS_LATER:
        problems.add("$.kind", f'"{kind}" {LATER}; this route takes "application"')
    elif isinstance(kind, str) and kind and kind != "application":
        problems.add("$.kind", 'must be "application" on this route', kind, ["application"])


def _with_namespace(raw: Any, namespace: str) -> Any:
    """The document with the namespace of the path where it has none (W34: before everything else)."""
    metadata = raw.get("metadata")
    if not isinstance(metadata, dict) or metadata.get("namespace"):
        return raw
    return {**raw, "metadata": {**metadata, "namespace": namespace}}


def _check_identity(document: ApplicationDocument, namespace: str, name: str | None, problems: Problems) -> None:
    given = document.metadata
    if given.namespace and given.namespace != namespace:
        problems.add("$.metadata.namespace", f'is "{given.namespace}", but the path says "{namespace}"')
    if name is not None and given.name != name:
        problems.add("$.metadata.name", f'is "{given.name}", but the path says "{name}"')


def _check_network(mode: str, kind: str, path: str, problems: Problems) -> None:
    if mode.upper() not in ("", "HOST", "NONE"):
        problems.add(member(path, "networkMode"), f'"{mode[:80]}" {LATER}; use HOST or NONE')
    if kind.lower() not in ("", "cni"):
        problems.add(member(path, "networktype"), f'"{kind[:80]}" {LATER}')


def _check_role(role: str, path: str, problems: Problems) -> None:
    """Rules of Mesos for role names (its documentation, "Roles")."""
    if not role or role == "*":
        return
    if role.startswith(("-", "/")) or any(c in role for c in "\\ \t\n\r\v\f\b\a\0") or role in (".", ".."):
        problems.add(path, "is no Mesos role: no blanks or backslashes, not starting with '-' or '/', not '.' or '..'")
    elif any(part in ("", ".", "..", "*") for part in role.split("/")):
        problems.add(path, "is no Mesos role: each part between slashes must be a name")
