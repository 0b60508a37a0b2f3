"""executor.output: the output of a task goes to files of the sandbox, and an index of it beside them."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from bcs_scheduler.executor import output as pumps
from bcs_scheduler.executor import threads
from bcs_scheduler.executor.output import Pump, RotatedFile
from tests.waiting import wait_for


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Writes to regular files fail while the event is set."""
    full = threading.Event()
    write = os.write

    def refused(descriptor: int, data: bytes) -> int:
        if full.is_set() and os.path.isfile(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.ENOSPC, "no space")
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", refused)
    return full


def test_files_are_rotated_and_the_oldest_is_dropped(tmp_path: Path) -> None:
    file = RotatedFile(tmp_path / "stdout", 10, 3)
    for number in range(5):
        file.write(b"line %d\n" % number)
    assert (tmp_path / "stdout").read_bytes() == b"line 4\n"
    assert (tmp_path / "stdout.1").read_bytes() == b"line 3\n"
    assert (tmp_path / "stdout.2").read_bytes() == b"line 2\n"
    assert len(list(tmp_path.iterdir())) == 3
    file.close()


@pytest.mark.parametrize("size", [1, 3, 7, 64, 1000])
def test_files_are_rotated_at_the_end_of_a_line(tmp_path: Path, size: int) -> None:
    """Whatever the pieces are in which the output arrives: no line is cut, and none is lost."""
    file = RotatedFile(tmp_path / "stdout", 50, 1000)
    lines = b"".join(b"line %d of many\n" % number for number in range(100))
    for begin in range(0, len(lines), size):
        file.write(lines[begin : begin + size])
    file.close()
    paths = sorted(tmp_path.iterdir(), key=lambda path: -int(path.suffix[1:] or 0))
    found = [path.read_bytes() for path in paths]
    assert b"".join(found) == lines and all(each.endswith(b"\n") for each in found)
    assert len(found) >= len(lines) // 70 and max(map(len, found)) <= 100


def test_a_line_without_an_end_is_cut_in_the_end(tmp_path: Path) -> None:
    file = RotatedFile(tmp_path / "stdout", 50, 3)
    for _ in range(30):
        file.write(b"0123456789")
    file.close()
    assert max(path.stat().st_size for path in tmp_path.iterdir()) <= 100


def test_a_single_file_begins_anew(tmp_path: Path) -> None:
    file = RotatedFile(tmp_path / "stdout", 10, 1)
    file.write(b"line 0\n")
    file.write(b"line 1\n")
    assert (tmp_path / "stdout").read_bytes() == b"line 1\n"
    assert [path.name for path in tmp_path.iterdir()] == ["stdout"]
    file.close()


def test_what_is_there_already_is_kept(tmp_path: Path) -> None:
    (tmp_path / "stdout").write_bytes(b"before\n")
    file = RotatedFile(tmp_path / "stdout", 10, 2)
    file.write(b"after\n")
    assert (tmp_path / "stdout.1").read_bytes() == b"before\n"
    file.close()


def test_a_full_disk_drops_output_and_says_so_when_there_is_room(tmp_path: Path, full_disk: threading.Event) -> None:
    file = RotatedFile(tmp_path / "stdout", 1000, 2)
    file.write(b"a\n")
    full_disk.set()
    file.write(b"lost\n")
    file.write(b"lost as well\n")
    assert file.dropped == 18
    full_disk.clear()
    file.write(b"b\n")
    assert file.dropped == 0
    assert (tmp_path / "stdout").read_bytes() == (b"a\n\n[18 bytes of output were dropped: the disk refused them]\nb\n")
    file.close()


@pytest.mark.parametrize("link", ["symbolic", "hard"])
@pytest.mark.parametrize("files", [1, 2])
def test_links_are_not_followed(tmp_path: Path, link: str, files: int) -> None:
    precious = tmp_path / "precious"
    precious.write_bytes(b"precious")
    if link == "symbolic":
        (tmp_path / "stdout").symlink_to(precious)
    else:
        (tmp_path / "stdout").hardlink_to(precious)
    file = RotatedFile(tmp_path / "stdout", 5, files)
    file.write(b"lost\n")
    assert file.dropped == 5
    assert precious.read_bytes() == b"precious"
    file.close()


@pytest.mark.parametrize("files", [1, 2])
def test_a_link_that_comes_while_it_is_written_is_not_followed(tmp_path: Path, files: int) -> None:
    precious = tmp_path / "precious"
    precious.write_bytes(b"precious")
    file = RotatedFile(tmp_path / "stdout", 5, files)
    file.write(b"1234\n")
    (tmp_path / "stdout").unlink()
    (tmp_path / "stdout").symlink_to(precious)
    for _ in range(3):
        file.write(b"5678\n")
    assert precious.read_bytes() == b"precious"
    file.close()


