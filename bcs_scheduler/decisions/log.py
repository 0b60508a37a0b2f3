"""Writes the decision log in a thread of its own. The core waits for neither the disk nor the encoding.

The queue between the core and the thread is bounded. A turn that finds the queue full is counted and dropped, and the
log marks the place. The files of a term begin with the records that the term began with; without them no later turn can
be repeated. So the oldest terms are removed first, and when the present term alone has reached the bound, recording
stops until the next term. `renewing` asks for a new term before, at half of the bound.
"""

from __future__ import annotations

import os
import queue
import re
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

import structlog

from bcs_scheduler.decisions.content import decided, fault_of, stored_or_marked, written
from bcs_scheduler.decisions.format import MAGIC, Begin, Continued, Frame, Full, Lost, Records, Turn, encoded
from bcs_scheduler.decisions.recorded import TermOpened, TurnTaken
from bcs_scheduler.decisions.redaction import Pseudonyms
from bcs_scheduler.version import VERSION
from store import threads
from store.records import Record

log = structlog.get_logger(__name__)

QUEUED = 2_000
"""Turns that may wait for the thread."""
CHUNK = 500
"""Records of one frame."""
NAME = re.compile(r"decisions-(\d{10})-(\d{6})\.log")


def file_name(epoch: int, part: int) -> str:
    """Returns the name of a file of a term. `part`: from 0."""
    return f"decisions-{epoch:010}-{part:06}.log"


