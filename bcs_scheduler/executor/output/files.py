"""Files of bounded size in the folder of a task: `name`, `name.1` (younger) to `name.<files - 1>` (oldest)."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class PlainFile:
    """A file and its rotated predecessors. Methods raise OSError."""

    def __init__(self, path: Path, files: int) -> None:
        self.path = path
        self._files = max(files, 1)
        self._descriptor = -1
        self.size = 0

    @property
    def is_open(self) -> bool:
        return self._descriptor >= 0

    def open(self) -> None:
        """Opens the file. The directory belongs to the user of the task, who may put a link to something else there, or
        a pipe without a reader: only a plain file with this one name is written to. Raises OSError."""
        descriptor = os.open(self.path, FLAGS, 0o644)
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            os.close(descriptor)
            raise OSError(errno.EPERM, "not a plain file")
        self._descriptor, self.size = descriptor, found.st_size

    def put(self, data: bytes) -> int:
        """Bytes written: fewer than given when the disk becomes full on the way."""
        written = os.write(self._descriptor, data)
        self.size += written
        return written

    def cut(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)
        self.size = size

    def rotate(self) -> None:
        if self._files == 1:
            self.cut(0)
            return
        self.close()
        for number in range(self._files - 1, 0, -1):
            older = self.path.with_name(f"{self.path.name}.{number}")
            newer = self.path.with_name(f"{self.path.name}.{number - 1}") if number > 1 else self.path
            with contextlib.suppress(FileNotFoundError):
                os.replace(newer, older)
        self.open()

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
