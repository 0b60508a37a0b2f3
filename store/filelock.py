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
        self._mutex = threading.Lock()
        self._file: int | None = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def try_acquire(self) -> bool:
        """Takes the lock if nobody has it. It is given back by `close`."""
        with self._mutex:
            return self._flock(fcntl.LOCK_EX)

    def held_by_another(self) -> bool:
        """Found out by trying a shared lock for a moment; a candidate that meets it tries again."""
        with self._mutex:
            if not self._flock(fcntl.LOCK_SH):
                return True
            self._flock(fcntl.LOCK_UN)
            return False

    def close(self) -> None:
        """The file stays: removing it would let two processes lock two files of one name."""
        with self._mutex:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def _flock(self, operation: int) -> bool:
        if self._file is None:
            return False
        try:
            fcntl.flock(self._file, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
