"""The commit pipeline: units become durable in order, and their effects leave only then.

Units wait in a queue while earlier commits are in flight. The next commit merges the waiting units (the last change of
a record wins) up to a size that follows the latency of the store (bcs_scheduler.loop.commit_pacing). Units stay atomic:
a batch is atomic and is never cut inside a unit.

The stored changes are always a prefix of the changes that the core has decided. Four rules follow. A batch is repeated
in its old place when the store was unreachable. The size of every unit is known exactly before the unit is sent. No
batch is sent after a batch that has failed. The term ends when the store has nevertheless applied a later commit
without an earlier one.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol

import structlog

from bcs_scheduler.loop.commit_pacing import CommitPacing
from store import threads
from store.base import Change, StaleEpoch, Store, StoreUnavailable
from store.state.unit_of_work import Unit

log = structlog.get_logger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds between attempts while the store cannot be reached: doubled each time up to the longest."""
LOOK = 0.05
"""Seconds between two looks of a blocked `submit` at the age of the waiting units."""
PATIENCE = 2.0
"""Seconds that a unit may wait before `submit` blocks. A caller that follows `delay` has slowed down long before."""


class Meter(Protocol):
    """The measurements of commits (implemented by bcs_scheduler.observability.metrics)."""

    def committed(self, changes: Sequence[Change], seconds: float) -> None: ...

    def commit_failed(self, changes: Sequence[Change]) -> None: ...


class _Waiting(NamedTuple):
    unit: Unit
    since: float
    """Time of the submission (monotonic clock, seconds)."""


@dataclass(slots=True, eq=False)
class _Moment:
    """Seconds of the monotonic clock; 0.0 = not yet."""

    at: float = 0.0


@dataclass(slots=True, eq=False)
class _Batch:
    units: list[_Waiting]
    changes: list[Change]
    size: int
    """Bytes of the store's batch."""
    full: bool = False
    """More was waiting when it was sent than could be sent."""
    sent_at: float = 0.0
    decided: _Moment = field(default_factory=_Moment)
    """Apart from the batch: a future keeps its callbacks, and one that knew the batch would keep all records of the
    batch in a cycle until the garbage collector comes by."""
    future: Future[None] = field(default_factory=Future)


