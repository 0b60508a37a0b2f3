"""Namespaces: settings, quota and queue, and the requests of their workloads. A namespace without settings exists as
long as it has objects.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from bcs_scheduler.api.documents import names
from bcs_scheduler.api.documents.validate import check_kind
from bcs_scheduler.api.http import errors
from bcs_scheduler.api.http.errors import invalid, not_found
from bcs_scheduler.api.http.operation import CONTINUE, LABEL_SELECTOR, LIMIT, Answer, ApiSettings, Call, Table
from bcs_scheduler.api.objects.changes import IN_USE, changes
from bcs_scheduler.api.reading.query import page, parse_selector, selected
from bcs_scheduler.core.interface.requests import DeleteNamespace, PutNamespace
from bcs_scheduler.core.requests.concurrency import version_of
from bcs_scheduler.core.requests.kinds.namespaces import contents
from bcs_scheduler.wire.decoding import decode
from bcs_scheduler.wire.documents.namespaces import NamespaceDocument
from bcs_scheduler.wire.problems import Problems, element, member
from bcs_scheduler.wire.quantities import QuantityError, Written, cores, memory, storage
from bcs_scheduler.wire.times import NO_TIME, rfc3339
from store.ids import ObjectKey
from store.records import DEFAULT_QUEUE, Namespace, Quota
from store.state.reader import StateReader
from transactions.rules import priority_limits, quota_usage


def read_namespace(raw: object, name: str | None = None, problems: Problems | None = None) -> Namespace:
    """A record without times; `name` as in the path, if it is there. Raises ApiError (422)."""
    problems = Problems() if problems is None else problems
    check_kind(raw, ("namespace",), problems)
    document: NamespaceDocument = decode(raw, NamespaceDocument, problems)
    metadata, quota = document.metadata, document.spec.quota
    names.check_namespace(metadata.name, "$.metadata.name", problems)
    if name is not None and metadata.name != name:
        problems.add("$.metadata.name", f'is "{metadata.name}", but the path says "{name}"')
    if metadata.namespace not in ("", metadata.name):
        problems.add("$.metadata.namespace", f'is "{metadata.namespace}"; a namespace is in none')
    names.check_labels(metadata.labels, "$.metadata.labels", problems)
    names.check_labels(metadata.annotations, "$.metadata.annotations", problems, selected=False)
    queue = document.spec.queue
    for part in queue.split("."):  # a queue of the tree may be named by its full name
        names.check_name(part, "$.spec.queue", problems)
    for number, name in enumerate(document.spec.priority_classes):
        names.check_name(name, element("$.spec.priorityClasses", number), problems)
    bounds = Quota(
        cpus=_bound(quota.cpus, "cpus", cores, problems),
        mem=_bound(quota.mem, "mem", memory, problems),
        disk=_bound(quota.disk, "disk", storage, problems),
        taskgroups=quota.taskgroups,
        objects=quota.objects,
        object_storage=_bound(quota.object_storage, "objectStorage", storage, problems),
    )
    if problems:
        raise invalid(problems.listed())
    return Namespace(
        name=metadata.name,
        labels=metadata.labels,
        annotations=metadata.annotations,
        quota=bounds,
        queue="" if queue == DEFAULT_QUEUE else queue,
        max_priority=document.spec.max_priority,
        priority_classes=tuple(dict.fromkeys(document.spec.priority_classes)),
    )


MOST = 10**9
"""Cores or MB: a sum over many agents, so the bounds of one do not hold."""


def _bound(written: Written | None, name: str, read: Callable[[Written, int], int], problems: Problems) -> int | None:
    if written is None:
        return None
    try:
        return read(written, MOST)
    except QuantityError as error:
        problems.add(member("$.spec.quota", name), str(error))
        return None


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


table = Table("namespaces")
REPLACE = "Replace the settings of a namespace; a quota below the quota usage only prevents growth"


@table.read(
    "/namespaces",
    "List the namespaces with quota and quota usage",
    query=(LIMIT, CONTINUE, LABEL_SELECTOR),
    answer=list[NamespaceView],
    reasons=(errors.BAD_PARAMETER,),
)
def list_namespaces(call: Call) -> Answer:
    state = call.state()
    requirements = parse_selector(call.query.get("labelSelector", ""))
    held = contents(state)
    known = dict(state.namespaces.items())
    found = [name for name in {*held, *known} if selected(known[name].labels if name in known else {}, requirements)]
    return page(
        found,
        lambda name: (name,),
        call.query,
        lambda name: show_namespace(state, name, known.get(name), held.get(name, {}), call.settings),
    )


@table.read("/namespaces/{ns}", "Fetch a namespace with quota and quota usage", answer=NamespaceView)
def get_namespace(call: Call) -> Answer:
    state, name = call.state(), call.path["ns"]
    record, held = state.namespaces.get(name), contents(state, name).get(name, {})
    if record is None and not held:
        raise not_found("namespace", name)
    return Answer(show_namespace(state, name, record, held, call.settings))


changes(
    table,
    "namespace",
    NamespaceDocument,
    put=lambda call, create: PutNamespace(namespace=read_namespace(call.body, call.path.get("ns"), call.problems)),
    remove=lambda call: DeleteNamespace(name=call.path["ns"]),
    create={"/namespaces": "Create the settings of a namespace"},
    replace={"/namespaces": REPLACE},
    replace_named={"/namespaces/{ns}": REPLACE},
    delete={"/namespaces/{ns}": "Delete the settings of an empty namespace"},
    refused=IN_USE,
)
