"""The objects of a cluster: frameworks, agents, executors, tasks and offers."""

from __future__ import annotations

import abc
import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from bcs_scheduler.local.objects import reservations
from bcs_scheduler.local.objects.resources import Amounts
from bcs_scheduler.local.settings import AgentSpec
from bcs_scheduler.local.transport.stream import EventStream
from bcs_scheduler.mesos.proto import mesos_pb2 as pb
from bcs_scheduler.mesos.proto import scheduler_pb2

TERMINAL = frozenset(
    {
        pb.TASK_FINISHED,
        pb.TASK_FAILED,
        pb.TASK_KILLED,
        pb.TASK_LOST,
        pb.TASK_ERROR,
        pb.TASK_DROPPED,
        pb.TASK_GONE,
        pb.TASK_GONE_BY_OPERATOR,
    }
)
"""States from which a task does not return (TASK_UNREACHABLE is not among them)."""


class Framework:
    """`offers`, `tasks`, `unreachable` by id. Connected while `stream` is set."""

    def __init__(self, info: pb.FrameworkInfo, registered: float) -> None:
        self.id = info.id.value
        self.registered = registered
        self.stream: EventStream | None = None
        self.offers: dict[str, Offer] = {}
        self.inverse_offers: dict[str, InverseOffer] = {}
        self.tasks: dict[str, Task] = {}
        self.unreachable: dict[str, Task] = {}
        self.suppressed: set[str] = set()
        self.operations: dict[bytes, pb.OperationStatus] = {}
        """Statuses of operations that are not acknowledged, by UUID."""
        self.failover_timer: asyncio.TimerHandle | None = None
        self.update(info)

    def update(self, info: pb.FrameworkInfo) -> None:
        """Takes over new info; capabilities and roles may change at each subscription."""
        self.info = info
        capabilities = {c.type for c in info.capabilities}
        self.partition_aware = pb.FrameworkInfo.Capability.PARTITION_AWARE in capabilities
        self.killing_state = pb.FrameworkInfo.Capability.TASK_KILLING_STATE in capabilities
        self.multi_role = pb.FrameworkInfo.Capability.MULTI_ROLE in capabilities
        self.gpus = pb.FrameworkInfo.Capability.GPU_RESOURCES in capabilities
        self.refinement = pb.FrameworkInfo.Capability.RESERVATION_REFINEMENT in capabilities
        self.roles: tuple[str, ...] = tuple(info.roles) if self.multi_role else (info.role,)

    @property
    def connected(self) -> bool:
        return self.stream is not None

    def send(self, event: scheduler_pb2.Event) -> None:
        """Sends an event; the event is dropped while the framework is disconnected, as in Mesos. Reconciliation
        recovers from the loss."""
        if self.stream is not None:
            self.stream.send(event)


class Executor:
    """A running executor. `tasks` are those of it that have not ended, in order of launch. `is_command`: the agent made
    it for one task with a command; frameworks and operators see the task only."""

    __slots__ = ("agent", "amounts", "container_id", "framework", "id", "info", "is_command", "role", "tasks")

    def __init__(
        self,
        framework: Framework,
        agent: Agent,
        info: pb.ExecutorInfo,
        amounts: Amounts,
        container_id: str,
        *,
        is_command: bool = False,
    ) -> None:
        self.id = info.executor_id.value
        self.framework = framework
        self.agent = agent
        self.info = info
        self.amounts = amounts
        self.container_id = container_id
        self.is_command = is_command
        self.role = _role(info.resources)
        self.tasks: dict[str, Task] = {}


