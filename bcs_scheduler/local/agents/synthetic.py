"""Agents without processes: tasks are only states, so one process can hold thousands of agents."""

from __future__ import annotations

import asyncio

import msgspec

from bcs_scheduler.local.objects.model import TERMINAL, Agent, Executor, Reports, Task
from bcs_scheduler.local.settings import AgentSpec
from bcs_scheduler.mesos.proto import mesos_pb2 as pb


class Asked(msgspec.Struct):
    """The fields of a message to an executor that an answer needs."""

    type: str
    id: str = ""
    tasks: tuple[str, ...] = ()


class Result(msgspec.Struct):
    task: str
    ok: bool = True
    message: str = ""
    exit_code: int = 0
    stdout: str = ""
    stderr: str = ""
    truncated: bool = False


class Answer(msgspec.Struct):
    id: str
    results: tuple[Result, ...]
    v: int = 1
    type: str = "answer"
    status: str = "success"
    message: str = ""


class SyntheticAgent(Agent):
    def __init__(self, agent_id: str, spec: AgentSpec, reports: Reports, start_delay: float) -> None:
        super().__init__(agent_id, spec, reports)
        self._start_delay = start_delay

    def launch(self, executor: Executor, tasks: list[Task], *, group: bool) -> None:
        if self._start_delay > 0:
            asyncio.get_running_loop().call_later(self._start_delay, self._start, tasks)
        else:
            self._start(tasks)

    def _start(self, tasks: list[Task]) -> None:
        for state in (pb.TASK_STARTING, pb.TASK_RUNNING):
            for task in tasks:
                if task.id in task.executor.tasks:  # else it was killed, or its agent failed, while it was starting
                    self.reports.task_status(task, state)

    def message(self, executor: Executor, data: bytes) -> None:
        """Answers every message with success, as an executor does (docs/executor-protocol.md)."""
        try:
            asked = msgspec.json.decode(data, type=Asked)
        except msgspec.MsgspecError:
            return
        if asked.type == "message":
            results = tuple(Result(task) for task in asked.tasks if task in executor.tasks)
            self.reports.executor_message(executor, msgspec.json.encode(Answer(asked.id, results)))

    def kill(self, task: Task, grace: float | None) -> None:
        if task.latest in TERMINAL:
            return
        if task.framework.killing_state:
            self.reports.task_status(task, pb.TASK_KILLING)
        self.end(task, pb.TASK_KILLED)

    def end(self, task: Task, state: int, message: str = "") -> None:
        """Ends the task in this state; the rest of its group follows unless it ended well."""
        if task.latest in TERMINAL:
            return
        executor = task.executor
        self.reports.task_status(task, state, message=message)
        executor.tasks.pop(task.id, None)
        if state != pb.TASK_FINISHED:
            for other in list(executor.tasks.values()):
                executor.tasks.pop(other.id, None)
                if task.framework.killing_state:
                    self.reports.task_status(other, pb.TASK_KILLING)
                self.reports.task_status(other, pb.TASK_KILLED)
        if not executor.tasks:
            self.reports.executor_exited(executor, 0)

    def shutdown(self, executor: Executor) -> None:
        for task in list(executor.tasks.values()):
            self.kill(task, 0.0)

    def destroy(self) -> None:
        for executor in self.executors.values():
            executor.tasks.clear()
