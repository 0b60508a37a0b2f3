"""Downloads on their way from agents to clients: in threads of their own, so many at a time and no more.

Each waits in a thread for the next piece, perhaps for as long as its agent likes. In the threads that all reads share,
forty of them would stop every other request.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from bcs_scheduler.api.http.errors import ApiError
from bcs_scheduler.core.interface.effects import Reason

MOST = 32
"""Downloads at a time; each holds one thread while it waits."""


class Downloads:
    """Used by all event loops."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._threads = ThreadPoolExecutor(most, thread_name_prefix="download")
        self._lock = threading.Lock()
        self._running = 0

    def check(self) -> None:
        """Raises ApiError (503) while there are as many as may be. Ask before the agent is asked for the file."""
        if self._running >= self._most:
            raise ApiError(Reason.UNAVAILABLE, f"{self._running} files are being downloaded already; try again")

    async def passed_on(self, chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
        """The chunks, each waited for in a thread. However it ends, the iterator is closed: at once, or when the piece
        that it waits for has come or has failed."""
        loop = asyncio.get_running_loop()
        with self._lock:
            self._running += 1
        waiting: Future[bytes | None] | None = None
        try:
            while True:
                waiting = self._threads.submit(next, chunks, None)
                chunk = await asyncio.wrap_future(waiting, loop=loop)
                if chunk is None:
                    return
                yield chunk
        finally:
            if waiting is None or waiting.done():
                self._close(chunks)
            else:
                waiting.add_done_callback(lambda _: self._close(chunks))

    def _close(self, chunks: Iterator[bytes]) -> None:
        with self._lock:
            self._running -= 1
        close = getattr(chunks, "close", None)
        if close is not None:
            with suppress(Exception):  # the reader has gone; errors at the end of the connection have no receiver
                close()
