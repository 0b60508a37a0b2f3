"""Configuration for taskgroups (configmaps, secrets), and commands and messages to taskgroups while they run.

Times are Unix seconds, durations seconds.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from store.ids import object_key
from store.records.definition import Part
from store.records.record import Record

CommandType = Literal["command", "local", "remote", "signal", "env", "restart", "reload", "resources", "commit"]
"""Types of commands for executors (docs/original.md#messages): run a command, write a file given or fetched, send a
signal, set a variable for later restarts, restart, reload, change limits in place, commit an image."""
MessageStatus = Literal["staging", "running", "success", "failed"]


class ConfigItem(Part, frozen=True, kw_only=True):
    """One item of a configmap. With `type` file, `content` is base64; with http or https, `content` is a URL that is
    fetched on the agent, with basic authentication if `user` is given. Items of type ftp and ftps are kept for their
    owners; no agent fetches them."""

    type: Literal["file", "http", "https", "ftp", "ftps"] = "file"
    content: str = ""
    user: str = ""
    password: str = ""

    def __repr__(self) -> str:
        return f"ConfigItem({self.type})"


class ConfigMap(Record, frozen=True, kw_only=True):
    """Configuration that containers take as environment or files when they are launched
    (docs/original.md#configmaps)."""

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
        """The key: ``namespace/name``."""
        return object_key(self.namespace, self.name)


class Secret(Record, frozen=True, kw_only=True):
    """Confidential configuration: used like a configmap, but the content is never shown (docs/original.md#secrets).
    `items`: base64 by key."""

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
        """The key: ``namespace/name``."""
        return object_key(self.namespace, self.name)

    def __repr__(self) -> str:
        return f"Secret({self.key}, keys: {sorted(self.items)})"


class Command(Record, frozen=True, kw_only=True):
    """A command for the executors of a number of taskgroups. The outcome for each taskgroup is in its Message."""

    kind: ClassVar[str] = "command"

    id: str
    """The id: ``Application-<namespace>-<name>-<unixNano>``; ``Deployment-...`` for a command to a deployment."""
    type: CommandType
    namespace: str
    application: str
    owner: Literal["application", "deployment"] = "application"
    """Kind of the object that `application` names. A command to a deployment goes to the taskgroups of both its
    applications."""
    body: dict[str, Any] = {}
    """The body; its fields depend on the type (docs/executor-protocol.md). It may hold content that only the taskgroups
    may see (files, variables)."""
    image: str = ""
    """Part of an image name: only tasks whose image contains the text get the command; empty = all tasks."""
    version: str = ""
    """The version that a change of limits brings taskgroups to; empty for other commands."""
    targets: int = 0
    """Number of taskgroups that the command is for. If there are fewer messages, the leader ended while it wrote
    them."""
    cause: str = ""
    created_at: float = 0.0
    timeout: float = 60.0
    """Seconds the work may take on the agent."""
    deadline: float = 0.0
    """Unix seconds after which messages without an answer have failed."""
    keep_until: float = 0.0

    @property
    def key(self) -> str:
        """The id of the command."""
        return self.id

    def __repr__(self) -> str:
        return f"Command({self.id}, {self.type})"


class MessageResult(Part, frozen=True, kw_only=True):
    """The outcome of a message for one task. `truncated`: the output was longer than the limit and was cut."""

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
    """Name of the version whose limits the taskgroup has until it gets the message; empty if the command does not
    change limits."""
    status: MessageStatus = "staging"
    message: str = ""
    results: tuple[MessageResult, ...] = ()
    created_at: float = 0.0
    completed_at: float = 0.0

    @property
    def key(self) -> str:
        """The id of the message."""
        return self.id

    @property
    def open(self) -> bool:
        """True while the outcome is not known."""
        return self.status in ("staging", "running")
