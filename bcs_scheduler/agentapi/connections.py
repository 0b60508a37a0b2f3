"""A connection to a port of a task, with the same face as a program (bcs_scheduler.agentapi.sessions)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from bcs_scheduler.agentapi.sessions import PATIENCE, AgentAway, Piece
from bcs_scheduler.agentapi.terminal_sizes import Size
from bcs_scheduler.net.addresses import HostPort

CHUNK = 64 * 1024


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, address: HostPort) -> Connection:
        """Raises AgentAway."""
        try:
            async with asyncio.timeout(PATIENCE):
                return cls(*await asyncio.open_connection(address.host, address.port, limit=CHUNK))
        except (OSError, ValueError, TimeoutError) as error:
            reason = getattr(error, "strerror", None) or "no answer"
            raise AgentAway(f"{address}: {reason}") from None

    async def output(self) -> AsyncIterator[Piece]:
        try:
            while data := await self._reader.read(CHUNK):
                yield Piece("STDOUT", data)
        except OSError as error:
            raise AgentAway(f"the connection was interrupted: {error.strerror or error}") from None

    async def send(self, data: bytes) -> None:
        try:
            if data:
                self._writer.write(data)
                await self._writer.drain()
            else:
                self._writer.write_eof()
        except OSError:
            return  # the output says how it ended

    async def resize(self, size: Size) -> None:
        """A connection has no terminal."""

    async def status(self) -> int | None:
        return 0

    async def deliver(self) -> None:
        """The connection ends with its user."""

    async def close(self) -> None:
        self._writer.transport.abort()
