"""Changes of a rolling update that are written as records: begin, supersede, revert, resume, suspend, finish. The steps
between them are in bcs_scheduler.core.rollout.steps.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.interface import effects
from store.advice import advise
from store.ids import object_key
from store.reasons import EventReason, Level
from store.records import Application, Deployment, Revision, Rolling, Transaction, TransactionStatus, Version
from transactions import groups, injection, resource_request
from transactions.base import Refused
from transactions.kinds import delete, launch, scale
from transactions.rules import rolling
from transactions.rules.rolling import RolloutState, Side
from transactions.text import counted

HALTED = ("UpdatePaused", "UpdateSuspend")
"""Statuses of an update that does not continue by itself."""
MOST_RETIRING = 8
"""Superseded revisions of one update that may have taskgroups at the same time."""


def put(turn: TurnContext, deployment: Deployment, **changes: Any) -> Deployment:
    """Stores the deployment with these changes and notifies its followers. Nothing is written if nothing differs."""
    changed = msgspec.structs.replace(deployment, **changes)
    if changed == turn.state.deployments.get(deployment.key):
        return changed
    changed = turn.uow.put(msgspec.structs.replace(changed, updated_at=turn.now))
    turn.emit(effects.Changed(kind="deployment", key=changed.key, record=changed, cause=turn.cause))
    return changed


def record_event(
    turn: TurnContext, deployment: Deployment, reason: EventReason, words: str, level: Level | None = None
) -> None:
    """Records an event of a deployment; `level` None: as the table of reasons says."""
    turn.record_event("deployment", deployment.key, reason, words, level)


# --- begin, back, end ---------------------------------------------------------------------------------------------


def begin(turn: TurnContext, deployment: Deployment, revision: Revision) -> Deployment:
    """Begins a rolling update to a revision that is not written yet. Active operations on the bound application end:
    the update starts from the present taskgroups. `deployment`: the wanted one; its number of taskgroups is that of the
    revision."""
    injection.refuse_if_missing(turn.state, revision.version)
    resource_request.refuse_too_few_addresses(revision.version, revision.instances)
    old = turn.state.applications[deployment.application_key]
    for running in list(turn.state.active_of(old.key).values()):
        if not running.taskgroup:
            turn.engine.end(turn.context, running, "CANCEL", f"deployment {deployment.key} is updated")
    old = turn.state.applications[old.key]
    name = _arrive(turn, deployment, old, revision)
    turn.uow.put(_side(turn, old, "down", len(turn.state.groups_of(old.key))))
    words = f"update from revision {deployment.revision} to {revision.number}"
    record_event(
        turn, deployment, "UpdateStarted", f"{words}: {counted(revision.instances, 'taskgroup')} of application {name}"
    )
    return put(
        turn,
        deployment,
        status="Update",
        message=words,
        revision=revision.number,
        previous=deployment.revision,
        instances=revision.instances,
        previous_instances=deployment.instances,
        successor=name,
        progress_at=turn.now,
        rollback_requested=False,
        launch_failed=False,
        **_AT_REST,
    )


def supersede(turn: TurnContext, present: Deployment, wanted: Deployment, revision: Revision) -> Deployment:
    """Replaces the target revision of an update. The update continues from its present step: the taskgroups of the
    former target go together with the old side, or first. `wanted`: the deployment with the new document. Raises
    Refused."""
    injection.refuse_if_missing(turn.state, revision.version)
    found = rolling.rollout_state(turn.state, present, turn.now)
    if found is None:
        raise Refused("conflict", f"deployment {present.key} has lost an application; {advise('delete_lost')}")
    if len(present.retiring) >= MOST_RETIRING:
        words = f"{len(present.retiring)} superseded revisions of deployment {present.key} still have taskgroups"
        raise Refused("conflict", f"{words}; {advise('cancel_retiring')}")
    words = f"superseded by revision {revision.number}"
    for side in (found.growing, found.shrinking):
        stop_adding(turn, side, "SUPERSEDED", words)
    turn.state.readiness.unfollow(found.growing.application.key)
    grown = turn.state.applications[found.growing.application.key]
    turn.uow.put(_side(turn, grown, "down", found.growing.wanted))
    name = _arrive(turn, wanted, grown, revision)
    arrived = object_key(present.namespace, present.successor)
    retiring = (*present.retiring, present.successor) if turn.state.groups_of(arrived) else present.retiring
    words = f"update from revision {present.previous} to {revision.number} instead of {present.revision}"
    words = f"{words}: {counted(revision.instances, 'taskgroup')} of application {name}"
    record_event(turn, wanted, "UpdateStarted", words)
    return put(
        turn,
        wanted,
        status="Update",
        message=words,
        revision=revision.number,
        instances=revision.instances,
        successor=name,
        retiring=retiring,
        next_revision=0,
        progress_at=turn.now,
        rollback_requested=False,
        launch_failed=False,
        **_AT_REST,
    )


def _arrive(turn: TurnContext, deployment: Deployment, old: Application, revision: Revision) -> str:
    """Writes the revision, and the application that arrives with it; returns its name. `old`: another application of
    the deployment."""
    name = _free_name(turn, deployment)
    version = msgspec.structs.replace(
        revision.version,
        application=name,
        name=str(turn.ids.next(turn.now)),
        created_at=turn.now,
        instances=revision.instances,
    )
    turn.uow.put(revision)
    turn.uow.put(version)
    turn.uow.put(_side(turn, _successor(turn, old, version, deployment.name), "up", 0))
    return name


_AT_REST: dict[str, Any] = {
    "rolling_back": False,
    "rollback_reason": "",
    "pausing": False,
    "phase": "",
    "step": 0,
    "step_since": 0.0,
    "up_target": 0,
    "down_target": 0,
    "rested_at": 0.0,
    "canary_done": False,
    "command": "",
}


def _free_name(turn: TurnContext, deployment: Deployment) -> str:
    second = int(turn.now)
    while f"{deployment.key}-v{second}" in turn.state.applications:
        second += 1
    return f"{deployment.name}-v{second}"


def _successor(turn: TurnContext, old: Application, version: Version, owner: str) -> Application:
    return Application(
        namespace=old.namespace,
        name=version.application,
        type=launch.type_of(version),
        deployment=owner,
        labels=version.labels,
        annotations=version.annotations,
        version=version.name,
        user=old.user,
        user_groups=old.user_groups,
        created_at=turn.now,
    )


def _side(turn: TurnContext, application: Application, side: Rolling, instances: int) -> Application:
    return msgspec.structs.replace(
        application,
        rolling=side,
        instances=instances,
        status="RollingUpdate",
        last_status=application.status,
        message=f"in the rolling update of deployment {application.deployment}",
        operation="",
        updated_at=turn.now,
    )


def revert(turn: TurnContext, deployment: Deployment, why: str, *, asked: bool = False) -> Deployment:
    """Reverses an update: the old application grows again, within the same bounds, and the new one shrinks. `asked`:
    True if a user requested this, False after a failure."""
    found = rolling.rollout_state(turn.state, deployment, turn.now)
    if found is None:
        return suspend(turn, deployment, "one of its applications is gone")
    for side in (found.growing, found.shrinking):
        stop_adding(turn, side, "CANCEL", f"the update of deployment {deployment.key} is undone")
    new, old = found.growing, turn.state.applications[deployment.application_key]
    leaving = sum(group.application == old.name for group in found.shrinking.leaving.values())
    turn.uow.put(_side(turn, new.application, "down", new.wanted))
    turn.uow.put(_side(turn, old, "up", len(turn.state.groups_of(old.key)) - leaving))
    words = _reverting(deployment, why)
    record_event(turn, deployment, "UpdateCancelled" if asked else "UpdateGoingBack", words)
    turned = put(
        turn,
        deployment,
        **{
            **_AT_REST,
            "rolling_back": True,
            "rollback_reason": why,
            "step": deployment.step,
            "canary_done": deployment.canary_done,
            "rollback_requested": asked,
        },
        status="Update",
        message=words,
        instances=deployment.previous_instances,
        progress_at=turn.now,
    )
    renew(turn, turned)
    return turned


def _reverting(deployment: Deployment, why: str) -> str:
    return f"going back to revision {deployment.previous}: {why}"


def resume(turn: TurnContext, deployment: Deployment) -> Deployment:
    """Goes on with a paused or suspended update: a step begins at once, with a fresh life. A canary that the pause was
    for is done."""
    found = rolling.rollout_state(turn.state, deployment, turn.now)
    canary = rolling.waiting_canary(deployment, found) if found is not None and not found.unavailable else None
    seen = canary is not None and canary.manual and deployment.status == "UpdatePaused"
    if deployment.status == "UpdateSuspend":
        renew(turn, deployment)
    words = _reverting(deployment, "resumed") if deployment.rolling_back else "the update continues"
    record_event(turn, deployment, "UpdateResumed", words)
    return put(
        turn,
        deployment,
        status="Update",
        pausing=False,
        message=words,
        canary_done=deployment.canary_done or seen,
        rested_at=0.0 if not deployment.phase else deployment.rested_at,
        progress_at=turn.now,
    )


def renew(turn: TurnContext, deployment: Deployment) -> None:
    """Forgets taskgroups of the growing side that have ended for good: the next step launches others instead."""
    found = rolling.rollout_state(turn.state, deployment, turn.now)
    if found is None:
        return
    dead = rolling.failed(turn.state, found, turn.options.transactions.periods)
    for group in dead:
        groups.remove(turn.context, group, "it has ended for good; its place is filled anew")
    _set_instances(turn, found.growing.application, found.growing.wanted - len(dead))


def suspend(turn: TurnContext, deployment: Deployment, words: str) -> Deployment:
    """Stops an update until a user resumes or cancels it. `words`: the reason, shown to users."""
    record_event(turn, deployment, "UpdateSuspended", words)
    return put(turn, deployment, status="UpdateSuspend", phase="", pausing=False, message=words)


def fail(
    turn: TurnContext, deployment: Deployment, found: RolloutState, words: str, verdict: TransactionStatus = "CANCEL"
) -> Deployment:
    """Handles a step that cannot end: rolls back if the strategy says so, else suspends the update until a user
    acts."""
    stop_adding(turn, found.growing, verdict, words)
    if deployment.strategy.on_failure == "rollback" and not deployment.rolling_back:
        return revert(turn, deployment, words)
    return suspend(turn, deployment, words)


def stop_adding(turn: TurnContext, side: Side, verdict: TransactionStatus, words: str) -> None:
    """Ends the launches on one side: the wanted number of each application becomes the existing number."""
    for application in side.applications:
        active = rolling.phase_transactions(turn.state.active_of(application.key).values())
        for each in active:
            if not each.victims:
                turn.engine.end(turn.context, each.transaction, verdict, words)
        if application is side.application and not side.others:
            _set_instances(turn, application, side.wanted)
        elif any(not each.victims for each in active):
            _set_instances(turn, application, rolling.side(turn.state, application).wanted)


def _set_instances(turn: TurnContext, application: Application, instances: int) -> None:
    current = turn.state.applications[application.key]
    if current.instances != instances:
        turn.uow.put(msgspec.structs.replace(current, instances=instances, updated_at=turn.now))


def finish(turn: TurnContext, deployment: Deployment, found: RolloutState) -> Deployment:
    """The growing side is all there is: it alone stays."""
    turn.state.readiness.unfollow(found.growing.application.key)
    for side in (found.growing, found.shrinking):
        for scaling in (side.adding, side.removing):
            if scaling is not None:
                turn.engine.end(turn.context, scaling, "FINISH", "the update is complete")
    stays = turn.uow.put(
        msgspec.structs.replace(
            turn.state.applications[found.growing.application.key],
            rolling="",
            status="Deploying",
            instances=deployment.instances,
            message="",
        )
    )
    if max(turn.state.indexes_of(stays.key), default=0) >= deployment.instances:
        # The update had superseded a scale, whose number counts again now.
        scale.create(turn.context, stays, deployment.instances)
    for goes in found.shrinking.applications:
        forget(turn, goes, enforce=False)
    changes: dict[str, Any] = {
        **_AT_REST,
        "status": "Running",
        "application": stays.name,
        "successor": "",
        "retiring": (),
        "previous": 0,
        "previous_instances": 0,
        "progress_at": turn.now,
    }
    if deployment.rolling_back:
        changes |= {"revision": deployment.previous, **_document(turn, deployment)}
        words = f"went back to revision {deployment.previous}: {deployment.rollback_reason or 'cancelled'}"
        record_event(turn, deployment, "UpdateWentBack", words)
        return put(turn, deployment, message=words, **changes)
    record_event(
        turn, deployment, "UpdateFinished", f"revision {deployment.revision} runs after {deployment.step} steps"
    )
    return put(turn, deployment, message="", **changes)


def _document(turn: TurnContext, deployment: Deployment) -> dict[str, Any]:
    """Returns the user's document from before the update that was undone."""
    revision = turn.state.revisions_of(deployment.key).get(deployment.previous)
    if revision is None:
        return {}
    return {
        "raw": revision.raw,
        "strategy": revision.strategy,
        "labels": revision.labels,
        "annotations": revision.annotations,
    }


def forget(turn: TurnContext, application: Application, *, enforce: bool) -> Transaction:
    """Deletes an application of a deployment."""
    turn.uow.put(msgspec.structs.replace(turn.state.applications[application.key], rolling=""))
    return delete.create(turn.context, turn.state.applications[application.key], enforce=enforce, inner=True)
