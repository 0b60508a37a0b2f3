"""The parts of one taskgroup, as users write them (docs/original.md#pod-documents): containers, processes, and the
items of configmaps and secrets for them.

Wire names are exact. Fields of our own: `executor` and `role` of the template, `user`, `uris`, `stdin`, `stdinOnce` and
`tty` of containers, `executable` and `extract` of uris, `resources.*.gpu`; `pidFile` of processes may be left out.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, field

from bcs_scheduler.wire.decoding import Document
from bcs_scheduler.wire.problems import Problems, member

LATER = "is not supported by this release"
CONSOLE = {
    "metricPolicy": "metrics are scraped at the ports of a task",
    "logPathList": "write logs to stdout and stderr, or mount a volume",
    "isAddImageSecrets": "give imagePullUser and imagePullPasswd",
    "isImageCustomed": "",
    "imageVersion": "the tag is a part of image",
}
"""Fields that the web console of the original writes into documents, and that have no effect there either."""
DAY = 86400
Text = Annotated[str, Meta(max_length=65536)]
ExecutorName = Literal["bcs", "mesos", ""]
"""Empty: the scheduler's default."""
_Probe = Annotated[int, Meta(ge=0, le=DAY)]
_Port = Annotated[int, Meta(ge=-1, le=65535)]
_Amount = str | int | float
_Parts = Meta(max_length=64)
"""Containers, and items of any kind that one has."""


class ResourceFieldRef(Document, frozen=True, kw_only=True):
    resource: str


class ValueFrom(Document, frozen=True, kw_only=True):
    resource_field_ref: ResourceFieldRef


class EnvDocument(Document, frozen=True, kw_only=True):
    name: str
    value: Text = ""
    value_from: ValueFrom | None = None


class PortDocument(Document, frozen=True, kw_only=True):
    """`hostPort` 0 or left out: a random port of the offer, -1: not mapped. documents.ports has the meaning of the two
    numbers in each kind of network."""

    ignored: ClassVar[dict[str, str]] = {"hostIP": "ports are bound on every address of the host", "id": ""}

    name: str
    protocol: str = "tcp"
    container_port: _Port = 0
    host_port: _Port = 0


class HttpCheck(Document, frozen=True, kw_only=True):
    port: Annotated[int, Meta(ge=0, le=65535)] = 0
    port_name: str = ""
    scheme: str = "http"
    path: str = "/"
    headers: dict[str, str] = field(default_factory=dict)


class TcpCheck(Document, frozen=True, kw_only=True):
    port: Annotated[int, Meta(ge=0, le=65535)] = 0
    port_name: str = ""


class CommandCheck(Document, frozen=True, kw_only=True):
    value: Text = ""


class HealthCheckDocument(Document, frozen=True, kw_only=True):
    """Older forms: `protocol` for `type`, in small letters too, and the fields of `http` and `tcp` beside it. `type`
    empty: a check without a type, which has no effect."""

    type: Literal["", "HTTP", "TCP", "COMMAND", "REMOTE_HTTP", "REMOTE_TCP"] = ""
    delay_seconds: _Probe = 10
    grace_period_seconds: _Probe = 300
    interval_seconds: Annotated[int, Meta(ge=1, le=DAY)] = 60
    timeout_seconds: Annotated[int, Meta(ge=1, le=DAY)] = 20
    consecutive_failures: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    http: HttpCheck | None = None
    tcp: TcpCheck | None = None
    command: CommandCheck | None = None

    @classmethod
    def modern(cls, raw: dict[str, Any], path: str, problems: Problems) -> dict[str, Any]:
        made = _modern_check(raw)
        if made is None:
            words = "is missing, so the check has no effect"
            problems.warn(member(path, "type"), words, "write the type, and the port or the command that it needs")
        return made or {}


_PROBES = {"HTTP": "http", "REMOTE_HTTP": "http", "TCP": "tcp", "REMOTE_TCP": "tcp"}
_COMPLETE = ("port", "portname", "command", "http", "tcp")
"""Fields of which an older form has one."""
_FLAT = {"path": "path", "port": "port", "portname": "portName", "scheme": "scheme", "headers": "headers"}


