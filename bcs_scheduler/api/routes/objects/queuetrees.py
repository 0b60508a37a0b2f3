"""The tree of queues of the policy `hierarchical`: revisions, queues with their use, halted queues."""

from __future__ import annotations

import json
from typing import Any, Literal

from bcs_scheduler.api.http import errors
from bcs_scheduler.api.http.errors import not_found
from bcs_scheduler.api.http.operation import CONTINUE, LIMIT, Answer, Call, Param, Table
from bcs_scheduler.api.reading.query import page
from bcs_scheduler.api.views.cluster.queues import cluster_total
from bcs_scheduler.api.views.objects.queuetrees import (
    QueueStateAnswer,
    QueueTreeView,
    TreeAnswer,
    TreeQueueView,
    TreeRevisionView,
    show_revision,
    show_short,
    show_tree,
    show_tree_queue,
)
from bcs_scheduler.core.interface.effects import Reason
from bcs_scheduler.core.interface.policies import PutQueueTree, RollbackQueueTree, SetQueueState
from bcs_scheduler.core.placement.hierarchy.figures import TreeFigures
from transactions.rules.queues import present_tree

table = Table("queue trees")
EXPECTED = Param("expected", "int", "Number of the revision that must count at present; another one refuses (409).", 0)
REVISION = Param("revision", "int", "Number of the revision. Default: the one before the present revision.", 1)
QUEUE = "/queuetree/queues/{queue}"
CHANGE: tuple[errors.ApiReason, ...] = (Reason.NOT_FOUND, Reason.CONFLICT, Reason.INVALID)


def _tree(call: Call) -> TreeFigures:
    found = call.gateway.queue_tree()
    if found is None:
        words = "the scheduler has no tree of queues: scheduler.policy is not hierarchical"
        raise errors.ApiError(Reason.NOT_FOUND, words)
    return found


@table.read(
    "/queuetree",
    "Fetch the tree of queues that counts",
    answer=QueueTreeView,
    reasons=(Reason.NOT_FOUND, errors.NOT_LEADING),
    leader=True,
)
def get_queue_tree(call: Call) -> Answer:
    return Answer(show_tree(_tree(call)))


@table.write(
    "PUT",
    "/queuetree",
    "Make a document in the shape of YuniKorn's queue configuration the next revision of the tree",
    query=(EXPECTED,),
    body=dict[str, Any],
    answer=TreeAnswer,
    reasons=(Reason.CONFLICT, Reason.INVALID),
    status=200,
)
async def put_queue_tree(call: Call) -> Answer:
    return await call.submit(
        PutQueueTree(
            document=json.dumps(call.body),
            author=call.caller.user,
            expected=call.query.get("expected"),
            dry_run=call.dry_run,
            cause=call.cause,
        )
    )


@table.write(
    "POST",
    "/queuetree/rollback",
    "Make the document of a kept revision the next revision of the tree",
    query=(REVISION, EXPECTED),
    answer=TreeAnswer,
    reasons=CHANGE,
    status=200,
)
async def roll_back_queue_tree(call: Call) -> Answer:
    return await call.submit(
        RollbackQueueTree(
            revision=call.query.get("revision"),
            author=call.caller.user,
            expected=call.query.get("expected"),
            dry_run=call.dry_run,
            cause=call.cause,
        )
    )


@table.read(
    "/queuetree/revisions",
    "List the kept revisions of the tree, the newest first",
    query=(LIMIT, CONTINUE),
    answer=list[TreeRevisionView],
    reasons=(errors.BAD_PARAMETER,),
)
def list_tree_revisions(call: Call) -> Answer:
    state = call.state()
    newest = present_tree(state)
    present = newest.number if newest is not None else 0
    kept = list(state.queue_trees.values())
    return page(kept, lambda record: (-record.number,), call.query, lambda record: show_short(record, present))


@table.read("/queuetree/revisions/{revision}", "Fetch a kept revision of the tree", answer=QueueTreeView)
def get_tree_revision(call: Call) -> Answer:
    found = call.state().queue_trees.get(call.path["revision"])
    if found is None:
        raise not_found("revision of the queues", call.path["revision"])
    return Answer(show_revision(found))


@table.read(
    "/queuetree/queues",
    "List the queues of the tree with their amounts and their use, parents first",
    query=(LIMIT, CONTINUE),
    answer=list[TreeQueueView],
    reasons=(Reason.NOT_FOUND, errors.BAD_PARAMETER, errors.NOT_LEADING),
    leader=True,
)
def list_tree_queues(call: Call) -> Answer:
    figures = {each.name: each for each in _tree(call).queues}
    total = cluster_total(call.gateway.agents())
    # A queue follows its parent, also where names of siblings have characters before the dot.
    return page(
        list(figures),
        lambda name: (name.replace(".", "\0"),),
        call.query,
        lambda name: show_tree_queue(figures[name], total),
    )


@table.read(
    QUEUE,
    "Fetch a queue of the tree with its amounts, its use and its limits",
    answer=TreeQueueView,
    reasons=(Reason.NOT_FOUND, errors.NOT_LEADING),
    leader=True,
)
def get_tree_queue(call: Call) -> Answer:
    wanted = call.path["queue"].lower()
    found = next((each for each in _tree(call).queues if each.name == wanted), None)
    if found is None:
        raise not_found("queue", call.path["queue"])
    return Answer(show_tree_queue(found, cluster_total(call.gateway.agents())))


@table.write(
    "POST",
    f"{QUEUE}/stop",
    "Stop a queue of the tree: it places nothing and takes no applications",
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
    answer=QueueStateAnswer,
    reasons=CHANGE,
    status=200,
)
async def start_tree_queue(call: Call) -> Answer:
    return await _set(call, "Active")


async def _set(call: Call, state: Literal["Stopped", "Draining", "Active"]) -> Answer:
    return await call.submit(
        SetQueueState(
            queue=call.path["queue"], state=state, author=call.caller.user, dry_run=call.dry_run, cause=call.cause
        )
    )
