"""Following a file over rotations: nothing is lost, nothing comes twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bcs_scheduler.cli.client import Client, Piece
from bcs_scheduler.cli.errors import NotFound
from bcs_scheduler.cli.following import Follower, files_between


class Rotated(Client):
    """A client over files that are kept here; `meanwhile` happens before each answer."""

    def __init__(self, keep: int = 5) -> None:
        super().__init__()
        self.current: bytes | None = b""
        self.old: list[tuple[bytes, float]] = []
        """Newest first, with their times."""
        self.keep = keep
        self.meanwhile: Callable[[], None] = lambda: None
        self._clock_of_files = 0.0

    def write(self, data: bytes) -> None:
        self.current = (self.current or b"") + data

    def rotate(self) -> None:
        self._clock_of_files += 1
        self.old = [(self.current or b"", self._clock_of_files), *self.old][: self.keep]
        self.current = b""

    def files(self, taskgroup: str, *, task: str = "", path: str = "", executor: bool = False) -> list[Any]:
        self.meanwhile()
        entries = [
            {"path": f"stdout.{number}", "size": len(data), "modified": time}
            for number, (data, time) in enumerate(self.old, 1)
        ]
        if self.current is not None:
            entries.append({"path": "stdout", "size": len(self.current), "modified": 99.0})
        return entries

    def log(self, taskgroup: str, file: str, **where: Any) -> Piece:
        self.meanwhile()
        number = int(file.partition(".")[2] or 0)
        if number > len(self.old) or (number == 0 and self.current is None):
            raise NotFound("no such file")
        data = self.old[number - 1][0] if number else self.current or b""
        if where.get("tail") is not None:
            kept = b"".join(data.splitlines(keepends=True)[-where["tail"] :]) if where["tail"] else b""
            return Piece(kept, len(data) - len(kept), len(data), len(data))
        offset = where["offset"]
        kept = data[offset : offset + where["length"]]
        return Piece(kept, offset, offset + len(kept), len(data))


@pytest.fixture
def files() -> Rotated:
    return Rotated()


@pytest.fixture
def follower(files: Rotated) -> Follower:
    return Follower(files, "0.web.x.y.1", "T", "stdout")


def more(follower: Follower) -> bytes:
    return b"".join(follower.more())


def test_what_is_appended_is_read_once(files: Rotated, follower: Follower) -> None:
    files.write(b"one\n")
    assert b"".join(follower.begin()) == b"one\n"
    assert more(follower) == b""
    files.write(b"two\n")
    assert more(follower) == b"two\n"


@pytest.mark.parametrize("rotations", [1, 2, 3])
def test_the_end_of_a_rotated_file_is_not_lost(files: Rotated, follower: Follower, rotations: int) -> None:
    files.write(b"long ago\n")
    files.rotate()
    files.write(b"seen\n")
    assert b"".join(follower.begin()) == b"seen\n"
    expected = b""
    for number in range(rotations):
        files.write(b"unseen %d\n" % number)
        expected += b"unseen %d\n" % number
        files.rotate()
    files.write(b"new\n")
    assert more(follower) == expected + b"new\n"


def test_a_new_file_that_is_longer_than_the_old_one_was(files: Rotated, follower: Follower) -> None:
    files.write(b"short\n")
    list(follower.begin())
    files.rotate()
    files.write(b"much longer than what was there before\n")
    assert more(follower) == b"much longer than what was there before\n"


def test_one_kept_file_is_enough(follower: Follower, files: Rotated) -> None:
    files.keep = 1
    for number in range(4):
        files.write(b"a%d " % number)
        assert more(follower) == b"a%d " % number
        files.write(b"b%d " % number)
        files.rotate()
        files.write(b"c%d " % number)
        assert more(follower) == b"b%d c%d " % (number, number)


def test_a_file_that_is_cut_off_begins_again(files: Rotated, follower: Follower) -> None:
    files.write(b"a long line\n")
    list(follower.begin())
    files.current = b"x\n"
    assert more(follower) == b"x\n"


def test_rotations_between_two_requests(files: Rotated, follower: Follower) -> None:
    """The folder changes between being listed and being read, again and again."""
    written = bytearray()
    steps = iter(range(60))

    def meanwhile() -> None:
        number = next(steps, None)
        if number is None:
            return
        files.write(b"line %d\n" % number)
        written.extend(b"line %d\n" % number)
        if number % 7 == 3:
            files.rotate()

    files.meanwhile = meanwhile
    read = b"".join(follower.begin())
    while len(read) < len(written) or next(steps, None) is not None:
        read += more(follower)
    assert read == bytes(written)


def test_the_last_lines_and_the_rotated_files(files: Rotated) -> None:
    for word in (b"first\n", b"second\n"):
        files.write(word)
        files.rotate()
    files.write(b"a\nb\nc\n")
    assert b"".join(Follower(files, "g", "T", "stdout").begin(tail=2)) == b"b\nc\n"
    assert b"".join(Follower(files, "g", "T", "stdout").begin(tail=0)) == b""
    assert b"".join(Follower(files, "g", "T", "stdout").begin(rotated=True)) == b"first\nsecond\na\nb\nc\n"


def test_a_stream_without_output_is_empty_and_another_file_is_missing(files: Rotated) -> None:
    files.current = None
    follower = Follower(files, "g", "T", "stdout")
    assert list(follower.begin()) == []
    files.write(b"at last\n")
    assert more(follower) == b"at last\n"
    with pytest.raises(NotFound, match=r"app\.log"):
        list(Follower(files, "g", "T", "app.log").begin())


def test_what_lies_between_two_looks() -> None:
    a, b, c = (1, 1.0), (2, 2.0), (3, 3.0)
    assert files_between((), ()) == 0
    assert files_between((), (a, b)) == 2
    assert files_between((a, b), (a, b)) == 0
    assert files_between((a, b), (c, a, b)) == 1
    assert files_between((b, a), (c, b)) == 1
    assert files_between((a,), (c, b)) == 2
