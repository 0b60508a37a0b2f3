"""Reports the states of the taskgroups of placeholders and tasks to their gangs."""

from __future__ import annotations

from collections.abc import Iterable

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.controllers.managed import units
from bcs_scheduler.core.controllers.managed.gangs import Gangs, Unit
from offers.policy.applications.gangs.effects import Launch
from offers.policy.applications.gangs.gang import Gang
from offers.policy.applications.gangs.records import Way
from offers.policy.applications.metadata import Outcome
from offers.policy.applications.tables import PlaceholderState, TaskState
from store.ids import object_key, part_key
from store.records import TaskGroup
from transactions.rules.taskgroups import lifecycle

PROMISE_SECONDS = 60.0
"""Seconds that a task waits for the room that a placeholder has freed for it. Then it asks like any other."""


class Observing:
    """Reads records, and calls the methods of gangs that take facts."""

    def __init__(self, turn: TurnContext, gangs: Gangs) -> None:
        self._turn, self._gangs = turn, gangs

    def all_of(self, gang: Gang) -> None:
        """Looks at all placeholders and tasks."""
        for name in list(gang.placeholders):
            self._placeholder(gang, name)
        for name in list(gang.members):
            self._member(gang, name)
        self._promises(gang)

    def some_of(self, gang: Gang, touched: Iterable[tuple[Unit, int]]) -> None:
        """Looks at the units that have changed. The number is the index of the changed taskgroup."""
        for unit, index in touched:
            if unit.kind == "placeholder":
                self._placeholder(gang, unit.name)
            else:
                self._member(gang, unit.name if unit.kind == "task" else str(index))
        self._promises(gang)

    def next_wake(self, gang: Gang) -> float | None:
        """Unix seconds at which the gang is looked at again; None: at no particular time."""
        times = [self._promised_until(gang, effect.task) for effect in gang.due() if isinstance(effect, Launch)]
        wake = gang.next_wake()
        return min([*times, *([wake] if wake is not None else [])], default=None)

    # --- placeholders -----------------------------------------------------------------------------------------

    def _placeholder(self, gang: Gang, name: str) -> None:
        holder = gang.placeholders.get(name)
        if holder is None:
            return
        group, now = self._newest(gang, name), self._turn.now
        there = group is not None and not group.unreachable_since and (not group.ended or self._returns(group))
        if group is not None and holder.node and group.agent_id != holder.node:
            there = False  # a drain or a user has moved it: the room on its node is not held any more
        state = holder.life.state
        if state == PlaceholderState.ASKED and there and group is not None:
            gang.allocated(name, group.agent_id, now)
            state = gang.placeholders[name].life.state
        if state == PlaceholderState.ALLOCATED and there and group is not None and group.status == "Running":
            gang.bound(name, now)
        elif state != PlaceholderState.ASKED and not there:
            gang.gone(name, now)

    def _returns(self, group: TaskGroup) -> bool:
        """True if room waits for the taskgroup that is launched in place of one whose launch did not leave."""
        return not group.killing_since and group.id in self._turn.pool.holds.leaving

    def _newest(self, gang: Gang, name: str) -> TaskGroup | None:
        record = self._turn.state.managed_applications[gang.record.key]
        groups = self._turn.state.groups_of(object_key(record.namespace, name))
        return max(groups.values(), key=lambda group: group.created_at, default=None)

    # --- tasks ------------------------------------------------------------------------------------------------

    def _member(self, gang: Gang, name: str) -> None:
        member = gang.members.get(name)
        if member is None:
            return
        group, now = self._group(gang, name), self._turn.now
        if member.life.state == TaskState.SCHEDULING and member.way is Way.ORDINARY and group is not None:
            gang.allocated(name, group.agent_id, now)
        if gang.members[name].life.state == TaskState.ALLOCATED and group is not None:
            gang.launched(name, now)
        state = gang.members[name].life.state
        ended = state == TaskState.KILLING and (group is None or group.ended)
        if ended or (state == TaskState.BOUND and self._is_over(gang, name, group)):
            gang.ended(name, now, _outcome(group) if group is not None and group.ended else None)

    def _group(self, gang: Gang, name: str) -> TaskGroup | None:
        state = self._turn.state
        task = state.managed_tasks.get(part_key(gang.record.key, name))
        if task is None:
            return None
        if task.unit:
            key = object_key(task.namespace, task.unit)
            groups = state.groups_of(key) if units.is_ours(state.applications.get(key)) else {}
            return max(groups.values(), key=lambda group: group.created_at, default=None)
        if not state.indexes_of(gang.record.key).get(task.index):
            return None
        groups = state.groups_of(gang.record.key)
        return next((group for group in groups.values() if group.index == task.index), None)

    def _is_over(self, gang: Gang, name: str, group: TaskGroup | None) -> bool:
        """True if the task of a manager has ended for good. Taskgroups of a reservation belong to their application,
        which restarts them."""
        state = self._turn.state
        task = state.managed_tasks.get(part_key(gang.record.key, name))
        if task is None or not task.unit:
            return False
        key = object_key(task.namespace, task.unit)
        application = state.applications.get(key)
        if group is None or application is None:
            return not state.active_of(key) or application is None
        version = state.version(key, group.version)
        if not group.ended or version is None:
            return False
        reset = self._turn.options.transactions.periods.restart_reset
        decision = lifecycle.restart_decision(
            group, version.restart_policy, version.unreachable_policy, reset, self._turn.now
        )
        return decision is None

    # --- promises ---------------------------------------------------------------------------------------------

    def _promises(self, gang: Gang) -> None:
        late = [
            effect.task
            for effect in gang.due()
            if isinstance(effect, Launch) and self._promised_until(gang, effect.task) <= self._turn.now
        ]
        for name in late:
            gang.returned(name, self._turn.now)

    def _promised_until(self, gang: Gang, name: str) -> float:
        history = gang.members[name].life.history
        return (history[-1].at if history else self._turn.now) + PROMISE_SECONDS


def _outcome(group: TaskGroup) -> Outcome:
    """The end of a taskgroup, with the cause of its first task that did not end well, or else of its first task."""
    first = next((task for task in group.tasks if task.status != "Finish"), next(iter(group.tasks), None))
    if first is None:
        return Outcome(group.status)
    return Outcome(group.status, first.reason, first.message, first.exit_code)
