"""The process that starts the tasks of the embedded cluster and makes sure that none outlives it.

Runs as a script of its own, on the standard library alone. The process reads and writes JSON lines over the socket that
is its standard input. Requests:

    {"run": ID, "argv": [...], "program": PATH, "env": {...}, "cwd": DIR, "output": DIR or null, "user": NAME or null,
     "streams": null, or {"stdin": PATH, "stdout": PATH, "stderr": PATH} (named pipes), or {"terminal": PATH}}
    {"signal": ID, "number": N}
    {"destroy": ID}                    SIGKILL to the process and all that it started, in any session. The supervisor
                                       of an executor with containers is left LEAVING seconds to remove them.

and answers, in this order for each ID:

    {"started": ID, "pid": PID}  or  {"failed": ID, "error": TEXT}
    {"exited": ID, "status": as wait(2) gives it}

Each ID is a session and process group. When its first process ends, the other processes are killed. When the socket
closes, because the cluster stopped or was killed, all processes are killed in the same way; should this process itself
be killed, the kernel kills its children (PR_SET_PDEATHSIG), and the cluster ends the others (`end_marked`).
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import pwd
import selectors
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Collection
from contextlib import suppress
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
MARK = "MESOS_CONTAINER_ID"
"""Environment variable by which a process that left its session is still found."""
NOTE = ".containers"
"""File by which an executor names the process that removes its containers (docs/executor-protocol.md)."""
LEAVING = 5.0
"""Seconds for the removal of containers: they are processes of the engine, which no signal from here reaches. Executors
whose launcher was killed have the same time to end their tasks."""
STUBBORN = 10.0
"""Seconds after which processes that do not die of SIGKILL (uninterruptible sleep) are waited for no longer."""
TICK = 0.02

_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """In the child, before the program is executed."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class Launcher:
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._running: dict[int, tuple[str, subprocess.Popen[bytes]]] = {}
        self._pids: dict[str, int] = {}
        self._folders: dict[int, str] = {}
        """Working directory of each process that was started."""
        self._leaving: dict[int, float] = {}
        """Destroyed processes that may still remove containers, with the end of their time (monotonic seconds)."""

    def serve(self) -> None:
        """Until the peer closes the connection; then nothing is left running."""
        _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        wakeup_read, wakeup_write = socket.socketpair()
        for end in (wakeup_read, wakeup_write):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakeup_write.fileno(), warn_on_full_buffer=False)
        selector = selectors.DefaultSelector()
        selector.register(self._connection, selectors.EVENT_READ)
        selector.register(wakeup_read, selectors.EVENT_READ)
        buffer = b""
        while True:
            for key, _ in selector.select(self._patience()):
                if key.fileobj is wakeup_read:
                    with suppress(BlockingIOError):
                        wakeup_read.recv(4096)
                    self._reap()
                    continue
                data = self._receive()
                if not data:
                    self._kill_everything()
                    return
                *lines, buffer = (buffer + data).split(b"\n")
                for line in lines:
                    self._obey(json.loads(line))
            self._kill_overdue()

    def _patience(self) -> float | None:
        """Seconds until the time of a process that is leaving is over; None if there is none."""
        return max(0.0, min(self._leaving.values()) - time.monotonic()) if self._leaving else None

    def _kill_overdue(self) -> None:
        for pid in [pid for pid, end in self._leaving.items() if end <= time.monotonic()]:
            del self._leaving[pid]
            _destroy(pid, ())

    def _receive(self) -> bytes:
        try:
            return self._connection.recv(1 << 16)
        except OSError:
            return b""

    def _report(self, **event: object) -> None:
        with suppress(OSError):  # a peer that is gone shows at the next read
            self._connection.sendall(json.dumps(event).encode() + b"\n")

    def _obey(self, order: dict[str, Any]) -> None:
        if "run" in order:
            self._start(order)
        elif "destroy" in order:
            if order["destroy"] in self._pids:
                self._destroy(self._pids[order["destroy"]])
        elif order["signal"] in self._pids:
            with suppress(ProcessLookupError):
                os.killpg(self._pids[order["signal"]], order["number"])

    def _destroy(self, root: int) -> None:
        spared = _guardians(root, self._folders[root])
        _destroy(root, spared)
        if spared:
            self._leaving.setdefault(root, time.monotonic() + LEAVING)

    def _start(self, order: dict[str, Any]) -> None:
        name = order["run"]
        try:
            process = _spawn(order)
        except (OSError, ValueError, LookupError, subprocess.SubprocessError) as error:
            self._report(failed=name, error=str(error))
            return
        self._running[process.pid] = (name, process)
        self._pids[name] = process.pid
        self._folders[process.pid] = order["cwd"]
        self._report(started=name, pid=process.pid)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            name, process = self._running.pop(pid, ("", None))
            if process is None:
                continue  # an orphan of a task
            process.returncode = os.waitstatus_to_exitcode(status)  # or Popen would wait for it once more
            del self._pids[name]
            del self._folders[pid]
            self._leaving.pop(pid, None)
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
            for orphan in _children():
                if _container(orphan) == name:
                    _kill(orphan)
            self._report(exited=name, status=status)

    def _kill_everything(self) -> None:
        """Kills all processes, also those that have left their group: all orphans become children of this process,
        until there are none."""
        for root in list(self._running):
            self._destroy(root)
        while True:
            self._kill_overdue()
            for pid in [pid for pid in self._running if pid not in self._leaving]:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)
            for pid in [pid for pid in _children() if pid not in self._leaving]:
                _kill(pid)
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG if self._leaving else 0)
            except ChildProcessError:
                return
            if pid == 0:
                time.sleep(TICK)
            self._running.pop(pid, None)
            self._leaving.pop(pid, None)


