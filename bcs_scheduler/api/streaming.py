"""For operations that follow something: watches of the hub, server-sent events, long polls.

An operation that streams is declared with `@streams(table, …)` and returns an EventStream; only the leader answers it,
a standby points there with 307. It is a coroutine: watches belong to the event loop. First watch, then read the state:
then nothing can be missed in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool

from bcs_scheduler.api import errors
from bcs_scheduler.api.operation import Call, HandlerT, Param, Table, not_leading
from bcs_scheduler.api.sse import MEDIA_TYPE
from bcs_scheduler.core.effects import Reason
from bcs_scheduler.gateway import Busy, NotLeading
from bcs_scheduler.hub import Hub, HubClosed, HubFull, Item, Watch, WatchEnded

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
"""Seconds after which a long poll looks even if nothing was told."""


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
    try:
        return hub(call).watch(kind, key, match, after)
    except HubClosed as closed:
        raise errors.ApiError(Reason.UNAVAILABLE, f"leadership has just ended: {closed}") from closed
    except HubFull as full:
        raise errors.ApiError(errors.TOO_MANY_WATCHERS, str(full)) from full


async def long_poll(
    call: Call,
    look: Callable[[], T],
    news: Callable[[T], bool],
    seconds: float,
    kind: str,
    key: str | None = None,
    match: Callable[[Item], bool] | None = None,
) -> T:
    """What `look` gives as soon as it is `news`, or after `seconds` whatever it gives then.

    `look` runs in a thread: at once, whenever the hub gives an item of this kind (and key, and match), and every UNTOLD
    seconds. On a standby, which has no hub, only that is left.
    """
    deadline = asyncio.get_running_loop().time() + min(seconds, call.settings.watch_limit)
    following = watch(call, kind, key, match) if call.gateway.role() == "master" else None
    try:
        found = await run_in_threadpool(look)
        while not news(found) and (left := deadline - asyncio.get_running_loop().time()) > 0:
            following = await _wait(following, min(left, UNTOLD))
            found = await run_in_threadpool(look)
    finally:
        if following is not None:
            following.close()
    return found


async def _wait(following: Watch | None, seconds: float) -> Watch | None:
    if following is not None:
        try:
            await following.take(seconds)
            return following
        except WatchEnded:
            pass
    await asyncio.sleep(seconds)
    return None
