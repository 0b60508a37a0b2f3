"""One task with a command as a real process, as a Mesos agent and its command executor run a LAUNCH.

The rules are those of src/slave/slave.cpp and src/launcher/executor.cpp of Apache Mesos 1.11, which
tests/integration/test_command_tasks.py compares with a real agent.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from pathlib import Path

from bcs_scheduler.local.agents.custom_executor import KILLED_EARLY, ExecutorServices
from bcs_scheduler.local.agents.executor_environment import environment
from bcs_scheduler.local.agents.sandbox import make_sandbox
from bcs_scheduler.local.agents.task_run import NO_IMAGES, TaskRun
from bcs_scheduler.local.objects.model import Task
from bcs_scheduler.mesos.proto import mesos_pb2 as pb

AGENT = pb.TaskStatus.SOURCE_AGENT


class CommandRun(TaskRun):
    """Runs in the sandbox of its executor. Until the files are fetched it is the agent that speaks of the task; then
    the executor reports TASK_STARTING."""

    def __init__(
        self, task: Task, sandbox: Path, services: ExecutorServices, ended: Callable[[TaskRun, int], None]
    ) -> None:
        self._settings = services.settings
        self._has_executor = False
        super().__init__(task, sandbox, services.reports, services.launcher, services.fetcher, ended)

    def _name(self) -> str:
        return self.task.executor.container_id

    def _environment(self) -> dict[str, str]:
        env = environment(self.task.executor, self.sandbox, self._settings)
        env["MESOS_TASK_ID"] = self.task.id
        return env | {v.name: v.value for v in self.task.info.command.environment.variables}

    def start(self) -> None:
        user = self.task.info.command.user or self.task.framework.info.user
        if user and os.geteuid() == 0 and not _is_user(user):
            self._drop(
                f"Failed to create executor directory '{self.sandbox}': Failed to chown directory to '{user}': "
                f"No such user '{user}'"
            )
        elif self.task.info.HasField("container") and self.task.info.container.type == pb.ContainerInfo.DOCKER:
            self._not_launched(NO_IMAGES)
        elif not self.task.info.command.HasField("value") and not self.task.info.container.mesos.HasField("image"):
            self._reports.task_status(self.task, pb.TASK_STARTING)
            self._end(pb.TASK_FAILED, "Executor terminated", pb.TaskStatus.REASON_EXECUTOR_TERMINATED, AGENT)
        else:
            super().start()

    def _make_sandbox(self) -> None:
        make_sandbox(self.sandbox)

    def _run(self) -> None:
        if self._ended is not None:
            self._has_executor = True
            self._reports.task_status(self.task, pb.TASK_STARTING)
            super()._run()

    def _drop(self, message: str) -> None:
        state = pb.TASK_DROPPED if self.task.framework.partition_aware else pb.TASK_LOST
        self._end(state, message, pb.TaskStatus.REASON_EXECUTOR_TERMINATED, AGENT)

    def _not_launched(self, error: str) -> None:
        message = f"Failed to launch container: {error}"
        self._end(pb.TASK_FAILED, message, pb.TaskStatus.REASON_CONTAINER_LAUNCH_FAILED, AGENT)

    def _failed(self, error: str) -> None:
        """By then the executor runs, so this is the end of the command."""
        self._end(pb.TASK_KILLED if self._killing else pb.TASK_FAILED, f"Failed to launch command: {error}", None)

    def kill(self, grace: float | None) -> None:
        """Before its executor runs, the task ends at once."""
        if self._has_executor:
            super().kill(grace)
        else:
            self._end(pb.TASK_KILLED, KILLED_EARLY, pb.TaskStatus.REASON_TASK_KILLED_DURING_LAUNCH, AGENT)


def _is_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
