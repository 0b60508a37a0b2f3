"""Reads /proc: the listening ports and the children of processes. Linux only."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from pathlib import Path

PROC = Path("/proc")
LISTEN = "0A"
"""State of a listening socket in /proc/net/tcp."""
PR_SET_CHILD_SUBREAPER = 36
"""Of linux/prctl.h."""
GRACE = 3.0
"""Seconds a process tree has to end by itself before it is killed."""


def listener(port: int) -> int | None:
    """The process that listens on a TCP port; None if there is none, or it is not ours to see."""
    inodes = {f"socket:[{inode}]" for table in ("tcp", "tcp6") for inode in _listening(PROC / "net" / table, port)}
    for pid in _pids():
        try:
            if any(os.readlink(handle) in inodes for handle in (PROC / str(pid) / "fd").iterdir()):
                return pid
        except OSError:  # gone in the meantime, or another user's
            continue
    return None


def descendants(pid: int) -> list[int]:
    """All children of a process, their children, and so on."""
    children: dict[int, list[int]] = {}
    for candidate, fields in every_stat().items():
        children.setdefault(int(fields[1]), []).append(candidate)
    found, open_ends = [], [pid]
    while open_ends:
        next_ones = children.get(open_ends.pop(), [])
        found += next_ones
        open_ends += next_ones
    return found


def alive(pid: int) -> bool:
    """It exists and has not ended (a zombie has)."""
    fields = _stat(pid)
    return bool(fields) and fields[0] != "Z"


def adopt_orphans() -> None:
    """From now on descendants whose parent ends become children of this process, so none gets lost (prctl(2))."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot adopt orphans")


def living_descendants(pid: int) -> list[int]:
    return [member for member in descendants(pid) if alive(member)]


def end_descendants() -> None:
    """Ends everything below this process: SIGTERM to its children, SIGKILL to the remaining processes after a while."""
    me = os.getpid()
    for child in living_descendants(me):
        if _stat(child)[1:2] == [str(me)]:
            _send(child, signal.SIGTERM)
    deadline = time.monotonic() + GRACE
    while left := living_descendants(me):
        for member in left if time.monotonic() > deadline else ():
            _send(member, signal.SIGKILL)
        time.sleep(0.05)


def free_ports(count: int, blocks: int, stride: int, low: int = 20000, high: int = 32000) -> int:
    """The first of `count` free ports in a row, `blocks` times, `stride` apart. Raises OSError if there are none.

    `high` is below the ports the kernel gives to outgoing connections.
    """
    taken = {int(row[1].rpartition(":")[2], 16) for table in ("tcp", "tcp6") for row in _rows(PROC / "net" / table)}
    for first in range(low, high - blocks * stride, count):
        if not any(first <= port - block * stride < first + count for port in taken for block in range(blocks)):
            return first
    raise OSError(f"no {blocks} times {count} free ports between {low} and {high}")


def _listening(table: Path, port: int) -> list[str]:
    """Socket inodes of a kernel table (proc(5)): fields 1, 3 and 9 are local address, state and inode."""
    return [row[9] for row in _rows(table) if row[3] == LISTEN and int(row[1].rpartition(":")[2], 16) == port]


def _rows(table: Path) -> list[list[str]]:
    try:
        return [line.split() for line in table.read_text().splitlines()[1:]]
    except OSError:
        return []


def _pids() -> list[int]:
    return [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()]


def every_stat() -> dict[int, list[str]]:
    """Of every process its fields of /proc/<pid>/stat (proc(5)), from the state on: that is field 3 there, 0 here."""
    return {pid: fields for pid in _pids() if (fields := _stat(pid))}


def _stat(pid: int) -> list[str]:
    """Fields of /proc/<pid>/stat from the state on; the name before may itself hold blanks and brackets."""
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
