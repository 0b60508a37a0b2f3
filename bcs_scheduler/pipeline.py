"""The commit pipeline: units become durable in order, and their effects leave only then.

Units wait in a queue while earlier commits are in flight; everything that waits is merged into the next commit (the
last change of a record wins), so the busier the core, the larger the batches. Merging neighbouring units keeps their
promise: a batch is atomic, and it is never cut inside a unit.

What is stored is always a prefix of what the core has decided. That is why a batch is repeated in its old place when
the store could not be reached, why a unit that may be too large for the store flies alone, and why the term ends when a
store has nevertheless applied a later commit without an earlier one.
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

from bcs_scheduler.flow import Flow
from store.base import Change, RecordTooLarge, StaleEpoch, Store, StoreUnavailable
from store.codec import CHANGE_OVERHEAD
from store.records import (
    AgentSetting,
    Application,
    Endpoint,
    Journal,
    Member,
    Service,
    TaskGroup,
    Transaction,
    Version,
)
from store.unit_of_work import Unit

log = structlog.get_logger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds between attempts while the store cannot be reached: doubled each time up to the longest."""
JOURNAL = 20_000
"""Bytes of a full run of events (bcs_scheduler.core.journal)."""
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
    alone: bool
    """Nothing is sent beside it."""
    full: bool = False
    """More was waiting when it was sent than could be sent."""
    sent_at: float = 0.0
    decided_at: float = 0.0
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
        in_flight: int = 2,
        backlog: int = 50_000,
    ) -> None:
        """`leave` gets the effects of durable units, in order. `lost` is called once, with the reason, when nothing
        more can be written in this term. `backlog`: changes that may wait before `submit` blocks."""
        self._store, self._epoch, self._leave, self._lost, self._meter = store, epoch, leave, lost, meter
        self._most_in_flight, self._backlog = in_flight, backlog
        self._waiting: deque[Unit] = deque()
        self._flying: deque[_Batch] = deque()
        self._load = 0
        """Weight of all units waiting and in flight."""
        self._condition = threading.Condition()
        """Guards all of the above."""
        self._flow = Flow()
        self._closed = False
        self._singly = 0
        """So many units from the front of the queue are sent one by one, each alone."""
        self._pause = 0.0
        self._trouble_since = 0.0
        self.thread = threading.Thread(target=self._run, name="commit", daemon=True)

    def start(self) -> None:
        self.thread.start()

    def submit(self, units: Sequence[Unit]) -> None:
        """Queues units behind those before. Blocks while the backlog is full; does nothing once closed."""
        if not units:
            return
        with self._condition:
            self._condition.wait_for(lambda: self._load < self._backlog or self._closed)
            if self._closed:
                return
            self._waiting.extend(units)
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
        """Changes that are not durable yet, or whose effects have not left; a unit without changes counts as one."""
        return self._load

    def delay(self) -> float:
        """Seconds until a unit that is submitted now can be expected to be durable: from the throughput and the latency
        measured, and no less than the oldest commit under way has taken already. Cheap; any thread."""
        return max(self._flow.delay(self._load), self.stalled_for())

    def stalled_for(self) -> float:
        """Seconds for which the store has not taken what it was given; 0.0 if all is well."""
        with self._condition:
            since = [batch.sent_at for batch in self._flying if not batch.future.done()]
            if self._trouble_since:
                since.append(self._trouble_since)
        return time.monotonic() - min(since) if since else 0.0

    # --- the thread -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._wait():
                if self._decided():
                    self._land(self._flying[0])
                else:
                    self._send()
        except Exception as error:
            log.exception("commit pipeline failed")
            self._give_up(f"commit pipeline failed: {error}")

    def _wait(self) -> bool:
        """Until there is something to do; False when closed."""
        with self._condition:
            self._condition.wait_for(lambda: self._closed or self._decided() or self._may_send())
            return not self._closed

    def _decided(self) -> bool:
        return bool(self._flying) and self._flying[0].future.done()

    def _may_send(self) -> bool:
        return bool(self._waiting) and len(self._flying) < (1 if self._singly else self._most_in_flight)

    def _send(self) -> None:
        with self._condition:
            batch = self._collect()
            if batch is None:
                return
            batch.sent_at = time.monotonic()
            self._flying.append(batch)
            batch.full = bool(self._waiting) or len(self._flying) == self._most_in_flight
        # Also without changes: only the store can say that the epoch still holds, and what leaves (an acknowledgement,
        # the kill of a task nobody knows, an answer) must not come from a deposed leader.
        future = self._store.commit(batch.changes, self._epoch)
        batch.future = future
        future.add_done_callback(lambda _: self._wake(batch))

    def _wake(self, batch: _Batch) -> None:
        batch.decided_at = time.monotonic()
        with self._condition:
            self._condition.notify_all()

    def _collect(self) -> _Batch | None:
        """As many waiting units as fit one batch, merged. None if the first of them has to wait until it can fly
        alone."""
        room = int(self._store.batch_bytes * FILL)
        merged: dict[tuple[str, str], Change] = {}
        sizes: dict[tuple[str, str], int] = {}
        units: list[Unit] = []
        while self._waiting and not (units and self._singly):
            unit = self._waiting[0]
            measured = {(change.kind, change.key): estimate(change) for change in unit.changes}
            # Only the last change of a record is written: the newest run of the journal is in nearly every unit.
            size = sum(measured.values()) - sum([sizes.get(name, 0) for name in measured])
            if size > room:
                if units:
                    break
                self._singly = max(self._singly, 1)
                if self._flying:
                    return None
            room -= size
            sizes.update(measured)
            units.append(self._waiting.popleft())
            for change in unit.changes:
                merged[change.kind, change.key] = change
        return _Batch(units, list(merged.values()), alone=bool(self._singly))

    def _land(self, batch: _Batch) -> None:
        error = batch.future.exception()
        if error is None:
            self._durable(batch)
            return
        self._meter.commit_failed(batch.changes)
        too_large = isinstance(error, RecordTooLarge) and len(batch.units) > 1
        if not too_large and not isinstance(error, StoreUnavailable):
            reason = "deposed" if isinstance(error, StaleEpoch) else "the store refused a change"
            self._give_up(f"{reason}: {error}")
        elif self._call_back(error):
            if too_large:
                self._singly = len(batch.units)
            else:
                self._rest(error)

    def _durable(self, batch: _Batch) -> None:
        self._pause = self._trouble_since = 0.0
        if batch.changes:
            self._meter.committed(batch.changes, batch.decided_at - batch.sent_at)
        self._flow.landed(batch.sent_at, batch.decided_at, 0, sum(map(weight, batch.units)), batch.full)
        if batch.alone:
            self._singly -= 1
        effects = [effect for unit in batch.units for effect in unit.effects]
        if effects:
            self._leave(effects)
        with self._condition:
            self._flying.popleft()
            self._load -= sum(map(weight, batch.units))
            self._condition.notify_all()

    def _call_back(self, error: BaseException) -> bool:
        """Puts everything in flight back, in order, after the failure of the first. False if that cannot be, because
        a later commit got through: what is stored is then not what we think, and only a new term can tell."""
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
        self._trouble_since = self._trouble_since or time.monotonic()
        self._pause = min(max(self._pause * 2, FIRST_PAUSE), LONGEST_PAUSE)
        log.warning("store unavailable, changes wait", error=str(error), waiting=self.depth, retry_in=self._pause)
        with self._condition:
            self._condition.wait_for(lambda: self._closed, self._pause)

    def _give_up(self, reason: str) -> None:
        self.close()
        self._lost(reason)


