"""What documents of deployments become: revisions, updates to them, and revisions that follow an update undone."""

from __future__ import annotations

import msgspec

from bcs_scheduler.core import rollout, rollout_steps
from bcs_scheduler.core.desk import Desk
from store.records import Deployment, Revision, Version
from transactions import injection, update
from transactions.base import Refused


def definition_of(version: Version, wanted: Deployment) -> Version:
    """As a revision keeps it: nameless, and of no particular application. The document stands beside it."""
    return msgspec.structs.replace(version, application=wanted.name, name="", created_at=0.0, raw="")


def new(desk: Desk, wanted: Deployment, number: int, definition: Version, why: str) -> Revision:
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
        created_at=desk.now,
    )


def documented(deployment: Deployment, said: Deployment | Revision) -> Deployment:
    """The deployment with everything that a document says besides what runs, and how often."""
    return msgspec.structs.replace(
        deployment, raw=said.raw, strategy=said.strategy, labels=said.labels, annotations=said.annotations
    )


def revised(revision: Revision, wanted: Deployment) -> Revision:
    """The revision with the document of a deployment."""
    return msgspec.structs.replace(
        revision, raw=wanted.raw, strategy=wanted.strategy, labels=wanted.labels, annotations=wanted.annotations
    )


def next_number(desk: Desk, key: str) -> int:
    return max(desk.state.revisions_of(key), default=0) + 1


def begin(desk: Desk, wanted: Deployment, revision: Revision) -> Deployment:
    """A rolling update to a revision; its first step begins at once."""
    begun = rollout.begin(desk, wanted, revision)
    rollout_steps.advance(desk, begun)
    return desk.state.deployments[wanted.key]


# --- revisions that wait ------------------------------------------------------------------------------------------


def supersede(desk: Desk, present: Deployment, wanted: Deployment, definition: Version) -> Deployment:
    """Something else is wanted than an update that stands still, or is being undone, was for: it is undone, and what is
    wanted now follows. Taken up by core.deployments.take_up. The deployment as it was, if it waits already."""
    injection.refuse_if_missing(desk.state, definition)
    waiting = desk.state.revisions.get(f"{present.key}/{present.following}")
    if waiting is not None:
        if revised(waiting, wanted) == waiting and _same(waiting, definition):
            return present
        present = drop(desk, present)
    revision = new(desk, wanted, next_number(desk, present.key), definition, "updated")
    desk.uow.put(revision)
    words = f"revision {revision.number} follows instead"
    if not present.back:
        changed = rollout.go_back(desk, present, words, asked=True)
        if not changed.back:
            raise Refused("conflict", f"the update of deployment {present.key} cannot be undone: {changed.message}")
    else:
        rollout.tell(desk, present, "follows", words)
        changed = rollout.resume(desk, present) if present.status in rollout.HALTED else present
    return rollout.put(desk, changed, following=revision.number)


def _same(revision: Revision, definition: Version) -> bool:
    return revision.instances == definition.instances and update.same_definition(revision.version, definition)


def drop(desk: Desk, present: Deployment) -> Deployment:
    """What was to follow does not."""
    waiting = desk.state.revisions.get(f"{present.key}/{present.following}")
    if waiting is not None:
        desk.uow.delete(waiting)
    return rollout.put(desk, present, following=0)


def refuse_at_last(desk: Desk, present: Deployment, refused: Refused) -> None:
    """What was accepted to follow cannot be done any more."""
    words = f"revision {present.following} was to follow, and cannot: {refused.message}"
    rollout.tell(desk, present, "refused", words, "warning")
    rollout.put(desk, drop(desk, present), message=words)
