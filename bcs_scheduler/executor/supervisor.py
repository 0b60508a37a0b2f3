"""The supervisor: the parent of the executor. It outlives the executor for a moment, so that no other process does.

The process that Mesos starts forks before anything heavy is imported; the child becomes the executor, the parent stays
as supervisor. The supervisor is a child subreaper (prctl(2), PR_SET_CHILD_SUBREAPER): each process that a task leaves
behind by forking away or changing its session becomes a child of the supervisor. So

* the supervisor collects daemons and reports their ends to the executor over a pipe,
* when the executor ends, for any reason, the supervisor kills all processes that are left, and removes secret files,
* when the supervisor ends, the pipe ends, and the executor does the same.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from typing import NamedTuple, NoReturn

from .content import secrets
from .docker import note
from .processes import control_groups, process_tree

PR_SET_CHILD_SUBREAPER = 36
"""prctl.h of Linux 3.4 and newer."""
SWITCH = "BCS_EXECUTOR_CGROUPS"
"""Variable that keeps the executor from making control groups, where others own them: `off`."""
STUBBORN = 10.0
"""Seconds after which processes that do not die of SIGKILL (uninterruptible sleep) are waited for no longer. The
isolation of the agent, which contains the supervisor, tries last."""
STEP = 0.02
FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Watched(NamedTuple):
    """The executor's knowledge of its supervisor."""

    pid: int
    pipe: int
    """Lines `<pid> <wait status>` of orphans that were collected; end of file = the supervisor is gone."""
    run: str
    """Names this run of the executor; no other on this machine has the same."""
    cgroup: str
    """Directory in which the executor may make control groups; empty = nowhere."""
    secrets: str
    """Folder in memory for secret files, which the executor makes when it has one."""


def split() -> Watched:
    """Forks. Returns in the child only; the parent stays in this function as the supervisor and ends the process
    itself."""
    libc = ctypes.CDLL(None, use_errno=True)
    subreaper = libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    itself = os.getpid()
    own = process_tree.process(itself)
    run = f"{itself}-{own.started if own else 0}"
    cgroup = "" if os.environ.get(SWITCH) == "off" else control_groups.create(run)
    folder = secrets.new_folder(run)
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(reading)
        _guard(child, writing, cgroup, folder)
    os.close(writing)
    os.setsid()  # a signal to the process group of one must not end both at once
    if not subreaper:
        print("no child subreaper on this kernel: daemons are found by their environment only", file=sys.stderr)
    return Watched(itself, reading, run, cgroup, folder)


def _guard(executor: int, pipe: int, cgroup: str, folder: str) -> NoReturn:
    for number in FORWARDED:
        signal.signal(number, lambda received, _frame: process_tree.send(executor, received))
    # A reader that is gone or stuck must not stop the supervisor.
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
    control_groups.remove(cgroup)
    secrets.remove(folder)
    note.follow(os.environ.get("MESOS_SANDBOX") or ".")  # containers descend from their engine, not from here
    code = os.waitstatus_to_exitcode(status)
    sys.stdout.flush()
    os._exit(code if code >= 0 else 128 - code)


def kill_descendants(cgroup: str) -> None:
    """Returns when the calling process has no children left, or after STUBBORN seconds. Stops them first: a stopped
    process does not fork."""
    deadline = time.monotonic() + STUBBORN
    while time.monotonic() < deadline:
        control_groups.kill(cgroup)
        alive = [item for item in process_tree.descendants(os.getpid()) if not item.dead]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for item in alive:
                process_tree.send(item.pid, number)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(STEP)
    print("processes of the taskgroup could not be killed", file=sys.stderr, flush=True)
