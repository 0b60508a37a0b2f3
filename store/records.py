"""Every persisted thing as a frozen struct: what runs is here; definitions are in store.version, what owns applications
in store.workloads, services in store.services, configuration and messages in store.instructions, the rest in
store.objects.

A record is immutable; a change replaces it. Times are Unix seconds (float) unless the name says otherwise;
0.0 means "not yet". `kind` names the table, `key` is unique within it.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from store.definition import Amounts, AttributeValue, Part
from store.ids import UNNAMED
from store.instructions import Command as Command
from store.instructions import CommandType as CommandType
from store.instructions import ConfigItem as ConfigItem
from store.instructions import ConfigMap as ConfigMap
from store.instructions import Message as Message
from store.instructions import MessageResult as MessageResult
from store.instructions import MessageStatus as MessageStatus
from store.instructions import Secret as Secret
from store.objects import CustomKind as CustomKind
from store.objects import CustomObject as CustomObject
from store.objects import Happening as Happening
from store.objects import Hook as Hook
from store.objects import Journal as Journal
from store.objects import Namespace as Namespace
from store.objects import Quota as Quota
from store.objects import Webhook as Webhook
from store.record import SCHEMA as SCHEMA
from store.record import Record as Record
from store.services import Endpoint as Endpoint
from store.services import Member as Member
from store.services import MemberPort as MemberPort
from store.services import Service as Service
from store.services import ServicePort as ServicePort
from store.version import Executor as Executor
from store.version import Version as Version
from store.workloads import Canary as Canary
from store.workloads import Daemonset as Daemonset
from store.workloads import Deployment as Deployment
from store.workloads import Revision as Revision
from store.workloads import Rolling as Rolling
from store.workloads import Strategy as Strategy

TaskStatus = Literal[
    "Staging", "Starting", "Running", "Restarting", "Killing", "Killed", "Finish", "Failed", "Error", "Lost"
]
TaskGroupStatus = Literal[
    "Staging",
    "Starting",
    "Running",
    "Restarting",
    "Killing",
    "Killed",
    "Finish",
    "Failed",
    "Error",
    "Lost",
    "Unknown",
]
ApplicationStatus = Literal[
    "Staging", "Operating", "Deploying", "Running", "Abnormal", "Error", "Finish", "RollingUpdate"
]
ApplicationType = Literal["application", "process", "daemonset"]
TransactionKind = Literal["LAUNCH", "SCALE", "INNERSCALE", "UPDATE", "RESCHEDULE", "DELETE"]
TransactionStatus = Literal["INIT", "FINISH", "FAIL", "TIMEOUT", "CANCEL"]


class Framework(Record, frozen=True, kw_only=True):
    """The one registration with Mesos. Its id outlives every leader."""

    kind: ClassVar[str] = "framework"

    id: str = ""
    cluster: str = UNNAMED
    """Name of the Mesos cluster, part of every taskgroup id; as `store.ids.safe_cluster` gives it."""
    created_at: float = 0.0
    seen_at: float = 0.0
    """When a leader was last at work, to within bcs_scheduler.core.beginning.MARK_EVERY seconds."""
    forgotten: bool = False
    """An operator has dropped the id (forget-framework): the next leader registers a new framework, although taskgroups
    of the old one may be recorded as alive."""

    @property
    def key(self) -> str:
        return "framework"


class Application(Record, frozen=True, kw_only=True):
    """N identical taskgroups. `instances` is the wanted number; the existing ones are counted by State."""

    kind: ClassVar[str] = "application"

    namespace: str
    name: str
    type: ApplicationType = "application"
    deployment: str = ""
    """Name of the deployment it belongs to; it is changed through that only. A daemonset has its own name."""
    rolling: Rolling = ""
    """Its side in the rolling update of its deployment."""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    instances: int = 0
    version: str = ""
    """Name of the newest version."""
    status: ApplicationStatus = "Staging"
    last_status: ApplicationStatus = "Staging"
    message: str = ""
    operation: str = ""
    """Id of the transaction that owns the application while it is Operating."""
    created_at: float = 0.0
    updated_at: float = 0.0

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class BoundPort(Part, frozen=True, kw_only=True):
    """A port of a task after placement."""

    name: str
    protocol: str = "tcp"
    container_port: int = 0
    host_port: int = 0


class CheckResult(Part, frozen=True, kw_only=True):
    """What is known from one health check of a task. `healthy` None: it has not been reported yet."""

    type: Literal["HTTP", "TCP", "COMMAND", "REMOTE_HTTP", "REMOTE_TCP"]
    healthy: bool | None = None
    message: str = ""
    failures: int = 0
    """In a row."""
    updated_at: float = 0.0
    """When the verdict last changed."""


class Task(Part, frozen=True, kw_only=True):
    """One task inside its taskgroup. `ended` says it is certain that it does not run (any more).

    `healthy` sums up `checks`: False if any fails, True if all pass, None while one is open or if there are none.
    """

    id: str
    name: str = ""
    status: TaskStatus = "Staging"
    last_status: TaskStatus = "Staging"
    status_since: float = 0.0
    """When the scheduler learned of the status; 0.0 in records of earlier versions."""
    message: str = ""
    reason: str = ""
    healthy: bool | None = None
    ended: bool = False
    oom: bool = False
    container_ip: str = ""
    ports: tuple[BoundPort, ...] = ()
    checks: tuple[CheckResult, ...] = ()
    pid: int = 0
    """Of the process, or of the container's first one, as seen on the agent."""
    container_id: str = ""
    exit_code: int | None = None
    """Negative: ended by that signal."""
    started_at: float = 0.0
    """By the agent's clock, like `finished_at`: shown, and never compared with our time."""
    finished_at: float = 0.0
    updated_at: float = 0.0


