"""Agents that run real processes: taskgroups as Mesos' default executor would, and custom executors."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

from bcs_scheduler.local.accounting import described
from bcs_scheduler.local.agent import Agent
from bcs_scheduler.local.agent_server import AgentServer
from bcs_scheduler.local.custom_executor import CustomExecutor, Surroundings
from bcs_scheduler.local.errors import InvalidCall
from bcs_scheduler.local.executor_api import ExecutorApi
from bcs_scheduler.local.files import Files
from bcs_scheduler.local.model import TERMINAL, Executor, Task
from bcs_scheduler.local.sandbox import make_sandbox, sandbox_path, virtual_path
from bcs_scheduler.local.settings import AgentSpec
from bcs_scheduler.local.task_run import TaskRun
from bcs_scheduler.mesos.proto import mesos_pb2 as pb


class ProcessAgent(Agent):
    """`sandboxes` gets a directory per framework, executor and container; default executors have ``tasks/<task id>``
    in theirs."""

    def __init__(self, agent_id: str, spec: AgentSpec, surroundings: Surroundings, sandboxes: Path) -> None:
        super().__init__(agent_id, spec, surroundings.reports)
        self._around = surroundings
        self._sandboxes = sandboxes / spec.hostname
        self._runs: dict[tuple[str, str], TaskRun] = {}
        self._customs: dict[tuple[str, str], CustomExecutor] = {}
        self._files = Files()
        executor_api = ExecutorApi(self, surroundings.settings.executor_heartbeat_interval)
        self._server = AgentServer(self._files, executor_api, self._containers)
        self._groups: dict[str, Path] = {}
        """Sandboxes of default executors, by container id."""
        self.recovering = False

    async def listen(self) -> None:
        """Raises OSError."""
        await self._server.start(self.spec.ip)
        self.port = self._server.port

    async def close(self) -> None:
        await self._server.stop()

    @property
    def task_runs(self) -> list[TaskRun]:
        return list(self._runs.values())

    @property
    def custom_executors(self) -> list[CustomExecutor]:
        return list(self._customs.values())

    def launch(self, executor: Executor, tasks: list[Task], *, group: bool) -> None:
        if executor.info.HasField("command"):
            self._launch_custom(executor, tasks, group)
        else:
            self._launch_default(executor, tasks)

    # --- default executors ---

    def _launch_default(self, executor: Executor, tasks: list[Task]) -> None:
        for task in tasks:
            self.reports.task_status(task, pb.TASK_STARTING)
        around = self._around
        for task in tasks:
            sandbox = self._group_sandbox(executor) / "tasks" / task.id
            run = TaskRun(task, sandbox, self.reports, around.launcher, around.fetcher, self._ended)
            self._runs[task.framework.id, task.id] = run
            run.start()

    def _group_sandbox(self, executor: Executor) -> Path:
        sandbox = self._groups.get(executor.container_id)
        if sandbox is None:
            sandbox = self._groups[executor.container_id] = sandbox_path(self._sandboxes, executor)
            with suppress(OSError):  # those who need it will say so
                make_sandbox(sandbox)
            self._files.attach(sandbox, virtual_path(executor))
        return sandbox

    def _ended(self, run: TaskRun, state: int) -> None:
        """The executor's reaction: a task that failed or was killed takes its group with it."""
        task = run.task
        executor = task.executor
        self._runs.pop((task.framework.id, task.id), None)
        executor.tasks.pop(task.id, None)
        if state != pb.TASK_FINISHED:
            for other in list(executor.tasks.values()):
                self.kill(other, None)
        if not executor.tasks:
            self._groups.pop(executor.container_id, None)
            asyncio.get_running_loop().call_soon(self.reports.executor_exited, executor, 0)

    # --- custom executors ---

    def _launch_custom(self, executor: Executor, tasks: list[Task], group: bool) -> None:
        run = self._customs.get((executor.framework.id, executor.id))
        if run is None:
            sandbox = sandbox_path(self._sandboxes, executor)
            self._files.attach(sandbox, virtual_path(executor))
            run = CustomExecutor(executor, sandbox, self._around, self._gone)
            self._customs[executor.framework.id, executor.id] = run
            run.start()
        run.launch(tasks, group=group)

    def _gone(self, run: CustomExecutor) -> None:
        key = (run.executor.framework.id, run.executor.id)
        if self._customs.get(key) is run:
            del self._customs[key]

    def custom_executor(self, framework_id: str, executor_id: str) -> CustomExecutor:
        run = self._customs.get((framework_id, executor_id))
        if run is not None:
            return run
        known = any(framework == framework_id for framework, _ in self._customs)
        raise InvalidCall(400, f"{'Executor' if known else 'Framework'} cannot be found")

    def executor_message(self, run: CustomExecutor, data: bytes) -> None:
        self.reports.executor_message(run.executor, data)

    def _containers(self) -> list[dict[str, Any]]:
        """As its operator API tells of them."""
        roots = {executor.container_id: (executor, list[int]()) for executor in self.executors.values()}
        for executor, process in (
            *((run.task.executor, run.process) for run in self.task_runs),
            *((run.executor, run.process) for run in self.custom_executors),
        ):
            if process.pid and executor.container_id in roots:
                roots[executor.container_id][1].append(process.pid)
        return described(roots.values())

    # --- orders ---

    def _custom(self, executor: Executor) -> CustomExecutor | None:
        run = self._customs.get((executor.framework.id, executor.id))
        return run if run is not None and run.executor is executor else None

    def runs(self, executor: Executor) -> bool:
        return bool(executor.tasks) or self._custom(executor) is not None

    def message(self, executor: Executor, data: bytes) -> None:
        if (custom := self._custom(executor)) is not None:
            custom.message(data)

    def kill(self, task: Task, grace: float | None) -> None:
        if task.latest in TERMINAL:
            return
        run = self._runs.get((task.framework.id, task.id))
        if run is not None:
            run.kill(grace)
        elif (custom := self._custom(task.executor)) is not None:
            custom.kill(task, grace)

    def strike(self, task: Task, number: signal.Signals) -> None:
        """A signal from outside, as an operator on the machine might send it. With a custom executor it is the executor
        that gets it: its tasks are not known here."""
        run = self._runs.get((task.framework.id, task.id))
        process = None if run is None else run.process
        if process is None and (custom := self._custom(task.executor)) is not None:
            process = custom.process
        if process is not None:
            self._around.launcher.signal(process, number)

    def shutdown(self, executor: Executor) -> None:
        custom = self._custom(executor)
        if custom is not None:
            custom.shutdown()
            return
        for task in list(executor.tasks.values()):
            self.kill(task, None)

    def destroy(self) -> None:
        self.pause_api()
        for run in self.task_runs:
            run.abandon()
        for custom in self.custom_executors:
            custom.abandon()
        self._runs.clear()
        self._customs.clear()
        self._groups.clear()
        for executor in self.executors.values():
            executor.tasks.clear()

    # --- faults ---

    def pause_api(self) -> None:
        """Executors and readers lose their connections and get no new ones."""
        self._server.pause()

    async def resume_api(self) -> None:
        """Raises OSError."""
        await self._server.resume()

    def stop_agent(self) -> None:
        """The agent's process ends. Executors of frameworks that do not checkpoint end with it."""
        self.pause_api()
        for custom in self.custom_executors:
            if not custom.executor.framework.info.checkpoint:
                custom.abandon()
                self._gone(custom)
                custom.executor.tasks.clear()

    async def recover(self) -> None:
        """After `stop_agent`: answers again, and returns when the time of its executors to come back is over."""
        self.recovering = True
        for custom in self.custom_executors:
            custom.recover()
        await self._server.resume()
        await asyncio.sleep(self._around.settings.executor_reregistration_timeout)
        self.recovering = False