class CommitPipeline:
    """One per term of leadership. `submit` is called by the core's thread; effects leave on a thread of its own."""

    def __init__(
        self,
        store: Store,
        epoch: int,
        leave: Callable[[Sequence[object]], None],
        lost: Callable[[str], None],
        meter: Meter,
        *,
        lag: Callable[[], float] = lambda: 0.0,
        stored: Callable[[Sequence[Change]], None] = lambda changes: None,
        patience: float = PATIENCE,
    ) -> None:
        """`leave` gets the effects of durable units, in order; it must not block. `lost` is called once, with the
        reason, when nothing more can be written in this term. `lag`: seconds for which effects have been waiting behind
        `leave`. `stored` gets the changes of durable units before their effects leave. `patience`: seconds that
        units, or effects, may wait before `submit` blocks."""
        self._store, self._epoch, self._leave, self._lost, self._meter = store, epoch, leave, lost, meter
        self._lag, self._stored, self._patience = lag, stored, patience
        self._waiting: deque[_Waiting] = deque()
        self._flying: deque[_Batch] = deque()
        self._load = 0
        """Weight of all units waiting and in flight."""
        self._condition = threading.Condition()
        """Guards all of the above."""
        self._pacing = CommitPacing()
        self._closed = False
        self._pause = 0.0
        self._problem_since = 0.0
        self.thread = threads.ending("commit", self._run, self._give_up)

    def start(self) -> None:
        self.thread.start()

    def submit(self, units: Sequence[Unit]) -> None:
        """Queues units behind those before. Blocks while units or effects have been waiting for too long; does nothing
        once closed."""
        if not units:
            return
        with self._condition:
            while not self._closed and self._overdue():
                self._condition.wait(LOOK)
            if self._closed:
                return
            now = time.monotonic()
            self._waiting.extend([_Waiting(unit, now) for unit in units])
            self._load += sum(map(weight, units))
            self._condition.notify_all()

    def drain(self, timeout: float) -> bool:
        """Waits up to `timeout` seconds until everything is durable and all effects have left; whether that is so."""
        with self._condition:
            self._condition.wait_for(lambda: self._closed or not (self._waiting or self._flying), timeout)
            return not (self._waiting or self._flying)

    def close(self) -> None:
        """Stops; waiting units and their effects are dropped. Does not wait for the thread, which may be inside
        `leave`. May be called from any thread, more than once."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    @property
    def depth(self) -> int:
        """Changes that are not durable yet; a unit without changes counts as one."""
        return self._load

    def delay(self) -> float:
        """Seconds until a unit that is submitted now can be expected to be durable: from the throughput and the latency
        measured, and no less than the time that the oldest commit or effect in flight has taken already.
        Cheap; any thread."""
        return max(self._pacing.delay(self._load), self.stalled_for(), self._lag())

    def unsent_for(self) -> float:
        """Seconds for which the oldest unit that has not been sent has been waiting; 0.0 if all have been sent. More
        than a moment means that the store is given more than it takes. Any thread."""
        with self._condition:
            return self._unsent_for()

    def stalled_for(self) -> float:
        """Seconds for which the store has not answered the oldest commit in flight, or has been unavailable; 0.0 if
        neither is so."""
        with self._condition:
            since = [batch.sent_at for batch in self._flying if not batch.future.done()]
            if self._problem_since:
                since.append(self._problem_since)
        return time.monotonic() - min(since) if since else 0.0

    # --- the thread -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while self._wait():
            if self._decided():
                self._land(self._flying[0])
            else:
                self._send()

    def _wait(self) -> bool:
        """Until there is something to do; False when closed."""
        with self._condition:
            self._condition.wait_for(lambda: self._closed or self._decided() or self._may_send())
            return not self._closed

    def _decided(self) -> bool:
        return bool(self._flying) and self._flying[0].future.done()

    def _may_send(self) -> bool:
        """Never beside a batch that the store has refused: the stored changes would have a gap."""
        return (
            bool(self._waiting)
            and len(self._flying) < self._pacing.in_flight
            and not any(batch.future.done() and batch.future.exception() is not None for batch in self._flying)
        )

    def _overdue(self) -> bool:
        return max(self._unsent_for(), self._lag()) > self._patience

    def _unsent_for(self) -> float:
        return time.monotonic() - self._waiting[0].since if self._waiting else 0.0

    def _send(self) -> None:
        with self._condition:
            batch = self._collect()
            batch.sent_at = time.monotonic()
            self._flying.append(batch)
            batch.full = bool(self._waiting) or len(self._flying) >= self._pacing.in_flight
        # Also without changes: only the store can confirm the epoch, and no effect (an acknowledgement, the kill of an
        # unknown task, an answer) may come from a deposed leader.
        future = self._store.commit(batch.changes, self._epoch)
        batch.future = future
        future.add_done_callback(partial(self._wake, batch.decided))

    def _wake(self, decided: _Moment, _: Future[None]) -> None:
        decided.at = time.monotonic()
        with self._condition:
            self._condition.notify_all()

    def _collect(self) -> _Batch:
        """Merges as many waiting units as fit into one batch, at least one."""
        limit = min(self._pacing.batch_bytes, self._store.batch_bytes)
        merged: dict[tuple[str, str], Change] = {}
        sizes: dict[tuple[str, str], int] = {}
        units: list[_Waiting] = []
        total, size_of = 0, self._store.sizer.size
        while self._waiting:
            unit = self._waiting[0].unit
            # Only the last change of a record is written: the newest run of the event log is in nearly every unit.
            found = [((change.kind, change.key), change, size_of(change)) for change in unit.changes]
            size = sum([bytes_now - sizes.get(name, 0) for name, _, bytes_now in found])
            if units and total + size > limit:
                break
            total += size
            units.append(self._waiting.popleft())
            for name, change, bytes_now in found:
                merged[name], sizes[name] = change, bytes_now
        return _Batch(units, list(merged.values()), total)

    def _land(self, batch: _Batch) -> None:
        error = batch.future.exception()
        if error is None:
            self._durable(batch)
            return
        self._meter.commit_failed(batch.changes)
        if not isinstance(error, StoreUnavailable):
            reason = "deposed" if isinstance(error, StaleEpoch) else "the store refused a change"
            self._give_up(f"{reason}: {error}")
        elif self._call_back(error):
            self._rest(error)

    def _durable(self, batch: _Batch) -> None:
        self._pause = self._problem_since = 0.0
        if batch.changes:
            self._meter.committed(batch.changes, batch.decided.at - batch.sent_at)
            self._stored(batch.changes)
        work = sum([weight(waiting.unit) for waiting in batch.units])
        self._pacing.landed(batch.sent_at, batch.decided.at, batch.size, work, batch.full)
        effects = [effect for waiting in batch.units for effect in waiting.unit.effects]
        if effects:
            self._leave(effects)
        with self._condition:
            self._flying.popleft()
            self._load -= work
            self._condition.notify_all()

    def _call_back(self, error: BaseException) -> bool:
        """Puts all units in flight back, in order, after the failure of the first. False if a later commit was applied:
        the stored changes then differ from the decided ones, and only a new term can read them."""
        with self._condition:
            self._condition.wait_for(lambda: self._closed or all(batch.future.done() for batch in self._flying))
            if self._closed:
                return False
            applied = any(batch.changes and batch.future.exception() is None for batch in self._flying)
            if not applied:
                for batch in reversed(self._flying):
                    self._waiting.extendleft(reversed(batch.units))
                self._flying.clear()
        if applied:
            self._give_up(f"a later commit was applied without an earlier one: {error}")
        return not applied

    def _rest(self, error: BaseException) -> None:
        self._problem_since = self._problem_since or time.monotonic()
        self._pause = min(max(self._pause * 2, FIRST_PAUSE), LONGEST_PAUSE)
        log.warning("store unavailable, changes wait", error=str(error), waiting=self.depth, retry_in=self._pause)
        with self._condition:
            self._condition.wait_for(lambda: self._closed, self._pause)

    def _give_up(self, reason: str) -> None:
        self.close()
        self._lost(reason)


def weight(unit: Unit) -> int:
    """Number for which a unit counts in the backlog: its changes, but at least one, because effects alone could pile up
    without end."""
    return max(1, len(unit.changes))
