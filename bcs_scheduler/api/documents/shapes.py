"""Documents in their complete form: every default filled in, amounts as numbers. Two documents that mean the same are
equal so. Nothing is checked but the shape."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import msgspec

from bcs_scheduler.api.documents.application import ApplicationDocument
from bcs_scheduler.api.documents.configuration import ConfigMapDocument, SecretDocument
from bcs_scheduler.api.documents.containers import READERS
from bcs_scheduler.api.documents.daemonset import DaemonsetDocument
from bcs_scheduler.api.documents.deployment import DeploymentDocument
from bcs_scheduler.api.documents.extensions import WebhookDocument
from bcs_scheduler.api.documents.namespaces import NamespaceDocument
from bcs_scheduler.api.documents.quantities import QuantityError
from bcs_scheduler.api.documents.service import ServiceDocument
from bcs_scheduler.api.documents.walk import Problems, decode
from bcs_scheduler.core.effects import Problem

SHAPES: dict[str, Hashable] = {
    "application": ApplicationDocument,
    "process": ApplicationDocument,
    "deployment": DeploymentDocument,
    "configmap": ConfigMapDocument,
    "secret": SecretDocument,
    "service": ServiceDocument,
    "namespace": NamespaceDocument,
    "daemonset": DaemonsetDocument,
    "admissionwebhook": WebhookDocument,
}

READ = ("creationTimestamp", "updateTimestamp", "clusterName", "resourceVersion")
"""Of the metadata: what reads show, and what says nothing about how an object is to be."""


def complete(body: dict[str, Any]) -> tuple[dict[str, Any], tuple[Problem, ...]]:
    """The document, and what is wrong with its shape. One of a kind without a shape stays as it is."""
    shape = SHAPES.get(str(body.get("kind")))
    if shape is None:
        return _with_metadata(body), ()
    problems = Problems()
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
    """Thousandths become the unit; what is no amount stays as it was written."""
    for name, reader in READERS.items():
        if amounts.get(name) not in (None, ""):
            try:
                amounts[name] = reader(amounts[name]) / 1000
            except QuantityError:
                continue
        else:
            amounts[name] = None
