"""Keeps one subscription to the leading master, turns its events into events of the core and effects into calls.

Four threads: `mesos-stream` detects, subscribes and reads; `mesos-calls` makes and writes calls; `mesos-answers` (of
the connection) reads their answers; `mesos-side` delivers the reports of the other two, and lists the agents. The
threads of LastOutputs read output of failed tasks from agents.
Reports take this detour because delivering may block until the core has room, and the core may be waiting for us to
take its calls.
"""

from __future__ import annotations

import itertools
import queue
import random
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import structlog
from google.protobuf.message import DecodeError

from bcs_scheduler.agentapi.last_outputs import LastOutputs
from bcs_scheduler.core.interface import cluster_manager, effects, inputs
from bcs_scheduler.core.interface.cluster_manager import Deliver, Traits
from bcs_scheduler.mesos import convert
from bcs_scheduler.mesos.agent_watch import AgentWatch
from bcs_scheduler.mesos.calls import CallMaker, is_call
from bcs_scheduler.mesos.cluster_name import ClusterName
from bcs_scheduler.mesos.ends import calls_of
from bcs_scheduler.mesos.errors import MesosError
from bcs_scheduler.mesos.launches import wire
from bcs_scheduler.mesos.launches.task_info import TaskBuilder
from bcs_scheduler.mesos.proto import scheduler_pb2
from bcs_scheduler.mesos.settings import MesosSettings
from bcs_scheduler.mesos.transport.call_queue import CallQueue
from bcs_scheduler.mesos.transport.detect import make_detector
from bcs_scheduler.mesos.transport.session import Session
from bcs_scheduler.mesos.transport.stream import EventStream
from store import threads
from transactions.resource_request import EXECUTOR

log = structlog.get_logger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0
"""Seconds between attempts to subscribe: the first is made at once, then doubling, with full jitter."""
STABLE = 5.0
"""Seconds a subscription must last before its end counts as a first failure again."""
DEFAULT_HEARTBEAT = 15.0
TOGETHER = 64  # events that are delivered together at most: a millisecond or two of reading
STOP_TIMEOUT = 5.0
"""Seconds stop() waits for threads that may be blocked in deliver() or in connecting."""


def _always() -> bool | None:
    return True


