"""What the index of the output costs, beside moving the output from a pipe to a file."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from bcs_scheduler.executor.output.index import RECORD, Index
from bcs_scheduler.executor.output.pump import CHUNK
from bcs_scheduler.executor.output.rotated import RotatedFile

ROUNDS = 7


def moved(folder: Path, piece: int, count: int, *, indexed: bool) -> float:
    """Moves pieces from a pipe to a file as the executor does. Returns the processor time of one piece in seconds."""
    folder.mkdir()
    index = Index(folder, 10 * 1024 * 1024, 5) if indexed else None
    file = RotatedFile(folder / "stdout", 10 * 1024 * 1024, 5, index)
    reading, writing = os.pipe()
    data, spent = b"x" * piece, 0.0
    for _ in range(count):
        os.write(writing, data)
        began = time.thread_time()
        file.write(os.read(reading, CHUNK))
        spent += time.thread_time() - began
    for descriptor in (reading, writing):
        os.close(descriptor)
    file.close()
    if index is not None:
        index.close()
    return spent / count


@pytest.mark.parametrize("piece", [1, 100, 65_536])
def test_the_index_costs_one_short_write_for_each_read(
    piece: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    write = os.write

    def counting(descriptor: int, data: bytes) -> int:
        if os.path.isfile(f"/proc/self/fd/{descriptor}"):
            written.append(len(data))
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", counting)
    moved(tmp_path / "plain", piece, 50, indexed=False)
    assert written == [piece] * 50
    written.clear()
    moved(tmp_path / "indexed", piece, 50, indexed=True)
    assert written == [piece, RECORD.size] * 50


@pytest.mark.costs
@pytest.mark.parametrize(("piece", "count", "most"), [(65_536, 300, 1.5), (100, 3000, 4.0)])
def test_the_index_costs_a_share_of_the_processor_time(piece: int, count: int, most: float, tmp_path: Path) -> None:
    """Measured: 1.17 for pieces of 64 KiB, 2.5 for pieces of 100 bytes. The least of several rounds of both."""
    plain, indexed = float("inf"), float("inf")
    for number in range(ROUNDS):
        plain = min(plain, moved(tmp_path / f"plain{number}", piece, count, indexed=False))
        indexed = min(indexed, moved(tmp_path / f"indexed{number}", piece, count, indexed=True))
    assert indexed < most * plain, f"{indexed * 1e6:.1f} us with the index, {plain * 1e6:.1f} us without"
