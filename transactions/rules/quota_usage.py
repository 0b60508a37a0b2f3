"""Quota usage: the sum of the requests of workloads, whether they run yet or not. The quota of a namespace limits this
sum.

The usage of an application is its number of instances times the request of one taskgroup of its newest version. A
deployment stands for its applications: while it moves from one definition to another, all its taskgroups and the surge
count, at the greater need of the two sides.

Objects that are stored count by number: each workload that a user has created, and each configmap, secret, service,
group and custom object. Of these, the texts count, too. The number of versions of a workload has a limit of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeVar

from offers.dimensions import recorded
from store.ids import object_key, part_key
from store.records import (
    ANNOTATION_OF_PLACEHOLDER,
    Application,
    ConfigMap,
    CustomObject,
    Deployment,
    Quota,
    Record,
    Secret,
    Service,
)
from store.records.definition import Amounts
from store.state.reader import StateReader
from transactions import resource_request
from transactions.base import Overhead
from transactions.rules.draining import stand_ins_of

R = TypeVar("R")
MOVING = ("Update", "UpdatePaused", "UpdateSuspend")
"""Statuses of a deployment in which both sides may be there."""


class QuotaUsage(NamedTuple):
    """Scalars in thousandths."""

    cpus: int = 0
    mem: int = 0
    disk: int = 0
    taskgroups: int = 0
    objects: int = 0
    object_storage: int = 0

    def plus(self, other: QuotaUsage) -> QuotaUsage:
        """The sum, amount by amount."""
        return QuotaUsage(*(a + b for a, b in zip(self, other, strict=True)))

    def minus(self, other: QuotaUsage) -> QuotaUsage:
        """The difference, amount by amount; amounts may be negative."""
        return QuotaUsage(*(a - b for a, b in zip(self, other, strict=True)))


NOTHING = QuotaUsage()
COUNTS = frozenset({"taskgroups", "objects"})
"""Amounts that are numbers; the others are thousandths."""
STORED = ("configmap", "secret", "service", "podgroup", "customobject")
"""Kinds of objects that change by requests only, whose texts count."""
MB = 1024 * 1024


def of_application(state: StateReader, application: Application, overhead: Overhead) -> QuotaUsage:
    """Returns the quota usage of an application. Nothing for an application that belongs to a deployment, whose usage
    counts instead. `overhead`: of a taskgroup of the cluster manager."""
    owner = application.owner
    if ANNOTATION_OF_PLACEHOLDER in application.annotations:
        return NOTHING  # the application that the room is for counts
    if owner is not None and owner.kind == Deployment.kind and owner.key in state.deployments:
        return NOTHING
    version = state.version(application.key, application.version)
    if version is None:
        return NOTHING
    return _times(application.instances, resource_request.total(version, overhead))


def of_deployment(state: StateReader, deployment: Deployment, overhead: Overhead) -> QuotaUsage:
    """Quota usage of a deployment. During an update, instances and surge count with the greater request of both
    sides."""
    sides = []
    counts = [deployment.instances + stand_ins_of(state, deployment)]
    for name in deployment.sides:
        application = state.applications.get(object_key(deployment.namespace, name))
        version = state.version(application.key, application.version) if application is not None else None
        if version is not None:
            sides.append(resource_request.total(version, overhead))
    revision = state.revisions.get(deployment.revision_key)
    if revision is not None:
        sides.append(resource_request.total(revision.version, overhead))
    surge = deployment.strategy.max_surge
    following = state.revisions.get(part_key(deployment.key, deployment.next_revision))
    if following is not None:
        sides.append(resource_request.total(following.version, overhead))
        counts.append(following.instances)
        surge = max(surge, following.strategy.max_surge)
    if deployment.updating or deployment.status in MOVING:
        counts.append(deployment.previous_instances or deployment.instances)
        # At most all taskgroups of one side exist beside all of the other.
        counts.append(max(counts) + (surge if deployment.retiring else min(surge, sorted(counts)[-2])))
    most = Amounts(
        cpus=max((side.cpus for side in sides), default=0),
        mem=max((side.mem for side in sides), default=0),
        disk=max((side.disk for side in sides), default=0),
    )
    return _times(max(counts), most)


def of_object(record: Record) -> QuotaUsage:
    """Quota usage of an object of one of the kinds STORED: itself, and its texts, rounded up."""
    texts = [*_texts(getattr(record, "labels", {})), *_texts(getattr(record, "annotations", {}))]
    match record:
        case ConfigMap():
            for key, item in record.items.items():
                texts += [key, item.content, item.user, item.password]
        case Secret():
            texts += _texts(record.items)
        case CustomObject() | Service():
            texts.append(record.raw)
    size = len(record.key) + sum(len(text) if text.isascii() else len(text.encode()) for text in texts)
    return QuotaUsage(objects=1, object_storage=-(-size * 1000 // MB))


def _texts(pairs: Mapping[str, str]) -> Iterator[str]:
    for pair in pairs.items():
        yield from pair


def of_namespace(state: StateReader, namespace: str, overhead: Overhead) -> QuotaUsage:
    """Returns the sum over the namespace. The cost does not depend on other namespaces; any thread may call."""
    total = NOTHING
    for application in _those("application", state, state.applications, namespace):
        total = total.plus(of_application(state, application, overhead))
    for deployment in _those("deployment", state, state.deployments, namespace):
        total = total.plus(of_deployment(state, deployment, overhead))
    for kind in STORED:
        for key in list(state.indexes.keys_in(kind, namespace)):
            record = state.get(kind, key)
            total = total.plus(of_object(record)) if record is not None else total
    return total


def _those(kind: str, state: StateReader, table: Mapping[str, R], namespace: str) -> list[R]:
    """The records of a kind in the namespace."""
    return [record for key in list(state.indexes.keys_in(kind, namespace)) if (record := table.get(key)) is not None]


def bounds(quota: Quota) -> tuple[tuple[str, int | None], ...]:
    """Returns the bounds of a quota in the order of QuotaUsage; None = no bound."""
    return (
        ("cpus", quota.cpus),
        ("mem", quota.mem),
        ("disk", quota.disk),
        ("taskgroups", quota.taskgroups),
        ("objects", quota.objects),
        ("objectStorage", quota.object_storage),
    )


def _times(count: int, amounts: Amounts) -> QuotaUsage:
    """The usage of a workload, which counts as one object."""
    return QuotaUsage(count * amounts.cpus, count * amounts.mem, count * amounts.disk, count, objects=1)


def displayed(name: str, amount: int) -> float:
    """A bound or a usage in cores, MB, or numbers. `name`: as in `bounds`."""
    return amount if name in COUNTS else recorded(name).displayed(amount)
