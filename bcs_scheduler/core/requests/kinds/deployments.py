"""Requests about deployments. core.controllers.deployments does the work that follows over time."""

from __future__ import annotations

from typing import Any

import msgspec

from bcs_scheduler.core import new_versions
from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.requests.answers import Data, Handlers
from bcs_scheduler.core.requests.kinds import commands, deployment_checks
from bcs_scheduler.core.rollout import amendments, revisions, steps, update_records
from store.ids import part_key
from store.records import Application, Deployment, Version
from transactions import base, resource_request
from transactions.base import Refused
from transactions.conflicts import OnConflict
from transactions.kinds import launch, scale, update
from transactions.kinds.registry import kind_of
from transactions.rules import rolling
from transactions.rules.draining import stand_ins_of
from transactions.text import counted

# --- create -------------------------------------------------------------------------------------------------------


def create(turn: TurnContext, asked: requests.CreateDeployment) -> Data:
    """Creates the deployment with its application and transaction in one unit, or adopts an application
    (docs/original.md#half-created). Raises Refused (exists, conflict, invalid)."""
    wanted = asked.deployment
    if wanted.key in turn.state.deployments:
        raise Refused("exists", f"deployment {wanted.key} exists already", "$.metadata.name")
    deployment_checks.check(wanted)
    matches = deployment_checks.adoptable(turn, wanted)
    if len(matches) > 1:
        names = ", ".join(application.name for application in matches[:10])
        raise Refused(
            "conflict", f"the selector matches {counted(len(matches), 'application')}: {names}", "$.spec.selector"
        )
    if matches:
        return _adopt(turn, asked, matches[0])
    if asked.version is None:
        raise Refused("invalid", "there is no template, and the selector matches no application", "$.spec.template")
    deployment_checks.check_number(wanted.instances)
    version = new_versions.resolved(turn, asked.version)
    definition = msgspec.structs.replace(revisions.definition_of(version, wanted), instances=wanted.instances)
    application, transaction = launch.create(turn.context, definition, asked.type, asked.user, asked.user_groups)
    turn.uow.put(msgspec.structs.replace(application, deployment=wanted.name))
    revision = revisions.new(turn, wanted, 1, definition, "created")
    turn.uow.put(revision)
    update_records.record_event(
        turn, wanted, "DeploymentCreated", f"launching {counted(wanted.instances, 'taskgroup')}"
    )
    created = _first(turn, wanted, application, status="Deploying", message="first taskgroups are being launched")
    return {**deployment_checks.answer_of(turn, created), "transactionID": transaction.id}


def _adopt(turn: TurnContext, asked: requests.CreateDeployment, application: Application) -> Data:
    """Adopts a running application. If the template differs from its definition, the first update begins."""
    wanted = asked.deployment
    base.refuse_if_busy(turn.context, application, "adopt")
    version = turn.state.version(application.key, application.version)
    if version is None or not application.instances:
        raise Refused("conflict", f"application {application.key} has nothing to run; it cannot be adopted")
    owned = turn.uow.put(msgspec.structs.replace(application, deployment=wanted.name))
    present = msgspec.structs.replace(revisions.definition_of(version, wanted), instances=application.instances)
    revision = revisions.new(turn, wanted, 1, present, f"adopted application {application.name}")
    turn.uow.put(revision)
    count = wanted.instances or application.instances
    update_records.record_event(
        turn,
        wanted,
        "DeploymentAdopted",
        f"application {application.name} with {counted(application.instances, 'taskgroup')}",
    )
    adopted = _first(turn, wanted, owned, status="Running", instances=application.instances)
    resolved = asked.version and new_versions.resolved(turn, asked.version, version)
    definition = resolved and revisions.definition_of(resolved, wanted)
    if definition is None or update.same_definition(present, definition):
        return (
            _resize(turn, adopted, count) if count != adopted.instances else deployment_checks.answer_of(turn, adopted)
        )
    deployment_checks.check_number(count)
    return _updated(turn, adopted, definition, count, "updated at its creation")


def _first(turn: TurnContext, wanted: Deployment, application: Application, **fields: Any) -> Deployment:
    return update_records.put(
        turn,
        wanted,
        **{
            "application": application.name,
            "revision": 1,
            "message": "",
            "created_at": turn.now,
            "progress_at": turn.now,
            **fields,
        },
    )


# --- update -------------------------------------------------------------------------------------------------------


