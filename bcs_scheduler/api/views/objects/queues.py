"""Queues as users see them: settings, and the namespaces that belong to them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bcs_scheduler.api.views.objects.namespaces import NamespaceMeta
from bcs_scheduler.core.requests.concurrency import version_of
from bcs_scheduler.wire.times import rfc3339
from offers.dimensions import recorded
from store.records import Limits, Queue
from store.records.definition import Amounts
from store.state.census import RESOURCES, TASKGROUPS


class QueueAmountsView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Cores, MB, MB, GPUs. Missing: not limited, or nothing guaranteed."""

    cpus: float | None = None
    mem: float | None = None
    disk: float | None = None
    gpus: float | None = None


class QueueSpecView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`maxPriority` is missing if the queue has none."""

    weight: int
    guarantee: QueueAmountsView
    capability: QueueAmountsView
    reclaimable: bool
    priority: int
    max_priority: int | msgspec.UnsetType = msgspec.UNSET


class QueueStatusView(msgspec.Struct, frozen=True, kw_only=True):
    """`namespaces`: those that name the queue; the default queue has all others, which are not listed. `recorded`: the
    queue has settings of its own; false for the default queue until an operator sets it. `used`: resources of the
    taskgroups that have not ended, `taskgroups` in number."""

    namespaces: list[str]
    recorded: bool
    taskgroups: int
    used: QueueAmountsView


class QueueView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    api_version: str = "v4"
    kind: str = "queue"
    metadata: NamespaceMeta
    spec: QueueSpecView
    status: QueueStatusView


def show_queue(name: str, record: Queue | None, namespaces: list[str], held: Mapping[str, int]) -> QueueView:
    """`record` None: the default queue without settings. `held`: thousandths of resources, and `TASKGROUPS`."""
    known = record if record is not None else Queue(name=name)
    return QueueView(
        metadata=NamespaceMeta(
            name=name,
            creation_timestamp=rfc3339(known.created_at),
            update_timestamp=rfc3339(known.updated_at),
            resource_version=version_of(record) if record is not None else "",
            labels=known.labels,
            annotations=known.annotations,
        ),
        spec=QueueSpecView(
            weight=known.weight,
            guarantee=show_amounts(known.guarantee),
            capability=show_amounts(known.capability),
            reclaimable=known.reclaimable,
            priority=known.priority,
            max_priority=msgspec.UNSET if known.max_priority is None else known.max_priority,
        ),
        status=QueueStatusView(
            namespaces=sorted(namespaces),
            recorded=record is not None,
            taskgroups=held.get(TASKGROUPS, 0),
            used=show_amounts(Amounts(**{name: held.get(name, 0) for name in RESOURCES})),
        ),
    )


def show_amounts(given: Amounts | Limits) -> QueueAmountsView:
    """Amounts that are given; a limit may be 0, a guarantee of 0 is none."""
    none = 0 if isinstance(given, Amounts) else None
    found = {name: getattr(given, name) for name in QueueAmountsView.__struct_fields__}
    shown = {name: recorded(name).displayed(amount) for name, amount in found.items() if amount not in (None, none)}
    return QueueAmountsView(**shown)
