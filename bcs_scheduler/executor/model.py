"""The documents that come with a launch, read and checked (docs/executor-protocol.md, section Launch).

Amounts are integer thousandths (of a core, of a MB), durations seconds. Unknown fields are ignored; a missing field has
a default; a value of the wrong kind raises ProtocolError, which names the path and never shows the content.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

VERSION = 1
T = TypeVar("T")

MOST = 1e15
"""Greatest of all numbers with a fraction; they are times in seconds, which no clock or wait takes without end."""
SHOWN = 40
"""Characters of a value that are quoted."""


class ProtocolError(Exception):
    """A document cannot be used; the message names place and reason."""


@dataclass(frozen=True)
class Group:
    """`ExecutorInfo.data`."""

    taskgroup: str = ""
    name: str = ""
    namespace: str = ""
    application: str = ""
    index: int = 0
    agent_ip: str = ""
    grace_period: float = 1.0
    report_interval: float = 300.0
    log_max_bytes: int = 10 * 1024 * 1024
    log_files: int = 5
    docker: str = "/var/run/docker.sock"


@dataclass(frozen=True)
class Command:
    shell: bool = False
    value: str = ""
    argv: tuple[str, ...] = ()


@dataclass(frozen=True)
class Process:
    name: str = ""
    start: str = ""
    start_grace: float = 0.0
    pid_file: str = ""
    check: str = ""
    stop: str = ""
    restart: str = ""
    reload: str = ""
    kill: str = ""


@dataclass(frozen=True)
class Registry:
    user: str = ""
    password: str = field(default="", repr=False)


@dataclass(frozen=True)
class Volume:
    host_path: str = ""
    mount_path: str = ""
    read_only: bool = False


@dataclass(frozen=True)
class Container:
    image: str = ""
    pull_policy: str = "IfNotPresent"
    registry: Registry = Registry()
    network_mode: str = "HOST"
    network: str = ""
    addresses: tuple[str, ...] = ()
    egress_kbps: int = 0
    hostname: str = ""
    privileged: bool = False
    parameters: tuple[tuple[str, str], ...] = ()
    volumes: tuple[Volume, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RemoteVariable:
    name: str = ""
    url: str = ""
    user: str = ""
    password: str = field(default="", repr=False)


@dataclass(frozen=True)
class File:
    """`data` is base64; with `url` it is fetched instead. A `secret` never reaches a disk."""

    path: str = ""
    data: str = field(default="", repr=False)
    url: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    mode: int = 0o644
    owner: str = ""
    secret: bool = False


@dataclass(frozen=True)
class Uri:
    value: str = ""
    output: str = ""
    executable: bool = False
    extract: bool = True
    user: str = ""
    password: str = field(default="", repr=False)


@dataclass(frozen=True)
class Port:
    name: str = ""
    protocol: str = "tcp"
    container_port: int = 0
    host_port: int = 0


@dataclass(frozen=True)
class Check:
    """A local health check; the port is resolved."""

    type: str = "COMMAND"
    delay: float = 10.0
    grace_period: float = 300.0
    interval: float = 60.0
    timeout: float = 20.0
    consecutive_failures: int = 0
    port: int = 0
    scheme: str = "http"
    path: str = "/"
    headers: dict[str, str] = field(default_factory=dict)
    command: str = ""


@dataclass(frozen=True)
class Amounts:
    """0 = not given."""

    cpus: int = 0
    mem: int = 0


@dataclass(frozen=True)
class Task:
    """`TaskInfo.data`, with the task id and name from the TaskInfo. `env` may hold secrets: never shown."""

    id: str = ""
    name: str = ""
    index: int = 0
    kind: str = "command"
    command: Command = Command()
    process: Process = Process()
    container: Container = Container()
    working_dir: str = ""
    user: str = ""
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    env: dict[str, str] = field(default_factory=dict, repr=False)
    address_env: tuple[str, ...] = ()
    remote_env: tuple[RemoteVariable, ...] = ()
    files: tuple[File, ...] = ()
    uris: tuple[Uri, ...] = ()
    ports: tuple[Port, ...] = ()
    checks: tuple[Check, ...] = ()
    requests: Amounts = Amounts()
    limits: Amounts = Amounts()
    parameters: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Message:
    """A message of the scheduler (section Messages to the executor). `body` is checked by the handler of the kind."""

    id: str = ""
    kind: str = ""
    tasks: tuple[str, ...] = ()
    timeout: float = 60.0
    output_limit: int = 16384
    body: dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Result:
    """The result of a message for one task."""

    task: str
    ok: bool
    message: str = ""
    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""
    truncated: bool = False


@dataclass(frozen=True)
class CheckState:
    """One local check, as last seen. `healthy` None = not probed yet."""

    type: str
    healthy: bool | None = None
    message: str = ""
    failures: int = 0


@dataclass(frozen=True)
class Detail:
    """The known state of a task beside its Mesos state."""

    pid: int = 0
    container_id: str = ""
    container_ip: str = ""
    exit_code: int | None = None
    oom: bool = False
    restarting: bool = False
    started_at: float = 0.0
    finished_at: float = 0.0
    checks: tuple[CheckState, ...] = ()


def document(data: bytes, what: str) -> dict[str, Any]:
    """The JSON object in `data`. Raises ProtocolError also for another protocol version."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise ProtocolError(f"{what}: not JSON") from None
    if not isinstance(found, dict):
        raise ProtocolError(f"{what}: not an object")
    version = found.get("v")
    if version != VERSION:
        said = version if isinstance(version, int) else "missing"
        raise ProtocolError(f"{what}: protocol version {said}, this executor speaks {VERSION}")
    return found