def _spawn(order: dict[str, Any]) -> subprocess.Popen[bytes]:
    output = order["output"]
    stdin = stdout = stderr = subprocess.DEVNULL
    opened: list[int] = []
    prepare = die_with_parent
    try:
        if order["streams"] is not None:
            opened = _streams(order["streams"])
            stdin, stdout, stderr = opened[0], opened[1 % len(opened)], opened[2 % len(opened)]
            if "terminal" in order["streams"]:
                stdout = stderr = stdin
                prepare = _control_terminal
        elif output is not None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            opened = [os.open(os.path.join(output, name), flags, 0o644) for name in ("stdout", "stderr")]
            stdout, stderr = opened
        options: dict[str, Any] = {}
        if order["user"] is not None:
            options = _identity(order["user"])
        return subprocess.Popen(
            order["argv"],
            executable=order["program"],
            env=order["env"],
            cwd=order["cwd"],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            preexec_fn=prepare,  # this process has one thread
            **options,
        )
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _streams(paths: dict[str, str]) -> list[int]:
    """Opens the streams of a session. The sender of the request reads the pipes already, so opening them does not
    wait."""
    if "terminal" in paths:
        return [os.open(paths["terminal"], os.O_RDWR | os.O_NOCTTY)]
    stdin = os.open(paths["stdin"], os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(stdin, True)
    return [stdin, os.open(paths["stdout"], os.O_WRONLY), os.open(paths["stderr"], os.O_WRONLY)]


def _control_terminal() -> None:
    """Runs in the child, whose session has no terminal yet: makes its standard input the terminal."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    die_with_parent()


def _identity(user: str) -> dict[str, Any]:
    entry = pwd.getpwnam(user)
    groups = os.getgrouplist(user, entry.pw_gid)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": groups}


def _children() -> list[int]:
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(pid) for pid in file.read().split()]


def _guardians(root: int, folder: str) -> list[int]:
    """The process that removes the containers of the executor in this folder, and its ancestors up to `root`. Empty if
    there are no containers, or the process is not a descendant."""
    try:
        with open(os.path.join(folder, NOTE)) as file:
            pid = json.load(file)["supervisor"]
    except (OSError, ValueError, LookupError, TypeError):
        return []
    chain = [pid]
    tree = _tree(root)
    while chain[-1] != root:
        if chain[-1] not in tree:
            return []
        chain.append(_parent(chain[-1]))
    return chain


def _parent(pid: int) -> int:
    """0 if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _destroy(root: int, spared: Collection[int]) -> None:
    """Kills a process and its descendants, except the spared ones. All of them are stopped first, until no new one is
    found: a stopped process starts no others."""
    stopped: list[int] = []
    while found := [pid for pid in _tree(root) if pid not in stopped and pid not in spared]:
        for pid in found:
            _kill(pid, signal.SIGSTOP)
        stopped += found
    for pid in stopped:
        _kill(pid)


def _tree(root: int) -> list[int]:
    """The process and its descendants, parents first."""
    found = [root]
    for pid in found:
        with suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/children") as file:
                    found += [int(child) for child in file.read().split()]
    return found


def _container(pid: int) -> str | None:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            for entry in file.read().split(b"\0"):
                if entry.startswith(MARK.encode() + b"="):
                    return entry.partition(b"=")[2].decode(errors="replace")
    except OSError:
        pass
    return None


def end_marked(containers: Collection[str]) -> None:
    """After the launcher was killed: returns when no process of these containers is left. An executor that has lost its
    parent ends its tasks, and then itself; the processes that are left after LEAVING seconds are killed."""
    began = time.monotonic()
    while found := _marked(containers):
        spent = time.monotonic() - began
        if spent > LEAVING + STUBBORN:
            return
        if spent > LEAVING:
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for pid in found:
                    _kill(pid, number)
        time.sleep(TICK)


def _marked(containers: Collection[str]) -> list[int]:
    pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    return [pid for pid in pids if _container(pid) in containers]


def _kill(pid: int, number: int = signal.SIGKILL) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)  # the cluster decides when to stop; SIG_IGN would be inherited
    Launcher(socket.socket(fileno=os.dup(sys.stdin.fileno()))).serve()