def change(turn: TurnContext, asked: requests.UpdateDeployment) -> Data:
    """Stores a new revision and begins the update to it, or lets it follow the present one. Raises Refused (not_found,
    conflict, invalid)."""
    wanted = asked.deployment
    present = deployment_checks.existing(turn, wanted.namespace, wanted.name)
    size = wanted.instances or present.instances if asked.size is None else asked.size
    wanted = msgspec.structs.replace(wanted, instances=size)
    deployment_checks.check(wanted)
    deployment_checks.check_number(wanted.instances)
    if wanted.selector != present.selector:
        raise Refused("invalid", "the selector of a deployment cannot change", "$.spec.selector")
    asked = new_versions.of_update(turn, asked, present)
    if asked.resources_only:
        return _limits(turn, present, msgspec.structs.replace(asked, deployment=wanted))
    definition = revisions.definition_of(asked.version, present)
    halted = present.status in update_records.HALTED
    can_be_superseded = halted or present.rolling_back or asked.on_conflict == "supersede"
    if can_be_superseded and (halted or present.status == "Update"):
        return _superseded(turn, present, wanted, definition, asked.on_conflict)
    deployment_checks.refuse_unless_at_rest(present, "update", "Running", "Deploying")
    documented = revisions.documented(present, wanted)
    return _apply(turn, present, documented, msgspec.structs.replace(definition, instances=wanted.instances))


def _apply(
    turn: TurnContext, present: Deployment, documented: Deployment, definition: Version, number: int = 0
) -> Data:
    """Applies a document to a deployment at rest; `definition` has the number of taskgroups. `number`: of the revision
    of an update, if one begins; 0 = the next number."""
    revision = turn.state.revisions.get(present.revision_key)
    if revision is None or not update.same_definition(revision.version, definition):
        return _updated(turn, documented, definition, definition.instances, "updated", number)
    if documented != present:
        turn.uow.put(revisions.revised(revision, documented))
        update_records.put(turn, documented)
        update_records.record_event(turn, documented, "DeploymentChanged", "running taskgroups stay as they are")
    if definition.instances != present.instances or present.launch_failed:
        return _resize(turn, documented, definition.instances)
    answer = deployment_checks.answer_of(turn, documented)
    return answer if documented != present else {**answer, "unchanged": True}


def _updated(
    turn: TurnContext, wanted: Deployment, definition: Version, instances: int, why: str, number: int = 0
) -> Data:
    """Begins an update. `number` of its revision; 0 = the next number."""
    number = number or revisions.next_number(turn, wanted.key)
    definition = msgspec.structs.replace(definition, instances=instances)
    return _begun(turn, update_records.begin(turn, wanted, revisions.new(turn, wanted, number, definition, why)))


def _begun(turn: TurnContext, begun: Deployment) -> Data:
    """The first step of an update begins at once."""
    steps.advance(turn, begun)
    begun = turn.state.deployments[begun.key]
    floor, ceiling = rolling.bounds(begun)
    return {
        **deployment_checks.answer_of(turn, begun),
        "application": begun.successor,
        "leastReady": floor,
        "mostPresent": ceiling,
    }


def _superseded(
    turn: TurnContext, present: Deployment, wanted: Deployment, definition: Version, on_conflict: OnConflict
) -> Data:
    """Applies a document during an update to another definition. The update continues to the new definition from its
    present step. The definition from before the update makes the update go back. The definition of the update itself
    changes no target; the update continues with the strategy and the number of taskgroups of the document."""
    revision = turn.state.revisions.get(present.revision_key)
    if not present.rolling_back and revision is not None and update.same_definition(revision.version, definition):
        if on_conflict == "fail":
            deployment_checks.refuse_unless_at_rest(present, "update", "Running")
        documented = amendments.redocument(turn, present, revisions.documented(present, wanted))
        return _amended(turn, present, amendments.resize(turn, documented, wanted.instances))
    definition = msgspec.structs.replace(definition, instances=wanted.instances)
    before = turn.state.revisions.get(part_key(present.key, present.previous))
    if before is None or not update.same_definition(before.version, definition):
        return _forward(turn, present, wanted, definition)
    changed = revisions.supersede(turn, present, wanted, definition)
    unchanged = changed == present
    steps.advance(turn, changed)
    current = turn.state.deployments[present.key]
    answer = {**deployment_checks.answer_of(turn, current), "revision": current.next_revision or current.revision}
    return {**answer, "unchanged": True} if unchanged else answer


def _forward(turn: TurnContext, present: Deployment, wanted: Deployment, definition: Version) -> Data:
    if present.next_revision:
        present = revisions.drop(turn, present)
    documented = revisions.documented(present, wanted)
    number = revisions.next_number(turn, present.key)
    revision = revisions.new(turn, documented, number, definition, "updated")
    return _begun(turn, update_records.supersede(turn, present, documented, revision))


def take_up(turn: TurnContext, present: Deployment) -> None:
    """Applies the revision that was to follow an update, after the update has been undone."""
    revision = turn.state.revisions.get(part_key(present.key, present.next_revision))
    if revision is None:
        update_records.put(turn, present, next_revision=0)
        return
    settled = update_records.put(turn, present, next_revision=0, message="")
    running = turn.state.revisions.get(present.revision_key)
    if running is not None and update.same_definition(running.version, revision.version):
        turn.uow.delete(revision)
    try:
        _apply(turn, settled, revisions.documented(settled, revision), revision.version, revision.number)
    except Refused as refused:
        revisions.refuse_at_last(turn, present, refused)


