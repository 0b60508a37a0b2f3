"""The core as the engine of gangs (offers.policy.applications.gangs.effects.Engine).

Asks, allocations and placeholders are applications with one taskgroup each, so the placement in force gives them room
and counts their usage. Calls of the gang that change something change its records, too; only its questions are answered
here.
"""

from __future__ import annotations

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.placement.placer import WhatIf
from offers.dimensions import Amounts
from offers.policy.amounts import Vector
from store.ids import namespace_of, part_key
from store.records import ManagedTask, Queue, Version
from transactions.base import Slot, Step
from transactions.resources import resource_request
from transactions.rules.queues import queue_of


class CoreEngine:
    """Answers gangs from the records and the offers."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn

    def refusal(self, application: str, queue: str, placeholder_ask: Vector) -> str | None:
        """A message if the queue cannot take a gang of this size; None if it can. Only the policy `session` has queues
        whose records limit a gang."""
        if self._turn.options.policy is None:
            return None
        actual = queue_of(self._turn.state, namespace_of(application))
        if queue and queue != actual:
            return f"the namespace {namespace_of(application)} belongs to queue {actual}, not to {queue}"
        record: Queue | None = self._turn.state.queues.get(actual)
        for name, amount in placeholder_ask.items():
            most = getattr(record.capability, name, None) if record is not None else None
            if most is not None and amount > most:
                return f"the capability of queue {actual} is smaller than the gang: {name}"
        return None

    def ask(self, application: str, name: str, request: Amounts, created: float) -> None:
        """Does nothing: the records say that the task asks."""

    def withdraw(self, application: str, name: str) -> None:
        """Does nothing: the records say that the task does not ask any more."""

    def occupy(self, application: str, name: str, request: Amounts, node: str) -> None:
        """Does nothing: the taskgroup counts."""

    def release(self, application: str, name: str) -> None:
        """Does nothing: the taskgroup counts until it has ended."""

    def hold(self, application: str, name: str, request: Amounts, node: str) -> None:
        """Does nothing: room on another node is never chosen (`find`)."""

    def replace(self, application: str, placeholder: str, name: str, request: Amounts, node: str) -> None:
        """Does nothing: the task is placed on the node before any other work (`Step.promised`)."""

    def suits(self, application: str, name: str, node: str) -> bool:
        """True if the task may run on the node of a placeholder when the placeholder is gone."""
        task: ManagedTask | None = self._turn.state.managed_tasks.get(part_key(application, name))
        if task is None:
            return True
        version = self._definition(application, task)
        if version is None or not version.constraints:
            return True  # the placeholder has passed the same tests
        return self._fits(version, task.index, application, node)

    def find(self, application: str, name: str, request: Amounts) -> str | None:  # noqa: ARG002
        """Returns None: a task that fits no placeholder waits for another one, or for the end of the reservation."""
        return None

    def _definition(self, application: str, task: ManagedTask) -> Version | None:
        if task.version is not None:
            return task.version
        owner = self._turn.state.applications.get(application)
        return self._turn.state.version(application, owner.version) if owner is not None else None

    def _fits(self, version: Version, index: int, application: str, node: str) -> bool:
        turn = self._turn
        holders = turn.state.indexes.managed_by("placeholder", application)
        gone = tuple(occupant for occupant in turn.occupants(node) if occupant.application in holders)
        step = Step(slots=(Slot(index),), version=version.name, only_agents=frozenset({node}))
        options = turn.options
        demand = resource_request.demand("swap", version, step, options.transactions.role, options.traits.overhead)
        return bool(turn.placer.plan([demand], WhatIf(gone)).placements)
