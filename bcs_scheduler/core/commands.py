"""What users ask for, turned into transactions and records. Every command is answered by exactly one Reply.

A refused command raises transactions.base.Refused; the core undoes what it had changed and replies with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

import msgspec

from bcs_scheduler.core import (
    configuration,
    daemonsets,
    deployments,
    events,
    extensions,
    instructions,
    namespaces,
    services,
)
from bcs_scheduler.core.agents import AgentCommands
from bcs_scheduler.core.answers import accepted, refuse_if_owned, refuse_oversized
from bcs_scheduler.core.controllers.health import Health
from bcs_scheduler.core.controllers.supply import Supply
from bcs_scheduler.core.desk import Desk
from store.records import Application, TaskGroup, Transaction
from transactions import delete, launch, reschedule, scale, update
from transactions.base import Refused

Data = dict[str, Any]


class Module(Protocol):
    """A module that carries out commands: by type of command, what does it."""

    HANDLERS: Mapping[type[events.Command], Callable[[Desk, Any], Data]]


MODULES: tuple[Module, ...] = (configuration, daemonsets, deployments, instructions, services, namespaces, extensions)


class Commands:
    """One method per command; each returns the data of its reply."""

    def __init__(self, desk: Desk, supply: Supply, health: Health) -> None:
        self._desk = desk
        self.agents = AgentCommands(desk, supply)
        self._handlers: dict[type[events.Command], Callable[[Any], Data]] = {
            events.CreateApplication: self._create,
            events.UpdateApplication: self._update,
            events.RollbackApplication: self._rollback,
            events.ScaleApplication: self._scale,
            events.DeleteApplication: self._delete,
            events.RescheduleTaskGroup: self._reschedule,
            events.CancelTransaction: self._cancel,
            events.ReportHealth: health.reported,
            **self.agents.handlers,
        }
        for module in MODULES:
            for kind, work in module.HANDLERS.items():
                self._handlers[kind] = partial(work, desk)

    def run(self, command: events.Command) -> Data:
        handler = self._handlers.get(type(command))
        if handler is None:
            raise Refused("invalid", f"{type(command).__name__} is not a command")
        return self._desk.quotas.guard(partial(handler, command))

    def _create(self, command: events.CreateApplication) -> Data:
        refuse_oversized(command.version)
        _, transaction = launch.create(self._desk.context, command.version, command.type)
        return accepted(transaction)

    def _update(self, command: events.UpdateApplication) -> Data:
        refuse_oversized(command.version)
        application = self._application(command.version.namespace, command.version.application)
        refuse_if_owned(application, "update")
        if not command.version.instances:
            kept = msgspec.structs.replace(command.version, instances=application.instances)
            command = msgspec.structs.replace(command, version=kept)
        if command.resources_only:
            return instructions.change_limits(self._desk, command)
        newest = self._desk.state.version(application.key, application.version)
        wanted = command.version.instances
        if wanted != application.instances:
            if newest is None or not update.same_definition(newest, command.version):
                raise Refused(
                    "invalid",
                    f"an update keeps the number of taskgroups ({application.instances}); scale to {wanted} separately",
                    "$.spec.instance",
                )
            return self._settled(application, scale.create(self._desk.context, application, wanted))
        transaction = update.create(
            self._desk.context,
            application,
            command.version,
            instances=command.instances,
            max_unavailable=command.max_unavailable,
        )
        return self._settled(application, transaction)

    def _rollback(self, command: events.RollbackApplication) -> Data:
        application = self._application(command.namespace, command.name)
        refuse_if_owned(application, "roll back")
        versions = self._desk.state.versions_of(application.key)
        name = command.version
        if name is None:
            older = [int(v) for v in versions if v.isdigit() and v != application.version]
            older = [v for v in older if v < int(application.version)]
            if not older:
                raise Refused("conflict", f"application {application.key} has no earlier version to roll back to")
            name = str(max(older))
        version = versions.get(name)
        if version is None:
            raise Refused("not_found", f"application {application.key} has no version {name}", "version")
        version = msgspec.structs.replace(version, instances=application.instances)
        transaction = update.create(self._desk.context, application, version, instances=command.instances)
        return self._settled(application, transaction)

    def _scale(self, command: events.ScaleApplication) -> Data:
        application = self._application(command.namespace, command.name)
        refuse_if_owned(application, "scale")
        transaction = scale.create(self._desk.context, application, command.instances, inner=command.inner)
        return self._settled(application, transaction)

    def _delete(self, command: events.DeleteApplication) -> Data:
        application = self._application(command.namespace, command.name)
        refuse_if_owned(application, "delete")
        if application.status == "RollingUpdate" and not command.enforce:
            raise Refused("conflict", f"application {application.key} is in a rolling update; delete with enforce=1")
        return accepted(delete.create(self._desk.context, application, enforce=command.enforce))

    def _reschedule(self, command: events.RescheduleTaskGroup) -> Data:
        group: TaskGroup | None = self._desk.state.taskgroups.get(command.taskgroup)
        if group is None:
            raise Refused("not_found", f"taskgroup {command.taskgroup} does not exist")
        if command.host_retain < 0:
            raise Refused("invalid", "hostRetainTime must not be negative", "hostRetainTime")
        return accepted(reschedule.create(self._desk.context, group, command.host_retain))

    def _cancel(self, command: events.CancelTransaction) -> Data:
        transaction = self._desk.state.transactions.get(command.id)
        if transaction is None:
            raise Refused("not_found", f"transaction {command.id} does not exist")
        if not transaction.active:
            raise Refused("conflict", f"transaction {command.id} has ended already: {transaction.status}")
        application = self._desk.state.applications.get(f"{transaction.namespace}/{transaction.application}")
        if application is not None:
            refuse_if_owned(application, "cancel an operation of")
        self._desk.engine.cancel(self._desk.context, transaction, "cancelled on request")
        return accepted(self._desk.state.transactions[command.id])

    def _application(self, namespace: str, name: str) -> Application:
        application = self._desk.state.applications.get(f"{namespace}/{name}")
        if application is None:
            raise Refused("not_found", f"application {namespace}/{name} does not exist")
        return application

    def _settled(self, application: Application, transaction: Transaction | None) -> Data:
        if transaction is not None:
            return accepted(transaction)
        return {"unchanged": True, "namespace": application.namespace, "name": application.name}
