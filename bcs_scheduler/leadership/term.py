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

from bcs_scheduler.core.interface import cluster_manager, effects, inputs, leased, requests
from bcs_scheduler.core.interface.cluster_manager import ClusterManager, Deliver
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.decisions.recorded import Sink, core_of
from bcs_scheduler.leadership.gateway import Busy
from bcs_scheduler.leadership.hub import WATCHERS, Hub
from bcs_scheduler.leadership.items import EVENTS, Item
from bcs_scheduler.leadership.lead_check import LeadCheck
from bcs_scheduler.leadership.listeners import RoleObserver
from bcs_scheduler.leadership.touches import Touches
from bcs_scheduler.loop.call_outlet import Outlet
from bcs_scheduler.loop.clock import Clock
from bcs_scheduler.loop.inbox import Inbox, InboxClosed
from bcs_scheduler.loop.pipeline import CommitPipeline
from bcs_scheduler.loop.turn_timer import COMMANDS, OFFERS, TurnPace, is_crowded, rest, room_for_reports
from bcs_scheduler.publishing.status import Status as PublishingStatus
from store import threads
from store.base import Store
from store.mentions import plain
from store.records import Event, Record
from store.state import State
from transactions.text import duration

log = structlog.get_logger(__name__)
event_logger = structlog.get_logger("bcs_scheduler.story")

STALL = 5.0
"""Seconds without a commit getting through after which new commands are turned away."""
LARGEST_SHARE = 3
"""A command may have this part of the store's batch: its definition is stored in one atomic write with the records
that follow from it (application, transaction). Refusing it here keeps a record that can never be stored from ending
the term."""
PATIENCE = 5.0
"""Seconds that `stop` waits for threads."""
LOUD = frozenset({"application", "transaction", "framework"})
"""Kinds of records whose events are logged at info; those of taskgroups and tasks at debug, unless their level is
higher."""


DriverFactory = Callable[[Deliver], ClusterManager]


class HealthProber(Protocol):
    """The methods of the prober that a term needs (bcs_scheduler.prober.prober.Prober)."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def status(self) -> dict[str, Any]: ...


ProberFactory = Callable[[State, Callable[[inputs.HealthReported], None], Callable[[], float]], HealthProber]
"""Given the state it looks at, where its results go, and the time of the term (Unix seconds)."""


class ServicePublisher(Protocol):
    """The methods of the publisher of services that a term needs (bcs_scheduler.publishing.publisher.Publisher)."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def changed(self, kind: str, key: str, record: Record | None) -> None: ...

    def status(self) -> PublishingStatus: ...


