"""The warden: the parent of the executor, which outlives it for a moment so that nothing else does.

The process that Mesos starts forks before anything heavy is imported; the child becomes the executor, the parent stays
as warden. The warden is a child subreaper (prctl(2), PR_SET_CHILD_SUBREAPER): whatever a task leaves behind by
forking away or changing its session becomes a child of the warden. So

* the warden collects daemons and tells the executor how they ended, over a pipe,
* when the executor ends, however it ends, the warden kills all that is left,
* when the warden ends, the pipe does, and the executor kills all that is left.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from typing import NamedTuple, NoReturn

from . import cgrouptree, proctree
from .docker import note

PR_SET_CHILD_SUBREAPER = 36
"""prctl.h of Linux 3.4 and newer."""
SWITCH = "BCS_EXECUTOR_CGROUPS"
"""Variable that keeps the executor from making control groups, where others own them: `off`."""
STUBBORN = 10.0
"""Seconds after which processes that do not die of SIGKILL (uninterruptible sleep) are waited for no longer. What
contains the warden, the agent's isolation, is the last to try."""
STEP = 0.02
FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Watched(NamedTuple):
    """What the executor knows of its warden."""

    pid: int
    pipe: int
    """Lines `<pid> <wait status>` of orphans that were collected; end of file = the warden is gone."""
    run: str
    """Names this run of the executor; no other on this machine has the same."""
    cgroup: str
    """Where the executor may make control groups; empty = nowhere."""


def split() -> Watched:
    """Forks. Returns in the child only; the parent stays in here as the warden and ends the process itself."""
    libc = ctypes.CDLL(None, use_errno=True)
    subreaper = libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    itself = os.getpid()
    own = proctree.process(itself)
    run = f"{itself}-{own.started if own else 0}"
    cgroup = "" if os.environ.get(SWITCH) == "off" else cgrouptree.create(run)
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(reading)
        _guard(child, writing, cgroup)
    os.close(writing)
    os.setsid()  # a signal to the process group of one must not end both at once
    if not subreaper:
        print("no child subreaper on this kernel: daemons are found by their environment only", file=sys.stderr)
    return Watched(itself, reading, run, cgroup)


def _guard(executor: int, pipe: int, cgroup: str) -> NoReturn:
    for number in FORWARDED:
        signal.signal(number, lambda received, _frame: proctree.send(executor, received))
    # A reader that is gone or stuck must not stop the warden.
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    os.set_blocking(pipe, False)
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == executor:
            break
        try:
            os.write(pipe, b"%d %d\n" % (pid, status))
        except OSError:
            continue
    kill_descendants(cgroup)
    cgrouptree.remove(cgroup)
    note.follow(os.environ.get("MESOS_SANDBOX") or ".")  # containers descend from their engine, not from here
    code = os.waitstatus_to_exitcode(status)
    sys.stdout.flush()
    os._exit(code if code >= 0 else 128 - code)


def kill_descendants(cgroup: str) -> None:
    """Returns when the calling process has no children left, or after STUBBORN seconds. Stops them first: what is
    stopped forks no more."""
    deadline = time.monotonic() + STUBBORN
    while time.monotonic() < deadline:
        cgrouptree.kill(cgroup)
        alive = [item for item in proctree.descendants(os.getpid()) if not item.dead]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for item in alive:
                proctree.send(item.pid, number)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(STEP)
    print("processes of the taskgroup could not be killed", file=sys.stderr, flush=True)