def test_a_pipe_that_nobody_reads_holds_up_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "stdout")
    file = RotatedFile(tmp_path / "stdout", 1000, 2)
    file.write(b"lost\n")
    assert file.dropped == 5
    file.close()


def test_the_file_is_there_before_anything_is_printed(tmp_path: Path) -> None:
    Pump().open(tmp_path / "stdout", 1000, 2).close()
    assert (tmp_path / "stdout").read_bytes() == b""


def test_a_file_that_cannot_be_made(tmp_path: Path) -> None:
    file = RotatedFile(tmp_path / "missing" / "stdout", 1000, 2)
    file.write(b"lost\n")
    assert file.dropped == 5
    (tmp_path / "missing").mkdir()
    file.write(b"found\n")
    assert (tmp_path / "missing/stdout").read_bytes().endswith(b"found\n")
    file.close()


def test_a_task_is_not_held_up_by_a_full_disk(tmp_path: Path, full_disk: threading.Event) -> None:
    stream = Pump().open(tmp_path / "stdout", 1000, 2)
    full_disk.set()
    for _ in range(100):
        os.write(stream.descriptor, b"x" * 4096)  # more than a pipe holds: this would block
    full_disk.clear()
    os.write(stream.descriptor, b"end\n")
    stream.close()
    assert b"bytes of output were dropped" in (tmp_path / "stdout").read_bytes() + (
        (tmp_path / "stdout.1").read_bytes() if (tmp_path / "stdout.1").exists() else b""
    )


def test_closing_waits_for_what_is_in_the_pipe(tmp_path: Path) -> None:
    pump = Pump()
    first, second = pump.open(tmp_path / "stdout", 1000, 2), pump.open(tmp_path / "stderr", 1000, 2)
    os.write(first.descriptor, b"out\n")
    os.write(second.descriptor, b"err\n")
    first.close()
    second.close()
    assert (tmp_path / "stdout").read_bytes() == b"out\n"
    assert (tmp_path / "stderr").read_bytes() == b"err\n"


def test_closing_does_not_wait_for_somebody_who_holds_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pumps, "DRAIN", 0.05)
    stream = Pump().open(tmp_path / "stdout", 1000, 2)
    other = os.dup(stream.descriptor)
    os.write(other, b"out\n")
    wait_for(lambda: (tmp_path / "stdout").read_bytes() == b"out\n", what="the output")
    stream.close()
    wait_for(stream.done.is_set)
    assert (tmp_path / "stdout").read_bytes() == b"out\n"
    os.close(other)


def test_an_unforeseen_error_of_one_stream_does_not_hold_up_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It comes again with each piece of output. Once the loop began anew each time, after pauses that grew to 10 s."""
    monkeypatch.setattr(threads, "FIRST_PAUSE", 60.0)
    honest = RotatedFile.write

    def write(self: RotatedFile, data: bytes) -> None:
        if self.name == "odd":
            raise ZeroDivisionError("hunter2")
        honest(self, data)

    monkeypatch.setattr(RotatedFile, "write", write)
    pump = Pump()
    odd, other = pump.open(tmp_path / "odd", 1000, 2), pump.open(tmp_path / "stdout", 1000, 2)
    for number in range(20):
        os.write(odd.descriptor, b"x" * 4096)
        os.write(other.descriptor, b"%d\n" % number)
    other.close()
    odd.close()
    assert (tmp_path / "stdout").read_bytes() == b"".join(b"%d\n" % number for number in range(20))
    assert other.done.is_set() and odd.done.is_set()
    assert "thread.failed: logs: ZeroDivisionError" in caplog.text and "hunter2" not in caplog.text


def test_a_stream_that_cannot_be_read_does_not_keep_later_ones_from_being_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "FIRST_PAUSE", 60.0)
    honest, failures = Pump._take_in, [ZeroDivisionError()]

    def take_in(self: Pump, stream: pumps.Stream) -> None:
        if failures:
            raise failures.pop()
        honest(self, stream)

    monkeypatch.setattr(Pump, "_take_in", take_in)
    pump = Pump()
    pump.open(tmp_path / "odd", 1000, 2)
    stream = pump.open(tmp_path / "stdout", 1000, 2)
    os.write(stream.descriptor, b"out\n")
    stream.close()
    assert not failures
    assert (tmp_path / "stdout").read_bytes() == b"out\n"
