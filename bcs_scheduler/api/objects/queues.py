"""Queues of the policy `session`: weight, guarantee and limits, and the namespaces that belong to them. The queue
`default` exists without settings.

The use of queues beside their settings and shares.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from bcs_scheduler.api.documents import names
from bcs_scheduler.api.documents.validate import check_kind
from bcs_scheduler.api.http import errors
from bcs_scheduler.api.http.errors import invalid, not_found
from bcs_scheduler.api.http.operation import CONTINUE, LABEL_SELECTOR, LIMIT, Answer, Call, Table
from bcs_scheduler.api.objects.changes import IN_USE, changes
from bcs_scheduler.api.objects.namespaces import MOST, NamespaceMeta
from bcs_scheduler.api.reading.query import page, parse_selector, selected
from bcs_scheduler.api.streams.live import WATCHABLE, Live, watching
from bcs_scheduler.api.views.usage import AllocatedView
from bcs_scheduler.core.interface.requests import DeleteQueue, PutQueue
from bcs_scheduler.core.placement.queue_accounts import QueueFigures
from bcs_scheduler.core.placement.snapshots.held import by_resource
from bcs_scheduler.core.requests.concurrency import version_of
from bcs_scheduler.wire.decoding import decode
from bcs_scheduler.wire.documents.queues import ALIASES, QueueAmounts, QueueDocument
from bcs_scheduler.wire.problems import Problems, member
from bcs_scheduler.wire.quantities import QuantityError, Written, cores, gpus, memory, plain_number, storage
from bcs_scheduler.wire.times import rfc3339
from offers.agents import ListedAgent
from offers.dimensions import THOUSANDTHS, recorded
from offers.policy.hierarchy.configuration.fields import unknown_resource
from store.records import DEFAULT_QUEUE, Limits, Queue
from store.records.definition import Amounts
from store.state.census import TASKGROUPS
from store.state.reader import StateReader
from transactions.rules.queues import queue_of

READERS: Mapping[str, Callable[[Written, int], int]] = {"cpus": cores, "mem": memory, "disk": storage, "gpus": gpus}


def read_queue(raw: object, name: str | None = None, problems: Problems | None = None) -> Queue:
    """A record without times; `name` as in the path, if it is there. Raises ApiError (422)."""
    problems = Problems() if problems is None else problems
    if isinstance(raw, dict) and raw.get("kind") == "Queue":  # as kube-batch and Volcano write it
        raw = {**raw, "kind": "queue"}
    check_kind(raw, ("queue",), problems)
    document: QueueDocument = decode(raw, QueueDocument, problems)
    metadata, spec = document.metadata, document.spec
    names.check_name(metadata.name, "$.metadata.name", problems)
    if name is not None and metadata.name != name:
        problems.add("$.metadata.name", f'is "{metadata.name}", but the path says "{name}"')
    if metadata.namespace not in ("", metadata.name):
        problems.add("$.metadata.namespace", f'is "{metadata.namespace}"; a queue is in no namespace')
    names.check_labels(metadata.labels, "$.metadata.labels", problems)
    names.check_labels(metadata.annotations, "$.metadata.annotations", problems, selected=False)
    guarantee = _read(spec.guarantee, "$.spec.guarantee", problems)
    capability = _read(spec.capability, "$.spec.capability", problems)
    for resource, amount in guarantee.items():
        if amount > capability.get(resource, amount):
            problems.add(member("$.spec.guarantee", resource), f"is more than spec.capability.{resource}")
    if problems:
        raise invalid(problems.listed())
    return Queue(
        name=metadata.name,
        labels=metadata.labels,
        annotations=metadata.annotations,
        weight=spec.weight,
        guarantee=Amounts(**_scalars(guarantee)),
        guarantee_extended=_extended(guarantee),
        capability=Limits(**_scalars(capability)),
        capability_extended=_extended(capability),
        reclaimable=spec.reclaimable,
        priority=spec.priority,
        max_priority=spec.max_priority,
    )


def _scalars(amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if name in READERS}


def _extended(amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in sorted(amounts.items()) if name not in READERS}


def _read(given: QueueAmounts, path: str, problems: Problems) -> dict[str, int]:
    """Thousandths by name. A name that cannot be counted is a problem: it would limit nothing and guarantee nothing."""
    found: dict[str, int] = {}
    known: dict[str, str] = {}
    for key, written in given.items():
        at, lower = member(path, key), key.lower()
        name = ALIASES.get(lower, lower if lower in READERS else key)
        if name in known:
            problems.add(at, f"is the same resource as {known[name]}; give it once")
            continue
        known[name] = key
        if name not in READERS and (fault := unknown_resource(name)):
            problems.add(at, fault)
            continue
        try:
            found[name] = READERS.get(name, plain_number)(written, MOST)
        except QuantityError as error:
            problems.add(at, str(error))
    return found


ShownAmounts = dict[str, float]
"""Amounts by resource: `cpus` in cores, `mem` and `disk` in MB, `gpus`, and numbers of extended resources."""


class QueueSpecView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`guarantee`, `capability`: by resource: `cpus` in cores, `mem` and `disk` in MB, `gpus`, and numbers of extended
    resources by their names. A resource that is missing is not limited, or nothing of it is guaranteed. `maxPriority`
    is missing if the queue has none."""

    weight: int
    guarantee: ShownAmounts
    capability: ShownAmounts
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
    used: ShownAmounts


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


