"""Reads the body of a request into a Version: shape, meaning, and all problems at once."""

from __future__ import annotations

from typing import Any, NamedTuple

from bcs_scheduler.api.documents import names
from bcs_scheduler.api.documents.addresses import check_addresses
from bcs_scheduler.api.documents.constraints import check_constraint
from bcs_scheduler.api.documents.containers import check_tasks
from bcs_scheduler.api.documents.engine import check_executor, run_by_mesos
from bcs_scheduler.api.documents.ports import check_network
from bcs_scheduler.api.http.errors import invalid
from bcs_scheduler.wire.decoding import decode
from bcs_scheduler.wire.documents.application import ApplicationDocument, ApplicationSpec, KeptMetadata, Metadata
from bcs_scheduler.wire.documents.pod import PodSpec
from bcs_scheduler.wire.problems import Problems, member
from offers.policy.applications.metadata import parameters_of
from store.ids import object_key
from store.records import ANNOTATION_OF_PLACEHOLDER, ANNOTATION_OF_TASK, FORM_OF_PLACEHOLDER, GROUP_ANNOTATION
from transactions.rules.gangs import PARAMETERS

KINDS = ("application", "process")
POD = "$.spec.template.spec"


class Present(NamedTuple):
    """The numbers of the object that a document updates. A scale may have left a gang or canary larger than the number
    of taskgroups, so a document that leaves both alone is taken."""

    instances: int
    gang: int = 0
    canary: int = 0

    def leaves_alone(self, given: int | None, before: int, after: int) -> bool:
        """True if a document with `given` taskgroups (None = as many as now) changes neither this number nor another
        one from `before` to `after`."""
        return given in (None, self.instances) and before == after


def read_application(
    raw: object,
    *,
    namespace: str,
    name: str | None = None,
    creating: bool,
    present: Present | None = None,
    kinds: tuple[str, ...] = KINDS,
    default_executor: str = "bcs",
    least: int = 0,
    problems: Problems | None = None,
) -> ApplicationDocument:
    """The checked document. An empty namespace is filled from the path; a different one (or name) is a problem
    (docs/original.md#path-and-body).

    `present`: of the application that is updated; None = not known. `kinds` are accepted here; `default_executor` runs
    documents that name no executor; `least`: fewest taskgroups. Raises ApiError (422) with all problems.
    """
    problems = Problems() if problems is None else problems
    check_kind(raw, kinds, problems)
    document: ApplicationDocument = decode(with_namespace(raw, namespace), ApplicationDocument, problems)
    check_identity(document.metadata, namespace, name, problems)
    if creating and document.spec.instance is None:
        problems.add("$.spec.instance", "is required: how many taskgroups the application has")
    check_least(document.spec.instance, least, problems)
    check_application(document, default_executor, problems, present)
    _check_label_twice(document, problems)
    if problems:
        raise invalid(problems.listed())
    return document


def check_application(
    document: ApplicationDocument, default_executor: str, problems: Problems, present: Present | None = None
) -> None:
    """Checks the meaning of a document, beyond its shape. `present`: of the object that is updated, if it is known."""
    check_metadata(document.metadata, problems)
    if PARAMETERS in document.metadata.annotations:
        _check_own_reservation(document, problems)
    template = document.spec.template
    at = "$.spec.template.metadata"
    names.check_labels(template.metadata.labels, member(at, "labels"), problems)
    names.check_labels(template.metadata.annotations, member(at, "annotations"), problems, selected=False)
    check_constraint(document.constraint, "$.constraint", problems)
    pod = template.spec
    _check_gang(document.spec, present, problems)
    _check_contents(document.kind, pod, problems)
    _check_priority(pod, problems)
    check_network(pod, POD, problems)
    _check_role(pod.role, member(POD, "role"), problems)
    check_tasks(pod, POD, problems)
    if document.executor and pod.executor and document.executor != pod.executor:
        problems.add(member(POD, "executor"), f'is "{pod.executor}", but $.executor says "{document.executor}"')
    check_executor(pod, pod.executor or document.executor, default_executor, POD, problems)
    check_addresses(document, run_by_mesos(pod, pod.executor or document.executor, default_executor), problems)


def _check_label_twice(document: ApplicationDocument, problems: Problems) -> None:
    """An application has the labels of both places (`convert.to_version`)."""
    template = document.spec.template.metadata.labels
    for key, value in document.metadata.labels.items():
        if template.get(key, value) != value:
            at = member("$.spec.template.metadata.labels", key)
            problems.warn(member("$.metadata.labels", key), f'has no effect: {at} is "{template[key]}"')


def check_least(instances: int | None, least: int, problems: Problems) -> None:
    if instances is not None and instances < least:
        problems.add("$.spec.instance", f"must be at least {least}")


def check_head(metadata: KeptMetadata, namespace: str, name: str | None, problems: Problems) -> None:
    """Checks names, labels and annotations. An empty `namespace` leaves it to the document."""
    if namespace:
        check_identity(metadata, namespace, name, problems)
    elif not metadata.namespace:
        problems.add("$.metadata.namespace", "is required")
    check_metadata(metadata, problems)