def weight(unit: Unit) -> int:
    """What a unit counts in the backlog: its changes, and at least one, or effects alone could pile up without end."""
    return max(1, len(unit.changes))


def estimate(change: Change) -> int:
    """Rough upper bound of the encoded size in bytes; exact sizes are the store's business.

    The constants are the sizes of records with every fixed field filled (names of 60 characters), rounded up.
    """
    record = change.record
    size = CHANGE_OVERHEAD + 2 * len(change.key)
    if isinstance(record, TaskGroup):
        size += 1200 + len(record.message) + 60 * (len(record.extended) + 2 * len(record.attributes))
        size += sum(700 + len(t.message) + len(t.reason) + 110 * len(t.ports) for t in record.tasks)
    elif isinstance(record, Version):
        size += 4000 + 3 * len(record.raw)
    elif isinstance(record, Transaction):
        size += 1000 + len(record.message) + sum(60 + len(note.text) for note in record.history)
    elif isinstance(record, Application):
        size += 1000 + len(record.message) + _texts(record.labels) + _texts(record.annotations)
    elif isinstance(record, Journal):
        size += JOURNAL
    elif isinstance(record, AgentSetting):
        size += 300 + _texts(record.strings) + _texts(record.taints) + _texts(record.sockets)
        size += 60 * (len(record.scalars) + len(record.extended))
    elif isinstance(record, Endpoint):
        size += 300 + _texts(record.labels) + _texts(record.annotations) + sum(map(_member, record.members))
        size += 400 * len(record.ports)
    elif isinstance(record, Service):
        size += 500 + _texts(record.labels) + _texts(record.annotations) + _texts(record.selector) + 2 * len(record.raw)
        size += 400 * len(record.ports)
    elif record is not None:
        size += 500
    return size


def _member(member: Member) -> int:
    named = len(member.taskgroup) + len(member.name) + len(member.application) + len(member.network_mode)
    ports = sum([120 + len(port.name) + len(port.address) for port in member.ports])
    return 220 + named + len(member.node_ip) + len(member.container_ip) + ports


def _texts(table: dict[str, str]) -> int:
    return sum(8 + len(name) + len(value) for name, value in table.items())
