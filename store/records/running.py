"""Records of running objects: the framework, applications, taskgroups and tasks, and the settings of agents."""

from __future__ import annotations

from typing import ClassVar, Literal, NamedTuple

from store.codes import DrainPhase, EndCause
from store.ids import UNNAMED, object_key
from store.records.definition import Amounts, AttributeValue, Part
from store.records.record import Record
from store.records.version import Executor
from store.records.workloads import Rolling

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
    "Staging", "Operating", "Deploying", "Running", "Abnormal", "Error", "Finish", "RollingUpdate", "Pending", "Stopped"
]
ApplicationType = Literal["application", "process", "daemonset"]


GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
"""Annotation with the name of the group that a workload belongs to."""


class LossHalt(Part, frozen=True, kw_only=True):
    """A large loss, which stops the replacement of lost taskgroups."""

    since: float
    """Unix seconds."""
    agents: int
    """Agents whose taskgroups were lost together."""
    taskgroups: int
    """Taskgroups that were lost together."""
    total: int
    """Taskgroups that had not ended before, in the whole cluster."""


class UnknownHalt(Part, frozen=True, kw_only=True):
    """Tasks run that the store does not know: nothing is launched and none of them is ended until an operator has
    decided."""

    since: float
    """Unix seconds."""
    taskgroups: int
    """Unknown taskgroups at that time; more may have been found since."""
    total: int
    """Taskgroups at that time: unknown ones, and those of the records that had not ended."""
    newer: int
    """Unknown taskgroups at that time whose ids no leader of this store can have made."""


class IdGap(Part, frozen=True, kw_only=True):
    """A span of time in which no leader of this store was at work. A taskgroup with an id from this span was made by a
    leader with another copy of the store."""

    after: int
    """Unix nanoseconds: the mark of the store at the start of the span. No id and no time in the store was greater."""
    until: int
    """Unix nanoseconds at which the next leader began."""


class Framework(Record, frozen=True, kw_only=True):
    """The registration with the cluster manager. There is one framework record, and every new leader uses the same
    id."""

    kind: ClassVar[str] = "framework"

    id: str = ""
    cluster: str = UNNAMED
    """Name of the cluster, part of every taskgroup id; as `store.ids.safe_cluster` gives it."""
    created_at: float = 0.0
    seen_at: float = 0.0
    """Unix seconds at which a leader was last at work, exact to bcs_scheduler.core.term_start.MARK_EVERY seconds."""
    forgotten: bool = False
    """An operator has dropped the id (forget-framework): the next leader registers a new framework, although taskgroups
    of the old one may be recorded as alive."""
    halt: LossHalt | None = None
    """The loss that stops the replacement of lost taskgroups; None: they are replaced."""
    losses_accepted_at: float = 0.0
    """Unix seconds. Losses up to this time are replaced, however many there are."""
    unknown: UnknownHalt | None = None
    """The halt because of running tasks that the store does not know; None: there is none."""
    gaps: tuple[IdGap, ...] = ()
    """The longest spans without a leader, in the order of their times."""

    @property
    def key(self) -> str:
        """A constant: there is one framework record."""
        return "framework"


class Owner(NamedTuple):
    """Kind and key of the record that an application belongs to."""

    kind: Literal["deployment", "daemonset"]
    key: str


class Application(Record, frozen=True, kw_only=True):
    """N identical taskgroups. `instances` is the wanted number; the existing ones are counted by State."""

    kind: ClassVar[str] = "application"

    namespace: str
    name: str
    type: ApplicationType = "application"
    deployment: str = ""
    """Name of the deployment it belongs to; it is changed through that only. A daemonset is found by its own name."""
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
    user: str = ""
    """Name of the caller who has created the application or its deployment; empty = not known."""
    user_groups: tuple[str, ...] = ()
    """The groups of that caller at that time."""
    created_at: float = 0.0
    updated_at: float = 0.0

    @property
    def key(self) -> str:
        """The key: ``namespace/name``."""
        return object_key(self.namespace, self.name)

    @property
    def deployment_key(self) -> str:
        """Key of the deployment that owns the application. No object has this key if `deployment` is empty."""
        return object_key(self.namespace, self.deployment)

    @property
    def group(self) -> str:
        """Key of the group that the application belongs to; empty = none. Daemonsets belong to no group."""
        name = self.annotations.get(GROUP_ANNOTATION, "") if self.type != "daemonset" else ""
        return object_key(self.namespace, name) if name else ""

    @property
    def member(self) -> str:
        """The name of the application in its group: both sides of a deployment are one member."""
        return self.deployment or self.name

    @property
    def owner(self) -> Owner | None:
        """The deployment or daemonset that owns the application, and through which users change the application; None
        if users change the application itself."""
        if self.type == "daemonset":
            return Owner("daemonset", self.key)
        return Owner("deployment", self.deployment_key) if self.deployment else None


class BoundPort(Part, frozen=True, kw_only=True):
    """A port of a task after placement."""

    name: str
    protocol: str = "tcp"
    container_port: int = 0
    host_port: int = 0


class CheckResult(Part, frozen=True, kw_only=True):
    """The latest result of one health check of a task. `healthy` None: no result has been reported yet."""

    type: Literal["HTTP", "TCP", "COMMAND", "REMOTE_HTTP", "REMOTE_TCP"]
    healthy: bool | None = None
    message: str = ""
    failures: int = 0
    """Number of consecutive failures."""
    updated_at: float = 0.0
    """Unix seconds of the last change of the verdict."""


