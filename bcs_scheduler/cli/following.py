"""A file of a sandbox read to its end and beyond, over rotations: ``stdout`` becomes ``stdout.1``, ``stdout.2``..."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from bcs_scheduler.cli.client import Client, Json, Piece
from bcs_scheduler.cli.errors import NotFound

LENGTH = 512 * 1024
"""Bytes asked for at once."""
STREAMS = ("stdout", "stderr")
"""Files that are as good as empty while they do not exist: executors make them when something is printed."""
TRIES, PAUSE = 5, 0.02
"""Looks at files that are being renamed, and seconds between them."""

Mark = tuple[int, float]
"""Size and time of change of a rotated file. It is not written to any more, so that this knows it again under its next
name."""


class Look(NamedTuple):
    """The file's folder at one moment: size of the file, and marks of its rotated ones, newest first."""

    size: int
    rotated: tuple[Mark, ...]
    whole: bool = True
    """False: some are missing, as happens while they are being renamed."""


class Follower:
    """A place in the sequence of files that one file has been, which rotations do not move.

    The place is `offset` in the file that is just newer than those of `_older`.
    """

    def __init__(self, client: Client, taskgroup: str, task: str, file: str, *, executor: bool = False) -> None:
        self._client = client
        self._taskgroup, self._task, self._file, self._executor = taskgroup, task, file, executor
        self._older: tuple[Mark, ...] = ()
        self.offset = 0

    def begin(self, tail: int | None = None, *, rotated: bool = False) -> Iterator[bytes]:
        """What is there: the last `tail` lines or all; with `rotated` the older files as well, oldest first."""
        now = self._look()
        if not rotated:
            self._older = now.rotated
        while tail is not None:
            piece = self._client.log(self._taskgroup, self._file, task=self._task, executor=self._executor, tail=tail)
            after = self._look()
            if after.rotated == now.rotated:
                self.offset = piece.next
                yield piece.data
                break
            now, self._older = after, after.rotated
        yield from self.more()

    def more(self) -> Iterator[bytes]:
        """What follows, up to the present end. Raises NotFound when the sandbox is gone."""
        now = self._look()
        while True:
            number = files_between(self._older, now.rotated)
            if number == 0:
                if now.size < self.offset:
                    self.offset = 0  # cut off in place
                if now.size == self.offset:
                    return
            piece = self._read(f"{self._file}.{number}" if number else self._file)
            after = self._look()
            if after.rotated == now.rotated:  # otherwise nobody knows which file was read
                if piece.data:
                    self.offset = piece.next
                    yield piece.data
                elif number:
                    self._older, self.offset = now.rotated[number - 1 :], 0
                else:
                    return
            now = after

    def _read(self, file: str) -> Piece:
        """Nothing of a file that is not there: it is so for a moment while files are rotated."""
        try:
            return self._client.log(
                self._taskgroup, file, task=self._task, executor=self._executor, offset=self.offset, length=LENGTH
            )
        except NotFound:
            return Piece(b"", self.offset, self.offset, 0)

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
        if (prefix, dot) == (name, ".") and number.isdigit()
    )
    if name not in by_name and not numbers:
        return None
    marks = [by_name[f"{name}.{number}"] for number in numbers]
    return Look(
        int(by_name[name]["size"]) if name in by_name else 0,
        tuple((int(entry["size"]), float(entry["modified"])) for entry in marks),
        whole=name in by_name and numbers == list(range(1, len(numbers) + 1)),
    )


def files_between(older: Sequence[Mark], rotated: Sequence[Mark]) -> int:
    """How many of the rotated files, newest first, are newer than those of `older`. If none of them is known any more,
    the oldest is taken for the one that followed them."""
    for number in range(len(rotated)):
        known = rotated[number:]
        if older and tuple(known[: len(older)]) == tuple(older[: len(known)]):
            return number
    return len(rotated)
