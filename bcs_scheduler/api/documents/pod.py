"""What one taskgroup consists of, as users write it (bcs_api 6.2, 6.3, 6.6 to 6.11): containers, processes, and what
they take from configmaps and secrets.

Wire names are exact. Fields of our own: `executor` and `role` of the template, `user` and `uris` of containers,
`executable` and `extract` of uris, `resources.*.gpu`; `pidFile` of processes may be left out.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, field

from bcs_scheduler.api.documents.walk import Document

LATER = "is not supported by this release"
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
    """`hostPort` 0 or left out: a random port of the offer, -1: not mapped. What a network makes of the two numbers is
    in documents.ports."""

    refused: ClassVar[dict[str, str]] = {"hostIP": "is not supported; ports are bound on every address of the host"}

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
    value: Text


class HealthCheckDocument(Document, frozen=True, kw_only=True):
    type: Literal["HTTP", "TCP", "COMMAND", "REMOTE_HTTP", "REMOTE_TCP"]
    delay_seconds: _Probe = 10
    grace_period_seconds: _Probe = 300
    interval_seconds: Annotated[int, Meta(ge=1, le=DAY)] = 60
    timeout_seconds: Annotated[int, Meta(ge=1, le=DAY)] = 20
    consecutive_failures: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    http: HttpCheck | None = None
    tcp: TcpCheck | None = None
    command: CommandCheck | None = None


class ResourceAmounts(Document, frozen=True, kw_only=True):
    """cpu in cores (``0.5``, ``"500m"``); memory and storage in MB (``512``, ``"2Gi"``); gpu in whole GPUs."""

    aliases: ClassVar[dict[str, str]] = {"cpus": "cpu", "mem": "memory", "disk": "storage", "gpus": "gpu"}

    cpu: _Amount | None = None
    memory: _Amount | None = None
    storage: _Amount | None = None
    gpu: _Amount | None = None


class ExtendedResourceNeed(Document, frozen=True, kw_only=True):
    """`Value`: the amount one container needs. The other keys of the original's struct mean nothing here."""

    refused: ClassVar[dict[str, str]] = dict.fromkeys(
        ("InnerIP", "Capacity", "Socket"), "belongs to an agent's setting, not to a container"
    )

    name: str = field(name="Name")
    value: Annotated[float, Meta(gt=0, le=1e9)] = field(name="Value")


class ResourcesDocument(Document, frozen=True, kw_only=True):
    requests: ResourceAmounts = ResourceAmounts()
    limits: ResourceAmounts = ResourceAmounts()
    extended_resources: tuple[ExtendedResourceNeed, ...] = ()


class VolumeMount(Document, frozen=True, kw_only=True):
    refused: ClassVar[dict[str, str]] = {"subPath": f"{LATER}; name the directory in hostPath"}

    host_path: str = ""
    mount_path: str
    read_only: bool = False


class VolumeDocument(Document, frozen=True, kw_only=True):
    name: str = ""
    volume: VolumeMount


class UriDocument(Document, frozen=True, kw_only=True):
    """Fetched into the task's working directory before it starts. `pwd` is literal or ``secret::<name>||<key>``."""

    aliases: ClassVar[dict[str, str]] = {"outputDir": "output", "password": "pwd"}
    refused: ClassVar[dict[str, str]] = {"pullPolicy": f"{LATER}: what uris name is fetched at every start"}

    value: str
    user: str = ""
    pwd: str = ""
    output: str = ""
    executable: bool = False
    extract: bool = True


class ParameterDocument(Document, frozen=True, kw_only=True):
    """An option of the container engine (bcs_api 6.3.1)."""

    key: str
    value: str = ""


class ItemDocument(Document, frozen=True, kw_only=True):
    """One key of a configmap or secret, as environment variable or as file. `readOnly` decides the permissions: of
    configmaps 0444 or 0644, of secrets 0400 (also if left out) or 0600."""

    refused: ClassVar[dict[str, str]] = {
        "subPath": f"{LATER}; give the whole path in keyOrPath",
        "dataKeyAlias": f"{LATER}; give the name in keyOrPath",
    }

    type: Literal["env", "file"]
    data_key: Annotated[str, Meta(min_length=1)]
    key_or_path: Annotated[str, Meta(min_length=1, max_length=4096)]
    read_only: bool | None = None
    user: str = ""


class ConfigMapReference(Document, frozen=True, kw_only=True):
    name: str
    items: Annotated[tuple[ItemDocument, ...], Meta(min_length=1)]


class SecretReference(Document, frozen=True, kw_only=True):
    aliases: ClassVar[dict[str, str]] = {"name": "secretName"}

    secret_name: str
    items: Annotated[tuple[ItemDocument, ...], Meta(min_length=1)]


class ContainerDocument(Document, frozen=True, kw_only=True):
    """One task. Without `image` the command runs as a plain process of the agent."""

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
    """One task that is driven by commands of its own (bcs_api 6.9), each a line for the shell. With `pidFile`,
    `startCmd` leaves a daemon behind and returns; without, it is the process itself."""

    refused: ClassVar[dict[str, str]] = {
        "logPath": f"{LATER}: what the process prints is kept in stdout and stderr of its sandbox",
        "cfgPath": f"{LATER}: take configuration from configmaps",
        "procGroup": f"{LATER}: every process has a group of its own",
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


class PodSpec(Document, frozen=True, kw_only=True):
    """Containers in an application, processes in a document of kind process."""

    refused: ClassVar[dict[str, str]] = {
        "netLimit": f"{LATER}: no network plug-in that limits bandwidth is driven",
        "nodeSelector": "is not supported; write a CLUSTER or LIKE item in $.constraint.intersectionItem instead",
    }

    containers: Annotated[tuple[ContainerDocument, ...], _Parts] = ()
    processes: Annotated[tuple[ProcessDocument, ...], _Parts] = ()
    executor: ExecutorName = ""
    network_mode: str = ""
    network_type: str = field(name="networktype", default="")
    role: str = ""
