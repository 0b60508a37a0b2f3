"""An exclusive lock between processes on a file, released by the kernel when its holder ends (flock(2))."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path


class FileLock:
    """Two FileLock objects exclude each other, also within one process. Methods may be called from any thread."""

    def __init__(self, path: Path) -> None:
        """Creates the file if need be; raises OSError."""
        self._path = path
        self._mutex = threading.Lock()
        self._file: int | None = self._open()
        self._held = False

    def try_acquire(self) -> bool:
        """Takes the lock if it is free; True if so. `close` releases it. Raises OSError."""
        with self._mutex:
            self._follow()
            self._held = self._flock(fcntl.LOCK_EX) and not self._follow()
            return self._held

    def held(self) -> bool:
        """Returns True if `try_acquire` has taken the lock and nothing has released it."""
        with self._mutex:
            return self._held

    def held_by_another(self) -> bool:
        """Returns True if another FileLock holds the lock. Takes a shared lock for a moment to find out; a candidate
        that tries to acquire in this moment fails and tries again. Raises OSError."""
        with self._mutex:
            self._follow()
            if not self._flock(fcntl.LOCK_SH):
                return True
            self._flock(fcntl.LOCK_UN)
            return False

    def close(self) -> None:
        """Releases the lock. The file stays, because two processes could otherwise lock two different files of the same
        name."""
        with self._mutex:
            self._held = False
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def _open(self) -> int:
        return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def _follow(self) -> bool:
        """Opens the file again if it was replaced, which releases the lock; True if so."""
        if self._file is None:
            return False
        try:
            if os.path.samestat(os.fstat(self._file), os.stat(self._path)):
                return False
        except FileNotFoundError:
            pass
        os.close(self._file)
        self._file = None
        self._file = self._open()
        return True

    def _flock(self, operation: int) -> bool:
        if self._file is None:
            return False
        try:
            fcntl.flock(self._file, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
