"""Requests about daemonsets. They change records; the controller (controllers/daemonsets.py) then launches
and ends taskgroups."""

from __future__ import annotations

import msgspec

from bcs_scheduler.core import new_versions
from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.controllers.daemonsets import Admitted
from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.interface.effects import Changed
from bcs_scheduler.core.requests.answers import Data, Handlers, accepted, refuse_oversized
from store.ids import object_key
from store.reasons import EventReason
from store.records import Application, Daemonset, Version
from transactions import explain, injection
from transactions.base import Refused
from transactions.kinds import daemonset as daemons
from transactions.kinds import delete
from transactions.kinds.update import same_definition


def create(turn: TurnContext, command: requests.CreateDaemonset) -> Data:
    """Creates a daemonset and its application. Raises Refused (exists, invalid)."""
    version, key = command.version, command.daemonset.key
    refuse_oversized(version)
    if key in turn.state.daemonsets:
        raise Refused("exists", f"daemonset {key} exists already", "$.metadata.name")
    if key in turn.state.applications:
        raise Refused("exists", f"an application {key} exists already", "$.metadata.name")
    injection.refuse_if_missing(turn.state, version)
    version = _named(turn, new_versions.resolved(turn, version))
    application = Application(
        namespace=version.namespace,
        name=version.application,
        type="daemonset",
        labels=version.labels,
        annotations=version.annotations,
        version=version.name,
        instances=len(Admitted(turn, version).open),
        user=command.user,
        user_groups=command.user_groups,
        created_at=turn.now,
    )
    turn.uow.put(version)
    turn.uow.put(application)
    _put(turn, msgspec.structs.replace(command.daemonset, status="Starting", created_at=turn.now, updated_at=turn.now))
    turn.record_event("daemonset", key, "DaemonsetCreated", f"version {version.name}")
    if not application.instances:
        return _answer(command.daemonset)
    return accepted(daemons.begin_launch(turn.context, application))


def update(turn: TurnContext, command: requests.UpdateDaemonset) -> Data:
    """Stores a new definition and begins the update to it. Raises Refused (not_found, conflict, invalid)."""
    version = command.version
    refuse_oversized(version)
    before, application = _find(turn, version.namespace, version.application)
    after = msgspec.structs.replace(
        command.daemonset,
        status=before.status,
        message=before.message,
        stuck=before.stuck,
        created_at=before.created_at,
        updated_at=before.updated_at,
    )
    if msgspec.structs.replace(after, raw=before.raw) != before:
        _put(turn, msgspec.structs.replace(after, updated_at=turn.now))
        turn.record_event(
            "daemonset", after.key, "DaemonsetChanged", f"at most {after.max_unavailable} unavailable in an update"
        )
    newest = turn.state.version(application.key, application.version)
    version = new_versions.resolved(turn, version, newest)
    if newest is not None and same_definition(newest, version):
        return {**_answer(before), "unchanged": after.max_unavailable == before.max_unavailable}
    injection.refuse_if_missing(turn.state, version)
    return _roll(turn, after, application, version, "DaemonsetUpdated", "updated")


def rollback(turn: TurnContext, command: requests.RollbackDaemonset) -> Data:
    """Begins the update to a stored version. Raises Refused (not_found, conflict)."""
    daemonset, application = _find(turn, command.namespace, command.name)
    versions = turn.state.versions_of(application.key)
    name = command.version
    if name is None:
        older = [int(known) for known in versions if int(known) < int(application.version)]
        if not older:
            raise Refused("conflict", f"daemonset {daemonset.key} has no earlier version to roll back to")
        name = str(max(older))
    version = versions.get(name)
    if version is None:
        raise Refused("not_found", f"daemonset {daemonset.key} has no version {name}", "version")
    if name == application.version:
        return {**_answer(daemonset), "unchanged": True}
    injection.refuse_if_missing(turn.state, version)
    return _roll(turn, daemonset, application, version, "DaemonsetRolledBack", f"rolled back to version {name}")


