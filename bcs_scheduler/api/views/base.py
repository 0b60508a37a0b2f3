"""Common parts of the read models: wire names as the original spells them, and metadata.

Keys without a JSON tag kept their Go spelling in the original; that spelling is the contract
(docs/original.md#read-models).
"""

from __future__ import annotations

import msgspec

from bcs_scheduler.core.requests.concurrency import version_of
from bcs_scheduler.wire.times import NO_TIME, rfc3339
from offers.dimensions import THOUSANDTHS
from store.records import ConfigMap, CustomObject, PodGroup, Secret, Service, Webhook
from store.records.definition import Amounts

_SPECIAL = {"id": "ID"}


def go_name(field: str) -> str:
    """``define_instances`` -> ``DefineInstances``."""
    return _SPECIAL.get(field) or "".join(part.capitalize() for part in field.split("_"))


class View(msgspec.Struct, frozen=True, kw_only=True, rename=go_name, gc=False):
    """A read model with the original's Go spelling. The garbage collector does not track views: they have no cycles,
    and the collector would walk long lists of them again and again."""


class Meta(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Metadata as in documents."""

    name: str
    namespace: str
    creation_timestamp: str = NO_TIME
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class KeptMeta(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Metadata of objects that are kept as their documents say. `updateTimestamp` and `resourceVersion` are ours."""

    name: str
    namespace: str
    creation_timestamp: str = NO_TIME
    update_timestamp: str = NO_TIME
    resource_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class ResourceView(View, frozen=True, kw_only=True):
    """Cores, MB, MB, GPUs."""

    cpus: float = 0.0
    mem: float = 0.0
    disk: float = 0.0
    gpus: float = 0.0


class KillPolicyView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    grace_period: float
    shutdown_delay_seconds: float


class RestartPolicyView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    policy: str
    interval: float
    backoff: float
    maxtimes: int
    host_retain_time: float


def show_meta(record: ConfigMap | Secret | Service | Webhook | CustomObject | PodGroup) -> KeptMeta:
    return KeptMeta(
        name=record.name,
        namespace=record.namespace,
        creation_timestamp=rfc3339(record.created_at),
        update_timestamp=rfc3339(record.updated_at),
        resource_version=version_of(record),
        labels=record.labels,
        annotations=record.annotations,
    )


def resources(amounts: Amounts) -> ResourceView:
    return ResourceView(**THOUSANDTHS.displayed(amounts))