def _modern_check(raw: dict[str, Any]) -> dict[str, Any] | None:
    """None: a check without a type, of which the older forms make no complete check either."""
    by_fold = {key.lower(): key for key in raw}
    made = dict(raw)
    kind_key = by_fold.get("type", "type")
    if made.get(kind_key) in (None, ""):
        made.pop(kind_key, None)
        if "protocol" not in by_fold or by_fold.keys().isdisjoint(_COMPLETE):
            return None
        made["type"] = made.pop(by_fold["protocol"])
        kind_key = "type"
    kind = made.get(kind_key)
    if isinstance(kind, str):
        made[kind_key] = kind = kind.upper()
    command = by_fold.get("command")
    if command is not None and isinstance(made[command], str):
        made[command] = {"value": made[command]}
    probe = _PROBES.get(str(kind))
    flat = {field: made.pop(by_fold[folded]) for folded, field in _FLAT.items() if folded in by_fold}
    if flat and probe is not None and probe not in by_fold:
        read = ("port", "portName") if probe == "tcp" else _FLAT.values()
        made[probe] = {field: value for field, value in flat.items() if field in read or value}
    else:
        made |= flat
    return made


class ResourceAmounts(Document, frozen=True, kw_only=True):
    """cpu in cores (``0.5``, ``"500m"``); memory and storage in MB (``512``, ``"2Gi"``); gpu in whole GPUs."""

    aliases: ClassVar[dict[str, str]] = {"cpus": "cpu", "mem": "memory", "disk": "storage", "gpus": "gpu"}

    cpu: _Amount | None = None
    memory: _Amount | None = None
    storage: _Amount | None = None
    gpu: _Amount | None = None


class ExtendedResourceRequest(Document, frozen=True, kw_only=True):
    """`Value`: the amount one container needs. The other keys of the original's struct mean nothing here."""

    refused: ClassVar[dict[str, str]] = dict.fromkeys(
        ("InnerIP", "Capacity", "Socket"), "belongs to an agent's setting, not to a container"
    )

    name: str = field(name="Name")
    value: Annotated[float, Meta(gt=0, le=1e9)] = field(name="Value")


class ResourcesDocument(Document, frozen=True, kw_only=True):
    requests: ResourceAmounts = ResourceAmounts()
    limits: ResourceAmounts = ResourceAmounts()
    extended_resources: tuple[ExtendedResourceRequest, ...] = ()


class VolumeMount(Document, frozen=True, kw_only=True):
    ignored: ClassVar[dict[str, str]] = {"subPath": "name the directory in hostPath"}

    host_path: str = ""
    mount_path: str
    read_only: bool = False


class VolumeDocument(Document, frozen=True, kw_only=True):
    name: str = ""
    volume: VolumeMount


class UriDocument(Document, frozen=True, kw_only=True):
    """Fetched into the task's working directory before it starts. `pwd` is literal or ``secret::<name>||<key>``."""

    aliases: ClassVar[dict[str, str]] = {"outputDir": "output", "password": "pwd"}
    ignored: ClassVar[dict[str, str]] = {"pullPolicy": "the files of uris are fetched at every start"}

    value: str
    user: str = ""
    pwd: str = ""
    output: str = ""
    executable: bool = False
    extract: bool = True


class ParameterDocument(Document, frozen=True, kw_only=True):
    """An option of the container engine (docs/original.md#docker-parameters)."""

    key: str
    value: str = ""


class ItemDocument(Document, frozen=True, kw_only=True):
    """One key of a configmap or secret, as environment variable or as file. `readOnly` decides the permissions: of
    configmaps 0444 or 0644, of secrets 0400 (also if left out) or 0600.

    `keyOrPath` is the name of the variable or the path of the file. A path that ends with a slash is a directory; the
    file in it is called `subPath`, or else `dataKeyAlias`, or else `dataKey`. A variable without `keyOrPath` is called
    `dataKeyAlias`, or else `dataKey`. Items of another type inject nothing.
    """

    ignored: ClassVar[dict[str, str]] = {"path": "give the path in keyOrPath"}

    type: str
    data_key: Annotated[str, Meta(min_length=1)]
    key_or_path: Annotated[str, Meta(max_length=4096)] = ""
    data_key_alias: Annotated[str, Meta(max_length=4096)] = ""
    sub_path: Annotated[str, Meta(max_length=4096)] = ""
    read_only: bool | None = None
    user: str = ""


ITEM_TYPES = ("env", "file")


class ConfigMapReference(Document, frozen=True, kw_only=True):
    name: str
    items: tuple[ItemDocument, ...] = ()