class DecisionLog:
    """Implements decisions.recorded.Sink."""

    def __init__(
        self,
        folder: Path,
        file_bytes: int,
        files: int,
        settings: Mapping[str, object],
        policy: str = "",
        queued: int = QUEUED,
        lost: Callable[[], None] = lambda: None,
    ) -> None:
        """`file_bytes`: a file with so many bytes is followed by another one. `files`: greatest number of files in the
        folder. `settings`, `policy`: as decisions.format.Begin; they hold nothing confidential. `lost`: called for each
        turn that is missing in the log, in the thread of the core or in that of the log."""
        self._folder, self._file_bytes, self._files = folder, file_bytes, files
        self._settings, self._policy = dict(settings), policy
        self._queue: queue.Queue[tuple[int, TermOpened | TurnTaken | None] | None] = queue.Queue(queued)
        self._pending = 0
        self._unbegun = False
        """The queue was full when the term began: the term is not recorded."""
        self.lost = 0
        """Turns that are missing in the log since the process began."""
        self._on_lost = lost
        self._file: BinaryIO | None = None
        self._epoch = self._part = self._turns = 0
        self._pseudonym = Pseudonyms(os.urandom(32))
        self._renew: Callable[[int], None] | None = None
        self._least = self._opened = 0.0
        """Seconds that a term lasts at least; monotonic time of the start of the present term."""
        self._half_full = False
        """The present term has half of the files, and no new term was asked for."""
        self._over = threading.Event()
        self._thread = threads.lasting("decision-log", self._run, lambda pause: self._over.wait(pause))

    def renewing(self, renew: Callable[[int], None], least: float) -> None:
        """A term that has half of the files, and one file at least, is to be followed by a new term: the folder then
        holds the whole present term, and mostly the whole term before. To be called before the first term.

        `renew`: called once per term, in the thread of the log, with the epoch of the term to end. `least`: seconds
        that a term lasts at least.
        """
        self._renew, self._least = renew, least

    def start(self) -> None:
        """Raises OSError if the folder cannot be used."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(self._folder, os.W_OK | os.X_OK):
            raise PermissionError(13, "the folder of the decision log is not writable", str(self._folder))
        self._thread.start()

    def stop(self, patience: float = 5.0) -> None:
        """Writes the turns that wait. `patience`: seconds that this may take."""
        try:
            if self._pending:
                self._queue.put((self._pending, None), timeout=patience)
            self._queue.put(None, timeout=patience)
        except queue.Full:
            log.warning("decision_log.not_written", turns=self._queue.qsize())
        self._thread.join(patience)
        self._over.set()

    # --- the thread of the core -------------------------------------------------------------------------------

    def begin(self, term: TermOpened) -> None:
        """Begins the files of a term."""
        self._unbegun = False
        self._put(term)
        self._unbegun = self._pending > 0  # without its start, no turn of the term can be repeated

    def turn(self, turn: TurnTaken) -> None:
        """Records a turn."""
        if self._unbegun:
            self._lose()
            return
        self._put(turn)

    def _put(self, item: TermOpened | TurnTaken) -> None:
        try:
            self._queue.put_nowait((self._pending, item))
            self._pending = 0
        except queue.Full:
            self._pending += 1
            self._lose()

    def _lose(self) -> None:
        self.lost += 1
        self._on_lost()

    # --- the thread of the log --------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while (entry := self._queue.get()) is not None:
                self._write(*entry)
                if self._file is not None and self._queue.empty():
                    self._file.flush()
        finally:
            self._close()

    def _write(self, lost: int, item: TermOpened | TurnTaken | None) -> None:
        try:
            if lost:
                log.warning("decision_log.turns_lost", turns=lost)
                self._append(lambda: Lost(lost, "the queue of the decision log was full"))
            if isinstance(item, TermOpened):
                self._open(item)
            elif item is not None:
                self._turns += 1 + lost
                self._append(lambda: self._encoded(item))
                self._renew_if_due()
        except OSError as error:
            log.error("decision_log.write_failed", folder=str(self._folder), error=str(error))
            self._close()

    def _renew_if_due(self) -> None:
        if self._renew is None or not self._half_full or time.monotonic() - self._opened < self._least:
            return
        self._half_full = False
        log.info("decision_log.half_full", epoch=self._epoch, files=self._part + 1, turns=self._turns)
        self._renew(self._epoch)

    def _encoded(self, turn: TurnTaken) -> Turn:
        return Turn(
            number=self._turns,
            now=turn.now,
            inputs=tuple(written(event, self._pseudonym) for event in turn.batch),
            spent=tuple(turn.spent),
            congested=tuple(turn.congested),
            clock=tuple(turn.clock),
            decisions=decided(turn.units),
        )

    def _append(self, make: Callable[[], Frame]) -> None:
        """Nothing is encoded while no file is open."""
        if self._file is None:
            return
        try:
            data = encoded(make())
        except Exception as error:  # one turn that cannot be encoded must not end the log
            log.exception("decision_log.encoding_failed", turn=self._turns)
            data = encoded(Lost(1, f"the turn could not be encoded ({type(error).__name__})"))
            self._lose()
        self._file.write(data)
        if self._file.tell() >= self._file_bytes:
            self._rotate()

    def _open(self, term: TermOpened) -> None:
        self._close()
        self._epoch, self._part, self._turns = term.epoch, 0, 0
        self._half_full, self._opened = False, time.monotonic()
        self._pseudonym = Pseudonyms(os.urandom(32))
        self._next_file()
        begin = Begin(
            epoch=term.epoch,
            program=VERSION,
            wall=term.wall,
            elapsed=term.elapsed,
            unreadable=tuple((kind, key, fault) for (kind, key), fault in term.unreadable.items()),
            limit=term.limit,
            sealed=term.sealed,
            settings=self._settings,
            policy=self._policy,
        )
        self._append(lambda: begin)
        for first in range(0, len(term.records), CHUNK):
            chunk = term.records[first : first + CHUNK]
            self._append(lambda chunk=chunk: Records(tuple(self._stored(record) for record in chunk)))  # type: ignore[misc]

    def _stored(self, record: Record) -> tuple[str, str, bytes]:
        found = stored_or_marked(record, self._pseudonym)
        if fault := fault_of(found.data):
            log.error("decision_log.record_left_out", kind=found.kind, key=found.key, error=fault)
        return found.kind, found.key, found.data

    def _rotate(self) -> None:
        if self._part + 1 == max(1, self._files // 2):
            self._half_full = True
        if self._part + 1 >= self._files:
            assert self._file is not None
            self._file.write(encoded(Full()))
            log.warning("decision_log.full", files=self._files, epoch=self._epoch, turns=self._turns)
            self._close()
            return
        self._close()
        self._part += 1
        self._next_file()
        assert self._file is not None
        self._file.write(encoded(Continued(self._epoch, self._part)))

    def _next_file(self) -> None:
        self._remove_oldest()
        path = self._folder / file_name(self._epoch, self._part)
        self._file = open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600))  # noqa: SIM115
        self._file.write(MAGIC)

    def _remove_oldest(self) -> None:
        """Makes room for one file. A term is removed as a whole: a part without the first file is of no use."""
        found: dict[int, list[Path]] = {}
        for path in self._folder.iterdir():
            match = NAME.fullmatch(path.name)
            if match is not None:
                found.setdefault(int(match[1]), []).append(path)
        for epoch in sorted(found):
            if sum(map(len, found.values())) < self._files or (epoch == self._epoch and self._part):
                break
            for path in found.pop(epoch):
                path.unlink(missing_ok=True)

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
