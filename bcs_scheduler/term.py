"""One term of leadership: the core, its thread, its commits and its subscription. All is dropped when it ends."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

import msgspec
import structlog

from bcs_scheduler.clock import Clock
from bcs_scheduler.core import effects, events
from bcs_scheduler.core.desk import CoreOptions
from bcs_scheduler.core.scheduler import Core
from bcs_scheduler.gateway import Busy
from bcs_scheduler.hub import EVENTS, Hub, Item
from bcs_scheduler.inbox import Inbox, InboxClosed
from bcs_scheduler.leadproof import LeadProof
from bcs_scheduler.metrics import Metrics
from bcs_scheduler.outlet import Outlet
from bcs_scheduler.pipeline import CommitPipeline
from bcs_scheduler.publishing.publisher import Status as PublishingStatus
from bcs_scheduler.turns import COMMANDS, OFFERS, REPORTS, TurnPace
from store import threads
from store.base import Store
from store.records import Happening, Record
from store.state import State

log = structlog.get_logger(__name__)
story = structlog.get_logger("bcs_scheduler.story")

STALL = 5.0
"""Seconds without a commit getting through after which new commands are turned away."""
LARGEST_SHARE = 3
"""A command may have this part of the store's batch: its definition is stored in one atomic write with the records
that follow from it (application, transaction). Refusing it here keeps a record that can never be stored from ending
the term."""
PATIENCE = 5.0
"""Seconds that `stop` waits for threads."""
LOUD = frozenset({"application", "transaction", "framework"})
"""Kinds of records whose story is told at info; that of taskgroups and tasks at debug, unless it is of a higher
level."""


class MesosDriver(Protocol):
    """What a term needs of the Mesos side (bcs_scheduler.mesos.driver.Driver)."""

    def start(
        self, framework_id: str, cluster: str = "", may_subscribe: Callable[[], bool | None] | None = None
    ) -> None: ...

    def stop(self) -> None: ...

    def send(self, batch: Sequence[effects.Effect]) -> None: ...

    def status(self) -> dict[str, Any]: ...


DriverFactory = Callable[[Callable[[events.Event], None]], MesosDriver]


class HealthProber(Protocol):
    """What a term needs of the prober (bcs_scheduler.prober.prober.Prober)."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def status(self) -> dict[str, Any]: ...


ProberFactory = Callable[[State, Callable[[events.HealthReported], None], Callable[[], float]], HealthProber]
"""Given the state it looks at, where its results go, and the time of the term (Unix seconds)."""


