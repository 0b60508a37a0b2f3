"""Server-sent events on the wire (WHATWG HTML, section 9.2): frames, and the answer that continues until it is ended.

A stream begins with `retry:` and the first frames of the operation, then follows its watch of the hub. While nothing
comes, a comment every HEARTBEAT seconds shows both sides that the other is there. The last frame of a stream that we
end has the event `end`; its data say why: `slow`, `stepped_down`, `timeout`, `revoked` or `failed`. The reader connects
again, and resumes with the id of the last frame.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from bcs_scheduler.api.http.protocol import ABORT, WRITE
from bcs_scheduler.leadership.hub import Watch
from bcs_scheduler.leadership.items import EVENTS, Item, WatchEnded
from bcs_scheduler.tasks import background
from store.mentions import Sees, revealed
from transactions.text import duration

log = structlog.get_logger("bcs_scheduler.api")
MEDIA_TYPE = "text/event-stream"
HEARTBEAT = 15.0
"""Seconds of silence before a comment is sent."""
RETRY_MS = 1_000
"""Milliseconds that a reader waits before it connects again."""
STUCK = 20.0
"""Seconds for which a reader may take nothing before its connection is closed."""
LEAST_PAUSE, PAUSE_EACH, MOST_PAUSE = 0.01, 0.002, 1.0
"""Seconds between two writes to one reader: more with each reader there is. Frames of the meantime are written
together, so that many readers cost the process a bounded number of writes per second, at moments common to all."""

_encoder = msgspec.json.Encoder()


def frame(event: str, data: Any, identity: str | int = "") -> bytes:
    """One frame. `data` is encoded as JSON, which has no line breaks; a reader resumes with `identity`."""
    head = f"event: {event}\n" if identity == "" else f"id: {identity}\nevent: {event}\n"
    return head.encode() + b"data: " + _encoder.encode(data) + b"\n\n"


@dataclass(frozen=True, slots=True)
class EventStream:
    """A continuous answer: first the `opening` frames, then the items of the watch, as `encode` shows them.

    `encode` makes the frame of an item, or b"" if there is nothing to say. `encode` must be the same function for all
    watchers with the same content (a function of a module, not a closure), since its results are shared. `opening` is
    read bit by bit in the event loop. `seconds`: the stream ends by itself after that time; None = it does not.
    """

    watch: Watch
    encode: Callable[[Item], bytes]
    opening: Iterable[bytes] = ()
    seconds: float | None = None


class EventStreamResponse(Response):
    """Sends an EventStream. The answer ends when the reader has gone or takes nothing, or when the watch has ended."""

    def __init__(self, stream: EventStream) -> None:
        super().__init__(media_type=None, headers={"Content-Type": MEDIA_TYPE, "Cache-Control": "no-store"})
        del self.headers["content-length"]
        self.headers["X-Accel-Buffering"] = "no"  # proxies such as nginx would collect frames
        self._stream = stream
        self.sees: Sees = lambda _namespace: False
        """The namespaces that the reader may see."""
        self.allowed: Callable[[], bool] = lambda: True
        """Called every HEARTBEAT seconds: the reader's token may have been revoked."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        watch = self._stream.watch
        leaving = background(_left(receive, watch), "reader of a stream")
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            if scope["method"] != "HEAD":
                await self._run(send, scope.get(WRITE, _cannot), leaving)
            await _write(send, b"", more=False)
        except (TimeoutError, OSError) as stuck:
            error = str(stuck) or f"the reader has read no data for {duration(STUCK)}"
            log.info("stream reader dropped", path=scope["path"], error=error)
            if ABORT in scope:
                scope[ABORT]()
                await asyncio.wait({leaving}, timeout=1.0)  # so that the server knows that it has gone
        finally:
            leaving.cancel()
            watch.close()

    async def _run(self, send: Send, write: Callable[[bytes], bool], leaving: asyncio.Task[None]) -> None:
        """`write` is the short way: it writes at once or not at all."""
        stream = self._stream
        await _write(send, b"retry: %d\n\n" % RETRY_MS)
        for chunk in stream.opening:
            await _write(send, revealed(chunk, self.sees))
            await asyncio.sleep(0)  # others have their turn, however long the opening is
            if leaving.done():
                return
        loop = asyncio.get_running_loop()
        until = loop.time() + stream.seconds if stream.seconds is not None else None
        asked = loop.time()
        try:
            while not leaving.done():
                left = HEARTBEAT if until is None else min(HEARTBEAT, until - loop.time())
                if left <= 0:
                    raise WatchEnded("timeout", "the requested time is over")
                if loop.time() - asked >= HEARTBEAT:
                    asked = loop.time()
                    if not self.allowed():
                        raise WatchEnded("revoked", "the token no longer has the required right")
                items = await stream.watch.take(left)
                content = revealed(b"".join([item.encoded(stream.encode) for item in items]), self.sees)
                if content or not items:
                    content = content or _heartbeat(stream.watch)
                    if not write(content):
                        await _write(send, content)
                    await stream.watch.rest(min(LEAST_PAUSE + PAUSE_EACH * stream.watch.beside, MOST_PAUSE))
        except WatchEnded as ended:
            if not leaving.done():
                await _write(send, frame("end", {"reason": ended.why, "message": str(ended)}))


def _heartbeat(watch: Watch) -> bytes:
    """A comment. For streams of events the comment has the number of the newest event, so that a reader that receives
    few events resumes from there and not from long ago."""
    return b"id: %d\n:\n\n" % watch.position if watch.kind == EVENTS else b":\n\n"


async def _left(receive: Receive, watch: Watch) -> None:
    """Until the reader has gone."""
    try:
        while True:
            message: Message = await receive()
            if message["type"] == "http.disconnect":
                return
    finally:
        watch.close()


def _cannot(_content: bytes) -> bool:
    return False


async def _write(send: Send, content: bytes, more: bool = True) -> None:
    async with asyncio.timeout(STUCK):
        await send({"type": "http.response.body", "body": content, "more_body": more})
