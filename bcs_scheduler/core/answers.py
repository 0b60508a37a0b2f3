"""What handlers of commands share: what an accepted operation answers, and what every one of them must refuse."""

from __future__ import annotations

from typing import Any

from store.records import Application, Transaction, Version
from transactions.base import Refused

DEFINITION_BYTES = 300_000
"""Longest document an application may have: a version holds it beside its resolved form, and both must fit the smallest
record limit of the stores (just under 1 MB in ZooKeeper) with room for other records of the same commit."""


def accepted(transaction: Transaction) -> dict[str, Any]:
    """What an accepted background operation answers."""
    return {
        "transactionID": transaction.id,
        "namespace": transaction.namespace,
        "name": transaction.application,
        "opType": transaction.type,
        "target": transaction.target,
    }


def refuse_oversized(version: Version) -> None:
    if len(version.raw) > DEFINITION_BYTES:
        raise Refused(
            "invalid", f"the document has {len(version.raw)} characters, at most {DEFINITION_BYTES} can be stored", "$"
        )


def refuse_if_owned(application: Application, what: str) -> None:
    """What belongs to a deployment or daemonset is changed through that only (W56)."""
    owner = f"daemonset {application.key}" if application.type == "daemonset" else ""
    if application.deployment:
        owner = f"deployment {application.namespace}/{application.deployment}"
    if owner:
        raise Refused("conflict", f"cannot {what} application {application.key}: it belongs to {owner}; change that")
