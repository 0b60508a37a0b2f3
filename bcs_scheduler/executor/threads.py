"""All threads of the executor begin here, so none of them ends unnoticed because of an unexpected error.

This module replaces store/threads.py of the scheduler with the standard library alone: the executor is shipped as one
file. The text of an unexpected error may quote confidential content, so the log names its type and the place, not the
text.
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable

log = logging.getLogger("executor")

FIRST_PAUSE = 0.2
LONGEST_PAUSE = 10.0
"""Seconds before a loop begins again: doubled with each failure up to the longest."""

Over = Callable[[float], object]
"""Waits for at most so many seconds; true as soon as the thread is to end (threading.Event.wait)."""


def never(seconds: float) -> bool:
    """Waits without an end. Runs in a thread that lives as long as the process."""
    threading.Event().wait(seconds)
    return False


def lasting(name: str, run: Callable[[], object], over: Over = never) -> threading.Thread:
    """A thread, not started, that calls `run` again whenever it raises, until it returns or until `over` is true."""
    return threading.Thread(target=_persist, args=(name, run, over), name=name, daemon=True)


def ending(name: str, run: Callable[[], object]) -> threading.Thread:
    """A thread, not started, that calls `run` once. An unexpected error is logged; `run` leaves nothing waiting."""
    return threading.Thread(target=guarded, args=(name, run), name=name, daemon=True)


def guarded(name: str, run: Callable[[], object]) -> bool:
    """Calls `run`; False if it has raised, which is logged."""
    try:
        run()
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        log.error("thread.failed: %s: %s at %s:%s", name, type(error).__name__, place.filename, place.lineno)
        return False
    return True


def _persist(name: str, run: Callable[[], object], over: Over) -> None:
    pause = FIRST_PAUSE
    while not over(0.0):
        if guarded(name, run):
            return
        over(pause)
        pause = min(pause * 2, LONGEST_PAUSE)
