"""The commit pipeline: units become durable in order, and their effects leave only then.

Units wait in a queue while earlier commits are in flight; everything that waits is merged into the next commit (the
last change of a record wins), so the busier the core, the larger the batches. Merging neighbouring units keeps their
promise: a batch is atomic, and it is never cut inside a unit.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from store.base import Change, RecordTooLarge, StaleEpoch, Store, StoreUnavailable
from store.records import TaskGroup, Version
from store.unit_of_work import Unit

log = structlog.get_logger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds between attempts while the store cannot be reached: doubled each time up to the longest."""
FILL = 0.75
"""Share of the store's batch size that estimates may use: they are rough."""


class Meter(Protocol):
    """What is measured of commits (bcs_scheduler.metrics)."""

    def committed(self, changes: Sequence[Change], seconds: float) -> None: ...

    def commit_failed(self, changes: Sequence[Change]) -> None: ...


@dataclass(slots=True, eq=False)
class _Batch:
    units: list[Unit]
    changes: list[Change]
    sent_at: float = 0.0
    future: Future[None] | None = None


@dataclass(slots=True)
class _Queue:
    waiting: deque[Unit] = field(default_factory=deque)
    changes: int = 0


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
        in_flight: int = 2,
        backlog: int = 50_000,
    ) -> None:
        """`leave` gets the effects of durable units, in order. `lost` is called once, with the reason, when nothing
        more can be written in this term. `backlog`: changes that may wait before `submit` blocks."""
        self._store, self._epoch, self._leave, self._lost, self._meter = store, epoch, leave, lost, meter
        self._most_in_flight, self._backlog = in_flight, backlog
        self._queue = _Queue()
        self._flying: deque[_Batch] = deque()
        self._condition = threading.Condition()
        self._closed = False
        self._pause = 0.0
        self._trouble_since = 0.0
        self._thread = threading.Thread(target=self._run, name="commit", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, units: Sequence[Unit]) -> None:
        """Queues units behind those before. Blocks while the backlog is full; does nothing once closed."""
        if not units:
            return
        with self._condition:
            while self._queue.changes >= self._backlog and not self._closed:
                self._condition.wait(1.0)
            if self._closed:
                return
            self._queue.waiting.extend(units)
            self._queue.changes += sum(len(unit.changes) for unit in units)
            self._condition.notify_all()

    def close(self) -> None:
        """Stops; waiting units and their effects are dropped. May be called from any thread, more than once."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=10.0)

    @property
    def depth(self) -> int:
        """Changes that are not durable yet."""
        return self._queue.changes + sum(len(batch.changes) for batch in self._flying)

    def stalled_for(self) -> float:
        """Seconds for which the store has not taken what it was given; 0.0 if all is well."""
        since = self._trouble_since
        oldest = self._flying[0].sent_at if self._flying else 0.0
        starts = [at for at in (since, oldest) if at]
        return time.monotonic() - min(starts) if starts else 0.0

    # --- the thread -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._condition:
                while not self._closed and not self._ready():
                    self._condition.wait(1.0)
                if self._closed:
                    return
            try:
                if self._flying and self._flying[0].future is not None and self._flying[0].future.done():
                    self._land()
                else:
                    self._send()
            except Exception as error:
                log.exception("commit pipeline failed")
                self._give_up(f"commit pipeline failed: {error}")
                return

    def _ready(self) -> bool:
        if self._flying and self._flying[0].future is not None and self._flying[0].future.done():
            return True
        return bool(self._queue.waiting) and len(self._flying) < self._most_in_flight

    def _send(self) -> None:
        batch = self._collect()
        batch.sent_at = time.monotonic()
        if not batch.changes:
            batch.future = Future()
            batch.future.set_result(None)
        else:
            batch.future = self._store.commit(batch.changes, self._epoch)
        self._flying.append(batch)
        batch.future.add_done_callback(self._wake)

    def _wake(self, _: Future[None]) -> None:
        with self._condition:
            self._condition.notify_all()

    def _collect(self) -> _Batch:
        """As many waiting units as fit one batch, merged."""
        room = int(self._store.batch_bytes * FILL)
        merged: dict[tuple[str, str], Change] = {}
        units: list[Unit] = []
        with self._condition:
            while self._queue.waiting:
                unit = self._queue.waiting[0]
                size = sum(estimate(change) for change in unit.changes)
                if units and size > room:
                    break
                room -= size
                units.append(self._queue.waiting.popleft())
                self._queue.changes -= len(unit.changes)
                for change in unit.changes:
                    merged[change.kind, change.key] = change
            self._condition.notify_all()
        return _Batch(units, list(merged.values()))

    def _land(self) -> None:
        batch = self._flying[0]
        assert batch.future is not None
        error = batch.future.exception()
        if error is None:
            self._flying.popleft()
            self._pause = self._trouble_since = 0.0
            if batch.changes:
                self._meter.committed(batch.changes, time.monotonic() - batch.sent_at)
            self._leave([effect for unit in batch.units for effect in unit.effects])
        elif isinstance(error, StoreUnavailable):
            self._meter.commit_failed(batch.changes)
            self._again(str(error))
        elif isinstance(error, RecordTooLarge) and len(batch.units) > 1:
            self._singly()
        else:
            self._meter.commit_failed(batch.changes)
            reason = "deposed" if isinstance(error, StaleEpoch) else "the store refused a change"
            self._give_up(f"{reason}: {error}")

    def _again(self, why: str) -> None:
        """Puts everything in flight back, in order, and waits a little. If a later commit got through although an
        earlier one did not, what is stored is not what we think: only a new term can tell."""
        flown = list(self._flying)
        for batch in flown[1:]:
            assert batch.future is not None
            if batch.future.exception() is None and batch.changes:
                self._give_up(f"commits were applied out of order: {why}")
                return
        self._put_back(flown)
        self._trouble_since = self._trouble_since or time.monotonic()
        self._pause = min(max(self._pause * 2, FIRST_PAUSE), LONGEST_PAUSE)
        log.warning("store unavailable, changes wait", error=why, waiting=self.depth, pause=self._pause)
        with self._condition:
            self._condition.wait_for(lambda: self._closed, self._pause)

    def _put_back(self, batches: Sequence[_Batch]) -> None:
        with self._condition:
            self._flying.clear()
            for batch in reversed(batches):
                self._queue.waiting.extendleft(reversed(batch.units))
                self._queue.changes += sum(len(unit.changes) for unit in batch.units)

    def _singly(self) -> None:
        """The estimates were too low for this batch: its units go one by one."""
        flown = list(self._flying)
        for batch in flown[1:]:
            assert batch.future is not None
            if batch.future.exception() is None and batch.changes:
                self._give_up("commits were applied out of order: one was too large")
                return
        self._put_back(flown[1:])
        self._flying.clear()
        for unit in flown[0].units:
            if unit.changes:
                try:
                    self._store.commit(unit.changes, self._epoch).result()
                except Exception as error:
                    self._give_up(f"the store refused a change: {error}")
                    return
            self._leave(list(unit.effects))

    def _give_up(self, reason: str) -> None:
        with self._condition:
            self._closed = True
            self._condition.notify_all()
        self._lost(reason)


def estimate(change: Change) -> int:
    """Rough upper bound of the encoded size in bytes; exact sizes are the store's business."""
    record = change.record
    if record is None:
        return 200
    if isinstance(record, TaskGroup):
        return 900 + 700 * len(record.tasks) + 100 * sum(len(task.ports) for task in record.tasks)
    if isinstance(record, Version):
        return 4000 + 3 * len(record.raw)
    return 2000
