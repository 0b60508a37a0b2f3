"""Looking at processes through /proc."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

import pytest

from bcs_scheduler import processes
from tests.waiting import wait_for

SCRIPT = """
import os, signal, subprocess, sys
from bcs_scheduler import processes
processes.adopt_orphans()
# A child that ends at once and leaves a grandchild behind, which ignores SIGTERM.
inner = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
outer = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {inner!r}])"
child = subprocess.Popen([sys.executable, "-c", outer], stdout=subprocess.PIPE, text=True)
assert child.stdout.readline() == "up\\n"
child.wait()
left = processes.living_descendants(os.getpid())
assert len(left) == 1, left
processes.GRACE = 0.0
processes.end_descendants()
print(left[0], *processes.living_descendants(os.getpid()))
"""


def test_a_listener_is_found_by_its_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert processes.listener(port) == os.getpid()
    assert processes.listener(port) is None


def test_free_ports_leave_taken_ones_out() -> None:
    first = processes.free_ports(10, 3, 1000)
    with socket.create_server(("127.0.0.1", first + 1003)):
        second = processes.free_ports(10, 3, 1000)
    assert second > first
    with pytest.raises(OSError, match="no 3 times 10 free ports"):
        processes.free_ports(10, 3, 1000, low=20000, high=23000)


def test_descendants_and_life() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert child.pid in processes.descendants(os.getpid())
        assert processes.alive(child.pid)
        child.send_signal(signal.SIGKILL)
        wait_for(lambda: not processes.alive(child.pid), what="the zombie to count as ended")
    finally:
        child.kill()
        child.communicate()
    assert not processes.alive(child.pid)


def test_orphans_are_adopted_and_ended() -> None:
    made = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=False)
    assert made.returncode == 0, made.stderr
    (orphan,) = map(int, made.stdout.split())
    assert not processes.alive(orphan)
