"""Following a file over rotations: nothing is lost, nothing comes twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcs_scheduler.cli.client.client import Client
from bcs_scheduler.cli.client.following import Follower, ages
from bcs_scheduler.cli.client.types import Piece
from bcs_scheduler.cli.errors import NotFound


class Rotated(Client):
    """A client over files that are kept here; `meanwhile` happens before each answer."""

    def __init__(self, keep: int = 5) -> None:
        super().__init__()
        self.current: bytes | None = b""
        self.old: list[tuple[bytes, float]] = []
        """Newest first, with their times."""
        self.keep = keep
        self.pace = 1.0
        """Seconds from one rotation to the next."""
        self.meanwhile: Callable[[], None] = lambda: None
        self._now = self._modified = 1000.0

    def write(self, data: bytes) -> None:
        self.current = (self.current or b"") + data
        self._modified = self._now

    def rotate(self) -> None:
        self.old = [(self.current or b"", self._modified), *self.old][: self.keep]
        self.current = b""
        self._now += self.pace
        self._modified = self._now

    def files(self, taskgroup: str, *, task: str = "", path: str = "", executor: bool = False) -> list[Any]:
        """Times in whole seconds, as agents give them."""
        self.meanwhile()
        entries = [
            {"path": f"stdout.{number}", "size": len(data), "modified": time // 1}
            for number, (data, time) in enumerate(self.old, 1)
        ]
        if self.current is not None:
            entries.append({"path": "stdout", "size": len(self.current), "modified": self._modified // 1})
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
    assert ages((), ()) == [0]
    assert ages((), (a, b)) == [2]
    assert ages((a, b), (a, b)) == [0, 2]
    assert ages((a, b), (c, a, b)) == [1, 3]
    assert ages((b, a), (c, b)) == [1, 2]
    assert ages((a,), (c, b)) == [2]
    assert ages((a, a), (a, a)) == [0, 1, 2]


class Told:
    """How often something was said."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1


@pytest.mark.parametrize("rotations", [1, 2, 3, 4, 5])
def test_files_of_one_second_and_one_size(files: Rotated, rotations: int) -> None:
    """The listing is the same before and after."""
    files.pace = 0
    for number in range(9):
        files.rotate()
        files.write(b"line %02d\n" % number)
    lost = Told()
    follower = Follower(files, "g", "T", "stdout", lost=lost)
    assert b"".join(follower.begin()) == b"line 08\n"
    before, expected = files.files("g"), b""
    for number in range(9, 9 + rotations):
        files.rotate()
        files.write(b"line %02d\n" % number)
        expected += b"line %02d\n" % number
    assert files.files("g") == before
    assert more(follower) == expected
    assert lost.times == 0


def test_a_place_at_the_end_of_a_rotated_file(files: Rotated) -> None:
    """Nothing was written since the last rotation, before the follower begins and when it has read all."""
    files.pace = 0
    for number in range(5):
        files.write(b"old %d\n" % number)
        files.rotate()
    followers = [Follower(files, "g", "T", "stdout") for _ in range(2)]
    assert [b"".join(followers[0].begin()), b"".join(followers[1].begin(tail=3))] == [b"", b""]
    for number in range(5):
        files.write(b"new %d\n" % number)
        files.rotate()
        if number % 2:
            assert [more(follower) for follower in followers] == [b"new %d\nnew %d\n" % (number - 1, number)] * 2


def test_what_was_rotated_away_is_told_and_the_rest_is_read(files: Rotated) -> None:
    lost = Told()
    follower = Follower(files, "g", "T", "stdout", lost=lost)
    files.write(b"line 0\n")
    assert b"".join(follower.begin()) == b"line 0\n"
    for number in range(1, 9):
        files.rotate()
        files.write(b"line %d\n" % number)
    assert more(follower) == b"".join(b"line %d\n" % number for number in range(3, 9))
    assert lost.times == 1
    files.write(b"end\n")
    assert more(follower) == b"end\n"
    assert lost.times == 1


def test_a_file_that_is_cut_off_and_longer_again(files: Rotated) -> None:
    lost = Told()
    follower = Follower(files, "g", "T", "stdout", lost=lost)
    files.write(b"first\n")
    files.rotate()
    files.write(b"second\n")
    assert b"".join(follower.begin()) == b"second\n"
    files.current = b""
    files.write(b"the third is longer\n")
    assert more(follower) == b"the third is longer\n"
    assert lost.times == 0


def test_a_file_that_is_copied_and_cut_off(files: Rotated, follower: Follower) -> None:
    files.write(b"first\n")
    assert b"".join(follower.begin()) == b"first\n"
    files.write(b"second\n")
    files.rotate()
    files.write(b"third\n")
    assert more(follower) == b"second\nthird\n"


def test_times_that_go_back_and_files_that_are_missing(files: Rotated, follower: Follower) -> None:
    """What was read is found again by what it is."""
    for number in range(3):
        files.write(b"line %d\n" % number)
        files.rotate()
    files.write(b"line 3\n")
    assert b"".join(follower.begin()) == b"line 3\n"
    files.write(b"line 4\n")
    files.rotate()
    files.write(b"line 5\n")
    files.old = [(data, 7.0 + number) for number, (data, _) in enumerate(files.old)]
    assert more(follower) == b"line 4\nline 5\n"


@given(
    keep=st.integers(2, 6),
    pace=st.sampled_from([0, 0.1, 0.3, 1.0]),
    lines=st.sampled_from([1, 40, 60, 9000]),
    steps=st.lists(st.integers(0, 9), max_size=60),
    rotated=st.booleans(),
)
def test_nothing_is_lost_unless_it_is_said(keep: int, pace: float, lines: int, steps: list[int], rotated: bool) -> None:
    """Between any two answers some files are written full, each of the same size, and rotated."""
    files, lost = Rotated(keep), Told()
    files.pace = pace
    follower = Follower(files, "g", "T", "stdout", lost=lost)
    written: list[bytes] = []
    coming = iter(steps)

    def write() -> None:
        data = b"%09d\n" % len(written) * lines
        written.append(data)
        files.write(data)

    def meanwhile() -> None:
        for _ in range(max(0, next(coming, 0) - 5)):
            write()
            files.rotate()

    write()
    files.meanwhile = meanwhile
    read = b"".join(follower.begin(rotated=rotated))
    for _ in steps:
        read += more(follower)
    write()
    read += more(follower)
    assert lost.times or read == b"".join(written)[-len(read) :]
    assert read.endswith(written[-1])
    assert max(Counter(read.splitlines()).values()) <= lines  # nothing comes twice
