"""The trees of queues of the policy `hierarchical`: revisions, queues with their use, halted queues."""

from __future__ import annotations

import json
from typing import Any, Literal

from bcs_scheduler.api.http import errors
from bcs_scheduler.api.http.errors import not_found
from bcs_scheduler.api.http.operation import CONTINUE, LIMIT, Answer, Call, Param, Table
from bcs_scheduler.api.reading.query import page
from bcs_scheduler.api.views.objects.queuetrees import (
    QueueStateAnswer,
    QueueTreeView,
    TreeAnswer,
    TreePartitionView,
    TreeQueueView,
    TreeRevisionView,
    show_revision,
    show_short,
    show_tree,
    show_tree_partition,
    show_tree_queue,
)
from bcs_scheduler.api.views.queues import cluster_total
from bcs_scheduler.core.interface.effects import Reason
from bcs_scheduler.core.interface.requests import PutQueueTree, RollbackQueueTree, SetQueueState
from bcs_scheduler.core.placement.hierarchy.figures import TreeFigures
from bcs_scheduler.core.placement.hierarchy.names import chosen_tree
from offers.policy.hierarchy.configuration.yunikorn import document_name
from transactions.base import Refused
from transactions.rules.queues import partition_of_revision, present_tree, revisions_of

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
            dry_run=call.dry_run,
            cause=call.cause,
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
            dry_run=call.dry_run,
            cause=call.cause,
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


@table.write(
    "POST",
    f"{QUEUE}/stop",
    "Stop a queue of the tree: it places nothing and takes no applications",
    query=(PARTITION,),
    answer=QueueStateAnswer,
    reasons=CHANGE,
    status=200,
)
async def stop_tree_queue(call: Call) -> Answer:
    return await _set(call, "Stopped")


@table.write(
    "POST",
    f"{QUEUE}/drain",
    "Let a queue of the tree drain: it takes no applications, and places those that it has",
    query=(PARTITION,),
    answer=QueueStateAnswer,
    reasons=CHANGE,
    status=200,
)
async def drain_tree_queue(call: Call) -> Answer:
    return await _set(call, "Draining")


@table.write(
    "POST",
    f"{QUEUE}/start",
    "Start a queue of the tree that is stopped or drains",
    query=(PARTITION,),
    answer=QueueStateAnswer,
    reasons=CHANGE,
    status=200,
)
async def start_tree_queue(call: Call) -> Answer:
    return await _set(call, "Active")


async def _set(call: Call, state: Literal["Stopped", "Draining", "Active"]) -> Answer:
    return await call.submit(
        SetQueueState(
            queue=call.path["queue"],
            state=state,
            partition=_chosen(call),
            author=call.caller.user,
            dry_run=call.dry_run,
            cause=call.cause,
        )
    )


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
