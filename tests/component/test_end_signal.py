"""bcs_scheduler.foreground.EndSignal: no signal is lost, however early it comes."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, threading
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


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
@pytest.mark.parametrize("send", [BEFORE, TO_ANOTHER_THREAD], ids=["before", "to-another-thread"])
def test_a_signal_is_not_lost(send: str, name: str) -> None:
    """Waiting for an event instead does not see a signal that another thread has caught."""
    program = PROGRAM.format(send=send.format(name=name))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr
