"""Reading /proc: children of processes, living processes, used memory.

Imports nothing but `os`, because the supervisor uses it too and must stay small.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

PAGE = os.sysconf("SC_PAGE_SIZE")
FORKED = 0x40
"""PF_FORKNOEXEC of the kernel (include/linux/sched.h), a flag of a process that has not called exec(2) since it was
forked."""


class Process(NamedTuple):
    """A process as it is now. Pid and start time (clock ticks since boot) together are never used twice."""

    pid: int
    parent: int
    group: int
    session: int
    state: str
    started: int
    name: str
    forked: bool = False
    """The process still runs the program of its parent, and its memory is a copy of that of its parent."""

    @property
    def identity(self) -> tuple[int, int]:
        return self.pid, self.started

    @property
    def dead(self) -> bool:
        """A zombie runs no more; it waits only to be collected."""
        return self.state in "ZX"


def process(pid: int) -> Process | None:
    """Returns the process with that pid; None = there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    # The name in parentheses may contain blanks and parentheses itself.
    opening, closing = text.find(b"("), text.rfind(b")")
    rest = text[closing + 2 :].split()
    if len(rest) < 20:
        return None
    name = text[opening + 1 : closing].decode(errors="replace")
    parent, group, session, forked = int(rest[1]), int(rest[2]), int(rest[3]), bool(int(rest[6]) & FORKED)
    return Process(pid, parent, group, session, rest[0].decode(), int(rest[19]), name, forked)


def every() -> Iterator[Process]:
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            found = process(int(entry))
            if found is not None:
                yield found


def children(pid: int) -> list[int]:
    """Pids of the children of a process, from /proc/PID/task/*/children (Linux 4.2, CONFIG_PROC_CHILDREN); without it
    the whole of /proc is read."""
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found.extend(map(int, file.read().split()))
        except FileNotFoundError:
            if os.path.exists(f"/proc/{pid}/task/{thread}"):
                return [item.pid for item in every() if item.parent == pid]
        except OSError:
            continue
    return found


def descendants(root: int) -> list[Process]:
    """All below `root`, parents before their children, zombies included."""
    found: list[Process] = []
    seen = {root}
    waiting = [root]
    while waiting:
        for pid in children(waiting.pop(0)):
            item = process(pid) if pid not in seen else None
            if item is not None:
                seen.add(pid)
                found.append(item)
                waiting.append(pid)
    return found


def executable(pid: int) -> str:
    """Base name of the program file; empty when it cannot be read."""
    try:
        path = os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""
    # The kernel marks a file that was replaced on disk while its program runs.
    return os.path.basename(path[: -len(" (deleted)")] if path.endswith(" (deleted)") else path)


def command_line(pid: int) -> bytes:
    """The command line with a NUL character after each argument; empty when it cannot be read."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


def variable(pid: int, name: str) -> str:
    """A variable of the environment the process was started with; empty when absent or unreadable."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            environment = file.read()
    except OSError:
        return ""
    prefix = name.encode() + b"="
    for item in environment.split(b"\0"):
        if item.startswith(prefix):
            return item[len(prefix) :].decode(errors="replace")
    return ""


def own_memory(pids: Iterable[int]) -> int:
    """Bytes of memory resident and not shared with files, summed. Shared memory (program text, mapped files) would be
    counted once per process, and the kernel can drop it anyway."""
    pages = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/statm", "rb") as file:
                fields = file.read().split()
        except OSError:
            continue
        if len(fields) > 2:
            pages += int(fields[1]) - int(fields[2])
    return pages * PAGE


def send(pid: int, number: int) -> bool:
    """False = it is gone, or not ours to signal."""
    try:
        os.kill(pid, number)
    except OSError:
        return False
    return True
