"""What the read models share: wire names as the original spells them, and metadata.

Keys without a JSON tag kept their Go spelling in the original; that spelling is the contract (bcs_api 7).
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

import msgspec

from bcs_scheduler.core.concurrency import version_of
from store.definition import Amounts
from store.records import ConfigMap, CustomObject, Secret, Service, Webhook

_SPECIAL = {"id": "ID"}
NO_TIME = "0001-01-01T00:00:00Z"
"""The zero time of the original's timestamps."""


def go_name(field: str) -> str:
    """``define_instances`` -> ``DefineInstances``."""
    return _SPECIAL.get(field) or "".join(part.capitalize() for part in field.split("_"))


class View(msgspec.Struct, frozen=True, kw_only=True, rename=go_name, gc=False):
    """A read model with the original's Go spelling. Not tracked by the garbage collector: views have no cycles, and a
    long list of them would make it walk them all again and again."""


class Meta(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Metadata as in documents."""

    name: str
    namespace: str
    creation_timestamp: str = NO_TIME
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class KeptMeta(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Of objects that are kept as their documents say. `updateTimestamp` and `resourceVersion` are ours."""

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


class RestartPolicyView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    policy: str
    interval: float
    backoff: float
    maxtimes: int
    host_retain_time: float


def rfc3339(moment: float) -> str:
    """Unix seconds as UTC with microseconds; the zero time for 0."""
    if moment <= 0:
        return NO_TIME
    seconds, fraction = divmod(moment, 1)
    return f"{_date_and_time(int(seconds))}.{int(fraction * 1e6):06}Z"


@lru_cache(maxsize=4096)
def _date_and_time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def show_meta(record: ConfigMap | Secret | Service | Webhook | CustomObject) -> KeptMeta:
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
    return ResourceView(
        cpus=amounts.cpus / 1000, mem=amounts.mem / 1000, disk=amounts.disk / 1000, gpus=amounts.gpus / 1000
    )