class ManagerThread(Protocol):
    """The methods of the application managers that a term needs (bcs_scheduler.appmanagers.service.ManagerRunner)."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


ManagersFactory = Callable[
    [State, Callable[[requests.Request], Future[effects.Reply]], Callable[[], float]], ManagerThread
]
"""Given the state that the managers read, where their requests go, and the time of the term (Unix seconds)."""
PublisherFactory = Callable[[int, list[Record]], ServicePublisher]
"""Given the epoch, and the services and endpoints that are durable when the term begins."""


class Term:
    """Runs the core for one epoch. `state` equals the store, and belongs to the term from now on. `ended` is called,
    from a thread of the term, when it cannot continue."""

    def __init__(
        self,
        store: Store,
        epoch: int,
        state: State,
        kept: Mapping[tuple[str, str], str],
        options: CoreOptions,
        make_driver: DriverFactory,
        metrics: RoleObserver,
        ended: Callable[[str], None],
        make_prober: ProberFactory | None = None,
        make_publisher: PublisherFactory | None = None,
        watchers: int = WATCHERS,
        alarms: Callable[[Sequence[Event]], None] | None = None,
        elapsed: float | None = None,
        wall: Callable[[], float] = time.time,
        make_managers: ManagersFactory | None = None,
        decisions: Sink | None = None,
    ) -> None:
        """`elapsed`: as in store.base.Term. `wall`: the host's clock, Unix seconds. `decisions` None: not recorded."""
        self.epoch = epoch
        self._began = time.monotonic()
        self.inbox = Inbox()
        self.driver = make_driver(self._deliver)
        self.core = core_of(decisions, epoch, state, options, self.driver.traits, wall(), kept, elapsed)
        self.clock = Clock(self.core.began.now, wall)
        touches = Touches(self.core.state, epoch)
        self.hub = Hub(self.core.turn_context.recorder.latest, watchers, self.core.state, touches)
        self._listed = self.core.agents
        self._alarms = alarms
        self._prober = make_prober(self.core.state, self._probed, self.clock.now) if make_prober is not None else None
        self._publisher = _publisher(make_publisher, epoch, state) if make_publisher is not None else None
        self._managers = make_managers(self.core.state, self.submit, self.clock.now) if make_managers else None
        self._metrics = metrics
        self._ended = ended
        self._calls = Outlet("mesos-calls", self.driver.send, self._lost)
        self._pipeline = CommitPipeline(
            store, epoch, self._leave, self._lost, metrics, lag=self._calls.lag, stored=self.hub.touch
        )
        self.core.turn_context.uow.sizer = store.sizer
        self._lead_check = LeadCheck(store, epoch, self._lost)
        self._largest = store.batch_bytes // LARGEST_SHARE
        self._tokens = itertools.count(1)
        self._waiting: dict[int, Future[effects.Reply]] = {}
        self._event_logger = event_logger.bind()  # the logger as it is by itself binds anew for every line
        self._detailed: bool = self._event_logger.is_enabled_for(logging.DEBUG)
        self._idle = 0
        """Turns with events since the last one that decided something."""
        self._stopping = threading.Event()
        self._stop_lock = threading.Lock()
        self._thread = threads.ending("core", self._run, self._lost)

    def start(self) -> None:
        self._calls.start()
        self._pipeline.start()
        self._thread.start()
        framework = self.core.state.framework
        self.driver.start(framework.id, framework.cluster, self._lead_check)
        for other in (self._prober, self._publisher, self._managers):
            if other is not None:
                other.start()

    def stop(self, reason: str, grace: float = 0.0) -> None:
        """Ends everything; replies that wait are failed. May be called from any thread, more than once.

        With `grace`, the decisions of the core get so many seconds to become durable and to leave. Takes at most
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
        # A part that fails must not prevent the end of the others: remaining parts of a term would act beside the next
        # leader.
        threads.each(
            "end of the term",
            (
                self._pipeline.close,
                self._lead_check.close,
                self._calls.close,
                lambda: self.hub.close(f"stepped down: {reason}"),
                lambda: self._fail_waiting(f"stepped down: {reason}"),
            ),
        )
        # The driver's threads may wait for the inbox, the outlet's for the driver, the core's for the pipeline: all
        # have been asked to stop by now except the driver. The driver may take long to stop (a connection that does not
        # end), so a thread of its own stops it.
        telling = threads.ending("driver-stop", self.driver.stop)
        telling.start()
        others = [other.stop for other in (self._prober, self._publisher, self._managers) if other is not None]
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
                    log.warning("thread of an ended term still runs", thread=thread.name, epoch=self.epoch)

    def submit(self, command: requests.Request) -> Future[effects.Reply]:
        """Raises Busy."""
        stalled = self._pipeline.stalled_for()
        if stalled > STALL:
            raise Busy(f"the store has not accepted changes for {duration(stalled)}")
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
        """Returns the status of the publisher; None if services are not published."""
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
        unsent = self._pipeline.unsent_for()
        if is_crowded(unsent) and not self._idle:
            unsent = rest(wait, self._pipeline.unsent_for, self.inbox.await_command)
        room = room_for_reports(reports, unsent, self.inbox.width, self._idle)
        batch = self.inbox.take(wait, max(0, COMMANDS - commands), room)
        began = time.perf_counter()
        units = self.core.turn(batch, self.clock.now(), TurnPace(self._lag))
        self._metrics.turn_ended(len(batch), time.perf_counter() - began)
        if units:
            self._idle = 0
        elif batch:
            self._idle += 1
        self._pipeline.submit(units)
        if self.core.agents is not self._listed:
            self._listed = self.core.agents
            self.hub.touch_agents(self._listed)

    def _lag(self) -> float:
        """Seconds by which commits or reports lag behind the decisions of the core."""
        return max(self._pipeline.delay(), self.inbox.age())

    def _deliver(self, *events: inputs.Input) -> None:
        """Called by the driver's threads with the events that have come together; waits while the inbox is full."""
        reports: list[inputs.Input] = []
        for event in events:
            if isinstance(event, cluster_manager.Superseded):
                # The store decides which scheduler leads. The term ends in any case: if it subscribed again, two
                # schedulers that both believe they lead (one may be cut off from ZooKeeper alone) would take the
                # framework from each other without end.
                self._lost("another scheduler has subscribed as this framework")
            elif isinstance(event, leased.OffersArrived) and len(event.offers) > OFFERS:
                parts = (event.offers[first : first + OFFERS] for first in range(0, len(event.offers), OFFERS))
                reports += [msgspec.structs.replace(event, offers=part) for part in parts]
            else:
                reports.append(event)
        try:
            self.inbox.put(*reports)
        except InboxClosed:
            log.debug("events dropped, the term has ended", event_types=sorted({type(one).__name__ for one in reports}))

    def _probed(self, event: inputs.HealthReported) -> None:
        """Called by the prober's thread, which tries again when this raises."""
        if not self.inbox.offer(event):
            raise Busy("too many events are waiting")

    # --- effects of durable changes ---------------------------------------------------------------------------

    def _leave(self, batch: Sequence[object]) -> None:
        """Called by the commit thread. Every receiver has a queue, so none delays commits and replies;
        calls to Mesos, whose queue is bounded, wait in the outlet before it. They come last: no kill leaves before the
        `Changed` that reports it."""
        calls: list[effects.Effect] = []
        news: list[Item] = []
        replies: list[effects.Reply] = []
        for effect in batch:
            if isinstance(effect, effects.LogLine):
                self._log_line(effect)
            elif isinstance(effect, effects.Observed):
                self._metrics.observe(effect)
            elif isinstance(effect, effects.Reply):
                replies.append(effect)
            elif isinstance(effect, effects.EventsRecorded):
                news += [Item(EVENTS, "", event, event.number) for event in effect.events]
                self._alarm(effect.events)
            elif isinstance(effect, effects.Changed):
                news.append(Item(effect.kind, effect.key, effect.record))
                if self._publisher is not None:
                    self._publisher.changed(effect.kind, effect.key, effect.record)
            else:
                assert isinstance(effect, effects.Effect)
                calls.append(effect)
        if news:
            self.hub.publish(news)
        for reply in replies:  # after the news: a client with an answer finds its events
            self._resolve(reply)
        self._calls.put(calls)

    def _alarm(self, events: Sequence[Event]) -> None:
        """An alarm that cannot be made is no reason to end the term."""
        hear = self._alarms
        if hear is not None:
            threads.harmless("alarms", lambda: hear(events))

    def _log_line(self, line: effects.LogLine) -> None:
        notable = line.kind in LOUD or line.level != "info"
        if not notable and not self._detailed:
            return
        write = getattr(self._event_logger, line.level if notable else "debug")
        write(f"event.{line.reason}", kind=line.kind, key=line.key, detail=plain(line.message), cause=line.cause)
        if notable:
            self._metrics.logged(line)

    def _resolve(self, reply: effects.Reply) -> None:
        future = self._waiting.pop(reply.token, None)
        if future is not None and future.set_running_or_notify_cancel():
            future.set_result(reply)

    def _lost(self, reason: str) -> None:
        if not self._stopping.is_set():
            self._ended(reason)


def _publisher(make: PublisherFactory, epoch: int, state: State) -> ServicePublisher:
    return make(epoch, [*state.services.values(), *state.endpoints.values()])


def _too_large(command: requests.Request, size: int, limit: int) -> effects.Reply:
    return effects.Reply(
        token=command.token,
        error=effects.Reason.INVALID,
        message=f"the request has {size} bytes, the store accepts definitions of at most {limit}",
        cause=command.cause,
    )
