"""The fence around unit tests: a test that starts a thread or a process, or opens a server, fails. Such tests belong to
tests/component, so that tests/unit stays fast and depends on nothing but the processor."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

REFUSED = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "socket.bind"})
"""Events of Python's audit hooks. Of the start of a thread Python 3.11 makes none: see `_started`."""


class Fence:
    """Refuses the events while `armed`, and remembers the refused ones: the code under test may catch the error."""

    def __init__(self) -> None:
        self.armed = False
        self.refused: list[str] = []

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Raises AssertionError for a refused event."""
        if event in REFUSED:
            self.check(event)

    def check(self, event: str) -> None:
        """Raises AssertionError during a unit test. Threads that tests of other folders have left behind here
        go on with their work: only what the test itself starts is refused."""
        if not self.armed or threading.current_thread() is not threading.main_thread():
            return
        self.refused.append(event)
        raise AssertionError(f"{event} in a unit test: move the test to tests/component")


_FENCE = Fence()
_start_thread = threading.Thread.start


def _started(thread: threading.Thread) -> None:
    _FENCE.check(f"thread {thread.name}")
    _start_thread(thread)


sys.addaudithook(_FENCE.audit)
threading.Thread.start = _started  # type: ignore[method-assign, assignment]


@pytest.fixture(autouse=True)
def fence() -> Iterator[Fence]:
    _FENCE.armed, _FENCE.refused = True, []
    yield _FENCE
    _FENCE.armed = False
    assert not _FENCE.refused, f"{_FENCE.refused}: move the test to tests/component"
