"""What every agent of the embedded cluster has in common."""

from __future__ import annotations

import abc
from typing import Protocol

from bcs_scheduler.local import resources
from bcs_scheduler.local.model import Executor, Framework, InverseOffer, Offer, Task
from bcs_scheduler.local.resources import Amounts
from bcs_scheduler.local.settings import AgentSpec
from bcs_scheduler.mesos.proto import mesos_pb2 as pb


class Reports(Protocol):
    """How an agent tells the master what became of its tasks."""

    def task_status(
        self,
        task: Task,
        state: int,
        *,
        message: str = "",
        reason: int | None = None,
        healthy: bool | None = None,
        source: int = pb.TaskStatus.SOURCE_EXECUTOR,
    ) -> None: ...

    def executor_status(self, task: Task, status: pb.TaskStatus) -> None:
        """A complete status as an executor sent it, its UUID included."""

    def stray_status(self, framework: Framework, status: pb.TaskStatus) -> None:
        """About a task that nobody knows."""

    def executor_message(self, executor: Executor, data: bytes) -> None:
        """To the scheduler; best effort."""

    def executor_exited(self, executor: Executor, status: int) -> None:
        """`status` as wait(2) gives it; -1 if it never ran."""


class Agent(abc.ABC):
    """`free` is what is neither used nor offered. Executors by (framework id, executor id). At `port` it answers
    executors and readers of sandboxes."""

    def __init__(self, agent_id: str, spec: AgentSpec, reports: Reports) -> None:
        self.id = agent_id
        self.spec = spec
        self.reports = reports
        self.total = total_amounts(spec)
        self.free = self.total
        self.port = 0
        self.connected = True
        self.active = True
        self.registered = self.reregistered = 0.0
        self.offers: dict[str, Offer] = {}
        self.inverse_offers: dict[str, InverseOffer] = {}
        self.unavailability: pb.Unavailability | None = None
        self.executors: dict[tuple[str, str], Executor] = {}
        self.tasks: dict[tuple[str, str], Task] = {}
        """By (framework id, task id); kept until the terminal update is acknowledged."""
        self.attributes = attribute_messages(spec)

    def take(self, amounts: Amounts) -> None:
        self.free = self.free - amounts

    def give_back(self, amounts: Amounts) -> None:
        self.free = self.free + amounts

    @abc.abstractmethod
    def launch(self, executor: Executor, tasks: list[Task], *, group: bool) -> None:
        """Starts the tasks of a group (or a single task) in the executor, which may be new."""

    @abc.abstractmethod
    def kill(self, task: Task, grace: float | None) -> None:
        """`grace` in seconds; None: the task's own kill policy."""

    @abc.abstractmethod
    def shutdown(self, executor: Executor) -> None:
        """Ends all tasks of the executor and the executor itself."""

    @abc.abstractmethod
    def destroy(self) -> None:
        """All executors die at once, as when the machine fails. No status is reported before the agent returns."""

    @abc.abstractmethod
    def message(self, executor: Executor, data: bytes) -> None:
        """From the scheduler. The default executor ignores it."""

    def runs(self, executor: Executor) -> bool:
        """Whether the executor is alive; it may have no tasks at the moment."""
        return bool(executor.tasks)

    @property
    def pid(self) -> str:
        """As libprocess names the agent: where it answers."""
        return f"slave(1)@{self.spec.ip}:{self.port}"

    def info(self) -> pb.AgentInfo:
        info = pb.AgentInfo(hostname=self.spec.hostname, port=self.port)
        info.id.value = self.id
        info.resources.extend(resources.to_messages(self.total, ""))
        info.attributes.extend(self.attributes)
        return info


def total_amounts(spec: AgentSpec) -> Amounts:
    scalars = {(name, resources.UNRESERVED): amount for name, amount in spec.scalars.items()}
    for role, amounts in spec.reserved.items():
        scalars.update({(name, role): amount for name, amount in amounts.items()})
    ranges = {("ports", resources.UNRESERVED): spec.ports} if spec.ports else {}
    return Amounts(scalars, ranges)


def attribute_messages(spec: AgentSpec) -> list[pb.Attribute]:
    messages = []
    for name, value in spec.attributes.items():
        if isinstance(value, str):
            messages.append(pb.Attribute(name=name, type=pb.Value.TEXT, text=pb.Value.Text(value=value)))
        elif isinstance(value, float):
            messages.append(pb.Attribute(name=name, type=pb.Value.SCALAR, scalar=pb.Value.Scalar(value=value)))
        else:
            ranges = pb.Value.Ranges(range=[pb.Value.Range(begin=begin, end=end) for begin, end in value])
            messages.append(pb.Attribute(name=name, type=pb.Value.RANGES, ranges=ranges))
    return messages
