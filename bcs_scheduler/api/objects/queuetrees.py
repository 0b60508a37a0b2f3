"""The trees of queues of the policy `hierarchical`: revisions, queues with their use, halted queues, and the answers
of changes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Literal

import msgspec

from bcs_scheduler.api.http import errors
from bcs_scheduler.api.http.errors import not_found
from bcs_scheduler.api.http.operation import CONTINUE, LIMIT, Answer, Call, Param, Table
from bcs_scheduler.api.objects.queues import cluster_total
from bcs_scheduler.api.reading.query import page
from bcs_scheduler.api.views.explain import PartitionView, show_partition
from bcs_scheduler.api.views.usage import AllocatedView
from bcs_scheduler.core.interface.effects import Reason
from bcs_scheduler.core.interface.requests import PutQueueTree, RollbackQueueTree, SetQueueState
from bcs_scheduler.core.placement.hierarchy.figures import LimitFigures, TreeFigures, TreeQueueFigures
from bcs_scheduler.wire.times import rfc3339
from offers.dimensions import recorded
from offers.model import DecidedBy
from offers.policy.hierarchy.configuration.yunikorn import document_name
from store.records import DEFAULT_PARTITION, QueueTree
from transactions.base import Refused
from transactions.rules.queues import chosen_tree, partition_of_revision, present_tree, revisions_of


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
            waiting=_summed(figures.waiting.values()),
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


table = Table("queue trees")
EXPECTED = Param("expected", "int", "Number of the revision that must count at present; another one refuses (409).", 0)
REVISION = Param("revision", "int", "Number of the revision. Default: the one before the present revision.", 1)
PARTITION = Param(
    "partition", "text", "Name of the partition of roles. Default: the only one with a tree, or `default`."
)
ONE_PARTITION = PARTITION._replace(description="Name of a partition of roles. Default: all with a tree.")
QUEUE = "/queuetree/queues/{queue}"
CHANGE: tuple[errors.ApiReason, ...] = (Reason.NOT_FOUND, Reason.CONFLICT, Reason.INVALID, errors.BAD_PARAMETER)


def _leading(call: Call) -> list[str]:
    """The partitions with a tree, in the order of the settings; none on a standby."""
    return [part.name for part in call.gateway.partitions() if part.policy == "hierarchical"]


def _names(call: Call) -> list[str]:
    """The partitions with a tree; on a standby, those with a stored tree."""
    return _leading(call) or sorted({partition_of_revision(key) for key in list(call.state().queue_trees)})


def _chosen(call: Call, wanted: str = "") -> str:
    """The name of the partition that the request means; `wanted`: if the query names none. Empty: nothing is known of
    trees. Raises ApiError (not found, bad parameter)."""
    names = _names(call)
    if not names:
        return call.query.get("partition") or wanted
    try:
        return chosen_tree(names, call.query.get("partition") or wanted)
    except Refused as refused:
        if refused.reason == "not_found":
            raise errors.ApiError(Reason.NOT_FOUND, refused.message) from None
        raise errors.bad_parameter("partition", f"is missing: {refused.message}") from None


def _tree(call: Call, partition: str) -> TreeFigures:
    found = call.gateway.queue_tree(partition)
    if found is None:
        words = "the scheduler has no tree of queues: scheduler.policy is not hierarchical"
        raise errors.ApiError(Reason.NOT_FOUND, words)
    return found


@table.read(
    "/queuetree/partitions",
    "List the partitions of roles with their policies, and the revisions of those that have a tree of queues",
    query=(LIMIT, CONTINUE),
    answer=list[TreePartitionView],
    reasons=(errors.BAD_PARAMETER, errors.NOT_LEADING),
    leader=True,
)
def list_tree_partitions(call: Call) -> Answer:
    state = call.state()
    return page(
        call.gateway.partitions(),
        lambda part: (part.name, *part.roles),
        call.query,
        lambda part: show_tree_partition(part, present_tree(state, part.name)),
    )


@table.read(
    "/queuetree",
    "Fetch the tree of queues that counts",
    query=(PARTITION,),
    answer=QueueTreeView,
    reasons=(Reason.NOT_FOUND, errors.BAD_PARAMETER, errors.NOT_LEADING),
    leader=True,
)
def get_queue_tree(call: Call) -> Answer:
    return Answer(show_tree(_tree(call, _chosen(call))))


@table.write(
    "PUT",
    "/queuetree",
    "Make a document in the shape of YuniKorn's queue configuration the next revision of the tree",
    query=(PARTITION, EXPECTED),
    body=dict[str, Any],
    answer=TreeAnswer,
    reasons=CHANGE,
    status=200,
)
async def put_queue_tree(call: Call) -> Answer:
    document, partition, revision = _given(call.body)
    return await call.submit(
        PutQueueTree(
            document=json.dumps(document),
            partition=_chosen(call, partition or _named(call)),
            author=call.caller.user,
            expected=call.query.get("expected", revision),
        )
    )


@table.write(
    "POST",
    "/queuetree/rollback",
    "Make the document of a kept revision the next revision of the tree",
    query=(PARTITION, REVISION, EXPECTED),
    answer=TreeAnswer,
    reasons=CHANGE,
    status=200,
)
async def roll_back_queue_tree(call: Call) -> Answer:
    return await call.submit(
        RollbackQueueTree(
            revision=call.query.get("revision"),
            partition=_chosen(call),
            author=call.caller.user,
            expected=call.query.get("expected"),
        )
    )


@table.read(
    "/queuetree/revisions",
    "List the kept revisions of the tree, the newest first",
    query=(PARTITION, LIMIT, CONTINUE),
    answer=list[TreeRevisionView],
    reasons=(Reason.NOT_FOUND, errors.BAD_PARAMETER),
)
def list_tree_revisions(call: Call) -> Answer:
    kept = revisions_of(call.state(), _chosen(call))
    present = kept[-1].number if kept else 0
    return page(kept, lambda record: (-record.number,), call.query, lambda record: show_short(record, present))


@table.read(
    "/queuetree/revisions/{revision}",
    "Fetch a kept revision of the tree",
    query=(PARTITION,),
    answer=QueueTreeView,
    reasons=(Reason.NOT_FOUND, errors.BAD_PARAMETER),
)
def get_tree_revision(call: Call) -> Answer:
    kept = revisions_of(call.state(), _chosen(call))
    found = next((record for record in kept if str(record.number) == call.path["revision"]), None)
    if found is None:
        raise not_found("revision of the queues", call.path["revision"])
    return Answer(show_revision(found))


@table.read(
    "/queuetree/queues",
    "List the queues of the trees with their amounts and their use, by partition, parents first",
    query=(ONE_PARTITION, LIMIT, CONTINUE),
    answer=list[TreeQueueView],
    reasons=(Reason.NOT_FOUND, errors.BAD_PARAMETER, errors.NOT_LEADING),
    leader=True,
)
def list_tree_queues(call: Call) -> Answer:
    names = [] if call.query.get("partition") else _leading(call)
    trees = [_tree(call, name) for name in names or [_chosen(call)]]
    figures = {(tree.name, each.name): each for tree in trees for each in tree.queues}
    total = cluster_total(call.gateway.agents())
    # A queue follows its parent, also where names of siblings have characters before the dot.
    return page(
        list(figures),
        lambda found: (found[0], found[1].replace(".", "\0")),
        call.query,
        lambda found: show_tree_queue(found[0], figures[found], total),
    )


@table.read(
    QUEUE,
    "Fetch a queue of the tree with its amounts, its use and its limits",
    query=(PARTITION,),
    answer=TreeQueueView,
    reasons=(Reason.NOT_FOUND, errors.BAD_PARAMETER, errors.NOT_LEADING),
    leader=True,
)
def get_tree_queue(call: Call) -> Answer:
    tree, wanted = _tree(call, _chosen(call)), call.path["queue"].lower()
    found = next((each for each in tree.queues if each.name == wanted), None)
    if found is None:
        raise not_found("queue", call.path["queue"])
    return Answer(show_tree_queue(tree.name, found, cluster_total(call.gateway.agents())))


Halt = Literal["Stopped", "Draining", "Active"]
ACTIONS: Mapping[str, tuple[Halt, str]] = {
    "stop": ("Stopped", "Stop a queue of the tree: it places nothing and takes no applications"),
    "drain": ("Draining", "Let a queue of the tree drain: it takes no applications, and places those that it has"),
    "start": ("Active", "Start a queue of the tree that is stopped or drains"),
}
"""States and summaries by the last part of the path."""


def _setting(action: str, halt: Halt) -> Callable[[Call], Awaitable[Answer]]:
    async def change(call: Call) -> Answer:
        return await call.submit(
            SetQueueState(queue=call.path["queue"], state=halt, partition=_chosen(call), author=call.caller.user)
        )

    change.__name__ = f"{action}_tree_queue"
    return change


for _action, (_halt, _summary) in ACTIONS.items():
    table.write(
        "POST",
        f"{QUEUE}/{_action}",
        _summary,
        query=(PARTITION,),
        answer=QueueStateAnswer,
        reasons=CHANGE,
        status=200,
    )(_setting(_action, _halt))


def _given(body: dict[str, Any]) -> tuple[Any, str, int | None]:
    """The document of a request, and the partition and the present revision that the body names: the answer of GET has
    them, a document of YuniKorn has not. Empty, None: the body does not name them."""
    if body.get("kind") != "queuetree" or "spec" not in body:
        return body, "", None
    partition, metadata = body.get("partition"), body.get("metadata")
    revision = metadata.get("revision") if isinstance(metadata, dict) else None
    return body["spec"], partition if isinstance(partition, str) else "", revision if type(revision) is int else None


def _named(call: Call) -> str:
    """The partition that a document of YuniKorn names, if it has a tree; else empty."""
    name = document_name(call.body)
    return name if name in _names(call) else ""
