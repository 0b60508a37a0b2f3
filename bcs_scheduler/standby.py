"""The state of a process that does not lead: a thread follows the store, so the state is always ready to be read.

Whoever asks for the state is never held up: the answer is what is known, with its age, or a refusal. The age is the
time since the last complete read of the store began. Everything committed before that is in the state.

When this process is elected, `take` reads what is still missing and hands the state over: the term goes on with the
same object, so a take-over loads nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

import structlog

from bcs_scheduler.gateway import Busy
from store import threads
from store.base import Follower, Position, Store, StoreError
from store.replica import Replica
from store.state import State

log = structlog.get_logger(__name__)

INTERVAL = 0.3
"""Seconds from the begin of one read to the begin of the next. A change is visible after this and two reads at most."""
REST = 0.5
"""Pause after a read, as a part of what the read took: a standby that can hardly keep up does not take more than two
thirds of a processor, and records that change often are read less often."""
LONGEST_PAUSE = 5.0
"""Seconds between two attempts while the store does not answer: doubled from INTERVAL up to this."""
STALE = 10.0
"""Age in seconds from which the state is not shown any more."""

READING = "the records are being read from the store"


class Following(NamedTuple):
    """How far a standby has come."""

    age: float | None
    """Seconds since the last complete read began; None before the first has ended."""
    position: Position | None
    records: int
    quarantined: int


class Standby:
    """Started once; ends with `take` or `stop`. `state`, `following` and `trouble` may be used by any thread."""

    def __init__(
        self,
        store: Store,
        read: Callable[[int, float], None] = lambda records, seconds: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`read` is told of every read that found something: number of records and seconds. `clock`: monotonic
        seconds."""
        self._store, self._tell, self._clock = store, read, clock
        self._lock = threading.Lock()
        """Held during a read: guards follower and replica. Readers of the state do not take it."""
        self._follower: Follower | None = None
        self._replica = Replica()
        self._read_at: float | None = None
        self._trouble = ""
        self.taken = False
        """The replica belongs to a term now."""
        self._ending = threading.Event()
        self._thread = threads.ending("standby", self._run)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns at once; the thread ends with the read that is under way."""
        self._ending.set()

    # --- any thread -------------------------------------------------------------------------------------------

    def state(self) -> State:
        """What is known of the records. Raises Busy if that is too old or if there is nothing yet; never waits."""
        read_at, trouble = self._read_at, self._trouble
        if read_at is None:
            raise Busy(
                f"the store cannot be read: {trouble}" if trouble else "the records are being read from the store"
            )
        age = self._clock() - read_at
        if age > STALE:
            raise Busy(f"the store cannot be read: what is known is {age:.0f} s old. {trouble}".rstrip())
        return self._replica.state

    def following(self) -> Following:
        read_at, follower, replica = self._read_at, self._follower, self._replica
        age = None if read_at is None else max(0.0, self._clock() - read_at)
        position = follower.position if follower is not None else None
        return Following(age, position, len(replica), len(replica.quarantined))

    @property
    def trouble(self) -> str:
        """Why the last read has failed; empty if it has not."""
        return self._trouble

    # --- the end ----------------------------------------------------------------------------------------------

    def catch_up(self) -> Replica:
        """Reads what has been committed until now; the replica goes on following. Waits for a read that is under way.
        Raises StoreError; may be called again."""
        with self._lock:
            self._read()
            return self._replica

    def take(self, epoch: int) -> Replica:
        """As `catch_up`, for a process that leads with `epoch`: the replica is the caller's from now on."""
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
                log.exception("following the store failed, reading everything again")
                self._fail(f"{type(error).__name__}: {error}")
            took = self._clock() - began
            pause = max(INTERVAL - took, took * REST)
            self._ending.wait(min(INTERVAL * 2**failures, LONGEST_PAUSE) if failures else pause)

    def _fail(self, trouble: str) -> None:
        if trouble != self._trouble:
            log.warning("the store cannot be followed", error=trouble)
        self._trouble = trouble

    def _read(self) -> None:
        began = self._clock()
        found = 0
        try:
            if self._follower is None:
                self._follower = self._store.follow()
            for part in self._follower.read(self._replica.doubtful()):
                found += self._replica.apply(part)
        except StoreError:
            raise
        except Exception:
            # The replica may lack a part of what the follower believes to have told.
            self._follower, self._replica, self._read_at = None, Replica(), None
            raise
        if found or self._read_at is None:
            self._tell(found, self._clock() - began)
        self._read_at, self._trouble = began, ""
