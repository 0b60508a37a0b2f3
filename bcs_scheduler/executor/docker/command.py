"""Commands beside a container's own: created, started and inspected through the engine, within limits and a time."""

from __future__ import annotations

import contextlib
import socket
import time
import uuid
from collections.abc import Sequence
from typing import Any

from ..processes import process_tree
from ..run import kill_session
from ..runtime import Output, TaskError
from .engine import Engine, EngineError, Stream
from .frames import frames

MARK = "BCS_COMMAND"
"""Environment variable by which everything a command has started is found on the agent."""
PAUSE = 0.05
SETTLING = 5.0
"""Seconds in which the engine must notice that a killed command has ended."""


def execute(
    engine: Engine,
    container: str,
    argv: Sequence[str],
    *,
    env: dict[str, str],
    user: str,
    working_dir: str,
    privileged: bool,
    timeout: float,
    limit: int,
) -> Output:
    """Runs `argv` in the container. Raises TaskError if it cannot be started, or not be ended in time."""
    deadline = time.monotonic() + timeout
    mark = f"{MARK}={uuid.uuid4().hex}"
    body: dict[str, Any] = {
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": False,
        "Cmd": list(argv),
        "Env": [*(f"{name}={value}" for name, value in env.items()), mark],
        "Privileged": privileged,
    }
    if user:
        body["User"] = user
    if working_dir:
        body["WorkingDir"] = working_dir
    command = engine.call("POST", f"/containers/{container}/exec", None, body)["Id"]
    kept = _Kept(limit)
    with engine.stream("POST", f"/exec/{command}/start", None, {"Detach": False, "Tty": False}) as stream:
        timed_out = not kept.read(stream, deadline)
        if timed_out:
            _kill(engine, command, mark)
    state = finished(engine, command)
    if state["Running"]:
        raise TaskError("the command ran out of time and could not be ended")
    return Output(
        code=None if timed_out else state["ExitCode"],
        stdout=bytes(kept.stdout),
        stderr=bytes(kept.stderr),
        truncated=kept.truncated,
        timed_out=timed_out,
    )


def guard(engine: Engine, command: str, mark: str, connection: socket.socket) -> None:
    """Waits for the end of the connection, and kills the command if it still runs: an engine lets a command run after
    its client has gone. `mark`: value of MARK in its environment."""
    with connection, contextlib.suppress(OSError):
        connection.settimeout(None)
        connection.recv(1)
    with contextlib.suppress(EngineError):  # gone with its container
        _kill(engine, command, f"{MARK}={mark}")


class _Kept:
    """The first `limit` bytes of both streams."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.stdout, self.stderr = bytearray(), bytearray()
        self.truncated = False

    def read(self, stream: Stream, deadline: float) -> bool:
        """Reads to the end; False if the end did not come before `deadline` (monotonic seconds)."""
        try:
            for frame in frames(stream, deadline):
                self._take(self.stderr if frame.stderr else self.stdout, frame.content)
        except TimeoutError:
            return False
        return True

    def _take(self, kept: bytearray, content: bytes) -> None:
        room = self._limit - len(kept)
        kept += content[:room]
        self.truncated = self.truncated or len(content) > room


def _kill(engine: Engine, command: str, mark: str) -> None:
    """The API has no call for this: the process is killed on the agent, where the executor has the engine's rights or
    cannot do it (which shows in the command's state)."""
    state = engine.call("GET", f"/exec/{command}/json")
    pid = state.get("Pid") or 0
    # Where the engine counts processes in another namespace, the number belongs to another process here.
    if state["Running"] and pid > 0 and process_tree.variable(pid, MARK) == mark.partition("=")[2]:
        kill_session(pid, mark)


def finished(engine: Engine, command: str) -> dict[str, Any]:
    """The state after the end of the output: the exit code follows a moment later."""
    deadline = time.monotonic() + SETTLING
    while True:
        state = engine.call("GET", f"/exec/{command}/json")
        if not isinstance(state, dict):
            raise EngineError("the container engine does not say how the command ended")
        if not state["Running"] or time.monotonic() > deadline:
            return state
        time.sleep(PAUSE)
