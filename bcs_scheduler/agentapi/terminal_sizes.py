"""The size of the terminal of a session: when the agent may get the size.

A size makes the kernel send SIGWINCH to the foreground process group of the terminal. Until the agent's launcher has
forked the program, the launcher is in this group and ends on SIGWINCH: the program never starts. So no size is sent
before the program has printed something. The echo of keys that were typed early is no such output: the terminal prints
the echo by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

from bcs_scheduler.tasks import background

MOST_TYPED = 64 * 1024
"""Bytes of early input whose echo is recognized; output after more input counts as output of the program."""
_ECHOES = {
    **{code: b"^" + bytes((code ^ 0x40,)) for code in range(32)},
    0x09: b"\t",
    0x0A: b"\r\n",
    0x0D: b"\r\n",
}
"""The echo of control characters, in the mode in which Linux creates terminals (ECHOCTL, ICRNL, ONLCR: termios(3))."""


class Size(NamedTuple):
    """Rows and columns of a terminal, in characters."""

    rows: int
    columns: int


class TerminalSizes:
    """Belongs to one event loop. `close` in any case."""

    def __init__(self, put: Callable[[Size], Awaitable[None]]) -> None:
        """`put` sends a size to the agent."""
        self._put = put
        self._size: Size | None = None
        """The newest size that has not been sent; None = there is none."""
        self._resized, self._printed = asyncio.Event(), asyncio.Event()
        self._sending: asyncio.Task[None] | None = None
        self._echo = b""
        """The expected rest of the echo of input that came before the program has printed something."""

    def begin(self, delay: float | None) -> None:
        """Sends sizes from now on, when the program has printed something, or after `delay` seconds; None = not before
        the program has printed something."""
        self._sending = background(self._send(delay), "terminal size of a session")

    def resize(self, size: Size) -> None:
        """A size that has not been sent is replaced."""
        self._size = size
        self._resized.set()

    def typed(self, data: bytes) -> None:
        """The user has typed this input. Input before `begin`, or without `begin`, has no echo."""
        if self._sending is None or self._printed.is_set():
            return
        if len(self._echo) + len(data) <= MOST_TYPED:
            self._echo += b"".join(_ECHOES.get(code, bytes((code,))) for code in data)

    def came(self, data: bytes) -> None:
        """This output has come."""
        if not self._printed.is_set():
            if self._echo.startswith(data):
                self._echo = self._echo[len(data) :]
            else:
                self.started()

    def started(self) -> None:
        """The program runs."""
        self._echo = b""
        self._printed.set()

    async def close(self) -> None:
        """Sends no more sizes."""
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.wait({self._sending})

    async def _send(self, delay: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await self._printed.wait()
        while True:
            await self._resized.wait()
            self._resized.clear()
            size, self._size = self._size, None
            if size is not None:
                await self._put(size)
