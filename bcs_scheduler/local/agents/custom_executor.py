"""One custom executor as its agent sees it: process, connection, tasks on their way to it, and how all of that ends.

The rules are those of a Mesos 1.11 agent (src/slave/slave.cpp), which the protocol tests compare with a real one.
"""

from __future__ import annotations

import asyncio
import enum
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bcs_scheduler.local.agents.executor_environment import duration, environment
from bcs_scheduler.local.agents.fetcher import Fetcher, FetchError
from bcs_scheduler.local.agents.process import Command, Launcher, Process
from bcs_scheduler.local.agents.sandbox import command_in, make_sandbox
from bcs_scheduler.local.objects.model import TERMINAL, Executor, Reports, Task
from bcs_scheduler.local.settings import ClusterSettings
from bcs_scheduler.local.transport.stream import EventStream
from bcs_scheduler.mesos.proto import executor_pb2
from bcs_scheduler.mesos.proto import mesos_pb2 as pb
from bcs_scheduler.tasks import background

Event = executor_pb2.Event

KILLED_EARLY = "Killed before delivery to the executor"
KILLED_EARLY_GROUP = "A task within the task group was killed before delivery to the executor"


class State(enum.Enum):
    REGISTERING = enum.auto()
    RUNNING = enum.auto()
    TERMINATING = enum.auto()
    TERMINATED = enum.auto()


class Ending(NamedTuple):
    """Message and reason of the last status of the tasks that remain when the executor ends."""

    message: str = "Executor terminated"
    reason: int = pb.TaskStatus.REASON_EXECUTOR_TERMINATED


@dataclass(frozen=True, slots=True)
class ExecutorServices:
    """The services that the executors of an agent share."""

    reports: Reports
    launcher: Launcher
    fetcher: Fetcher
    settings: ClusterSettings


