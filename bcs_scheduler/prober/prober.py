"""The schedule of probes: one thread with an event loop of its own, any number of targets.

Every target has a phase within its interval, derived from the id of its task, so that probes are spread evenly, also
after a restart of the scheduler. At most `concurrency` probes run at once; further ones that are due wait in a queue.
Targets whose last probe timed out, and targets never probed, get only a share of the places, so that hanging targets
never delay the others, however many they are.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import structlog
import uvloop

from bcs_scheduler.core.interface.inputs import HealthReported
from bcs_scheduler.prober.probe import Verdict, probe
from bcs_scheduler.prober.targets import Kind, KnownTarget, ProbeTarget
from bcs_scheduler.tasks import background
from store import threads
from transactions.rules.health import WORDS_LIMIT

log = structlog.get_logger(__name__)

REFRESH = 1.0
"""Seconds between looks at the targets, and more where a look is costly:"""
REFRESH_SHARE = 0.02
"""at most this part of the time is spent looking,"""
LONGEST_REFRESH = 10.0
"""as long as this is not exceeded."""
FIRST_SPREAD = 5.0
"""Seconds over which first probes of new tasks are spread at most: an update waits for them."""
LEAST_INTERVAL = 0.5
REPEAT = 5.0
"""Seconds after which a result is reported again if the state does not show it: a report is lost if the inbox is full,
and ignored if the task was not known to run."""
PATIENCE = 5.0
"""Seconds that `stop` waits for the thread."""


class _ProbeState(enum.IntEnum):
    """The result of the last probe as an estimate of the duration of the next one."""

    ANSWERS = 0
    NEW = 1
    HANGS = 2


SHARES = (1.0, 0.75, 0.5)
"""By state: the part of the places that targets of this state and of the later ones may take together."""

Report = Callable[[HealthReported], object]
"""Receives a result. If the function raises, it is called again after the next probe."""
Counted = Callable[[Kind, Verdict, float], None]
"""Called after every probe: type, verdict, and the seconds between the due time of the probe and its begin."""


@dataclass(slots=True, eq=False)
class _Entry:
    """`due`: time of the loop of the next probe; while it is waited for, `timer` is set."""

    target: KnownTarget
    due: float
    timer: asyncio.TimerHandle | None = None
    state: _ProbeState = _ProbeState.NEW
    gone: bool = False
    reported: tuple[bool, str] | None = None
    reported_at: float = 0.0


class Prober:
    def __init__(
        self,
        targets: Callable[[], Iterable[KnownTarget]],
        report: Report,
        concurrency: int,
        clock: Callable[[], float],
        counted: Counted = lambda kind, verdict, lag: None,
        refresh: float = REFRESH,
    ) -> None:
        """`targets` is called by the prober's thread, as are `report` and `counted`. `clock`: Unix seconds, the time
        that `ProbeTarget.started_at` is of."""
        self._targets, self._report, self._counted = targets, report, counted
        self._clock = clock
        self._concurrency, self._refresh = concurrency, refresh
        self._entries: dict[tuple[str, Kind], _Entry] = {}
        self._queues: tuple[deque[_Entry], ...] = tuple(deque() for _ in _ProbeState)
        self._running: dict[asyncio.Task[None], _ProbeState] = {}
        self._places = [0 for _ in _ProbeState]
        """The number of running probes by state."""
        self._probes = 0
        self._lag = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None
        self._stopping = threading.Event()
        self._thread = threads.lasting("prober", self._run, self._stopping.wait)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Cancels the running probes; no result is reported any more. May be called by any thread, more than once."""
        self._stopping.set()
        loop, end = self._loop, self._end
        if loop is not None and end is not None:
            with contextlib.suppress(RuntimeError):  # it has closed its loop meanwhile
                loop.call_soon_threadsafe(end.set)
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(PATIENCE)

    def status(self) -> dict[str, Any]:
        """`lag`: seconds for which the latest probe had waited for its turn. May be called by any thread."""
        return {
            "targets": len(self._entries),
            "running": len(self._running),
            "queued": sum(len(queue) for queue in self._queues),
            "probes": self._probes,
            "lag": self._lag,
        }

    # --- the prober's thread ----------------------------------------------------------------------------------

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._main())

    async def _main(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        try:
            while not self._stopping.is_set():
                pause = max(self._refresh, min(self._look() / REFRESH_SHARE, LONGEST_REFRESH))
                try:
                    async with asyncio.timeout(pause):
                        await self._end.wait()
                except TimeoutError:
                    continue
        finally:
            self._forget_all()

    def _forget_all(self) -> None:
        """Nothing of this event loop is left: after an error another one begins."""
        for task in list(self._running):
            task.remove_done_callback(self._done)
            task.cancel()
        for entry in self._entries.values():
            self._forget(entry)
        self._running.clear()
        self._entries.clear()
        self._places = [0 for _ in _ProbeState]
        for waiting in self._queues:
            waiting.clear()

    def _look(self) -> float:
        """Seconds it took; 0.0 if it failed."""
        began = time.perf_counter()
        try:
            self._take(self._targets())
        except Exception:
            log.exception("looking up probe targets failed")
            return 0.0
        return time.perf_counter() - began

    def _take(self, targets: Iterable[KnownTarget]) -> None:
        """New targets get their times, changed ones too, gone ones are forgotten."""
        found: set[tuple[str, Kind]] = set()
        for target in targets:
            key = (target.probe_target.task_id, target.probe_target.type)
            found.add(key)
            entry = self._entries.get(key)
            if entry is not None and (entry.target is target or entry.target.probe_target == target.probe_target):
                entry.target = target
                continue
            if entry is not None:
                self._forget(entry)
            entry = self._entries[key] = _Entry(target, self._now() + _first(target, self._clock()))
            self._wait_for(entry)
        for key in self._entries.keys() - found:
            self._forget(self._entries.pop(key))

    def _forget(self, entry: _Entry) -> None:
        entry.gone = True
        if entry.timer is not None:
            entry.timer.cancel()

    def _now(self) -> float:
        assert self._loop is not None
        return self._loop.time()

    def _wait_for(self, entry: _Entry) -> None:
        assert self._loop is not None
        entry.timer = self._loop.call_at(entry.due, self._due, entry)

    def _due(self, entry: _Entry) -> None:
        entry.timer = None
        self._queues[entry.state].append(entry)
        self._go_on()

    def _go_on(self) -> None:
        """Starts waiting probes while there is room."""
        assert self._loop is not None
        for state, queue in zip(_ProbeState, self._queues, strict=True):
            room = max(1, int(self._concurrency * SHARES[state]))
            while queue and sum(self._places[state:]) < room and len(self._running) < self._concurrency:
                entry = queue.popleft()
                if not entry.gone:
                    task = background(self._probe(entry), "prober")
                    self._running[task] = state
                    self._places[state] += 1
                    task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._places[self._running.pop(task)] -= 1
        if not self._stopping.is_set():
            self._go_on()

    async def _probe(self, entry: _Entry) -> None:
        """Probes, reports, and schedules the next probe, also after a failure."""
        try:
            await self._probe_once(entry)
        finally:
            if not entry.gone and not self._stopping.is_set():
                # A late target keeps its phase: missed probes are skipped.
                interval = max(LEAST_INTERVAL, entry.target.probe_target.interval)
                missed = max(0.0, self._now() - entry.due) // interval
                entry.due += (missed + 1) * interval
                self._wait_for(entry)

    async def _probe_once(self, entry: _Entry) -> None:
        lag = max(0.0, self._now() - entry.due)
        probe_target = entry.target.probe_target
        try:
            verdict = await probe(probe_target)
        except Exception as error:
            log.exception("probe failed", task_id=probe_target.task_id, type=probe_target.type)
            verdict = Verdict(False, f"could not be probed: {type(error).__name__}")
        self._probes, self._lag = self._probes + 1, lag
        self._counted(probe_target.type, verdict, lag)
        entry.state = _ProbeState.HANGS if verdict.timed_out else _ProbeState.ANSWERS
        if not entry.gone and not self._stopping.is_set():
            self._report_verdict(entry, verdict, self._clock())

    def _report_verdict(self, entry: _Entry, verdict: Verdict, now: float) -> None:
        """Reports a verdict that the state does not have yet. Failures in the grace period do not count; the grace
        period ends when the task has been healthy."""
        probe_target, known, message = entry.target.probe_target, entry.target.known, verdict.message[:WORDS_LIMIT]
        if known.healthy is verdict.healthy and (verdict.healthy or known.message == message):
            entry.reported = None
            return
        if not verdict.healthy and known.healthy is None and now < probe_target.started_at + probe_target.grace_period:
            return
        if entry.reported == (verdict.healthy, message) and self._now() - entry.reported_at < REPEAT:
            return
        try:
            self._report(
                HealthReported(
                    cause="prober",
                    task_id=probe_target.task_id,
                    type=probe_target.type,
                    healthy=verdict.healthy,
                    message=message,
                )
            )
        except Exception as error:
            log.debug("health report refused", task_id=probe_target.task_id, error=str(error))
        else:
            entry.reported, entry.reported_at = (verdict.healthy, message), self._now()


def _first(target: KnownTarget, now: float) -> float:
    """Seconds from `now` (Unix) until the first probe."""
    probe_target = target.probe_target
    interval = max(LEAST_INTERVAL, probe_target.interval)
    spread = min(interval, FIRST_SPREAD) if target.known.healthy is None else interval
    return max(0.0, probe_target.started_at + probe_target.delay - now) + phase(probe_target) * spread


def phase(probe_target: ProbeTarget) -> float:
    """Part of the interval, in [0, 1): always the same for the same check."""
    return zlib.crc32(f"{probe_target.task_id}/{probe_target.type}".encode()) / 2**32