def read(kind: type[T], found: dict[str, Any], path: str, **given: Any) -> T:
    """An object of the dataclass `kind` from decoded JSON; `given` fields are taken as they are."""
    hints = get_type_hints(kind)
    values = dict(given)
    for item in fields(kind):  # type: ignore[arg-type]
        if item.name in found and item.name not in given:
            values[item.name] = _convert(hints[item.name], found[item.name], f"{path}.{item.name}")
    return kind(**values)


def _convert(hint: Any, value: Any, path: str) -> Any:
    if get_origin(hint) is tuple:
        if not isinstance(value, list):
            raise ProtocolError(f"{path}: not a list")
        inner = get_args(hint)
        if inner[-1] is Ellipsis:
            return tuple(_convert(inner[0], item, f"{path}[{i}]") for i, item in enumerate(value))
        if len(value) != len(inner):
            raise ProtocolError(f"{path}: not {len(inner)} values")
        return tuple(_convert(kind, item, path) for kind, item in zip(inner, value))
    if get_origin(hint) is dict:
        if not isinstance(value, dict):
            raise ProtocolError(f"{path}: not an object")
        inner = get_args(hint)[1]
        return {key: value[key] if inner is Any else _convert(inner, value[key], f"{path}.{key}") for key in value}
    if hint is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        if not -MOST <= value <= MOST:  # also NaN, which is no number
            raise ProtocolError(f"{path}: not a number that can be used")
        return float(value)
    if isinstance(hint, type) and hasattr(hint, "__dataclass_fields__"):
        if not isinstance(value, dict):
            raise ProtocolError(f"{path}: not an object")
        return read(hint, value, path)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise ProtocolError(f"{path}: not of type {hint.__name__}")
    return value


def group_of(data: bytes) -> Group:
    return read(Group, document(data, "executor data"), "executor data")


def task_of(data: bytes, identity: str, name: str) -> Task:
    """Raises ProtocolError."""
    task = read(Task, document(data, "task data"), "task data", id=identity, name=name)
    if task.kind not in ("command", "process", "container"):
        raise ProtocolError(f"task data.kind: {_shown(task.kind)} is not known")
    return task


def message_of(data: bytes) -> Message:
    """Raises ProtocolError."""
    found = document(data, "message")
    if found.get("type") != "message":
        raise ProtocolError(f"message.type: {_shown(found.get('type'))} is not known")
    message = read(Message, found, "message")
    if not message.id:
        raise ProtocolError("message.id: missing")
    return message


def _shown(value: object) -> str:
    """Shows a value that should be one of a few words. A value that is no string may be anything, also confidential, so
    only its type is shown."""
    return repr(value[:SHOWN]) if isinstance(value, str) else type(value).__name__
