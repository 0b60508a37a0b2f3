"""Queues as users see them: settings, and the namespaces that belong to them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bcs_scheduler.api.views.objects.namespaces import NamespaceMeta
from bcs_scheduler.core.placement.sessions.held import by_resource
from bcs_scheduler.core.requests.concurrency import version_of
from bcs_scheduler.wire.times import rfc3339
from offers.dimensions import THOUSANDTHS, recorded
from store.records import Queue
from store.state.census import TASKGROUPS

Amounts = dict[str, float]
"""Amounts by resource: `cpus` in cores, `mem` and `disk` in MB, `gpus`, and numbers of extended resources."""


class QueueSpecView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`guarantee`, `capability`: by resource: `cpus` in cores, `mem` and `disk` in MB, `gpus`, and numbers of extended
    resources by their names. A resource that is missing is not limited, or nothing of it is guaranteed. `maxPriority`
    is missing if the queue has none."""

    weight: int
    guarantee: Amounts
    capability: Amounts
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
    used: Amounts


class QueueView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    api_version: str = "v4"
    kind: str = "queue"
    metadata: NamespaceMeta
    spec: QueueSpecView
    status: QueueStatusView


def show_queue(name: str, record: Queue | None, namespaces: list[str], held: Mapping[str, int]) -> QueueView:
    """`record` None: the default queue without settings. `held`: as `StateReader.held`."""
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
            guarantee=show_amounts(known.guaranteed),
            capability=show_amounts(known.limits),
            reclaimable=known.reclaimable,
            priority=known.priority,
            max_priority=msgspec.UNSET if known.max_priority is None else known.max_priority,
        ),
        status=QueueStatusView(
            namespaces=sorted(namespaces),
            recorded=record is not None,
            taskgroups=held.get(TASKGROUPS, 0),
            used=show_amounts(by_resource({name: amount for name, amount in held.items() if name != TASKGROUPS})),
        ),
    )


def show_amounts(given: Mapping[str, int]) -> Amounts:
    """Amounts by resource: the four scalars in their order, then extended resources by name."""
    names = (*THOUSANDTHS.names, *sorted(given.keys() - set(THOUSANDTHS.names)))
    return {name: recorded(name).displayed(given[name]) for name in names if name in given}
