"""The turning points of a rolling update, written as records: begin, go back, resume, fail, finish.

What happens between them is in rollout_steps.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bcs_scheduler.core import effects
from bcs_scheduler.core.desk import Desk
from store.records import Application, Deployment, Revision, Rolling, Transaction, TransactionStatus, Version
from transactions import delete, groups, injection, launch, rolling, scale
from transactions.rolling import Picture

HALTED = ("UpdatePaused", "UpdateSuspend")
"""Statuses of an update that does not go on by itself."""


def put(desk: Desk, deployment: Deployment, **changes: Any) -> Deployment:
    """Stores the deployment with these changes and tells those that follow it. Nothing is written if
    nothing differs."""
    changed = msgspec.structs.replace(deployment, **changes)
    if changed == desk.state.deployments.get(deployment.key):
        return changed
    changed = desk.uow.put(msgspec.structs.replace(changed, updated_at=desk.now))
    desk.emit(effects.Changed(kind="deployment", key=changed.key, record=changed, cause=desk.cause))
    return changed


def tell(desk: Desk, deployment: Deployment, reason: str, words: str, level: str = "info") -> None:
    desk.tell("deployment", deployment.key, reason, words, level)


# --- begin, back, end ---------------------------------------------------------------------------------------------


def begin(desk: Desk, deployment: Deployment, revision: Revision) -> Deployment:
    """Begins a rolling update to a revision that is not written yet. What works on the bound application ends: the
    update goes from what exists. `deployment` as wanted, but for its number of taskgroups: that is the revision's."""
    injection.refuse_if_missing(desk.state, revision.version)
    old = desk.state.applications[f"{deployment.namespace}/{deployment.application}"]
    for running in list(desk.state.active_of(old.key).values()):
        if running.type != "RESCHEDULE":
            desk.engine.end(desk.context, running, "CANCEL", f"deployment {deployment.key} is updated")
    old = desk.state.applications[old.key]
    name = _free_name(desk, deployment)
    version = msgspec.structs.replace(
        revision.version,
        application=name,
        name=str(desk.ids.next(desk.now)),
        created_at=desk.now,
        instances=revision.instances,
    )
    desk.uow.put(revision)
    desk.uow.put(version)
    desk.uow.put(_side(desk, _successor(desk, old, version, deployment.name), "up", 0))
    desk.uow.put(_side(desk, old, "down", len(desk.state.groups_of(old.key))))
    words = f"update from revision {deployment.revision} to {revision.number}"
    tell(desk, deployment, "update", f"{words}: {revision.instances} taskgroups of application {name}")
    return put(
        desk,
        deployment,
        status="Update",
        message=words,
        revision=revision.number,
        previous=deployment.revision,
        instances=revision.instances,
        previous_instances=deployment.instances,
        successor=name,
        progress_at=desk.now,
        **_AT_REST,
    )


_AT_REST: dict[str, Any] = {
    "back": False,
    "pausing": False,
    "half": "",
    "step": 0,
    "step_since": 0.0,
    "up_target": 0,
    "down_target": 0,
    "rested_at": 0.0,
    "canary_done": False,
    "command": "",
}


def _free_name(desk: Desk, deployment: Deployment) -> str:
    second = int(desk.now)
    while f"{deployment.namespace}/{deployment.name}-v{second}" in desk.state.applications:
        second += 1
    return f"{deployment.name}-v{second}"


def _successor(desk: Desk, old: Application, version: Version, owner: str) -> Application:
    return Application(
        namespace=old.namespace,
        name=version.application,
        type=launch.type_of(version),
        deployment=owner,
        labels=version.labels,
        annotations=version.annotations,
        version=version.name,
        created_at=desk.now,
    )


def _side(desk: Desk, application: Application, side: Rolling, instances: int) -> Application:
    return msgspec.structs.replace(
        application,
        rolling=side,
        instances=instances,
        status="RollingUpdate",
        last_status=application.status,
        message=f"in the rolling update of deployment {application.deployment}",
        operation="",
        updated_at=desk.now,
    )


def go_back(desk: Desk, deployment: Deployment, why: str, *, asked: bool = False) -> Deployment:
    """Turns an update round: the old application grows again, within the same bounds, and the new one shrinks. `asked`:
    somebody wants it so, nothing has failed."""
    found = rolling.picture(desk.state, deployment, desk.now)
    if found is None:
        return suspend(desk, deployment, "one of its applications is gone")
    _stop_adding(desk, found, "CANCEL", f"the update of deployment {deployment.key} is undone")
    new, old = found.growing, found.shrinking
    desk.uow.put(_side(desk, new.application, "down", len(new.wanted)))
    desk.uow.put(_side(desk, old.application, "up", len(old.wanted)))
    words = f"going back to revision {deployment.previous}: {why}"
    tell(desk, deployment, "cancelled" if asked else "back", words, "info" if asked else "warning")
    turned = put(
        desk,
        deployment,
        **{**_AT_REST, "back": True, "step": deployment.step, "canary_done": deployment.canary_done},
        status="Update",
        message=words,
        instances=deployment.previous_instances,
        progress_at=desk.now,
    )
    renew(desk, turned)
    return turned


