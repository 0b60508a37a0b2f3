"""Following the output of a task: order, rotation, what is lost, and the end."""

from __future__ import annotations

import io
import json
import socket
import time
from pathlib import Path

import pytest

from bcs_scheduler.executor.output import NAME, Index, RotatedFile
from bcs_scheduler.executor.sessions import attached, follow
from bcs_scheduler.executor.sessions.attached import Attached
from bcs_scheduler.executor.sessions.contexts import Context, ContextError
from tests.waiting import wait_for


class Task:
    """The files of a task, and a reader."""

    def __init__(self, folder: Path, max_bytes: int = 10_000, files: int = 3) -> None:
        self.folder = folder
        self.index = Index(folder, max_bytes, files)
        self.index.begin()
        self.streams = [
            RotatedFile(folder / name, max_bytes, files, self.index, number)
            for number, name in enumerate(("stdout", "stderr"))
        ]

    def say(self, text: bytes, stream: int = 0) -> None:
        self.streams[stream].write(text)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bytes]]:
    """What a follower writes: file descriptor and data."""
    found: list[tuple[int, bytes]] = []
    monkeypatch.setattr(follow, "_write", lambda descriptor, data: found.append((descriptor, bytes(data))))
    return found


def joined(written: list[tuple[int, bytes]], descriptor: int = 1) -> bytes:
    return b"".join(data for one, data in written if one == descriptor)


def test_both_streams_come_in_order_and_what_came_before_does_not(
    tmp_path: Path, written: list[tuple[int, bytes]]
) -> None:
    task = Task(tmp_path)
    task.say(b"before")
    printed = follow._Printed(tmp_path)
    printed.copy()
    assert written == []
    for number in range(5):
        task.say(b"out %d\n" % number)
        task.say(b"err %d\n" % number, 1)
    printed.copy()
    assert written == [
        (stream, b"%b %d\n" % (name, number)) for number in range(5) for stream, name in ((1, b"out"), (2, b"err"))
    ]


def test_the_output_before_comes_first_if_it_is_wanted(tmp_path: Path, written: list[tuple[int, bytes]]) -> None:
    """Over several index files: 1000 bytes per file, and the index holds 128 records per file."""
    task = Task(tmp_path, max_bytes=1000, files=5)
    pieces = [b"%05d" % number for number in range(600)]
    for piece in pieces:
        task.say(piece)
    assert (tmp_path / f"{NAME}.1").exists()
    printed = follow._Printed(tmp_path, whole=True)
    printed.copy()
    assert joined(written) == b"".join(pieces)
    task.say(b"after")
    printed.copy()
    assert joined(written) == b"".join(pieces) + b"after"
    assert joined(written, 2) == b""


def test_the_whole_output_of_a_task_that_has_printed_nothing(tmp_path: Path, written: list[tuple[int, bytes]]) -> None:
    printed = follow._Printed(tmp_path / "none", whole=True)
    printed.copy()
    task = Task(tmp_path)
    printed = follow._Printed(tmp_path, whole=True)
    printed.copy()
    assert written == []
    task.say(b"first")
    printed.copy()
    assert joined(written) == b"first"


@pytest.mark.parametrize("every", [1, 3, 50])
def test_rotation_loses_nothing_that_is_still_there(
    tmp_path: Path, written: list[tuple[int, bytes]], every: int
) -> None:
    """1000 bytes per file: some 15 pieces; the index holds 128 records per file."""
    task = Task(tmp_path, max_bytes=1000, files=5)
    printed = follow._Printed(tmp_path)
    for number in range(1000):
        task.say(b"%060d" % number)
        if number % every == 0:
            printed.copy()
    printed.copy()
    assert joined(written) == b"".join(b"%060d" % number for number in range(1000))
    assert joined(written, 2) == b""


def test_what_was_rotated_away_is_counted(tmp_path: Path, written: list[tuple[int, bytes]]) -> None:
    task = Task(tmp_path, max_bytes=1000, files=2)
    printed = follow._Printed(tmp_path)
    pieces = [b"%059d\n" % number for number in range(100)]
    for piece in pieces:
        task.say(piece)
    printed.copy()
    shown = joined(written)
    assert b"".join(pieces).endswith(shown)
    assert 0 < len(shown) <= 2000
    assert f"{6000 - len(shown)} bytes of output were skipped" in joined(written, 2).decode()


def test_a_single_file_that_is_emptied_is_followed(tmp_path: Path, written: list[tuple[int, bytes]]) -> None:
    task = Task(tmp_path, max_bytes=1000, files=1)
    printed = follow._Printed(tmp_path)
    for number in range(500):
        task.say(b"%060d" % number)
        printed.copy()
    assert joined(written) == b"".join(b"%060d" % number for number in range(500))


def test_links_of_the_user_of_the_task_are_not_read(
    tmp_path: Path, written: list[tuple[int, bytes]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    task = Task(tmp_path)
    printed = follow._Printed(tmp_path)
    task.say(b"x" * 10)
    secret = tmp_path_factory.mktemp("other") / "secret"
    secret.write_bytes(b"s" * 10)
    (tmp_path / "stdout").unlink()
    (tmp_path / "stdout").symlink_to(secret)
    printed.copy()
    assert joined(written) == b""


def test_the_end_has_the_exit_code(tmp_path: Path, written: list[tuple[int, bytes]]) -> None:
    def ended(*lines: bytes) -> int:
        return follow.follow(Context(output=str(tmp_path)), io.BytesIO(b"".join(lines)))

    Task(tmp_path)
    assert ended(b"\n", b"\n", b'{"exit": 7}\n') == 7
    assert ended(b'{"exit": -9}\n') == 128 + 9
    with pytest.raises(ContextError, match="not known"):
        ended(b'{"exit": null}\n')
    with pytest.raises(ContextError, match="executor has ended"):
        ended(b"\n")


def test_a_reader_that_reads_nothing_costs_nothing_and_gets_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection is full of rings; none of them waits."""
    followers = Attached()
    ours, theirs = socket.socketpair()
    followers.add(ours)
    began = time.monotonic()
    for _ in range(100_000):
        followers.ring()
    assert time.monotonic() - began < 10.0
    followers.end(3)
    with theirs, theirs.makefile("rb") as lines:
        *rings, last = lines.readlines()
        assert set(rings) == {b"\n"}
        assert json.loads(last) == {"exit": 3}
    followers.wait(time.monotonic() + 10.0)
    assert followers._leaving == 0


def test_a_reader_that_never_reads_is_left_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attached, "LINGER", 0.2)
    followers = Attached()
    ours, theirs = socket.socketpair()
    followers.add(ours)
    for _ in range(100_000):
        followers.ring()
    followers.end(3)
    with theirs:
        followers.wait(time.monotonic() + 10.0)
        assert followers._leaving == 0


def test_readers_that_have_left_are_forgotten() -> None:
    followers = Attached()
    for _ in range(5):
        ours, theirs = socket.socketpair()
        followers.add(ours)
        theirs.close()
    assert len(followers._connections) <= 1
    followers.ring()
    wait_for(lambda: not followers._connections, what="an empty list")


def test_whoever_comes_after_the_end_gets_the_end() -> None:
    followers = Attached()
    followers.end(0)
    ours, theirs = socket.socketpair()
    followers.add(ours)
    with theirs, theirs.makefile("rb") as lines:
        assert json.loads(lines.readline()) == {"exit": 0}
