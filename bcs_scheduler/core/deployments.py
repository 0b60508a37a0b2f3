"""Commands about deployments. What follows from them over time is done by core.controllers.deployments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from bcs_scheduler.core import events, instructions, orders, revisions, rollout, rollout_steps
from bcs_scheduler.core.desk import Desk
from store.records import Application, Deployment, Version
from transactions import base, launch, rolling, scale, update
from transactions.base import Refused

Data = dict[str, Any]

DOCUMENT_BYTES = 120_000
"""Longest document a deployment may have. An update stores most of it up to eight times in one unit (document of
deployment and revision, definition of revision and version, annotations of all of them and of both applications), which
must fit the smallest commit limit of the stores (just under 1 MB)."""

INSTEAD: Mapping[str, str] = {
    "Deploying": "its taskgroups are being launched; wait for that, or update or scale it",
    "Update": "it is being updated; wait for the end, or cancel the update",
    "UpdatePaused": "its update is paused; resume or cancel it",
    "UpdateSuspend": "its update is suspended; resume or cancel it",
    "UpdateResource": "its limits are being changed; wait for the end",
    "Deleting": "it is being deleted",
}
"""Why an operation that needs a deployment at rest is refused, and what to do."""


# --- create -------------------------------------------------------------------------------------------------------


def create(desk: Desk, asked: orders.CreateDeployment) -> Data:
    """All in one unit, or nothing (W46)."""
    wanted = asked.deployment
    if wanted.key in desk.state.deployments:
        raise Refused("exists", f"deployment {wanted.key} exists already", "$.metadata.name")
    _check(wanted)
    matches = _matches(desk, wanted)
    if len(matches) > 1:
        names = ", ".join(application.name for application in matches[:10])
        raise Refused("conflict", f"the selector matches {len(matches)} applications: {names}", "$.spec.selector")
    if matches:
        return _adopt(desk, asked, matches[0])
    if asked.version is None:
        raise Refused("invalid", "there is no template, and the selector matches no application", "$.spec.template")
    _check_number(wanted.instances)
    definition = msgspec.structs.replace(revisions.definition_of(asked.version, wanted), instances=wanted.instances)
    application, transaction = launch.create(desk.context, definition, asked.type)
    desk.uow.put(msgspec.structs.replace(application, deployment=wanted.name))
    revision = revisions.new(desk, wanted, 1, definition, "created")
    desk.uow.put(revision)
    rollout.tell(desk, wanted, "created", f"launching {wanted.instances} taskgroups")
    created = _first(desk, wanted, application, status="Deploying", message="first taskgroups are being launched")
    return {**_answer(desk, created), "transactionID": transaction.id}


def _matches(desk: Desk, wanted: Deployment) -> list[Application]:
    """Applications that have every label of the selector and belong to nobody (W-58)."""
    if not wanted.selector:
        return []
    pairs = wanted.selector.items()
    state = desk.state
    rarest = min((state.indexes.applications_labelled(wanted.namespace, *pair) for pair in pairs), key=len)
    return sorted(
        (
            application
            for application in map(state.applications.__getitem__, rarest)
            if application.type != "daemonset" and not application.deployment and pairs <= application.labels.items()
        ),
        key=lambda application: application.name,
    )


def _adopt(desk: Desk, asked: orders.CreateDeployment, application: Application) -> Data:
    """Takes over what runs. A template that says something else is the first update."""
    wanted = asked.deployment
    base.refuse_if_busy(desk.context, application, "adopt")
    version = desk.state.version(application.key, application.version)
    if version is None or not application.instances:
        raise Refused("conflict", f"application {application.key} has nothing to run; it cannot be adopted")
    owned = desk.uow.put(msgspec.structs.replace(application, deployment=wanted.name))
    present = msgspec.structs.replace(revisions.definition_of(version, wanted), instances=application.instances)
    revision = revisions.new(desk, wanted, 1, present, f"adopted application {application.name}")
    desk.uow.put(revision)
    count = wanted.instances or application.instances
    rollout.tell(desk, wanted, "adopted", f"application {application.name} with {application.instances} taskgroups")
    adopted = _first(desk, wanted, owned, status="Running", instances=application.instances)
    if asked.version is None or update.same_definition(present, revisions.definition_of(asked.version, wanted)):
        return _resize(desk, adopted, count) if count != adopted.instances else _answer(desk, adopted)
    _check_number(count)
    definition = revisions.definition_of(asked.version, wanted)
    return _updated(desk, adopted, definition, count, "updated at its creation")


def _first(desk: Desk, wanted: Deployment, application: Application, **fields: Any) -> Deployment:
    return rollout.put(
        desk,
        wanted,
        **{
            "application": application.name,
            "revision": 1,
            "message": "",
            "created_at": desk.now,
            "progress_at": desk.now,
            **fields,
        },
    )


# --- update -------------------------------------------------------------------------------------------------------


def change(desk: Desk, asked: orders.UpdateDeployment) -> Data:
    wanted = asked.deployment
    present = _deployment(desk, wanted.namespace, wanted.name)
    wanted = msgspec.structs.replace(wanted, instances=wanted.instances or present.instances)
    _check(wanted)
    _check_number(wanted.instances)
    if wanted.selector != present.selector:
        raise Refused("invalid", "the selector of a deployment cannot change", "$.spec.selector")
    if asked.resources_only:
        return _limits(desk, present, msgspec.structs.replace(asked, deployment=wanted))
    definition = revisions.definition_of(asked.version, present)
    if present.status in rollout.HALTED or (present.back and present.status == "Update"):
        return _superseded(desk, present, wanted, definition)
    _at_rest(present, "update", "Running", "Deploying")
    documented = revisions.documented(present, wanted)
    return _apply(desk, present, documented, msgspec.structs.replace(definition, instances=wanted.instances))


def _apply(desk: Desk, present: Deployment, documented: Deployment, definition: Version, number: int = 0) -> Data:
    """Brings a deployment at rest to what a document says; `definition` has the number of taskgroups. `number`: of the
    revision, if there is an update."""
    revision = desk.state.revisions.get(present.revision_key)
    if revision is None or not update.same_definition(revision.version, definition):
        return _updated(desk, documented, definition, definition.instances, "updated", number)
    if documented != present:
        desk.uow.put(revisions.revised(revision, documented))
        rollout.put(desk, documented)
        rollout.tell(desk, documented, "changed", "what runs stays as it is")
    if definition.instances != present.instances:
        return _resize(desk, documented, definition.instances)
    answer = _answer(desk, documented)
    return answer if documented != present else {**answer, "unchanged": True}


def _updated(desk: Desk, wanted: Deployment, definition: Version, instances: int, why: str, number: int = 0) -> Data:
    """An update begins. `number` of its revision: the next one."""
    number = number or revisions.next_number(desk, wanted.key)
    definition = msgspec.structs.replace(definition, instances=instances)
    begun = revisions.begin(desk, wanted, revisions.new(desk, wanted, number, definition, why))
    floor, ceiling = rolling.bounds(begun)
    return {**_answer(desk, begun), "application": begun.successor, "leastReady": floor, "mostPresent": ceiling}


def _superseded(desk: Desk, present: Deployment, wanted: Deployment, definition: Version) -> Data:
    """Something else is to follow an update that stands still, or is being undone."""
    revision = desk.state.revisions.get(present.revision_key)
    if not present.back and revision is not None and update.same_definition(revision.version, definition):
        _at_rest(present, "update", "Running")
    definition = msgspec.structs.replace(definition, instances=wanted.instances)
    changed = revisions.supersede(desk, present, wanted, definition)
    unchanged = changed == present
    rollout_steps.advance(desk, changed)
    current = desk.state.deployments[present.key]
    answer = {**_answer(desk, current), "revision": current.following or current.revision}
    return {**answer, "unchanged": True} if unchanged else answer


def take_up(desk: Desk, present: Deployment) -> None:
    """What was to follow an update that is undone now."""
    revision = desk.state.revisions.get(f"{present.key}/{present.following}")
    if revision is None:
        rollout.put(desk, present, following=0)
        return
    settled = rollout.put(desk, present, following=0, message="")
    running = desk.state.revisions.get(present.revision_key)
    if running is not None and update.same_definition(running.version, revision.version):
        desk.uow.delete(revision)
    try:
        _apply(desk, settled, revisions.documented(settled, revision), revision.version, revision.number)
    except Refused as refused:
        revisions.refuse_at_last(desk, present, refused)


def _limits(desk: Desk, present: Deployment, asked: orders.UpdateDeployment) -> Data:
    """Limits change in place, and nothing else may."""
    _at_rest(present, "change limits of", "Running")
    if asked.deployment.strategy != present.strategy:
        raise Refused("invalid", "only limits can change in place, the strategy differs as well", "$.spec.strategy")
    definition = msgspec.structs.replace(
        revisions.definition_of(asked.version, present), instances=asked.deployment.instances
    )
    version = msgspec.structs.replace(definition, application=present.application)
    data = instructions.change_limits(desk, events.UpdateApplication(version=version, dry_run=asked.dry_run))
    if data.get("unchanged"):
        return {**_answer(desk, present), "unchanged": True}
    number = revisions.next_number(desk, present.key)
    documented = msgspec.structs.replace(present, raw=asked.deployment.raw)
    desk.uow.put(revisions.new(desk, documented, number, definition, "limits changed in place"))
    command = data["commandID"]
    changed = rollout.put(
        desk,
        documented,
        revision=number,
        command=command,
        status="UpdateResource" if command else "Running",
        message="limits are being changed in place" if command else "",
        progress_at=desk.now,
    )
    rollout.tell(desk, changed, "limits", f"revision {number}: limits change in place")
    answer = {**_answer(desk, changed), "messages": data["messages"]}
    return {**answer, "commandID": command} if command else answer


# --- steer --------------------------------------------------------------------------------------------------------


def control(desk: Desk, asked: orders.ControlDeployment) -> Data:
    present = _deployment(desk, asked.namespace, asked.name)
    match asked.action:
        case "pause":
            changed = _pause(desk, present)
        case "resume":
            changed = _resume(desk, present)
        case "cancel":
            changed = _cancel(desk, present, "cancelled on request")
        case "restart":
            _at_rest(present, "restart", "Running")
            return _again(desk, present, present.revision, "restarted")
    rollout_steps.advance(desk, changed)
    return _answer(desk, desk.state.deployments[changed.key])


def _pause(desk: Desk, present: Deployment) -> Deployment:
    if present.status != "Update":
        raise Refused("conflict", f"deployment {present.key} is {present.status}: there is no update to pause")
    rollout.tell(desk, present, "pausing", "the step that runs is completed first" if present.half else "")
    return rollout.put(desk, present, pausing=True)


def _resume(desk: Desk, present: Deployment) -> Deployment:
    resting = present.status == "Update" and present.rested_at and not present.half
    if present.status not in rollout.HALTED and not present.pausing and not resting:
        raise Refused("conflict", f"deployment {present.key} is {present.status}: there is nothing to resume")
    return rollout.resume(desk, present)


def _cancel(desk: Desk, present: Deployment, why: str) -> Deployment:
    if not present.updating or present.status == "Deleting":
        raise Refused("conflict", f"deployment {present.key} is {present.status}: there is no update to cancel")
    if present.following:
        rollout.tell(desk, present, "cancelled", f"revision {present.following} does not follow: {why}")
        return revisions.drop(desk, present)
    if present.back:
        raise Refused("conflict", f"the update of deployment {present.key} is being undone already")
    return rollout.go_back(desk, present, why, asked=True)


def roll_back(desk: Desk, asked: orders.RollbackDeployment) -> Data:
    present = _deployment(desk, asked.namespace, asked.name)
    if present.updating and present.status != "Deleting":
        if asked.revision not in (None, present.previous):
            raise Refused(
                "conflict", f"during its update deployment {present.key} goes back to {present.previous} only"
            )
        rollout_steps.advance(desk, _cancel(desk, present, "rolled back on request"))
        return _answer(desk, desk.state.deployments[present.key])
    _at_rest(present, "roll back", "Running")
    kept = desk.state.revisions_of(present.key)
    number = asked.revision
    if number is None:
        number = max((n for n in kept if n < present.revision), default=0)
        if not number:
            raise Refused("conflict", f"deployment {present.key} has no earlier revision to roll back to")
    if number not in kept:
        numbers = ", ".join(map(str, sorted(kept)))
        raise Refused("not_found", f"deployment {present.key} has no revision {number}, only {numbers}", "revision")
    if number == present.revision:
        return {**_answer(desk, present), "unchanged": True}
    return _again(desk, present, number, f"rolled back to revision {number}")


def _again(desk: Desk, present: Deployment, number: int, why: str) -> Data:
    """A rolling update to what an earlier revision says, with as many taskgroups as there are."""
    revision = desk.state.revisions_of(present.key).get(number)
    if revision is None:
        raise Refused("not_found", f"revision {number} of deployment {present.key} is not kept", "revision")
    wanted = present
    if number != present.revision:
        wanted = revisions.documented(present, revision)
    return _updated(desk, wanted, revision.version, present.instances, why)


def resize(desk: Desk, asked: orders.ScaleDeployment) -> Data:
    present = _deployment(desk, asked.namespace, asked.name)
    _at_rest(present, "scale", "Running", "Deploying")
    _check_number(asked.instances)
    return _resize(desk, present, asked.instances)


def _resize(desk: Desk, present: Deployment, instances: int) -> Data:
    """What launches or scales the application already makes way."""
    application = desk.state.applications[f"{present.namespace}/{present.application}"]
    if application.instances != instances:
        for running in list(desk.state.active_of(application.key).values()):
            if running.type in ("LAUNCH", "SCALE"):
                words = f"deployment {present.key} is scaled to {instances}"
                desk.engine.end(desk.context, running, "CANCEL", words)
        application = desk.state.applications[application.key]
    transaction = scale.create(desk.context, application, instances)
    changed = rollout.put(desk, present, instances=instances)
    if transaction is None:
        return {**_answer(desk, changed), "unchanged": True}
    rollout.tell(desk, changed, "scaled", f"from {present.instances} to {instances} taskgroups")
    return {**_answer(desk, changed), "transactionID": transaction.id}


def delete(desk: Desk, asked: orders.DeleteDeployment) -> Data:
    """The record goes when its applications are gone. Asked for again it is sharpened by `enforce`."""
    present = _deployment(desk, asked.namespace, asked.name)
    transactions = [
        rollout.forget(desk, desk.state.applications[key], enforce=asked.enforce)
        for key in list(desk.state.indexes.applications_owned(present.namespace, present.name))
    ]
    words = "waiting for its applications to be deleted"
    deleting = rollout.put(desk, present, status="Deleting", message=words, half="", pausing=False)
    rollout.tell(desk, deleting, "deleting", words + (", enforced" if asked.enforce else ""))
    answer = _answer(desk, deleting)
    return {**answer, "transactionID": transactions[0].id} if transactions else answer


# --- small parts --------------------------------------------------------------------------------------------------


def _deployment(desk: Desk, namespace: str, name: str) -> Deployment:
    found = desk.state.deployments.get(f"{namespace}/{name}")
    if found is None:
        raise Refused("not_found", f"deployment {namespace}/{name} does not exist")
    return found


def _at_rest(present: Deployment, what: str, *statuses: str) -> None:
    if present.status not in statuses:
        raise Refused("conflict", f"cannot {what} deployment {present.key}: {INSTEAD[present.status]}")


def _check(wanted: Deployment) -> None:
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


def _check_number(instances: int) -> None:
    if instances < 1:
        raise Refused("invalid", f"instances must be at least 1, not {instances}", "$.spec.instance")


def _answer(desk: Desk, deployment: Deployment) -> Data:
    """`transactionID`: what has been started first for it in this turn."""
    started = [
        transaction.id
        for name in (deployment.application, deployment.successor)
        for transaction in desk.state.active_of(f"{deployment.namespace}/{name}").values()
        if transaction.created_at == desk.now and transaction.type != "RESCHEDULE"
    ]
    data: Data = {"namespace": deployment.namespace, "name": deployment.name, "revision": deployment.revision}
    return {**data, "transactionID": min(started)} if started else data


HANDLERS: Mapping[type[events.Command], Callable[[Desk, Any], Data]] = {
    orders.CreateDeployment: create,
    orders.UpdateDeployment: change,
    orders.ControlDeployment: control,
    orders.RollbackDeployment: roll_back,
    orders.ScaleDeployment: resize,
    orders.DeleteDeployment: delete,
}
