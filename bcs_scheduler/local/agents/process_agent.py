"""Agents that run real processes: taskgroups as Mesos' default executor would, commands, and custom executors."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

from bcs_scheduler.local.agents.accounting import described
from bcs_scheduler.local.agents.agent_server import AgentServer
from bcs_scheduler.local.agents.command_run import CommandRun
from bcs_scheduler.local.agents.custom_executor import CustomExecutor, ExecutorServices
from bcs_scheduler.local.agents.executor_api import ExecutorApi
from bcs_scheduler.local.agents.files import Files
from bcs_scheduler.local.agents.process import Command
from bcs_scheduler.local.agents.sandbox import make_sandbox, sandbox_path, virtual_path
from bcs_scheduler.local.agents.session_api import SessionApi
from bcs_scheduler.local.agents.task_run import TaskRun
from bcs_scheduler.local.errors import InvalidCall
from bcs_scheduler.local.objects.model import TERMINAL, Agent, Executor, Task
from bcs_scheduler.local.settings import AgentSpec
from bcs_scheduler.mesos.proto import mesos_pb2 as pb


class ProcessAgent(Agent):
    """`sandboxes` gets a directory per framework, executor and container; default executors have ``tasks/<task id>``
    in theirs."""

    def __init__(self, agent_id: str, spec: AgentSpec, services: ExecutorServices, sandboxes: Path) -> None:
        super().__init__(agent_id, spec, services.reports)
        self._around = services
        self._sandboxes = sandboxes / spec.hostname
        self._runs: dict[tuple[str, str], TaskRun] = {}
        self._customs: dict[tuple[str, str], CustomExecutor] = {}
        self._files = Files()
        executor_api = ExecutorApi(self, services.settings.executor_heartbeat_interval)
        self._sessions = SessionApi(self, services.launcher)
        self._server = AgentServer(self._files, executor_api, self._containers, self._sessions)
        self._groups: dict[str, Path] = {}
        """Sandboxes of default executors, by container id."""
        self.recovering = False

    @property
    def executor_pid(self) -> int:
        return self._around.launcher.pid

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
        elif executor.is_command:
            self._launch_commands(executor, tasks)
        else:
            self._launch_default(executor, tasks)

    # --- commands ---

    def _launch_commands(self, executor: Executor, tasks: list[Task]) -> None:
        sandbox = sandbox_path(self._sandboxes, executor)
        self._files.attach(sandbox, virtual_path(executor))
        for task in tasks:
            run = CommandRun(task, sandbox, self._around, self._ended)
            self._runs[task.framework.id, task.id] = run
            run.start()

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
        self._sessions.destroy_in(task.id)
        self._sessions.task_ended(task.id, run.status)
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
        self._sessions.destroy_in(run.executor.container_id)

    def custom_executor(self, framework_id: str, executor_id: str) -> CustomExecutor:
        run = self._customs.get((framework_id, executor_id))
        if run is not None:
            return run
        known = any(framework == framework_id for framework, _ in self._customs)
        raise InvalidCall(400, f"{'Executor' if known else 'Framework'} cannot be found")

    def executor_message(self, run: CustomExecutor, data: bytes) -> None:
        self.reports.executor_message(run.executor, data)

    def _containers(self) -> list[dict[str, Any]]:
        """Returns the containers as the operator API of the agent lists them."""
        roots = {executor.container_id: (executor, list[int]()) for executor in self.executors.values()}
        for executor, process in (
            *((run.task.executor, run.process) for run in self.task_runs),
            *((run.executor, run.process) for run in self.custom_executors),
        ):
            if process.pid and executor.container_id in roots:
                roots[executor.container_id][1].append(process.pid)
        return described(roots.values())

    # --- sessions ---

    def session_command(self, container: dict[str, Any], command: dict[str, Any]) -> Command | None:
        name = str(container.get("value", ""))
        variables = {v["name"]: v.get("value", "") for v in command.get("environment", {}).get("variables", [])}
        info = pb.CommandInfo(
            shell=bool(command.get("shell", True)),
            value=str(command.get("value", "")),
            arguments=command.get("arguments", []),
            user=str(command.get("user", "")),
        )
        for run in self.task_runs:
            if run.task.id == name:
                return run.command_beside(info, variables)
        for custom in self.custom_executors:
            if custom.executor.container_id == name:
                return custom.command_beside(info, variables)
        return None

    def is_task(self, container: str) -> bool:
        return any(run.task.id == container for run in self.task_runs)

    def listed_tasks(self) -> list[dict[str, Any]]:
        """Tasks of default executors are containers of their own, with the ids of their tasks."""
        return [
            {
                "task_id": {"value": task.id},
                "framework_id": {"value": task.framework.id},
                "executor_id": {"value": task.executor.id},
                "statuses": [{"container_status": {"container_id": self._container_id(task)}}],
            }
            for task in self.tasks.values()
            if task.latest not in TERMINAL
        ]

    def _container_id(self, task: Task) -> dict[str, Any]:
        executor = {"value": task.executor.container_id}
        if (task.framework.id, task.id) in self._runs:
            return {"value": task.id, "parent": executor}
        return executor

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

    def end_tasks(self) -> None:
        """Tasks and executors are asked to end, and are killed when their grace periods are over."""
        for custom in self.custom_executors:
            custom.shutdown()
        for run in self.task_runs:
            run.kill(None)

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
        for run in self.task_runs:
            if run.task.executor.is_command and not run.task.framework.info.checkpoint:
                run.abandon()
                del self._runs[run.task.framework.id, run.task.id]
                run.task.executor.tasks.clear()
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