class CustomExecutor:
    """`gone(self)` is called when its process has ended."""

    def __init__(
        self, executor: Executor, sandbox: Path, services: ExecutorServices, gone: Callable[[CustomExecutor], None]
    ) -> None:
        self.executor = executor
        self.sandbox = sandbox
        self.state = State.REGISTERING
        self._around = services
        self._reports = services.reports
        self._gone = gone
        self._env = environment(executor, sandbox, services.settings)
        self.process = Process(executor.container_id, self._started, self._failed, self._exited)
        self._stream: EventStream | None = None
        self._queued: list[tuple[list[Task], bool]] = []
        """Tasks that have not been sent to the executor yet, and whether they are a group."""
        self._received: dict[str, set[bytes]] = {}
        """UUIDs of the updates of each task that were taken over."""
        self._ending = Ending()
        self._waits = 0
        self._timers: list[asyncio.TimerHandle] = []
        self._fetching: asyncio.Task[None] | None = None

    # --- process ---

    def start(self) -> None:
        """Until it subscribes, tasks wait."""
        timeout = self._around.settings.executor_registration_timeout
        text = f"Executor did not register within {duration(timeout)}"
        self._await_subscription(timeout, Ending(text, pb.TaskStatus.REASON_EXECUTOR_REGISTRATION_TIMEOUT))
        try:
            make_sandbox(self.sandbox)
        except OSError as error:
            self._failed(str(error))
            return
        if self.executor.info.command.uris:
            self._fetching = background(self._fetch_and_run(), "fetcher")
        else:
            self._run()

    async def _fetch_and_run(self) -> None:
        uris = self.executor.info.command.uris
        try:
            await asyncio.to_thread(self._around.fetcher.fetch, uris, self.sandbox)
        except FetchError as error:
            self._failed(str(error))
        except Exception as error:
            self._failed(f"the files could not be fetched: {type(error).__name__}")
            raise
        else:
            self._run()

    def _run(self) -> None:
        if self.state in (State.REGISTERING, State.RUNNING):
            info = self.executor.info.command
            user = info.user or self.executor.framework.info.user
            command = command_in(self.sandbox, info, user, self._env, output=self.sandbox)
            self._around.launcher.run(self.process, command)

    def command_beside(self, info: pb.CommandInfo, variables: dict[str, str]) -> Command:
        """A command of a session, as the executor would run it."""
        user = info.user or self.executor.info.command.user or self.executor.framework.info.user
        return command_in(self.sandbox, info, user, {**self._env, **variables}, output=None)

    def _started(self) -> None:
        if self.state is State.TERMINATED:
            self._around.launcher.destroy(self.process)

    def _failed(self, error: str) -> None:
        """The executor never ran."""
        reason = pb.TaskStatus.REASON_CONTAINER_LAUNCH_FAILED
        self._ending = Ending(f"Failed to launch container: {error}", reason)
        self._exited(-1)

    def _exited(self, status: int) -> None:
        """`status` as wait(2) gives it. The unfinished tasks of the executor have failed."""
        if self.state is State.TERMINATED:
            return
        self._finish()
        for task in list(self.executor.tasks.values()):
            self._reports.task_status(
                task,
                pb.TASK_FAILED,
                message=self._ending.message,
                reason=self._ending.reason,
                source=pb.TaskStatus.SOURCE_AGENT,
            )
        self.executor.tasks.clear()
        self._gone(self)
        self._reports.executor_exited(self.executor, status)

    def _finish(self) -> None:
        self.state = State.TERMINATED
        self._queued.clear()
        for timer in self._timers:
            timer.cancel()
        if self._fetching is not None:
            self._fetching.cancel()
        if self._stream is not None:
            self._stream.close()

    def _await_subscription(self, seconds: float, ending: Ending) -> None:
        """Otherwise it ends like this."""
        self._waits += 1
        number = self._waits

        def give_up() -> None:
            if self.state is State.REGISTERING and self._waits == number:
                self._ending = ending
                self._destroy()

        self._later(seconds, give_up)

    def _destroy(self) -> None:
        """The whole container, at once. The launcher tells when that has happened."""
        if self.state is State.TERMINATED:
            return
        self.state = State.TERMINATING
        if self.process.pid:
            self._around.launcher.destroy(self.process)
        else:
            self._exited(9)
            self._around.launcher.destroy(self.process)  # should it be starting just now

    def abandon(self) -> None:
        """Ends the executor with its machine; no status reports the end."""
        if self.state is not State.TERMINATED:
            self._finish()
            self._around.launcher.destroy(self.process)

    # --- calls of the agent

    def launch(self, tasks: list[Task], *, group: bool) -> None:
        self._queued.append((tasks, group))
        if self.state is State.RUNNING:
            self._deliver()

    def _deliver(self) -> None:
        queued, self._queued = self._queued, []
        for tasks, group in queued:
            if group:
                event = Event(type=Event.LAUNCH_GROUP)
                for task in tasks:
                    info = event.launch_group.task_group.tasks.add()
                    info.CopyFrom(task.info)
                    info.executor.CopyFrom(self.executor.info)
                self._send(event)
                continue
            for task in tasks:
                event = Event(type=Event.LAUNCH)
                event.launch.task.CopyFrom(task.info)
                self._send(event)

    def kill(self, task: Task, grace: float | None) -> None:
        for entry in self._queued:
            if task in entry[0]:
                self._queued.remove(entry)
                self._kill_queued(*entry)
                return
        event = Event(type=Event.KILL)
        event.kill.task_id.value = task.id
        if grace is not None:
            event.kill.kill_policy.grace_period.nanoseconds = int(grace * 1e9)
        self._send(event)

    def _kill_queued(self, tasks: list[Task], group: bool) -> None:
        """Ends tasks that the executor never gets."""
        for task in tasks:
            self.executor.tasks.pop(task.id, None)
            self._reports.task_status(
                task,
                pb.TASK_KILLED,
                message=KILLED_EARLY_GROUP if group else KILLED_EARLY,
                reason=pb.TaskStatus.REASON_TASK_KILLED_DURING_LAUNCH,
                source=pb.TaskStatus.SOURCE_AGENT,
            )

    def message(self, data: bytes) -> None:
        """Sends a message; the message is dropped unless the executor is subscribed."""
        if self.state is State.RUNNING:
            event = Event(type=Event.MESSAGE)
            event.message.data = data
            self._send(event)

    def shutdown(self) -> None:
        """Asks the executor to end; the executor is killed if it has not ended after its grace period."""
        if self.state in (State.TERMINATING, State.TERMINATED):
            return
        self.state = State.TERMINATING
        self._send(Event(type=Event.SHUTDOWN))
        grace = self._around.settings.executor_shutdown_grace
        if self.executor.info.HasField("shutdown_grace_period"):
            grace = self.executor.info.shutdown_grace_period.nanoseconds / 1e9
        self._later(grace, self._destroy)

    def _send(self, event: Event) -> None:
        """Sends an event; the event is dropped while the executor is not connected."""
        if self._stream is not None:
            self._stream.send(event)

    # --- calls of the executor

    def subscribe(self, call: executor_pb2.Call.Subscribe, stream: EventStream) -> None:
        if self.state in (State.TERMINATING, State.TERMINATED):
            stream.send(Event(type=Event.SHUTDOWN))
            stream.close()
            return
        if self._stream is not None:
            self._stream.close()
        self._stream = stream
        self.state = State.RUNNING
        executor = self.executor
        event = Event(type=Event.SUBSCRIBED)
        event.subscribed.executor_info.CopyFrom(executor.info)
        event.subscribed.framework_info.CopyFrom(executor.framework.info)
        event.subscribed.agent_info.CopyFrom(executor.agent.info())
        event.subscribed.container_id.value = executor.container_id
        self._send(event)
        stream.continue_heartbeats()
        for update in call.unacknowledged_updates:
            self.update(update.status)
        self._deliver_or_drop({task.task_id.value for task in call.unacknowledged_tasks})

    def _deliver_or_drop(self, known: set[str]) -> None:
        """Sends the queued tasks. Tasks that were sent, but neither arrived nor were reported since, are lost."""
        queued = {task.id for tasks, _ in self._queued for task in tasks}
        lost = [
            task
            for task in self.executor.tasks.values()
            if task.latest == pb.TASK_STAGING and task.id not in queued and task.id not in known
        ]
        self._deliver()
        for task in lost:
            del self.executor.tasks[task.id]
            aware = self.executor.framework.partition_aware
            self._reports.task_status(
                task,
                pb.TASK_DROPPED if aware else pb.TASK_LOST,
                message="Task launched during agent restart",
                reason=pb.TaskStatus.REASON_AGENT_RESTARTED,
                source=pb.TaskStatus.SOURCE_AGENT,
            )
        if not self.executor.tasks and not self._received:
            self.shutdown()  # it has never had anything to do

    def disconnected(self, stream: EventStream) -> None:
        """Forgets the stream. The executor stays subscribed: its process decides whether it lives."""
        if self._stream is stream:
            self._stream = None

    def update(self, status: pb.TaskStatus) -> None:
        """Takes over an update and acknowledges it; from then on the agent delivers the update. An update of a task
        that has ended is ignored. An update of an unknown task is passed on once."""
        executor, task_id = self.executor, status.task_id.value
        task = executor.tasks.get(task_id)
        received = self._received.get(task_id, set())
        if status.uuid in received:
            self._acknowledge(status)
            return
        status.agent_id.value = executor.agent.id
        if not status.HasField("timestamp"):
            status.timestamp = time.time()
        if task is None:
            if not received:
                self._reports.stray_status(executor.framework, status)
            return
        if status.state not in TERMINAL and any(task in tasks for tasks, _ in self._queued):
            return
        self._received.setdefault(task_id, received).add(status.uuid)
        self._describe_container(status)
        if status.state in TERMINAL:
            del executor.tasks[task_id]
        self._reports.executor_status(task, status)
        self._acknowledge(status)

    def _describe_container(self, status: pb.TaskStatus) -> None:
        container = status.container_status
        container.container_id.value = self.executor.container_id
        container.executor_pid = self.process.pid
        if not container.network_infos:
            container.network_infos.add().ip_addresses.add(
                protocol=pb.NetworkInfo.IPv4, ip_address=self.executor.agent.spec.ip
            )

    def _acknowledge(self, status: pb.TaskStatus) -> None:
        event = Event(type=Event.ACKNOWLEDGED)
        event.acknowledged.task_id.value = status.task_id.value
        event.acknowledged.uuid = status.uuid
        self._send(event)

    # --- the agent restarts ---

    def recover(self) -> None:
        """The agent is back and waits for the executor to come back, too."""
        if self.state is not State.RUNNING:
            return
        self.state = State.REGISTERING
        timeout = self._around.settings.executor_reregistration_timeout
        text = f"Executor did not reregister within {duration(timeout)}"
        self._await_subscription(timeout, Ending(text, pb.TaskStatus.REASON_EXECUTOR_REREGISTRATION_TIMEOUT))

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        self._timers.append(asyncio.get_running_loop().call_later(seconds, action))