class SecretReference(Document, frozen=True, kw_only=True):
    aliases: ClassVar[dict[str, str]] = {"name": "secretName"}
    ignored: ClassVar[dict[str, str]] = {"path": "give the path in keyOrPath of each item"}

    secret_name: str
    items: tuple[ItemDocument, ...] = ()


class ContainerDocument(Document, frozen=True, kw_only=True):
    """One task. Without `image` the command runs as a plain process of the agent. `stdin`: the input of the task stays
    open, and `bcs attach -i` writes to it; with `stdinOnce` until the end of the first session. `tty`: the task has a
    terminal, which is its input and output."""

    ignored: ClassVar[dict[str, str]] = CONSOLE
    lenient: ClassVar[dict[str, str]] = {
        "type": "every container is run by the executor of the template",
        "imagePullPolicy": "IfNotPresent is used; the other values are Always and Never",
    }

    name: str = ""
    type: Literal["MESOS", "DOCKER"] = "MESOS"
    image: str = ""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    image_pull_user: str = ""
    image_pull_passwd: str = ""
    command: Text = ""
    args: tuple[Text, ...] = ()
    user: str = ""
    working_dir: str = ""
    hostname: str = ""
    privileged: bool = False
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    env: tuple[EnvDocument, ...] = ()
    parameters: Annotated[tuple[ParameterDocument, ...], _Parts] = ()
    ports: tuple[PortDocument, ...] = ()
    resources: ResourcesDocument = ResourcesDocument()
    health_checks: tuple[HealthCheckDocument, ...] = ()
    volumes: tuple[VolumeDocument, ...] = ()
    uris: tuple[UriDocument, ...] = ()
    configmaps: Annotated[tuple[ConfigMapReference, ...], _Parts] = ()
    secrets: Annotated[tuple[SecretReference, ...], _Parts] = ()


class ProcessDocument(Document, frozen=True, kw_only=True):
    """One task that is driven by commands of its own (docs/original.md#processes), each a line for the shell. With
    `pidFile`,
    `startCmd` leaves a daemon behind and returns; without, it is the process itself."""

    ignored: ClassVar[dict[str, str]] = {
        **CONSOLE,
        "logPath": "the output of a process is kept in stdout and stderr of its sandbox",
        "cfgPath": "take configuration from configmaps",
        "procGroup": "every process has a group of its own",
    }

    proc_name: Annotated[str, Meta(min_length=1, max_length=255)]
    work_path: str = ""
    pid_file: str = ""
    start_cmd: Annotated[str, Meta(min_length=1, max_length=65536)]
    start_grace_period: _Probe = 0
    stop_cmd: Text = ""
    check_cmd: Text = ""
    restart_cmd: Text = ""
    reload_cmd: Text = ""
    kill_cmd: Text = ""
    user: str = ""
    env: tuple[EnvDocument, ...] = ()
    ports: tuple[PortDocument, ...] = ()
    resources: ResourcesDocument = ResourcesDocument()
    health_checks: tuple[HealthCheckDocument, ...] = ()
    uris: tuple[UriDocument, ...] = ()
    configmaps: Annotated[tuple[ConfigMapReference, ...], _Parts] = ()
    secrets: Annotated[tuple[SecretReference, ...], _Parts] = ()


TaskDocument = ContainerDocument | ProcessDocument


class NetLimitDocument(Document, frozen=True, kw_only=True):
    """`egressLimit`: outgoing bandwidth in Mbit/s; 0 = unlimited."""

    ignored: ClassVar[dict[str, str]] = {"ingressLimit": "only outgoing bandwidth can be limited"}

    egress_limit: Annotated[int, Meta(ge=0, le=1_000_000)] = 0


class PodSpec(Document, frozen=True, kw_only=True):
    """Containers in an application, processes in a document of kind process."""

    ignored: ClassVar[dict[str, str]] = {
        **CONSOLE,
        "nodeSelector": "write a CLUSTER or LIKE item in $.constraint.intersectionItem",
    }

    containers: Annotated[tuple[ContainerDocument, ...], _Parts] = ()
    processes: Annotated[tuple[ProcessDocument, ...], _Parts] = ()
    executor: ExecutorName = ""
    network_mode: str = ""
    network_type: str = field(name="networktype", default="")
    net_limit: NetLimitDocument = NetLimitDocument()
    priority: Annotated[int, Meta(ge=-1_000_000_000, le=1_000_000_000)] | None = None
    priority_class_name: str = ""
    role: str = ""
