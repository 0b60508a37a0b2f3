"""Files that are read again when they change, and whose last good content stays in use while they are broken."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

import structlog

T = TypeVar("T")
log = structlog.get_logger(__name__)
LOOK_EVERY = 1.0
"""Seconds between looks at the files."""
_Stamp = tuple[tuple[int, int, int], ...]


class Broken(Exception):
    """The files cannot be used; one line names the file, the place and the reason."""


class WatchedFiles(Generic[T]):
    """The result of `read` for the files, read again when they change. May be used by any thread; a look costs one
    stat(2) per file."""

    def __init__(
        self,
        what: str,
        paths: Sequence[Path],
        read: Callable[[], T],
        failed: Callable[[str], None] = lambda what: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Reads the files; errors of `read` (Broken, OSError) leave the constructor. `what` names the files in log and
        readiness; `failed` is called with this name once for every broken content."""
        self.what = what
        self._paths, self._read, self._failed, self._clock = tuple(paths), read, failed, clock
        self._lock = threading.Lock()
        self._stamp = self._look()
        self._value = read()
        self._looked = clock()
        self.problem = ""
        """Why the files as they are now are not in use; empty while they are."""

    def current(self) -> T:
        if self._clock() - self._looked >= LOOK_EVERY:
            self.refresh()
        return self._value

    def refresh(self) -> None:
        """Looks now."""
        with self._lock:
            self._looked = self._clock()
            stamp = self._look()
            if stamp == self._stamp:
                return
            self._stamp = stamp
            try:
                self._value = self._read()
            except (Broken, OSError) as broken:
                self.problem = str(broken)
                self._failed(self.what)
                log.error("file cannot be read, its previous content stays in use", what=self.what, error=self.problem)
            else:
                self.problem = ""
                log.info("changed file reloaded", what=self.what)

    def _look(self) -> _Stamp:
        return tuple(_stamp(path) for path in self._paths)


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return 0, 0, 0
    return found.st_mtime_ns, found.st_ino, found.st_size
