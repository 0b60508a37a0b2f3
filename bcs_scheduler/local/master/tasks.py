"""The master's side of tasks: status updates, acknowledgement, kill, reconciliation."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable

from bcs_scheduler.local.agents.updates import StatusUpdates
from bcs_scheduler.local.faults import Faults
from bcs_scheduler.local.master.offers import Offers
from bcs_scheduler.local.master.registry import Registry
from bcs_scheduler.local.objects.model import TERMINAL, Executor, Framework, Task
from bcs_scheduler.local.transport.stream import EventStream
from bcs_scheduler.mesos.proto import mesos_pb2 as pb
from bcs_scheduler.mesos.proto import scheduler_pb2

_GONE_STATES = TERMINAL | {pb.TASK_UNREACHABLE}
SLICE = 200
"""Tasks that are reported at once when the framework asks for all: about a millisecond. Calls are served in between."""
BACKLOG = 256 * 1024
"""Bytes the framework has not read, beyond which reports of all tasks wait: an update that comes meanwhile is then not
read behind all of them."""
PAUSE = 0.005
"""Seconds of that wait."""


class Tasks:
    """Implements the agents' `Reports`."""

    def __init__(
        self,
        registry: Registry,
        offers: Offers,
        clock: Callable[[], float],
        retry_interval: float,
        retry_interval_max: float,
    ) -> None:
        self._registry = registry
        self._offers = offers
        self.faults = Faults(self._forward)
        self.updates = StatusUpdates(self.faults.deliver, clock, retry_interval, retry_interval_max)

    # --- reports of agents ---

    def task_status(
        self,
        task: Task,
        state: int,
        *,
        message: str = "",
        reason: int | None = None,
        healthy: bool | None = None,
        source: int = pb.TaskStatus.SOURCE_EXECUTOR,
    ) -> None:
        if not self._is_known(task):
            return
        task.latest = state
        task.healthy = healthy
        status = new_status(task.id, state, source, task.agent.id, message, reason, task.executor.id)
        status.uuid = os.urandom(16)
        if healthy is not None:
            status.healthy = healthy
        if source == pb.TaskStatus.SOURCE_EXECUTOR:
            add_container(status, task)
        self.updates.enqueue(task, status)

    def _is_known(self, task: Task) -> bool:
        """False for a task whose framework was removed: no scheduler would acknowledge its updates."""
        return task.agent.tasks.get((task.framework.id, task.id)) is task

    def executor_status(self, task: Task, status: pb.TaskStatus) -> None:
        if not self._is_known(task):
            return
        task.latest = status.state
        task.healthy = status.healthy if status.HasField("healthy") else None
        self.updates.enqueue(task, status)

    def stray_status(self, framework: Framework, status: pb.TaskStatus) -> None:
        send_update(framework, status)

    def executor_message(self, executor: Executor, data: bytes) -> None:
        if not executor.agent.connected or self.faults.lose_message():
            return
        event = scheduler_pb2.Event(type=scheduler_pb2.Event.MESSAGE)
        event.message.agent_id.value = executor.agent.id
        event.message.executor_id.value = executor.id
        event.message.data = data
        executor.framework.send(event)

    def executor_exited(self, executor: Executor, status: int) -> None:
        agent, framework = executor.agent, executor.framework
        if agent.executors.pop((framework.id, executor.id), None) is None:
            return
        agent.give_back(executor.amounts)
        self._offers.allocate_soon(agent)
        if executor.is_command:
            return
        event = scheduler_pb2.Event(type=scheduler_pb2.Event.FAILURE)
        event.failure.agent_id.value = agent.id
        event.failure.executor_id.value = executor.id
        event.failure.status = status
        framework.send(event)

    # --- updates on their way to the framework ---

    def _forward(self, task: Task, status: pb.TaskStatus) -> None:
        """Processes an update of an agent in the master and forwards it to the framework."""
        if not task.agent.connected:
            return
        self._set_state(task, task.latest)
        task.update_state = status.state
        task.update_uuid = status.uuid
        send_update(task.framework, status)

    def _set_state(self, task: Task, state: int) -> None:
        """Frees the resources as soon as the master learns that the task has ended."""
        if task.state in _GONE_STATES:
            return
        task.state = state
        if state in _GONE_STATES:
            task.agent.give_back(task.amounts)
            self._offers.allocate_soon(task.agent)

    def acknowledge(self, framework: Framework, agent_id: str, task_id: str, uuid: bytes) -> None:
        agent = self._registry.agents.get(agent_id)
        if agent is None or not agent.connected:
            return
        task = agent.tasks.get((framework.id, task_id))
        if task is None:
            return
        if task.update_state in TERMINAL and task.update_uuid == uuid:
            self.remove(task)
        self.updates.acknowledge(task, uuid)

    def remove(self, task: Task) -> None:
        task.framework.tasks.pop(task.id, None)
        task.agent.tasks.pop((task.framework.id, task.id), None)

    def end_by_master(self, task: Task, state: int, message: str, reason: int) -> None:
        """The master itself declares a task ended or unreachable; such updates are not acknowledged."""
        self.updates.forget(task)
        self._set_state(task, state)
        self.remove(task)
        self.master_status(
            task.framework, task.id, state, message, reason, agent_id=task.agent.id, executor_id=task.known_executor
        )

    def master_status(
        self, framework: Framework, task_id: str, state: int, message: str, reason: int,
        *, agent_id: str = "", executor_id: str = "", healthy: bool | None = None, unreachable: float | None = None,
    ) -> None:  # fmt: skip
        source = pb.TaskStatus.SOURCE_MASTER
        status = new_status(task_id, state, source, agent_id, message, reason, executor_id)
        if healthy is not None:
            status.healthy = healthy
        if unreachable is not None:
            status.unreachable_time.nanoseconds = int(unreachable * 1e9)
        send_update(framework, status)

    # --- calls ---

    def kill(self, framework: Framework, call: scheduler_pb2.Call.Kill) -> None:
        """Killing an unknown task reconciles it; one said to be on another agent is left alone."""
        task = framework.tasks.get(call.task_id.value)
        agent_id = call.agent_id.value if call.HasField("agent_id") else None
        if task is None:
            self._reconcile_one(framework, call.task_id.value, agent_id)
            return
        if (agent_id is not None and agent_id != task.agent.id) or not task.agent.connected:
            return
        grace = None
        if call.kill_policy.HasField("grace_period"):
            grace = call.kill_policy.grace_period.nanoseconds / 1e9
        task.agent.kill(task, grace)

    def reconcile(self, framework: Framework, asked: Iterable[scheduler_pb2.Call.Reconcile.Task]) -> None:
        """Of nothing asked: everything known is reported, in slices; the calls that follow are served in between."""
        asked = list(asked)
        for entry in asked:
            agent_id = entry.agent_id.value if entry.HasField("agent_id") else None
            self._reconcile_one(framework, entry.task_id.value, agent_id)
        if not asked and framework.stream is not None:
            self._report_all(framework, framework.stream, list(framework.tasks.values()), 0)

    def _report_all(self, framework: Framework, stream: EventStream, tasks: list[Task], first: int) -> None:
        """Reports the tasks from number `first` on, unless they have gone or another subscription has taken over."""
        if framework.stream is not stream:
            return
        if first and stream.backlog > BACKLOG:
            asyncio.get_running_loop().call_later(PAUSE, self._report_all, framework, stream, tasks, first)
            return
        for task in tasks[first : first + SLICE]:
            if framework.tasks.get(task.id) is task:
                self._report(task)
        if first + SLICE < len(tasks):
            asyncio.get_running_loop().call_soon(self._report_all, framework, stream, tasks, first + SLICE)

    def _report(self, task: Task) -> None:
        state = task.update_state if task.update_state is not None else task.state
        status = new_status(
            task.id, state, pb.TaskStatus.SOURCE_MASTER, task.agent.id, "Reconciliation: Latest task state",
            pb.TaskStatus.REASON_RECONCILIATION, task.known_executor,
        )  # fmt: skip
        if task.healthy is not None:
            status.healthy = task.healthy
        if task.update_state is not None:
            add_container(status, task)
        send_update(task.framework, status)

    def _reconcile_one(self, framework: Framework, task_id: str, agent_id: str | None) -> None:
        task, registry = framework.tasks.get(task_id), self._registry
        unreachable = None
        if task is not None:
            self._report(task)
            return
        if agent_id in registry.agents:
            state, message = pb.TASK_GONE, "Reconciliation: Task is unknown to the agent"
        elif agent_id in registry.unreachable:
            state, message = pb.TASK_UNREACHABLE, "Reconciliation: Task is unreachable"
            unreachable = registry.unreachable[agent_id].since
        elif agent_id in registry.gone:
            state, message = pb.TASK_GONE_BY_OPERATOR, "Reconciliation: Task is gone"
        else:
            state, message = pb.TASK_UNKNOWN, "Reconciliation: Task is unknown"
        if not framework.partition_aware:
            state = pb.TASK_LOST
        self.master_status(
            framework, task_id, state, message, pb.TaskStatus.REASON_RECONCILIATION,
            agent_id=agent_id or "", unreachable=unreachable,
        )  # fmt: skip


def new_status(
    task_id: str, state: int, source: int, agent_id: str, message: str, reason: int | None, executor_id: str
) -> pb.TaskStatus:
    status = pb.TaskStatus(state=state, source=source, timestamp=time.time())  # type: ignore[arg-type]
    status.task_id.value = task_id
    if agent_id:
        status.agent_id.value = agent_id
    if message:
        status.message = message
    if reason is not None:
        status.reason = reason  # type: ignore[assignment]
    if executor_id:
        status.executor_id.value = executor_id
    return status


def add_container(status: pb.TaskStatus, task: Task) -> None:
    container = status.container_status
    container.container_id.value = task.executor.container_id
    if task.agent.executor_pid:
        container.executor_pid = task.agent.executor_pid
    container.network_infos.add().ip_addresses.add(protocol=pb.NetworkInfo.IPv4, ip_address=task.agent.spec.ip)


def send_update(framework: Framework, status: pb.TaskStatus) -> None:
    event = scheduler_pb2.Event(type=scheduler_pb2.Event.UPDATE)
    event.update.status.CopyFrom(status)
    framework.send(event)
