"""Events of the event log as users see them: one by one, chosen by filters, and as frames of a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from bcs_scheduler.api.streams.sse import frame
from bcs_scheduler.leadership.items import Item
from bcs_scheduler.wire.times import rfc3339
from store.ids import TaskGroupId, TaskId, object_key, without_namespace
from store.records import Event
from store.state.reader import StateReader

LEVELS = ("info", "warning", "error")
"""Levels of events, least serious first."""
SELECTIVE = ("kind", "name", "prefix", "owner", "reason", "level", "since", "transaction")
"""Parameters of a request that choose events."""


class EventView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`id` grows with every event and is never used twice. `kind` and `name` identify the object; `transaction` is the
    operation of the event and `cause` the id of the request or report that caused the event, if there are any. `agent`:
    address of the agent of a taskgroup, else empty."""

    id: int
    time: str
    kind: str
    namespace: str
    name: str
    reason: str
    message: str
    level: str
    transaction: str
    cause: str
    agent: str


class GapView(msgspec.Struct, frozen=True, kw_only=True):
    """Data of the frame `gap`: events from `first` to `last` are no longer stored."""

    first: int
    last: int
    message: str


def show_event(event: Event) -> EventView:
    return EventView(
        id=event.number,
        time=rfc3339(event.at),
        kind=event.object,
        namespace=event.namespace,
        name=name_of(event),
        reason=event.reason,
        message=event.message,
        level=event.level,
        transaction=event.transaction,
        cause=event.cause,
        agent=event.agent,
    )


def name_of(event: Event) -> str:
    """The key without the namespace, which is shown beside it."""
    return without_namespace(event.key, event.namespace)


def event_frame(event: Event) -> bytes:
    return frame("event", show_event(event), event.number)


def item_frame(item: Item) -> bytes:
    assert isinstance(item.value, Event)
    return event_frame(item.value)


def past_events(state: StateReader, after: int, upto: int | None) -> Iterator[Event]:
    """Events with greater numbers than `after`, up to `upto` (None = all), oldest first."""
    event_logs = state.event_logs
    for key in sorted(event_logs):
        run = event_logs.get(key)
        if run is None or run.number + len(run.events) <= after + 1:
            continue
        for event in run.events:
            if upto is not None and event.number > upto:
                return
            if event.number > after:
                yield event


def oldest(state: StateReader) -> int:
    """Number of the oldest event that is kept; of the first there will be if none is."""
    key = min(list(state.event_logs), default="")
    run = state.event_logs.get(key)
    return run.number if run is not None else 1


class EventFilter:
    """A test for events by the parameters of a request (bcs_scheduler.api.routes.events). Two that ask the
    same of the same events are equal, so that the hub can ask once for many watchers."""

    def __init__(
        self,
        query: Mapping[str, Any],
        namespace: str | None,
        visible: frozenset[str] | None,
        state: StateReader,
    ) -> None:
        """`visible`: namespaces the caller may see, None = all. `state` supplies facts that the event does not hold:
        the application of a transaction, the deployment that owns an application. The argument is an object and not a
        function that gets the present state, which may have to wait: streams apply the test in their event loop."""
        asked = {name: query[name] for name in SELECTIVE if query.get(name)}
        self._checks = _checks(asked, namespace, visible, state)
        self._identity = (frozenset(asked.items()), namespace, visible, state)

    def __call__(self, event: Event) -> bool:
        return all(check(event) for check in self._checks)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EventFilter) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)


@dataclass(frozen=True, slots=True)
class EventMatch:
    """The same test for items of the hub."""

    wanted: EventFilter

    def __call__(self, item: Item) -> bool:
        return isinstance(item.value, Event) and self.wanted(item.value)


def _checks(
    asked: Mapping[str, Any], namespace: str | None, visible: frozenset[str] | None, state: StateReader
) -> list[Callable[[Event], bool]]:
    checks: list[Callable[[Event], bool]] = []
    if namespace is not None:
        checks.append(lambda h: h.namespace == namespace)
    if visible is not None:
        checks.append(lambda h: h.namespace in visible)
    if kind := asked.get("kind"):
        checks.append(lambda h: h.object == kind)
    if name := asked.get("name"):
        checks.append(lambda h: name in (name_of(h), h.key))
    if prefix := asked.get("prefix"):
        checks.append(lambda h: name_of(h).startswith(prefix) or h.key.startswith(prefix))
    if reasons := frozenset(filter(None, asked.get("reason", "").split(","))):
        checks.append(lambda h: h.reason in reasons)
    if (level := asked.get("level", LEVELS[0])) != LEVELS[0]:
        loud = frozenset(LEVELS[LEVELS.index(level) :])
        checks.append(lambda h: h.level in loud)
    if since := asked.get("since"):
        checks.append(lambda h: h.at >= since)
    if transaction := asked.get("transaction"):
        checks.append(lambda h: h.transaction == transaction)
    if owner := asked.get("owner"):
        checks.append(lambda h: _belongs(h, owner, state))
    return checks


def _belongs(event: Event, owner: str, state: StateReader) -> bool:
    """True if the event belongs to the application, deployment or daemonset of this name: itself, its applications,
    taskgroups, transactions."""
    if event.object == "taskgroup":
        taskgroup = TaskGroupId.parse(event.key)
        application = taskgroup.application if taskgroup is not None else ""
    elif event.object == "task":
        task = TaskId.parse(event.key)
        application = task.application if task is not None else ""
    elif event.object == "transaction":
        transaction = state.transactions.get(event.key)
        application = transaction.application if transaction is not None else ""
    elif event.object in ("deployment", "daemonset", "application"):
        application = name_of(event)
    else:
        return False
    if application == owner:
        return True
    record = state.applications.get(object_key(event.namespace, application))
    return record is not None and record.deployment == owner
