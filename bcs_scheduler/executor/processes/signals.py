"""Signals to processes of a task, by pid or by name."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ..runtime import TaskError
from . import process_tree


def named(members: Iterable[process_tree.Process], name: str) -> list[int]:
    """Pids of the processes with this name, or whose program has it. Raises TaskError if there are none."""
    pids = [item.pid for item in members if name in (item.name, process_tree.executable(item.pid))]
    if not pids:
        raise TaskError(f"no process of the task is named {name}")
    return pids


def send_signal(pids: Iterable[int], number: int) -> None:
    """Sends a signal to each of the processes. Raises TaskError for the first one that cannot get it."""
    try:
        for pid in pids:
            os.kill(pid, number)
    except ProcessLookupError:
        raise TaskError("the process has just ended") from None
    except (OSError, ValueError, OverflowError) as error:
        raise TaskError(f"signal {number}: {error}") from None
