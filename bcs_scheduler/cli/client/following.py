"""Reading of a file in a sandbox across rotations: ``stdout`` becomes ``stdout.1``, ``stdout.2``, ...

Rotated files are identified by size and time. Agents report times in whole seconds, so that files that are rotated
within a second can have the same marks. The last bytes that were read identify the file then, and before every read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from bcs_scheduler.cli.client.types import Json, Piece
from bcs_scheduler.cli.errors import NotFound
from store.keys import taskgroup_name

if TYPE_CHECKING:
    from bcs_scheduler.cli.client.client import Client

LENGTH = 512 * 1024
"""Bytes of one request."""
ONE_READ = 64 * 1024
"""Bytes that an agent reads in one answer; they belong to one file even during a rotation."""
KNOWN_BY = 512
"""Bytes before the position that identify a file."""
STREAMS = ("stdout", "stderr")
"""Files that executors create at the first output. While they do not exist they count as empty."""
TRIES, PAUSE = 5, 0.02
"""Attempts to list files during a rotation, and seconds between two attempts."""
Mark = tuple[int, float]
"""Size and modification time of a rotated file. They identify the file after the next rename, because nothing is
written to a rotated file."""


class Look(NamedTuple):
    """State of the directory: size of the file, marks of its rotated files (newest first), numbers in the names of all
    of them, and modification time of the file."""

    size: int
    rotated: tuple[Mark, ...]
    numbers: tuple[int, ...] = (0,)
    modified: float = 0.0
    whole: bool = True
    """False: files are missing, because a rotation is in progress."""

    @property
    def doubtful(self) -> bool:
        """A rotation can result in the same marks: the oldest rotated file is as new as the current file."""
        return bool(self.rotated) and self.rotated[-1][1] >= self.modified


class Found(NamedTuple):
    """Data after the position: `data` from `offset` of a file; `age`: number of newer files."""

    age: int
    offset: int
    data: bytes


class Moved(Exception):
    """Files were rotated during a read."""


class Follower:
    """A position in the sequence of rotated files, which rotations do not change.

    The position is `offset` in the oldest file that is newer than those of `_older`, after the bytes `_before`. It
    advances to the next file together with the first bytes of that file, so that `_before` always identifies the file.
    `lost` is called when the file of the position has been removed by rotations, so that output was not read.
    """

    def __init__(
        self,
        client: Client,
        taskgroup: str,
        task: str,
        file: str,
        *,
        executor: bool = False,
        lost: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._taskgroup, self._task, self._file, self._executor = taskgroup, task, file, executor
        self._lost = lost
        self._older: tuple[Mark, ...] = ()
        self._before = b""
        self._doubtful = False
        """Equal marks may belong to other files than at the time of the position."""
        self.offset = 0

    def begin(self, tail: int | None = None, *, rotated: bool = False) -> Iterator[bytes]:
        """Present content: the last `tail` lines, or all. With `rotated` also the rotated files, oldest first."""
        now = self._look()
        if tail is not None:
            yield self._last_lines(now, tail)
        elif not rotated:
            self._take(now, Found(0, 0, b""))
            while not now.size and now.rotated and not self._stand_behind(now):
                now = self._look()
        yield from self.more()

    def more(self) -> Iterator[bytes]:
        """New content, up to the present end. Raises NotFound if the sandbox does not exist any more."""
        now = self._look()
        while not self._at_end(now):
            try:
                found = self._read_on(now)
            except Moved:
                now = self._look()
                continue
            after = self._look()
            if after.rotated == now.rotated:  # otherwise it is unknown which file was read
                if found is None:
                    self._begin_again(now)
                elif not found.data:
                    return
                else:
                    self._take(now, found)
                    yield found.data
            now = after

    # --- the position ------------------------------------------------------------------------------------------------

    def _take(self, now: Look, found: Found) -> None:
        """Sets the position after the data that was found."""
        before = self._before if found.offset == self.offset else b""
        self._older, self._doubtful = now.rotated[found.age :], now.doubtful
        self.offset, self._before = found.offset + len(found.data), (before + found.data)[-KNOWN_BY:]

    def _at_end(self, now: Look) -> bool:
        """Nothing was written since; no read is needed to know that."""
        return now.size == self.offset and not now.doubtful and self._in_place(now)

    def _in_place(self, now: Look) -> bool:
        """The position is in the newest file, and no file was rotated since."""
        return not self._doubtful and self._older == now.rotated

    def _begin_again(self, now: Look) -> None:
        """Resets the position: its file was truncated, or removed by rotations."""
        cut_off = self._in_place(now)
        self._older, self._doubtful = (now.rotated if cut_off else ()), now.doubtful
        self.offset, self._before = 0, b""
        if not cut_off:
            self._lost()

    def _last_lines(self, now: Look, lines: int) -> bytes:
        while True:
            piece = self._tail(lines)
            before = self._read(now, 0, max(0, piece.next - KNOWN_BY), min(piece.next, KNOWN_BY))
            after = self._look()
            if after.rotated == now.rotated and before.endswith(piece.data[-KNOWN_BY:]):
                self._take(now, Found(0, piece.next - len(before), before))
                if piece.next or not now.rotated or self._stand_behind(now):
                    return piece.data
            now = after

    def _stand_behind(self, now: Look) -> bool:
        """Sets the position to the end of the newest rotated file. False if the files were rotated again."""
        end = now.rotated[0][0]
        before = self._read(now, 1, max(0, end - KNOWN_BY), KNOWN_BY)
        if len(before) != min(end, KNOWN_BY) or self._look().rotated != now.rotated:
            return False
        self._take(now, Found(1, end - len(before), before))
        return True

    # --- the files ------------------------------------------------------------------------------------------------

    def _read_on(self, now: Look) -> Found | None:
        """Data after the position; None if no file has the position. Raises Moved."""
        likely = [0] if self._in_place(now) else ages(self._older, now.rotated)
        others = range(len(now.rotated) + 1) if self._before and not self._in_place(now) else ()
        for age in [*likely, *(age for age in others if age not in likely)]:
            data = self._behind_place(now, age)
            if data:
                return Found(age, self.offset, data)
            if data is not None:
                return self._read_newer(now, age)
        return None

    def _read_newer(self, now: Look, age: int) -> Found:
        """Data of the first newer file, after the file of this age has been read completely. Raises Moved."""
        for newer in reversed(range(age)):
            data = self._read(now, newer, 0, _length(now))
            if data:
                if now.doubtful and self._behind_place(now, age) is None:
                    raise Moved
                return Found(newer, 0, data)
        return Found(age, self.offset, b"")

    def _behind_place(self, now: Look, age: int) -> bytes | None:
        """Data of the file after the position; None if the file does not have the position."""
        back = len(self._before)
        data = self._read(now, age, self.offset - back, back + _length(now))
        return data[back:] if data.startswith(self._before) else None

    def _read(self, now: Look, age: int, offset: int, length: int) -> bytes:
        """Reads a part of a file; nothing if the file does not exist, as can happen during a rotation."""
        number = now.numbers[age]
        try:
            return self._client.log(
                self._taskgroup,
                f"{self._file}.{number}" if number else self._file,
                task=self._task,
                executor=self._executor,
                offset=offset,
                length=length,
            ).data
        except NotFound:
            return b""

    def _tail(self, lines: int) -> Piece:
        try:
            return self._client.log(self._taskgroup, self._file, task=self._task, executor=self._executor, tail=lines)
        except NotFound:
            return Piece(b"", 0, 0, 0)

    def _look(self) -> Look:
        path = PurePosixPath(self._file)
        folder = "" if str(path.parent) == "." else str(path.parent)
        for _ in range(TRIES):
            entries = self._client.files(self._taskgroup, task=self._task, path=folder, executor=self._executor)
            look = look_at(entries, path.name)
            if look is None or look.whole:
                break
            time.sleep(PAUSE)
        if look is not None:
            return look
        if path.name in STREAMS:
            return Look(0, ())
        raise NotFound(f"there is no file {self._file} in the sandbox of {taskgroup_name(self._taskgroup)}")


def look_at(entries: Sequence[Json], name: str) -> Look | None:
    """State of the directory; None if neither the file nor a rotated file exists."""
    by_name = {PurePosixPath(entry["path"]).name: entry for entry in entries}
    numbers = sorted(
        int(number)
        for prefix, dot, number in (found.rpartition(".") for found in by_name)
        if (prefix, dot) == (name, ".") and number.isdigit() and number[0] != "0"
    )
    if name not in by_name and not numbers:
        return None
    marks = [by_name[f"{name}.{number}"] for number in numbers]
    present = by_name.get(name, {"size": 0, "modified": 0.0})
    return Look(
        int(present["size"]),
        tuple((int(entry["size"]), float(entry["modified"])) for entry in marks),
        (0, *numbers),
        float(present["modified"]),
        whole=name in by_name and numbers == list(range(1, len(numbers) + 1)),
    )


def ages(older: Sequence[Mark], rotated: Sequence[Mark]) -> list[int]:
    """Possible numbers of rotated files that are newer than those of `older`, in ascending order.

    The last one is the number of all rotated files: if none of `older` is left, all may be newer.
    """
    most = len(rotated)
    return [age for age in range(max(0, most - len(older)), most + 1) if rotated[age:] == older[: most - age]]


def _length(now: Look) -> int:
    return ONE_READ - KNOWN_BY if now.doubtful else LENGTH
