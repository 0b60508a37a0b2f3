"""Events of the journal as users see them: one by one, chosen by filters, and as frames of a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from bcs_scheduler.api.sse import frame
from bcs_scheduler.api.views.base import rfc3339
from bcs_scheduler.hub import Item
from store.ids import TaskGroupId, TaskId
from store.records import Happening
from store.state import State

LEVELS = ("info", "warning", "error")
"""Of events, least serious first."""
SELECTIVE = ("kind", "name", "prefix", "owner", "reason", "level", "since", "transaction")
"""Parameters of a request that choose events."""


class EventView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`id` grows with every event and is never used twice. `kind` and `name` say which object; `transaction` is the
    operation it belongs to and `cause` the id of the request or report that led to it, if there are any."""

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


class GapView(msgspec.Struct, frozen=True, kw_only=True):
    """Data of the frame `gap`: events from `first` to `last` are not kept any more."""

    first: int
    last: int
    message: str


def show_event(happening: Happening) -> EventView:
    return EventView(
        id=happening.number,
        time=rfc3339(happening.at),
        kind=happening.object,
        namespace=happening.namespace,
        name=name_of(happening),
        reason=happening.reason,
        message=happening.message,
        level=happening.level,
        transaction=happening.transaction,
        cause=happening.cause,
    )


def name_of(happening: Happening) -> str:
    """The key without the namespace, which is told beside it."""
    return happening.key.removeprefix(f"{happening.namespace}/") if happening.namespace else happening.key


def event_frame(happening: Happening) -> bytes:
    return frame("event", show_event(happening), happening.number)


def item_frame(item: Item) -> bytes:
    assert isinstance(item.value, Happening)
    return event_frame(item.value)


def chronicle(state: State, after: int, upto: int | None) -> Iterator[Happening]:
    """Events with greater numbers than `after`, up to `upto` (None = all), oldest first."""
    journals = state.journals
    for key in sorted(journals):
        run = journals.get(key)
        if run is None or run.number + len(run.happenings) <= after + 1:
            continue
        for happening in run.happenings:
            if upto is not None and happening.number > upto:
                return
            if happening.number > after:
                yield happening


def oldest(state: State) -> int:
    """Number of the oldest event that is kept; of the first there will be if none is."""
    key = min(list(state.journals), default="")
    run = state.journals.get(key)
    return run.number if run is not None else 1


class Wanted:
    """A test for events by the parameters of a request (bcs_scheduler.api.routes.events). Two that ask the same of the
    same events are equal, so that the hub can ask once for many watchers."""

    def __init__(
        self,
        query: Mapping[str, Any],
        namespace: str | None,
        visible: frozenset[str] | None,
        state: State,
    ) -> None:
        """`visible`: namespaces the caller may see, None = all. `state` is looked at for what the event does not say:
        which application a transaction works on, which deployment owns an application. It is an object and no way to
        get the present one, which may have to be waited for: streams apply the test in their event loop."""
        asked = {name: query[name] for name in SELECTIVE if query.get(name)}
        self._checks = _checks(asked, namespace, visible, state)
        self._identity = (frozenset(asked.items()), namespace, visible, state)

    def __call__(self, happening: Happening) -> bool:
        return all(check(happening) for check in self._checks)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Wanted) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)


@dataclass(frozen=True, slots=True)
class EventMatch:
    """The same test for items of the hub."""

    wanted: Wanted

    def __call__(self, item: Item) -> bool:
        return isinstance(item.value, Happening) and self.wanted(item.value)


def _checks(
    asked: Mapping[str, Any], namespace: str | None, visible: frozenset[str] | None, state: State
) -> list[Callable[[Happening], bool]]:
    checks: list[Callable[[Happening], bool]] = []
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


def _belongs(happening: Happening, owner: str, state: State) -> bool:
    """To the application, deployment or daemonset of this name: itself, its applications, taskgroups, transactions."""
    if happening.object == "taskgroup":
        taskgroup = TaskGroupId.parse(happening.key)
        application = taskgroup.application if taskgroup is not None else ""
    elif happening.object == "task":
        task = TaskId.parse(happening.key)
        application = task.application if task is not None else ""
    elif happening.object == "transaction":
        transaction = state.transactions.get(happening.key)
        application = transaction.application if transaction is not None else ""
    elif happening.object in ("deployment", "daemonset", "application"):
        application = name_of(happening)
    else:
        return False
    if application == owner:
        return True
    record = state.applications.get(f"{happening.namespace}/{application}")
    return record is not None and record.deployment == owner
