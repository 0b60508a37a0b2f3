"""What the index of the output costs, beside moving the output from a pipe to a file."""

from __future__ import annotations

import os
import time
from pathlib import Path
from statistics import median

import pytest

from bcs_scheduler.executor.output import CHUNK, RECORD, Index, RotatedFile


class Output:
    """A pipe whose pieces are moved to a file, as the executor does."""

    def __init__(self, folder: Path, piece: int, *, indexed: bool) -> None:
        folder.mkdir()
        self._index = Index(folder, 10 * 1024 * 1024, 5) if indexed else None
        self._file = RotatedFile(folder / "stdout", 10 * 1024 * 1024, 5, self._index)
        self._reading, self._writing = os.pipe()
        self._data = b"x" * piece

    def __enter__(self) -> Output:
        return self

    def __exit__(self, *raised: object) -> None:
        for descriptor in (self._reading, self._writing):
            os.close(descriptor)
        self._file.close()
        if self._index is not None:
            self._index.close()

    def move(self) -> float:
        """Moves one piece. Returns its processor time in seconds."""
        os.write(self._writing, self._data)
        began = time.thread_time()
        self._file.write(os.read(self._reading, CHUNK))
        return time.thread_time() - began


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
    with Output(tmp_path / "plain", piece, indexed=False) as plain:
        for _ in range(50):
            plain.move()
    assert written == [piece] * 50
    written.clear()
    with Output(tmp_path / "indexed", piece, indexed=True) as indexed:
        for _ in range(50):
            indexed.move()
    assert written == [piece, RECORD.size] * 50


@pytest.mark.costs
@pytest.mark.parametrize(("piece", "count", "most"), [(65_536, 2000, 1.5), (100, 5000, 4.0)])
def test_the_index_costs_a_share_of_the_processor_time(piece: int, count: int, most: float, tmp_path: Path) -> None:
    """Measured: 1.15 for pieces of 64 KiB, 2.1 for pieces of 100 bytes. Both move in turn, so that load slows both; the
    median is that of pieces which no rotation and no other process has slowed."""
    with (
        Output(tmp_path / "plain", piece, indexed=False) as plain,
        Output(tmp_path / "indexed", piece, indexed=True) as indexed,
    ):
        moved = [(plain.move(), indexed.move()) for _ in range(count)]
    without, with_index = (median(one) for one in zip(*moved, strict=True))
    assert with_index < most * without, f"{with_index * 1e6:.1f} us with the index, {without * 1e6:.1f} us without"
