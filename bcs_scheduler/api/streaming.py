"""For operations that follow something: watches of the hub, server-sent events, long polls, views shared by many.

An operation that streams is declared with `@streams(table, …)` and returns an EventStream; only the leader answers it,
a standby points there with 307. It is a coroutine: watches belong to the event loop. First watch, then read the state:
then nothing can be missed in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool

from bcs_scheduler.api import errors
from bcs_scheduler.api.operation import Call, HandlerT, Param, Table, not_leading
from bcs_scheduler.api.sse import MEDIA_TYPE
from bcs_scheduler.core.effects import Reason
from bcs_scheduler.gateway import Busy, NotLeading
from bcs_scheduler.hub import Hub, HubClosed, HubFull, Item, Watch, WatchEnded

P = TypeVar("P")
T = TypeVar("T")
LAST_EVENT_ID = Param(
    "lastEventId", "text", "Id of the last frame the caller has; the header `Last-Event-ID` says the same."
)
STREAM_SECONDS = Param("timeoutSeconds", "float", "End the stream after this time; without it, it goes on.", 0, 86400)
WATCHING = (
    Param("watch", "bool", "Answer only when it differs from what the caller knows, or the time is up."),
    Param("timeoutSeconds", "float", "How long to watch at most; 30 if left out.", 0, 60),
    Param("resourceVersion", "text", "The resourceVersion the caller knows; any is news if left out."),
)
"""Of a GET that can be a long poll of a record with a resourceVersion."""
WATCH_SECONDS = 30.0
"""How long it watches if the request does not say."""
UNTOLD = 1.0
"""Seconds after which long polls look even if nothing was told: all of them at common moments."""


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
    """The hub of the present term. Raises ApiError: 307 on a standby, 503 while nobody leads."""
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
    """A watch of a kind, or of one record of it (bcs_scheduler.hub.Hub.watch); whoever asks for it closes it, an
    EventStream does so itself. Raises ApiError, also when there are too many watchers (503)."""
    return watch_in(hub(call), kind, key, match, after)


def watch_in(
    followed: Hub,
    kind: str,
    key: str | None = None,
    match: Callable[[Item], bool] | None = None,
    after: int | None = None,
) -> Watch:
    """As `watch`, for who has looked at this hub before: the next call may find the hub of another term."""
    try:
        return followed.watch(kind, key, match, after)
    except HubClosed as closed:
        raise errors.ApiError(Reason.UNAVAILABLE, f"leadership has just ended: {closed}") from closed
    except HubFull as full:
        raise errors.ApiError(errors.TOO_MANY_WATCHERS, str(full)) from full


def told(call: Call) -> int:
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
    """What `look` gives as soon as it is `news`, or after `seconds` whatever it gives then.

    It is looked at once, whenever the hub gives an item of this kind (and key, and match), and every UNTOLD seconds. On
    a standby, which has no hub, only that is left.
    """
    clock = asyncio.get_running_loop().time
    deadline = clock() + min(seconds, call.settings.watch_limit)
    following = watch(call, kind, key, match) if call.gateway.role() == "master" else None
    try:
        found = await look()
        while not news(found) and (left := deadline - clock()) > 0:
            following = await _wait(following, min(left, UNTOLD - clock() % UNTOLD))
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
    """A `look` for a long poll that costs much: what it gives is made once for all who watch what is called so. It is
    made anew when `present` is another than before, and else once in UNTOLD seconds, never twice at a time, and kept
    for as long as anybody watches. What was made before this call came may wait with it, but is no news to it: it could
    be older than what the caller knows.

    `present` is quick: the record, found in what the caller may see, or the error of its absence. `show`, in a thread,
    makes of it what is the same for everybody who may see it.
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
    """What all who watch one thing share. Belongs to an event loop."""

    __slots__ = ("_began", "_found", "_lock", "_of", "watchers")

    def __init__(self) -> None:
        self.watchers = 0
        self._lock = asyncio.Lock()
        self._of: tuple[int, Any] | None = None
        """The UNTOLD seconds in which `_found` was made, and what of."""
        self._began = 0.0
        """When, by the clock of the event loop."""
        self._found: Any = None

    async def look(self, call: Call, present: Callable[[], P], show: Callable[[P], T], since: float) -> T:
        """What was made no earlier than `since`."""
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
    return int(asyncio.get_running_loop().time() // UNTOLD), found


_sights: dict[tuple[object, ...], _Sight] = {}
"""By event loop, gateway and name."""


async def _wait(following: Watch | None, seconds: float) -> Watch | None:
    if following is not None:
        try:
            await following.take(seconds)
            return following
        except WatchEnded:
            pass
    await asyncio.sleep(seconds)
    return None
