"""Lists as streams (`?watch=true`): the objects of a list, then each object again whenever its view changes.

Frames: one with the name of the kind for each object (data: the view, as in the list), `deleted` for an object that is
gone or no longer fits the filters, and `synced` after the objects that the stream begins with. The id of a frame is the
epoch of the term and a position in its touches (bcs_scheduler.leadership.touches): a reader that comes back to
the same term gets the objects that have changed since then; any other reader gets the whole list. `resumed` of `synced`
tells which. The frame of a change is made once for all readers who may see the object.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from bcs_scheduler.api.http.errors import bad_parameter
from bcs_scheduler.api.http.operation import Call, Param
from bcs_scheduler.api.reading.lists import namespace_of
from bcs_scheduler.api.reading.query import parse_selector, selected
from bcs_scheduler.api.streams.sse import EventStream, frame
from bcs_scheduler.api.streams.streaming import LAST_EVENT_ID, STREAM_SECONDS, hub, watch_in
from bcs_scheduler.leadership.gateway import Busy, Gateway
from bcs_scheduler.leadership.hub import Hub
from bcs_scheduler.leadership.items import TOUCHED, Item
from bcs_scheduler.leadership.touches import Touch
from store.ids import TaskGroupId, without_namespace
from store.records import Record
from store.state.ordered import Order
from store.state.reader import StateReader

WATCH = Param(
    "watch",
    "bool",
    "Follow the list: the answer is a stream of server-sent events. Cannot be combined with `limit` and `continue`.",
)
WATCHABLE = (WATCH, LAST_EVENT_ID, STREAM_SECONDS)
"""Parameters of a list that can be a stream."""
NOT_FILTERS = frozenset(
    ("watch", "lastEventId", "timeoutSeconds", "namespace", "kinds", "limit", "continue", "pods", "last")
)
PIECE = 50
"""Objects of the first list that are made at once in the event loop."""


class Gone(msgspec.Struct, frozen=True, kw_only=True):
    """Data of the frame `deleted`. `name`: id of a taskgroup, transaction or agent, else the name of the object."""

    kind: str
    namespace: str
    name: str


class Synced(msgspec.Struct, frozen=True, kw_only=True):
    """Data of the frame `synced`. `objects`: frames before it. `resumed`: these are the changes since the last frame
    that the reader has received; otherwise the whole list, and objects without a frame do not exist any more."""

    objects: int
    resumed: bool


@dataclass(frozen=True, slots=True, eq=False)
class Live:
    """A kind of objects whose lists can be followed. `find` returns the object of a name; None = it does not exist.
    `walk` gives all objects below a prefix of the order of lists. `fits`: the object passes the filters of a request.
    """

    kind: str
    find: Callable[[Gateway, StateReader, str], Any]
    show: Callable[[Gateway, StateReader, Any], Any]
    walk: Callable[[Gateway, StateReader, Order], Iterable[Any]]
    fits: Callable[[StateReader, Any, Mapping[str, Any]], bool] = lambda state, record, filters: True
    namespaced: bool = True


class Scope(NamedTuple):
    """The objects that a stream is about. `namespace` None = all namespaces. `visible`: namespaces of the caller, None
    = all. `application`: name of the owner of taskgroups, empty = any."""

    lives: tuple[Live, ...]
    namespace: str | None
    visible: frozenset[str] | None
    application: str = ""
    filters: tuple[tuple[str, Any], ...] = ()

    def concerns(self, item: Item) -> bool:
        touch = item.value
        return (
            isinstance(touch, Touch)
            and any(live.kind == touch.kind for live in self.lives)
            and self.namespace in (None, touch.namespace)
            and (self.visible is None or touch.namespace in self.visible)
            and (not self.application or _owner(touch) == self.application)
        )

    def prefixes(self) -> list[Order]:
        """Prefixes of the orders of all objects."""
        spaces = [self.namespace] if self.namespace is not None else None
        if spaces is None and self.visible is not None:
            spaces = sorted(self.visible)
        own = (self.application,) if self.application else ()
        return [()] if spaces is None else [(space, *own) for space in spaces]


@dataclass(frozen=True, slots=True)
class _Concerns:
    """The match of the hub: equal for equal scopes."""

    scope: Scope

    def __call__(self, item: Item) -> bool:
        return self.scope.concerns(item)


@dataclass(frozen=True, slots=True)
class _Shown:
    """Makes the frame of an object, which is the same for all who may see it."""

    gateway: Gateway
    live: Live
    epoch: int

    def __call__(self, item: Item) -> bytes:
        touch = _touch(item)
        try:
            state = self.gateway.state()
        except Busy:
            return b""  # the term has ended, and the stream ends with it
        record = self.live.find(self.gateway, state, touch.name)
        if record is None:
            return _gone(touch, self.epoch)
        return frame(touch.kind, self.live.show(self.gateway, state, record), _identity(self.epoch, touch.position))


@dataclass(frozen=True, slots=True)
class _Removed:
    """Makes the frame of an object that does not fit the filters."""

    epoch: int

    def __call__(self, item: Item) -> bytes:
        return _gone(_touch(item), self.epoch)


class Frames:
    """Makes the frames of a stream. Equal for equal scopes, so that readers of the same list share the frames."""

    def __init__(self, gateway: Gateway, scope: Scope, epoch: int) -> None:
        self._gateway, self._filters = gateway, dict(scope.filters)
        self._lives = {live.kind: live for live in scope.lives}
        self._shown = {live.kind: _Shown(gateway, live, epoch) for live in scope.lives}
        self._removed = _Removed(epoch)
        self._same = gateway, scope, epoch
        self._hash = hash(self._same)

    def __call__(self, item: Item) -> bytes:
        touch = _touch(item)
        return item.encoded(self._shown[touch.kind] if self._fits(touch) else self._removed)

    def _fits(self, touch: Touch) -> bool:
        if not self._filters:
            return True
        live = self._lives[touch.kind]
        try:
            state = self._gateway.state()
        except Busy:
            return True
        record = live.find(self._gateway, state, touch.name)
        return record is not None and live.fits(state, record, self._filters)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Frames) and self._same == other._same)

    def __hash__(self) -> int:
        return self._hash


Watcher = Callable[[Call], Awaitable[EventStream]]


def watching(live: Live) -> Watcher:
    """The stream of a list, for `Operation.watcher`."""

    async def watcher(call: Call) -> EventStream:
        owner = call.path.get("name", "")
        return follow(call, (live,), owner)

    return watcher


def follow(call: Call, lives: Sequence[Live], application: str = "") -> EventStream:
    """A stream of the objects of some kinds that the request asks for. Raises ApiError."""
    for name in ("limit", "continue"):
        if name in call.query:
            raise bad_parameter(name, "cannot be combined with watch")
    parse_selector(call.query.get("labelSelector", ""))  # refuses a text that is no selector
    filters = tuple(sorted((name, value) for name, value in call.query.items() if name not in NOT_FILTERS))
    scope = Scope(tuple(lives), namespace_of(call), call.caller.namespaces, application, filters)
    known = _known(call.last_event_id)
    # All parts come from one term, also if the term ends meanwhile.
    followed = hub(call)
    watch = watch_in(call, followed, TOUCHED, None, _Concerns(scope))
    # The frames are shared by readers who may see different namespaces: they have texts with mentions, no diagnoses.
    opening = _opening(call.core, followed, scope, known)
    frames = Frames(call.core, scope, followed.touches.epoch)
    return EventStream(watch, frames, opening, call.query.get("timeoutSeconds"))


def _opening(gateway: Gateway, followed: Hub, scope: Scope, known: tuple[int, int] | None) -> Iterator[bytes]:
    touches = followed.touches
    # Read before the state: everything up to this position is in the state that is shown.
    position = touches.position
    missed = touches.since(known[1]) if known is not None and known[0] == touches.epoch else None
    found: Iterable[bytes]
    if missed is not None:
        frames = Frames(gateway, scope, touches.epoch)
        items = (Item(TOUCHED, touch.name, touch) for touch in missed)
        found = (frames(item) for item in items if scope.concerns(item))
    else:
        found = _whole(gateway, followed.state, scope)
    count, piece = 0, []
    for shown in found:
        count += 1
        piece.append(shown)
        if len(piece) == PIECE:
            yield b"".join(piece)
            piece = []
    end = frame("synced", Synced(objects=count, resumed=missed is not None), _identity(touches.epoch, position))
    yield b"".join([*piece, end])


def _whole(gateway: Gateway, state: StateReader, scope: Scope) -> Iterator[bytes]:
    filters = dict(scope.filters)
    for live in scope.lives:
        prefixes = scope.prefixes() if live.namespaced else [()]
        for record in chain.from_iterable(live.walk(gateway, state, prefix) for prefix in prefixes):
            if live.fits(state, record, filters):
                yield frame(live.kind, live.show(gateway, state, record))


def fits_filters(record: Any, labels: Mapping[str, str], filters: Mapping[str, Any]) -> bool:
    """The common filters of lists: status and labels."""
    status, selector = filters.get("status"), filters.get("labelSelector", "")
    return (status is None or record.status == status) and (not selector or selected(labels, parse_selector(selector)))


def in_order(kind: type[Record]) -> Callable[[Gateway, StateReader, Order], Iterable[Any]]:
    """The `walk` of records that lists show in order."""
    return lambda gateway, state, prefix: (record for _, record in state.in_order(kind, prefix))


def _touch(item: Item) -> Touch:
    assert isinstance(item.value, Touch)
    return item.value


def _gone(touch: Touch, epoch: int) -> bytes:
    name = without_namespace(touch.name, touch.namespace)
    data = Gone(kind=touch.kind, namespace=touch.namespace, name=name)
    return frame("deleted", data, _identity(epoch, touch.position))


def _owner(touch: Touch) -> str:
    parts = TaskGroupId.parse(touch.name) if touch.kind == "taskgroup" else None
    return parts.application if parts is not None else ""


def _identity(epoch: int, position: int) -> str:
    return f"{epoch}-{position}"


def _known(given: str) -> tuple[int, int] | None:
    """Epoch and position of the last frame that the reader has received; None without one. Raises ApiError (400)."""
    if not given:
        return None
    epoch, _, position = given.partition("-")
    if not all(part.isascii() and part.isdigit() and len(part) < 20 for part in (epoch, position)):
        raise bad_parameter("lastEventId", "is not the id of a frame of this stream")
    return int(epoch), int(position)
