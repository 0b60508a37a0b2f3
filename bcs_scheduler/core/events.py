"""Everything that can happen to the core, as data. Adapters make these; the core handles them in order.

`cause` identifies the event in logs, records and effects. Times are Unix seconds.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from offers.model import SealedOffer
from store.records import CommandType, ConfigMap, MessageResult, Secret, Version

MesosState = Literal[
    "TASK_STAGING",
    "TASK_STARTING",
    "TASK_RUNNING",
    "TASK_KILLING",
    "TASK_FINISHED",
    "TASK_FAILED",
    "TASK_KILLED",
    "TASK_ERROR",
    "TASK_LOST",
    "TASK_DROPPED",
    "TASK_UNREACHABLE",
    "TASK_GONE",
    "TASK_GONE_BY_OPERATOR",
    "TASK_UNKNOWN",
]

RECONCILIATION = "REASON_RECONCILIATION"
"""Reason of a master's answer to RECONCILE: it repeats the latest state, and its message says only that."""


class CheckReport(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One local health check, as its executor sees it. `healthy` None: not probed yet."""

    type: Literal["HTTP", "TCP", "COMMAND"]
    healthy: bool | None = None
    message: str = ""
    failures: int = 0


class RemoteResult(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One REMOTE health check, as the core applies it."""

    type: Literal["REMOTE_HTTP", "REMOTE_TCP"]
    healthy: bool
    message: str = ""
    failures: int = 0


class TaskDetail(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What our executor knows of a task (bcs_api 7.3, StatusData). Times are Unix seconds, 0.0 = not yet."""

    pid: int = 0
    container_id: str = ""
    container_ip: str = ""
    exit_code: int | None = None
    oom: bool = False
    restarting: bool = False
    """It is being restarted in place on request."""
    started_at: float = 0.0
    finished_at: float = 0.0
    checks: tuple[CheckReport, ...] = ()


class Event(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    cause: str = ""


# --- from Mesos -----------------------------------------------------------------------------------------------


class Subscribed(Event, frozen=True, kw_only=True):
    """A subscription is up. Every offer known before is void."""

    framework_id: str
    heartbeat_interval: float = 15.0
    master: str = ""
    cluster: str = ""
    """Cluster name the master reports; empty if it has none."""


class Disconnected(Event, frozen=True, kw_only=True):
    """The subscription is down; the driver connects again by itself. Every offer known before is void."""

    reason: str = ""


class FrameworkRemoved(Event, frozen=True, kw_only=True):
    """Mesos will not have this framework any more (ERROR event)."""

    message: str


class Superseded(Event, frozen=True, kw_only=True):
    """Another connection has subscribed as this framework (ERROR event). It is for the term, which ends; the core does
    not see it."""


class OffersArrived(Event, frozen=True, kw_only=True):
    offers: tuple[SealedOffer, ...]


class OfferRescinded(Event, frozen=True, kw_only=True):
    offer_id: str


class InverseOffersArrived(Event, frozen=True, kw_only=True):
    """Planned maintenance: agents whose resources are asked back, with the moment (Unix seconds)."""

    offers: tuple[tuple[str, str, float], ...]  # (inverse offer id, agent id or "", unavailable from)


class StatusUpdate(Event, frozen=True, kw_only=True):
    """A task status. `uuid` is empty for updates that need no acknowledgement (reconciliation, master-made)."""

    task_id: str
    state: str
    agent_id: str = ""
    executor_id: str = ""
    uuid: bytes = b""
    source: str = ""
    reason: str = ""
    message: str = ""
    healthy: bool | None = None
    timestamp: float = 0.0
    container_ip: str = ""
    detail: TaskDetail | None = None
    """What our own executor says beside the state."""
    unfetched: bool = False
    """The agent could not fetch what it needs to start the executor, so nothing has run."""


class TasksReported(Event, frozen=True, kw_only=True):
    """A steady report of our executor about its running tasks, best effort: (task id, detail)."""

    agent_id: str
    executor_id: str
    tasks: tuple[tuple[str, TaskDetail], ...]


class MessageAnswered(Event, frozen=True, kw_only=True):
    """Our executor about a message: taken in hand (`running`), or done. Best effort; the message is sent again until
    the last word has arrived."""

    agent_id: str
    executor_id: str
    message_id: str
    status: Literal["running", "success", "failed"]
    message: str = ""
    results: tuple[MessageResult, ...] = ()


class HealthReported(Event, frozen=True, kw_only=True):
    """Result of a REMOTE check by the built-in prober; only changes are reported."""

    task_id: str
    type: Literal["REMOTE_HTTP", "REMOTE_TCP"]
    healthy: bool
    message: str = ""


class ExecutorTerminated(Event, frozen=True, kw_only=True):
    """FAILURE event with an executor id."""

    agent_id: str
    executor_id: str
    status: int = 0


class AgentRemoved(Event, frozen=True, kw_only=True):
    """FAILURE event for a whole agent."""

    agent_id: str


class AcceptFailed(Event, frozen=True, kw_only=True):
    """Mesos refused an ACCEPT (4xx) or it certainly never left. Its taskgroups were not launched if `certain`;
    otherwise only reconciliation can tell."""

    taskgroups: tuple[str, ...]
    reason: str
    certain: bool = False


class AgentsListed(Event, frozen=True, kw_only=True):
    """Answer of GET_AGENTS: agent id, host name, ip, totals and attributes, for the cluster resources."""

    agents: tuple[dict[str, Any], ...]
    clock: float = 0.0
    """Unix time of the master when it made the list, by the clock of `registered_time`; 0.0 = not known."""


# --- time -----------------------------------------------------------------------------------------------------


class Tick(Event, frozen=True, kw_only=True):
    """The moment the core asked for has come (or simply time has passed)."""


# --- commands of the API --------------------------------------------------------------------------------------


class Command(Event, frozen=True, kw_only=True):
    """Asked by a user. Answered by exactly one Reply effect with the same token. With `dry_run` nothing changes and the
    answer is the plan."""

    token: int = 0
    dry_run: bool = False


class CreateApplication(Command, frozen=True, kw_only=True):
    """`version` comes from the document, without a name."""

    version: Version
    type: Literal["application", "process"] = "application"


class UpdateApplication(Command, frozen=True, kw_only=True):
    """Replaces the definition. `instances`: how many taskgroups to bring to it (None = all). The version has none (0)
    if its document names no number: the number that the application has when the command is carried out stays."""

    version: Version
    instances: int | None = None
    max_unavailable: int | None = None
    resources_only: bool = False
    """Change nothing but limits, in place: the running taskgroups are told by a command of type resources."""


class RollbackApplication(Command, frozen=True, kw_only=True):
    """Updates to a stored version (None = the one before the newest)."""

    namespace: str
    name: str
    version: str | None = None
    instances: int | None = None


class ScaleApplication(Command, frozen=True, kw_only=True):
    namespace: str
    name: str
    instances: int
    inner: bool = False


class DeleteApplication(Command, frozen=True, kw_only=True):
    namespace: str
    name: str
    enforce: bool = False


class RescheduleTaskGroup(Command, frozen=True, kw_only=True):
    taskgroup: str
    host_retain: float = 0.0


class CancelTransaction(Command, frozen=True, kw_only=True):
    id: str


class SetAgent(Command, frozen=True, kw_only=True):
    """Changes the settings of one agent; None leaves a part as it is."""

    agent: str
    disabled: bool | None = None
    strings: dict[str, str] | None = None
    scalars: dict[str, float] | None = None
    taints: dict[str, str] | None = None
    extended: dict[str, int] | None = None
    """Upserted by name."""
    sockets: dict[str, str] | None = None


class DeleteAgentSetting(Command, frozen=True, kw_only=True):
    agent: str


class Put(Command, frozen=True, kw_only=True):
    """Of an object that is kept as its document says; its times are filled in. `create`: it must not (True) or must
    (False) exist, None = either. `expected`: the version it must have (bcs_scheduler.core.concurrency), "" = any."""

    create: bool | None = None
    expected: str = ""


class PutConfigMap(Put, frozen=True, kw_only=True):
    config_map: ConfigMap


class DeleteConfigMap(Command, frozen=True, kw_only=True):
    namespace: str
    name: str


class PutSecret(Put, frozen=True, kw_only=True):
    secret: Secret


class DeleteSecret(Command, frozen=True, kw_only=True):
    namespace: str
    name: str


class Instruct(Command, frozen=True, kw_only=True):
    """Tells the executors of an application's taskgroups to do something: writes a Command and its Messages.

    `owner`: kind of what `name` names; of a deployment the taskgroups of both its applications are meant.
    `taskgroups`: ids; empty = all of it; each must belong to it. `body` by type as in
    docs/executor-protocol.md, already validated. `reserve`: seconds the outcome stays readable.
    """

    namespace: str
    name: str
    type: CommandType
    owner: Literal["application", "deployment"] = "application"
    body: dict[str, Any] = {}
    taskgroups: tuple[str, ...] = ()
    image: str = ""
    timeout: float = 60.0
    reserve: float = 86400.0

    def __repr__(self) -> str:
        return f"Instruct({self.namespace}/{self.name}, {self.type})"


class DeleteCommand(Command, frozen=True, kw_only=True):
    """Forgets a command and its messages; what is under way on agents goes on."""

    id: str


class ReportHealth(Command, frozen=True, kw_only=True):
    """An outside module about a REMOTE check of a task."""

    task_id: str
    type: Literal["REMOTE_HTTP", "REMOTE_TCP"]
    healthy: bool
    message: str = ""
