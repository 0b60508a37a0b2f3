"""The application document (bcs_api 6.1 to 6.8): fields, types, ranges, aliases, and what this release refuses.

Wire names are exact. Fields of our own: `unreachablePolicy`, `updatePolicy.maxUnavailable`, `spec.template.spec.role`,
`containers[].user`, `containers[].uris`, `resources.*.gpu`.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, field

from bcs_scheduler.api.documents.walk import Document

MAX_INSTANCES = 100_000
"""Taskgroups of one application; more is taken for a mistake."""
DAY = 86400
_Seconds = Annotated[int, Meta(ge=0, le=30 * DAY)]
_Probe = Annotated[int, Meta(ge=0, le=DAY)]
_Port = Annotated[int, Meta(ge=-1, le=65535)]
_Amount = str | int | float
_Text = Annotated[str, Meta(max_length=65536)]
LATER = "is not supported by this release"


class Metadata(Document, frozen=True, kw_only=True):
    name: str
    namespace: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    creation_timestamp: str = ""
    cluster_name: str = ""


class PodMetadata(Document, frozen=True, kw_only=True):
    """Name and namespace are overwritten by the owner's."""

    name: str = ""
    namespace: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    creation_timestamp: str = ""


class RestartPolicyDocument(Document, frozen=True, kw_only=True):
    policy: Literal["Never", "OnFailure", "Always"] = "OnFailure"
    interval: _Seconds = 0
    backoff: _Seconds = 0
    maxtimes: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    host_retain_time: _Seconds = 0


class KillPolicyDocument(Document, frozen=True, kw_only=True):
    grace_period: Annotated[int, Meta(ge=0, le=DAY)] = 1


class UnreachablePolicyDocument(Document, frozen=True, kw_only=True):
    """-1 = never replace."""

    replace_after_seconds: Annotated[int, Meta(ge=-1, le=30 * DAY)] = 60


class UpdatePolicyDocument(Document, frozen=True, kw_only=True):
    """How many taskgroups an update may take down at once; 0 = a quarter, at least one."""

    aliases: ClassVar[dict[str, str]] = {"maxUnavilable": "maxUnavailable"}
    refused: ClassVar[dict[str, str]] = dict.fromkeys(
        ("updateDelay", "maxRetries", "maxFailovers", "action"), f"{LATER}; use maxUnavailable"
    )

    max_unavailable: Annotated[int, Meta(ge=0, le=MAX_INSTANCES)] = 0


# --- constraints ----------------------------------------------------------------------------------------------


class ScalarPayload(Document, frozen=True, kw_only=True):
    value: float


class TextPayload(Document, frozen=True, kw_only=True):
    value: str


class SetPayload(Document, frozen=True, kw_only=True):
    item: tuple[str, ...]


class RangePayload(Document, frozen=True, kw_only=True):
    begin: int
    end: int


class UnionDatum(Document, frozen=True, kw_only=True):
    """One member of a union. `type`: 1 scalar, 2 ranges, 3 text, 4 set, 0 none; may be left out."""

    name: str = ""
    operate: str
    type: Annotated[int, Meta(ge=0, le=4)] = 0
    scalar: ScalarPayload | None = None
    ranges: tuple[RangePayload, ...] = ()
    text: TextPayload | None = None
    set: SetPayload | None = None


class IntersectionItem(Document, frozen=True, kw_only=True):
    union_data: tuple[UnionDatum, ...]


class ConstraintDocument(Document, frozen=True, kw_only=True):
    refused: ClassVar[dict[str, str]] = {
        "nodeSelector": "is not supported; write a CLUSTER or LIKE item in intersectionItem instead"
    }

    intersection_item: tuple[IntersectionItem, ...] = ()


# --- containers -----------------------------------------------------------------------------------------------


class ResourceFieldRef(Document, frozen=True, kw_only=True):
    resource: str


class ValueFrom(Document, frozen=True, kw_only=True):
    resource_field_ref: ResourceFieldRef


class EnvDocument(Document, frozen=True, kw_only=True):
    name: str
    value: _Text = ""
    value_from: ValueFrom | None = None


