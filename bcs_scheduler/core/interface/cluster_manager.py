"""The interface between the core and any cluster manager: inputs that report tasks and agents, and effects that ask for
launches, ends and answers.

Every cluster manager has these. Inputs and effects of managers with offers are in bcs_scheduler.core.interface.leased.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from bcs_scheduler.core.interface.effects import Effect
from bcs_scheduler.core.interface.inputs import Input
from offers.agents import ListedAgent
from offers.model import Allocation
from store.records import CommandType, MessageResult, TaskGroup, Version
from transactions.base import Overhead
from transactions.injection import Injected
from transactions.resource_request import EXECUTOR
from transactions.rules.task_states import TaskState


class Traits(NamedTuple):
    """The abilities of a cluster manager. The core gets them once per term and never asks which manager it is."""

    capacity: Literal["leased"] = "leased"
    """Leased: the manager lends capacity by offers (bcs_scheduler.core.interface.leased), which are used up by a
    launch. Standing capacity is in offers.ledger; no manager has it yet."""
    messages: bool = True
    """Our executor runs on the agents and takes messages (SendMessage)."""
    complete_lists: bool = False
    """True if AgentsListed arrives with every change of the agents and is always complete, so that ListAgents is not
    needed."""
    loses_news: bool = True
    """Reports may be lost while connected, so tasks are asked for when nothing has been heard of them for long."""
    overhead: Overhead = EXECUTOR
    """Resources that a taskgroup uses beside its containers. Quotas count them, so the options of the program carry
    them also to a standby, which has no cluster manager."""


class Deliver(Protocol):
    """Takes events of a cluster manager. Any thread of the driver may call."""

    def __call__(self, *events: Input) -> None:
        """Takes events that have arrived together, in their order. May block until the core has room."""


class ClusterManager(Protocol):
    """The driver of a cluster manager, as a term uses it. `start` and `stop` are called once each."""

    @property
    def traits(self) -> Traits:
        """The abilities of the cluster manager; constant for a term."""

    def start(
        self, framework_id: str, cluster: str = "", may_subscribe: Callable[[], bool | None] | None = None
    ) -> None:
        """Connects, and connects again whenever the connection is lost. `framework_id`: identity of an earlier term,
        empty if there was none. `may_subscribe` is called before each connection: True = connect, False = another
        scheduler leads, None = not known now."""

    def stop(self) -> None:
        """Ends the connection. No input is delivered afterwards."""

    def send(self, batch: Sequence[Effect]) -> None:
        """Sends effects in order, from any thread. Blocks while the queue of the driver is full."""

    def status(self) -> dict[str, Any]:
        """Returns the status for /readyz and metrics: `connected` and other facts that the driver knows."""


class CheckReport(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One local health check, as its executor sees it. `healthy` None: not probed yet."""

    type: Literal["HTTP", "TCP", "COMMAND"]
    healthy: bool | None = None
    message: str = ""
    failures: int = 0