class TaskGroup(Record, frozen=True, kw_only=True):
    """One instance of an application on one agent; all its tasks share one lifetime."""

    kind: ClassVar[str] = "taskgroup"

    id: str
    namespace: str
    application: str
    index: int
    version: str
    agent_id: str = ""
    hostname: str = ""
    agent_ip: str = ""
    role: str = ""
    executor: Executor = "mesos"
    status: TaskGroupStatus = "Staging"
    last_status: TaskGroupStatus = "Staging"
    message: str = ""
    tasks: tuple[Task, ...] = ()
    resources: Amounts = Amounts()
    extended: dict[str, int] = {}
    attributes: dict[str, AttributeValue] = {}
    """Agent attributes its constraints name, copied at launch (UNIQUE, MAXPER, GROUPBY count them)."""
    started: bool = False
    """A task of it has been reported Starting or Running by an executor."""
    killing_since: float = 0.0
    """When the scheduler decided to end it; 0.0 = it is wanted."""
    kill_reason: str = ""
    held: bool = False
    """A user cancelled its restart: it is not restarted until it has run again."""
    restarts: int = 0
    last_restart_at: float = 0.0
    relaunches: int = 0
    """Launches in a row before this one that did not happen. They are no restarts."""
    unfetched: int = 0
    """Those of them whose executor could not be fetched."""
    unreachable_since: float = 0.0
    created_at: float = 0.0
    running_since: float = 0.0
    ended_at: float = 0.0
    updated_at: float = 0.0

    @property
    def key(self) -> str:
        return self.id

    @property
    def ended(self) -> bool:
        """It is certain that no task of it runs."""
        for task in self.tasks:  # noqa: SIM110 (asked several times per status report; all() takes three times as long)
            if not task.ended:
                return False
        return True

    @property
    def name(self) -> str:
        return f"{self.application}-{self.index}"


class Note(Part, frozen=True, kw_only=True):
    """One line of a transaction's history."""

    at: float
    text: str


class Remnant(Record, frozen=True, kw_only=True):
    """What may be left on an agent of a taskgroup whose record was removed before the taskgroup had ended: it is ended
    whenever that agent can be reached, and remembered until it is known to be gone."""

    kind: ClassVar[str] = "remnant"

    id: str
    """Of the taskgroup."""
    agent_id: str = ""
    tasks: tuple[str, ...] = ()
    """Ids of those that may still run."""
    since: float = 0.0

    @property
    def key(self) -> str:
        return self.id