class Task:
    """`latest`: the state that the agent knows. `state`: the state that the master knows. `pending`: the agent's status
    updates that are not acknowledged; only the first of them has been sent."""

    __slots__ = (
        "agent", "amounts", "executor", "framework", "healthy", "id", "info", "latest",
        "pending", "role", "sending", "state", "update_state", "update_uuid",
    )  # fmt: skip

    def __init__(
        self, framework: Framework, agent: Agent, executor: Executor, info: pb.TaskInfo, amounts: Amounts
    ) -> None:
        self.id = info.task_id.value
        self.framework = framework
        self.agent = agent
        self.executor = executor
        self.info = info
        self.amounts = amounts
        self.role = _role(info.resources)
        self.latest: int = pb.TASK_STAGING
        self.state: int = pb.TASK_STAGING
        self.update_state: int | None = None
        self.update_uuid = b""
        self.healthy: bool | None = None
        self.pending: deque[pb.TaskStatus] = deque()
        self.sending = 0
        """Number of the last sending of `pending[0]`; kept by the status update manager."""

    @property
    def known_executor(self) -> str:
        """Id of the executor as far as a master knows it; empty for a task with a command."""
        return "" if self.executor.is_command else self.executor.id


def _role(messages: Sequence[pb.Resource]) -> str:
    """The role to which the resources of a task or executor are allocated."""
    return messages[0].allocation_info.role if messages else "*"


class Offer:
    __slots__ = ("agent", "amounts", "framework", "id", "role")

    def __init__(self, offer_id: str, framework: Framework, agent: Agent, role: str, amounts: Amounts) -> None:
        self.id = offer_id
        self.framework = framework
        self.agent = agent
        self.role = role
        self.amounts = amounts


class InverseOffer:
    __slots__ = ("agent", "framework", "id")

    def __init__(self, offer_id: str, framework: Framework, agent: Agent) -> None:
        self.id = offer_id
        self.framework = framework
        self.agent = agent


# --- agents ---


class Reports(Protocol):
    """The reports of an agent to the master about its tasks and executors."""

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
        """A status of an unknown task."""

    def executor_message(self, executor: Executor, data: bytes) -> None:
        """A message to the scheduler; best effort."""

    def executor_exited(self, executor: Executor, status: int) -> None:
        """The end of an executor. `status` as wait(2) gives it; -1 if the executor never ran."""


class Agent(abc.ABC):
    """`total`: the resources with their present reservations. `free`: those that are neither used nor offered.
    Executors are kept by (framework id, executor id). At `port` the agent answers executors and readers of
    sandboxes."""

    def __init__(self, agent_id: str, spec: AgentSpec, reports: Reports) -> None:
        self.id = agent_id
        self.spec = spec
        self.reports = reports
        self.total = self._configured = total_amounts(spec)
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
        self._info: pb.AgentInfo | None = None

    @property
    def executor_pid(self) -> int:
        """Process that runs the tasks without an executor of their own; 0 = there are no processes."""
        return 0

    def convert(self, consumed: Amounts, converted: Amounts) -> None:
        """Resources of the agent have other reservations from now on. The caller converts `free`, or the
        resources of an offer."""
        self.total = self.total - consumed + converted

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
        """True if the executor is alive; it may have no tasks at the moment."""
        return bool(executor.tasks)

    @property
    def pid(self) -> str:
        """As libprocess names the agent: where it answers."""
        return f"slave(1)@{self.spec.ip}:{self.port}"

    def info(self) -> pb.AgentInfo:
        """Shared by all callers, who must copy it before a change."""
        if self._info is None or self._info.port != self.port:
            self._info = self._make_info()
        return self._info

    def _make_info(self) -> pb.AgentInfo:
        info = pb.AgentInfo(hostname=self.spec.hostname, port=self.port)
        info.id.value = self.id
        info.resources.extend(self._configured.messages(""))
        info.attributes.extend(self.attributes)
        return info


def total_amounts(spec: AgentSpec) -> Amounts:
    scalars = {(name, reservations.UNRESERVED): amount for name, amount in spec.scalars.items()}
    for role, amounts in spec.reserved.items():
        scalars.update({(name, reservations.static(role)): amount for name, amount in amounts.items()})
    ranges = {("ports", reservations.UNRESERVED): spec.ports} if spec.ports else {}
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
