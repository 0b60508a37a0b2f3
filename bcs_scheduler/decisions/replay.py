"""Repeats a decision log with the core of this version, and finds the first turn that is decided otherwise."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.scheduler import Core
from bcs_scheduler.decisions import content
from bcs_scheduler.decisions.format import Begin, DamagedLog, Full, Lost, Records, Turn
from bcs_scheduler.decisions.reading import term_frames
from store.encoding.codec import Stored, decode_all
from store.encoding.seal import Sealer, new_key
from store.encoding.sizes import Sizer
from store.records import Record

AnswerT = TypeVar("AnswerT")


class Replayed(msgspec.Struct, kw_only=True):
    """The outcome. `turns`: turns that were repeated with equal decisions; `inputs`, `decisions`: within them.
    `difference`: the first turn that was decided otherwise; None = none was. `gaps`: why later turns were not repeated,
    in sentences. `torn`: bytes of an incomplete last frame."""

    epoch: int = 0
    program: str = ""
    records: int = 0
    turns: int = 0
    inputs: int = 0
    decisions: int = 0
    digest: int = 0
    """CRC-32 of all repeated decisions."""
    left_out: list[str] = []
    """Records that the log does not hold, in sentences. Turns that need one of them are decided otherwise."""
    gaps: list[str] = []
    torn: int = 0
    difference: Difference | None = None


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that was decided otherwise. `recorded`, `repeated`: decisions from the first one that differs, as
    decisions.content.decided encodes them."""

    turn: int
    now: float
    position: int
    recorded: tuple[bytes, ...]
    repeated: tuple[bytes, ...]
    error: str = ""
    """The exception that the core of this version raised; empty = none."""


class _Unasked(Exception):
    """The core of this version asks more often than the recorded one."""


class ReplayedTime:
    """A time budget that gives the recorded answers."""

    def __init__(self, turn: Turn) -> None:
        self._spent, self._congested = iter(turn.spent), iter(turn.congested)

    def spent(self) -> float:
        """As TimeBudget.spent."""
        return _next(self._spent, "the time budget")

    def is_congested(self) -> bool:
        """As TimeBudget.is_congested."""
        return _next(self._congested, "the congestion")


def _next(answers: Iterator[AnswerT], what: str) -> AnswerT:
    for answer in answers:
        return answer
    raise _Unasked(f"this version asks for {what} more often than the recorded one")


class Replay:
    """Repeats the turns of one term, which begins with `path`."""

    def __init__(self, path: Path, options_of: Callable[[Begin], CoreOptions]) -> None:
        """`options_of`: makes the options of the core from the recorded settings."""
        self._path, self._options_of = path, options_of
        self.result = Replayed()
        self._begin: Begin | None = None
        self._records: list[Record] = []
        self._left_out: dict[tuple[str, str], str] = {}
        self._core: Core | None = None
        self._clock: Iterator[float] = iter(())

    def run(self) -> Replayed:
        """Raises OSError, and DamagedLog for a file that cannot be used."""
        result = self.result
        for frame in term_frames(self._path):
            if isinstance(frame, int):
                result.torn = frame
            elif isinstance(frame, Begin):
                self._begin, result.epoch, result.program = frame, frame.epoch, frame.program
            elif isinstance(frame, Records):
                self._load(frame)
            elif isinstance(frame, Turn):
                if not result.gaps and not self._repeat(frame):
                    return result
            elif isinstance(frame, Lost):
                result.gaps.append(f"{frame.turns} turns are missing after turn {result.turns}: {frame.reason}")
            elif isinstance(frame, Full):
                result.gaps.append(f"the files reached their bound after turn {result.turns}; later turns are missing")
        if self._begin is None:
            raise DamagedLog(f"{self._path}: the start of the term is missing")
        return result

    def _load(self, frame: Records) -> None:
        for kind, key, data in frame.records:
            if fault := content.fault_of(data):
                self._left_out[kind, key] = f"the record was left out of the decision log ({fault})"
                self.result.left_out.append(f"{kind} {key} was left out of the log ({fault})")
        loaded = decode_all(Stored(*item) for item in frame.records if not content.fault_of(item[2]))
        if loaded.quarantined:
            bad = loaded.quarantined[0]
            raise DamagedLog(f"{self._path}: {bad.kind} {bad.key} cannot be read by this version: {bad.error}")
        self._records += loaded.records
        self.result.records = len(self._records)

    def _started(self) -> Core:
        if self._core is None:
            begin = self._begin
            assert begin is not None, "the first frame is checked"
            options = self._options_of(begin)
            if options.session_clock is not None:
                options = dataclasses.replace(options, session_clock=self._time)
            unreadable = {**self._left_out, **{(kind, key): fault for kind, key, fault in begin.unreadable}}
            self._core = Core(self._records, options, begin.wall, unreadable, begin.elapsed)
            self._core.turn_context.uow.sizer = Sizer(begin.limit, Sealer([new_key()] if begin.sealed else []))
        return self._core

    def _time(self) -> float:
        return _next(self._clock, "the clock of sessions")

    def _repeat(self, turn: Turn) -> bool:
        """Returns False if the turn is decided otherwise."""
        result, error = self.result, ""
        repeated: tuple[bytes, ...] = ()
        self._clock = iter(turn.clock)
        try:
            batch = [content.read(name, data) for name, data in turn.inputs]
            repeated = content.decided(self._started().turn(batch, turn.now, ReplayedTime(turn)))
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
        if error or repeated != turn.decisions:
            pairs = zip(repeated, turn.decisions, strict=False)
            shorter = min(len(repeated), len(turn.decisions))
            place = next((n for n, (mine, theirs) in enumerate(pairs) if mine != theirs), shorter)
            result.difference = Difference(
                turn=turn.number,
                now=turn.now,
                position=place,
                recorded=turn.decisions[place:],
                repeated=repeated[place:],
                error=error,
            )
            return False
        result.turns += 1
        result.inputs += len(turn.inputs)
        result.decisions += len(repeated)
        for decision in repeated:
            result.digest = zlib.crc32(decision, result.digest)
        return True
