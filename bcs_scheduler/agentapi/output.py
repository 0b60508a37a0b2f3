"""The output of a task, both streams in order with times, by the index that our executor writes beside the files.

Format of the index: docs/executor-protocol.md, section Index of the output. Files of the output are rotated while they
are read. The generations in the last record of the index say which file has which name; if they are the same before
and after a read, the bytes are those that were meant. A record of the index names the generation of its own file.

Exception tree: SandboxError (bcs_scheduler.agentapi.sandbox) with
    NoIndex        the executor of the task writes none: order and times are not known
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from bcs_scheduler.agentapi.output_index import (
    BLOCK,
    NAME,
    RECORD,
    ROTATING,
    STREAMS,
    Cursor,
    Entry,
    Page,
    Record,
    Tip,
    Wanted,
    choose,
    last_bytes,
    last_lines,
    records_in,
)
from bcs_scheduler.agentapi.sandbox import PIECE, AgentAway, Folder, NoSuchFile, SandboxError

T = TypeVar("T")

ENOUGH = PIECE
"""Bytes in which the beginning of a line is looked for."""
TRIES, PAUSE = 10, 0.02
"""Attempts to read while files are rotated, and seconds between two attempts."""


class NoIndex(SandboxError):
    pass


class Rotated(Exception):
    """Files have other names since they were looked at."""


class Output:
    """Of one task. All methods raise SandboxError."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._patient = True
        """A rotation is waited for. It never ends if the executor was killed in the middle of it."""

    def begin(self, wanted: Wanted, *, rotated: bool) -> Cursor:
        """Before the first record that is wanted. `rotated`: of all files that are there, not of the newest only."""
        return self._repeated(lambda: self._begin(wanted, rotated))

    def more(self, cursor: Cursor, wanted: Wanted, limit: int) -> Page:
        """At most `limit` bytes from the cursor on."""
        room = limit

        def smaller() -> None:
            nonlocal room
            room = max(PIECE, room // 2)

        return self._repeated(lambda: self._more(cursor, wanted, room), smaller)

    def tail(self, lines: int, wanted: Wanted, limit: int) -> Page:
        """The last lines of the wanted streams together, but at most `limit` bytes."""
        return self._repeated(lambda: self._tail(lines, wanted, limit))

    def _repeated(self, attempt: Callable[[], T], changed: Callable[[], None] = lambda: None) -> T:
        for number in range(TRIES):
            self._patient = number < TRIES - 1
            try:
                return attempt()
            except Rotated:
                changed()
                time.sleep(PAUSE)
        raise AgentAway("the output is rotated faster than it can be read; try again")

    def _is_rotating(self, record: Record) -> bool:
        return record.kind == ROTATING and self._patient

    # --- the index ------------------------------------------------------------------------------------------------

    def _tip(self) -> Tip:
        """Raises NoIndex; Rotated while there is no record."""
        try:
            size = self._folder.size(NAME)
        except NoSuchFile:
            try:
                self._folder.size(f"{NAME}.1")
            except NoSuchFile:
                raise NoIndex("the executor of the task records neither order nor times of its output") from None
            raise Rotated from None
        number = size // RECORD.size - 1
        if number < 0:
            raise Rotated
        found = self._file(0, number, 1)
        if not found:
            raise Rotated
        return Tip(found[0], number)

    def _settled(self) -> Tip:
        """Raises Rotated during a rotation."""
        tip = self._tip()
        if self._is_rotating(tip.record):
            raise Rotated
        return tip

    def _after(self, tip: Tip) -> Tip:
        """The last record now, in one request if that file of the index is still the newest."""
        found = self._file(0, tip.number, BLOCK)
        if not found or found[0].own != tip.record.own or len(found) == BLOCK:
            return self._tip()
        return Tip(found[-1], tip.number + len(found) - 1)

    def _file(self, age: int, number: int, count: int) -> list[Record]:
        """Records of the index; `age`: number of newer files. Raises NoSuchFile."""
        name = f"{NAME}.{age}" if age else NAME
        data = self._folder.piece(name, number * RECORD.size, count * RECORD.size)
        return list(records_in(data))

    def _of(self, tip: Tip, own: int, number: int, count: int) -> list[Record]:
        """Records of the file with generation `own`. Raises NoSuchFile, Rotated."""
        found = self._file(tip.record.own - own, number, count)
        if found and found[0].own != own:
            raise Rotated
        return found

    def _size(self, tip: Tip, own: int) -> int:
        """Number of records in the file with generation `own`."""
        if own == tip.record.own:
            return tip.number + 1
        return self._folder.size(f"{NAME}.{tip.record.own - own}") // RECORD.size

    def _oldest(self, tip: Tip) -> int:
        """Generation of the oldest file of the index."""
        own = tip.record.own
        try:
            while own > 0 and self._size(tip, own - 1):
                own -= 1
        except NoSuchFile:
            pass
        return own

    # --- where to begin -------------------------------------------------------------------------------------------

    def _begin(self, wanted: Wanted, rotated: bool) -> Cursor:
        tip = self._settled()
        floors = self._floors(tip) if rotated else tip.record.generations

        def reached(record: Record) -> bool:
            fresh = any(found >= floor for found, floor in zip(record.generations, floors, strict=True))
            return fresh and record.time >= wanted.since * 1e6

        for own in range(self._oldest(tip), tip.record.own + 1):
            low, high = 0, self._size(tip, own)
            last = self._of(tip, own, high - 1, 1)
            if not last or not reached(last[0]):
                continue
            while low < high:
                middle = (low + high) // 2
                found = self._of(tip, own, middle, 1)
                if not found:
                    raise Rotated
                low, high = (low, middle) if reached(found[0]) else (middle + 1, high)
            return Cursor(own, low, 0, floors)
        return Cursor(tip.record.own, tip.number + 1, 0, floors)

    def _floors(self, tip: Tip) -> tuple[int, int]:
        """Generations of the oldest files that are there."""
        oldest = []
        for stream, newest in zip(STREAMS, tip.record.generations, strict=True):
            age = 0
            try:
                while age < newest:
                    self._folder.size(f"{stream}.{age + 1}")
                    age += 1
            except NoSuchFile:
                pass
            oldest.append(newest - age)
        return oldest[0], oldest[1]

    # --- the output -----------------------------------------------------------------------------------------------

    def _more(self, cursor: Cursor, wanted: Wanted, limit: int) -> Page:
        """Raises Rotated."""
        quick = self._file(0, max(0, cursor.number - 1), BLOCK)
        if quick and quick[0].own == cursor.own and len(quick) < BLOCK:
            tip = Tip(quick[-1], max(0, cursor.number - 1) + len(quick) - 1)
            records, lost = quick[1:] if cursor.number else quick, False
        else:
            tip = self._tip()
            try:
                if cursor.own > tip.record.own:
                    raise NoSuchFile("the index has begun anew")
                records, lost = self._of(tip, cursor.own, cursor.number, BLOCK), False
            except NoSuchFile:
                cursor, lost = Cursor(self._oldest(tip), 0, 0, (0, 0)), True
                records = self._of(tip, cursor.own, 0, BLOCK)
        if not records and cursor.own < tip.record.own:
            return Page([], Cursor(cursor.own + 1, 0, 0, cursor.floors), False, lost)
        chosen, following = choose(records, cursor, wanted, limit)
        entries, complete = self._printed(tip, chosen)
        end = following.own == tip.record.own and following.number > tip.number
        return Page(entries, following, end, lost or not complete)

    def _tail(self, lines: int, wanted: Wanted, limit: int) -> Page:
        """Raises Rotated."""
        tip = self._settled()
        floors = self._floors(tip)
        oldest = self._oldest(tip)
        own, end = tip.record.own, tip.number + 1
        entries: list[Entry] = []
        kept: list[Entry] = []
        count, size = BLOCK // 16, 0
        while lines and size < limit:
            begin = max(0, end - count)
            block = self._of(tip, own, begin, end - begin)
            chosen = [(record, 0, record.length) for record in block if wanted.has(record, floors)]
            fitting = last_bytes(chosen, limit - size)
            printed, _ = self._printed(tip, fitting)
            entries = printed + entries
            size += sum(len(entry.data) for entry in printed)
            kept, whole = last_lines(entries, lines)
            if whole or (size >= ENOUGH and len(kept) < len(entries)):
                break
            if len(fitting) < len(chosen) or (block and block[0].time < wanted.since * 1e6):
                break
            end, count = begin, min(2 * count, BLOCK)
            if not end:
                if own == oldest:
                    break
                own -= 1
                end = self._size(tip, own)
        return Page(kept, Cursor(tip.record.own, tip.number + 1, 0, (0, 0)), True, False)

    def _printed(self, tip: Tip, chosen: Sequence[tuple[Record, int, int]]) -> tuple[list[Entry], bool]:
        """Entries for parts (first and last byte) of records, and whether all bytes were there. Raises Rotated."""
        if not chosen:
            return [], True
        if self._is_rotating(tip.record):
            raise Rotated
        stretches: list[tuple[int, int, int, int]] = []
        places: list[tuple[int, int]] = []
        latest: dict[tuple[int, int], int] = {}
        for record, first, last in chosen:
            key = record.stream, record.generations[record.stream]
            at = latest.get(key)
            if at is not None and stretches[at][3] == record.offset + first:
                stretches[at] = (*stretches[at][:3], record.offset + last)
            else:
                at = latest[key] = len(stretches)
                stretches.append((*key, record.offset + first, record.offset + last))
            places.append((at, record.offset + first - stretches[at][2]))
        contents = [self._stretch(tip, *stretch) for stretch in stretches]
        now = self._after(tip).record
        used = {stretch[0] for stretch in stretches}
        if self._is_rotating(now) or any(now.generations[at] != tip.record.generations[at] for at in used):
            raise Rotated
        entries, complete = [], True
        for (record, first, last), (at, offset) in zip(chosen, places, strict=True):
            data = contents[at][offset : offset + last - first]
            complete = complete and len(data) == last - first
            if data:
                entries.append(Entry(record.time / 1e6, STREAMS[record.stream], data))
        return entries, complete

    def _stretch(self, tip: Tip, stream: int, generation: int, begin: int, end: int) -> bytes:
        age = tip.record.generations[stream] - generation
        name = f"{STREAMS[stream]}.{age}" if age else STREAMS[stream]
        try:
            return self._folder.piece(name, begin, end - begin)
        except NoSuchFile:
            return b""