class Transaction(Record, frozen=True, kw_only=True):
    """One durable, time-boxed operation on one application.

    Progress is not stored: it is derived from the existing taskgroups, so that repeating a step is harmless.
    """

    kind: ClassVar[str] = "transaction"

    id: str
    type: TransactionKind
    namespace: str
    application: str
    status: TransactionStatus = "INIT"
    cause: str = ""
    """Id of the event that asked for it."""
    created_at: float
    due_at: float
    """Nothing is done before this moment (creation plus delay)."""
    deadline: float
    target: int = 0
    """LAUNCH, SCALE, INNERSCALE: wanted instances. UPDATE: taskgroups to bring to `version`. RESCHEDULE: 1."""
    version: str = ""
    inner: bool = False
    enforce: bool = False
    taskgroup: str = ""
    """RESCHEDULE: the taskgroup to be replaced."""
    host_retain: str = ""
    host_retain_until: float = 0.0
    force: bool = False
    restarts: int = 0
    """RESCHEDULE: restarts that count before this one."""
    drained: str = ""
    """RESCHEDULE: key of the settings of the agent it leads away from, if that is being drained."""
    left_agent: str = ""
    """RESCHEDULE that has ended: id of the agent on which a part of the old taskgroup may be left."""
    left_tasks: tuple[str, ...] = ()
    """RESCHEDULE that has ended: ids of the tasks that had not ended on that agent when the old taskgroup was replaced.
    This says the same as a Remnant, without a record of its own; whether the tasks have ended since is not recorded."""
    max_unavailable: int = 0
    victims: tuple[str, ...] = ()
    """INNERSCALE of a shrinking side: the taskgroups that are removed, chosen once, so that a new leader removes the
    same."""
    message: str = ""
    """The verdict in words, once it has ended; what was missing, if something was."""
    progress: int = 0
    """Final progress, filled in when it ends; API reads derive it while it is active."""
    history: tuple[Note, ...] = ()
    finished_at: float = 0.0

    @property
    def key(self) -> str:
        return self.id

    @property
    def active(self) -> bool:
        return self.status == "INIT"


class Drain(Part, frozen=True, kw_only=True):
    """Moving taskgroups away from an agent. What is left to do is derived from the taskgroups that are there."""

    since: float
    at_once: int = 1
    """Taskgroups of the agent that may be on their way at once."""
    daemonsets: bool = False
    """Their taskgroups are ended too; otherwise they stay."""
    deadline: float = 0.0
    """From then on nothing more is moved, and the drain counts as failed; 0.0 = none."""
    done_at: float = 0.0
    failed: bool = False
    """It ended with taskgroups left."""
    message: str = ""


class AgentSetting(Record, frozen=True, kw_only=True):
    """What operators set about an agent, by its InnerIP attribute (or host name where it has none)."""

    kind: ClassVar[str] = "agentsetting"

    agent: str
    disabled: bool = False
    strings: dict[str, str] = {}
    scalars: dict[str, float] = {}
    taints: dict[str, str] = {}
    extended: dict[str, int] = {}
    """Capacity of extended resources by name, in thousandths."""
    sockets: dict[str, str] = {}
    """Device plug-in socket by extended resource."""
    drain: Drain | None = None
    """It is being emptied, or has been; it is disabled as long as this stands."""

    @property
    def key(self) -> str:
        return self.agent


KINDS: dict[str, type[Record]] = {
    cls.kind: cls
    for cls in (
        Framework,
        Application,
        Version,
        TaskGroup,
        Remnant,
        Transaction,
        AgentSetting,
        ConfigMap,
        Secret,
        Command,
        Message,
        Deployment,
        Revision,
        Daemonset,
        Service,
        Endpoint,
        Namespace,
        Webhook,
        CustomKind,
        CustomObject,
        Journal,
    )
}
