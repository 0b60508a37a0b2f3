"""Tasks of event loops begin here, so an unexpected error of one is logged when it happens.

asyncio logs an error that no caller has retrieved only when the task is collected, if at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import structlog

T = TypeVar("T")

log = structlog.get_logger(__name__)

FAILED = "task.failed"
"""Event of the log lines. Operators may have alerts for it, so it does not change."""


def background(work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
    """Begins in the event loop that runs. The caller keeps the task: the event loop itself does not."""
    task = asyncio.get_running_loop().create_task(work, name=name)
    task.add_done_callback(_ended)
    return task


def running(work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
    """Begins in the event loop that runs. The caller awaits the task and handles its errors."""
    return asyncio.get_running_loop().create_task(work, name=name)


def _ended(task: asyncio.Task[Any]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        log.error(FAILED, task=task.get_name(), exc_info=error)
