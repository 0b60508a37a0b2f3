"""Every persisted thing as a frozen struct.

A record is immutable; a change replaces it. Times are Unix seconds (float) unless the name says otherwise;
0.0 means "not yet". `kind` names the table, `key` is unique within it. Records carry `schema`, the version
of their layout; store.codec keeps fields that a newer layout added.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from store.definition import (
    Amounts,
    AttributeValue,
    Constraint,
    Container,
    KillPolicy,
    Part,
    RestartPolicy,
    Toleration,
    UnreachablePolicy,
)

SCHEMA = 1

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
TransactionKind = Literal["LAUNCH", "SCALE", "INNERSCALE", "UPDATE", "RESCHEDULE", "DELETE"]
TransactionStatus = Literal["INIT", "FINISH", "FAIL", "TIMEOUT", "CANCEL"]


CommandType = Literal["command", "local", "remote", "signal", "env", "restart", "reload", "resources", "commit"]
"""What executors can be told (bcs_api 7.9): run a command, write a file given or fetched, send a signal, set a variable
for later restarts, restart, reload, change limits in place, commit an image."""
MessageStatus = Literal["staging", "running", "success", "failed"]
Executor = Literal["bcs", "mesos"]
"""What runs a taskgroup on its agent: our own executor, or Mesos's default executor."""


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Base of all persisted things. Immutable trees have no cycles, so the garbage collector need not look at them:
    with 100,000s of them each of its full passes would take tenths of a second."""

    kind: ClassVar[str] = ""

    schema: int = SCHEMA
    extra: dict[str, Any] = {}
    """Fields of a newer layout, kept by path (store.codec); empty for records of our own layout."""

    @property
    def key(self) -> str:
        raise NotImplementedError


class Framework(Record, frozen=True, kw_only=True):
    """The one registration with Mesos. Its id outlives every leader."""

    kind: ClassVar[str] = "framework"

    id: str = ""
    cluster: str = "Unnamed"
    """Name of the Mesos cluster, part of every taskgroup id."""
    created_at: float = 0.0

    @property
    def key(self) -> str:
        return "framework"


class Application(Record, frozen=True, kw_only=True):
    """N identical taskgroups. `instances` is the wanted number; the existing ones are counted by State."""

    kind: ClassVar[str] = "application"

    namespace: str
    name: str
    type: Literal["application", "process"] = "application"
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


class Version(Record, frozen=True, kw_only=True):
    """One immutable, resolved definition of an application. Names are decimal Unix nanoseconds; newest is greatest."""

    kind: ClassVar[str] = "version"

    namespace: str
    application: str
    name: str = ""
    instances: int = 1
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    pod_labels: dict[str, str] = {}
    pod_annotations: dict[str, str] = {}
    executor: Executor | Literal[""] = ""
    """Empty = the scheduler's default at the time of each launch."""
    network_mode: str = ""
    network_type: str = ""
    containers: tuple[Container, ...] = ()
    restart_policy: RestartPolicy = RestartPolicy()
    kill_policy: KillPolicy = KillPolicy()
    unreachable_policy: UnreachablePolicy = UnreachablePolicy()
    constraints: tuple[tuple[Constraint, ...], ...] = ()
    """All of the outer, any of the inner."""
    tolerations: tuple[Toleration, ...] = ()
    max_unavailable: int = 0
    """How many taskgroups a plain update may take down at once; 0 = a quarter, at least one."""
    role: str = ""
    """Mesos role whose offers are used; empty = the scheduler's default role."""
    raw: str = ""
    """The user's document as JSON, for the definition route and roll back."""
    created_at: float = 0.0

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.application}/{self.name}"


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


class Task(Part, frozen=True, kw_only=True):
    """One task inside its taskgroup. `ended` says it is certain that it does not run (any more).

    `healthy` sums up `checks`: False if any fails, True if all pass, None while one is open or if there are none.
    """

    id: str
    name: str = ""
    status: TaskStatus = "Staging"
    last_status: TaskStatus = "Staging"
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
    """LAUNCH, SCALE: wanted instances. UPDATE: taskgroups to bring to `version`. RESCHEDULE: 1."""
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
    max_unavailable: int = 0
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

    @property
    def key(self) -> str:
        return self.agent


class ConfigItem(Part, frozen=True, kw_only=True):
    """`type` file: `content` is base64; http, https: `content` is a URL, fetched on the agent, with basic
    authentication if `user` is given."""

    type: Literal["file", "http", "https"] = "file"
    content: str = ""
    user: str = ""
    password: str = ""

    def __repr__(self) -> str:
        return f"ConfigItem({self.type})"


class ConfigMap(Record, frozen=True, kw_only=True):
    """Configuration that containers take as environment or files when they are launched (bcs_api 6.10)."""

    kind: ClassVar[str] = "configmap"

    namespace: str
    name: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    items: dict[str, ConfigItem] = {}
    created_at: float = 0.0
    updated_at: float = 0.0

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class Secret(Record, frozen=True, kw_only=True):
    """Like a configmap, but what it holds is shown to nobody (bcs_api 6.11). `items`: base64 by key."""

    kind: ClassVar[str] = "secret"

    namespace: str
    name: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    items: dict[str, str] = {}
    created_at: float = 0.0
    updated_at: float = 0.0

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    def __repr__(self) -> str:
        return f"Secret({self.key}, keys: {sorted(self.items)})"


class Command(Record, frozen=True, kw_only=True):
    """Something executors were told to do: what, and to whom. How it went for each taskgroup is in its Messages."""

    kind: ClassVar[str] = "command"

    id: str
    """``Application-<namespace>-<name>-<unixNano>``."""
    type: CommandType
    namespace: str
    application: str
    body: dict[str, Any] = {}
    """By type: docs/executor-protocol.md. May hold what only its taskgroups may see (file contents, variables)."""
    image: str = ""
    """Only tasks whose image contains this are meant."""
    cause: str = ""
    created_at: float = 0.0
    timeout: float = 60.0
    """Seconds the work may take on the agent."""
    deadline: float = 0.0
    """What has not been answered by then has failed."""
    keep_until: float = 0.0

    @property
    def key(self) -> str:
        return self.id

    def __repr__(self) -> str:
        return f"Command({self.id}, {self.type})"


class MessageResult(Part, frozen=True, kw_only=True):
    """What came of a message for one task. Output is cut at a limit; then `truncated`."""

    task: str
    ok: bool
    message: str = ""
    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""
    truncated: bool = False


class Message(Record, frozen=True, kw_only=True):
    """One Command for one taskgroup: sent (`running`) until its executor answers or the deadline has passed."""

    kind: ClassVar[str] = "message"

    id: str
    """Decimal Unix nanoseconds, unique; executors carry out each id once."""
    command: str
    taskgroup: str
    tasks: tuple[str, ...] = ()
    """Ids of the tasks that are meant."""
    status: MessageStatus = "staging"
    message: str = ""
    results: tuple[MessageResult, ...] = ()
    created_at: float = 0.0
    completed_at: float = 0.0

    @property
    def key(self) -> str:
        return self.id

    @property
    def open(self) -> bool:
        return self.status in ("staging", "running")


KINDS: dict[str, type[Record]] = {
    cls.kind: cls
    for cls in (
        Framework,
        Application,
        Version,
        TaskGroup,
        Transaction,
        AgentSetting,
        ConfigMap,
        Secret,
        Command,
        Message,
    )
}
