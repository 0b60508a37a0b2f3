"""Waiting for conditions in tests: never for an amount of time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

POLL = 0.02


def wait_for(condition: Callable[[], T], seconds: float = 60.0, what: str | Callable[[], str] = "the condition") -> T:
    """The first true value of `condition`. Fails the test after `seconds`, saying `what` was waited for."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds} s in vain for {what if isinstance(what, str) else what()}")
        time.sleep(POLL)
