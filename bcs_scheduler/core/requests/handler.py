"""The handler of requests: turns them into transactions and records. Every request is answered by exactly one Reply.

A refused request raises transactions.base.Refused; the core undoes its changes and replies with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import msgspec

from bcs_scheduler.core import new_versions, priority_bounds
from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.controllers.cluster.offer_manager import OfferManager
from bcs_scheduler.core.controllers.health import Health
from bcs_scheduler.core.interface import requests, unknown
from bcs_scheduler.core.placement import rebalancing
from bcs_scheduler.core.requests import queue, what_if
from bcs_scheduler.core.requests.answers import Data, Handlers, accepted, refuse_if_owned, refuse_oversized
from bcs_scheduler.core.requests.kinds import (
    commands,
    configuration,
    daemonsets,
    deployments,
    extensions,
    groups,
    managed,
    namespaces,
    priorities,
    services,
    trees,
)
from bcs_scheduler.core.requests.kinds.agents import AgentRequests
from store.advice import advise
from store.ids import object_key
from store.records import Application, TaskGroup, Transaction
from transactions import base, resource_request
from transactions.base import Refused
from transactions.kinds import delete, launch, reschedule, scale, update
from transactions.rules.quota_usage import STORED


class Module(Protocol):
    """A module that handles requests: its handlers by type of request."""

    HANDLERS: Handlers


MODULES: tuple[Module, ...] = (
    configuration,
    daemonsets,
    deployments,
    commands,
    services,
    namespaces,
    priorities,
    groups,
    managed,
    extensions,
    what_if,
)


BOUNDED = frozenset({*priority_bounds.KINDS, *STORED})
"""Kinds of records that quotas or greatest priorities bound."""


class RequestHandler:
    """One method per command; each returns the data of its reply."""

    def __init__(
        self,
        turn: TurnContext,
        offer_manager: OfferManager,
        health: Health,
        resume: Callable[[requests.ResumeReplacements], Data],
        decide: Callable[[unknown.DecideUnknown], Data],
    ) -> None:
        self._turn = turn
        self.queue = queue.RequestQueue(turn)
        self.agents = AgentRequests(turn, offer_manager)
        self._handlers: dict[type[requests.Request], Callable[[Any], Data]] = {
            requests.CreateApplication: self._create,
            requests.UpdateApplication: self._update,
            requests.RollbackApplication: self._rollback,
            requests.ScaleApplication: self._scale,
            requests.DeleteApplication: self._delete,
            requests.RescheduleTaskGroup: self._reschedule,
            requests.CancelTransaction: self._cancel,
            requests.ReportHealth: health.reported,
            requests.ResumeReplacements: resume,
            unknown.DecideUnknown: decide,
            requests.Rebalance: partial(rebalancing.run, turn),
            **self.agents.handlers,
            **trees.TreeRequests(turn, offer_manager.placing).handlers,
        }
        for module in MODULES:
            for kind, work in module.HANDLERS.items():
                self._handlers[kind] = partial(work, turn)

    def run(self, command: requests.Request) -> Data:
        """Carries out a request and returns the data of its answer. Raises Refused."""
        if not isinstance(command, queue.Queueable):
            return self._first(command)
        if command.on_conflict == "queue":
            return self.queue.take(command, self.carry_out, self._first)
        return self.queue.naming(command, self._first)

    def _first(self, command: requests.Request) -> Data:
        """Before the requests that wait for the same object."""

        def work(request: requests.Request) -> Data:
            self.queue.make_way(request)
            return self._work(request)

        return self._bounded(partial(work, command))

    def carry_out(self, command: requests.Request) -> Data:
        """Carries out a request whose turn has come. Raises Refused."""
        return self._bounded(partial(self._work, command))

    def _bounded(self, work: Callable[[], Data]) -> Data:
        """Does the work within the quotas and the greatest priorities of namespaces. Raises Refused."""
        turn = self._turn
        point = turn.uow.savepoint()
        data = turn.quotas.check_after(partial(turn.priorities.check_after, work))
        if turn.unsound and any(kind in BOUNDED for kind, _ in turn.uow.before(point)):
            turn.require("quotas", "priorities")
        return data

    def _work(self, command: requests.Request) -> Data:
        managed.refuse_unmanaged(self._turn, command)
        handler = self._handlers.get(type(command))
        if handler is None:
            raise Refused("invalid", f"{type(command).__name__} is not a known request")
        return handler(command)

    def _create(self, command: requests.CreateApplication) -> Data:
        refuse_oversized(command.version)
        version = new_versions.resolved(self._turn, command.version)
        _, transaction = launch.create(self._turn.context, version, command.type, command.user, command.user_groups)
        return accepted(transaction)

    def _update(self, command: requests.UpdateApplication) -> Data:
        refuse_oversized(command.version)
        application = self._application(command.version.namespace, command.version.application)
        refuse_if_owned(application, "update")
        if command.size is not None:
            sized = msgspec.structs.replace(command.version, instances=command.size)
            command = msgspec.structs.replace(command, version=sized)
        elif not command.version.instances:
            kept = msgspec.structs.replace(command.version, instances=application.instances)
            command = msgspec.structs.replace(command, version=kept)
        newest = self._turn.state.version(application.key, application.version)
        command = msgspec.structs.replace(command, version=new_versions.resolved(self._turn, command.version, newest))
        if command.resources_only:
            return commands.change_limits(self._turn, command)
        wanted = command.version.instances
        if wanted != application.instances and newest is not None and update.same_definition(newest, command.version):
            resource_request.refuse_too_few_addresses(newest, wanted)
            scaled = scale.create(self._turn.context, application, wanted, on_conflict=command.on_conflict)
            return self._settled(application, scaled)
        transaction = update.create(
            self._turn.context,
            application,
            command.version,
            instances=command.instances,
            max_unavailable=command.max_unavailable,
            size=wanted,
            on_conflict=command.on_conflict,
        )
        return self._settled(application, transaction)

    def _rollback(self, command: requests.RollbackApplication) -> Data:
        application = self._application(command.namespace, command.name)
        refuse_if_owned(application, "roll back")
        versions = self._turn.state.versions_of(application.key)
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
        transaction = update.create(
            self._turn.context, application, version, instances=command.instances, on_conflict=command.on_conflict
        )
        return self._settled(application, transaction)

    def _scale(self, command: requests.ScaleApplication) -> Data:
        application = self._application(command.namespace, command.name)
        refuse_if_owned(application, "scale")
        version = self._turn.state.version(application.key, application.version)
        resource_request.refuse_too_few_addresses(version, command.instances)
        transaction = scale.create(
            self._turn.context, application, command.instances, inner=command.inner, on_conflict=command.on_conflict
        )
        return self._settled(application, transaction)

    def _delete(self, command: requests.DeleteApplication) -> Data:
        application = self._application(command.namespace, command.name)
        refuse_if_owned(application, "delete")
        if application.status == "RollingUpdate" and not command.enforce:
            words = f"application {application.key} is in a rolling update"
            raise Refused("conflict", f"{words}; {advise('delete_by_force')}")
        return accepted(delete.create(self._turn.context, application, enforce=command.enforce))

    def _reschedule(self, command: requests.RescheduleTaskGroup) -> Data:
        group: TaskGroup | None = self._turn.state.taskgroups.get(command.taskgroup)
        if group is None:
            raise Refused("not_found", f"taskgroup {command.taskgroup} does not exist")
        if command.host_retain < 0:
            raise Refused("invalid", "hostRetainTime must not be negative", "hostRetainTime")
        return accepted(reschedule.create(self._turn.context, group, command.host_retain))

    def _cancel(self, command: requests.CancelTransaction) -> Data:
        transaction = self._turn.state.transactions.get(command.id)
        if transaction is None:
            raise Refused("not_found", f"transaction {command.id} does not exist")
        if transaction.ended:
            raise Refused("conflict", f"transaction {command.id} has ended already: {transaction.status}")
        if transaction.waiting:
            base.end(self._turn.context, transaction, "CANCEL", "cancelled on request", 0)
            return accepted(self._turn.state.transactions[command.id])
        application = self._turn.state.applications.get(transaction.application_key)
        if application is not None:
            refuse_if_owned(application, "cancel an operation of")
        self._turn.engine.cancel(self._turn.context, transaction, "cancelled on request")
        return accepted(self._turn.state.transactions[command.id])

    def _application(self, namespace: str, name: str) -> Application:
        application = self._turn.state.applications.get(object_key(namespace, name))
        if application is None:
            raise Refused("not_found", f"application {object_key(namespace, name)} does not exist")
        return application

    def _settled(self, application: Application, transaction: Transaction | None) -> Data:
        if transaction is not None:
            return accepted(transaction)
        return {"unchanged": True, "namespace": application.namespace, "name": application.name}
