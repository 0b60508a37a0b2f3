"""Documents: kinds, identity, and the order in which they are applied."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from bcs_scheduler.cli.client.types import Json

KINDS = (
    "queue",
    "PriorityClass",
    "namespace",
    "PodGroup",
    "crr",
    "configmap",
    "secret",
    "service",
    "application",
    "process",
    "deployment",
    "daemonset",
    "admissionwebhook",
    "Command",
)
"""Kinds in the order in which documents are applied: objects before the objects that refer to them, Commands last."""
CUSTOM = KINDS.index("service")
"""Position of documents of registered kinds in that order."""


class Document(NamedTuple):
    """One document, and the file that it was read from."""

    source: str
    body: Json

    @property
    def kind(self) -> str:
        return str(self.body["kind"])

    @property
    def name(self) -> str:
        """Name of the object; for a Command the name of its workload."""
        return str(self._identity["name"])

    @property
    def namespace(self) -> str:
        return str(self._identity["namespace"])

    @property
    def _identity(self) -> Json:
        identity: Json = self.body["spec"]["commandTargetRef"] if self.kind == "Command" else self.body["metadata"]
        return identity


def owner_of(document: Document) -> str:
    """Kind of the workload that a Command runs in: application or deployment."""
    said = str(document.body["spec"]["commandTargetRef"].get("kind") or "application").lower()
    return said if said == "deployment" else "application"


def in_order(documents: Iterable[Document]) -> list[Document]:
    """Documents in the order of KINDS; documents of one kind keep their order."""
    return sorted(documents, key=lambda document: KINDS.index(document.kind) if document.kind in KINDS else CUSTOM)
