"""The trees of queues as users see them: revisions, queues with their use, and the answers of changes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from bcs_scheduler.api.views.explain import PartitionView, show_partition
from bcs_scheduler.api.views.usage import AllocatedView
from bcs_scheduler.core.placement.hierarchy.figures import LimitFigures, TreeFigures, TreeQueueFigures
from bcs_scheduler.wire.times import rfc3339
from offers.dimensions import recorded
from offers.model import DecidedBy
from store.records import DEFAULT_PARTITION, QueueTree


class HaltedQueueView(msgspec.Struct, frozen=True, kw_only=True):
    """A queue that an operator has stopped or drains."""

    queue: str
    state: str
    since: str


class RevisionMeta(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`revision` 0: the tree of the settings counts, and nothing is stored. `author`: name of the caller; empty for the
    scheduler."""

    revision: int
    author: str = ""
    why: str = ""
    creation_timestamp: str = ""


class TreeRevisionView(msgspec.Struct, frozen=True, kw_only=True):
    """A revision without its document. `partition`: name of the partition of roles. `present`: the revision counts."""

    kind: str = "queuetree"
    partition: str
    metadata: RevisionMeta
    present: bool


class QueueTreeView(msgspec.Struct, frozen=True, kw_only=True):
    """`spec`: the tree in the shape of YuniKorn's queue configuration. `halted`: the queues that are halted at present;
    of former revisions, those that were halted when the next one came. `partition`: name of the partition of roles;
    `partitions`: all of them, if there are several."""

    kind: str = "queuetree"
    partition: str
    metadata: RevisionMeta
    spec: dict[str, Any]
    halted: list[HaltedQueueView]
    partitions: list[PartitionView] = []


class TreeQueueSpecView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Amounts: cores, MB, GPUs, and numbers of extended resources, by name. A maximum that is missing does not limit.
    `maxApplications` null: not limited."""

    guaranteed: dict[str, float]
    max: dict[str, float]
    max_applications: int | None
    properties: dict[str, str | int | float]


class LimitView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The use of a limit. `whose`: ``user alice`` or ``group ops``."""

    role: str
    whose: str
    used: dict[str, float]
    max: dict[str, float]
    running: int
    max_applications: int | None


class TreeQueueStatusView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Sums over the queue and those below. `state`: Active, Draining or Stopped. `dynamic`: a placement rule has
    created the queue, or the queue is no longer configured; such a queue is removed when it is empty. `waiting`:
    amounts of the taskgroups that wait for a place; `pending`: their number by reason."""

    state: str
    leaf: bool
    dynamic: bool
    used: dict[str, float]
    waiting: dict[str, float]
    taskgroups: int
    applications: int
    running_applications: int
    pending: dict[str, int]
    limits: list[LimitView]


class TreePartitionView(msgspec.Struct, frozen=True, kw_only=True):
    """A partition of roles; ``*`` stands for all other roles. `name`: empty if the partition has none. `revision`:
    number of the stored revision of its tree of queues that counts; 0: the tree of the settings counts; null: the
    partition has another policy."""

    name: str
    policy: str
    roles: list[str]
    revision: int | None


class TreeQueueView(msgspec.Struct, frozen=True, kw_only=True):
    """A queue of the tree of a partition of roles, by its full name. `total`: of all agents of the cluster."""

    partition: str
    name: str
    spec: TreeQueueSpecView
    status: TreeQueueStatusView
    total: AllocatedView


class WouldWait(msgspec.Struct, frozen=True, kw_only=True):
    """`taskgroups` of the application would wait, `before`: with the present tree. `reason`: code of the cause."""

    application: str
    taskgroups: int
    before: int
    reason: str
    queue: str
    whose: str
    message: str


class WouldEnd(msgspec.Struct, frozen=True, kw_only=True):
    """A taskgroup that would be preempted. `beneficiary`: key of the application that gets the room; empty: a maximum
    was lowered."""

    application: str
    taskgroup: str
    beneficiary: str


class TrialView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The effect of a change once all delays have passed. `waiting`, `preempting`: numbers of taskgroups; the lists
    have 1,000 entries at most. `movedOn`: applications of which fewer taskgroups would wait. `draining`: queues that
    are no longer configured and still have applications. `partition`: the roles that the tree decides about; null if
    the tree decides about all roles."""

    waiting: int
    waits: list[WouldWait]
    preempting: int
    preempted: list[WouldEnd]
    moved_on: list[str]
    draining: list[str]
    partition: PartitionView | None = None


class TreeAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """`revision`: number of the new revision. `partition`: name of the partition of roles, if several have a tree.
    `trial`: with `dryRun`."""

    revision: int
    partition: str = ""
    unchanged: bool = False
    trial: TrialView | None = None
    dry_run: bool = False


class QueueStateAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """`partition`: name of the partition of roles, if several have a tree. `trial`: with `dryRun`."""

    queue: str
    state: str
    partition: str = ""
    unchanged: bool = False
    trial: TrialView | None = None
    dry_run: bool = False


def show_tree(found: TreeFigures) -> QueueTreeView:
    """The tree that counts."""
    partitions = [show_partition(one) for one in found.partitions]
    if found.revision is not None and found.revision.document == found.document:
        return msgspec.structs.replace(show_revision(found.revision), partitions=partitions)
    return QueueTreeView(
        partition=found.name,
        metadata=RevisionMeta(revision=0, why="from the settings"),
        spec=json.loads(found.document),
        halted=[],
        partitions=partitions,
    )


def show_revision(record: QueueTree) -> QueueTreeView:
    return QueueTreeView(
        partition=record.partition or DEFAULT_PARTITION,
        metadata=_meta(record),
        spec=json.loads(record.document),
        halted=[
            HaltedQueueView(queue=halt.queue, state=halt.state, since=rfc3339(halt.since)) for halt in record.halts
        ],
    )


def show_short(record: QueueTree, present: int) -> TreeRevisionView:
    partition = record.partition or DEFAULT_PARTITION
    return TreeRevisionView(partition=partition, metadata=_meta(record), present=record.number == present)


def show_tree_partition(found: DecidedBy, present: QueueTree | None) -> TreePartitionView:
    """A partition with the revision of its tree; None = nothing is stored."""
    return TreePartitionView(
        name=found.name,
        policy=found.policy,
        roles=list(found.roles),
        revision=None if found.policy != "hierarchical" else present.number if present is not None else 0,
    )


def _meta(record: QueueTree) -> RevisionMeta:
    return RevisionMeta(
        revision=record.number,
        author=record.author,
        why=record.why,
        creation_timestamp=rfc3339(record.created_at),
    )


def show_tree_queue(partition: str, figures: TreeQueueFigures, total: AllocatedView) -> TreeQueueView:
    config = figures.config
    return TreeQueueView(
        partition=partition,
        name=figures.name,
        spec=TreeQueueSpecView(
            guaranteed=_shown(figures.guaranteed),
            max=_shown(figures.max),
            max_applications=config.max_applications,
            properties=_properties(figures),
        ),
        status=TreeQueueStatusView(
            state=figures.state,
            leaf=figures.is_leaf,
            dynamic=figures.is_dynamic,
            used=_summed(figures.used.values()),
            waiting=_summed(figures.wanted.values()),
            taskgroups=figures.taskgroups,
            applications=figures.applications,
            running_applications=figures.running,
            pending=dict(figures.pending),
            limits=[_limit(one) for one in figures.limits],
        ),
        total=total,
    )


def _properties(figures: TreeQueueFigures) -> dict[str, str | int | float]:
    given = figures.config.properties
    return {
        "application.sort.policy": str(given.sort_policy),
        "application.sort.priority": "enabled" if given.sort_priority else "disabled",
        "priority.policy": str(given.priority_policy),
        "priority.offset": given.priority_offset,
        "preemption.policy": str(given.preemption_policy),
        "preemption.delay": given.preemption_delay,
        "preemption.gangs": str(figures.gang_preemption),
        "quota.preemption.delay": given.quota_preemption_delay,
    }


def _limit(one: LimitFigures) -> LimitView:
    return LimitView(
        role=one.role,
        whose=one.whose,
        used=_shown(one.used),
        max=_shown(one.most),
        running=one.running,
        max_applications=one.max_applications,
    )


def _summed(each: Iterable[Mapping[str, int]]) -> dict[str, float]:
    sums: Counter[str] = Counter()
    for amounts in each:
        sums.update(amounts)
    return _shown(sums)


def _shown(amounts: Mapping[str, int]) -> dict[str, float]:
    return {name: recorded(name).displayed(amount) for name, amount in amounts.items()}
