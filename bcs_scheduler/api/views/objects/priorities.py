"""Priority classes as users see them."""

from __future__ import annotations

import msgspec

from bcs_scheduler.api.views.objects.namespaces import NamespaceMeta
from bcs_scheduler.core.requests.concurrency import version_of
from bcs_scheduler.wire.times import rfc3339
from store.records import PriorityClass


class PriorityClassView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`value`: the greater, the more urgent."""

    api_version: str = "v4"
    kind: str = "PriorityClass"
    metadata: NamespaceMeta
    value: int
    global_default: bool
    preemption_policy: str
    description: str


def show_priority_class(record: PriorityClass) -> PriorityClassView:
    return PriorityClassView(
        metadata=NamespaceMeta(
            name=record.name,
            creation_timestamp=rfc3339(record.created_at),
            update_timestamp=rfc3339(record.updated_at),
            resource_version=version_of(record),
            labels=record.labels,
            annotations=record.annotations,
        ),
        value=record.value,
        global_default=record.global_default,
        preemption_policy=record.preemption_policy,
        description=record.description,
    )
