"""Namespaces as users see them: settings, quota, and the requests of their workloads."""

from __future__ import annotations

import msgspec

from bcs_scheduler.api.http.operation import ApiSettings
from bcs_scheduler.core.requests.concurrency import version_of
from bcs_scheduler.wire.times import NO_TIME, rfc3339
from store.ids import ObjectKey
from store.records import Namespace
from store.state.reader import StateReader
from transactions.rules import priority_limits, quota_usage


class NamespaceMeta(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`resourceVersion`: empty without settings."""

    name: str
    creation_timestamp: str = NO_TIME
    update_timestamp: str = NO_TIME
    resource_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class AmountsView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Cores, MB, MB, number; `objects` and `objectStorage`: number and MB of the objects that users store."""

    cpus: float
    mem: float
    disk: float
    taskgroups: int
    objects: int
    object_storage: float


class QuotaView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Bounds of the same amounts; an absent amount is not bounded."""

    cpus: float | None = None
    mem: float | None = None
    disk: float | None = None
    taskgroups: int | None = None
    objects: int | None = None
    object_storage: float | None = None


class NamespaceSpecView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """`queue` is missing if it is the default queue, `maxPriority` and `priorityClasses` if they are not set."""

    quota: QuotaView
    queue: str = ""
    max_priority: int | None = None
    priority_classes: tuple[str, ...] = ()


class ExcessView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An object with more priority than new work of the namespace may have; the object is kept."""

    kind: str
    name: str
    priority: int
    priority_class_name: str


class NamespaceStatusView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`used`: the resource requests of all workloads together, running or not. `contents`: number of objects by kind.
    `recorded`: true if the namespace has settings of its own; otherwise it exists because of its objects.
    `maxPriority`: the greatest priority of new work, after the queue and the settings. `excess`: the objects that have
    more."""

    used: AmountsView
    contents: dict[str, int]
    recorded: bool
    max_priority: int
    excess: list[ExcessView]


class NamespaceView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    api_version: str = "v4"
    kind: str = "namespace"
    metadata: NamespaceMeta
    spec: NamespaceSpecView
    status: NamespaceStatusView


def show_namespace(
    state: StateReader, name: str, record: Namespace | None, contents: dict[str, int], settings: ApiSettings
) -> NamespaceView:
    used, most = quota_usage.of_namespace(state, name, settings.overhead), settings.max_priority
    known = record if record is not None else Namespace(name=name)
    bounds = {name: bound for name, bound in quota_usage.bounds(known.quota) if bound is not None}
    amounts = dict(zip((name for name, _ in quota_usage.bounds(known.quota)), used, strict=True))
    return NamespaceView(
        metadata=NamespaceMeta(
            name=name,
            creation_timestamp=rfc3339(known.created_at),
            update_timestamp=rfc3339(known.updated_at),
            resource_version=version_of(record) if record is not None else "",
            labels=known.labels,
            annotations=known.annotations,
        ),
        spec=NamespaceSpecView(
            quota=msgspec.convert(_displayed(bounds), QuotaView),
            queue=known.queue,
            max_priority=known.max_priority,
            priority_classes=known.priority_classes,
        ),
        status=NamespaceStatusView(
            used=msgspec.convert(_displayed(amounts), AmountsView),
            contents=contents,
            recorded=record is not None,
            max_priority=priority_limits.greatest(state, name, most),
            excess=[
                ExcessView(
                    kind=one.kind,
                    name=ObjectKey.of(one.key).name,
                    priority=one.priority,
                    priority_class_name=one.priority_class,
                )
                for one in priority_limits.excesses(state, name, most)
            ],
        ),
    )


def _displayed(amounts: dict[str, int]) -> dict[str, float]:
    return {name: quota_usage.displayed(name, amount) for name, amount in amounts.items()}