def check_metadata(metadata: Metadata, problems: Problems) -> None:
    names.check_name(metadata.name, "$.metadata.name", problems)
    names.check_namespace(metadata.namespace, "$.metadata.namespace", problems)
    names.check_labels(metadata.labels, "$.metadata.labels", problems)
    names.check_labels(metadata.annotations, "$.metadata.annotations", problems, selected=False)
    for key in (ANNOTATION_OF_PLACEHOLDER, ANNOTATION_OF_TASK, FORM_OF_PLACEHOLDER):
        if key in metadata.annotations:
            problems.add(member("$.metadata.annotations", key), "only the scheduler sets this annotation")


def check_reservation(metadata: Metadata, problems: Problems) -> None:
    """Warns of parameters of a reservation that have no effect."""
    _, warnings = parameters_of(metadata.annotations.get(PARAMETERS, ""))
    if warnings:
        problems.warn(member("$.metadata.annotations", PARAMETERS), "; ".join(warnings))


def check_kind(raw: object, kinds: tuple[str, ...], problems: Problems) -> None:
    """Reports a document of a wrong kind. Another kind has other fields, which would all be listed as unknown. Raises
    ApiError (422)."""
    if not isinstance(raw, dict):
        problems.add("$", f"must be a document of kind {' or '.join(kinds)}: an object")
        raise invalid(problems.listed())
    kind = raw.get("kind")
    if isinstance(kind, str) and kind and kind not in kinds:
        takes = " or ".join(f'"{known}"' for known in kinds)
        problems.add("$.kind", f"must be {takes} on this route", kind, kinds)
    if problems:
        raise invalid(problems.listed())


def with_namespace(raw: Any, namespace: str) -> Any:
    """The document with the namespace of the path where it has none (docs/original.md#default-namespace: before
    everything else)."""
    metadata = raw.get("metadata")
    if not isinstance(metadata, dict) or metadata.get("namespace"):
        return raw
    return {**raw, "metadata": {**metadata, "namespace": namespace}}


def named_in(raw: Any, namespace: str, name: str | None = None) -> str:
    """Key of the object that a body of any shape names; empty if it names none. `namespace`, `name`: of the path; None
    and empty: it has none."""
    metadata = raw.get("metadata") if isinstance(raw, dict) else None
    if not isinstance(metadata, dict):
        metadata = {}
    where, named = namespace or metadata.get("namespace"), name or metadata.get("name")
    return object_key(where, named) if isinstance(where, str) and isinstance(named, str) else ""


def known_version(raw: Any) -> str:
    """The resourceVersion that a checked document replaces; empty if the document names none."""
    metadata = _member(raw, "metadata")
    return str(_member(metadata, "resourceversion") or "")


def _member(raw: Any, folded: str) -> Any:
    """The value of a key, which may be written in any case (bcs_scheduler.wire.decoding)."""
    return next((value for key, value in raw.items() if key.lower() == folded), None)


def check_identity(given: Metadata, namespace: str, name: str | None, problems: Problems) -> None:
    if given.namespace and given.namespace != namespace:
        problems.add("$.metadata.namespace", f'is "{given.namespace}", but the path says "{namespace}"')
    if name is not None and given.name != name:
        problems.add("$.metadata.name", f'is "{given.name}", but the path says "{name}"')


def _check_own_reservation(document: ApplicationDocument, problems: Problems) -> None:
    at = member("$.metadata.annotations", PARAMETERS)
    if GROUP_ANNOTATION in document.metadata.annotations:
        problems.warn(at, "has no effect beside a pod group: the annotation of the group asks for a reservation")
    elif document.spec.min_available < 2:
        problems.warn(at, "has no effect without spec.minAvailable: room is reserved for a gang")
    check_reservation(document.metadata, problems)


def _check_gang(spec: ApplicationSpec, present: Present | None, problems: Problems) -> None:
    if present is not None and present.leaves_alone(spec.instance, present.gang, spec.min_available):
        return
    if spec.instance is not None and spec.min_available > spec.instance:
        words = f"must be at most the number of taskgroups ({spec.instance}), not {spec.min_available}"
        problems.add("$.spec.minAvailable", words)


def _check_priority(pod: PodSpec, problems: Problems) -> None:
    if not pod.priority_class_name:
        return
    names.check_name(pod.priority_class_name, member(POD, "priorityClassName"), problems)
    if pod.priority is not None:
        problems.add(member(POD, "priority"), "must be left out beside priorityClassName: the class has the number")


def _check_contents(kind: str, pod: PodSpec, problems: Problems) -> None:
    """Containers in applications, processes in documents of kind process."""
    wanted, other = ("processes", "containers") if kind == "process" else ("containers", "processes")
    if not getattr(pod, wanted):
        problems.add(member(POD, wanted), f"is required: at least one, in a document of kind {kind}")
    if getattr(pod, other):
        fitting = "application" if other == "containers" else "process"
        problems.add(member(POD, other), f'belongs into a document of kind "{fitting}"')


def _check_role(role: str, path: str, problems: Problems) -> None:
    """Rules of Mesos for role names (its documentation, "Roles")."""
    if not role or role == "*":
        return
    if role.startswith(("-", "/")) or any(c in role for c in "\\ \t\n\r\v\f\b\a\0") or role in (".", ".."):
        problems.add(
            path, "is not a Mesos role: no blanks or backslashes, not starting with '-' or '/', not '.' or '..'"
        )
    elif any(part in ("", ".", "..", "*") for part in role.split("/")):
        problems.add(path, "is not a Mesos role: each part between slashes must be a name")
