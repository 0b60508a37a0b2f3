"""One term of leadership: the core, its thread, its commits and its subscription. All is dropped when it ends."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

import msgspec
import structlog

from bcs_scheduler.core import effects, events
from bcs_scheduler.core.desk import CoreOptions
from bcs_scheduler.core.scheduler import Core
from bcs_scheduler.gateway import Busy
from bcs_scheduler.inbox import Inbox, InboxClosed
from bcs_scheduler.metrics import Metrics
from bcs_scheduler.pipeline import CommitPipeline
from store.base import Store
from store.records import Record

log = structlog.get_logger(__name__)
story = structlog.get_logger("bcs_scheduler.story")

TURN_EVENTS = 2_000
"""Events handled in one turn at most: bounds how long the state is busy with one batch."""
STALL = 5.0
"""Seconds without a commit getting through after which new commands are turned away."""
LOUD = frozenset({"application", "transaction", "framework"})
"""Kinds of records whose story is told at info; that of taskgroups and tasks at debug."""


class MesosDriver(Protocol):
    """What a term needs of the Mesos side (bcs_scheduler.mesos.driver.Driver)."""

    def start(self, framework_id: str) -> None: ...

    def stop(self) -> None: ...

    def send(self, batch: Sequence[effects.Effect]) -> None: ...

    def status(self) -> dict[str, Any]: ...


DriverFactory = Callable[[Callable[[events.Event], None]], MesosDriver]


class Term:
    """Runs the core for one epoch. `ended` is called, from a thread of the term, when it cannot go on by itself."""

    def __init__(
        self,
        store: Store,
        epoch: int,
        records: list[Record],
        options: CoreOptions,
        make_driver: DriverFactory,
        metrics: Metrics,
        ended: Callable[[str], None],
    ) -> None:
        self.epoch = epoch
        self.inbox = Inbox()
        self.core = Core(records, options, time.time())
        self.driver = make_driver(self._deliver)
        self._metrics = metrics
        self._ended = ended
        self._pipeline = CommitPipeline(store, epoch, self._leave, self._lost, metrics)
        self._tokens = itertools.count(1)
        self._waiting: dict[int, Future[effects.Reply]] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="core", daemon=True)

    def start(self) -> None:
        self._pipeline.start()
        self._thread.start()
        self.driver.start(self.core.state.framework.id)

    def stop(self, reason: str) -> None:
        """Ends everything; replies that wait are failed. May be called from any thread, more than once."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self.inbox.close()
        self._pipeline.close()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=10.0)
        self.driver.stop()
        for token in list(self._waiting):
            self._resolve(
                effects.Reply(token=token, error=effects.Reason.STEPPED_DOWN, message=f"stepped down: {reason}")
            )

    def submit(self, command: events.Command) -> Future[effects.Reply]:
        """Raises Busy."""
        stalled = self._pipeline.stalled_for()
        if stalled > STALL:
            raise Busy(f"the store has not taken changes for {stalled:.0f} s")
        token = next(self._tokens)
        command = msgspec.structs.replace(command, token=token, cause=command.cause or f"api:{self.epoch}.{token}")
        future: Future[effects.Reply] = Future()
        self._waiting[token] = future
        try:
            accepted = self.inbox.offer(command)
        except InboxClosed:
            del self._waiting[token]
            raise Busy("leadership has just ended") from None
        if not accepted:
            del self._waiting[token]
            raise Busy("too many events are waiting")
        return future

    def stalled_for(self) -> float:
        return self._pipeline.stalled_for()

    def queues(self) -> dict[str, int]:
        """Depths for the metrics."""
        return {"inbox": len(self.inbox), "commit": self._pipeline.depth, "replies": len(self._waiting)}

    # --- the core's thread ------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._turn()
        except Exception as error:
            log.exception("core failed", epoch=self.epoch)
            self._lost(f"the core failed: {error}")

    def _turn(self) -> None:
        now = time.time()
        batch = self.inbox.take(max(0.0, self.core.next_wakeup(now) - now), TURN_EVENTS)
        began = time.perf_counter()
        units = self.core.turn(batch, time.time())
        self._metrics.turned(len(batch), time.perf_counter() - began)
        self._pipeline.submit(units)

    def _deliver(self, event: events.Event) -> None:
        """Called by the driver's threads; waits while the inbox is full."""
        try:
            self.inbox.put(event)
        except InboxClosed:
            log.debug("event dropped, the term has ended", event_type=type(event).__name__)

    # --- effects of durable changes ---------------------------------------------------------------------------

    def _leave(self, batch: Sequence[object]) -> None:
        calls: list[effects.Effect] = []
        for effect in batch:
            if isinstance(effect, effects.Story):
                self._tell(effect)
            elif isinstance(effect, effects.Observed):
                self._metrics.observe(effect)
            elif isinstance(effect, effects.Reply):
                self._resolve(effect)
            else:
                assert isinstance(effect, effects.Effect)
                calls.append(effect)
        if calls and not self._stopping.is_set():
            self.driver.send(calls)

    def _tell(self, line: effects.Story) -> None:
        write = story.info if line.kind in LOUD else story.debug
        write(line.reason, kind=line.kind, key=line.key, detail=line.message, cause=line.cause)

    def _resolve(self, reply: effects.Reply) -> None:
        future = self._waiting.pop(reply.token, None)
        if future is not None and future.set_running_or_notify_cancel():
            future.set_result(reply)

    def _lost(self, reason: str) -> None:
        if not self._stopping.is_set():
            self._ended(reason)
