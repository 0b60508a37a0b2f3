"""The files of an agent that others may read: sandboxes, under the paths at which they were attached. Rules and words
are those of src/files/files.cpp of Apache Mesos 1.11."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from bcs_scheduler.local.errors import InvalidCall

MOST = 16 * os.sysconf("SC_PAGESIZE")
"""Bytes that one answer contains at most."""


@dataclass(frozen=True, slots=True)
class FileInfo:
    """`path` as the reader would name it, size in bytes, `mtime` in Unix seconds."""

    path: str
    nlink: int
    size: int
    mtime: int
    mode: int
    uid: str
    gid: str


class Files:
    """Every method raises InvalidCall: 404 for a missing file, 400 for a file that may not be read."""

    def __init__(self) -> None:
        self._attached: dict[str, Path] = {}

    def attach(self, directory: Path, name: str) -> None:
        """Shows the directory as `name` and under its own path."""
        self._attached[name] = self._attached[str(directory)] = directory

    def resolve(self, path: str) -> Path:
        """Links are followed, but not out of the attached directory."""
        prefix, suffix = path.rstrip("/"), ""
        while prefix not in self._attached:
            prefix, slash, name = prefix.rpartition("/")
            if not slash:
                raise InvalidCall(404, "")
            suffix = f"{name}/{suffix}"
        root = self._attached[prefix]
        wanted = root / suffix
        try:
            found = wanted.resolve(strict=True)
        except (FileNotFoundError, NotADirectoryError):
            raise InvalidCall(404, "") from None
        except (OSError, RuntimeError, ValueError) as error:
            raise InvalidCall(400, f"Failed to determine canonical path of '{wanted}': {error}\n") from None
        if not found.is_relative_to(root.resolve()):
            raise InvalidCall(400, f"'{wanted}' is inaccessible.\n")
        return found

    def read(self, path: str, offset: int, length: int | None) -> tuple[int, bytes]:
        """Size of the file, and its bytes from `offset` on (none if that is -1)."""
        file = self.resolve(path)
        if file.is_dir():
            raise InvalidCall(400, "Cannot read a directory.\n")
        with _open(file) as opened:
            size = os.fstat(opened.fileno()).st_size
            if not 0 <= offset < size:
                return size, b""
            opened.seek(offset)
            return size, opened.read(min(MOST, size - offset if length is None else length))

    def whole(self, path: str) -> tuple[str, bytes]:
        """Name and content of the file."""
        file = self.resolve(path)
        if file.is_dir():
            raise InvalidCall(400, "Cannot download a directory.\n")
        with _open(file) as opened:
            return file.name, opened.read(os.fstat(opened.fileno()).st_size)

    def browse(self, path: str) -> list[FileInfo]:
        """Returns the entries of the directory, by name; none for a file. Links are described by their targets."""
        directory = self.resolve(path)
        if not directory.is_dir():
            return []
        found = []
        for name in sorted(os.listdir(directory)):
            try:
                found.append(_file_info(os.path.join(path, name), os.stat(directory / name)))
            except OSError:
                continue  # went away meanwhile, or a link that leads nowhere
        return found


def _open(file: Path) -> BinaryIO:
    """Opens a file without waiting, should it be a pipe: no file in a sandbox may delay an agent."""
    try:
        return os.fdopen(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    except OSError as error:
        raise InvalidCall(500, f"Failed to open file at '{file}': {error.strerror}\n") from None


def _file_info(path: str, status: os.stat_result) -> FileInfo:
    return FileInfo(
        path=path,
        nlink=status.st_nlink,
        size=status.st_size,
        mtime=int(status.st_mtime),
        mode=status.st_mode,
        uid=_user(status.st_uid),
        gid=_group(status.st_gid),
    )


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def mode_text(mode: int) -> str:
    """As ls(1) writes it."""
    return stat.filemode(mode)
