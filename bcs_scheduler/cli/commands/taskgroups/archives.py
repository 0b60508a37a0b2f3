"""Folders and large files between this machine and a taskgroup, as streams through a session.

Folders travel as tar archives. An archive from a taskgroup is not trusted: no path and no link leads out of the
destination, and no file is written through a symbolic link. Symbolic links are skipped with a warning, as kubectl does.
"""

from __future__ import annotations

import os
import shutil
import stat
import tarfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from bcs_scheduler.cli.client.session_line import PIECE, STDERR, SessionLine
from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.errors import CliError, NotFound

Open = Callable[[Json], SessionLine]
"""Begins a copy: `action`, `path` and the other parameters of docs/api.md, section Sessions."""
NOT_FOUND = 3
"""Exit code of a fetch of a file that does not exist."""
WORDS = 64 * 1024
"""Bytes of the errors of the program that are kept."""


def put_folder(open_line: Open, source: Path, destination: str) -> int:
    """Returns the bytes of the files. Raises CliError."""
    line = open_line({"action": "putFolder", "path": destination, "name": source.resolve().name})
    size = 0

    def counted(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        nonlocal size
        if member.isreg() or member.isdir() or member.issym() or member.islnk():
            size += member.size
            return member
        return None  # sockets and devices are nothing to copy

    def feed(writer: Writer) -> None:
        with tarfile.open(fileobj=cast(IO[bytes], writer), mode="w|", format=tarfile.PAX_FORMAT) as archive:
            archive.add(source, ".", filter=counted)

    _send(line, feed)
    return size


def put_file(open_line: Open, source: IO[bytes], name: str, mode: int, size: int | None, destination: str) -> int:
    """`size` None: not known. Returns the bytes. Raises CliError."""
    line = open_line({"action": "putFile", "path": destination, "name": name, "mode": mode, "size": size})
    copied = 0

    def feed(writer: Writer) -> None:
        nonlocal copied
        while data := source.read(PIECE):
            copied += writer.write(data)

    _send(line, feed)
    return copied


def fetch(open_line: Open, path: str, destination: Path, warn: Callable[[str], object]) -> int:
    """A file or folder. Returns the bytes of the files. Raises CliError."""
    line = open_line({"action": "fetch", "path": path})
    try:
        reader = Reader(line)
        kind = reader.read(1)
        if kind not in (b"d", b"f"):
            _check_found(reader, line)
            raise CliError(f"{path}: the taskgroup sends no archive")
        name = PurePosixPath(path).name or "root"
        target = destination / name if destination.is_dir() else destination
        try:
            with tarfile.open(fileobj=cast(IO[bytes], reader), mode="r|") as archive:
                size = _extract(archive, target, kind == b"f", warn)
        except tarfile.TarError as error:
            reader.finish()
            raise CliError(f"{path}: the transfer was interrupted: {error}") from None
        except OSError as error:
            raise CliError(f"{error.filename or target}: {(error.strerror or str(error)).lower()}") from None
        reader.finish()
        return size
    finally:
        line.close()


def _check_found(reader: Reader, line: SessionLine) -> None:
    """Raises CliError if the program has failed."""
    try:
        reader.finish()
    except CliError as error:
        raise (NotFound(error.message) if line.exit_code == NOT_FOUND else error) from None


def _extract(archive: tarfile.TarFile, target: Path, single: bool, warn: Callable[[str], object]) -> int:
    """Raises OSError, tarfile.TarError, CliError."""
    size = 0
    for member in archive:
        relative = _inside(member.name)
        place = target if single else target.joinpath(*relative.parts)
        if not single:
            _without_links(target, place)
        if member.isdir() and not single:
            place.mkdir(parents=True, exist_ok=True)
        elif member.isreg():
            content = archive.extractfile(member)
            assert content is not None
            size += _write(place, content, member)
        elif member.islnk() and not single:
            original = target.joinpath(*_inside(member.linkname).parts)
            _without_links(target, original)
            with original.open("rb") as file:
                size += _write(place, file, member)
        else:
            warn(f"{member.name}: skipped, it is neither a file nor a folder")
    return size


def _inside(name: str) -> PurePosixPath:
    """Raises CliError for a path that leads out."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name:
        raise CliError(f"{name[:200]!r}: the taskgroup sends a path that leads out of the destination")
    return path


def _without_links(target: Path, place: Path) -> None:
    """Raises CliError if a symbolic link stands between the destination and the place."""
    for parent in place.relative_to(target).parents:
        if (target / parent).is_symlink() and target / parent != target:
            raise CliError(f"{target / parent}: is a symbolic link; nothing is written through it")


def _write(place: Path, content: IO[bytes], member: tarfile.TarInfo) -> int:
    """The file, whole or not at all."""
    place.parent.mkdir(parents=True, exist_ok=True)
    unfinished = place.with_name(f".{place.name}.{os.getpid()}.part")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(unfinished, flags, 0o600), "wb") as file:
            shutil.copyfileobj(content, file)
            size = file.tell()
            os.fchmod(file.fileno(), stat.S_IMODE(member.mode) & 0o777)
        unfinished.replace(place)
    finally:
        unfinished.unlink(missing_ok=True)
    return size


class Writer:
    """The input of a program as a file."""

    def __init__(self, line: SessionLine) -> None:
        self._line = line

    def write(self, data: bytes) -> int:
        """Raises BrokenPipeError when the session has ended."""
        if not self._line.send(bytes(data)):
            raise BrokenPipeError
        return len(data)


class Reader:
    """The output of a program as a file; its errors are kept for `finish`."""

    def __init__(self, line: SessionLine) -> None:
        self._line, self._pieces = line, self._output()
        self._rest, self._errors = b"", bytearray()

    def _output(self) -> Iterator[bytes]:
        for said in self._line.output():
            if said.channel == STDERR:
                self._errors += said.data[: max(0, WORDS - len(self._errors))]
            else:
                yield said.data

    def read(self, size: int) -> bytes:
        """Fewer bytes only at the end. Raises CliError if the session ends early."""
        parts, missing = [], size
        while missing:
            self._rest = self._rest or next(self._pieces, b"")
            if not self._rest:
                break
            parts.append(self._rest[:missing])
            self._rest = self._rest[missing:]
            missing -= len(parts[-1])
        return b"".join(parts)

    def finish(self) -> None:
        """Reads to the end. Raises CliError if the program has failed."""
        for _ in self._pieces:
            pass
        if self._line.exit_code != 0:
            words = self._errors.decode(errors="replace").strip()
            raise CliError(words or f"the program in the taskgroup failed: exit code {self._line.exit_code}")


def _send(line: SessionLine, feed: Callable[[Writer], Any]) -> None:
    """Feeds the program in a thread of its own, so that its end is noticed. Raises CliError."""
    failure: list[OSError] = []

    def work() -> None:
        try:
            feed(Writer(line))
            line.end_input()
        except BrokenPipeError:
            return  # the program says why it has ended
        except OSError as error:
            failure.append(error)
            line.close()  # the program must not take a part for the whole

    feeder = threading.Thread(target=work, daemon=True)
    feeder.start()
    try:
        Reader(line).finish()
    except CliError:
        if failure:
            error = failure[0]
            raise CliError(f"{error.filename}: {(error.strerror or str(error)).lower()}") from None
        raise
    finally:
        line.close()
    feeder.join()
