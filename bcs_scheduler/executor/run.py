"""Commands that end in time, with all they started and with as much of their output as was asked for."""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from .processes import process_tree
from .runtime import Output, TaskError

CHUNK = 65536
TICK = 0.02
"""Seconds between two looks at a command that is silent."""
DRAIN = 0.2
"""Seconds for the rest in the pipes of a command that has ended."""
MARK = "BCS_COMMAND_RUN"
"""Variable that marks all processes that a command started, wherever they have gone."""
KILLING = 5.0
"""Seconds until processes that do not even end by SIGKILL (waiting for a dead disk) are left alone."""


class Identity(NamedTuple):
    """The user and groups of a process."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str

    @property
    def own(self) -> bool:
        """True if the executor is this user already, so that nothing has to be changed."""
        return self.uid == os.geteuid() and self.gid == os.getegid()


def identity(user: str) -> Identity:
    """The identity of a user by name, number, or `user:group`; "" is the executor's own.

    Raises TaskError for users that do not exist and users that the executor may not become.
    """
    if not user:
        return Identity(os.geteuid(), os.getegid(), tuple(os.getgroups()), os.path.expanduser("~"))
    name, _, group = user.partition(":")
    found = _user(name)
    if group:
        found = found._replace(gid=_group(group))
    if os.geteuid() != 0 and not found.own:
        raise TaskError(f"user {user!r}: the executor does not run as root and cannot become another user")
    return found


def _user(name: str) -> Identity:
    try:
        entry = pwd.getpwuid(int(name)) if name.isdecimal() else pwd.getpwnam(name)
    except (KeyError, OverflowError):
        if name.isdecimal() and int(name) < 2**32 - 1:  # numbers need no entry; the highest means "unchanged"
            return Identity(int(name), int(name), (), "/")
        raise TaskError(f"user {name!r} does not exist on the agent") from None
    return Identity(entry.pw_uid, entry.pw_gid, tuple(os.getgrouplist(entry.pw_name, entry.pw_gid)), entry.pw_dir)


def _group(name: str) -> int:
    if name.isdecimal() and int(name) < 2**32 - 1:
        return int(name)
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise TaskError(f"group {name!r} does not exist on the agent") from None


def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str | Path,
    user: str = "",
    timeout: float,
    limit: int,
    setup: Callable[[], None] | None = None,
    stopping: threading.Event | None = None,
    keep: bool = False,
    below: int = 0,
) -> Output:
    """Runs a command to its end, at most `timeout` seconds; of each stream the first `limit` bytes are kept.

    At the time-out the command is killed with all processes that it started. Processes that it leaves running when it
    ends by itself are killed too unless `keep`, for commands whose purpose is to start a daemon. `setup` runs in the
    child, before it becomes `user`; it must make system calls only (other threads may hold locks). `stopping` ends it
    early. `below` is the child subreaper that everything it starts stays below; 0 = there is none, so that all of /proc
    has to be searched.

    Raises TaskError if it cannot be started, or was given up because of `stopping`.
    """
    deadline = time.monotonic() + timeout
    mark = f"{MARK}={os.urandom(16).hex()}"
    process = _started(argv, {**env, MARK: mark.partition("=")[2]}, str(cwd), identity(user), setup)
    streams = _Streams(process, limit)
    try:
        ended = _wait(process, streams, deadline, stopping)
        if not ended or not keep:
            kill_session(process.pid, mark, below)
        code = process.wait() if ended else _reaped(process)
    finally:
        streams.close()
    if not ended and stopping is not None and stopping.is_set():
        raise TaskError("the command was given up: the task is being stopped")
    return Output(code if ended else None, streams.kept(0), streams.kept(1), streams.truncated, timed_out=not ended)


def _started(
    argv: Sequence[str], env: dict[str, str], cwd: str, who: Identity, setup: Callable[[], None] | None
) -> subprocess.Popen[bytes]:
    if not argv or not argv[0]:
        raise TaskError("there is no command to run")
    if not os.path.isdir(cwd):
        raise TaskError(f"the working directory {cwd} does not exist")

    def prepare() -> None:
        if setup is not None:
            setup()
        if not who.own:
            os.setgroups(who.groups)
            os.setgid(who.gid)
            os.setuid(who.uid)

    try:
        return subprocess.Popen(
            list(argv),
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=None if setup is None and who.own else prepare,
        )
    except FileNotFoundError:
        raise TaskError(f"{argv[0]}: no such program") from None
    except PermissionError:
        raise TaskError(f"{argv[0]}: may not be executed (in {cwd})") from None
    except OSError as error:
        raise TaskError(f"{argv[0]}: {error.strerror or error}") from None
    except ValueError as error:
        raise TaskError(f"{argv[0]}: {error}") from None
    except subprocess.SubprocessError:
        raise TaskError(f"{argv[0]}: not started, because its user or its limits could not be set") from None


def _wait(
    process: subprocess.Popen[bytes], streams: _Streams, deadline: float, stopping: threading.Event | None
) -> bool:
    """Reads until the command has ended; False if it had to be given up. Leaves it unreaped, so that its number, which
    is that of its session, cannot be given to another process while the rest of the session is killed."""
    while not _exited(process):
        left = deadline - time.monotonic()
        if left <= 0 or (stopping is not None and stopping.is_set()):
            return False
        streams.read(min(left, TICK))
    drained = time.monotonic() + DRAIN
    while streams.open and time.monotonic() < drained and streams.read(0):
        pass
    return True


def _exited(process: subprocess.Popen[bytes]) -> bool:
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _reaped(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(KILLING)
    except subprocess.TimeoutExpired:
        return None


class _Streams:
    """The two outputs of a command: read without bound, so that it never blocks, kept up to the limit."""

    def __init__(self, process: subprocess.Popen[bytes], limit: int) -> None:
        self._limit = limit
        self._kept = (bytearray(), bytearray())
        self._selector = selectors.DefaultSelector()
        self._pipes = tuple(cast("IO[bytes]", pipe) for pipe in (process.stdout, process.stderr))
        self.truncated = False
        for pipe, kept in zip(self._pipes, self._kept):
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_READ, kept)

    @property
    def open(self) -> bool:
        return bool(self._selector.get_map())

    def kept(self, stream: int) -> bytes:
        return bytes(self._kept[stream])

    def read(self, seconds: float) -> bool:
        """Waits for output at most so long; whether there was any."""
        if not self.open:
            time.sleep(seconds)
            return False
        found = False
        for key, _ in self._selector.select(seconds):
            with contextlib.suppress(BlockingIOError):
                found |= self._take(key.fileobj, os.read(key.fd, CHUNK), key.data)
        return found

    def _take(self, pipe: Any, data: bytes, kept: bytearray) -> bool:
        if not data:
            self._selector.unregister(pipe)
            return False
        space = self._limit - len(kept)
        kept += data[: max(0, space)]
        self.truncated |= len(data) > space
        return True

    def close(self) -> None:
        self._selector.close()
        for pipe in self._pipes:
            pipe.close()


def kill_session(leader: int, mark: str = "", below: int = 0) -> None:
    """Kills the session of that process, which must not have been reaped yet, all that descends from its members, and
    processes that were started since with `mark` in their environment: daemons that left the session and lost their
    parents.

    Members are looked for again until there are none, because they may be starting others meanwhile.
    """
    deadline = time.monotonic() + KILLING
    while True:
        members = _members(leader, mark.encode(), below)
        if not members or time.monotonic() > deadline:
            return
        for pid in members:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(TICK / 4)


def _members(leader: int, mark: bytes, below: int) -> list[int]:
    """Living processes that belong to the session. Zombies lead to their children but need no killing."""
    table = {item.pid: item for item in (process_tree.descendants(below) if below else process_tree.every())}
    children: dict[int, list[int]] = {}
    for pid, process in table.items():
        children.setdefault(process.parent, []).append(pid)
    since = table[leader].started if leader in table else 0
    found = {pid for pid, process in table.items() if leader in (pid, process.session)}
    if mark:
        found |= {pid for pid, process in table.items() if process.started >= since and _marked(pid, mark)}
    todo = list(found)
    while todo:
        offspring = [pid for pid in children.get(todo.pop(), ()) if pid not in found]
        found.update(offspring)
        todo += offspring
    return [pid for pid in found if not table[pid].dead]


def _marked(pid: int, mark: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return mark in file.read().split(b"\0")
    except OSError:
        return False
