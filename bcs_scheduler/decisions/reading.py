"""Reads the files of one term of a decision log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bcs_scheduler.decisions.format import Begin, Continued, DamagedLog, Frame, frames
from bcs_scheduler.decisions.log import NAME, file_name


def term_frames(path: Path) -> Iterator[Frame | int]:
    """Yields the frames of the term that begins with `path`, and those of its further files. The bytes of a torn tail
    come last, as a number. Raises OSError, and DamagedLog for a file that cannot be used."""
    match = NAME.fullmatch(path.name)
    if match is not None and int(match[2]):
        first = file_name(int(match[1]), 0)
        raise DamagedLog(f"{path}: the term begins in the file {first}; replay that file")
    part = 0
    while True:
        with path.open("rb") as file:
            yield from _checked(path, part, frames(file, str(path)))
        part += 1
        if match is None or not (path := path.with_name(file_name(int(match[1]), part))).exists():
            return


def _checked(path: Path, part: int, found: Iterator[Frame | int]) -> Iterator[Frame | int]:
    for number, frame in enumerate(found):
        if number == 0 and not isinstance(frame, (int, Continued if part else Begin)):
            raise DamagedLog(f"{path}: the file does not begin as file {part} of a term")
        yield frame
