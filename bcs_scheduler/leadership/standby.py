"""The state of a process that does not lead: a thread follows the store, so the state is always ready to be read.

Questions for the state never wait: the answer is the known state with its age, or a refusal. The age is the
time since the last complete read of the store began. Everything committed before that is in the state.

When this process is elected, `take` reads the missing changes and hands the state over: the term continues with the
same object, so a take-over loads nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

import structlog

from bcs_scheduler.leadership.gateway import Busy
from store import threads
from store.base import Follower, Position, Store, StoreError
from store.state import State
from store.state.replica import Replica
from transactions.text import duration

log = structlog.get_logger(__name__)

INTERVAL = 0.3
"""Seconds from the begin of one read to the begin of the next. A change is visible after this and two reads at most."""
REST = 0.5
"""Pause after a read, as a part of the duration of the read: a standby that can hardly keep up does not take more than
two thirds of a processor, and records that change often are read less often."""
LONGEST_PAUSE = 5.0
"""Seconds between two attempts while the store does not answer: doubled from INTERVAL up to this."""
STALE = 10.0
"""Age in seconds from which the state is not shown any more."""

READING = "the records are being read from the store"


class FollowerStatus(NamedTuple):
    """The progress of a standby."""

    age: float | None
    """Seconds since the last complete read began; None before the first has ended."""
    position: Position | None
    records: int
    quarantined: int


class Standby:
    """Started once; ends with `take` or `stop`. `state`, `following` and `problem` may be used by any thread."""

    def __init__(
        self,
        store: Store,
        read: Callable[[int, float], None] = lambda records, seconds: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`read` is called for every read that found changes, with the number of records and seconds. `clock`:
        monotonic seconds."""
        self._store, self._on_read, self._clock = store, read, clock
        self._lock = threading.Lock()
        """Held during a read: guards follower and replica. Readers of the state do not take it."""
        self._follower: Follower | None = None
        self._replica = Replica()
        self._read_at: float | None = None
        self._problem = ""
        self.taken = False
        """The replica belongs to a term now."""
        self._ending = threading.Event()
        self._thread = threads.ending("standby", self._run)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns at once; the thread ends after the read in progress."""
        self._ending.set()

    # --- any thread -------------------------------------------------------------------------------------------

    def state(self) -> State:
        """Returns the state of the replica. Raises Busy if the replica is too old or does not exist yet; never
        waits."""
        read_at, problem = self._read_at, self._problem
        if read_at is None:
            raise Busy(
                f"the store cannot be read: {problem}" if problem else "the records are being read from the store"
            )
        age = self._clock() - read_at
        if age > STALE:
            raise Busy(f"the store cannot be read: the known records are {duration(age)} old. {problem}".rstrip())
        return self._replica.state

    def status(self) -> FollowerStatus:
        read_at, follower, replica = self._read_at, self._follower, self._replica
        age = None if read_at is None else max(0.0, self._clock() - read_at)
        position = follower.position if follower is not None else None
        return FollowerStatus(age, position, len(replica), len(replica.quarantined))

    @property
    def problem(self) -> str:
        """Error of the last read; empty if it has not failed."""
        return self._problem

    # --- the end ----------------------------------------------------------------------------------------------

    def catch_up(self) -> Replica:
        """Reads all changes that have been committed until now; the replica continues to follow. Waits for a read in
        progress. Raises StoreError; may be called again."""
        with self._lock:
            self._read()
            return self._replica

    def take(self, epoch: int) -> Replica:
        """Like `catch_up`, for a process that leads with `epoch`: the caller takes ownership of the replica."""
        with self._lock:
            self._read()
            assert self._follower is not None
            self._follower.lead(epoch)
            self.taken = True
            self._ending.set()
            return self._replica

    # --- the thread -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        threads.persist("standby", self._follow, self._ending.wait)
        with self._lock:
            if self._follower is not None and not self.taken:
                self._follower.close()

    def _follow(self) -> None:
        failures = 0
        while not self._ending.is_set():
            began = self._clock()
            try:
                with self._lock:
                    if self._ending.is_set():
                        return
                    self._read()
                failures = 0
            except StoreError as error:
                failures += 1
                self._fail(str(error))
            except Exception as error:
                failures += 1
                log.exception("cannot follow the store, reading everything again")
                self._fail(f"{type(error).__name__}: {error}")
            took = self._clock() - began
            pause = max(INTERVAL - took, took * REST)
            self._ending.wait(min(INTERVAL * 2**failures, LONGEST_PAUSE) if failures else pause)

    def _fail(self, problem: str) -> None:
        if problem != self._problem:
            log.warning("cannot follow the store", error=problem)
        self._problem = problem

    def _read(self) -> None:
        began = self._clock()
        found = 0
        try:
            if self._follower is None:
                self._follower = self._store.follow()
            for part in self._follower.read(self._replica.repairable()):
                found += self._replica.apply(part)
            self._replica.read_ended()
        except StoreError:
            raise
        except Exception:
            # The replica may lack changes that the follower counts as read.
            self._follower, self._replica, self._read_at = None, Replica(), None
            raise
        if found or self._read_at is None:
            self._on_read(found, self._clock() - began)
        self._read_at, self._problem = began, ""
