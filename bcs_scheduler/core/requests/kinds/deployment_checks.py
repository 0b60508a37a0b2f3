"""Checks of requests about deployments, and the answer that these requests have in common."""

from __future__ import annotations

from collections.abc import Mapping

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.requests.answers import Data
from store.advice import AdviceCode, advise
from store.ids import object_key
from store.records import Application, Deployment
from transactions.base import Refused

DOCUMENT_BYTES = 120_000
"""Longest document a deployment may have. An update stores most of it up to eight times in one unit (document of
deployment and revision, definition of revision and version, annotations of all of them and of both applications), which
must fit the smallest commit limit of the stores (just under 1 MB)."""

BUSY: Mapping[str, str] = {
    "Deploying": "its taskgroups are being launched",
    "Update": "it is being updated",
    "UpdatePaused": "its update is paused",
    "UpdateSuspend": "its update is suspended",
    "UpdateResource": "its limits are being changed; wait for the end",
    "Deleting": "it is being deleted",
}
"""The reason why a deployment is not at rest, by status."""
WAYS: Mapping[str, AdviceCode] = {
    "Deploying": "update_or_scale",
    "Update": "cancel_update",
    "UpdatePaused": "resume_or_cancel",
    "UpdateSuspend": "resume_or_cancel",
}
WAYS_BACK: Mapping[str, AdviceCode] = {"UpdatePaused": "resume", "UpdateSuspend": "resume"}
"""The same while an update is being undone: this cannot be cancelled."""


def existing(turn: TurnContext, namespace: str, name: str) -> Deployment:
    """The deployment of that name. Raises Refused (not_found)."""
    found = turn.state.deployments.get(object_key(namespace, name))
    if found is None:
        raise Refused("not_found", f"deployment {object_key(namespace, name)} does not exist")
    return found


def refuse_unless_at_rest(present: Deployment, what: str, *statuses: str) -> None:
    """Raises Refused (conflict) unless the status is one of `statuses`. `what`: the verb of the
    operation, for the message."""
    if present.status not in statuses:
        way = (WAYS_BACK if present.rolling_back else WAYS).get(present.status)
        words = BUSY[present.status] + (f"; {advise(way)}" if way else "")
        raise Refused("conflict", f"cannot {what} deployment {present.key}: {words}")


def check(wanted: Deployment) -> None:
    """Raises Refused (invalid) if no update could make a step, or if the document is too long to be stored."""
    strategy = wanted.strategy
    if strategy.max_surge <= 0 and strategy.max_unavailable <= 0:
        raise Refused(
            "invalid",
            "maxSurge and maxUnavailable cannot both be 0: no update could make a step",
            "$.spec.strategy.rollingupdate",
        )
    size = len(wanted.raw.encode())
    if size > DOCUMENT_BYTES:
        words = f"the document has {size} bytes, at most {DOCUMENT_BYTES} can be stored"
        raise Refused("invalid", words, "$")


def check_number(instances: int) -> None:
    """Raises Refused (invalid) if the number of taskgroups is negative."""
    if instances < 0:
        raise Refused("invalid", f"instances must be at least 0, not {instances}", "$.spec.instance")


def answer_of(turn: TurnContext, deployment: Deployment) -> Data:
    """Makes the answer. `transactionID`: the first transaction that this turn has started for the deployment."""
    started = [
        transaction.id
        for name in (deployment.application, deployment.successor)
        for transaction in turn.state.active_of(object_key(deployment.namespace, name)).values()
        if transaction.created_at == turn.now and not transaction.taskgroup
    ]
    data: Data = {"namespace": deployment.namespace, "name": deployment.name, "revision": deployment.revision}
    return {**data, "transactionID": min(started)} if started else data


def adoptable(turn: TurnContext, wanted: Deployment) -> list[Application]:
    """Returns the applications that have every label of the selector and belong to no deployment
    (docs/original.md#adoption), by name."""
    if not wanted.selector:
        return []
    pairs = wanted.selector.items()
    state = turn.state
    rarest = min((state.indexes.applications_labelled(wanted.namespace, *pair) for pair in pairs), key=len)
    return sorted(
        (
            application
            for application in map(state.applications.__getitem__, rarest)
            if application.owner is None and pairs <= application.labels.items()
        ),
        key=lambda application: application.name,
    )