class Task(Part, frozen=True, kw_only=True):
    """One task of a taskgroup. `ended`: it is certain that the task does not run any more.

    `healthy` sums up `checks`: False if any check fails, True if all pass, None while one has no result or if there are
    no checks.
    """

    id: str
    name: str = ""
    status: TaskStatus = "Staging"
    last_status: TaskStatus = "Staging"
    status_since: float = 0.0
    """Unix seconds at which the scheduler learned of the status; 0.0 in records of earlier versions."""
    message: str = ""
    reason: str = ""
    unfetched: bool = False
    """The task never started because its agent could not fetch the executor."""
    healthy: bool | None = None
    ended: bool = False
    oom: bool = False
    container_ip: str = ""
    ports: tuple[BoundPort, ...] = ()
    checks: tuple[CheckResult, ...] = ()
    pid: int = 0
    """Process id of the process, or of the first process of the container, as seen on the agent."""
    container_id: str = ""
    exit_code: int | None = None
    """Negative: ended by that signal."""
    started_at: float = 0.0
    """Unix seconds by the agent's clock, like `finished_at`: shown to users, and never compared with the scheduler's
    time."""
    finished_at: float = 0.0
    updated_at: float = 0.0


LAST_FAILURE = 300
"""Longest message of a failure that the replacement of a taskgroup keeps."""


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
    """Unix seconds at which the scheduler decided to end the taskgroup; 0.0 = the taskgroup is wanted."""
    end_cause: EndCause = ""
    """Code of the reason for which the taskgroup is ended; the program compares only this code."""
    kill_reason: str = ""
    """The same in words, with details."""
    held: bool = False
    """A user cancelled its restart: it is not restarted until it has run again."""
    restarts: int = 0
    last_restart_at: float = 0.0
    relaunches: int = 0
    """Launches in a row before this one that did not happen. They are no restarts."""
    unfetched: int = 0
    """Number of those launches for which the executor could not be fetched."""
    last_failure: str = ""
    """Message of the failed taskgroup that this one replaces, cut after LAST_FAILURE characters; empty = none."""
    unreachable_since: float = 0.0
    created_at: float = 0.0
    running_since: float = 0.0
    ended_at: float = 0.0
    updated_at: float = 0.0

    @property
    def key(self) -> str:
        """The id of the taskgroup."""
        return self.id

    @property
    def application_key(self) -> str:
        """Key of the application that the taskgroup belongs to."""
        return object_key(self.namespace, self.application)

    @property
    def ended(self) -> bool:
        """True if it is certain that no task of the taskgroup runs."""
        for task in self.tasks:  # noqa: SIM110 (asked several times per status report; all() takes three times as long)
            if not task.ended:
                return False
        return True

    @property
    def name(self) -> str:
        """The name ``application-index``, which a taskgroup and its replacements share."""
        return f"{self.application}-{self.index}"


class OrphanedTask(Record, frozen=True, kw_only=True):
    """Tasks that may still run on an agent although the record of their taskgroup was removed before the taskgroup had
    ended. The scheduler kills the tasks whenever the agent can be reached, and keeps this record until they are known
    to be gone. If an operator has adopted the tasks, they are not killed."""

    kind: ClassVar[str] = "remnant"

    id: str
    """Id of the taskgroup."""
    agent_id: str = ""
    tasks: tuple[str, ...] = ()
    """Ids of those that may still run."""
    since: float = 0.0
    adopted: bool = False
    """The store did not know these tasks, and an operator has decided that they stay."""

    @property
    def key(self) -> str:
        """The id of the taskgroup that the tasks belonged to."""
        return self.id


class FailedOutput(Record, frozen=True, kw_only=True):
    """The last output of a task that has failed. It outlives the taskgroup, its sandbox and its agent, and is removed
    before its owner."""

    kind: ClassVar[str] = "output"

    id: str
    """Id of the task."""
    taskgroup: str = ""
    namespace: str = ""
    application: str = ""
    deployment: str = ""
    """Name of the deployment that the application belonged to; empty = none."""
    index: int = 0
    """Index of the taskgroup within the application."""
    number: int = 0
    """Position of the task within the taskgroup, from 0."""
    name: str = ""
    """Name of the task; empty if the task has none, or was not known any more."""
    agent_id: str = ""
    at: float = 0.0
    """Time at which the scheduler received the output, in Unix seconds."""
    data: bytes = b""
    """Compressed entries (bcs_scheduler.wire.kept_output)."""

    @property
    def key(self) -> str:
        """The id of the task."""
        return self.id

    @property
    def owner(self) -> tuple[Literal["application", "deployment"], str]:
        """Kind and key of the object with which the output is removed: the deployment of its application, if there is
        one, because an update replaces the application."""
        if self.deployment:
            return "deployment", object_key(self.namespace, self.deployment)
        return "application", object_key(self.namespace, self.application)


class Drain(Part, frozen=True, kw_only=True):
    """The state of a drain, which moves taskgroups away from an agent. The remaining work is computed from the present
    taskgroups."""

    since: float
    at_once: int = 1
    """Taskgroups of the agent that may be on their way at once."""
    daemonsets: bool = False
    """Their taskgroups are ended too; otherwise they stay."""
    deadline: float = 0.0
    """Unix seconds after which no taskgroup is moved and the drain counts as failed; 0.0 = no deadline."""
    done_at: float = 0.0
    phase: DrainPhase = "Moving"
    message: str = ""
    blocked: bool = False
    """No taskgroup has been on its way for some time, and the message has the causes."""


class AgentSetting(Record, frozen=True, kw_only=True):
    """Settings that operators make for one agent, named by its InnerIP attribute (or host name if it has none)."""

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
    """The drain of the agent, active or ended; the agent stays cordoned as long as this is set. None: the agent is not
    drained."""

    @property
    def key(self) -> str:
        """The key of the agent: the address by which operators name it."""
        return self.agent
