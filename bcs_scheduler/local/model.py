"""What the master knows: frameworks, executors, tasks and offers."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from bcs_scheduler.local.resources import Amounts
from bcs_scheduler.local.stream import EventStream
from bcs_scheduler.mesos.proto import mesos_pb2 as pb
from bcs_scheduler.mesos.proto import scheduler_pb2

if TYPE_CHECKING:
    from bcs_scheduler.local.agent import Agent

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
        """Dropped while disconnected, as by Mesos: reconciliation is what recovers from it."""
        if self.stream is not None:
            self.stream.send(event)


class Executor:
    """A running executor. `tasks` are those of it that have not ended, in order of launch."""

    __slots__ = ("agent", "amounts", "container_id", "framework", "id", "info", "tasks")

    def __init__(
        self, framework: Framework, agent: Agent, info: pb.ExecutorInfo, amounts: Amounts, container_id: str
    ) -> None:
        self.id = info.executor_id.value
        self.framework = framework
        self.agent = agent
        self.info = info
        self.amounts = amounts
        self.container_id = container_id
        self.tasks: dict[str, Task] = {}


class Task:
    """`latest` is what the agent knows, `state` what the master was told; `pending` the agent's status updates that are
    not acknowledged, of which only the first has been sent."""

    __slots__ = (
        "agent", "amounts", "executor", "framework", "healthy", "id", "info", "latest",
        "pending", "sending", "state", "update_state", "update_uuid",
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
        self.latest: int = pb.TASK_STAGING
        self.state: int = pb.TASK_STAGING
        self.update_state: int | None = None
        self.update_uuid = b""
        self.healthy: bool | None = None
        self.pending: deque[pb.TaskStatus] = deque()
        self.sending = 0
        """Number of the last sending of `pending[0]`; kept by the status update manager."""


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
