"""The secret files of a taskgroup lie in memory, and the paths of these files in the sandbox are links: no secret is
ever on a disk.

The files of an executor have a folder of their own, which goes when the last task has ended, at the latest with the
executor: the supervisor removes it after any end of the executor. If both were killed together, the next executor on
this machine removes it. An executor holds a lock on its folder for as long as it lives.

The supervisor of every executor imports this module, which therefore imports very little.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

MEMORY = "/dev/shm"
"""The folder at which every Linux has a file system in memory."""
PREFIX = "bcs-secrets-"
KINDS = ("tmpfs", "ramfs")
"""File systems in memory."""


def new_folder(run: str) -> str:
    """A name for the folder of this run of an executor, which no other user can foresee. Nothing is made yet."""
    return f"{MEMORY}/{PREFIX}{os.geteuid()}-{run}-{os.urandom(8).hex()}"


class Secrets:
    """Used by many threads, each with files of its own task."""

    def __init__(self, folder: str) -> None:
        from threading import Lock

        self.folder = folder
        self._making = Lock()
        self._lock = -1
        """Descriptor of the folder, with the lock; -1 = there is no folder yet."""

    def put(self, data: bytes, prepare: Callable[[int], None]) -> str:
        """Writes a file, and returns its path. `prepare` sets owner and mode of the open file. Raises OSError."""
        with self._making:
            if self._lock < 0:
                self._lock = _locked(self.folder)
        path = f"{self.folder}/{os.urandom(8).hex()}"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            prepare(descriptor)
        return path


def _locked(folder: str) -> int:
    """Makes the folder and locks it; a sweep may remove it between the two. Raises OSError if there is no file system
    in memory."""
    import errno
    import fcntl

    if not _in_memory(os.path.dirname(folder)):
        raise OSError(errno.ENOTSUP, f"{os.path.dirname(folder)} is no file system in memory, where secrets belong")
    while True:
        os.mkdir(folder, 0o700)
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:
            continue
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            os.fchmod(descriptor, 0o711)  # the users of tasks reach their files, and list none
            return descriptor
        os.close(descriptor)


def _in_memory(path: str) -> bool:
    try:
        device = os.stat(path).st_dev
    except FileNotFoundError:
        return False
    number = f"{os.major(device)}:{os.minor(device)}"
    with open("/proc/self/mountinfo") as file:
        for line in file:
            fields, _, kind = line.partition(" - ")
            if fields.split()[2] == number:
                return kind.split()[0] in KINDS
    return False


def remove(folder: str) -> None:
    """Removes the folder and its files, if there is one. Never raises."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        print(f"secrets may be left behind: {error}", file=sys.stderr)
        return
    try:
        for name in names:
            os.unlink(f"{folder}/{name}")
        os.rmdir(folder)
    except FileNotFoundError:
        return  # another process removes it at the same time
    except OSError as error:
        print(f"secrets may be left behind: {error}", file=sys.stderr)


def sweep() -> None:
    """Removes the folders of all executors of this user that have ended. Never raises."""
    import fcntl

    mark = f"{PREFIX}{os.geteuid()}-"
    try:
        found = [entry.path for entry in os.scandir(MEMORY) if entry.name.startswith(mark)]
    except OSError:
        return
    for folder in found:
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            if os.fstat(descriptor).st_uid == os.geteuid():
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(folder)
        except OSError:
            continue  # its executor lives
        finally:
            os.close(descriptor)