class TaskDetail(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The details that our executor knows of a task (StatusData, docs/original.md#taskgroup-views). Times are Unix
    seconds, 0.0 = not yet."""

    pid: int = 0
    container_id: str = ""
    container_ip: str = ""
    exit_code: int | None = None
    oom: bool = False
    restarting: bool = False
    """True while the task is being restarted in place on request."""
    started_at: float = 0.0
    finished_at: float = 0.0
    checks: tuple[CheckReport, ...] = ()


class Connected(Input, frozen=True, kw_only=True):
    """A subscription is up. Every offer known before is void."""

    framework_id: str
    heartbeat_interval: float = 15.0
    master: str = ""
    cluster: str = ""
    """Cluster name the master reports; empty if it has none."""


class Disconnected(Input, frozen=True, kw_only=True):
    """The subscription is down; the driver connects again by itself. Every offer known before is void."""

    reason: str = ""


class RegistrationRevoked(Input, frozen=True, kw_only=True):
    """The cluster manager refuses this scheduler permanently."""

    message: str


class Superseded(Input, frozen=True, kw_only=True):
    """Another connection has subscribed as this framework (ERROR event). The term handles this input and ends; the core
    does not see the input."""


class StatusUpdate(Input, frozen=True, kw_only=True):
    """The state of a task. `uuid`: receipt that an Acknowledge returns; empty for updates that need none (answers to
    questions, updates that the cluster manager makes itself)."""

    task_id: str
    state: TaskState
    agent_id: str = ""
    executor_id: str = ""
    uuid: bytes = b""
    source: str = ""
    reason: str = ""
    """Code of the cluster manager, shown to users and never compared."""
    message: str = ""
    healthy: bool | None = None
    """Verdict of the health checks. None: no health check has reported."""
    timestamp: float = 0.0
    container_ip: str = ""
    detail: TaskDetail | None = None
    """Details that our own executor reports beside the state. None: the task has another executor."""
    unfetched: bool = False
    """True if the agent could not fetch the files of the executor, so no task has run."""
    answer: bool = False
    """The answer to Reconcile: the update repeats the latest state, and its message says only that."""
    out_of_memory: bool = False
    """The task was ended because it used more memory than it may."""


class TasksReported(Input, frozen=True, kw_only=True):
    """A steady report of our executor about its running tasks, best effort: (task id, detail)."""

    agent_id: str
    executor_id: str
    tasks: tuple[tuple[str, TaskDetail], ...]


class MessageAnswered(Input, frozen=True, kw_only=True):
    """The answer of an executor to a message: accepted (`running`) or completed. Best effort: the message is sent again
    until the final answer has arrived."""

    agent_id: str
    executor_id: str
    message_id: str
    status: Literal["running", "success", "failed"]
    message: str = ""
    results: tuple[MessageResult, ...] = ()


class OutputReported(Input, frozen=True, kw_only=True):
    """The last output of a task that has failed, best effort. `data`: as bcs_scheduler.wire.kept_output reads it; the
    core does not look at it."""

    agent_id: str
    executor_id: str
    task_id: str
    data: bytes
    name: str = ""
    """Name of the task; empty = not known."""
    fetched: bool = False
    """The answer to FetchOutput. False: the executor has sent the output by itself."""


class ExecutorTerminated(Input, frozen=True, kw_only=True):
    """FAILURE event with an executor id."""

    agent_id: str
    executor_id: str
    status: int = 0


class AgentRemoved(Input, frozen=True, kw_only=True):
    """FAILURE event for a whole agent."""

    agent_id: str


class LaunchFailed(Input, frozen=True, kw_only=True):
    """The cluster manager refused a launch, or the launch certainly never left. The taskgroups were not launched if
    `certain`; otherwise only reconciliation can find out."""

    taskgroups: tuple[str, ...]
    reason: str
    certain: bool = False


class AgentsListed(Input, frozen=True, kw_only=True):
    """The agents of the cluster: all of them, as of one moment."""

    agents: tuple[ListedAgent, ...]
    clock: float = 0.0
    """Unix time of the cluster manager when it made the list, by the clock of `registered_time`; 0.0 = not known."""
    awaited: tuple[str, ...] = ()
    """Ids, host names and keys (ListedAgent.key) of agents that are not listed because the cluster manager waits for
    them: its leader has changed, and they have not registered with the new one yet."""


class Launch(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One taskgroup to launch: record, definition, and the concrete resources it takes from the agent's offers."""

    taskgroup: TaskGroup
    version: Version
    allocation: Allocation
    injected: tuple[Injected, ...] = ()
    """Per container, the present values of its configmaps and secrets; empty if the version refers to none. Must never
    be logged."""

    @property
    def kept(self) -> bool:
        """True: nothing is started. The cluster manager keeps the allocation for the taskgroup
        (offers.ledger.external)."""
        return self.version.kept

    @property
    def held(self) -> bool:
        """True: the launch never leaves. The core holds the room for the taskgroup (offers.ledger.holds)."""
        return self.version.held


class LaunchOnAgent(Effect, frozen=True, kw_only=True):
    """All launches on one agent, in one call. `offer_ids`: the leased capacity that the call uses up; the rest of it
    returns in other offers."""

    agent_id: str
    offer_ids: tuple[str, ...]
    launches: tuple[Launch, ...]
    refuse_seconds: float = 0.0


class End(Effect, frozen=True, kw_only=True):
    """Ends a taskgroup. Repeated until reports say that its tasks have ended."""

    taskgroup: str
    tasks: tuple[str, ...]
    """Ids of the tasks that may still run. With `forced` there may be none: then the core knows no such task, and no
    task of the taskgroup may run."""
    agent_id: str
    """Empty: the core does not know the agent."""
    grace_period: float = 1.0
    """Seconds between SIGTERM and SIGKILL of each task."""
    forced: bool = False
    """The agent ends the taskgroup as a whole, and destroys the processes that do not end by themselves."""


class SendMessage(Effect, frozen=True, kw_only=True):
    """One message to our executor of a taskgroup. Not to be logged: `body` may hold confidential content."""

    agent_id: str
    executor_id: str
    message_id: str
    type: CommandType
    tasks: tuple[str, ...]
    body: dict[str, Any]
    timeout: float

    def __repr__(self) -> str:
        return f"SendMessage({self.message_id}, {self.type}, {self.executor_id})"


class Acknowledge(Effect, frozen=True, kw_only=True):
    """The receipt for one status update. `uuid`: the mark of the update."""

    task_id: str
    agent_id: str
    uuid: bytes


class Reconcile(Effect, frozen=True, kw_only=True):
    """Explicit for (task id, agent id) pairs; implicit if there are none."""

    tasks: tuple[tuple[str, str], ...] = ()


class FetchOutput(Effect, frozen=True, kw_only=True):
    """Reads the last output of a task that has failed from its agent. OutputReported answers. There is no answer if the
    agent is not listed as active, does not answer, has no output of the task, or if too many reads wait."""

    agent_id: str
    executor_id: str
    task_id: str
    name: str = ""
    """Name of the task; empty = the task has none."""


class ListAgents(Effect, frozen=True, kw_only=True):
    """Ask the master for its agents soon (AgentsListed answers), not only when it is time again."""
