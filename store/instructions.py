"""What users give taskgroups to work with, and what they tell them to do while they run.

Times are Unix seconds, durations seconds.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from store.definition import Part
from store.record import Record

CommandType = Literal["command", "local", "remote", "signal", "env", "restart", "reload", "resources", "commit"]
"""What executors can be told (bcs_api 7.9): run a command, write a file given or fetched, send a signal, set a variable
for later restarts, restart, reload, change limits in place, commit an image."""
MessageStatus = Literal["staging", "running", "success", "failed"]


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
    """``Application-<namespace>-<name>-<unixNano>``; ``Deployment-...`` for one to a deployment."""
    type: CommandType
    namespace: str
    application: str
    owner: Literal["application", "deployment"] = "application"
    """Kind of what `application` names. Of a deployment the taskgroups of both its applications are meant."""
    body: dict[str, Any] = {}
    """By type: docs/executor-protocol.md. May hold what only its taskgroups may see (file contents, variables)."""
    image: str = ""
    """Only tasks whose image contains this are meant."""
    version: str = ""
    """Of a change of limits: the version it brings taskgroups to."""
    targets: int = 0
    """How many taskgroups are meant. If there are fewer messages, the leader died while it wrote them."""
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
    previous: str = ""
    """Of a change of limits: the version whose limits the taskgroup has until it is told."""
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
