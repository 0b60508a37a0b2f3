"""Changes of taskgroups that run nothing: the core reports about them to itself."""

from __future__ import annotations

import msgspec

from bcs_scheduler.core.context import TurnContext
from store.reasons import TASKGROUP_TURNED
from store.records import TaskGroup
from store.records.running import Task
from transactions.rules import lifecycle
from transactions.rules.task_states import TaskState


def report(turn: TurnContext, group: TaskGroup, state: TaskState, message: str) -> None:
    """All tasks of a taskgroup have reached a state."""
    applied = lifecycle.applied_report(lifecycle.Report(state, message, "", None, "", None), group)
    _store(
        turn,
        group,
        tuple(task if task.ended else lifecycle.reduce_task(task, applied, turn.now) for task in group.tasks),
    )


def lose(turn: TurnContext, group: TaskGroup, message: str) -> None:
    """The room of a taskgroup does not exist any more."""
    lost = {"status": "Lost", "ended": True, "message": message, "updated_at": turn.now}
    _store(
        turn,
        group,
        tuple(
            task if task.ended else msgspec.structs.replace(task, last_status=task.status, **lost)
            for task in group.tasks
        ),
    )


def _store(turn: TurnContext, group: TaskGroup, tasks: tuple[Task, ...]) -> None:
    advanced = turn.uow.put(lifecycle.advance(group, tasks, turn.now))
    if advanced.status != group.status:
        words = f"{group.status} -> {advanced.status} {advanced.message}"
        turn.record_event("taskgroup", group.id, TASKGROUP_TURNED[advanced.status], words)
    turn.checkpoint()
