"""agentapi.output: what the executor has written and indexed is read in order, also while files are rotated."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.agentapi import output, output_index
from bcs_scheduler.agentapi.output import NoIndex, Output
from bcs_scheduler.agentapi.output_index import Cursor, Entry, Wanted
from bcs_scheduler.agentapi.sandbox import Folder
from bcs_scheduler.executor import output as written
from bcs_scheduler.executor.output import Index, RotatedFile
from tests.component.agentfiles import AgentFiles, Answer

ALL = 1024 * 1024
ANY = Wanted()


class Task:
    """The files of one task, written as the executor writes them."""

    def __init__(self, folder: Path, max_bytes: int = 10_000, files: int = 5) -> None:
        self._index = Index(folder, max_bytes, files)
        self._index.begin()
        self._streams = [RotatedFile(folder / name, max_bytes, files, self._index, at) for at, name in STREAMS]
        self.said: list[tuple[str, bytes]] = []

    def out(self, data: bytes) -> None:
        self._say(0, data)

    def err(self, data: bytes) -> None:
        self._say(1, data)

    def _say(self, stream: int, data: bytes) -> None:
        self._streams[stream].write(data)
        self.said.append((STREAMS[stream][1], data))


STREAMS = tuple(enumerate(("stdout", "stderr")))


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentFiles]:
    served = AgentFiles(tmp_path)
    yield served
    served.close()


@pytest.fixture
def reader(agent: AgentFiles) -> Output:
    return Output(Folder(f"127.0.0.1:{agent.port}", "F", "E"))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Seconds."""
    now = [1000]
    monkeypatch.setattr(time, "time_ns", lambda: now[0] * 10**9)
    return now


def everything(reader: Output, wanted: Wanted = ANY, *, rotated: bool = True, limit: int = ALL) -> list[Entry]:
    found, cursor = [], reader.begin(wanted, rotated=rotated)
    while True:
        page = reader.more(cursor, wanted, limit)
        assert not page.lost
        found += page.entries
        cursor = Cursor.of(str(page.next))
        if page.end:
            return found


def pairs(entries: list[Entry]) -> list[tuple[str, bytes]]:
    return [(entry.stream, entry.data) for entry in entries]


