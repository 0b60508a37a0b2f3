"""Making, killing and removing control groups (cgroup v2, kernel documentation admin-guide/cgroup-v2.rst).

One directory `bcs/<run>` per executor below the root of the hierarchy, one below that per task. The root is the only
place where groups can be made beside running processes ("no internal processes"), so it is used, if it may be written.
Even without controllers a group shows exactly the processes of a task, also those that forked away. Imports only `os`:
the supervisor uses it.
"""

from __future__ import annotations

import os

HOME = "bcs"


def mount_point(mounts: str = "/proc/self/mounts") -> str:
    """Mount point of the cgroup v2 hierarchy; empty = there is none."""
    try:
        with open(mounts) as file:
            for line in file:
                fields = line.split()
                if len(fields) > 2 and fields[2] == "cgroup2":
                    return fields[1]
    except OSError:
        pass
    return ""


def create(run: str, mount: str | None = None) -> str:
    """The directory for one executor, its controllers passed on to the groups below; empty = not possible here."""
    mount = mount_point() if mount is None else mount
    if not mount:
        return ""
    home = os.path.join(mount, HOME)
    path = os.path.join(home, run)
    try:
        os.makedirs(path, exist_ok=True)
        entries = os.listdir(home)
    except OSError:
        return ""
    for entry in entries:
        pid, dash, _ = entry.partition("-")
        if dash and entry != run and not os.path.exists(f"/proc/{pid}"):
            remove(os.path.join(home, entry))  # of an executor that was killed together with its supervisor
    for level in (mount, home, path):
        for controller in ("cpu", "memory"):
            write(level, "cgroup.subtree_control", f"+{controller}")
    return path


def write(path: str, name: str, value: str) -> bool:
    """False = refused, or there is no such file here."""
    try:
        descriptor = os.open(os.path.join(path, name), os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        os.write(descriptor, value.encode())
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def read(path: str, name: str) -> str:
    """Reads a file of a group; empty = there is no such file here."""
    try:
        with open(os.path.join(path, name)) as file:
            return file.read()
    except OSError:
        return ""


def members(path: str) -> list[int]:
    """Pids in the group and all groups below it."""
    found: list[int] = []
    for directory, _below, _files in os.walk(path) if path else ():
        found.extend(int(pid) for pid in read(directory, "cgroup.procs").split())
    return found


def kill(path: str) -> bool:
    """SIGKILL for all in the group and below, at once (Linux 5.14). False = not possible here."""
    return bool(path) and write(path, "cgroup.kill", "1")


def remove(path: str) -> None:
    """Removes the group and all groups below. Groups that still have processes stay."""
    for directory, _below, _files in os.walk(path, topdown=False) if path else ():
        try:
            os.rmdir(directory)
        except OSError:
            continue
