"""The terms of a decision log that lies in several files or folders, as of several schedulers, in their order."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from bcs_scheduler.decisions.format import Begin, DamagedLog, frames
from bcs_scheduler.decisions.log import NAME, file_name


class RecordedTerm(NamedTuple):
    """A term, and the first of its files."""

    epoch: int
    path: Path


class Found(NamedTuple):
    """The terms in their order. `incomplete`: first remaining files of terms that cannot be repeated, because the log
    has removed their first files."""

    terms: list[RecordedTerm]
    incomplete: list[Path]

    @property
    def unrecorded(self) -> list[int]:
        """The epochs between the terms of which there is no file: they took no turn, or another scheduler has them."""
        known = {term.epoch for term in self.terms} | {_epoch_in(path) for path in self.incomplete}
        return [epoch for epoch in range(min(known, default=0), max(known, default=0)) if epoch not in known]


def terms_of(places: Iterable[Path]) -> Found:
    """Returns the terms of files and folders. A folder stands for all terms in it, a file for its term; further files
    of a term belong to its first one. Raises OSError, and DamagedLog if a file is not the start of a term."""
    firsts: dict[Path, None] = {}
    incomplete: dict[Path, None] = {}
    for place in places:
        files = sorted(path for path in place.rglob("*") if NAME.fullmatch(path.name)) if place.is_dir() else [place]
        if not files:
            raise DamagedLog(f"{place}: no file of a decision log")
        known: set[tuple[Path, int]] = set()
        for path in files:
            match = NAME.fullmatch(path.name)
            first = path.with_name(file_name(int(match[1]), 0)) if match is not None else path
            if match is None or first.exists():
                firsts[first] = None
            elif (path.parent, int(match[1])) not in known:
                known.add((path.parent, int(match[1])))
                incomplete[path] = None
    return Found(sorted(RecordedTerm(_epoch_of(path), path) for path in firsts), list(incomplete))


def _epoch_of(path: Path) -> int:
    with path.open("rb") as file:
        for frame in frames(file, str(path)):
            if isinstance(frame, Begin):
                return frame.epoch
            break
    raise DamagedLog(f"{path}: the start of the term is missing")


def _epoch_in(path: Path) -> int:
    match = NAME.fullmatch(path.name)
    return int(match[1]) if match is not None else 0
