"""Processes, as the event loop of the cluster sees them. The work is done by the launcher in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bcs_scheduler.local.agents.processes import launcher as launcher_script
from bcs_scheduler.local.errors import LocalClusterError
from bcs_scheduler.tasks import background

STOP_TIMEOUT = 10.0


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
    """One per cluster. A process that was asked for is `started` or `failed`, and `exited` if it was started."""

    def __init__(self) -> None:
        self._processes: dict[str, Process] = {}
        self._child: subprocess.Popen[bytes] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._listening: asyncio.Task[None] | None = None
        self._idle: asyncio.Event | None = None
        """Set when no process is left that was asked for."""

    async def start(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            script = os.path.abspath(launcher_script.__file__)
            # A session of its own keeps Ctrl-C of a terminal from it: it must outlive everything it started.
            self._child = subprocess.Popen(
                [sys.executable, "-I", script], stdin=theirs.fileno(), stdout=subprocess.DEVNULL, start_new_session=True
            )
        reader, self._writer = await asyncio.open_connection(sock=ours)
        self._listening = background(self._listen(reader), "launcher")

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
        if self._writer is None or self._child is None or self._listening is None:
            return
        self._listening.cancel()
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
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(json.dumps(order).encode() + b"\n")

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            self._dispatch(json.loads(line))

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
        if self._idle is not None and not self._processes:
            self._idle.set()
