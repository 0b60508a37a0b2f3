"""A WebSocket for code with threads: one thread of the process does all the work on the connections.

OpenSSL allows one thread at a time in a connection, and Python 3.11 does not see to that. A client that reads in one
thread and writes in another one corrupts the memory of its process, and a client that reads nothing while it writes
blocks a server that does the same.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import queue
import socket
import ssl
import threading
import time
from collections.abc import Coroutine, Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as connection_to
from websockets.exceptions import ConnectionClosedOK
from websockets.typing import Subprotocol

Message = str | bytes
T = TypeVar("T")

CLOSE_TIMEOUT = 2.0
"""Seconds for the end of the connection; afterwards the connection is dropped."""
LARGEST = 1024 * 1024
"""Bytes in one message."""
AHEAD = 16
"""Messages that are received before the caller takes one."""
LIBRARY = logging.getLogger(f"{__name__}.websockets")
"""The log of the library, switched off: an exception tells each failure, and a user would get tracebacks."""
LIBRARY.disabled = True


class WebSocket:
    """One thread may receive, others may send. All methods but `close` raise ConnectionClosed after the end."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._received: queue.SimpleQueue[Message | Exception] = queue.SimpleQueue()
        self._taken = asyncio.Event()
        self._receiving = asyncio.run_coroutine_threadsafe(self._receive(), _loop())

    def __iter__(self) -> Iterator[Message]:
        """Messages until the connection ends. Raises ConnectionClosedError for an end that the server did not
        announce."""
        while True:
            received = self._received.get()
            if self._received.empty():
                _loop().call_soon_threadsafe(self._taken.set)
            if isinstance(received, Exception):
                self._received.put(received)  # for the next iteration
                if isinstance(received, ConnectionClosedOK):
                    return
                raise received
            yield received

    async def _receive(self) -> None:
        try:
            while True:
                self._received.put(await self._connection.recv())
                if self._received.qsize() >= AHEAD:
                    self._taken.clear()
                    if not self._received.empty():  # else the event has been set before
                        await self._taken.wait()
        except Exception as error:
            self._received.put(error)

    def send(self, message: Message) -> None:
        """Waits while the server takes nothing."""
        _run(self._connection.send(message))

    def close(self) -> None:
        """Waits until the connection has ended, for CLOSE_TIMEOUT at most."""
        _run(self._close())

    async def _close(self) -> None:
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await self._connection.close()
        except TimeoutError:  # the library waits without limit while the server takes no messages
            self._connection.transport.abort()
            await self._connection.wait_closed()


class _WithoutRedirects(connection_to):
    """The library would follow redirects without the token, and to some URLs only."""

    def process_redirect(self, exc: Exception) -> Exception:
        return exc


def connect(
    url: str, *, headers: Mapping[str, str], subprotocol: str, tls: ssl.SSLContext | None, timeout: float
) -> WebSocket:
    """Opens a connection within `timeout` seconds. `tls` is for https; None = http.

    Raises OSError and InvalidHandshake; InvalidStatus, one of these, also for a redirect."""
    parts = urlsplit(url)
    deadline = time.monotonic() + timeout
    plain = socket.create_connection((parts.hostname or "", parts.port or (443 if tls else 80)), timeout)

    async def opened() -> ClientConnection:
        return await _WithoutRedirects(
            f"ws{url.removeprefix('http')}",
            sock=plain,
            ssl=tls,
            additional_headers=headers,
            subprotocols=[Subprotocol(subprotocol)],
            compression=None,
            logger=LIBRARY,
            open_timeout=max(deadline - time.monotonic(), 0.0),
            close_timeout=CLOSE_TIMEOUT,
            ping_interval=None,
            max_size=LARGEST,
        )

    try:
        return WebSocket(_run(opened()))
    except BaseException:
        plain.close()
        raise


def _run(work: Coroutine[Any, Any, T]) -> T:
    future = asyncio.run_coroutine_threadsafe(work, _loop())
    try:
        return future.result()
    except BaseException:  # a signal has ended the wait
        future.cancel()
        raise


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    """Runs until the process ends."""
    made = asyncio.new_event_loop()
    threading.Thread(target=made.run_forever, name="websockets", daemon=True).start()
    return made
