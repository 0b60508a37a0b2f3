"""Results of REMOTE health checks, from the built-in prober or an outside module, and the events about health.

A failed REMOTE check ends no taskgroup, because the prober may be cut off from the tasks. Updates wait for the check,
and an event reports the failure. The results of local checks arrive with the status reports, and the executor acts on
them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.interface import inputs, requests
from store.ids import taskgroup_of
from store.reasons import EventReason
from store.records import Task, TaskGroup
from transactions.base import Refused
from transactions.rules import health, lifecycle


def find(group: TaskGroup | None, task_id: str) -> Task | None:
    """The task with this id; None if the taskgroup is None or has no such task."""
    for task in group.tasks if group is not None else ():
        if task.id == task_id:
            return task
    return None


class Health:
    """Takes over results of health checks that come from outside the executors."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn

    def probed(self, event: inputs.HealthReported) -> None:
        """Applies a result of the prober. Ignored for a task that has no such check or does not run (any more)."""
        group = self._turn.state.taskgroups.get(taskgroup_of(event.task_id))
        task = find(group, event.task_id)
        if group is not None and task is not None and not _objection(task, event.type):
            self._apply(group, task, event)

    def reported(self, command: requests.ReportHealth) -> dict[str, Any]:
        """Applies a health report that an outside module has sent through the API. Raises Refused (not_found,
        conflict)."""
        group = self._turn.state.taskgroups.get(taskgroup_of(command.task_id))
        task = find(group, command.task_id)
        if group is None or task is None:
            raise Refused("not_found", f"task {command.task_id} does not exist")
        objection = _objection(task, command.type)
        if objection:
            raise Refused("conflict", f"task {command.task_id} {objection}")
        self._apply(group, task, command)
        return {"task": task.id, "type": command.type, "healthy": command.healthy}

    def _apply(self, group: TaskGroup, task: Task, event: inputs.HealthReported | requests.ReportHealth) -> None:
        turn = self._turn
        known = next(check for check in task.checks if check.type == event.type)
        result = inputs.RemoteResult(
            type=event.type,
            healthy=event.healthy,
            message=event.message,
            failures=0 if event.healthy else known.failures + 1,
        )
        checked = lifecycle.with_checks(task, health.apply(task.checks, (result,), turn.now))
        if checked is task:
            return
        tasks = tuple([checked if t is task else t for t in group.tasks])
        turn.uow.put(msgspec.structs.replace(group, tasks=tasks, updated_at=turn.now))
        self.noticed(group, tasks)

    def noticed(self, before: TaskGroup, tasks: tuple[Task, ...]) -> None:
        """Records events and counts for tasks of a taskgroup whose verdict has changed. A verdict that is not known yet
        is no change."""
        for old, new in zip(before.tasks, tasks, strict=True):
            if new.healthy is old.healthy or new.healthy is None or new.ended:
                continue
            turn = self._turn
            verdict = "healthy" if new.healthy else "unhealthy"
            words = (
                "all health checks pass"
                if new.healthy
                else health.describe_task_failures(new) or "its executor says so"
            )
            event_reason: EventReason = "TaskGroupHealthy" if new.healthy else "TaskGroupUnhealthy"
            turn.record_event("taskgroup", before.id, event_reason, f"task {new.name or new.id}: {words}")
            turn.count("task_health", (before.namespace, before.application, verdict), 1.0)


def _objection(task: Task, kind: str) -> str:
    """Explains why a result does not count; empty if it counts."""
    if task.status != "Running":
        return f"is {task.status}, not Running"
    if all(check.type != kind for check in task.checks):
        return f"has no health check of type {kind}"
    return ""
