"""executor.output: the last output of a failed task, as the scheduler unpacks it."""

from __future__ import annotations

import os
import time
import zlib
from pathlib import Path

import pytest

from bcs_scheduler.executor import output
from bcs_scheduler.executor.output import Index, RotatedFile
from bcs_scheduler.wire import kept_output
from bcs_scheduler.wire.kept_output import unpacked


def files(folder: Path, max_bytes: int = 10_000_000) -> tuple[RotatedFile, RotatedFile]:
    made = Index(folder, max_bytes, 5)
    made.begin()
    return RotatedFile(folder / "stdout", max_bytes, 5, made, 0), RotatedFile(folder / "stderr", max_bytes, 5, made, 1)


def test_both_streams_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 5 * 10**9)
    stdout, stderr = files(tmp_path)
    stdout.write(b"one\n")
    stderr.write(b"two\n")
    stdout.write(b"three\n")
    found = unpacked(output.packed(tmp_path))
    assert found == [(5.0, "stdout", b"one\n"), (5.0, "stderr", b"two\n"), (5.0, "stdout", b"three\n")]


@pytest.mark.parametrize("max_bytes", [10_000_000, 20_000])
def test_the_last_64_kib_over_rotations(tmp_path: Path, max_bytes: int) -> None:
    stdout, stderr = files(tmp_path, max_bytes)
    said = b""
    for number in range(3000):
        line = b"%060d\n" % number
        (stderr if number % 3 == 0 else stdout).write(line)
        said += line
    found = b"".join(entry.data for entry in unpacked(output.packed(tmp_path)))
    assert output.TAIL_BYTES - 61 < len(found) <= output.TAIL_BYTES
    assert said.endswith(b"\n" + found), "it begins at the beginning of a line"


def test_very_many_tiny_pieces_and_one_huge_piece_are_bounded(tmp_path: Path) -> None:
    stdout, _ = files(tmp_path)
    for _ in range(output.TAIL_ENTRIES + 100):
        stdout.write(b"x")
    assert len(unpacked(output.packed(tmp_path))) == output.TAIL_ENTRIES
    stdout.write(b"y" * 300_000)
    assert unpacked(output.packed(tmp_path))[0].data == b"y" * output.TAIL_BYTES
    noise = os.urandom(output.TAIL_BYTES)
    for at in range(0, output.TAIL_BYTES, 16):
        stdout.write(noise[at : at + 16])
    packed = output.packed(tmp_path)
    assert len(packed) <= kept_output.LARGEST_PACKED
    assert b"".join(entry.data for entry in unpacked(packed)) == noise


def test_nothing_was_printed(tmp_path: Path) -> None:
    assert output.packed(tmp_path) == b""
    files(tmp_path)
    assert output.packed(tmp_path) == b""


@pytest.mark.parametrize("link", ["symbolic", "hard", "pipe"])
def test_what_is_no_plain_file_is_not_read(tmp_path: Path, link: str) -> None:
    """The executor may be root, and the folder is the task's: what is kept is shown to viewers."""
    (tmp_path / "task").mkdir()
    stdout, _ = files(tmp_path / "task")
    stdout.write(b"output\n")
    (tmp_path / "secret").write_bytes(b"secret\n")
    place = tmp_path / "task/stdout"
    place.unlink()
    if link == "symbolic":
        place.symlink_to(tmp_path / "secret")
    elif link == "hard":
        place.hardlink_to(tmp_path / "secret")
    else:
        os.mkfifo(place)
    assert output.packed(tmp_path / "task") == b""


def test_what_cannot_be_understood_is_not_expanded() -> None:
    assert unpacked(b"nonsense") == []
    assert unpacked(zlib.compress(bytes(100_000_000))) == [(0.0, "stdout", b"")] * (
        kept_output.LARGEST // kept_output.ENTRY.size
    )
    cut = output.ENTRY.pack(1_000_000, 1, 3) + b"abc" + output.ENTRY.pack(1_000_000, 7, 1) + b"x"
    assert unpacked(zlib.compress(cut)) == [(1.0, "stderr", b"abc")]


def test_both_sides_mean_the_same_format() -> None:
    assert (output.TAIL_BYTES, output.TAIL_ENTRIES, output.ENTRY.format) == (
        kept_output.MOST,
        kept_output.MOST_ENTRIES,
        kept_output.ENTRY.format,
    )
    assert output.FILES == kept_output.STREAMS