def resume(desk: Desk, deployment: Deployment) -> Deployment:
    """Goes on with a paused or suspended update: a step begins at once, with a fresh life. A canary that the pause was
    for is done."""
    found = rolling.picture(desk.state, deployment, desk.now)
    canary = rolling.waiting_canary(deployment, found) if found is not None and not found.lacking else None
    seen = canary is not None and canary.manual and deployment.status == "UpdatePaused"
    if deployment.status == "UpdateSuspend":
        renew(desk, deployment)
    words = f"going back to revision {deployment.previous}: resumed" if deployment.back else "the update goes on"
    tell(desk, deployment, "resumed", words)
    return put(
        desk,
        deployment,
        status="Update",
        pausing=False,
        message=words,
        canary_done=deployment.canary_done or seen,
        rested_at=0.0 if not deployment.half else deployment.rested_at,
        progress_at=desk.now,
    )


def renew(desk: Desk, deployment: Deployment) -> None:
    """Forgets taskgroups of the growing side that have ended for good: the next step launches others instead."""
    found = rolling.picture(desk.state, deployment, desk.now)
    if found is None:
        return
    dead = rolling.failed(desk.state, found, desk.options.transactions.periods)
    for group in dead:
        groups.remove(desk.context, group, "it has ended for good; its place is filled anew")
    _wants(desk, found.growing.application, len(found.growing.wanted) - len(dead))


def suspend(desk: Desk, deployment: Deployment, words: str) -> Deployment:
    tell(desk, deployment, "suspended", words, "warning")
    return put(desk, deployment, status="UpdateSuspend", half="", pausing=False, message=words)


def fail(
    desk: Desk, deployment: Deployment, found: Picture, words: str, verdict: TransactionStatus = "CANCEL"
) -> Deployment:
    """A step cannot end: back if its strategy says so, else nothing goes on until somebody acts."""
    _stop_adding(desk, found, verdict, words)
    if deployment.strategy.on_failure == "rollback" and not deployment.back:
        return go_back(desk, deployment, words)
    return suspend(desk, deployment, words)


def _stop_adding(desk: Desk, found: Picture, verdict: TransactionStatus, words: str) -> None:
    """Nothing more is launched on the growing side; it wants what it has."""
    for scaling in list(desk.state.active_of(found.growing.application.key).values()):
        if scaling.type == "INNERSCALE" and not scaling.victims:
            desk.engine.end(desk.context, scaling, verdict, words)
    _wants(desk, found.growing.application, len(found.growing.wanted))


def _wants(desk: Desk, application: Application, instances: int) -> None:
    current = desk.state.applications[application.key]
    if current.instances != instances:
        desk.uow.put(msgspec.structs.replace(current, instances=instances, updated_at=desk.now))


def finish(desk: Desk, deployment: Deployment, found: Picture) -> Deployment:
    """The growing side is all there is: it alone stays."""
    goes = found.shrinking.application
    for side in (found.growing, found.shrinking):
        for scaling in (side.adding, side.removing):
            if scaling is not None:
                desk.engine.end(desk.context, scaling, "FINISH", "the update is complete")
    stays = desk.uow.put(
        msgspec.structs.replace(
            desk.state.applications[found.growing.application.key],
            rolling="",
            status="Deploying",
            instances=deployment.instances,
            message="",
        )
    )
    if max(desk.state.indexes_of(stays.key), default=0) >= deployment.instances:
        # The update had cut a scale short, whose number counts again now.
        scale.create(desk.context, stays, deployment.instances)
    forget(desk, goes, enforce=False)
    changes: dict[str, Any] = {
        **_AT_REST,
        "status": "Running",
        "application": stays.name,
        "successor": "",
        "previous": 0,
        "previous_instances": 0,
        "progress_at": desk.now,
    }
    if deployment.back:
        changes |= {"revision": deployment.previous, **_document(desk, deployment)}
        words = deployment.message.replace("going back", "went back", 1)
        tell(desk, deployment, "went-back", words)
        return put(desk, deployment, message=words, **changes)
    tell(desk, deployment, "updated", f"revision {deployment.revision} runs after {deployment.step} steps")
    return put(desk, deployment, message="", **changes)


def _document(desk: Desk, deployment: Deployment) -> dict[str, Any]:
    """What the user's document said before the update that was undone."""
    revision = desk.state.revisions_of(deployment.key).get(deployment.previous)
    if revision is None:
        return {}
    return {
        "raw": revision.raw,
        "strategy": revision.strategy,
        "labels": revision.labels,
        "annotations": revision.annotations,
    }


def forget(desk: Desk, application: Application, *, enforce: bool) -> Transaction:
    """Deletes an application of a deployment."""
    desk.uow.put(msgspec.structs.replace(desk.state.applications[application.key], rolling=""))
    return delete.create(desk.context, desk.state.applications[application.key], enforce=enforce, inner=True)
