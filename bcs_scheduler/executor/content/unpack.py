"""Unpacking of untrusted archives: nothing is written outside the directory, no device, no set-user-id bit.

First all directories and files are written, while no link exists that could lead out; then hard links to these files;
then symbolic links, and when all of them exist, each is followed to its end, because two links that look harmless
alone can lead out together.
"""

from __future__ import annotations

import os
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple, cast

from .addresses import Abandoned, cause

if TYPE_CHECKING:
    import tarfile
    import zipfile

CHUNK = 256 * 1024
TAR = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tbz", ".tar.xz", ".txz")
ZIP = (".zip",)


class ArchiveError(Exception):
    """The archive cannot be unpacked; the message names the reason."""


class _Entry(NamedTuple):
    name: str
    kind: str
    """file, directory, symlink, hardlink, or the name of another kind."""
    mode: int
    link: str
    open: Callable[[], IO[bytes]]


def is_archive(name: str) -> bool:
    return name.lower().endswith(TAR + ZIP)


def unpack(archive: Path, name: str, directory: Path, stopping: threading.Event) -> None:
    """Unpacks into `directory`, which is created, by the kind of archive that `name` says.

    Raises ArchiveError, and OSError for faults outside the archive.
    """
    directory.mkdir()
    with (_zip if name.lower().endswith(ZIP) else _tar)(archive, name) as entries:
        links = []
        for entry in entries:
            if stopping.is_set():
                raise Abandoned
            path = directory / _checked(entry.name)
            if entry.kind == "directory":
                path.mkdir(parents=True, exist_ok=True)
            elif entry.kind == "file":
                _write(entry, path, stopping)
            elif entry.kind in ("symlink", "hardlink"):
                links.append((entry, path))
            else:
                raise ArchiveError(f"{entry.name} in it is {entry.kind}, which is not unpacked")
    _link(links, directory)


def _checked(name: str) -> str:
    parts = name.split("/")
    if name.startswith("/") or ".." in parts or "\0" in name:
        raise ArchiveError(f"{name} in it leads out of the directory")
    return name


def _write(entry: _Entry, path: Path, stopping: threading.Event) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # the later of two entries counts
    with entry.open() as source, path.open("xb") as target:
        while True:
            data = source.read(CHUNK)
            if not data:
                break
            if stopping.is_set():
                raise Abandoned
            target.write(data)
        os.fchmod(target.fileno(), (entry.mode & 0o777) | stat.S_IRUSR)


def _link(links: list[tuple[_Entry, Path]], directory: Path) -> None:
    home = os.path.realpath(directory)
    for entry, path in sorted(links, key=lambda link: link[0].kind):  # hard links first
        if os.path.commonpath([home, os.path.realpath(path.parent)]) != home:
            raise ArchiveError(f"{entry.name} in it lies behind a link that leads out of the directory")
        path.parent.mkdir(parents=True, exist_ok=True)
        if entry.kind == "hardlink":
            source = directory / _checked(entry.link)
            if not stat.S_ISREG(os.lstat(source).st_mode if source.exists() else 0):
                raise ArchiveError(f"{entry.name} in it is a link to {entry.link}, which is not in it")
            os.link(source, path)
        elif os.path.isabs(entry.link):
            raise ArchiveError(f"{entry.name} in it is a link to {entry.link}, outside of the directory")
        else:
            os.symlink(entry.link, path)
    for entry, path in links:
        if os.path.commonpath([home, os.path.realpath(path)]) != home:
            raise ArchiveError(f"{entry.name} in it is a link to {entry.link}, outside of the directory")


@contextmanager
def _tar(archive: Path, name: str) -> Iterator[Iterator[_Entry]]:
    import tarfile

    unusable: tuple[type[Exception], ...] = (tarfile.TarError, *_corruptions())
    try:
        with tarfile.open(archive) as tar:
            yield (_tar_entry(tar, member) for member in tar)
    except unusable as error:
        raise ArchiveError(f"not a usable archive ({name}): {cause(error)}") from None


def _corruptions() -> tuple[type[Exception], ...]:
    """Errors that decompression raises besides OSError, for the libraries that this Python has."""
    import zlib

    try:
        from lzma import LZMAError
    except ImportError:
        return (EOFError, zlib.error)
    return (EOFError, zlib.error, LZMAError)


def _tar_entry(tar: tarfile.TarFile, member: tarfile.TarInfo) -> _Entry:
    if member.isreg():
        kind = "file"
    elif member.isdir():
        kind = "directory"
    elif member.issym():
        kind = "symlink"
    else:
        kind = "hardlink" if member.islnk() else "a device or pipe"
    return _Entry(member.name, kind, member.mode, member.linkname, lambda: cast("IO[bytes]", tar.extractfile(member)))


@contextmanager
def _zip(archive: Path, name: str) -> Iterator[Iterator[_Entry]]:
    import zipfile

    unusable: tuple[type[Exception], ...] = (
        zipfile.BadZipFile,
        RuntimeError,
        *_corruptions(),
    )  # RuntimeError: encrypted
    try:
        with zipfile.ZipFile(archive) as opened:
            yield (_zip_entry(opened, info) for info in opened.infolist())
    except unusable as error:
        raise ArchiveError(f"not a usable archive ({name}): {cause(error)}") from None


def _zip_entry(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> _Entry:
    """Archives made on Unix have the mode in the upper half of the external attributes; others have 0 there."""
    mode = info.external_attr >> 16
    kind, link = "directory" if info.is_dir() else "file", ""
    if stat.S_ISLNK(mode):
        kind, link = "symlink", archive.read(info).decode(errors="surrogateescape")
    return _Entry(info.filename, kind, mode & 0o777 or 0o644, link, lambda: archive.open(info))


def merge(source: Path, target: Path) -> None:
    """Moves the content of `source` into `target`, replacing files that are there; both on one file system."""
    for name in sorted(os.listdir(source)):
        old, new = source / name, target / name
        directory, there = old.is_dir() and not old.is_symlink(), os.path.lexists(new)
        if directory and there and new.is_dir() and not new.is_symlink():
            merge(old, new)
            continue
        if there and not directory and new.is_dir() and not new.is_symlink():
            shutil.rmtree(new)
        elif there and directory:
            new.unlink()
        os.rename(old, new)