class ServicePublisher(Protocol):
    """What a term needs of who publishes services elsewhere (bcs_scheduler.publishing.publisher.Publisher)."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def changed(self, kind: str, key: str, record: Record | None) -> None: ...

    def status(self) -> PublishingStatus: ...


PublisherFactory = Callable[[int, list[Record]], ServicePublisher]
"""Given the epoch, and the services and endpoints that are durable when the term begins."""


class Term:
    """Runs the core for one epoch. `state` equals what is stored, and is the term's from now on. `ended` is called,
    from a thread of the term, when it cannot go on by itself."""

    def __init__(
        self,
        store: Store,
        epoch: int,
        state: State,
        kept: Mapping[tuple[str, str], str],
        options: CoreOptions,
        make_driver: DriverFactory,
        metrics: Metrics,
        ended: Callable[[str], None],
        make_prober: ProberFactory | None = None,
        make_publisher: PublisherFactory | None = None,
        watchers: int = 1_000,
        alarms: Callable[[Sequence[Happening]], None] | None = None,
        elapsed: float | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`elapsed`: as in store.base.Term. `wall`: the host's clock, Unix seconds; it may be set at any moment."""
        self.epoch = epoch
        self._began = time.monotonic()
        self.inbox = Inbox()
        self.core = Core(state, options, wall(), kept, elapsed)
        self.clock = Clock(self.core.began.now, wall)
        self.hub = Hub(self.core.desk.scribe.latest, watchers, self.core.state)
        self._alarms = alarms
        self.driver = make_driver(self._deliver)
        self._prober = make_prober(self.core.state, self._probed, self.clock.now) if make_prober is not None else None
        self._publisher = _publisher(make_publisher, epoch, state) if make_publisher is not None else None
        self._metrics = metrics
        self._ended = ended
        self._calls = Outlet("mesos-calls", self.driver.send, self._lost)
        self._pipeline = CommitPipeline(store, epoch, self._leave, self._lost, metrics, lag=self._calls.lag)
        self.core.desk.uow.sizer = store.sizer
        self._proof = LeadProof(store, epoch, self._lost)
        self._largest = store.batch_bytes // LARGEST_SHARE
        self._tokens = itertools.count(1)
        self._waiting: dict[int, Future[effects.Reply]] = {}
        self._story = story.bind()  # the logger as it is by itself binds anew for every line
        self._detailed: bool = self._story.is_enabled_for(logging.DEBUG)
        self._stopping = threading.Event()
        self._stop_lock = threading.Lock()
        self._thread = threads.ending("core", self._run, self._lost)

    def start(self) -> None:
        self._calls.start()
        self._pipeline.start()
        self._thread.start()
        framework = self.core.state.framework
        self.driver.start(framework.id, framework.cluster, self._proof)
        if self._prober is not None:
            self._prober.start()
        if self._publisher is not None:
            self._publisher.start()

    def stop(self, reason: str, grace: float = 0.0) -> None:
        """Ends everything; replies that wait are failed. May be called from any thread, more than once.

        With `grace`, what the core has decided gets so many seconds to become durable and to leave. Takes at most
        `grace` + PATIENCE seconds: a thread that does not end in time is left behind, since nothing it does can reach
        the store or the inbox any more.
        """
        with self._stop_lock:
            if self._stopping.is_set():
                return
            self._stopping.set()
        self.inbox.close()
        if grace:
            threads.harmless("last commits of the term", lambda: self._finish(time.monotonic() + grace))
        # One that fails must not keep the others from ending: what is left of a term would act beside the next leader.
        threads.each(
            "end of the term",
            (
                self._pipeline.close,
                self._proof.close,
                self._calls.close,
                lambda: self.hub.close(f"stepped down: {reason}"),
                lambda: self._fail_waiting(f"stepped down: {reason}"),
            ),
        )
        # The driver's threads may wait for the inbox, the outlet's for the driver, the core's for the pipeline: all
        # have been told by now except the one that waits for the driver. It may itself take its time (a connection
        # that does not end), so it is told by a thread of its own.
        telling = threads.ending("driver-stop", self.driver.stop)
        telling.start()
        others = [other.stop for other in (self._prober, self._publisher) if other is not None]
        threads.each("end of the term", others)
        self._join(telling, self._pipeline.thread, self._calls.thread, self._thread)

    def _fail_waiting(self, message: str) -> None:
        for token in list(self._waiting):
            self._resolve(effects.Reply(token=token, error=effects.Reason.STEPPED_DOWN, message=message))

    def _finish(self, deadline: float) -> None:
        self._thread.join(max(0.0, deadline - time.monotonic()))
        self._pipeline.drain(max(0.0, deadline - time.monotonic()))
        self._calls.drain(max(0.0, deadline - time.monotonic()))
        while time.monotonic() < deadline:
            status = self.driver.status()
            if not status.get("queued") and not status.get("outstanding"):
                break
            time.sleep(0.01)

    def _join(self, *threads: threading.Thread) -> None:
        deadline = time.monotonic() + PATIENCE
        for thread in threads:
            if thread.ident is not None and thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))
                if thread.is_alive():
                    log.warning("a thread of an ended term is left behind", thread=thread.name, epoch=self.epoch)

    def submit(self, command: events.Command) -> Future[effects.Reply]:
        """Raises Busy."""
        stalled = self._pipeline.stalled_for()
        if stalled > STALL:
            raise Busy(f"the store has not taken changes for {stalled:.0f} s")
        token = next(self._tokens)
        command = msgspec.structs.replace(command, token=token, cause=command.cause or f"api:{self.epoch}.{token}")
        future: Future[effects.Reply] = Future()
        size = len(msgspec.json.encode(command))
        if size > self._largest:
            future.set_result(_too_large(command, size, self._largest))
            return future
        self._waiting[token] = future
        try:
            accepted = self.inbox.offer(command)
        except InboxClosed:
            self._waiting.pop(token, None)
            raise Busy("leadership has just ended") from None
        if not accepted:
            del self._waiting[token]
            raise Busy("too many events are waiting")
        return future

    def withdraw(self, future: Future[effects.Reply]) -> bool:
        """Takes back the command whose reply the future is. True: the command was still waiting, the core will never
        see it. False: it has been or is being handled, and the future will be done."""
        for token, waiting in list(self._waiting.items()):
            if waiting is future:
                if not self.inbox.withdraw(token):
                    return False
                self._waiting.pop(token, None)
                return True
        return False

    @property
    def age(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._began

    def stalled_for(self) -> float:
        return self._pipeline.stalled_for()

    def publishing(self) -> PublishingStatus | None:
        """None where services are not published elsewhere."""
        return self._publisher.status() if self._publisher is not None else None

    def queues(self) -> dict[str, int]:
        """Depths for the metrics."""
        return {
            "inbox": len(self.inbox),
            "commit": self._pipeline.depth,
            "replies": len(self._waiting),
            "mesos": len(self._calls) + int(self.driver.status().get("queued", 0)),
            "probes": self._prober.status()["queued"] if self._prober is not None else 0,
        }

    # --- the core's thread ------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._turn()

    def _turn(self) -> None:
        now = self.clock.now()
        commands, reports = self.core.unhandled
        wait = max(0.0, self.core.next_wakeup(now) - now)
        batch = self.inbox.take(wait, max(0, COMMANDS - commands), max(0, REPORTS - reports))
        began = time.perf_counter()
        units = self.core.turn(batch, self.clock.now(), TurnPace(self._lag))
        self._metrics.turned(len(batch), time.perf_counter() - began)
        self._pipeline.submit(units)

    def _lag(self) -> float:
        """Seconds by which commits or reports lag behind the decisions of the core."""
        return max(self._pipeline.delay(), self.inbox.age())

    def _deliver(self, event: events.Event) -> None:
        """Called by the driver's threads; waits while the inbox is full."""
        if isinstance(event, events.Superseded):
            # Who is right the store knows. The term ends either way: were it to subscribe again, two that both believe
            # they lead (one may be cut off from ZooKeeper alone) would take the framework from each other for ever.
            self._lost("another scheduler has subscribed as this framework")
            return
        try:
            if isinstance(event, events.OffersArrived) and len(event.offers) > OFFERS:
                for first in range(0, len(event.offers), OFFERS):
                    part = event.offers[first : first + OFFERS]
                    self.inbox.put(msgspec.structs.replace(event, offers=part))
            else:
                self.inbox.put(event)
        except InboxClosed:
            log.debug("event dropped, the term has ended", event_type=type(event).__name__)

    def _probed(self, event: events.HealthReported) -> None:
        """Called by the prober's thread, which tries again when this raises."""
        if not self.inbox.offer(event):
            raise Busy("too many events are waiting")

    # --- effects of durable changes ---------------------------------------------------------------------------

    def _leave(self, batch: Sequence[object]) -> None:
        """Called by the commit thread. Whoever gets something here has a queue, so none holds up commits and replies;
        calls to Mesos, whose queue is bounded, wait in the outlet before it. They come last: no kill leaves before the
        `Changed` that tells of it."""
        calls: list[effects.Effect] = []
        news: list[Item] = []
        replies: list[effects.Reply] = []
        for effect in batch:
            if isinstance(effect, effects.Story):
                self._tell(effect)
            elif isinstance(effect, effects.Observed):
                self._metrics.observe(effect)
            elif isinstance(effect, effects.Reply):
                replies.append(effect)
            elif isinstance(effect, effects.Happened):
                news += [Item(EVENTS, "", happening, happening.number) for happening in effect.happenings]
                self._alarm(effect.happenings)
            elif isinstance(effect, effects.Changed):
                news.append(Item(effect.kind, effect.key, effect.record))
                if self._publisher is not None:
                    self._publisher.changed(effect.kind, effect.key, effect.record)
            else:
                assert isinstance(effect, effects.Effect)
                calls.append(effect)
        if news:
            self.hub.publish(news)
        for reply in replies:  # after the news: whoever has an answer finds its events
            self._resolve(reply)
        self._calls.put(calls)

    def _alarm(self, happenings: Sequence[Happening]) -> None:
        """An alarm that cannot be made is no reason to end the term."""
        hear = self._alarms
        if hear is not None:
            threads.harmless("alarms", lambda: hear(happenings))

    def _tell(self, line: effects.Story) -> None:
        notable = line.kind in LOUD or line.level != "info"
        if not notable and not self._detailed:
            return
        write = getattr(self._story, line.level if notable else "debug")
        write(line.reason, kind=line.kind, key=line.key, detail=line.message, cause=line.cause)
        if notable:
            self._metrics.told(line)

    def _resolve(self, reply: effects.Reply) -> None:
        future = self._waiting.pop(reply.token, None)
        if future is not None and future.set_running_or_notify_cancel():
            future.set_result(reply)

    def _lost(self, reason: str) -> None:
        if not self._stopping.is_set():
            self._ended(reason)


def _publisher(make: PublisherFactory, epoch: int, state: State) -> ServicePublisher:
    return make(epoch, [*state.services.values(), *state.endpoints.values()])


def _too_large(command: events.Command, size: int, limit: int) -> effects.Reply:
    return effects.Reply(
        token=command.token,
        error=effects.Reason.INVALID,
        message=f"the request has {size} bytes, the store takes definitions of at most {limit}",
        cause=command.cause,
    )
