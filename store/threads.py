"""The only module that makes threads, so that no thread ends unnoticed because of an unexpected error.

    lasting   for a loop in the background: the error is logged, and the loop begins again after a pause
    ending    for work that must not begin again: the error is logged, and `failed` ends the role of the thread

Every line that is logged here has the event ``thread.failed``, the name of the thread and the traceback.
tests/component/test_threads.py reads the source: no thread is made elsewhere.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from time import monotonic

import structlog

log = structlog.get_logger(__name__)

FAILED = "thread.failed"
"""Event of the log lines. Operators may have alerts for it, so it does not change."""
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0
"""Seconds before a loop begins again: doubled with each failure up to the longest."""
STEADY = 60.0
"""Seconds without an error after which the pause is the first one again."""

Over = Callable[[float], object]
"""Waits for at most so many seconds; true as soon as the thread is to end (threading.Event.wait)."""


def lasting(name: str, run: Callable[[], object], over: Over) -> threading.Thread:
    """A thread, not started, that calls `run` again whenever it raises, until it returns or until `over` is true."""
    return threading.Thread(target=persist, args=(name, run, over), name=name, daemon=True)


def ending(name: str, run: Callable[[], object], failed: Callable[[str], object] | None = None) -> threading.Thread:
    """A thread, not started, that calls `run` once. `failed` is called with the text of an unexpected error; None: no
    other part waits for the thread."""
    return threading.Thread(target=_once, args=(name, run, failed), name=name, daemon=True)


def persist(name: str, run: Callable[[], object], over: Over) -> None:
    """Runs the body of a thread of `lasting` in the calling thread, for a thread that has other work afterwards."""
    pause = FIRST_PAUSE
    while not over(0.0):
        began = monotonic()
        try:
            run()
            return
        except Exception:
            if monotonic() - began > STEADY:
                pause = FIRST_PAUSE
            log.exception(FAILED, thread=name, again_in=pause)
        over(pause)
        pause = min(pause * 2, LONGEST_PAUSE)


def harmless(name: str, action: Callable[[], object]) -> None:
    """Calls `action` and logs its error; the caller does not see the error. `name`: the part that is named in the log
    line."""
    try:
        action()
    except Exception:
        log.exception(FAILED, thread=threading.current_thread().name, part=name)


def each(name: str, actions: Iterable[Callable[[], object]]) -> None:
    """Calls all actions in order, also if one of them raises; errors are logged. Used to end something that has several
    parts."""
    for action in actions:
        harmless(name, action)


def _once(name: str, run: Callable[[], object], failed: Callable[[str], object] | None) -> None:
    try:
        run()
    except Exception as error:
        log.exception(FAILED, thread=name)
        if failed is not None:
            reason = f"thread {name} failed: {type(error).__name__}: {error}"
            harmless(f"{name}: end of the role", lambda: failed(reason))
