"""The output of a task of Mesos's own executor from now on, and its exit code, with the same interface as a program
(bcs_scheduler.agentapi.sessions).

Such a task has no I/O switchboard, so the agent cannot attach a client to its streams. The output is in files of the
sandbox, which are read as they grow. WAIT_NESTED_CONTAINER returns the exit status when the task has ended.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, TypeVar

from bcs_scheduler.agentapi.sandbox import PIECE, Folder, NoSuchFile, SandboxError
from bcs_scheduler.agentapi.sessions import Agent, AgentAway, ContainerId, Piece, SessionError
from bcs_scheduler.agentapi.terminal_sizes import Size
from bcs_scheduler.tasks import background

T = TypeVar("T")

QUICK, SLOW = 0.1, 1.0
"""Seconds between two looks at files: after new output, and at most. Doubled with each look that finds nothing."""
READERS = ThreadPoolExecutor(16, thread_name_prefix="attach")
"""A pool for followers only, so that many followers do not delay other requests."""
STREAMS: tuple[tuple[Literal["STDOUT", "STDERR"], str], ...] = (("STDOUT", "stdout"), ("STDERR", "stderr"))


class Following:
    """Not for several tasks of an event loop at once. `close` ends nothing but the reading."""

    def __init__(self, agent: Agent, container: ContainerId, folder: Folder) -> None:
        self._folder = folder
        self._offsets = dict.fromkeys((name for _, name in STREAMS), 0)
        self._code: int | None = None
        self._over = asyncio.Event()
        self._waiting = background(self._wait(agent, container), "end of a task")

    async def begin(self) -> None:
        """Passes over the present output. Raises SessionError."""
        for _, name in STREAMS:
            self._offsets[name] = await self._size(name)

    async def output(self) -> AsyncIterator[Piece]:
        """Until the task has ended."""
        pause = QUICK
        while True:
            over = self._over.is_set()
            found = False
            for stream, name in STREAMS:
                while data := await self._more(name):
                    found = True
                    yield Piece(stream, data)
            if over and not found:
                return
            pause = QUICK if found else min(2 * pause, SLOW)
            try:
                async with asyncio.timeout(pause):
                    await self._over.wait()
            except TimeoutError:
                continue

    async def send(self, data: bytes) -> None:
        """The task has no input."""

    async def resize(self, size: Size) -> None:
        """The task has no terminal."""

    async def status(self) -> int | None:
        """As os.waitstatus_to_exitcode has it; None: the agent does not know."""
        return self._code

    async def deliver(self) -> None:
        """The task has no input."""

    async def close(self) -> None:
        self._waiting.cancel()
        await asyncio.wait({self._waiting})

    async def _wait(self, agent: Agent, container: ContainerId) -> None:
        try:
            status = await agent.exit_status(container, None)
            self._code = None if status is None else os.waitstatus_to_exitcode(status)
        except SessionError:
            return  # the code is not known
        finally:
            self._over.set()

    async def _more(self, name: str) -> bytes:
        offset = self._offsets[name]
        try:
            data = await self._read(lambda: self._folder.piece(name, offset, PIECE))
            if not data and offset and await self._size(name) < offset:
                self._offsets[name] = 0  # another file has this name now, or it was emptied
                return await self._more(name)
        except NoSuchFile:
            return b""
        self._offsets[name] = offset + len(data)
        return data

    async def _size(self, name: str) -> int:
        try:
            return await self._read(lambda: self._folder.size(name))
        except NoSuchFile:
            return 0

    async def _read(self, work: Callable[[], T]) -> T:
        """Raises NoSuchFile, AgentAway."""
        try:
            return await asyncio.get_running_loop().run_in_executor(READERS, work)
        except NoSuchFile:
            raise
        except SandboxError as error:
            raise AgentAway(str(error)) from None


async def follow(agent: Agent, container: ContainerId, folder: Folder, *, whole: bool = False) -> Following:
    """`whole`: also the output before. Raises SessionError."""
    following = Following(agent, container, folder)
    try:
        if not whole:
            await following.begin()
    except BaseException:
        await following.close()
        raise
    return following
