"""Passes data between a program and its user, until one of them has ended.

The relay keeps only data in transit: the program's output is read when the user has taken the output before, and the
user's input when the agent has taken the input before. A session has one task of the event loop for each direction and
one that checks its right to continue; the thread of the core knows nothing of sessions.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Literal, Protocol

from starlette.types import Receive, Send

from bcs_scheduler.agentapi.sessions import Piece, SessionError
from bcs_scheduler.agentapi.terminal_sizes import Size
from bcs_scheduler.api.http import errors
from bcs_scheduler.api.sessions import frames
from bcs_scheduler.api.sessions.frames import Outcome
from bcs_scheduler.tasks import running

DELIVERY = 3.0
"""Seconds in which the last input of a user who has left a task must be taken."""
LOOK = 2.0
"""Seconds between two checks whether the session may continue."""
CHANNELS = {"STDOUT": frames.STDOUT, "STDERR": frames.STDERR}


class Streams(Protocol):
    """A program or a connection (bcs_scheduler.agentapi)."""

    def output(self) -> AsyncIterator[Piece]: ...

    async def send(self, data: bytes) -> None: ...

    async def resize(self, size: Size) -> None: ...

    async def status(self) -> int | None: ...

    async def deliver(self) -> None: ...

    async def close(self) -> None: ...


Direction = Literal["in", "out"]
"""in: from users to programs; out: from programs to users."""


class SessionMetrics(Protocol):
    """Counts sessions (bcs_scheduler.observability.metrics). The methods are called in the event loop of the API and
    must not wait."""

    def session_opened(self, kind: str) -> None: ...

    def session_closed(self, kind: str) -> None: ...

    def session_bytes(self, direction: Direction, size: int) -> None: ...


class NoMetrics:
    """Counts nothing."""

    def session_opened(self, kind: str) -> None:
        """Does nothing."""

    def session_closed(self, kind: str) -> None:
        """Does nothing."""

    def session_bytes(self, direction: Direction, size: int) -> None:
        """Does nothing."""


class ClientDisconnected(Exception):
    """The connection of the user has ended."""


class Relay:
    """One session. `received` and `sent`: bytes of input and output so far."""

    def __init__(
        self, receive: Receive, send: Send, ended: Callable[[float], Outcome | None], metrics: SessionMetrics
    ) -> None:
        """`ended` is called every LOOK seconds with the seconds without input and output, and returns the outcome if
        the session must end."""
        self._metrics = metrics
        self._receive, self._send, self._ended = receive, send, ended
        self.received = self.sent = 0
        self._heard = asyncio.get_running_loop().time()

    async def message(self) -> str | bytes:
        """The next message of the user. Raises ClientDisconnected."""
        message = await self._receive()
        if message["type"] == "websocket.disconnect":
            raise ClientDisconnected
        text: str | None = message.get("text")
        data: bytes | None = message.get("bytes")
        return text if text is not None else data or b""

    async def run(self, streams: Streams) -> Outcome | None:
        """Outcome of the session; None: the client has disconnected."""
        work = [self._output(streams), self._input(streams), self._look()]
        tasks = [running(part, "session") for part in work]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            first = next(task for task in tasks if task in done)
            return await first
        except ClientDisconnected:
            await closed(streams.deliver(), DELIVERY)
            return None
        except SessionError as error:
            return Outcome(reason=errors.AGENT, message=str(error))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _output(self, streams: Streams) -> Outcome:
        async for piece in streams.output():
            for start in range(0, len(piece.data), frames.PIECE):
                part = piece.data[start : start + frames.PIECE]
                await self.say(frames.framed(CHANNELS[piece.stream], part))
                self.sent += len(part)
                self._metrics.session_bytes("out", len(part))
                self._heard = asyncio.get_running_loop().time()
        code = await streams.status()
        if code is None:
            return Outcome(reason=errors.AGENT, message="the agent does not know how the program ended")
        return Outcome(exit_code=code)

    async def _input(self, streams: Streams) -> Outcome | None:
        while True:
            message = await self.message()
            self._heard = asyncio.get_running_loop().time()
            if not isinstance(message, bytes) or not message:
                return Outcome(reason=errors.BAD_BODY, message="a message of the session has no channel")
            channel, content = message[0], message[1:]
            if channel == frames.STDIN:
                if content:
                    self.received += len(content)
                    self._metrics.session_bytes("in", len(content))
                    await streams.send(content)
            elif channel == frames.END:
                await streams.send(b"")
            elif channel == frames.RESIZE:
                size = frames.read_size(content)
                if size is not None:
                    await streams.resize(Size(size.rows, size.columns))
            else:
                return Outcome(reason=errors.BAD_BODY, message=f"the session has no channel {channel}")

    async def _look(self) -> Outcome:
        while True:
            await asyncio.sleep(LOOK)
            outcome = self._ended(asyncio.get_running_loop().time() - self._heard)
            if outcome is not None:
                return outcome

    async def say(self, data: bytes) -> None:
        """Waits while the user takes nothing. Raises ClientDisconnected."""
        try:
            await self._send({"type": "websocket.send", "bytes": data})
        except OSError:
            raise ClientDisconnected from None


async def closed(work: Awaitable[object], seconds: float) -> None:
    """Waits for the end of a session, at most `seconds` seconds."""
    with suppress(TimeoutError, OSError, SessionError):
        async with asyncio.timeout(seconds):
            await work
