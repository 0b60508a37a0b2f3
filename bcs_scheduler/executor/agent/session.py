"""One run of the executor, from the first subscription to the last acknowledgement."""

from __future__ import annotations

import base64
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .. import threads
from ..content import secrets
from ..content.preparation import expand
from ..docker import note
from ..model import VERSION, Group, Task
from ..output import packed
from ..processes import control_groups
from ..processes.runtime import ProcessRuntime
from ..runtime import Runtime
from ..sessions.contexts import Contexts
from ..settings import Settings
from ..supervisor import Watched
from ..taskgroup.group import Taskgroup
from ..taskgroup.host import Host
from .connection import Connection
from .messages import Messages
from .updates import Updates

log = logging.getLogger("executor")

FAREWELL = 2.0
"""Seconds for the last answers to reach the agent."""
STUBBORN = 10.0
"""Seconds after which processes that do not die of SIGKILL (uninterruptible sleep) are waited for no longer."""
TICK = 1.0
"""Seconds between looks at details that change without an event."""


class Session:
    def __init__(self, settings: Settings, watched: Watched) -> None:
        self._settings = settings
        self._host = Host(watched, self._supervisor_died)
        self._updates = Updates()
        self._connection = Connection(settings, self._updates, self._handle, self._agent_lost)
        self._taskgroup = Taskgroup(self._connection.update, self._runtime, settings.shutdown_grace, self._failed)
        self._messages = Messages(self._taskgroup.runtimes, self._connection.message)
        self._contexts = Contexts(settings.sandbox, self._taskgroup.runtimes)
        self._described = False
        self._lost = threading.Event()
        self._signalled = threading.Event()

    def run(self) -> int:
        """The exit code of the executor."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: self._signalled.set())
        secrets.sweep()
        self._contexts.start()
        self._connection.start()
        reported = time.monotonic()
        while not self._taskgroup.ended.wait(TICK):
            if self._signalled.is_set():
                self._signalled.clear()
                self._taskgroup.shutdown()
            self._taskgroup.look()
            if time.monotonic() >= reported + self._taskgroup.group.report_interval:
                reported = time.monotonic()
                report = self._taskgroup.report()
                if report["tasks"]:
                    self._connection.message(report)
        secrets.remove(self._host.secrets.folder)
        self._messages.stop()
        acknowledged = self._lost.is_set() or self._wait_for_acknowledgement()
        if not self._lost.is_set() and not self._connection.wait_until_said(FAREWELL):
            log.warning("the last answers to messages could not be sent")
        self._contexts.close()
        self._connection.close()
        if not acknowledged:
            log.error("the last updates were not acknowledged")
        return 0 if acknowledged and not self._lost.is_set() else 1

    def _wait_for_acknowledgement(self) -> bool:
        """Waits as long as an agent grants an executor for its end; while the agent is away, until it is given up.

        An agent that is silent for so long may hang, and lose the updates that it has not acknowledged when it is
        killed. A new subscription shows whether the agent lives, and sends these updates again.
        """
        deadline, renewed = time.monotonic() + self._settings.shutdown_grace, False
        while not self._updates.wait_until_empty(TICK / 4):
            if self._lost.is_set():
                return False
            if not self._connection.subscribed:
                deadline = time.monotonic() + self._settings.shutdown_grace
            elif time.monotonic() > deadline:
                if renewed:
                    return False
                deadline, renewed = time.monotonic() + self._settings.shutdown_grace, True
                self._connection.renew()
        return True

    def _runtime(self, task: Task, group: Group, changed: Callable[[], None]) -> Runtime:
        directory = self._directory(task.id)
        task = expand(task, self._settings.sandbox.resolve())
        if task.kind == "container":
            from ..docker.runtime import ContainerRuntime  # not needed, and not loaded, for processes

            return ContainerRuntime(task, group, directory)
        return ProcessRuntime(task, group, directory, self._host, changed)

    def _directory(self, task: str) -> Path:
        return self._settings.sandbox.resolve() / "tasks" / task

    def _failed(self, task: str) -> None:
        threads.guarded("last-output", lambda: self._tell_last_output(task))

    def _tell_last_output(self, task: str) -> None:
        found = packed(self._directory(task))
        if found:
            data = base64.b64encode(found).decode()
            self._connection.message({"v": VERSION, "type": "output", "task": task, "data": data})

    # ---- events and losses

    def _handle(self, event: dict[str, Any]) -> None:
        """Events of the agent, in the thread of the stream. Raises KeyError, TypeError for anything else."""
        kind = event["type"]
        if kind == "SUBSCRIBED":
            if not self._described:
                self._taskgroup.describe(event["subscribed"]["executor_info"].get("data", ""))
                self._described = True
        elif kind in ("LAUNCH", "LAUNCH_GROUP"):
            self._launch(
                [event["launch"]["task"]] if kind == "LAUNCH" else event["launch_group"]["task_group"]["tasks"]
            )
        elif kind == "KILL":
            found = event["kill"]
            grace = found.get("kill_policy", {}).get("grace_period", {}).get("nanoseconds")
            self._taskgroup.kill(found["task_id"]["value"], None if grace is None else int(grace) / 1e9)
        elif kind == "MESSAGE":
            self._messages.received(base64.b64decode(event["message"]["data"]))
        elif kind == "SHUTDOWN":
            self._taskgroup.shutdown()
        else:
            log.warning("an event of the unknown type %r is skipped", kind)

    def _launch(self, infos: list[dict[str, Any]]) -> None:
        for info in infos:
            self._updates.launched(info)
        self._taskgroup.launch(infos)

    def _agent_lost(self) -> None:
        self._lost.set()
        self._taskgroup.end_at_once()

    def _supervisor_died(self) -> None:
        """Without it nothing holds the taskgroup together: all ends at once, this process last."""
        log.critical("the supervisor has died, ending all tasks")
        deadline = time.monotonic() + STUBBORN
        while (left := self._host.census.abandon()) and time.monotonic() < deadline:
            time.sleep(0.01)
        if left:
            log.critical("processes that could not be killed: %s", left)
        control_groups.remove(self._host.cgroup)
        secrets.remove(self._host.secrets.folder)
        note.follow(str(self._settings.sandbox))
        sys.stderr.flush()
        signal.raise_signal(signal.SIGKILL)
