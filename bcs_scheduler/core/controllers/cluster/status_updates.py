"""Status reports become task, taskgroup and application status, and are acknowledged once stored.

Every update with a uuid is acknowledged, whether it changed anything or not; the acknowledgement is an effect of the
same unit as the change, so it cannot leave before the change is durable (docs/original.md#acknowledge-after-save).
An update that says Starting is acknowledged at once and recorded only if it stays the latest one for a second: the
cluster manager sends the next update after the acknowledgement, and most tasks run a moment later
(docs/decisions/0118-starting-without-a-record.md).
The steady reports of our executors are best effort, need no acknowledgement, and mostly change nothing: then they
cost nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.controllers.cluster.message_sender import MessageSender
from bcs_scheduler.core.controllers.cluster.orphaned_tasks import OrphanedTasks
from bcs_scheduler.core.controllers.cluster.reconciler import Reconciler
from bcs_scheduler.core.controllers.cluster.unknown_tasks import UnknownTasks
from bcs_scheduler.core.controllers.health import Health, find
from bcs_scheduler.core.controllers.holds.interrupted_launches import InterruptedLaunches
from bcs_scheduler.core.controllers.kept_outputs import KeptOutputs
from bcs_scheduler.core.interface.cluster_manager import (
    Acknowledge,
    AgentRemoved,
    ExecutorTerminated,
    LaunchFailed,
    StatusUpdate,
    TasksReported,
)
from store.ids import taskgroup_of
from store.reasons import TASKGROUP_TURNED
from store.records import Task, TaskGroup
from transactions.rules import lifecycle, relaunch
from transactions.rules.task_states import TaskState

STARTING_UNRECORDED = 1.0
"""Seconds for which an update that says Starting has no record. People who watch a launch notice no difference."""


class StatusUpdates:
    """Turns reports about tasks, executors and agents into changes of taskgroups."""

    def __init__(
        self,
        turn: TurnContext,
        reconciler: Reconciler,
        orphaned_tasks: OrphanedTasks,
        message_sender: MessageSender,
        health: Health,
        outputs: KeptOutputs,
        interrupted: InterruptedLaunches,
        unknown_tasks: UnknownTasks,
    ) -> None:
        self._turn = turn
        self._reconciler = reconciler
        self._orphaned_tasks = orphaned_tasks
        self._message_sender = message_sender
        self._health = health
        self._outputs = outputs
        self._interrupted = interrupted
        self._unknown_tasks = unknown_tasks
        self._starting: dict[str, tuple[StatusUpdate, float]] = {}
        """Updates that say Starting and have no record yet, by task, the oldest first; each with the Unix seconds at
        which it is recorded. They are acknowledged: a new leader asks for the tasks and learns the same."""

    # --- the part of the core -----------------------------------------------------------------------------------

    def recover(self) -> None:
        """Forgets updates without a record: the reconciliation at the begin of a term brings them again."""
        self._starting.clear()

    def notice(self, changed: Sequence[tuple[str, str]]) -> None:
        """Ignores changes: a record that has changed in the meantime is found when its time has come."""

    def next_timer(self) -> float | None:
        """Unix seconds at which an update has to be recorded; None: all are."""
        return next((due for _, due in self._starting.values()), None)

    def tick(self) -> None:
        """Records the updates that have stayed the latest ones."""
        due: list[str] = []
        for task_id, (_, at) in self._starting.items():
            if at > self._turn.now:
                break
            due.append(task_id)
        if due:
            self._turn.each("task", due, self._record_starting)

    def _record_starting(self, task_id: str) -> None:
        update, _ = self._starting.pop(task_id)
        group = self._turn.state.taskgroups.get(taskgroup_of(task_id))
        task = find(group, task_id)
        if group is not None and task is not None:
            self._reduce(group, task, update, answer=False)
            self._turn.checkpoint()

    # --- reports ------------------------------------------------------------------------------------------------

    def status(self, update: StatusUpdate) -> None:
        """Handles one status update; the acknowledgement leaves when the change is durable."""
        turn = self._turn
        answer = update.answer
        self._reconciler.heard(update.task_id, answer=answer or not update.uuid)
        mapped = lifecycle.STATES.get(update.state)
        group = turn.state.taskgroups.get(update.executor_id)
        task = find(group, update.task_id)
        if task is None:  # the executor is not named, or its taskgroup does not exist
            group = turn.state.taskgroups.get(taskgroup_of(update.task_id))
            task = find(group, update.task_id)
        if update.uuid:
            self._acknowledge(update)
        if mapped is None:
            turn.record_event("task", update.task_id, "TaskReportIgnored", f"state {update.state} is not known")
        elif group is None or task is None or (task.ended and not mapped.ended):
            # An unwanted task: a late launch of an old leader, a task replaced while its agent was unreachable, or one
            # that was declared gone. Its id is never used again, so killing it does no harm, unless the store is not
            # the one with which it was launched.
            runs = mapped.status in ("Staging", "Starting", "Running")
            if group is None and self._unknown_tasks.heard(update, ended=mapped.ended, runs=runs):
                return
            if self._orphaned_tasks.heard(update, ended=mapped.ended, runs=runs):
                turn.record_event(
                    "task", update.task_id, "TaskNotWanted", f"{update.state} of a task that is not wanted; killed"
                )
            if runs and update.detail is not None and update.executor_id and (group is None or group.ended):
                self._orphaned_tasks.shut_down(update.executor_id, update.agent_id)
        elif not update.agent_id or update.agent_id == group.agent_id:
            self._follow(group, task, update)

    def _follow(self, group: TaskGroup, task: Task, update: StatusUpdate) -> None:
        """Applies an update to its task, or keeps it for a moment if it says Starting."""
        if update.state == TaskState.STARTING and update.uuid and not update.answer and task.status == "Staging":
            self._interrupted.confirmed(group.id)
            self._starting.setdefault(task.id, (update, self._turn.now + STARTING_UNRECORDED))
            return
        if task.id in self._starting:
            if update.state == TaskState.RUNNING:
                del self._starting[task.id]
            else:  # the meaning of an end depends on whether the task had begun to start
                self._record_starting(task.id)
                group = self._turn.state.taskgroups[group.id]
                task = find(group, task.id) or task
        self._reduce(group, task, update, answer=update.answer)

    def steady(self, report: TasksReported) -> None:
        """Takes a steady report of an executor about its tasks. Such a report never says that a task has ended; that
        comes as a status update."""
        turn = self._turn
        group = turn.state.taskgroups.get(report.executor_id)
        if group is None and self._unknown_tasks.steady(
            report.executor_id, report.agent_id, [task_id for task_id, _ in report.tasks]
        ):
            return
        if group is None or group.ended:
            words = "a report of a taskgroup that is not wanted; its executor is shut down"
            turn.record_event("taskgroup", report.executor_id, "TaskGroupNotWanted", words)
            self._orphaned_tasks.stray(report.executor_id, report.agent_id, [task_id for task_id, _ in report.tasks])
            self._orphaned_tasks.shut_down(report.executor_id, report.agent_id)
            return
        if report.agent_id and report.agent_id != group.agent_id:
            return
        self._message_sender.heard(group.id)
        tasks = list(group.tasks)
        for task_id, detail in report.tasks:
            for number, task in enumerate(tasks):
                if task.id == task_id and not task.ended:
                    tasks[number] = lifecycle.apply_steady(task, detail, turn.now)
                    self._heard(task)
                    break
        if any(now is not was for now, was in zip(tasks, group.tasks, strict=True)):
            self._store(group, tuple(tasks))

    def _heard(self, task: Task) -> None:
        """A report of a task that is Lost says that its agent may be back: the cluster manager knows."""
        if task.status == "Lost":
            self._reconciler.ask((task.id,))
        else:
            self._reconciler.heard(task.id)

    def _acknowledge(self, update: StatusUpdate) -> None:
        self._turn.emit(
            Acknowledge(task_id=update.task_id, agent_id=update.agent_id, uuid=update.uuid, cause=self._turn.cause)
        )

    def _reduce(self, group: TaskGroup, task: Task, update: StatusUpdate, *, answer: bool) -> None:
        turn = self._turn
        report = lifecycle.Report(
            update.state,
            update.message,
            update.reason,
            update.healthy,
            update.container_ip,
            update.detail,
            answer,
            update.unfetched,
            update.out_of_memory,
        )
        if relaunch.lacks_reason(report, group):
            return
        reduced = lifecycle.reduce_task(task, lifecycle.applied_report(report, group), turn.now)
        if not reduced.ended:
            self._interrupted.confirmed(group.id)
        if reduced is task:
            return
        self._store(group, tuple([reduced if t is task else t for t in group.tasks]))
        self._outputs.changed(group, task, reduced)
        if reduced.oom and not task.oom:
            turn.count("application_oom", (group.namespace, group.application), 1.0)

    def _store(self, group: TaskGroup, tasks: tuple[Task, ...]) -> None:
        turn = self._turn
        advanced = turn.uow.put(lifecycle.advance(group, tasks, turn.now))
        turn.count("taskgroup_report", (group.namespace, group.application, group.name, advanced.status), 1.0)
        if advanced.status != group.status:
            words = f"{group.status} -> {advanced.status} {advanced.message}"
            unasked = advanced.status == "Killed" and not group.killing_since
            turn.record_event(
                "taskgroup", group.id, TASKGROUP_TURNED[advanced.status], words, "warning" if unasked else None
            )
        self._health.noticed(group, tasks)

    def launch_failed(self, event: LaunchFailed) -> None:
        """An ACCEPT that certainly did not happen ends its taskgroups as never started; an unclear one is asked for."""
        self._turn.each("taskgroup", event.taskgroups, partial(self._launch_failed, event))

    def _launch_failed(self, event: LaunchFailed, identity: str) -> None:
        group = self._turn.state.taskgroups.get(identity)
        if group is None or group.ended:
            return
        if event.certain and not group.started:
            self.lose(group, f"launch refused: {event.reason}", ended=True)
        else:
            self._reconciler.ask([task.id for task in group.tasks])
        self._turn.checkpoint()

    def lose(self, group: TaskGroup, message: str, *, ended: bool) -> None:
        """Declares the tasks of a taskgroup that have not ended Lost."""
        tasks = tuple(
            t
            if t.ended
            else msgspec.structs.replace(
                t, status="Lost", last_status=t.status, ended=ended, message=message, updated_at=self._turn.now
            )
            for t in group.tasks
        )
        self._store(group, tasks)

    def executor_terminated(self, event: ExecutorTerminated) -> None:
        """Asks for the state of the tasks: the end of an executor says nothing about how they ended."""
        group = self._turn.state.taskgroups.get(event.executor_id)
        if group is not None and not group.ended:
            self._reconciler.ask([task.id for task in group.tasks if not task.ended])

    def agent_removed(self, event: AgentRemoved) -> None:
        """Drops the offers of the agent and asks for the state of its tasks."""
        self._turn.pool.hand.remove_agent(event.agent_id)
        groups = self._turn.state.groups_on(event.agent_id)

        def ask(key: str) -> None:
            self._reconciler.ask([task.id for task in groups[key].tasks if not task.ended])

        self._turn.each("taskgroup", list(groups), ask)