def _limits(turn: TurnContext, present: Deployment, asked: requests.UpdateDeployment) -> Data:
    """Changes limits in place; the document must not change anything else."""
    deployment_checks.refuse_unless_at_rest(present, "change limits of", "Running")
    if asked.deployment.strategy != present.strategy:
        raise Refused("invalid", "only limits can change in place, the strategy differs as well", "$.spec.strategy")
    definition = msgspec.structs.replace(
        revisions.definition_of(asked.version, present), instances=asked.deployment.instances
    )
    revision = turn.state.revisions.get(present.revision_key)
    if revision is not None:
        definition = commands.with_requests_kept(revision.version, definition, asked.requests_left_out)
    # While stand-ins run for a drain, the application has more taskgroups than its deployment.
    number = definition.instances + (
        stand_ins_of(turn.state, present) if definition.instances == present.instances else 0
    )
    version = msgspec.structs.replace(definition, application=present.application, instances=number)
    data = commands.change_limits(turn, requests.UpdateApplication(version=version, dry_run=asked.dry_run))
    if data.get("unchanged"):
        return {**deployment_checks.answer_of(turn, present), "unchanged": True}
    number = revisions.next_number(turn, present.key)
    documented = msgspec.structs.replace(present, raw=asked.deployment.raw)
    turn.uow.put(revisions.new(turn, documented, number, definition, "limits changed in place"))
    command = data["commandID"]
    changed = update_records.put(
        turn,
        documented,
        revision=number,
        command=command,
        status="UpdateResource" if command else "Running",
        message="limits are being changed in place" if command else "",
        progress_at=turn.now,
    )
    update_records.record_event(turn, changed, "LimitsChanging", f"revision {number}: limits change in place")
    answer = {**deployment_checks.answer_of(turn, changed), "messages": data["messages"]}
    return {**answer, "commandID": command} if command else answer


# --- steer --------------------------------------------------------------------------------------------------------


def control(turn: TurnContext, asked: requests.ControlDeployment) -> Data:
    """Pauses, resumes, cancels or restarts. Raises Refused (not_found, conflict)."""
    present = deployment_checks.existing(turn, asked.namespace, asked.name)
    match asked.action:
        case "pause":
            changed = _pause(turn, present)
        case "resume":
            changed = _resume(turn, present)
        case "cancel":
            changed = _cancel(turn, present, "cancelled on request")
        case "restart":
            deployment_checks.refuse_unless_at_rest(present, "restart", "Running")
            return _again(turn, present, present.revision, "restarted")
    steps.advance(turn, changed)
    return deployment_checks.answer_of(turn, turn.state.deployments[changed.key])


def _pause(turn: TurnContext, present: Deployment) -> Deployment:
    if present.status != "Update":
        raise Refused("conflict", f"deployment {present.key} is {present.status}: there is no update to pause")
    update_records.record_event(
        turn, present, "UpdatePausing", "the step that runs is completed first" if present.phase else ""
    )
    return update_records.put(turn, present, pausing=True)


def _resume(turn: TurnContext, present: Deployment) -> Deployment:
    resting = present.status == "Update" and present.rested_at and not present.phase
    if present.status not in update_records.HALTED and not present.pausing and not resting:
        raise Refused("conflict", f"deployment {present.key} is {present.status}: there is nothing to resume")
    return update_records.resume(turn, present)


def _cancel(turn: TurnContext, present: Deployment, why: str) -> Deployment:
    if not present.updating or present.status == "Deleting":
        raise Refused("conflict", f"deployment {present.key} is {present.status}: there is no update to cancel")
    if present.next_revision:
        update_records.record_event(
            turn, present, "UpdateCancelled", f"revision {present.next_revision} does not follow: {why}"
        )
        return revisions.drop(turn, present)
    if present.rolling_back:
        raise Refused("conflict", f"the update of deployment {present.key} is being undone already")
    return update_records.revert(turn, present, why, asked=True)


