"""The gate: which slots of an operation may ask for places (docs/decisions/0045-application-managers.md).

A slot of a gang asks when its task has room: with the agent of its placeholder, or as an ordinary one. Work without a
managed application passes, waits or is refused, as a setting says.
"""

from __future__ import annotations

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.controllers.managed.gangs import Gangs, Unit
from offers.policy.applications.gang import Gang
from offers.policy.applications.records import Way
from offers.policy.applications.tables import PlaceholderState, TaskState
from store.records import Transaction
from transactions.base import Slot, Step
from transactions.kinds.registry import kind_of
from transactions.rules.application_types import bound_to_agents
from transactions.rules.gangs import HELD, LOADING, UNMANAGED, is_admitted, is_reserved_by_group


class SlotGate:
    """Implements `transactions.base.Gate`."""

    def __init__(self, turn: TurnContext, gangs: Gangs) -> None:
        self._turn, self._gangs = turn, gangs

    def admitted(self, transaction: Transaction, step: Step) -> Step:
        """The step with the slots that may be placed now; those with freed room first."""
        if not step.slots:
            return step
        unit = self._gangs.units.get(transaction.application_key)
        if unit is None:
            return self._unmanaged(transaction, step)
        if unit.kind == "own" and not kind_of(self._turn.state, transaction).reserves:
            return step
        gang = self._gangs.loaded.get(unit.gang)
        if gang is None:
            return _held(step, LOADING)
        if unit.kind == "placeholder":
            holder = gang.placeholders.get(unit.name)
            is_needed = holder is not None and holder.life.state != PlaceholderState.RELEASING
            return step if is_needed else _held(step, HELD)
        return _of_gang(unit, gang, step)

    def _unmanaged(self, transaction: Transaction, step: Step) -> Step:
        """Replacements of taskgroups that ran are always placed."""
        if self._turn.options.unmanaged != "wait":
            return step
        state = self._turn.state
        application = state.applications.get(transaction.application_key)
        if application is None or bound_to_agents(application) or is_admitted(application.annotations):
            return step
        if is_reserved_by_group(state, application.group):
            return step
        slots = tuple(slot for slot in step.slots if slot.replaces)
        return step._replace(slots=slots) if slots else _held(step, UNMANAGED)


def _of_gang(unit: Unit, gang: Gang, step: Step) -> Step:
    pinned: dict[Slot, str] = {}
    free: list[Slot] = []
    for slot in step.slots:
        member = gang.members.get(unit.name if unit.kind == "task" else str(slot.index))
        if member is None or slot.replaces:
            free.append(slot)
        elif member.life.state == TaskState.ALLOCATED and member.way is Way.SWAP:
            pinned[slot] = member.node
        elif member.life.state not in (TaskState.NEW, TaskState.PENDING) and member.way is Way.ORDINARY:
            free.append(slot)
    if pinned:
        return step._replace(
            slots=tuple(pinned), only_agents=frozenset(pinned.values()), promised=tuple(pinned.items())
        )
    return step._replace(slots=tuple(free)) if free else _held(step, HELD)


def _held(step: Step, why: str) -> Step:
    return step._replace(slots=(), missing=(*step.missing, why) if step.missing else (why,))
