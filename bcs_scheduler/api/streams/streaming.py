"""Tools for operations that follow changes: watches of the hub, server-sent events, long polls, views shared by many.

An operation that streams is declared with `@streams(table, …)` and returns an EventStream; only the leader answers it,
a standby points there with 307. The operation is a coroutine: watches belong to the event loop. An operation must first
watch and then read the state: so no change between the two is missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool

from bcs_scheduler.api.http import errors
from bcs_scheduler.api.http.connections import RETRY
from bcs_scheduler.api.http.operation import Call, HandlerT, Param, Table, not_leading
from bcs_scheduler.api.streams.sse import MEDIA_TYPE
from bcs_scheduler.core.interface.effects import Reason
from bcs_scheduler.leadership.gateway import Busy, NotLeading
from bcs_scheduler.leadership.hub import Hub, Watch
from bcs_scheduler.leadership.items import HubClosed, HubFull, Item, WatchEnded
from bcs_scheduler.security.shares import share_of

P = TypeVar("P")
T = TypeVar("T")
LAST_EVENT_ID = Param(
    "lastEventId",
    "text",
    "Id of the last frame that the caller has received; same meaning as the header `Last-Event-ID`.",
)
STREAM_SECONDS = Param("timeoutSeconds", "float", "End the stream after this time. Default: no end.", 0, 86400)
WATCHING = (
    Param(
        "watch", "bool", "Wait until the object differs from the version that the caller knows, or the time is over."
    ),
    Param("timeoutSeconds", "float", "Maximum time to wait. Default: 30.", 0, 60),
    Param("resourceVersion", "text", "The resourceVersion that the caller knows. Default: the answer comes at once."),
)
"""Parameters of a GET that can be a long poll of a record with a resourceVersion."""
WATCH_SECONDS = 30.0
"""Seconds of a watch if the request does not say."""
LOOK_SECONDS = 1.0
"""Seconds after which long polls look also without an item of the hub: all of them at common moments."""


def streams(
    table: Table, path: str, summary: str, *, query: Sequence[Param] = (), answer: Any = None, **more: Any
) -> Callable[[HandlerT], HandlerT]:
    """Declares a GET whose answer is an EventStream. `answer`: type of the data of its frames. The handler finds the
    id to resume from in `call.last_event_id`, and gives `call.query.get("timeoutSeconds")` to its EventStream."""
    reasons = (*more.pop("reasons", ()), Reason.UNAVAILABLE, errors.NOT_LEADING, errors.TOO_MANY_WATCHERS)
    return table.read(
        path,
        summary,
        query=(*query, LAST_EVENT_ID, STREAM_SECONDS),
        answer=answer,
        reasons=tuple(dict.fromkeys(reasons)),
        enveloped=False,
        media_type=MEDIA_TYPE,
        leader=True,
        **more,
    )


def hub(call: Call) -> Hub:
    """The hub of the present term. Raises ApiError: 307 on a standby, 503 while no scheduler leads."""
    try:
        return call.gateway.hub()
    except NotLeading as elsewhere:
        raise not_leading(elsewhere.leader) from elsewhere
    except Busy as busy:
        raise errors.ApiError(Reason.UNAVAILABLE, str(busy)) from busy


def watch(
    call: Call,
    kind: str,
    key: str | None = None,
    match: Callable[[Item], bool] | None = None,
    after: int | None = None,
) -> Watch:
    """A watch of a kind, or of one record of it (`Hub.watch`); the caller closes the watch;
    an EventStream closes its watch itself. Raises ApiError, also when there are too many watchers (503)."""
    return watch_in(call, hub(call), kind, key, match, after)


def watch_in(
    call: Call,
    followed: Hub,
    kind: str,
    key: str | None = None,
    match: Callable[[Item], bool] | None = None,
    after: int | None = None,
) -> Watch:
    """Like `watch`, for callers that have read the state of this hub before: the next call may find the hub of another
    term."""
    try:
        each = share_of(followed.most, call.settings.client_share)
        return followed.watch(kind, key, match, after, holders=call.holders, each=each)
    except HubClosed as closed:
        raise errors.ApiError(Reason.UNAVAILABLE, f"leadership has just ended: {closed}") from closed
    except HubFull as full:
        raise errors.ApiError(errors.TOO_MANY_WATCHERS, str(full), headers={"Retry-After": str(RETRY)}) from full


def known_version(call: Call) -> int:
    """Number of the newest durable event; 0 on a standby."""
    try:
        return call.gateway.hub().latest
    except (NotLeading, Busy):
        return 0


async def long_poll(
    call: Call,
    look: Callable[[], Awaitable[T]],
    news: Callable[[T], bool],
    seconds: float,
    kind: str,
    key: str | None = None,
    match: Callable[[Item], bool] | None = None,
) -> T:
    """Returns the result of `look` as soon as it is `news`; after `seconds` seconds the result of that moment.

    `look` is called at once, for each item of the hub of this kind (and key, and match), and every LOOK_SECONDS
    seconds. On a standby, which has no hub, only the periodic calls remain.
    """
    clock = asyncio.get_running_loop().time
    deadline = clock() + min(seconds, call.settings.watch_limit)
    following = watch(call, kind, key, match) if call.gateway.role() == "master" else None
    try:
        found = await look()
        while not news(found) and (left := deadline - clock()) > 0:
            following = await _wait(following, min(left, LOOK_SECONDS - clock() % LOOK_SECONDS))
            found = await look()
    finally:
        if following is not None:
            following.close()
    return found


@contextmanager
def shared(
    call: Call,
    name: tuple[str, str],
    present: Callable[[], P],
    show: Callable[[P], T],
    news: Callable[[T], bool],
) -> Iterator[Callable[[], Awaitable[T]]]:
    """A `look` for an expensive long poll: its result is made once for all watchers of the same `name`. The result is
    made again when `present` has changed, and otherwise once in LOOK_SECONDS seconds, never twice at a time, and kept
    as long as there are watchers. A result from before this call can only show that there is no news; otherwise the
    result is made again, because the old one could be older than the version that the caller knows.

    `present` is quick: it returns the record, found in the state that the caller may see, or raises the error of its
    absence. `show`, in a thread, makes the view of the record, which is the same for all callers who may see it.
    """
    clock = asyncio.get_running_loop().time
    came, of = clock(), (asyncio.get_running_loop(), call.gateway, *name)
    sight = _sights.setdefault(of, _Sight())

    async def look() -> T:
        found: T = await sight.look(call, present, show, 0.0)
        return await sight.look(call, present, show, came) if news(found) else found

    sight.watchers += 1
    try:
        yield look
    finally:
        sight.watchers -= 1
        if not sight.watchers:
            del _sights[of]


class _Sight:
    """The shared result of all watchers of one object. Belongs to an event loop."""

    __slots__ = ("_began", "_found", "_lock", "_of", "watchers")

    def __init__(self) -> None:
        self.watchers = 0
        self._lock = asyncio.Lock()
        self._of: tuple[int, Any] | None = None
        """Number of the period of LOOK_SECONDS seconds in which `_found` was made, and the record of which it was
        made."""
        self._began = 0.0
        """Time at which `_found` was begun, by the clock of the event loop, in seconds."""
        self._found: Any = None

    async def look(self, call: Call, present: Callable[[], P], show: Callable[[P], T], since: float) -> T:
        """Returns a result that was made no earlier than `since` (seconds of the event loop's clock)."""
        if self._of != await _at(call, present) or self._began < since:
            async with self._lock:
                of, began = await _at(call, present), asyncio.get_running_loop().time()
                if self._of != of or self._began < since:
                    self._found = await run_in_threadpool(show, of[1])
                    self._of, self._began = of, began
        found: T = self._found
        return found


async def _at(call: Call, present: Callable[[], P]) -> tuple[int, P]:
    # The state of a standby may have to be read from the store first.
    found = present() if call.gateway.role() == "master" else await run_in_threadpool(present)
    return int(asyncio.get_running_loop().time() // LOOK_SECONDS), found


_sights: dict[tuple[object, ...], _Sight] = {}
"""Shared results by event loop, gateway and name."""


async def _wait(following: Watch | None, seconds: float) -> Watch | None:
    if following is not None:
        try:
            await following.take(seconds)
            return following
        except WatchEnded:
            pass
    await asyncio.sleep(seconds)
    return None
