"""Processes, as the event loop of the cluster sees them. The work is done by the launcher in a process of its own."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bcs_scheduler.local.agents import launcher as launcher_script
from bcs_scheduler.local.errors import LocalClusterError
from bcs_scheduler.tasks import background

log = logging.getLogger(__name__)

STOP_TIMEOUT = 10.0
PAUSE = 1.0
"""Seconds between two attempts to make the process anew."""
LOST = "the process that starts the tasks was killed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """`program` is looked up in the PATH of `env`. Output goes to files in `output`, or nowhere."""

    program: str
    argv: Sequence[str]
    env: dict[str, str]
    cwd: Path
    output: Path | None
    user: str | None = None
    streams: Mapping[str, str] | None = None
    """Paths to open instead of `output`: `stdin`, `stdout` and `stderr`, or `terminal`."""


@dataclass(slots=True)
class Process:
    """`pid` is 0 until it runs. The callbacks are each called at most once."""

    name: str
    on_started: Callable[[], None]
    on_failed: Callable[[str], None]
    on_exited: Callable[[int], None]
    pid: int = 0


class Launcher:
    """One per cluster. A process that was asked for is `started` or `failed`, and `exited` if it was started. If the
    process that starts the others is killed, all others have ended with it, and it is made anew."""

    def __init__(self) -> None:
        self._processes: dict[str, Process] = {}
        self._child: subprocess.Popen[bytes] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._listening: asyncio.Task[None] | None = None
        self._orders: list[bytes] = []
        """Given while there is no process to obey them."""
        self._idle: asyncio.Event | None = None
        """Set when no process is left that was asked for."""

    async def start(self) -> None:
        """Raises OSError."""
        reader = await self._make()
        self._listening = background(self._watch(reader), "launcher")

    async def _make(self) -> asyncio.StreamReader:
        """Raises OSError."""
        ours, theirs = socket.socketpair()
        with theirs:
            script = os.path.abspath(launcher_script.__file__)
            # A session of its own keeps Ctrl-C of a terminal from it: it must outlive everything it started.
            self._child = subprocess.Popen(
                [sys.executable, "-I", script], stdin=theirs.fileno(), stdout=subprocess.DEVNULL, start_new_session=True
            )
        reader, self._writer = await asyncio.open_connection(sock=ours)
        self._writer.writelines(self._orders)
        self._orders.clear()
        return reader

    @property
    def pid(self) -> int:
        """Of the process that starts the others; 0 = not started."""
        return 0 if self._child is None else self._child.pid

    async def wait_until_idle(self) -> None:
        """Returns when all processes that were asked for have ended."""
        if self._processes:
            self._idle = asyncio.Event()
            await self._idle.wait()

    async def stop(self) -> None:
        """Returns when no process is left."""
        if self._child is None or self._listening is None:
            return
        self._listening.cancel()
        if self._writer is not None:
            self._writer.close()
        self._processes.clear()
        child = self._child
        try:
            await asyncio.to_thread(child.wait, STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            child.kill()
            raise LocalClusterError("the launcher of the embedded cluster did not end") from None

    def run(self, process: Process, command: Command) -> None:
        self._processes[process.name] = process
        self._order(
            run=process.name,
            program=command.program,
            argv=list(command.argv),
            env=command.env,
            cwd=str(command.cwd),
            output=None if command.output is None else str(command.output),
            user=command.user,
            streams=None if command.streams is None else dict(command.streams),
        )

    def signal(self, process: Process, number: signal.Signals) -> None:
        """To the whole process group; nothing happens if it has ended."""
        self._order(signal=process.name, number=int(number))

    def destroy(self, process: Process) -> None:
        """SIGKILL to the process and everything it started."""
        self._order(destroy=process.name)

    def _order(self, **order: object) -> None:
        line = json.dumps(order).encode() + b"\n"
        if self._writer is None:
            self._orders.append(line)
        elif not self._writer.is_closing():
            self._writer.write(line)

    async def _watch(self, reader: asyncio.StreamReader) -> None:
        while True:
            with suppress(OSError):
                await self._listen(reader)
            await self._lost()
            reader = await self._made_anew()

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        while (line := await reader.readline()).endswith(b"\n"):
            self._dispatch(json.loads(line))

    async def _lost(self) -> None:
        """The process has been killed: so has everything that it has started. Returns when that is so."""
        if self._writer is not None:
            self._writer.close()
        lost, self._processes, self._writer = list(self._processes.values()), {}, None
        log.error("%s: %d processes end with it, and it is started again", LOST, len(lost))
        if self._child is not None:
            await asyncio.to_thread(self._child.wait)  # its socket has closed
        await asyncio.to_thread(launcher_script.end_marked, frozenset(process.name for process in lost))
        for process in lost:
            if process.pid:
                process.on_exited(signal.SIGKILL)
            else:
                process.on_failed(LOST)
        self._look_idle()

    async def _made_anew(self) -> asyncio.StreamReader:
        while True:
            try:
                return await self._make()
            except OSError as error:
                log.error("the process that starts the tasks cannot be started: %s", error)
                await asyncio.sleep(PAUSE)

    def _dispatch(self, event: dict[str, Any]) -> None:
        if "started" in event:
            process = self._processes.get(event["started"])
            if process is not None:
                process.pid = event["pid"]
                process.on_started()
        elif "failed" in event:
            process = self._processes.pop(event["failed"], None)
            if process is not None:
                process.on_failed(event["error"])
        else:
            process = self._processes.pop(event["exited"], None)
            if process is not None:
                process.on_exited(event["status"])
        self._look_idle()

    def _look_idle(self) -> None:
        if self._idle is not None and not self._processes:
            self._idle.set()
