"""Queues of the policy `session`: weight, guarantee and limits. The queue `default` exists without settings."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

from bcs_scheduler.api.documents.queues import read_queue
from bcs_scheduler.api.documents.validate import known_version
from bcs_scheduler.api.http import errors
from bcs_scheduler.api.http.errors import not_found
from bcs_scheduler.api.http.operation import CONTINUE, LABEL_SELECTOR, LIMIT, Answer, Call, Table
from bcs_scheduler.api.reading.query import page, parse_selector, selected
from bcs_scheduler.api.streams.live import WATCHABLE, Live, watching
from bcs_scheduler.api.views.objects.queues import QueueView, show_queue
from bcs_scheduler.core.interface.effects import Reason
from bcs_scheduler.core.interface.requests import DeleteQueue, PutQueue
from bcs_scheduler.wire.documents.queues import QueueDocument
from store.records import DEFAULT_QUEUE, Queue
from store.state.reader import StateReader
from transactions.rules.queues import queue_of

table = Table("queues")


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


@table.write(
    "POST",
    "/queues",
    "Create a queue",
    body=QueueDocument,
    reasons=(Reason.EXISTS, Reason.INVALID),
    status=200,
)
async def create_queue(call: Call) -> Answer:
    return await _put(call, None, create=True)


@table.write(
    "PUT",
    "/queues",
    "Replace the settings of a queue; the next session decides by them",
    body=QueueDocument,
    reasons=(Reason.NOT_FOUND, Reason.CONFLICT, Reason.INVALID),
    status=200,
)
async def replace_queue(call: Call) -> Answer:
    return await _put(call, None, create=False)


@table.write(
    "PUT",
    "/queues/{queue}",
    "Replace the settings of a queue; the next session decides by them",
    body=QueueDocument,
    reasons=(Reason.NOT_FOUND, Reason.CONFLICT, Reason.INVALID),
    status=200,
)
async def replace_named_queue(call: Call) -> Answer:
    return await _put(call, call.path["queue"], create=False)


async def _put(call: Call, name: str | None, *, create: bool) -> Answer:
    record = read_queue(call.body, name, call.problems)
    command = PutQueue(
        queue=record, create=create, expected=known_version(call.body), dry_run=call.dry_run, cause=call.cause
    )
    return await call.submit(command)


@table.write(
    "DELETE",
    "/queues/{queue}",
    "Delete a queue that no namespace belongs to",
    reasons=(Reason.NOT_FOUND, Reason.CONFLICT),
    status=200,
)
async def delete_queue(call: Call) -> Answer:
    return await call.submit(DeleteQueue(name=call.path["queue"], dry_run=call.dry_run, cause=call.cause))
