"""Shared parts of request handlers: the answer to an accepted operation, and checks that every handler makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.interface.requests import Request
from store.advice import advise
from store.records import Application, Transaction, Version
from transactions.base import Refused

Data = dict[str, Any]
"""The data of an answer."""
Handlers = Mapping[type[Request], Callable[[TurnContext, Any], Data]]
"""The functions that carry out requests, by type of request."""
DEFINITION_BYTES = 300_000
"""Longest document an application may have: a version holds it beside its resolved form, and both must fit the smallest
record limit of the stores (just under 1 MB in ZooKeeper) with room for other records of the same commit."""


def accepted(transaction: Transaction) -> dict[str, Any]:
    """Returns the answer to a request that has begun an operation in the background."""
    return {
        "transactionID": transaction.id,
        "namespace": transaction.namespace,
        "name": transaction.application,
        "opType": transaction.type,
        "target": transaction.target,
    }


def refuse_oversized(version: Version) -> None:
    """Raises Refused (invalid) if the definition is longer than `DEFINITION_BYTES`."""
    if len(version.raw) > DEFINITION_BYTES:
        raise Refused(
            "invalid", f"the document has {len(version.raw)} characters, at most {DEFINITION_BYTES} can be stored", "$"
        )


def refuse_if_owned(application: Application, what: str) -> None:
    """Refuses a change of an application that belongs to a deployment or daemonset: users change it through its owner
    only (docs/original.md#owned-applications). Raises Refused (conflict)."""
    owner = application.owner
    if owner is not None:
        words = f"it belongs to {owner.kind} {owner.key}; {advise('change_owner', kind=owner.kind)}"
        raise Refused("conflict", f"cannot {what} application {application.key}: {words}")
