"""Status reports: Mesos updates become task, taskgroup and application status, and are acknowledged once stored.

Every update with a uuid is acknowledged, whether it changed anything or not; the acknowledgement is an effect of the
same unit as the change, so it cannot leave before the change is durable (W-11).
"""

from __future__ import annotations

import msgspec

from bcs_scheduler.core.controllers.checker import Checker
from bcs_scheduler.core.desk import Desk
from bcs_scheduler.core.effects import Acknowledge, Kill
from bcs_scheduler.core.events import AcceptFailed, AgentRemoved, ExecutorTerminated, StatusUpdate
from store.records import Task, TaskGroup
from transactions import lifecycle


def taskgroup_of(task_id: str) -> str:
    """Taskgroup id of a task id: parts [2].[3].[4].[5].[0] (bcs_internals 0.3); empty if it is not one of ours."""
    if task_id.count(".") != 5:
        return ""
    nano, _, rest = task_id.partition(".")
    return f"{rest.partition('.')[2]}.{nano}"


def _find(group: TaskGroup | None, task_id: str) -> Task | None:
    for task in group.tasks if group is not None else ():
        if task.id == task_id:
            return task
    return None


class Reports:
    def __init__(self, desk: Desk, checker: Checker) -> None:
        self._desk = desk
        self._checker = checker

    def status(self, update: StatusUpdate) -> None:
        desk = self._desk
        self._checker.heard(update.task_id)
        mapped = lifecycle.STATES.get(update.state)
        group = desk.state.taskgroups.get(taskgroup_of(update.task_id))
        task = _find(group, update.task_id)
        if update.uuid:
            self._acknowledge(update)
        if mapped is None:
            desk.tell("task", update.task_id, "ignored", f"state {update.state} is not known")
        elif group is None or task is None or (task.ended and not mapped.ended):
            # A task nobody wants: an old leader's late launch, one that was replaced while its agent was away, or one
            # that was declared gone. Its id will never be used again, so ending it can only help.
            if mapped.status in ("Staging", "Starting", "Running"):
                desk.tell("task", update.task_id, "unknown", f"{update.state} of a task that is not wanted; killed")
                desk.emit(Kill(task_id=update.task_id, agent_id=update.agent_id, cause=desk.cause))
        elif not update.agent_id or update.agent_id == group.agent_id:
            self._reduce(group, task, update)

    def _acknowledge(self, update: StatusUpdate) -> None:
        self._desk.emit(
            Acknowledge(task_id=update.task_id, agent_id=update.agent_id, uuid=update.uuid, cause=self._desk.cause)
        )

    def _reduce(self, group: TaskGroup, task: Task, update: StatusUpdate) -> None:
        desk = self._desk
        report = lifecycle.Report(update.state, update.message, update.reason, update.healthy, update.container_ip)
        reduced = lifecycle.reduce_task(task, report, desk.now)
        if reduced is task:
            return
        self._store(group, tuple([reduced if t is task else t for t in group.tasks]))
        if reduced.oom and not task.oom:
            desk.count("application_oom", (group.namespace, group.application), 1.0)

    def _store(self, group: TaskGroup, tasks: tuple[Task, ...]) -> None:
        desk = self._desk
        advanced = desk.uow.put(lifecycle.advance(group, tasks, desk.now))
        desk.count("taskgroup_report", (group.namespace, group.application, group.name, advanced.status), 1.0)
        if advanced.status != group.status:
            desk.tell("taskgroup", group.id, advanced.status, f"{group.status} -> {advanced.status} {advanced.message}")

    def accept_failed(self, event: AcceptFailed) -> None:
        """An ACCEPT that certainly did not happen ends its taskgroups as never started; an unclear one is asked for."""
        for identity in event.taskgroups:
            group = self._desk.state.taskgroups.get(identity)
            if group is None or group.ended:
                continue
            if event.certain and not group.started:
                self.lose(group, f"launch refused: {event.reason}", ended=True)
            else:
                self._checker.ask([task.id for task in group.tasks])
            self._desk.checkpoint()

    def lose(self, group: TaskGroup, message: str, *, ended: bool) -> None:
        """Declares what is left of a taskgroup Lost."""
        tasks = tuple(
            t
            if t.ended
            else msgspec.structs.replace(
                t, status="Lost", last_status=t.status, ended=ended, message=message, updated_at=self._desk.now
            )
            for t in group.tasks
        )
        self._store(group, tasks)

    def executor_terminated(self, event: ExecutorTerminated) -> None:
        group = self._desk.state.taskgroups.get(event.executor_id)
        if group is not None and not group.ended:
            self._checker.ask([task.id for task in group.tasks if not task.ended])

    def agent_removed(self, event: AgentRemoved) -> None:
        self._desk.pool.remove_agent(event.agent_id)
        for group in self._desk.state.groups_on(event.agent_id).values():
            self._checker.ask([task.id for task in group.tasks if not task.ended])
