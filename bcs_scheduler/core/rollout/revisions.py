"""Revisions of deployments: made from documents, applied as updates, or kept until an update is undone."""

from __future__ import annotations

import msgspec

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.rollout import update_records
from store.ids import part_key
from store.records import Deployment, Revision, Version
from transactions import injection, resource_request
from transactions.base import Refused
from transactions.kinds import update


def definition_of(version: Version, wanted: Deployment) -> Version:
    """Returns the version as a revision keeps it: without a name and without an application. The revision keeps the
    document beside it."""
    return msgspec.structs.replace(version, application=wanted.name, name="", created_at=0.0, raw="")


def new(turn: TurnContext, wanted: Deployment, number: int, definition: Version, why: str) -> Revision:
    """A revision with this number and definition; the caller stores it. `why`: shown in the history."""
    return Revision(
        namespace=wanted.namespace,
        deployment=wanted.name,
        number=number,
        version=definition,
        instances=definition.instances,
        raw=wanted.raw,
        strategy=wanted.strategy,
        labels=wanted.labels,
        annotations=wanted.annotations,
        why=why,
        created_at=turn.now,
    )


def documented(deployment: Deployment, said: Deployment | Revision) -> Deployment:
    """Returns the deployment with all fields of a document except its definition and its number of taskgroups."""
    return msgspec.structs.replace(
        deployment, raw=said.raw, strategy=said.strategy, labels=said.labels, annotations=said.annotations
    )


def revised(revision: Revision, wanted: Deployment) -> Revision:
    """The revision with the document of a deployment."""
    return msgspec.structs.replace(
        revision, raw=wanted.raw, strategy=wanted.strategy, labels=wanted.labels, annotations=wanted.annotations
    )


def next_number(turn: TurnContext, key: str) -> int:
    """The number of the next revision: one more than the greatest that is stored."""
    return max(turn.state.revisions_of(key), default=0) + 1


# --- revisions that wait ------------------------------------------------------------------------------------------


def supersede(turn: TurnContext, present: Deployment, wanted: Deployment, definition: Version) -> Deployment:
    """Undoes an update that is suspended or is being undone already, because another definition is wanted now, and
    keeps the wanted definition as a revision that follows (`core.requests.kinds.deployments.take_up`). Returns the
    deployment; unchanged if the same revision waits already. Raises Refused (conflict, invalid)."""
    injection.refuse_if_missing(turn.state, definition)
    resource_request.refuse_too_few_addresses(definition, wanted.instances)
    waiting = turn.state.revisions.get(part_key(present.key, present.next_revision))
    if waiting is not None:
        if revised(waiting, wanted) == waiting and _same(waiting, definition):
            return present
        present = drop(turn, present)
    revision = new(turn, wanted, next_number(turn, present.key), definition, "updated")
    turn.uow.put(revision)
    words = f"revision {revision.number} follows instead"
    if not present.rolling_back:
        changed = update_records.revert(turn, present, words, asked=True)
        if not changed.rolling_back:
            raise Refused("conflict", f"the update of deployment {present.key} cannot be undone: {changed.message}")
    else:
        update_records.record_event(turn, present, "RevisionQueued", words)
        changed = update_records.resume(turn, present) if present.status in update_records.HALTED else present
    return update_records.put(turn, changed, next_revision=revision.number)


def _same(revision: Revision, definition: Version) -> bool:
    return revision.instances == definition.instances and update.same_definition(revision.version, definition)


def drop(turn: TurnContext, present: Deployment) -> Deployment:
    """Discards the revision that was to follow after the present update."""
    waiting = turn.state.revisions.get(part_key(present.key, present.next_revision))
    if waiting is not None:
        turn.uow.delete(waiting)
    return update_records.put(turn, present, next_revision=0)


def refuse_at_last(turn: TurnContext, present: Deployment, refused: Refused) -> None:
    """Discards the revision that was to follow, because it can no longer be applied, and records an event with the
    reason."""
    words = f"revision {present.next_revision} was to follow, and cannot: {refused.message}"
    update_records.record_event(turn, present, "RevisionRefused", words)
    update_records.put(turn, drop(turn, present), message=words)