class PortDocument(Document, frozen=True, kw_only=True):
    """`containerPort` and `hostPort` 0 or left out: a random port of the offer."""

    refused: ClassVar[dict[str, str]] = {"hostIP": "is not supported; ports are bound by the task itself"}

    name: str
    protocol: str = "tcp"
    container_port: _Port = 0
    host_port: _Port = 0


class HttpCheck(Document, frozen=True, kw_only=True):
    refused: ClassVar[dict[str, str]] = {"headers": f"{LATER}: Mesos sends no headers with its checks"}

    port: Annotated[int, Meta(ge=0, le=65535)] = 0
    port_name: str = ""
    scheme: str = "http"
    path: str = "/"


class TcpCheck(Document, frozen=True, kw_only=True):
    port: Annotated[int, Meta(ge=0, le=65535)] = 0
    port_name: str = ""


class CommandCheck(Document, frozen=True, kw_only=True):
    value: _Text


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
    refused: ClassVar[dict[str, str]] = {"subPath": LATER}

    host_path: str = ""
    mount_path: str
    read_only: bool = False


class VolumeDocument(Document, frozen=True, kw_only=True):
    name: str = ""
    volume: VolumeMount


class UriDocument(Document, frozen=True, kw_only=True):
    """Fetched into the task's working directory before it starts."""

    refused: ClassVar[dict[str, str]] = {"user": LATER, "pwd": LATER}
    aliases: ClassVar[dict[str, str]] = {"outputDir": "output"}

    value: str
    output: str = ""
    executable: bool = False
    extract: bool = True


class ContainerDocument(Document, frozen=True, kw_only=True):
    """One task. Without `image` the command runs as a plain process of the agent."""

    refused: ClassVar[dict[str, str]] = {
        "configmaps": LATER,
        "secrets": LATER,
        "privileged": LATER,
        "parameters": f"{LATER}: Docker's own options need the Docker executor",
        "hostname": LATER,
        "imagePullUser": LATER,
        "imagePullPasswd": LATER,
    }

    name: str = ""
    type: Literal["MESOS", "DOCKER"] = "MESOS"
    image: str = ""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    command: _Text = ""
    args: tuple[_Text, ...] = ()
    user: str = ""
    working_dir: str = ""
    env: tuple[EnvDocument, ...] = ()
    ports: tuple[PortDocument, ...] = ()
    resources: ResourcesDocument = ResourcesDocument()
    health_checks: tuple[HealthCheckDocument, ...] = ()
    volumes: tuple[VolumeDocument, ...] = ()
    uris: tuple[UriDocument, ...] = ()


# --- the document ---------------------------------------------------------------------------------------------


class PodSpec(Document, frozen=True, kw_only=True):
    refused: ClassVar[dict[str, str]] = {
        "processes": f"{LATER}: run the program as a container without an image",
        "netLimit": f"{LATER}: it needs a custom network",
        "nodeSelector": "is not supported; write a CLUSTER or LIKE item in $.constraint.intersectionItem instead",
    }

    containers: Annotated[tuple[ContainerDocument, ...], Meta(min_length=1, max_length=64)]
    network_mode: str = ""
    network_type: str = field(name="networktype", default="")
    role: str = ""


class PodTemplate(Document, frozen=True, kw_only=True):
    metadata: PodMetadata = PodMetadata()
    spec: PodSpec


class ApplicationSpec(Document, frozen=True, kw_only=True):
    """`instance` is required to create; left out of an update it keeps the stored number."""

    refused: ClassVar[dict[str, str]] = {"selector": "has no meaning for an application; deployments select"}

    instance: Annotated[int, Meta(ge=1, le=MAX_INSTANCES)] | None = None
    template: PodTemplate


class ApplicationDocument(Document, frozen=True, kw_only=True):
    api_version: Literal["v4"] = "v4"
    kind: Literal["application"]
    metadata: Metadata
    restart_policy: RestartPolicyDocument = RestartPolicyDocument()
    kill_policy: KillPolicyDocument = KillPolicyDocument()
    unreachable_policy: UnreachablePolicyDocument = UnreachablePolicyDocument()
    update_policy: UpdatePolicyDocument = UpdatePolicyDocument()
    constraint: ConstraintDocument = ConstraintDocument()
    spec: ApplicationSpec
