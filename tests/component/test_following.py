"""Following the output of a task of Mesos's own executor by its files (bcs_scheduler.agentapi.following)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest

from bcs_scheduler.agentapi import following
from bcs_scheduler.agentapi.following import Following, follow
from bcs_scheduler.agentapi.sandbox import AgentAway as SandboxAway
from bcs_scheduler.agentapi.sandbox import Folder, NoSuchFile
from bcs_scheduler.agentapi.sessions import Agent, AgentAway, ContainerId, Piece, SessionRefused

CONTAINER = ContainerId("task", ContainerId("executor"))


class Files:
    """A sandbox; `away` when its agent does not answer."""

    def __init__(self, **files: bytes) -> None:
        self.files, self.away = files, False

    def piece(self, path: str, offset: int, length: int) -> bytes:
        return self._content(path)[offset : offset + length]

    def size(self, path: str) -> int:
        return len(self._content(path))

    def _content(self, path: str) -> bytes:
        if self.away:
            raise SandboxAway("agent 10.0.0.1:5051 does not answer")
        if path not in self.files:
            raise NoSuchFile(path)
        return self.files[path]


class Ending:
    """An agent that waits for the end of a container. `end` is the status of wait(2), or an error."""

    def __init__(self) -> None:
        self.end: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()

    async def exit_status(self, container: ContainerId, timeout: float | None) -> int | None:
        assert (container, timeout) == (CONTAINER, None)
        return await self.end


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "QUICK", 0.001)
    monkeypatch.setattr(following, "SLOW", 0.01)


async def begun(files: Files, agent: Ending) -> Following:
    return await follow(cast(Agent, agent), CONTAINER, cast(Folder, files))


async def some(output: AsyncIterator[Piece]) -> Piece:
    async with asyncio.timeout(10):
        return await anext(output)


def test_what_is_printed_from_now_on_and_the_exit_code() -> None:
    async def run() -> None:
        files, agent = Files(stdout=b"before"), Ending()
        line = await begun(files, agent)
        output = line.output()
        files.files["stdout"] += b" now"
        assert await some(output) == Piece("STDOUT", b" now")
        files.files["stderr"] = b"a file that is new"
        assert await some(output) == Piece("STDERR", b"a file that is new")
        agent.end.set_result(7 << 8)
        files.files["stdout"] += b" last"
        assert [piece async for piece in output] == [Piece("STDOUT", b" last")]
        assert await line.status() == 7
        await line.close()

    asyncio.run(run())


def test_a_file_that_was_emptied_is_read_from_its_beginning() -> None:
    async def run() -> None:
        files, agent = Files(stdout=b"x" * 100), Ending()
        line = await begun(files, agent)
        output = line.output()
        files.files["stdout"] = b"anew"
        assert await some(output) == Piece("STDOUT", b"anew")
        await line.close()

    asyncio.run(run())


@pytest.mark.parametrize(("status", "code"), [(9, -9), (0, 0), (None, None)])
def test_signals_and_codes_that_are_not_known(status: int | None, code: int | None) -> None:
    async def run() -> None:
        agent = Ending()
        line = await begun(Files(), agent)
        agent.end.set_result(status)
        assert [piece async for piece in line.output()] == []
        assert await line.status() == code
        await line.close()

    asyncio.run(run())


def test_an_agent_that_does_not_know_the_container_ends_the_session_without_a_code() -> None:
    async def run() -> None:
        agent = Ending()
        line = await begun(Files(stdout=b""), agent)
        agent.end.set_exception(SessionRefused("no such container"))
        assert [piece async for piece in line.output()] == []
        assert await line.status() is None
        await line.close()

    asyncio.run(run())


def test_an_agent_that_goes_away_is_told_and_the_wait_ends() -> None:
    async def run() -> None:
        files, agent = Files(stdout=b""), Ending()
        line = await begun(files, agent)
        files.away = True
        with pytest.raises(AgentAway, match=r"10\.0\.0\.1"):
            await some(line.output())
        await line.close()
        assert agent.end.cancelled()
        with pytest.raises(AgentAway):
            await begun(files, Ending())

    asyncio.run(run())
