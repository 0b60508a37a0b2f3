"""Waiting for conditions in tests: never for an amount of time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal, TypeVar

T = TypeVar("T")

LEAST, MOST = 0.01, 0.1
"""Seconds between two looks at a condition."""
SHARE = 0.1
"""The same as a part of the time waited so far. Conditions are often requests to a program under test: asked fifty
times a second for seconds, they would take the processors from the programs that the tests wait for."""


def wait_for(
    condition: Callable[[], T | Literal[False] | None],
    seconds: float = 60.0,
    what: str | Callable[[], str] = "the condition",
) -> T:
    """The first true value of `condition`. Fails the test after `seconds`, saying `what` was waited for."""
    began = time.monotonic()
    while True:
        value = condition()
        if value:
            return value
        waited = time.monotonic() - began
        if waited > seconds:
            raise AssertionError(f"waited {seconds} s in vain for {what if isinstance(what, str) else what()}")
        time.sleep(min(MOST, max(LEAST, SHARE * waited)))
