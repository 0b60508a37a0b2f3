"""Documents for the executors of running taskgroups (docs/original.md#command-documents, #messages, #health-reports):
documents of kind Command, messages in the two forms of the original, health reports; and their conversion into the
bodies of docs/executor-protocol.md."""

from __future__ import annotations

import signal as signals
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from msgspec import Meta, field

from bcs_scheduler.api.documents.names import check_variable
from bcs_scheduler.api.documents.references import (
    check_credentials,
    check_file_path,
    check_url,
    check_user,
    read_base64,
)
from bcs_scheduler.api.documents.validate import check_kind
from bcs_scheduler.api.http.errors import invalid
from bcs_scheduler.wire.decoding import Document, decode
from bcs_scheduler.wire.documents.pod import LATER
from bcs_scheduler.wire.problems import Problems, Taken, element, member
from store.records import CommandType

MAX_TIMEOUT = 86_400
MAX_RESERVE = 365 * 24 * 60
MAX_TASKGROUPS = 10_000
MODES = {"r": 0o444, "rw": 0o644}
Owner = Literal["application", "deployment"]
_KINDS = {"application": ("application", "process"), "deployment": ("deployment",)}


# --- commands -------------------------------------------------------------------------------------------------


class CommandTarget(Document, frozen=True, kw_only=True):
    """`image`: only tasks whose image contains this are meant."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    image: str = ""


class CommandSpec(Document, frozen=True, kw_only=True):
    """`command` is an argument vector, `env` a list of K=V; `reserveTime` in minutes; `timeout` in seconds is ours."""

    command_target_ref: CommandTarget
    taskgroups: Annotated[tuple[str, ...], Meta(max_length=MAX_TASKGROUPS)] = ()
    command: Annotated[tuple[str, ...], Meta(min_length=1, max_length=1000)]
    env: Annotated[tuple[str, ...], Meta(max_length=1000)] = ()
    user: str = ""
    working_dir: str = ""
    privileged: bool = False
    reserve_time: Annotated[int, Meta(ge=0, le=MAX_RESERVE)] = 0
    timeout: Annotated[float, Meta(ge=0, le=MAX_TIMEOUT)] = 0.0


class CommandDocument(Document, frozen=True, kw_only=True):
    api_version: Literal["v4"] = "v4"
    kind: Literal["Command"]
    spec: CommandSpec


class CommandContent(NamedTuple):
    """Content of a command: type and body as in docs/executor-protocol.md. The body may be confidential."""

    type: CommandType
    body: dict[str, Any]

    def __repr__(self) -> str:
        return f"CommandContent({self.type})"


def read_command(
    raw: object, namespace: str, name: str, owner: Owner = "application", problems: Problems | None = None
) -> CommandSpec:
    """Reads a command for the object that `owner` and `name` name. Raises ApiError (422)."""
    problems = Problems() if problems is None else problems
    check_kind(raw, ("Command",), problems)
    document: CommandDocument = decode(raw, CommandDocument, problems)
    spec = document.spec
    _check_target(spec.command_target_ref, namespace, name, owner, problems)
    if spec.command and not spec.command[0]:
        problems.add("$.spec.command[0]", "must not be empty: the program to run")
    variables, groups = Taken("variable"), Taken("taskgroup")
    for i, assignment in enumerate(spec.env):
        at = element("$.spec.env", i)
        variable, equals, _ = assignment.partition("=")
        if not equals:
            problems.add(at, "must be written NAME=value")
        else:
            check_variable(variable, at, problems)
            variables.take(variable, at, problems)
    for i, group in enumerate(spec.taskgroups):
        groups.take(group, element("$.spec.taskgroups", i), problems)
    check_user(spec.user, "$.spec.user", problems)
    if problems:
        raise invalid(problems.listed())
    return spec


def to_command_content(spec: CommandSpec) -> CommandContent:
    assignments = (assignment.partition("=") for assignment in spec.env)
    return CommandContent(
        "command",
        {
            "argv": list(spec.command),
            "env": {variable: value for variable, _, value in assignments},
            "user": spec.user,
            "working_dir": spec.working_dir,
            "privileged": spec.privileged,
        },
    )


def _check_target(target: CommandTarget, namespace: str, name: str, owner: Owner, problems: Problems) -> None:
    """Checks the target of a command. A target without a kind has the kind of the route."""
    path = "$.spec.commandTargetRef"
    if target.kind and target.kind.lower() not in _KINDS[owner]:
        takes = owner.capitalize()
        problems.add(member(path, "kind"), f'must be "{takes}" on this route', target.kind, [takes])
    _check_whom((target.namespace, target.name), (namespace, name), path, problems)


def _check_whom(given: tuple[str, str], expected: tuple[str, str], path: str, problems: Problems) -> None:
    """Compares two pairs of (namespace, name); an empty part of `given` means the part of the path."""
    for field_name, said, meant in zip(("namespace", "name"), given, expected, strict=True):
        if said and said != meant:
            problems.add(member(path, field_name), f'is "{said}", but the path says "{meant}"')


# --- messages -------------------------------------------------------------------------------------------------


class LocalFile(Document, frozen=True, kw_only=True):
    """`ctx` is base64; `right` r or rw. `mode` is ours: the rights exactly, e.g. 493 for rwxr-xr-x."""

    to: str
    user: str = ""
    right: Literal["r", "rw"] = "rw"
    mode: Annotated[int, Meta(ge=0, le=0o777)] | None = None
    ctx: str


class RemoteFile(Document, frozen=True, kw_only=True):
    to: str
    user: str = ""
    right: Literal["r", "rw"] = "rw"
    remote: str
    remote_user: str = ""
    remote_passwd: str = ""


class SignalData(Document, frozen=True, kw_only=True):
    """A number, or a name such as HUP. Without `processname`: to the main process."""

    signal: int | str
    processname: str = ""


class EnvData(Document, frozen=True, kw_only=True):
    env_key: str = field(name="env-key")
    env_value: str = field(name="env-value", default="")


class DriverMessage(Document, frozen=True, kw_only=True):
    """`msgdata` by type: local {to, user, right, ctx}, remote {to, user, right, remote, remoteUser, remotePasswd},
    signal {signal, processname}, env-key {env-key, env-value}. The path names the receivers."""

    name: str = ""
    namespace: str = ""
    msgtype: Literal["local", "remote", "signal", "env", "env-key"]
    msgdata: dict[str, Any]


class RawLocal(Document, frozen=True, kw_only=True):
    to: str = field(name="To")
    right: Literal["r", "rw"] = field(name="Right", default="rw")
    user: str = field(name="User", default="")
    base64: str = field(name="Base64")


class RawSignal(Document, frozen=True, kw_only=True):
    signal: int | str = field(name="Signal")
    process_name: str = field(name="ProcessName", default="")


class RawEnv(Document, frozen=True, kw_only=True):
    name: str = field(name="Name")
    value: str = field(name="Value", default="")


class RawRemote(Document, frozen=True, kw_only=True):
    """`Type` of the original repeats the scheme of `From`."""

    to: str = field(name="To")
    right: Literal["r", "rw"] = field(name="Right", default="rw")
    user: str = field(name="User", default="")
    from_: str = field(name="From")
    type: str = field(name="Type", default="")
    remote_user: str = field(name="RemoteUser", default="")
    remote_passwd: str = field(name="RemotePasswd", default="")


class RawMessage(Document, frozen=True, kw_only=True):
    """The original's own form: `Type` 1 local file, 2 signal, 3 variable, 4 remote file, 10 reload, 11 restart, with
    the body of that type. Fields that the scheduler fills in are accepted empty."""

    refused: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("EnvRemote", "Secret"), f"{LATER}; use Env or Local"),
        "UpdateTaskResources": "is sent by an update with args=resource",
        "CommitTask": "is sent by POST /image/commit/{taskgroup}",
        "RequestCommandTask": "is sent by POST /command/application/{ns}/{name}",
        **dict.fromkeys(("TaskID", "TaskId"), f"{LATER}: a message is for all tasks of a taskgroup"),
        **dict.fromkeys(
            ("Id", "TaskGroupId", "Status", "Message", "CreateTime", "CompleteTime"), "is filled in by the scheduler"
        ),
    }

    type: int = field(name="Type")
    local: RawLocal | None = field(name="Local", default=None)
    sig: RawSignal | None = field(name="Sig", default=None)
    env: RawEnv | None = field(name="Env", default=None)
    remote: RawRemote | None = field(name="Remote", default=None)


_RAW_BODIES = {1: "Local", 2: "Sig", 3: "Env", 4: "Remote"}
_RAW_PLAIN: dict[int, CommandType] = {10: "reload", 11: "restart"}
_MSGDATA: dict[str, type[Document]] = {
    "local": LocalFile,
    "remote": RemoteFile,
    "signal": SignalData,
    "env": EnvData,
    "env-key": EnvData,
}


def read_message(raw: object, namespace: str, name: str, problems: Problems | None = None) -> CommandContent:
    """Reads a message in either form; a message with the key `Type` is a raw one. Raises ApiError (422).

    `namespace` and `name` of the application as in the path; a message with other values is refused
    (docs/original.md#path-and-body).
    """
    problems = Problems() if problems is None else problems
    is_raw = isinstance(raw, dict) and any(isinstance(key, str) and key.lower() == "type" for key in raw)
    made = _from_raw(raw, problems) if is_raw else _from_driver(raw, namespace, name, problems)
    if problems:
        raise invalid(problems.listed())
    return made


def _from_driver(raw: object, namespace: str, name: str, problems: Problems) -> CommandContent:
    document: DriverMessage = decode(raw, DriverMessage, problems)
    if problems.refuses("$.msgtype"):
        raise invalid(problems.listed())
    _check_whom((document.namespace, document.name), (namespace, name), "$", problems)
    data = decode(document.msgdata, _MSGDATA[document.msgtype], problems, "$.msgdata")
    match data:
        case LocalFile():
            fields = ("$.msgdata", "to", "ctx", "user")
            made = _local(data.to, data.ctx, data.right, data.user, fields, problems)
            return made if data.mode is None else CommandContent("local", {**made.body, "mode": data.mode})
        case RemoteFile():
            names = ("$.msgdata", "to", "remote", "user", "remoteUser", "remotePasswd")
            credentials = (data.remote_user, data.remote_passwd)
            return _remote(data.to, data.remote, data.right, data.user, credentials, names, problems)
        case SignalData():
            return _signal(data.signal, data.processname, "$.msgdata.signal", problems)
    return _env(data.env_key, data.env_value, "$.msgdata.env-key", problems)


def _from_raw(raw: object, problems: Problems) -> CommandContent:
    document: RawMessage = decode(raw, RawMessage, problems)
    wanted = _RAW_BODIES.get(document.type)
    if wanted is None and document.type not in _RAW_PLAIN:
        known = ", ".join(str(number) for number in sorted([*_RAW_BODIES, *_RAW_PLAIN]))
        problems.add("$.Type", f"must be one of {known}; other types are sent by the scheduler itself")
    for name in _RAW_BODIES.values():
        given = getattr(document, name.lower()) is not None
        if name == wanted and not given:
            problems.add(member("$", name), f"is required for a message of type {document.type}")
        elif name != wanted and given:
            problems.add(member("$", name), f"has no meaning in a message of type {document.type}")
    match document.type:
        case 1 if document.local is not None:
            local = document.local
            fields = ("$.Local", "To", "Base64", "User")
            return _local(local.to, local.base64, local.right, local.user, fields, problems)
        case 2 if document.sig is not None:
            return _signal(document.sig.signal, document.sig.process_name, "$.Sig.Signal", problems)
        case 3 if document.env is not None:
            return _env(document.env.name, document.env.value, "$.Env.Name", problems)
        case 4 if document.remote is not None:
            remote = document.remote
            names = ("$.Remote", "To", "From", "User", "RemoteUser", "RemotePasswd")
            credentials = (remote.remote_user, remote.remote_passwd)
            return _remote(remote.to, remote.from_, remote.right, remote.user, credentials, names, problems)
    return CommandContent(_RAW_PLAIN.get(document.type, "reload"), {})


def _local(
    to: str, data: str, right: str, user: str, fields: tuple[str, str, str, str], problems: Problems
) -> CommandContent:
    """`fields`: path of the body, names of target, content and user."""
    path, target, content, owner = fields
    _check_target_file(to, member(path, target), problems)
    check_user(user, member(path, owner), problems)
    decoded = read_base64(data, member(path, content), problems)
    return CommandContent("local", {"path": to, "data": decoded, "mode": MODES[right], "owner": user})


def _remote(
    to: str,
    url: str,
    right: str,
    user: str,
    credentials: tuple[str, str],
    fields: tuple[str, str, str, str, str, str],
    problems: Problems,
) -> CommandContent:
    path, target, source, owner, remote_user, remote_password = fields
    _check_target_file(to, member(path, target), problems)
    check_user(user, member(path, owner), problems)
    check_url(url, member(path, source), problems, ("http", "https"))
    check_credentials(*credentials, path, (remote_user, remote_password), problems)
    body = {"path": to, "url": url, "user": credentials[0], "password": credentials[1]}
    return CommandContent("remote", {**body, "mode": MODES[right], "owner": user})


def _check_target_file(to: str, path: str, problems: Problems) -> None:
    if not to:
        problems.add(path, "must not be empty")
    check_file_path(to, path, problems, absolute=False)


def _signal(written: int | str, process: str, path: str, problems: Problems) -> CommandContent:
    number = written if isinstance(written, int) else _number(written)
    if not 1 <= number <= 64:
        problems.add(path, "must be a number from 1 to 64, or a name such as HUP")
    return CommandContent("signal", {"signal": number, "process": process})


def _number(name: str) -> int:
    """Number of a signal; 0 if no signal has this name."""
    short = name.upper().removeprefix("SIG")
    return next((int(known) for known in signals.Signals if known.name == f"SIG{short}"), 0)


def _env(name: str, value: str, path: str, problems: Problems) -> CommandContent:
    check_variable(name, path, problems)
    return CommandContent("env", {"name": name, "value": value})


# --- health reports -------------------------------------------------------------------------------------------


class HealthReport(Document, frozen=True, kw_only=True):
    """Result of a REMOTE check by an outside module (docs/original.md#health-reports). `http` and `tcp` repeat the
    check."""

    id: Annotated[str, Meta(min_length=1)]
    type: Literal["REMOTE_HTTP", "REMOTE_TCP"]
    status: bool
    message: Annotated[str, Meta(max_length=4096)] = ""
    http: dict[str, Any] | None = None
    tcp: dict[str, Any] | None = None


def read_health_report(raw: object, problems: Problems | None = None) -> HealthReport:
    """Raises ApiError (422)."""
    problems = Problems() if problems is None else problems
    report: HealthReport = decode(raw, HealthReport, problems)
    if problems:
        raise invalid(problems.listed())
    return report
