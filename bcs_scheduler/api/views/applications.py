"""The application record as users see it (docs/original.md#application-view)."""

from __future__ import annotations

from typing import Any

import msgspec

from bcs_scheduler.api.views.base import Meta, View
from bcs_scheduler.api.views.reasons import Diagnose, reason_of
from bcs_scheduler.api.views.transactions import QueuedView, show_queue
from bcs_scheduler.api.views.versions import definition_of
from bcs_scheduler.wire.times import rfc3339
from store.records import Application, TaskGroup
from store.state.reader import StateReader

RUNNING = ("Running", "Restarting")
SIDES = {"": "Unknown", "up": "RollingUpdateUp", "down": "RollingUpdateDown"}


class PodName(msgspec.Struct, frozen=True, gc=False):
    name: str


class ApplicationView(View, frozen=True, kw_only=True):
    """Ours: `Transaction` (id of the operation that owns it), `Version` (newest), `Deployment` (name of the one it
    belongs to), `Queued` (requests that wait, if there are any), `Reason`. `Reason`: words for the cause if the
    application is not as it is defined; otherwise empty. `SubStatus`: its side of an update, RollingUpdateUp or
    RollingUpdateDown."""

    kind: str
    id: str
    name: str
    object_meta: Meta
    define_instances: int
    instances: int
    running_instances: int
    run_as: str
    cluster_id: str
    status: str
    sub_status: str = "Unknown"
    last_status: str
    created: int
    update_time: int
    last_update_time: int
    mode: str = ""
    message: str
    reason: str
    pods: list[PodName] | msgspec.UnsetType = msgspec.UNSET
    version: str
    transaction: str
    deployment: str = ""
    queued: list[QueuedView] | msgspec.UnsetType = msgspec.UNSET
    document: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET
    """The answer of GET /definition, if the query asks for documents; null: a deployment has the document."""


def show_application(
    state: StateReader, application: Application, diagnose: Diagnose, *, pods: bool = True, document: bool = False
) -> ApplicationView:
    """`Instances` counts the taskgroups that exist, `RunningInstances` those that run. Without `pods`, which names each
    of them, the view costs the same however many there are."""
    counts = state.status_counts(application.key)
    return ApplicationView(
        kind=application.type,
        id=application.name,
        name=application.name,
        object_meta=Meta(
            name=application.name,
            namespace=application.namespace,
            creation_timestamp=rfc3339(application.created_at),
            labels=application.labels,
            annotations=application.annotations,
        ),
        define_instances=application.instances,
        instances=len(state.groups_of(application.key)),
        running_instances=sum(counts.get(status, 0) for status in RUNNING),
        run_as=application.namespace,
        cluster_id=state.framework.cluster,
        status=application.status,
        sub_status=SIDES[application.rolling],
        last_status=application.last_status,
        created=int(application.created_at),
        update_time=int(application.updated_at),
        last_update_time=int(max(application.updated_at, state.latest_of.get(application.key, 0.0))),
        message=application.message,
        reason=reason_of(state, application, diagnose),
        pods=_pods(state, application) if pods else msgspec.UNSET,
        version=application.version,
        transaction=application.operation,
        deployment=application.deployment,
        queued=show_queue(state, "application", application.key),
        document=definition_of(state, application) if document else msgspec.UNSET,
    )


def _pods(state: StateReader, application: Application) -> list[PodName]:
    found = state.in_order(TaskGroup, (application.namespace, application.name))
    return [PodName(group.id) for _, group in found]
