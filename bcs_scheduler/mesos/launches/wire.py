"""The documents between the scheduler and its executor (docs/executor-protocol.md).

Out: the documents of a launch, and messages. In: reports of executors about their tasks, steady ones and status
updates, and their answers to messages. Executors may send wrong documents. An unreadable document raises Unreadable;
only its kind may be shown. Texts and numbers are bounded, because they are stored and shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

import msgspec

from bcs_scheduler.core.interface import cluster_manager
from bcs_scheduler.wire.kept_output import LARGEST_PACKED
from store.records import MessageResult

VERSION = 1
DETAIL_BYTES = 65_536
"""Largest detail of one task that is read."""
MESSAGE_BYTES = 16_000_000
"""Largest message of an executor that is read: ten tasks with full output of which every character is escaped."""
TEXT_LENGTH = 4096
"""Characters kept of a message for people."""
OUTPUT_LENGTH = 65_536
"""Characters kept of each output stream; no setting asks executors for more bytes."""
LIST_LENGTH = 64
"""Tasks of a taskgroup and checks of a task that are read of one document."""

UnreadableKind = Literal["too large", "not JSON", "other version", "unknown type", "wrong fields"]
UNREADABLE: tuple[UnreadableKind, ...] = get_args(UnreadableKind)


class Unreadable(ValueError):
    """A document of an executor cannot be used. Its content is shown nowhere."""

    def __init__(self, kind: UnreadableKind) -> None:
        super().__init__(kind)
        self.kind: UnreadableKind = kind


# --- launch ---------------------------------------------------------------------------------------------------


class Document(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Base of the sent documents. Fields with their defaults are left out; defaults are those of
    bcs_scheduler.executor.model. Documents may hold secrets, so they show nothing of themselves."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


class Group(Document, frozen=True, kw_only=True):
    """The document in `ExecutorInfo.data`."""

    v: int
    taskgroup: str
    name: str
    namespace: str
    application: str
    index: int
    agent_ip: str
    grace_period: float
    report_interval: float
    log_max_bytes: int
    log_files: int
    docker: str


class Command(Document, frozen=True, kw_only=True):
    shell: bool = False
    value: str = ""
    argv: tuple[str, ...] = ()


class Process(Document, frozen=True, kw_only=True):
    name: str = ""
    start: str = ""
    start_grace: float = 0.0
    pid_file: str = ""
    check: str = ""
    stop: str = ""
    restart: str = ""
    reload: str = ""
    kill: str = ""


class Registry(Document, frozen=True, kw_only=True):
    user: str = ""
    password: str = ""


class Volume(Document, frozen=True, kw_only=True):
    host_path: str = ""
    mount_path: str = ""
    read_only: bool = False


class Container(Document, frozen=True, kw_only=True):
    image: str
    pull_policy: str
    registry: Registry = Registry()
    network_mode: str
    network: str = ""
    addresses: tuple[str, ...] = ()
    egress_kbps: int = 0
    hostname: str = ""
    privileged: bool = False
    parameters: tuple[tuple[str, str], ...] = ()
    volumes: tuple[Volume, ...] = ()
    labels: dict[str, str] = {}


class RemoteVariable(Document, frozen=True, kw_only=True):
    name: str
    url: str
    user: str = ""
    password: str = ""


class File(Document, frozen=True, kw_only=True):
    path: str
    data: str = ""
    url: str = ""
    user: str = ""
    password: str = ""
    mode: int
    owner: str = ""
    secret: bool = False


class Uri(Document, frozen=True, kw_only=True):
    value: str
    output: str = ""
    executable: bool = False
    extract: bool = True
    user: str = ""
    password: str = ""


class Port(Document, frozen=True, kw_only=True):
    name: str
    protocol: Literal["tcp", "udp"]
    container_port: int = 0
    host_port: int = 0


class Check(Document, frozen=True, kw_only=True):
    type: str
    delay: float
    grace_period: float
    interval: float
    timeout: float
    consecutive_failures: int
    port: int = 0
    scheme: str = "http"
    path: str = "/"
    headers: dict[str, str] = {}
    command: str = ""


class Amounts(Document, frozen=True, kw_only=True):
    cpus: int = 0
    mem: int = 0


class Task(Document, frozen=True, kw_only=True):
    """The document in `TaskInfo.data`."""

    v: int
    kind: Literal["command", "process", "container"]
    name: str
    index: int
    command: Command = Command()
    process: Process = Process()
    container: Container | None = None
    working_dir: str = ""
    user: str = ""
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    env: dict[str, str] = {}
    address_env: tuple[str, ...] = ()
    remote_env: tuple[RemoteVariable, ...] = ()
    files: tuple[File, ...] = ()
    uris: tuple[Uri, ...] = ()
    ports: tuple[Port, ...] = ()
    checks: tuple[Check, ...] = ()
    requests: Amounts = Amounts()
    limits: Amounts = Amounts()
    parameters: tuple[tuple[str, str], ...] = ()


_encoder = msgspec.json.Encoder()


def encode(document: Document) -> bytes:
    return _encoder.encode(document)


# --- messages to executors ------------------------------------------------------------------------------------


class _Message(Document, frozen=True, kw_only=True):
    v: int
    type: str
    id: str
    kind: str
    tasks: tuple[str, ...]
    timeout: float
    output_limit: int
    body: Mapping[str, Any]


def encode_message(effect: cluster_manager.SendMessage, output_limit: int) -> bytes:
    """Encodes a message for our executor. `output_limit`: bytes to keep of each output stream."""
    return _encoder.encode(
        _Message(
            v=VERSION,
            type="message",
            id=effect.message_id,
            kind=effect.type,
            tasks=effect.tasks,
            timeout=effect.timeout,
            output_limit=output_limit,
            body=effect.body,
        )
    )


# --- from executors -------------------------------------------------------------------------------------------

_Small = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]
"""The range of integers from executors. Larger ones could be decoded, but not stored."""
_Time = Annotated[float, msgspec.Meta(ge=0, le=1e11)]
"""Unix seconds, up to the year 5000."""


class _Check(msgspec.Struct, gc=False):
    type: Literal["HTTP", "TCP", "COMMAND"]
    healthy: bool | None = None
    message: str = ""
    failures: _Small = 0


class _Detail(msgspec.Struct, gc=False):
    v: Any = None
    pid: _Small = 0
    container_id: str = ""
    container_ip: str = ""
    exit_code: _Small | None = None
    oom: bool = False
    restarting: bool = False
    started_at: _Time = 0.0
    finished_at: _Time = 0.0
    checks: Annotated[list[_Check], msgspec.Meta(max_length=LIST_LENGTH)] = []


class _TaskReport(msgspec.Struct, gc=False):
    task: str
    detail: _Detail


class _Report(msgspec.Struct, gc=False, tag_field="type", tag="report"):
    tasks: Annotated[list[_TaskReport], msgspec.Meta(max_length=LIST_LENGTH)]
    v: Any = None


class _Result(msgspec.Struct, gc=False):
    task: str
    ok: bool
    message: str = ""
    exit_code: _Small | None = None
    stdout: str = ""
    stderr: str = ""
    truncated: bool = False


class _Answer(msgspec.Struct, gc=False, tag_field="type", tag="answer"):
    id: str
    status: Literal["running", "success", "failed"]
    message: str = ""
    results: Annotated[list[_Result], msgspec.Meta(max_length=LIST_LENGTH)] = []
    v: Any = None


class _Head(msgspec.Struct, gc=False):
    """The fields that explain why a document cannot be used."""

    v: Any = None
    type: Any = None


class _Output(msgspec.Struct, gc=False, tag_field="type", tag="output"):
    task: str
    data: bytes
    v: Any = None


_details = msgspec.json.Decoder(_Detail)
_messages = msgspec.json.Decoder(_Report | _Answer | _Output)
_heads = msgspec.json.Decoder(_Head)


def task_detail(data: bytes) -> cluster_manager.TaskDetail:
    """Decodes the details in `TaskStatus.data`. Raises Unreadable."""
    if len(data) > DETAIL_BYTES:
        raise Unreadable("too large")
    try:
        found = _details.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise Unreadable(_why(data)) from None
    if found.v != VERSION:
        raise Unreadable("other version")
    return _task_detail(found)


def message(
    data: bytes, agent_id: str, executor_id: str, cause: str
) -> cluster_manager.TasksReported | cluster_manager.MessageAnswered | cluster_manager.OutputReported:
    """The event that a MESSAGE of an executor means. Raises Unreadable."""
    if len(data) > MESSAGE_BYTES:
        raise Unreadable("too large")
    try:
        found = _messages.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise Unreadable(_why(data, types=("report", "answer", "output"))) from None
    if found.v != VERSION:
        raise Unreadable("other version")
    if isinstance(found, _Report):
        tasks = tuple((item.task, _task_detail(item.detail)) for item in found.tasks)
        return cluster_manager.TasksReported(agent_id=agent_id, executor_id=executor_id, tasks=tasks, cause=cause)
    if isinstance(found, _Output):
        if len(found.data) > LARGEST_PACKED:
            raise Unreadable("too large")
        return cluster_manager.OutputReported(
            agent_id=agent_id, executor_id=executor_id, task_id=found.task, data=found.data, cause=cause
        )
    return cluster_manager.MessageAnswered(
        agent_id=agent_id,
        executor_id=executor_id,
        message_id=found.id,
        status=found.status,
        message=found.message[:TEXT_LENGTH],
        results=tuple(map(_message_result, found.results)),
        cause=cause,
    )


def _why(data: bytes, types: tuple[str, ...] = ()) -> UnreadableKind:
    """`types`: those that are known, if it should have one."""
    try:
        head = _heads.decode(data)
    except msgspec.ValidationError:
        return "wrong fields"
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return "not JSON"
    if head.v != VERSION:
        return "other version"
    return "unknown type" if types and head.type not in types else "wrong fields"


def _task_detail(found: _Detail) -> cluster_manager.TaskDetail:
    return cluster_manager.TaskDetail(
        pid=found.pid,
        container_id=found.container_id[:128],
        container_ip=found.container_ip[:64],
        exit_code=found.exit_code,
        oom=found.oom,
        restarting=found.restarting,
        started_at=found.started_at,
        finished_at=found.finished_at,
        checks=tuple(
            cluster_manager.CheckReport(
                type=check.type,
                healthy=check.healthy,
                message=check.message[:TEXT_LENGTH],
                failures=check.failures,
            )
            for check in found.checks
        ),
    )


def _message_result(found: _Result) -> MessageResult:
    return MessageResult(
        task=found.task,
        ok=found.ok,
        message=found.message[:TEXT_LENGTH],
        exit_code=found.exit_code,
        stdout=found.stdout[:OUTPUT_LENGTH],
        stderr=found.stderr[:OUTPUT_LENGTH],
        truncated=found.truncated or max(len(found.stdout), len(found.stderr)) > OUTPUT_LENGTH,
    )
