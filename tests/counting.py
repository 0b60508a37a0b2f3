"""Exact costs: calls and lines of Python that this thread executes, whatever else the machine does.

The garbage collector rests meanwhile: its callbacks (Hypothesis has one) and finalizers are Python as well.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def _without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Calls:
    """Counts calls of Python functions in `number`, while used as a context."""

    def __init__(self) -> None:
        self.number = 0

    def __enter__(self) -> Calls:
        self._quiet = _without_collector()
        self._quiet.__enter__()
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        self._quiet.__exit__(None, None, None)

    def _count(self, frame: FrameType, what: str, argument: Any) -> None:
        self.number += what == "call"


def lines(work: Callable[[], object]) -> int:
    """Lines of Python that `work` executes."""
    count = 0

    def trace(frame: FrameType, what: str, value: object) -> Any:
        nonlocal count
        count += what == "line"
        return trace

    with _without_collector():
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            work()
        finally:
            sys.settrace(before)
    return count
