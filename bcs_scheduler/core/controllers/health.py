"""Results of REMOTE health checks, from the built-in prober or an outside module, and what is told of health.

Nothing is ended because of a REMOTE check (the prober may be cut off from what it probes); updates wait for it, and
operators hear of it. Local checks arrive with the status reports, and their executor acts on them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bcs_scheduler.core import events
from bcs_scheduler.core.desk import Desk
from store.ids import taskgroup_of
from store.records import Task, TaskGroup
from transactions import health, lifecycle
from transactions.base import Refused


def find(group: TaskGroup | None, task_id: str) -> Task | None:
    for task in group.tasks if group is not None else ():
        if task.id == task_id:
            return task
    return None


class Health:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def probed(self, event: events.HealthReported) -> None:
        """From the prober. What has no such check or does not run (any more) is ignored."""
        group = self._desk.state.taskgroups.get(taskgroup_of(event.task_id))
        task = find(group, event.task_id)
        if group is not None and task is not None and not _objection(task, event.type):
            self._apply(group, task, event)

    def reported(self, command: events.ReportHealth) -> dict[str, Any]:
        """From an outside module."""
        group = self._desk.state.taskgroups.get(taskgroup_of(command.task_id))
        task = find(group, command.task_id)
        if group is None or task is None:
            raise Refused("not_found", f"task {command.task_id} does not exist")
        objection = _objection(task, command.type)
        if objection:
            raise Refused("conflict", f"task {command.task_id} {objection}")
        self._apply(group, task, command)
        return {"task": task.id, "type": command.type, "healthy": command.healthy}

    def _apply(self, group: TaskGroup, task: Task, event: events.HealthReported | events.ReportHealth) -> None:
        desk = self._desk
        known = next(check for check in task.checks if check.type == event.type)
        result = events.RemoteResult(
            type=event.type,
            healthy=event.healthy,
            message=event.message,
            failures=0 if event.healthy else known.failures + 1,
        )
        checked = lifecycle.with_checks(task, health.apply(task.checks, (result,), desk.now))
        if checked is task:
            return
        tasks = tuple([checked if t is task else t for t in group.tasks])
        desk.uow.put(msgspec.structs.replace(group, tasks=tasks, updated_at=desk.now))
        self.noticed(group, tasks)

    def noticed(self, before: TaskGroup, tasks: tuple[Task, ...]) -> None:
        """Tells and counts tasks of a taskgroup whose health has turned. What is not known yet is nothing to tell."""
        for old, new in zip(before.tasks, tasks, strict=True):
            if new.healthy is old.healthy or new.healthy is None or new.ended:
                continue
            desk = self._desk
            verdict = "healthy" if new.healthy else "unhealthy"
            words = "all health checks pass" if new.healthy else health.complaint(new) or "its executor says so"
            level = "info" if new.healthy else "warning"
            desk.tell("taskgroup", before.id, verdict, f"task {new.name or new.id}: {words}", level)
            desk.count("task_health", (before.namespace, before.application, verdict), 1.0)


def _objection(task: Task, kind: str) -> str:
    """Why a result does not count, in words; empty if it does."""
    if task.status != "Running":
        return f"is {task.status}, not Running"
    if all(check.type != kind for check in task.checks):
        return f"has no health check of type {kind}"
    return ""