def joined(found: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """Pieces of one stream that follow each other are one: an answer may end within one."""
    groups = itertools.groupby(found, key=lambda pair: pair[0])
    return [(stream, b"".join(data for _, data in group)) for stream, group in groups]


def test_both_streams_in_order_with_times(tmp_path: Path, reader: Output, clock: list[int]) -> None:
    task = Task(tmp_path)
    task.out(b"one\n")
    clock[0] += 5
    task.err(b"two\n")
    clock[0] -= 60  # set back
    task.out(b"three\n")
    assert everything(reader) == [
        Entry(1000.0, "stdout", b"one\n"),
        Entry(1005.0, "stderr", b"two\n"),
        Entry(1005.0, "stdout", b"three\n"),
    ]
    assert pairs(everything(reader, Wanted(("stderr",)))) == [("stderr", b"two\n")]


def test_following_gives_each_byte_once(tmp_path: Path, reader: Output) -> None:
    task = Task(tmp_path)
    task.out(b"0123456789")
    cursor, found = reader.begin(Wanted(), rotated=False), []
    for number in range(20):
        task.err(b"%d\n" % number) if number % 3 else task.out(b"%d\n" % number)
        for _ in range(3):
            page = reader.more(cursor, Wanted(), 7)
            found += pairs(page.entries)
            cursor = page.next
    assert page.end and not reader.more(cursor, Wanted(), 7).entries
    for stream in ("stdout", "stderr"):
        assert b"".join(data for name, data in found if name == stream) == b"".join(
            data for name, data in task.said if name == stream
        )


def test_rotated_files_are_read_if_wanted(tmp_path: Path, reader: Output) -> None:
    task = Task(tmp_path, 100, 3)
    for number in range(20):
        task.out(b"%030d\n" % number)
        task.err(b"%d\n" % number)
    kept = [pair for number, pair in enumerate(task.said) if pair[0] == "stderr" or number >= 2 * 12]
    assert pairs(everything(reader)) == kept, "three files of three lines, the newest with two"
    newest = pairs(everything(reader, rotated=False))
    assert [data for name, data in newest if name == "stdout"] == [b"%030d\n" % number for number in (18, 19)]
    assert [data for name, data in newest if name == "stderr"] == [b"%d\n" % number for number in range(20)]


@pytest.mark.parametrize("files", [1, 2, 5])
def test_output_that_came_between_two_looks_and_was_rotated_away_is_lost(
    tmp_path: Path, reader: Output, files: int
) -> None:
    task = Task(tmp_path, 100, files)
    task.out(b"first\n")
    cursor = reader.more(reader.begin(Wanted(), rotated=False), Wanted(), ALL).next
    for number in range(100):
        task.out(b"%050d\n" % number)
    lost, found = False, list[Any]()
    while True:
        page = reader.more(cursor, Wanted(), ALL)
        lost, cursor, found = lost or page.lost, page.next, found + pairs(page.entries)
        if page.end:
            break
    assert lost
    assert found == task.said[-files:]


def test_the_index_is_rotated_too(tmp_path: Path, reader: Output) -> None:
    task = Task(tmp_path, 10_000, 5)
    for number in range(700):
        task.out(b"%d\n" % number)
        task.err(b"%d\n" % -number)
    assert (tmp_path / f"{written.NAME}.4").exists() and not (tmp_path / f"{written.NAME}.5").exists()
    found = pairs(everything(reader))
    assert found == task.said[-len(found) :]
    assert len(found) > 600, "the index is bounded: what was printed before is in the files, without times"
    sizes = [path.stat().st_size for path in tmp_path.glob(f"{written.NAME}*")]
    assert max(sizes) <= 5000


def test_since_a_time(tmp_path: Path, reader: Output, clock: list[int]) -> None:
    task = Task(tmp_path, 1000, 5)
    for number in range(300):
        clock[0] = 1000 + number
        (task.out if number % 2 else task.err)(b"%d\n" % number)
    for since in (0, 1200, 1250.5, 1299, 1300):
        expected = [pair for moment, pair in enumerate(task.said, 1000) if moment >= since]
        assert pairs(everything(reader, Wanted(since=since))) == expected
    assert pairs(reader.tail(5, Wanted(since=1297), ALL).entries) == task.said[-3:]


def test_the_last_lines_of_both_streams(tmp_path: Path, reader: Output) -> None:
    task = Task(tmp_path, 200, 5)
    for number in range(100):
        task.out(b"begin %d, " % number)
        task.err(b"error %d\n" % number)
        task.out(b"end %d\n" % number)
    task.out(b"unfinished")
    assert pairs(reader.tail(4, Wanted(), ALL).entries) == [
        ("stdout", b"begin 98, "),
        ("stdout", b"end 98\n"),
        ("stdout", b"begin 99, "),
        ("stderr", b"error 99\n"),
        ("stdout", b"end 99\n"),
        ("stdout", b"unfinished"),
    ]
    assert pairs(reader.tail(1, Wanted(("stderr",)), ALL).entries) == [("stderr", b"error 99\n")]
    assert reader.tail(0, Wanted(), ALL).entries == []
    page = reader.tail(2, Wanted(), ALL)
    task.err(b"new\n")
    assert pairs(reader.more(page.next, Wanted(), ALL).entries) == [("stderr", b"new\n")]


def test_the_tail_is_bounded(tmp_path: Path, reader: Output) -> None:
    task = Task(tmp_path, 10_000, 5)
    task.out(b"x" * 5000)
    task.out(b"y" * 500)
    assert pairs(reader.tail(3, Wanted(), 1000).entries) == [("stdout", b"x" * 500), ("stdout", b"y" * 500)]


def test_without_an_index(tmp_path: Path, reader: Output) -> None:
    (tmp_path / "stdout").write_bytes(b"one\n")
    with pytest.raises(NoIndex):
        reader.begin(Wanted(), rotated=False)
    with pytest.raises(NoIndex):
        reader.tail(1, Wanted(), ALL)


@pytest.mark.parametrize("seed", range(3))
def test_files_that_are_rotated_during_a_read_are_not_mixed_up(
    tmp_path: Path, agent: AgentFiles, reader: Output, seed: int
) -> None:
    """Before any answer of the agent more may be printed, with rotations."""
    chance = random.Random(seed)
    task = Task(tmp_path, 400, 8)
    numbers = itertools.count()
    free = threading.Lock()

    def printed_meanwhile(_what: str, _query: dict[str, str]) -> Answer | None:
        with free:
            for _ in range(chance.randrange(3)):
                if len(task.said) < 400:
                    (task.out, task.err)[chance.randrange(2)](b"%015d\n" % next(numbers))
        return None

    task.out(b"begin\n")
    cursor = reader.begin(Wanted(), rotated=True)
    agent.override = printed_meanwhile
    found: list[tuple[str, bytes]] = []
    complete = False
    while not complete:
        written = len(task.said)
        page = reader.more(cursor, Wanted(), 300)
        assert not page.lost
        found, cursor = found + pairs(page.entries), page.next
        complete = written == 400 and page.end
    assert joined(found) == joined(task.said)


def test_an_executor_that_died_in_a_rotation_leaves_what_can_be_read(
    tmp_path: Path, reader: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "PAUSE", 0.0)
    task = Task(tmp_path)
    task.out(b"one\n")
    task._index.rotating(0)
    assert pairs(everything(reader)) == [("stdout", b"one\n")]


def test_an_index_of_somebody_else_is_not_believed(tmp_path: Path, reader: Output) -> None:
    (tmp_path / "stdout").write_bytes(b"one\n")
    huge = written.RECORD.pack(1, 0, 2**32 - 1, 0, 0, 0, 0, 0, written.MAGIC)
    (tmp_path / written.NAME).write_bytes(huge + b"nonsense" * 16)
    page = reader.more(Cursor(0, 0, 0, (0, 0)), Wanted(), 1000)
    assert pairs(page.entries) == [("stdout", b"one\n")] and page.lost


def test_both_sides_mean_the_same_format() -> None:
    for name in ("NAME", "MAGIC", "DATA", "ROTATING", "STATE"):
        assert getattr(written, name) == getattr(output_index, name)
    assert written.RECORD.format == output_index.RECORD.format