def restart(turn: TurnContext, command: requests.RestartDaemonset) -> Data:
    """Begins an update to the present version under a new name, which replaces all taskgroups. Raises Refused
    (not_found; conflict if a configmap or secret is missing)."""
    daemonset, application = _find(turn, command.namespace, command.name)
    version = turn.state.version(application.key, application.version)
    if version is None:
        raise Refused("conflict", f"daemonset {daemonset.key} has no version")
    injection.refuse_if_missing(turn.state, version)
    return _roll(turn, daemonset, application, version, "DaemonsetRestarted", "restarted")


def remove(turn: TurnContext, command: requests.DeleteDaemonset) -> Data:
    """Begins the deletion of a daemonset; one without an application is removed at once. Raises Refused (not_found,
    conflict)."""
    daemonset = turn.state.daemonsets.get(object_key(command.namespace, command.name))
    if daemonset is None:
        raise Refused("not_found", f"daemonset {object_key(command.namespace, command.name)} does not exist")
    application = turn.state.applications.get(daemonset.key)
    if application is None:
        turn.uow.delete(daemonset)
        return _answer(daemonset)
    transaction = delete.create(turn.context, application, enforce=command.enforce)
    words = explain.deleting(turn.state.groups_of(daemonset.key).values())
    _put(
        turn,
        msgspec.structs.replace(daemonset, status="Deleting", message=words, stuck=False, updated_at=turn.now),
    )
    return accepted(transaction)


def _roll(
    turn: TurnContext, daemonset: Daemonset, application: Application, version: Version, reason: EventReason, why: str
) -> Data:
    """Makes the definition the newest version. Taskgroups of others are then replaced, within the bound."""
    version = turn.uow.put(_named(turn, version))
    application = turn.uow.put(
        msgspec.structs.replace(
            application,
            version=version.name,
            labels=version.labels,
            annotations=version.annotations,
            updated_at=turn.now,
        )
    )
    turn.record_event("daemonset", daemonset.key, reason, f"{why}: version {version.name}")
    # Taskgroups that wait for a place are launched from the newest version as well.
    turn.engine.queue_steps(turn.state.active_of(application.key))
    transaction = daemons.begin_update(turn.context, application, daemonset.max_unavailable)
    # At once, because the status of a big daemonset follows later, and the user may look before.
    words = f"to version {version.name}"
    if daemonset.status != "Updating":
        turn.record_event("daemonset", daemonset.key, "DaemonsetUpdating", words)
    _put(
        turn,
        msgspec.structs.replace(daemonset, status="Updating", message=words, stuck=False, updated_at=turn.now),
    )
    return accepted(transaction)


def _named(turn: TurnContext, version: Version) -> Version:
    return msgspec.structs.replace(version, name=str(turn.ids.next(turn.now)), created_at=turn.now, instances=1)


def _find(turn: TurnContext, namespace: str, name: str) -> tuple[Daemonset, Application]:
    daemonset = turn.state.daemonsets.get(object_key(namespace, name))
    application = turn.state.applications.get(object_key(namespace, name))
    if daemonset is None or application is None:
        raise Refused("not_found", f"daemonset {object_key(namespace, name)} does not exist")
    if daemonset.status == "Deleting":
        raise Refused("conflict", f"daemonset {daemonset.key} is being deleted")
    return daemonset, application


def _put(turn: TurnContext, daemonset: Daemonset) -> None:
    turn.uow.put(daemonset)
    turn.emit(Changed(kind=daemonset.kind, key=daemonset.key, record=daemonset, cause=turn.cause))


def _answer(daemonset: Daemonset) -> Data:
    return {"namespace": daemonset.namespace, "name": daemonset.name}


HANDLERS: Handlers = {
    requests.CreateDaemonset: create,
    requests.UpdateDaemonset: update,
    requests.RollbackDaemonset: rollback,
    requests.RestartDaemonset: restart,
    requests.DeleteDaemonset: remove,
}
