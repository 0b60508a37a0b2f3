"""The normal form of documents: every default is filled in, amounts are numbers, aliases are resolved.

Two documents with the same meaning have the same normal form. Only the shape of a document is checked.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import msgspec

from bcs_scheduler.wire.decoding import decode
from bcs_scheduler.wire.documents.application import ApplicationDocument
from bcs_scheduler.wire.documents.configuration import ConfigMapDocument, SecretDocument
from bcs_scheduler.wire.documents.daemonset import DaemonsetDocument
from bcs_scheduler.wire.documents.deployment import DeploymentDocument
from bcs_scheduler.wire.documents.extensions import WebhookDocument
from bcs_scheduler.wire.documents.groups import PodGroupDocument
from bcs_scheduler.wire.documents.namespaces import NamespaceDocument
from bcs_scheduler.wire.documents.priorities import PriorityClassDocument
from bcs_scheduler.wire.documents.queues import QueueDocument
from bcs_scheduler.wire.documents.service import ServiceDocument
from bcs_scheduler.wire.problems import Problem, Problems
from bcs_scheduler.wire.quantities import READERS, QuantityError

SHAPES: dict[str, Hashable] = {
    "application": ApplicationDocument,
    "process": ApplicationDocument,
    "deployment": DeploymentDocument,
    "configmap": ConfigMapDocument,
    "secret": SecretDocument,
    "service": ServiceDocument,
    "namespace": NamespaceDocument,
    "queue": QueueDocument,
    "PodGroup": PodGroupDocument,
    "PriorityClass": PriorityClassDocument,
    "daemonset": DaemonsetDocument,
    "admissionwebhook": WebhookDocument,
}

READ = ("creationTimestamp", "updateTimestamp", "clusterName", "resourceVersion")
"""Fields of the metadata that the API adds to its answers. The normal form leaves them out."""


def complete(body: dict[str, Any], found: Problems | None = None) -> tuple[dict[str, Any], tuple[Problem, ...]]:
    """The normal form of a document, and the problems of its shape. `found` takes the problems and warnings; None =
    fields without effect are passed over.

    Kinds without a shape (custom resources) get default labels and annotations only.
    """
    shape = SHAPES.get(str(body.get("kind")))
    if shape is None:
        return _with_metadata(body), ()
    problems = Problems("Ignore") if found is None else found
    made: dict[str, Any] = msgspec.to_builtins(decode(body, shape, problems))
    for name in READ:
        made.get("metadata", {}).pop(name, None)
    template = (made.get("spec") or {}).get("template") or {}
    pod = template.get("spec") or {}
    for task in (*pod.get("containers", ()), *pod.get("processes", ())):
        for amounts in (task["resources"]["requests"], task["resources"]["limits"]):
            _as_numbers(amounts)
    return made, problems.listed()


def _with_metadata(body: dict[str, Any]) -> dict[str, Any]:
    metadata = body.get("metadata")
    if not isinstance(metadata, dict):
        return body
    kept = {name: value for name, value in metadata.items() if name not in READ}
    return {**body, "metadata": {"labels": {}, "annotations": {}, **kept}}


def _as_numbers(amounts: dict[str, Any]) -> None:
    """Replaces written amounts by numbers in their unit. An amount that cannot be read stays as it was written."""
    for name, reader in READERS.items():
        if amounts.get(name) not in (None, ""):
            try:
                amounts[name] = reader(amounts[name]) / 1000
            except QuantityError:
                continue
        else:
            amounts[name] = None