def roll_back(turn: TurnContext, asked: requests.RollbackDeployment) -> Data:
    """Goes back to a revision; None = the one before. The number of taskgroups stays. Raises Refused (not_found,
    conflict)."""
    present = deployment_checks.existing(turn, asked.namespace, asked.name)
    if present.updating and present.status != "Deleting":
        if asked.revision not in (None, present.previous):
            raise Refused(
                "conflict", f"during its update deployment {present.key} goes back to {present.previous} only"
            )
        if not present.next_revision:
            # A rollback changes the definition. The number of taskgroups remains the one that a user has set last.
            present = update_records.put(turn, present, previous_instances=present.instances)
        steps.advance(turn, _cancel(turn, present, "rolled back on request"))
        return deployment_checks.answer_of(turn, turn.state.deployments[present.key])
    deployment_checks.refuse_unless_at_rest(present, "roll back", "Running")
    kept = turn.state.revisions_of(present.key)
    number = asked.revision
    if number is None:
        number = max((n for n in kept if n < present.revision), default=0)
        if not number:
            raise Refused("conflict", f"deployment {present.key} has no earlier revision to roll back to")
    if number not in kept:
        numbers = ", ".join(map(str, sorted(kept)))
        raise Refused("not_found", f"deployment {present.key} has no revision {number}, only {numbers}", "revision")
    if number == present.revision:
        return {**deployment_checks.answer_of(turn, present), "unchanged": True}
    return _again(turn, present, number, f"rolled back to revision {number}")


def _again(turn: TurnContext, present: Deployment, number: int, why: str) -> Data:
    """Begins a rolling update to a kept revision, with the present number of taskgroups."""
    revision = turn.state.revisions_of(present.key).get(number)
    if revision is None:
        raise Refused("not_found", f"revision {number} of deployment {present.key} is not kept", "revision")
    wanted = present
    if number != present.revision:
        wanted = revisions.documented(present, revision)
    return _updated(turn, wanted, revision.version, present.instances, why)


def resize(turn: TurnContext, asked: requests.ScaleDeployment) -> Data:
    """Changes the number of taskgroups; an update in progress continues with the new number. Raises Refused (not_found,
    conflict, invalid)."""
    present = deployment_checks.existing(turn, asked.namespace, asked.name)
    deployment_checks.check_number(asked.instances)
    if asked.on_conflict == "supersede" and present.updating and present.status != "Deleting":
        return _amended(turn, present, amendments.resize(turn, present, asked.instances))
    deployment_checks.refuse_unless_at_rest(present, "scale", "Running", "Deploying")
    return _resize(turn, present, asked.instances)


def _amended(turn: TurnContext, before: Deployment, after: Deployment) -> Data:
    """Continues a changed update; the next step begins at once if the change allows one."""
    if after == before:
        return {**deployment_checks.answer_of(turn, before), "unchanged": True}
    steps.advance(turn, after, resized=after.instances != before.instances)
    return deployment_checks.answer_of(turn, turn.state.deployments[after.key])


def _resize(turn: TurnContext, present: Deployment, instances: int) -> Data:
    """Scales the application of the deployment. Operations that launch or scale the application already are
    cancelled."""
    application = turn.state.applications[present.application_key]
    version = turn.state.version(application.key, application.version)
    resource_request.refuse_too_few_addresses(version, instances)
    sizing = [one for one in turn.state.active_of(application.key).values() if kind_of(turn.state, one).sizes]
    if sizing and application.instances == present.instances == instances:
        return {**deployment_checks.answer_of(turn, present), "unchanged": True}
    if application.instances != instances or stand_ins_of(turn.state, present):
        for running in sizing:
            turn.engine.end(turn.context, running, "CANCEL", f"deployment {present.key} is scaled to {instances}")
        application = turn.state.applications[application.key]
    transaction = scale.create(turn.context, application, instances)
    changed = update_records.put(turn, present, instances=instances, launch_failed=False)
    if transaction is None:
        return {**deployment_checks.answer_of(turn, changed), "unchanged": True}
    update_records.record_event(
        turn, changed, "DeploymentScaled", f"from {present.instances} to {counted(instances, 'taskgroup')}"
    )
    return {**deployment_checks.answer_of(turn, changed), "transactionID": transaction.id}


def delete(turn: TurnContext, asked: requests.DeleteDeployment) -> Data:
    """The record goes when its applications are gone. Asked for again it is sharpened by `enforce`."""
    present = deployment_checks.existing(turn, asked.namespace, asked.name)
    transactions = [
        update_records.forget(turn, turn.state.applications[key], enforce=asked.enforce)
        for key in list(turn.state.indexes.applications_owned(present.namespace, present.name))
    ]
    words = "waiting for its applications to be deleted"
    deleting = update_records.put(turn, present, status="Deleting", message=words, phase="", pausing=False)
    update_records.record_event(turn, deleting, "DeploymentDeleting", words + (", enforced" if asked.enforce else ""))
    answer = deployment_checks.answer_of(turn, deleting)
    return {**answer, "transactionID": transactions[0].id} if transactions else answer


HANDLERS: Handlers = {
    requests.CreateDeployment: create,
    requests.UpdateDeployment: change,
    requests.ControlDeployment: control,
    requests.RollbackDeployment: roll_back,
    requests.ScaleDeployment: resize,
    requests.DeleteDeployment: delete,
}
