"""bcs_scheduler.foreground.EndSignal: no signal is lost, however early it comes."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

DEFAULT = "signal.signal(signal.SIGHUP, signal.SIG_DFL)"
"""Tests may run with `nohup`."""
PROGRAM = """
import os, signal, threading
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from bcs_scheduler.foreground import EndSignal

end = EndSignal()
{send}
end.wait()
print("ended")
"""
BEFORE = "os.kill(os.getpid(), signal.{name})"
TO_ANOTHER_THREAD = """
asleep = threading.Event()
thread = threading.Thread(target=asleep.wait, daemon=True)
thread.start()
signal.pthread_kill(thread.ident, signal.{name})
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
@pytest.mark.parametrize("send", [BEFORE, TO_ANOTHER_THREAD], ids=["before", "to-another-thread"])
def test_a_signal_is_not_lost(send: str, name: str) -> None:
    """Waiting for an event instead does not see a signal that another thread has caught."""
    program = PROGRAM.format(send=send.format(name=name))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr


HANGUP = """
import os, signal
{before}
from bcs_scheduler.foreground import EndSignal

end = EndSignal()
os.kill(os.getpid(), signal.SIGHUP)
os.kill(os.getpid(), signal.SIGTERM)
end.wait()
end._caught.setblocking(False)
try:
    print(list(end._caught.recv(8)))
except BlockingIOError:
    print([])
"""
NOHUP = "signal.signal(signal.SIGHUP, signal.SIG_IGN)"


@pytest.mark.parametrize(("before", "left"), [(DEFAULT, [int(signal.SIGTERM)]), (NOHUP, [])], ids=["terminal", "nohup"])
def test_a_process_without_a_terminal_outlives_the_terminal(before: str, left: list[int]) -> None:
    """`left`: signals that have not ended the wait."""
    program = HANGUP.format(before=before)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (0, f"{left}\n"), done.stderr
