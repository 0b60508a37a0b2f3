"""The index of the output of a task, as our executor writes it: records, and parts of records that fit an answer.

Format: docs/executor-protocol.md, section Index of the output.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bcs_scheduler.agentapi.sandbox import PIECE

NAME = ".bcs-output"
RECORD = struct.Struct(">QIIIIIBBH")
DATA, ROTATING, STATE = 0, 1, 2
MAGIC = 0xBC51
STREAMS = ("stdout", "stderr")
BLOCK = PIECE // RECORD.size
"""Records that are read at once."""
MOST_READS = 64
"""Stretches of files that are read for one answer at most."""


class Record(NamedTuple):
    """`time` in microseconds since 1970; `generations` of standard output and standard error, `own` of the index."""

    time: int
    offset: int
    length: int
    generations: tuple[int, int]
    own: int
    stream: int
    kind: int


class Entry(NamedTuple):
    """The bytes of one read of the executor. `time` in Unix seconds."""

    time: float
    stream: str
    data: bytes


class Cursor(NamedTuple):
    """The next record: `number` in the file of the index with generation `own`; `skip`: bytes of that record that were
    read. Records of generations below `floors` are passed over."""

    own: int
    number: int
    skip: int
    floors: tuple[int, int]

    @classmethod
    def of(cls, text: str) -> Cursor:
        """Raises ValueError."""
        own, number, skip, *floors = (int(part) for part in text.split("."))
        if len(floors) != 2 or min(own, number, skip, *floors) < 0 or max(own, number, skip, *floors) >= 2**32:
            raise ValueError(text)
        return cls(own, number, skip, (floors[0], floors[1]))

    def __str__(self) -> str:
        return ".".join(str(part) for part in (self.own, self.number, self.skip, *self.floors))


class Page(NamedTuple):
    """`end`: there is nothing more at present. `lost`: some output was rotated away before it was read."""

    entries: list[Entry]
    next: Cursor
    end: bool
    lost: bool


class Tip(NamedTuple):
    """The last record of the index, and its number in its file."""

    record: Record
    number: int


class Wanted(NamedTuple):
    """`since` in Unix seconds."""

    streams: tuple[str, ...] = STREAMS
    since: float = 0.0

    def has(self, record: Record, floors: tuple[int, int]) -> bool:
        return (
            record.kind == DATA
            and STREAMS[record.stream] in self.streams
            and record.generations[record.stream] >= floors[record.stream]
            and record.time >= self.since * 1e6
        )


def records_in(data: bytes) -> Iterator[Record]:
    """Whole records up to the first that is none: the file lies in a folder of the task."""
    for found in RECORD.iter_unpack(data[: len(data) // RECORD.size * RECORD.size]):
        moment, offset, length, stdout, stderr, own, stream, kind, magic = found
        if magic != MAGIC or stream >= len(STREAMS) or kind not in (DATA, ROTATING, STATE):
            return
        yield Record(moment, offset, length, (stdout, stderr), own, stream, kind)


def choose(
    records: Sequence[Record], cursor: Cursor, wanted: Wanted, limit: int
) -> tuple[list[tuple[Record, int, int]], Cursor]:
    """Parts of records with `limit` bytes at most, and the place where the next call continues."""
    chosen: list[tuple[Record, int, int]] = []
    stretches: dict[int, int] = {}
    reads = 0
    number, skip = cursor.number, cursor.skip
    for record in records:
        if wanted.has(record, cursor.floors) and record.length > skip:
            last = min(record.length, skip + limit)
            if stretches.get(record.stream) != record.offset + skip:
                reads += 1
            if limit <= 0 or reads > MOST_READS:
                break
            chosen.append((record, skip, last))
            stretches[record.stream] = record.offset + last
            limit -= last - skip
            if last < record.length:
                return chosen, cursor._replace(number=number, skip=last)
        number, skip = number + 1, 0
    return chosen, cursor._replace(number=number, skip=skip)


def last_bytes(chosen: Sequence[tuple[Record, int, int]], limit: int) -> list[tuple[Record, int, int]]:
    kept: list[tuple[Record, int, int]] = []
    for record, first, last in reversed(chosen):
        if limit <= 0:
            break
        kept.append((record, max(first, last - limit), last))
        limit -= last - kept[-1][1]
    return kept[::-1]


def last_lines(entries: Sequence[Entry], lines: int) -> tuple[list[Entry], bool]:
    """The last lines of all streams together, in the order of their ends; and whether they are as many as wanted, each
    with its beginning. A last line need not end in a line break."""
    if not lines:
        return [], True
    pieces: list[tuple[int, int, bytes]] = []
    ends: dict[int, int] = {}
    """Line to the place of its last piece."""
    unfinished: dict[str, int] = {}
    firsts: dict[str, int] = {}
    fresh = 0
    for at, entry in enumerate(entries):
        *whole, rest = entry.data.split(b"\n")
        for part in [*(line + b"\n" for line in whole), *([rest] if rest else [])]:
            line = unfinished.pop(entry.stream, fresh)
            fresh += line == fresh
            firsts.setdefault(entry.stream, line)
            ends[line] = len(pieces)
            pieces.append((at, line, part))
            if not part.endswith(b"\n"):
                unfinished[entry.stream] = line
    kept = set(sorted(ends, key=lambda line: ends[line])[-lines:])
    parts: dict[int, list[bytes]] = {}
    for at, line, part in pieces:
        if line in kept:
            parts.setdefault(at, []).append(part)
    whole_lines = len(kept) == lines and kept.isdisjoint(firsts.values())
    return [entries[at]._replace(data=b"".join(found)) for at, found in parts.items()], whole_lines
