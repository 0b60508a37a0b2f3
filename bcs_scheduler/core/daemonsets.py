"""Commands about daemonsets. What they ask for is written down; the controller (controllers/daemonsets.py) sees to it
that every agent for it has its taskgroup."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from bcs_scheduler.core import events, orders
from bcs_scheduler.core.answers import accepted, refuse_oversized
from bcs_scheduler.core.controllers.daemonsets import Admitted
from bcs_scheduler.core.desk import Desk
from bcs_scheduler.core.effects import Changed
from store.records import Application, Daemonset, Version
from transactions import daemons, delete, explain, injection
from transactions.base import Refused
from transactions.update import same_definition

Data = dict[str, Any]


def create(desk: Desk, command: orders.CreateDaemonset) -> Data:
    version, key = command.version, command.daemonset.key
    refuse_oversized(version)
    if key in desk.state.daemonsets:
        raise Refused("exists", f"daemonset {key} exists already", "$.metadata.name")
    if key in desk.state.applications:
        raise Refused("exists", f"an application {key} exists already", "$.metadata.name")
    injection.refuse_if_missing(desk.state, version)
    version = _named(desk, version)
    application = Application(
        namespace=version.namespace,
        name=version.application,
        type="daemonset",
        labels=version.labels,
        annotations=version.annotations,
        version=version.name,
        instances=len(Admitted(desk, version).open),
        created_at=desk.now,
    )
    desk.uow.put(version)
    desk.uow.put(application)
    _put(desk, msgspec.structs.replace(command.daemonset, status="Starting", created_at=desk.now, updated_at=desk.now))
    desk.tell("daemonset", key, "created", f"version {version.name}")
    if not application.instances:
        return _answer(command.daemonset)
    return accepted(daemons.begin_launch(desk.context, application))


def update(desk: Desk, command: orders.UpdateDaemonset) -> Data:
    version = command.version
    refuse_oversized(version)
    before, application = _find(desk, version.namespace, version.application)
    after = msgspec.structs.replace(
        command.daemonset,
        status=before.status,
        message=before.message,
        stuck=before.stuck,
        created_at=before.created_at,
        updated_at=before.updated_at,
    )
    if msgspec.structs.replace(after, raw=before.raw) != before:
        _put(desk, msgspec.structs.replace(after, updated_at=desk.now))
        desk.tell("daemonset", after.key, "updated", f"at most {after.max_unavailable} unavailable in an update")
    newest = desk.state.version(application.key, application.version)
    if newest is not None and same_definition(newest, version):
        return {**_answer(before), "unchanged": after.max_unavailable == before.max_unavailable}
    injection.refuse_if_missing(desk.state, version)
    return _roll(desk, after, application, version, "updated")


def rollback(desk: Desk, command: orders.RollbackDaemonset) -> Data:
    daemonset, application = _find(desk, command.namespace, command.name)
    versions = desk.state.versions_of(application.key)
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
    injection.refuse_if_missing(desk.state, version)
    return _roll(desk, daemonset, application, version, f"rolled back to version {name}")


def restart(desk: Desk, command: orders.RestartDaemonset) -> Data:
    daemonset, application = _find(desk, command.namespace, command.name)
    version = desk.state.version(application.key, application.version)
    if version is None:
        raise Refused("conflict", f"daemonset {daemonset.key} has no version")
    injection.refuse_if_missing(desk.state, version)
    return _roll(desk, daemonset, application, version, "restarted")


def remove(desk: Desk, command: orders.DeleteDaemonset) -> Data:
    daemonset = desk.state.daemonsets.get(f"{command.namespace}/{command.name}")
    if daemonset is None:
        raise Refused("not_found", f"daemonset {command.namespace}/{command.name} does not exist")
    application = desk.state.applications.get(daemonset.key)
    if application is None:
        desk.uow.delete(daemonset)
        return _answer(daemonset)
    transaction = delete.create(desk.context, application, enforce=command.enforce)
    words = explain.deleting(desk.state.groups_of(daemonset.key).values())
    _put(
        desk,
        msgspec.structs.replace(daemonset, status="Deleting", message=words, stuck=False, updated_at=desk.now),
    )
    return accepted(transaction)


def _roll(desk: Desk, daemonset: Daemonset, application: Application, version: Version, why: str) -> Data:
    """Makes the definition the newest version. Taskgroups of others are then replaced, within the bound."""
    version = desk.uow.put(_named(desk, version))
    application = desk.uow.put(
        msgspec.structs.replace(
            application,
            version=version.name,
            labels=version.labels,
            annotations=version.annotations,
            updated_at=desk.now,
        )
    )
    desk.tell("daemonset", daemonset.key, why.partition(" ")[0], f"{why}: version {version.name}")
    # What waits for a place is launched from the newest version as well.
    desk.engine.look_again(desk.state.active_of(application.key))
    transaction = daemons.begin_update(desk.context, application, daemonset.max_unavailable)
    # At once: what is said of a big daemonset follows a while later, and whoever asked may look before.
    words = f"to version {version.name}"
    if daemonset.status != "Updating":
        desk.tell("daemonset", daemonset.key, "Updating", words)
    _put(
        desk,
        msgspec.structs.replace(daemonset, status="Updating", message=words, stuck=False, updated_at=desk.now),
    )
    return accepted(transaction)


def _named(desk: Desk, version: Version) -> Version:
    return msgspec.structs.replace(version, name=str(desk.ids.next(desk.now)), created_at=desk.now, instances=1)


def _find(desk: Desk, namespace: str, name: str) -> tuple[Daemonset, Application]:
    daemonset = desk.state.daemonsets.get(f"{namespace}/{name}")
    application = desk.state.applications.get(f"{namespace}/{name}")
    if daemonset is None or application is None:
        raise Refused("not_found", f"daemonset {namespace}/{name} does not exist")
    if daemonset.status == "Deleting":
        raise Refused("conflict", f"daemonset {daemonset.key} is being deleted")
    return daemonset, application


def _put(desk: Desk, daemonset: Daemonset) -> None:
    desk.uow.put(daemonset)
    desk.emit(Changed(kind=daemonset.kind, key=daemonset.key, record=daemonset, cause=desk.cause))


def _answer(daemonset: Daemonset) -> Data:
    return {"namespace": daemonset.namespace, "name": daemonset.name}


HANDLERS: Mapping[type[events.Command], Callable[[Desk, Any], Data]] = {
    orders.CreateDaemonset: create,
    orders.UpdateDaemonset: update,
    orders.RollbackDaemonset: rollback,
    orders.RestartDaemonset: restart,
    orders.DeleteDaemonset: remove,
}
