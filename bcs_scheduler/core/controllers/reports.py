"""Status reports: Mesos updates become task, taskgroup and application status, and are acknowledged once stored.

Every update with a uuid is acknowledged, whether it changed anything or not; the acknowledgement is an effect of the
same unit as the change, so it cannot leave before the change is durable (W-11). The steady reports of our executors are
best effort, need no acknowledgement, and mostly change nothing: then they cost nothing.
"""

from __future__ import annotations

import msgspec

from bcs_scheduler.core.controllers.checker import Checker
from bcs_scheduler.core.controllers.health import Health, find
from bcs_scheduler.core.controllers.messenger import Messenger
from bcs_scheduler.core.controllers.remnants import Remnants
from bcs_scheduler.core.desk import Desk
from bcs_scheduler.core.effects import Acknowledge, Shutdown
from bcs_scheduler.core.events import (
    RECONCILIATION,
    AcceptFailed,
    AgentRemoved,
    ExecutorTerminated,
    StatusUpdate,
    TasksReported,
)
from store.ids import taskgroup_of
from store.records import Task, TaskGroup
from transactions import lifecycle


class Reports:
    def __init__(self, desk: Desk, checker: Checker, remnants: Remnants, messenger: Messenger, health: Health) -> None:
        self._desk = desk
        self._checker = checker
        self._remnants = remnants
        self._messenger = messenger
        self._health = health

    def status(self, update: StatusUpdate) -> None:
        desk = self._desk
        answer = update.reason == RECONCILIATION
        self._checker.heard(update.task_id, answer=answer or not update.uuid)
        mapped = lifecycle.STATES.get(update.state)
        group = desk.state.taskgroups.get(taskgroup_of(update.task_id))
        task = find(group, update.task_id)
        if update.uuid:
            self._acknowledge(update)
        if mapped is None:
            desk.tell("task", update.task_id, "ignored", f"state {update.state} is not known")
        elif group is None or task is None or (task.ended and not mapped.ended):
            # A task nobody wants: an old leader's late launch, one that was replaced while its agent was away, or one
            # that was declared gone. Its id will never be used again, so ending it can only help.
            runs = mapped.status in ("Staging", "Starting", "Running")
            if self._remnants.heard(update, ended=mapped.ended, runs=runs):
                desk.tell("task", update.task_id, "unknown", f"{update.state} of a task that is not wanted; killed")
            if runs and update.detail is not None and update.executor_id and (group is None or group.ended):
                self._shut_down(update.agent_id, update.executor_id)
        elif not update.agent_id or update.agent_id == group.agent_id:
            self._reduce(group, task, update, answer=answer)

    def steady(self, report: TasksReported) -> None:
        """Our executor about its tasks. It is not told what has ended: that comes as a status update."""
        desk = self._desk
        group = desk.state.taskgroups.get(report.executor_id)
        if group is None or group.ended:
            words = "a report of a taskgroup that is not wanted; its executor is shut down"
            desk.tell("taskgroup", report.executor_id, "unknown", words)
            self._remnants.stray(report.executor_id, report.agent_id, [task_id for task_id, _ in report.tasks])
            self._shut_down(report.agent_id, report.executor_id)
            return
        if report.agent_id and report.agent_id != group.agent_id:
            return
        self._messenger.heard(group.id)
        tasks = list(group.tasks)
        for task_id, detail in report.tasks:
            for number, task in enumerate(tasks):
                if task.id == task_id and not task.ended:
                    tasks[number] = lifecycle.apply_steady(task, detail, desk.now)
                    self._heard(task)
                    break
        if any(now is not was for now, was in zip(tasks, group.tasks, strict=True)):
            self._store(group, tuple(tasks))

    def _heard(self, task: Task) -> None:
        """A report of a task that is Lost says that its agent may be back: Mesos knows."""
        if task.status == "Lost":
            self._checker.ask((task.id,))
        else:
            self._checker.heard(task.id)

    def _shut_down(self, agent_id: str, executor_id: str) -> None:
        self._desk.emit(Shutdown(executor_id=executor_id, agent_id=agent_id, cause=self._desk.cause))

    def _acknowledge(self, update: StatusUpdate) -> None:
        self._desk.emit(
            Acknowledge(task_id=update.task_id, agent_id=update.agent_id, uuid=update.uuid, cause=self._desk.cause)
        )

    def _reduce(self, group: TaskGroup, task: Task, update: StatusUpdate, *, answer: bool) -> None:
        desk = self._desk
        report = lifecycle.Report(
            update.state,
            update.message,
            update.reason,
            update.healthy,
            update.container_ip,
            update.detail,
            answer,
            update.unfetched,
        )
        reduced = lifecycle.reduce_task(task, lifecycle.judged(report, group), desk.now)
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
            words = f"{group.status} -> {advanced.status} {advanced.message}"
            unasked = advanced.status == "Killed" and not group.killing_since
            desk.tell("taskgroup", group.id, advanced.status, words, "warning" if unasked else "info")
        self._health.noticed(group, tasks)

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
