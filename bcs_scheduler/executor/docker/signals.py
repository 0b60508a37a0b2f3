"""Signals to a container: to its first process through the engine, to others by name."""

from __future__ import annotations

import os

from ..runtime import TaskError
from .engine import Engine

COMM_LENGTH = 15
"""Characters of a process's name that the kernel keeps."""


def send_signal(engine: Engine, container: str, number: int, process: str) -> None:
    """Sends a signal to the processes of this name; empty = to the first process of the container. Raises TaskError."""
    if not process:
        engine.call("POST", f"/containers/{container}/kill", {"signal": str(number)})
        return
    found = engine.call("GET", f"/containers/{container}/top", {"ps_args": "-eo pid,comm"})
    pids = [int(row[0]) for row in found["Processes"] if row[1] == process[:COMM_LENGTH]]
    if not pids:
        raise TaskError(f"no process {process!r} in the container")
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
        except PermissionError:
            raise TaskError(f"the executor's user may not signal {process!r}") from None
