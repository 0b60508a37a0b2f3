"""One task of a group as a real process: sandbox, environment, states, kill policy, health check."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bcs_scheduler.local.agents.fetcher import Fetcher, FetchError
from bcs_scheduler.local.agents.health import HealthChecker, Unhealthy, http_probe, tcp_probe
from bcs_scheduler.local.agents.launcher import MARK
from bcs_scheduler.local.agents.process import Command, Launcher, Process
from bcs_scheduler.local.agents.sandbox import command_in
from bcs_scheduler.local.objects.model import Reports, Task
from bcs_scheduler.mesos.proto import mesos_pb2 as pb
from bcs_scheduler.tasks import background

DEFAULT_GRACE = 3.0
"""Seconds from SIGTERM to SIGKILL if no grace period is given, as in Mesos."""
NO_IMAGES = "the embedded cluster runs commands only, no images"


class TaskRun:
    """`ended(run, state)` follows the terminal status. After `abandon` nothing is reported any more."""

    def __init__(
        self, task: Task, sandbox: Path, reports: Reports, launcher: Launcher, fetcher: Fetcher,
        ended: Callable[[TaskRun, int], None],
    ) -> None:  # fmt: skip
        self.task = task
        self.sandbox = sandbox
        self._reports = reports
        self._launcher = launcher
        self._fetcher = fetcher
        self._ended: Callable[[TaskRun, int], None] | None = ended
        name = self._name()
        self._env = {**self._environment(), MARK: name}
        self.process = Process(name, self._started, self._failed, self._exited)
        self.status: int | None = None
        """As wait(2) has it; None: the program has not ended, or never ran."""
        self._killing = False
        self._grace = DEFAULT_GRACE
        self._expired = False
        self._healthy: bool | None = None
        self._checker: HealthChecker | None = None
        self._checks = 0
        self._timers: list[asyncio.TimerHandle] = []
        self._fetching: asyncio.Task[None] | None = None

    def _name(self) -> str:
        return f"{self.task.executor.container_id}.{self.task.id}"

    def _environment(self) -> dict[str, str]:
        return environment(self.task, self.sandbox)

    def start(self) -> None:
        command = self.task.info.command
        if self.task.info.container.mesos.HasField("image") or not command.HasField("value"):
            self._not_launched(NO_IMAGES)
            return
        try:
            self._make_sandbox()
        except OSError as error:
            self._not_launched(str(error))
            return
        if command.uris:
            self._fetching = background(self._fetch_and_run(), "fetcher")
        else:
            self._run()

    def _make_sandbox(self) -> None:
        """Raises OSError."""
        self.sandbox.mkdir(parents=True)

    async def _fetch_and_run(self) -> None:
        try:
            await asyncio.to_thread(self._fetcher.fetch, self.task.info.command.uris, self.sandbox)
        except FetchError as error:
            self._not_launched(str(error))
        except Exception as error:
            self._not_launched(f"the files could not be fetched: {type(error).__name__}")
            raise
        else:
            self._run()

    def _run(self) -> None:
        if self._ended is not None:
            info = self.task.info.command
            user = info.user or self.task.framework.info.user
            self._launcher.run(self.process, command_in(self.sandbox, info, user, self._env, output=self.sandbox))

    def command_beside(self, info: pb.CommandInfo, variables: dict[str, str]) -> Command:
        """A command of a session, as the task would run it."""
        user = info.user or self.task.info.command.user or self.task.framework.info.user
        return command_in(self.sandbox, info, user, {**self._env, **variables}, output=None)

    # --- events of the process

    def _started(self) -> None:
        if self._ended is None:
            self._launcher.signal(self.process, signal.SIGKILL)
            return
        if self._killing:
            self._terminate()
            return
        self._reports.task_status(self.task, pb.TASK_RUNNING)
        info = self.task.info
        if info.HasField("health_check"):
            self._checker = HealthChecker(info.health_check, self._probe, self._health)
        if info.max_completion_time.nanoseconds:
            self._later(info.max_completion_time.nanoseconds / 1e9, self._expire)

    def _failed(self, error: str) -> None:
        """The program could not be executed."""
        self._not_launched(error)

    def _not_launched(self, error: str) -> None:
        """A requirement of the program is missing, so the program was not executed."""
        state = pb.TASK_KILLED if self._killing else pb.TASK_FAILED
        self._end(state, f"Failed to launch container: {error}", pb.TaskStatus.REASON_CONTAINER_LAUNCH_FAILED)

    def _exited(self, status: int) -> None:
        self.status = status
        if os.WIFSIGNALED(status):
            message = f"Command terminated with signal {signal.strsignal(os.WTERMSIG(status))}"
        else:
            message = f"Command exited with status {os.WEXITSTATUS(status)}"
        reason = None
        if self._expired:
            state, reason = pb.TASK_FAILED, pb.TaskStatus.REASON_MAX_COMPLETION_TIME_REACHED
        elif self._killing:
            state = pb.TASK_KILLED
        else:
            state = pb.TASK_FINISHED if status == 0 else pb.TASK_FAILED
        self._end(state, message, reason)

    def _end(self, state: int, message: str, reason: int | None, source: int = pb.TaskStatus.SOURCE_EXECUTOR) -> None:
        ended, self._ended = self._ended, None
        self._quiet()
        if ended is not None:
            self._reports.task_status(
                self.task, state, message=message, reason=reason, healthy=self._unhealthy, source=source
            )
            ended(self, state)

    @property
    def _unhealthy(self) -> bool | None:
        """False if the last health check failed; None otherwise: then the end of a task says nothing about its
        health."""
        return False if self._healthy is False else None

    def _quiet(self) -> None:
        if self._checker is not None:
            self._checker.stop()
        for timer in self._timers:
            timer.cancel()

    # --- calls of the agent

    def kill(self, grace: float | None) -> None:
        """A second kill changes nothing. `grace` in seconds; None: the task's kill policy."""
        if self._killing:
            return
        self._killing = True
        if grace is not None:
            self._grace = grace
        elif self.task.info.kill_policy.HasField("grace_period"):
            self._grace = self.task.info.kill_policy.grace_period.nanoseconds / 1e9
        if self.task.framework.killing_state and not self._expired:
            self._reports.task_status(self.task, pb.TASK_KILLING, healthy=self._unhealthy)
        if self._checker is not None:
            self._checker.stop()
        if self.process.pid:
            self._terminate()

    def _terminate(self) -> None:
        self._launcher.signal(self.process, signal.SIGTERM)
        self._later(self._grace, partial(self._launcher.signal, self.process, signal.SIGKILL))

    def _expire(self) -> None:
        self._expired = True
        self.kill(0.0)

    def abandon(self) -> None:
        """Kills the process at once; no status reports the end."""
        self._ended = None
        self._quiet()
        if self._fetching is not None:
            self._fetching.cancel()
        self._launcher.signal(self.process, signal.SIGKILL)

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        self._timers.append(asyncio.get_running_loop().call_later(seconds, action))

    # --- health ---

    def _health(self, healthy: bool, kill: bool) -> None:
        self._healthy = healthy
        reason = pb.TaskStatus.REASON_TASK_HEALTH_CHECK_STATUS_UPDATED
        self._reports.task_status(self.task, pb.TASK_RUNNING, reason=reason, healthy=healthy)
        if kill:
            self.kill(None)

    async def _probe(self) -> None:
        check = self.task.info.health_check
        host = self.task.agent.spec.ip
        if check.type == pb.HealthCheck.TCP:
            await tcp_probe(host, check.tcp.port)
        elif check.type == pb.HealthCheck.HTTP:
            await http_probe(host, check.http)
        else:
            await self._command_probe(check.command)

    async def _command_probe(self, command: pb.CommandInfo) -> None:
        done: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def finish(error: str) -> None:
            if not done.done():
                done.set_result(error)

        self._checks += 1
        process = Process(
            f"{self.process.name}.check{self._checks}",
            lambda: None,
            finish,
            lambda status: finish("" if status == 0 else f"ended with {os.waitstatus_to_exitcode(status)}"),
        )
        user = command.user or self.task.framework.info.user
        self._launcher.run(process, command_in(self.sandbox, command, user, self._env, output=None))
        try:
            error = await done
        finally:
            self._launcher.signal(process, signal.SIGKILL)
        if error:
            raise Unhealthy(error)


def environment(task: Task, sandbox: Path) -> dict[str, str]:
    """The command's own variables over the few that Mesos sets."""
    role = task.info.resources[0].allocation_info.role if task.info.resources else "*"
    env = {
        "PATH": os.environ.get("PATH", os.defpath),
        "MESOS_SANDBOX": str(sandbox),
        "MESOS_DIRECTORY": str(sandbox),
        "MESOS_CONTAINER_IP": task.agent.spec.ip,
        "MESOS_ALLOCATION_ROLE": role,
        "MESOS_FRAMEWORK_ID": task.framework.id,
        "MESOS_AGENT_ID": task.agent.id,
        "MESOS_EXECUTOR_ID": task.executor.id,
        "MESOS_TASK_ID": task.id,
    }
    env.update({v.name: v.value for v in task.info.command.environment.variables})
    return env
