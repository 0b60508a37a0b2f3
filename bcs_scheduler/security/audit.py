"""The audit log: one line of JSON for every request for a change, also if the request is refused or fails.

A line names the caller (`who`, `by`), the request (`method`, `path`, `operation`, `object`), its origin (`address`) and
its outcome (`status`, `code`, `reason`, `cause`). A line never contains bodies, query values or credentials.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import structlog

log = structlog.get_logger("bcs_scheduler.audit")
LONGEST = 1024
"""Characters of a path that are kept: a head may have 64 KiB of it."""


class Audit:
    """Lines go to `path`, or with None to the normal log. A file that was moved away is made anew, by the next line or
    by `reopen`. A line that cannot be written is logged and counted, and delays no request."""

    def __init__(self, path: Path | None, failed: Callable[[], None] = lambda: None) -> None:
        """Raises OSError if the file cannot be written now."""
        self._path, self._failed = path, failed
        self._lock = threading.Lock()
        self._file = -1
        self._inode = (0, 0)
        self.problem = ""
        if path is not None:
            self._open(path)

    def record(self, line: Mapping[str, Any]) -> None:
        line = {**line, "path": str(line.get("path", ""))[:LONGEST]}
        if self._path is None:
            log.info("audit", **line)
            return
        data = msgspec.json.encode(line) + b"\n"
        with self._lock:
            try:
                self._follow(self._path)
                written = os.write(self._file, data)
                if written != len(data):
                    raise OSError(f"only {written} of {len(data)} bytes were written")
            except OSError as error:
                self._failed()
                if str(error) != self.problem:
                    log.error(
                        "the audit log cannot be written", path=str(self._path), error=str(error), lost=dict(line)
                    )
                self.problem = str(error)
            else:
                self.problem = ""

    def reopen(self) -> None:
        """After a rotation."""
        if self._path is None:
            return
        with self._lock:
            try:
                self._open(self._path)
            except OSError as error:
                log.error("the audit log cannot be opened again", path=str(self._path), error=str(error))

    def close(self) -> None:
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1

    def _follow(self, path: Path) -> None:
        try:
            found = path.stat()
        except FileNotFoundError:
            self._open(path)
            return
        if (found.st_dev, found.st_ino) != self._inode or self._file < 0:
            self._open(path)

    def _open(self, path: Path) -> None:
        opened = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        found = os.fstat(opened)
        if self._file >= 0:
            os.close(self._file)
        self._file, self._inode = opened, (found.st_dev, found.st_ino)
