"""A file of a sandbox read to its end and beyond, over rotations: ``stdout`` becomes ``stdout.1``, ``stdout.2``...

Rotated files are known again by size and time. Agents tell the time in whole seconds, so that files that are rotated
faster than that may look alike: then, and always before anything is read, what was read last says which file it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from bcs_scheduler.cli.client import Client, Json, Piece
from bcs_scheduler.cli.errors import NotFound

LENGTH = 512 * 1024
"""Bytes asked for at once."""
ONE_READ = 64 * 1024
"""Bytes an agent gives in one answer: they are of one file, whatever happens meanwhile."""
KNOWN_BY = 512
"""Bytes before the place that a file is known by."""
STREAMS = ("stdout", "stderr")
"""Files that are as good as empty while they do not exist: executors make them when something is printed."""
TRIES, PAUSE = 5, 0.02
"""Looks at files that are being renamed, and seconds between them."""

Mark = tuple[int, float]
"""Size and time of change of a rotated file. It is not written to any more, so that this knows it again under its next
name."""


class Look(NamedTuple):
    """The file's folder at one moment: size of the file, marks of its rotated ones, newest first, numbers in the names
    of them all, and when the file was written last."""

    size: int
    rotated: tuple[Mark, ...]
    numbers: tuple[int, ...] = (0,)
    modified: float = 0.0
    whole: bool = True
    """False: some are missing, as happens while they are being renamed."""

    @property
    def doubtful(self) -> bool:
        """Rotations may leave the same marks: the oldest file is as young as the present one. Otherwise those that
        follow are younger."""
        return bool(self.rotated) and self.rotated[-1][1] >= self.modified


class Found(NamedTuple):
    """What follows the place: `data` from `offset` on in a file; `age` is how many are newer than that."""

    age: int
    offset: int
    data: bytes


class Moved(Exception):
    """Files were rotated while they were being read."""


class Follower:
    """A place in the sequence of files that one file has been, which rotations do not move.

    The place is `offset` in the file that is just newer than those of `_older`, behind the bytes `_before`. It moves on
    to the next file with the first bytes of that, so that there is always something to know its file by.
    `lost` is called when the file of the place has been rotated away: what followed there was not read.
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
        """Whether marks that are the same as when the place was taken may be those of other files."""
        self.offset = 0

    def begin(self, tail: int | None = None, *, rotated: bool = False) -> Iterator[bytes]:
        """What is there: the last `tail` lines or all; with `rotated` the older files as well, oldest first."""
        now = self._look()
        if tail is not None:
            yield self._last_lines(now, tail)
        elif not rotated:
            self._take(now, Found(0, 0, b""))
            while not now.size and now.rotated and not self._stand_behind(now):
                now = self._look()
        yield from self.more()

    def more(self) -> Iterator[bytes]:
        """What follows, up to the present end. Raises NotFound when the sandbox is gone."""
        now = self._look()
        while not self._at_end(now):
            try:
                found = self._read_on(now)
            except Moved:
                now = self._look()
                continue
            after = self._look()
            if after.rotated == now.rotated:  # otherwise nobody knows which file was read
                if found is None:
                    self._begin_again(now)
                elif not found.data:
                    return
                else:
                    self._take(now, found)
                    yield found.data
            now = after

    # --- the place ------------------------------------------------------------------------------------------------

    def _take(self, now: Look, found: Found) -> None:
        """The place is behind what was found."""
        before = self._before if found.offset == self.offset else b""
        self._older, self._doubtful = now.rotated[found.age :], now.doubtful
        self.offset, self._before = found.offset + len(found.data), (before + found.data)[-KNOWN_BY:]

    def _at_end(self, now: Look) -> bool:
        """Nothing was written, as can be said without reading."""
        return now.size == self.offset and not now.doubtful and self._in_place(now)

    def _in_place(self, now: Look) -> bool:
        """Nothing was rotated since the place was taken, which was in the newest file."""
        return not self._doubtful and self._older == now.rotated

    def _begin_again(self, now: Look) -> None:
        """The file of the place is not there any more: it was cut off in place, or rotated away."""
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
        """The place is the end of the newest rotated file: nothing was written since. False if it was rotated again."""
        end = now.rotated[0][0]
        before = self._read(now, 1, max(0, end - KNOWN_BY), KNOWN_BY)
        if len(before) != min(end, KNOWN_BY) or self._look().rotated != now.rotated:
            return False
        self._take(now, Found(1, end - len(before), before))
        return True

    # --- the files ------------------------------------------------------------------------------------------------

    def _read_on(self, now: Look) -> Found | None:
        """None if the place is in none of the files. Raises Moved."""
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
        """What begins behind the file of this age, which has been read. Raises Moved."""
        for newer in reversed(range(age)):
            data = self._read(now, newer, 0, _length(now))
            if data:
                if now.doubtful and self._behind_place(now, age) is None:
                    raise Moved
                return Found(newer, 0, data)
        return Found(age, self.offset, b"")

    def _behind_place(self, now: Look, age: int) -> bytes | None:
        """None if that is not the file of the place."""
        back = len(self._before)
        data = self._read(now, age, self.offset - back, back + _length(now))
        return data[back:] if data.startswith(self._before) else None

    def _read(self, now: Look, age: int, offset: int, length: int) -> bytes:
        """Nothing of a file that is not there: it is so for a moment while files are rotated."""
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
        raise NotFound(f"there is no file {self._file} in the sandbox of {self._taskgroup}")


def look_at(entries: Sequence[Json], name: str) -> Look | None:
    """None if there is neither the file nor a rotated one."""
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
    """How many of the rotated files, newest first, may be newer than those of `older`, fewest first. The last is all of
    them: if none is known any more, the oldest may be the one that followed."""
    most = len(rotated)
    return [age for age in range(max(0, most - len(older)), most + 1) if rotated[age:] == older[: most - age]]


def _length(now: Look) -> int:
    return ONE_READ - KNOWN_BY if now.doubtful else LENGTH