def show_amounts(given: Mapping[str, int]) -> ShownAmounts:
    """Amounts by resource: the four scalars in their order, then extended resources by name."""
    names = (*THOUSANDTHS.names, *sorted(given.keys() - set(THOUSANDTHS.names)))
    return {name: recorded(name).displayed(given[name]) for name in names if name in given}


table = Table("queues")
REPLACE = "Replace the settings of a queue; the next session decides by them"


class _Found(NamedTuple):
    """A queue; `record` None: the default queue without settings."""

    name: str
    record: Queue | None


def _find(state: StateReader, name: str) -> _Found | None:
    record = state.queues.get(name)
    return _Found(name, record) if record is not None or name == DEFAULT_QUEUE else None


def _show(state: StateReader, found: _Found) -> QueueView:
    return show_queue(
        found.name, found.record, _namespaces(state).get(found.name, []), _held(state).get(found.name, {})
    )


def _walk(state: StateReader) -> list[_Found]:
    names = sorted({DEFAULT_QUEUE, *list(state.queues)})
    return [found for name in names if (found := _find(state, name)) is not None]


def _fits(found: _Found, filters: Mapping[str, Any]) -> bool:
    labels = found.record.labels if found.record is not None else {}
    return selected(labels, parse_selector(filters.get("labelSelector", "")))


LIVE = Live(
    "queue",
    lambda gateway, state, name: _find(state, name),
    lambda gateway, state, found: _show(state, found),
    lambda gateway, state, prefix: _walk(state),
    lambda state, found, filters: _fits(found, filters),
    namespaced=False,
)


@table.read(
    "/queues",
    "List the queues with their settings and namespaces",
    query=(LIMIT, CONTINUE, LABEL_SELECTOR, *WATCHABLE),
    answer=list[QueueView],
    watcher=watching(LIVE),
    reasons=(errors.BAD_PARAMETER,),
)
def list_queues(call: Call) -> Answer:
    state = call.state()
    requirements = parse_selector(call.query.get("labelSelector", ""))
    known, members, held = dict(state.queues.items()), _namespaces(state), _held(state)
    found = [
        name for name in {DEFAULT_QUEUE, *known} if selected(known[name].labels if name in known else {}, requirements)
    ]
    return page(
        found,
        lambda name: (name,),
        call.query,
        lambda name: show_queue(name, known.get(name), members.get(name, []), held.get(name, {})),
    )


@table.read("/queues/{queue}", "Fetch a queue with its settings and namespaces", answer=QueueView)
def get_queue(call: Call) -> Answer:
    state, name = call.state(), call.path["queue"]
    record = state.queues.get(name)
    if record is None and name != DEFAULT_QUEUE:
        raise not_found("queue", name)
    return Answer(show_queue(name, record, _namespaces(state).get(name, []), _held(state).get(name, {})))


def _held(state: StateReader) -> dict[str, Counter[str]]:
    """Sums of the taskgroups that have not ended, by queue."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for (namespace, _), amounts in state.held().items():
        found[queue_of(state, namespace)].update(amounts)
    return found


def _namespaces(state: StateReader) -> dict[str, list[str]]:
    """Namespaces by the queue that they name."""
    found: dict[str, list[str]] = defaultdict(list)
    for namespace in list(state.namespaces.values()):
        if namespace.queue:
            found[namespace.queue].append(namespace.name)
    return found


changes(
    table,
    "queue",
    QueueDocument,
    put=lambda call, create: PutQueue(queue=read_queue(call.body, call.path.get("queue"), call.problems)),
    remove=lambda call: DeleteQueue(name=call.path["queue"]),
    create={"/queues": "Create a queue"},
    replace={"/queues": REPLACE},
    replace_named={"/queues/{queue}": REPLACE},
    delete={"/queues/{queue}": "Delete a queue that no namespace belongs to"},
    refused=IN_USE,
)


class QueueUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Amounts are by resource, extended ones among them. `used`: of the taskgroups that have not ended, `taskgroups` in
    number. `deserved`: the share in the latest session of each role, added up; null before the first session, and
    without a policy that divides the cluster. `pending`: taskgroups that wait for a place, by reason. `total`: of all
    agents of the cluster."""

    name: str
    weight: int
    taskgroups: int
    used: ShownAmounts
    deserved: ShownAmounts | None
    guarantee: ShownAmounts
    capability: ShownAmounts
    pending: dict[str, int]
    total: AllocatedView


def cluster_total(agents: Iterable[ListedAgent]) -> AllocatedView:
    """The sum over the agents of the cluster."""
    return _sum(agent.total for agent in agents)


def show_queue_usage(figures: QueueFigures, total: AllocatedView) -> QueueUsage:
    queue = figures.queue
    return QueueUsage(
        name=queue.name,
        weight=queue.weight,
        taskgroups=figures.taskgroups,
        used=_summed(figures.used.values()),
        deserved=_summed(figures.deserved.values()) if figures.deserved else None,
        guarantee=show_amounts(queue.guaranteed),
        capability=show_amounts(queue.limits),
        pending=dict(figures.pending.items()),
        total=total,
    )


def _summed(each: Iterable[Mapping[str, int]]) -> ShownAmounts:
    """Sums by resource; the four scalars are always among them."""
    sums = Counter(dict.fromkeys(THOUSANDTHS.names, 0))
    for amounts in each:
        sums.update(amounts)
    return show_amounts(sums)


def _sum(each: Iterable[Mapping[str, int]]) -> AllocatedView:
    sums: Counter[str] = Counter()
    for amounts in each:
        sums.update(amounts)
    return AllocatedView(**{name: THOUSANDTHS.get(name).displayed(sums[name]) for name in THOUSANDTHS.names})
