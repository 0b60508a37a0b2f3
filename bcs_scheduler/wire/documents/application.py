"""The documents of kind application and process (docs/original.md#application-documents): fields, types, ranges,
aliases, and the values that this release refuses. Containers and processes are in documents.pod.

Wire names are exact. Fields of our own: `unreachablePolicy`, `updatePolicy.maxUnavailable`, `executor`.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, field

from bcs_scheduler.wire.decoding import Document
from bcs_scheduler.wire.documents.pod import CONSOLE, DAY, ExecutorName, PodSpec

API_VERSION = {"apiVersion": "v4 is taken"}
MAX_INSTANCES = 100_000
"""Taskgroups of one application; more is taken for a mistake."""
_Seconds = Annotated[int, Meta(ge=0, le=30 * DAY)]


class Metadata(Document, frozen=True, kw_only=True):
    name: str
    namespace: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    creation_timestamp: str = ""
    cluster_name: str = ""


class KeptMetadata(Metadata, frozen=True, kw_only=True):
    """Metadata of objects that are stored as documents: an answer can be sent back as a request. `resourceVersion`: the
    object is replaced only if it still has this version."""

    update_timestamp: str = ""
    resource_version: Annotated[str, Meta(max_length=100)] = ""


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
    """`gracePeriod`: seconds between SIGTERM and SIGKILL. `shutdownDelaySeconds`: seconds for which a taskgroup that is
    going to be ended still runs after it has left the endpoints of its services."""

    grace_period: Annotated[int, Meta(ge=0, le=DAY)] = 1
    shutdown_delay_seconds: Annotated[int, Meta(ge=0, le=3600)] = 0


class UnreachablePolicyDocument(Document, frozen=True, kw_only=True):
    """-1 = never replace."""

    replace_after_seconds: Annotated[int, Meta(ge=-1, le=30 * DAY)] = 60


class UpdatePolicyDocument(Document, frozen=True, kw_only=True):
    """How many taskgroups an update may take down at once; 0 = a quarter, at least one."""

    aliases: ClassVar[dict[str, str]] = {"maxUnavilable": "maxUnavailable"}
    ignored: ClassVar[dict[str, str]] = dict.fromkeys(
        ("updateDelay", "maxRetries", "maxFailovers", "action"), "use maxUnavailable"
    )

    max_unavailable: Annotated[int, Meta(ge=0, le=MAX_INSTANCES)] = 0


# --- constraints ----------------------------------------------------------------------------------------------


class ScalarPayload(Document, frozen=True, kw_only=True):
    value: float = 0.0


class TextPayload(Document, frozen=True, kw_only=True):
    value: str = ""


class SetPayload(Document, frozen=True, kw_only=True):
    item: tuple[str, ...] = ()


class RangePayload(Document, frozen=True, kw_only=True):
    begin: int
    end: int


class UnionDatum(Document, frozen=True, kw_only=True):
    """One member of a union. `type`: 1 scalar, 2 ranges, 3 text, 4 set, 0 none; may be left out. `union_data`: a union
    inside the union, which never fits; None = there is none."""

    name: str = ""
    operate: str = ""
    type: Annotated[int, Meta(ge=0, le=4)] = 0
    scalar: ScalarPayload | None = None
    ranges: tuple[RangePayload, ...] = ()
    text: TextPayload | None = None
    set: SetPayload | None = None
    union_data: Any = None


class IntersectionItem(Document, frozen=True, kw_only=True):
    union_data: tuple[UnionDatum, ...]


class ConstraintDocument(Document, frozen=True, kw_only=True):
    ignored: ClassVar[dict[str, str]] = dict.fromkeys(
        ("nodeSelector", "selector"), "write a CLUSTER or LIKE item in intersectionItem"
    )

    intersection_item: tuple[IntersectionItem, ...] = ()


# --- the document --------------------------------------------------------------------------------------------------


class PodTemplate(Document, frozen=True, kw_only=True):
    metadata: PodMetadata = PodMetadata()
    spec: PodSpec


class ApplicationSpec(Document, frozen=True, kw_only=True):
    """`instance` is required to create; left out of an update it keeps the stored number. `min_available`: the gang,
    which starts together or not at all; 0 = every taskgroup starts by itself."""

    ignored: ClassVar[dict[str, str]] = {**CONSOLE, "selector": "only deployments have a selector"}

    instance: Annotated[int, Meta(ge=0, le=MAX_INSTANCES)] | None = None
    min_available: Annotated[int, Meta(ge=0, le=MAX_INSTANCES)] = 0
    template: PodTemplate


class ApplicationDocument(Document, frozen=True, kw_only=True):
    """`executor` is another place for spec.template.spec.executor."""

    ignored: ClassVar[dict[str, str]] = CONSOLE
    lenient: ClassVar[dict[str, str]] = API_VERSION

    api_version: Literal["v4"] = "v4"
    kind: Literal["application", "process"]
    metadata: Metadata
    restart_policy: RestartPolicyDocument = RestartPolicyDocument()
    kill_policy: KillPolicyDocument = KillPolicyDocument()
    unreachable_policy: UnreachablePolicyDocument = UnreachablePolicyDocument()
    update_policy: UpdatePolicyDocument = UpdatePolicyDocument()
    constraint: ConstraintDocument = ConstraintDocument()
    executor: ExecutorName = ""
    spec: ApplicationSpec
