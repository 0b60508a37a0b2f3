"""Namespaces as users see them: settings, quota, and what their workloads want."""

from __future__ import annotations

import msgspec

from bcs_scheduler.api.views.base import NO_TIME, rfc3339
from bcs_scheduler.core.concurrency import version_of
from store.records import Namespace
from transactions import wants
from transactions.wants import Wants


class NamespaceMeta(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`resourceVersion`: empty without settings."""

    name: str
    creation_timestamp: str = NO_TIME
    update_timestamp: str = NO_TIME
    resource_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class AmountsView(msgspec.Struct, frozen=True, kw_only=True):
    """Cores, MB, MB."""

    cpus: float
    mem: float
    disk: float
    taskgroups: int


class QuotaView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Cores, MB, MB; what is missing is not bounded."""

    cpus: float | None = None
    mem: float | None = None
    disk: float | None = None
    taskgroups: int | None = None


class NamespaceSpecView(msgspec.Struct, frozen=True, kw_only=True):
    quota: QuotaView


class NamespaceStatusView(msgspec.Struct, frozen=True, kw_only=True):
    """`used`: what the workloads want together, running or not. `contents`: number of objects by kind. `recorded`: it
    has settings of its own; otherwise it exists by what is in it."""

    used: AmountsView
    contents: dict[str, int]
    recorded: bool


class NamespaceView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    api_version: str = "v4"
    kind: str = "namespace"
    metadata: NamespaceMeta
    spec: NamespaceSpecView
    status: NamespaceStatusView


def show_namespace(name: str, record: Namespace | None, used: Wants, contents: dict[str, int]) -> NamespaceView:
    known = record if record is not None else Namespace(name=name)
    quota = {key: bound for key, bound in wants.bounds(known.quota) if bound is not None}
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
            quota=QuotaView(
                cpus=_units(quota.get("cpus")),
                mem=_units(quota.get("mem")),
                disk=_units(quota.get("disk")),
                taskgroups=quota.get("taskgroups"),
            )
        ),
        status=NamespaceStatusView(
            used=AmountsView(
                cpus=used.cpus / 1000, mem=used.mem / 1000, disk=used.disk / 1000, taskgroups=used.taskgroups
            ),
            contents=contents,
            recorded=record is not None,
        ),
    )


def _units(thousandths: int | None) -> float | None:
    return None if thousandths is None else thousandths / 1000