class Driver:
    """One start() and one stop() per object. `deliver` is called from several threads and may block."""

    traits = Traits(capacity="leased", messages=True, complete_lists=False, loses_news=True, overhead=EXECUTOR)

    def __init__(self, settings: MesosSettings, deliver: Deliver, builder: TaskBuilder) -> None:
        """Raises SettingsError for a master URL that cannot be used."""
        self._settings = settings
        self._deliver = deliver
        self._builder = builder
        self._headers = settings.headers()
        self._detector = make_detector(settings.master)
        self._counter = itertools.count(1)
        self._cluster = ClusterName(self._headers)
        self._may_subscribe: Callable[[], bool | None] = _always
        self._framework_id = ""
        self._stream: EventStream | None = None
        self._session: Session | None = None
        """Set while subscribed: SUBSCRIBED has been seen, the stream is not known to be broken."""
        self._heard_at = 0.0
        self._outputs: LastOutputs[cluster_manager.FetchOutput] = LastOutputs(
            lambda asked, data: self._deliver(convert.fetched_output(asked, data))
        )
        self._agents = AgentWatch(self._headers, settings.agents_interval, settings.framework_name)
        self._error = ""
        self._counts = {"events": 0, "unreadable": 0, "calls": 0, "dropped": 0, "refused": 0, "subscriptions": 0}
        self._garbage: dict[str, int] = dict.fromkeys(wire.UNREADABLE, 0)
        """Number of unreadable documents of executors by the kind of fault."""
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._queue = CallQueue(self._stopping)
        self._side: queue.SimpleQueue[inputs.Input | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []

    # --- for the runtime ------------------------------------------------------------------------------------------

    def start(
        self, framework_id: str, cluster: str = "", may_subscribe: Callable[[], bool | None] | None = None
    ) -> None:
        """Begins to subscribe, as the framework of this id or, if it is empty, as a new one. Does not block.

        `cluster`: stored name of the Mesos cluster; without one the master is asked. `may_subscribe` is called before
        every attempt to subscribe, in a thread of the driver, and may block for seconds: True = subscribe, False =
        never again (another scheduler leads), None = not known now, ask again later. Without it every attempt is made.
        """
        self._framework_id = framework_id
        self._cluster.remember(cluster)
        self._may_subscribe = may_subscribe or _always
        self._detector.start(self._leader_changed)
        for name, run in (("stream", self._stream_loop), ("calls", self._calls_loop), ("side", self._side_loop)):
            thread = threads.lasting(f"mesos-{name}", run, self._stopping.wait)
            self._threads.append(thread)
            thread.start()
        self._outputs.start()

    def stop(self) -> None:
        """Ends the subscription without tearing the framework down: its tasks continue. Effects not yet sent are
        gone."""
        self._stopping.set()
        self._wake.set()
        self._queue.wake()
        self._side.put(None)
        self._outputs.stop()
        if self._stream is not None:
            self._stream.close()
        self._detector.stop()
        for thread in self._threads:
            thread.join(STOP_TIMEOUT)

    def send(self, batch: Sequence[effects.Effect]) -> None:
        """Queues the calls of these effects, in order; any thread. Blocks while the queue is full. Without a
        subscription an Accept comes back as AcceptFailed (certain), and every other call is dropped: Mesos repeats
        updates without an acknowledgement, offers are void anyway, and the core repeats the rest."""
        calls: list[effects.Effect] = []
        listed = False
        for effect in batch:
            if is_call(effect):
                calls.append(effect)
            elif isinstance(effect, cluster_manager.End):
                calls.extend(calls_of(effect))
            elif isinstance(effect, cluster_manager.ListAgents):
                listed = True
            elif isinstance(effect, cluster_manager.FetchOutput):
                self._outputs.put(effect)
            else:
                raise TypeError(f"not a call to Mesos: {type(effect).__name__}")
        if listed:
            self._agents.ask()
            self._side.put(None)
        self._queue.put(calls)

    def status(self) -> dict[str, Any]:
        """Returns the status for /readyz and metrics: ``connected, master, framework_id, last_heartbeat_age`` (seconds
        since the last message, None if not connected), ``error`` (the latest), ``queued``, ``outstanding``, ``garbage``
        (documents of executors that could not be read, by kind), ``outputs`` (reads of last outputs by result), and
        counters since start()."""
        session = self._session
        return {
            "connected": session is not None,
            "master": str(session.stream.master) if session is not None else "",
            "framework_id": self._framework_id,
            "last_heartbeat_age": time.monotonic() - self._heard_at if session is not None else None,
            "error": self._error,
            "queued": len(self._queue),
            "outstanding": session.outstanding if session is not None else 0,
            "garbage": dict(self._garbage),
            "outputs": self._outputs.results(),
            **self._counts,
            "refused": self._counts["refused"] + (session.refused if session is not None else 0),
        }

    # --- subscribing and reading ----------------------------------------------------------------------------------

    def _stream_loop(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            began = time.monotonic()
            self._wake.clear()
            try:
                if self._round():
                    return
            except MesosError as error:
                self._error = str(error)
                log.warning("mesos.subscribe.failed", error=self._error)
            except Exception as error:
                # Without this thread there is never a subscription again, and no check would detect that.
                self._error = f"{type(error).__name__}: {error}"
                log.exception("mesos.stream.failed")
            failures = 0 if time.monotonic() - began > STABLE else failures + 1
            if failures and not self._stopping.is_set():
                longest = min(FIRST_PAUSE * 2 ** min(failures - 1, 16), LONGEST_PAUSE)
                self._wake.wait(random.uniform(longest / 2, longest))

    def _round(self) -> bool:
        """One subscription from its beginning to its end. True if there is no point in another. Raises MesosError."""
        allowed = self._may_subscribe()
        if self._stopping.is_set():
            return True
        if allowed is None:
            raise MesosError("the store has not confirmed that this scheduler leads")
        if not allowed:
            self._error = "another scheduler leads"
            log.warning("mesos.subscribe.refused", reason=self._error)
            return True
        return self._follow(self._subscribe())

    def _subscribe(self) -> EventStream:
        """At the first candidate that lets us. Raises MesosError."""
        problem = MesosError("no Mesos master is known")
        for master in self._detector.candidates():
            self._stream = stream = EventStream(master)
            if self._stopping.is_set():
                stream.close()  # stop() may have looked before there was one
            try:
                stream.open(self._settings.subscribe(self._framework_id), self._headers)
                return stream
            except MesosError as error:
                problem = error
            if self._stopping.is_set():
                break
        raise problem

    def _follow(self, stream: EventStream) -> bool:
        """Reads the stream to its end. True if there is no point in subscribing again."""
        session: Session | None = None
        final, reason = False, ""
        together: list[inputs.Input] = []
        try:
            for record in stream.records():
                self._heard_at = time.monotonic()
                event = self._parse(record)
                if event is not None and event.type == scheduler_pb2.Event.SUBSCRIBED:
                    self._deliver_all(together)
                    session = session or self._subscribed(stream, event.subscribed)
                    if session is None:
                        final, reason = True, "Mesos answered for another framework"
                        break
                elif event is not None and event.type != scheduler_pb2.Event.HEARTBEAT:
                    together += self._read(event)
                    if event.type == scheduler_pb2.Event.ERROR:
                        final, reason = True, event.error.message
                        break
                if not stream.waiting or len(together) >= TOGETHER:
                    self._deliver_all(together)
        except MesosError as error:
            reason = str(error)
        except Exception as error:
            reason = f"an event could not be handled: {type(error).__name__}: {error}"
            log.exception("mesos.stream.failed")
        threads.harmless("events", partial(self._deliver_all, together))
        session = session or self._session
        self._session = None
        # Whatever fails here, the core has to hear that there is no subscription any more.
        threads.harmless("stream", stream.close)
        if session is not None:
            reason = session.end_reason or reason
            threads.harmless("calls", session.close)
            self._counts["refused"] += session.refused
        if self._stopping.is_set():
            log.info("mesos.unsubscribed")
            return True
        self._error = reason
        log.warning("mesos.stream.ended", reason=reason, final=final)
        if session is not None:
            self._deliver(cluster_manager.Disconnected(reason=reason, cause=self._cause()))
        return final

    def _subscribed(self, stream: EventStream, event: scheduler_pb2.Event.Subscribed) -> Session | None:
        """Opens for business. None if Mesos answered for another framework than we are
        (docs/original.md#framework-id): to continue would orphan every task of the real one."""
        framework_id = event.framework_id.value
        if self._framework_id and framework_id != self._framework_id:
            message = f"subscribed as framework {self._framework_id}, but Mesos answered for {framework_id}"
            self._deliver(cluster_manager.RegistrationRevoked(message=message, cause=self._cause()))
            return None
        interval = event.heartbeat_interval_seconds or DEFAULT_HEARTBEAT
        stream.set_timeout(interval * self._settings.missed_heartbeats)
        cluster = self._cluster.of(stream.master)
        self._framework_id, self._error = framework_id, ""
        self._counts["subscriptions"] += 1
        maker = CallMaker(framework_id, self._builder, self._settings.output_limit, self._settings.keeping)
        session = Session(stream, maker, self._headers, self._side.put, self._queue.requeue)
        log.info("mesos.subscribed", master=str(stream.master), framework_id=framework_id, cluster=cluster)
        # The waiting calls belong to the previous subscription. From here on calls are sent: the first ones of this
        # subscription follow from the event below and may come before its delivery has returned.
        self._drop(self._queue.take_all())
        self._session = session
        self._deliver(
            cluster_manager.Connected(
                framework_id=framework_id,
                heartbeat_interval=interval,
                master=str(stream.master),
                cluster=cluster,
                cause=self._cause(),
            )
        )
        self._agents.renew()
        self._side.put(None)
        return session

    def _parse(self, record: bytes) -> scheduler_pb2.Event | None:
        try:
            return scheduler_pb2.Event.FromString(record)
        except DecodeError as error:
            self._unreadable(record, error)
            return None

    def _deliver_all(self, together: list[inputs.Input]) -> None:
        events, together[:] = list(together), []
        if events:
            self._deliver(*events)

    def _read(self, message: scheduler_pb2.Event) -> list[inputs.Input]:
        """The event for the core; none if the core needs none, or if the event cannot be read."""
        self._counts["events"] += 1
        try:
            event = convert.event_of(message, self._cause(), self._unusable, self._settings.framework_name)
        except (ValueError, LookupError) as error:
            self._unreadable(message.SerializePartialToString(), error)
            return []
        return [event] if event is not None else []

    def _unreadable(self, record: bytes, error: Exception) -> None:
        """Its content is not shown: it may be a message of an executor."""
        self._counts["unreadable"] += 1
        log.error("mesos.event.unreadable", error=repr(error), size=len(record))

    def _unusable(self, executor_id: str, kind: wire.UnreadableKind) -> None:
        """Told once for each kind: an executor gone mad would fill the log. Its content may be confidential."""
        if not self._garbage[kind]:
            log.error("mesos.executor.unreadable", executor=executor_id, kind=kind)
        self._garbage[kind] += 1

    def _cause(self) -> str:
        return f"mesos:{next(self._counter)}"

    def _leader_changed(self) -> None:
        """Called by the detector. The stream of a deposed master that is cut off from ZooKeeper alone does not end."""
        self._wake.set()
        session = self._session
        if session is None:
            return
        try:
            leaders = self._detector.candidates()
        except MesosError:
            return
        if session.stream.master not in leaders:
            session.end(f"another master leads: {', '.join(map(str, leaders))}")

    # --- sending --------------------------------------------------------------------------------------------------

    def _calls_loop(self) -> None:
        while batch := self._queue.next_batch():
            session = self._session
            if session is None:
                self._drop(batch)
                continue
            try:
                session.send(batch)
                self._counts["calls"] += len(batch)
            except Exception as error:
                # Some of the calls may have been made: only a new subscription brings both sides to the same view.
                log.exception("mesos.calls.failed")
                session.end(f"calls could not be made: {type(error).__name__}: {error}")

    def _drop(self, batch: Sequence[effects.Effect]) -> None:
        """Effects for which there is no subscription."""
        self._counts["dropped"] += len(batch)
        for effect in batch:
            if isinstance(effect, cluster_manager.LaunchOnAgent) and effect.launches:
                taskgroups = tuple(launch.taskgroup.id for launch in effect.launches)
                self._side.put(
                    cluster_manager.LaunchFailed(
                        taskgroups=taskgroups, reason="not subscribed", certain=True, cause=effect.cause
                    )
                )

    # --- reports and agents ---------------------------------------------------------------------------------------

    def _side_loop(self) -> None:
        while not self._stopping.is_set():
            try:
                self._side_step()
            except Exception:
                log.exception("mesos.side.failed")
                self._stopping.wait(FIRST_PAUSE)

    def _side_step(self) -> None:
        session = self._session
        if session is not None:
            listed = self._agents.look(session.stream.master, self._cause)
            if listed is not None:
                self._outputs.know(self._framework_id, convert.files_addresses(listed.agents))
                self._deliver(listed)
        pause = self._agents.pause() if self._session is not None else None
        try:
            event = self._side.get(timeout=pause)
        except queue.Empty:
            return
        if event is not None:
            self._deliver(event)
