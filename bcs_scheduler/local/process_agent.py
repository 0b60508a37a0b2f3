"""Agents that run tasks as real processes, each taskgroup as Mesos' default executor would."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from bcs_scheduler.local.agent import Agent, Reports
from bcs_scheduler.local.model import TERMINAL, Executor, Task
from bcs_scheduler.local.process import Launcher
from bcs_scheduler.local.settings import AgentSpec
from bcs_scheduler.local.task_run import TaskRun
from bcs_scheduler.mesos.proto import mesos_pb2 as pb


class ProcessAgent(Agent):
    """`sandboxes` gets a directory per framework, executor, container and task."""

    def __init__(self, agent_id: str, spec: AgentSpec, reports: Reports, launcher: Launcher, sandboxes: Path) -> None:
        super().__init__(agent_id, spec, reports)
        self._launcher = launcher
        self._sandboxes = sandboxes
        self._runs: dict[tuple[str, str], TaskRun] = {}

    @property
    def runs(self) -> list[TaskRun]:
        return list(self._runs.values())

    def launch(self, executor: Executor, tasks: list[Task]) -> None:
        if executor.info.type == pb.ExecutorInfo.CUSTOM or executor.info.HasField("command"):
            self._refuse(executor, tasks)
            return
        for task in tasks:
            self.reports.task_status(task, pb.TASK_STARTING)
        for task in tasks:
            run = TaskRun(task, self.reports, self._launcher, self.sandbox(task), self._ended)
            self._runs[task.framework.id, task.id] = run
            run.start()

    def _refuse(self, executor: Executor, tasks: list[Task]) -> None:
        for task in tasks:
            executor.tasks.pop(task.id, None)
            self.reports.task_status(
                task,
                pb.TASK_FAILED,
                message="The embedded cluster runs no custom executors",
                reason=pb.TaskStatus.REASON_EXECUTOR_TERMINATED,
                source=pb.TaskStatus.SOURCE_AGENT,
            )
        self._leave_if_idle(executor)

    def sandbox(self, task: Task) -> Path:
        executor = task.executor
        parts = (task.framework.id, executor.id, executor.container_id, task.id)
        return self._sandboxes.joinpath(self.spec.hostname, *parts)

    def _ended(self, run: TaskRun, state: int) -> None:
        """The executor's reaction: a task that failed or was killed takes its group with it."""
        task = run.task
        executor = task.executor
        self._runs.pop((task.framework.id, task.id), None)
        executor.tasks.pop(task.id, None)
        if state != pb.TASK_FINISHED:
            for other in list(executor.tasks.values()):
                self.kill(other, None)
        self._leave_if_idle(executor)

    def _leave_if_idle(self, executor: Executor) -> None:
        if not executor.tasks:
            asyncio.get_running_loop().call_soon(self.reports.executor_exited, executor, 0)

    def kill(self, task: Task, grace: float | None) -> None:
        run = self._runs.get((task.framework.id, task.id))
        if run is not None and task.latest not in TERMINAL:
            run.kill(grace)

    def strike(self, task: Task, number: signal.Signals) -> None:
        """A signal from outside, as an operator on the machine might send it."""
        run = self._runs.get((task.framework.id, task.id))
        if run is not None:
            self._launcher.signal(run.process, number)

    def shutdown(self, executor: Executor) -> None:
        for task in list(executor.tasks.values()):
            self.kill(task, None)

    def destroy(self) -> None:
        for run in self.runs:
            run.abandon()
        self._runs.clear()
        for executor in self.executors.values():
            executor.tasks.clear()
