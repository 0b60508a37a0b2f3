"""tests/unit/conftest.py: threads, processes and servers are refused in unit tests, also where the error is caught."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.unit.conftest import Fence


def a_server() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))


@pytest.mark.parametrize(
    "start",
    [
        a_server,
        lambda: threading.Thread(target=print).start(),
        lambda: threading.Timer(0.0, print).start(),
        lambda: ThreadPoolExecutor().submit(print),
        lambda: subprocess.run([sys.executable, "-V"], check=True),
        lambda: os.system("true"),
        lambda: os.fork(),
    ],
)
def test_what_a_unit_test_must_not_start_is_refused(start: Callable[[], object], fence: Fence) -> None:
    with pytest.raises(AssertionError, match="tests/component"):
        start()
    assert len(fence.refused) == 1
    fence.refused.clear()


def test_the_fence_is_closed_only_during_a_unit_test(fence: Fence) -> None:
    fence.armed = False
    a_server()
    assert fence.refused == []


def test_threads_that_other_tests_have_left_behind_go_on(fence: Fence) -> None:
    fence.armed = False
    thread = threading.Thread(target=lambda: (go.wait(10), a_server()))  # type: ignore[func-returns-value]
    go = threading.Event()
    thread.start()
    fence.armed = True
    go.set()
    thread.join()
    assert fence.refused == []
