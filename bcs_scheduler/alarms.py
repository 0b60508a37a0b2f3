"""Alarms: events that operators must hear of, posted to a webhook (bcs_internals 6.8; the body is in
docs/operations.md).

What is an alarm follows from durable events. The same alarm (its id) leaves at most once per convergence period; how
many were held back is said in the next one. A new leader reads in the events what the one before has told; only of the
last seconds nobody knows, so those are told again rather than lost. `notice` only puts what is due into a bounded
queue; a thread of its own posts, repeats with backoff, and gives up. What a full queue turns away, and what nobody
took, is counted.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, TypeVar

import msgspec
import structlog

from bcs_scheduler.api.views.base import rfc3339
from bcs_scheduler.api.views.events import name_of
from bcs_scheduler.posting import PostFailed, post
from store import threads
from store.ids import TaskGroupId
from store.records import Happening

log = structlog.get_logger(__name__)
T = TypeVar("T")

QUEUE = 1_000
"""Alarms that may wait to be posted."""
ATTEMPTS = 5
FIRST_PAUSE = 1.0
"""Seconds before an alarm is posted again: doubled each time, so one is given up after 15 s and ATTEMPTS time-outs."""
UNSURE = 30.0
"""Seconds before a change of leaders of whose alarms nobody knows whether they were taken: they may have waited in the
queue of a process that died, or have been tried in vain (FIRST_PAUSE)."""
REMEMBERED = 50_000
"""Ids whose last alarm is remembered; beyond it, the oldest are forgotten."""

Kind = Literal["Info", "Warn", "Error"]


class Sort(NamedTuple):
    """How events of one (kind, reason) become alarms. `suffix` tells ids of one object apart. `ends`: it says that
    what the alarm with this other suffix told is over, and is sent only if that was sent last of the two."""

    name: str
    kind: Kind
    suffix: str
    ends: str = ""


SORTS = {
    ("taskgroup", "Failed"): Sort("taskgroup failed", "Warn", ""),
    ("taskgroup", "Error"): Sort("taskgroup failed", "Warn", ""),
    ("taskgroup", "Lost"): Sort("taskgroup lost", "Warn", ""),
    ("taskgroup", "Unknown"): Sort("taskgroup unknown", "Warn", ""),
    ("taskgroup", "Killed"): Sort("taskgroup killed", "Warn", ""),
    ("taskgroup", "restarted"): Sort("taskgroup restarted", "Info", "-restart"),
    ("taskgroup", "unhealthy"): Sort("health check failed", "Warn", "-health"),
    ("taskgroup", "healthy"): Sort("health check passes again", "Info", "-healthy", ends="-health"),
    ("transaction", "timeout"): Sort("transaction time-out", "Warn", "-timeout"),
    ("framework", "disconnected"): Sort("connection to Mesos lost", "Warn", "-connection"),
    ("framework", "subscribed"): Sort("connected to Mesos again", "Info", "-connected", ends="-connection"),
    ("framework", "removed"): Sort("framework removed", "Error", "-removed"),
    ("deployment", "suspended"): Sort("update suspended", "Warn", "-suspended"),
    ("daemonset", "stuck"): Sort("update stands still", "Warn", "-stuck"),
    ("deployment", "back"): Sort("update rolled back", "Warn", "-back"),
    ("agent", "drain failed"): Sort("drain failed", "Warn", "-drain"),
    ("service", "unavailable"): Sort("service without ready member", "Warn", "-service"),
    ("service", "available"): Sort("service has ready members again", "Info", "-serving", ends="-service"),
}
ENDING = frozenset(sort.ends for sort in SORTS.values() if sort.ends)
"""Suffixes of trouble whose end is told."""


class Alarm(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The body of a post. `event`: number of the event, 0 for a change of leaders. `suppressed`: alarms of this id
    since the last one that was sent. `dropped`: alarms of any id, since the last one that was taken, that nobody will
    hear of, because too many waited or the receiver would not have them."""

    alarm_id: str = msgspec.field(name="alarmID")
    alarm_name: str
    alarm_kind: Kind
    cluster: str = msgspec.field(name="clusterID")
    convergence_seconds: float
    module: str = "scheduler"
    module_url: str
    namespace: str = ""
    resource_type: str
    resource_name: str
    reason: str
    message: str
    level: str
    transaction: str = ""
    event: int = 0
    at_time: str
    suppressed: int = 0
    dropped: int = 0


class Options(Protocol):
    """bcs_scheduler.config.AlarmSettings."""

    @property
    def url(self) -> str: ...

    @property
    def token_file(self) -> str: ...

    @property
    def convergence(self) -> float: ...

    @property
    def timeout(self) -> float: ...


class _Past(NamedTuple):
    sent_at: float
    suppressed: int


class Alarms:
    """One per process. All methods may be called from any thread."""

    def __init__(
        self,
        options: Options,
        cluster: str,
        source: str,
        count: Callable[[str], None] = lambda outcome: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`source`: URL of this scheduler's API. `count` hears what became of each alarm: sent, failed (nobody took
        it), dropped (the queue was full), suppressed. `clock`: monotonic seconds."""
        self._options, self._cluster, self._source = options, cluster, source
        self._count, self._clock = count, clock
        self._lock = threading.Lock()
        """Guards what follows."""
        self._past: dict[str, _Past] = {}
        self._told: dict[str, str] = {}
        """Which of trouble and its end was told last, by the id of the trouble."""
        self._late: dict[str, Alarm] = {}
        """Which of them is to be told when convergence allows it, if it is still so then."""
        self._dropped = 0
        self._queue: queue.Queue[Alarm] = queue.Queue(QUEUE)
        self._stopping = threading.Event()
        self._thread = threads.lasting("alarms", self._run, self._stopping.wait)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """What has not been posted is dropped. Does not wait for a post under way."""
        self._stopping.set()

    @property
    def waiting(self) -> int:
        return self._queue.qsize()

    # --- what happens -----------------------------------------------------------------------------------------

    def notice(self, happenings: Sequence[Happening]) -> None:
        """Durable events, in order. Never waits."""
        for happening in happenings:
            self._hear(happening)

    def _hear(self, happening: Happening, told_at: float | None = None) -> None:
        sort = SORTS.get((happening.object, happening.reason))
        # A taskgroup that was to end was killed by somebody's order.
        if sort is not None and not (happening.reason == "Killed" and happening.level == "info"):
            self._raise(sort, happening, told_at)

    def leading(self, epoch: int, before: Iterable[Happening] = (), now: float = 0.0) -> None:
        """This process has taken over at `now` (Unix seconds of the term's clock). `before`: the durable events until
        then, in order."""
        leader = f"{self._cluster}-leader"
        with self._lock:
            self._late.clear()
            self._told.clear()
            # All others are in the events, those that another leader has told too.
            self._past = {identity: past for identity, past in self._past.items() if identity == leader}
        for happening in before:
            age = now - happening.at
            self._hear(happening, None if age < UNSURE else self._clock() - age)
        self._put(
            Alarm(
                alarm_id=leader,
                alarm_name="leader changed",
                alarm_kind="Info",
                cluster=self._cluster,
                convergence_seconds=self._options.convergence,
                module_url=self._source,
                resource_type="scheduler",
                resource_name=self._source,
                reason="leading",
                message=f"{self._source} leads, epoch {epoch}",
                level="info",
                at_time=rfc3339(now),
            )
        )

    def resting(self) -> None:
        """This process does not lead any more: what it held back may not be so by now."""
        with self._lock:
            self._late.clear()

    def _raise(self, sort: Sort, happening: Happening, told_at: float | None) -> None:
        subject = _subject(happening)
        suffix = sort.ends or sort.suffix
        self._put(
            Alarm(
                alarm_id=subject + sort.suffix,
                alarm_name=sort.name,
                alarm_kind=sort.kind,
                cluster=self._cluster,
                convergence_seconds=self._options.convergence,
                module_url=self._source,
                namespace=happening.namespace,
                resource_type=happening.object,
                resource_name=name_of(happening),
                reason=happening.reason,
                message=happening.message,
                level=happening.level,
                transaction=happening.transaction,
                event=happening.number,
                at_time=rfc3339(happening.at),
            ),
            subject + suffix if suffix in ENDING else "",
            told_at,
        )

    def _put(self, alarm: Alarm, trouble: str = "", told_at: float | None = None) -> None:
        """`trouble`: id of what this alarm tells the beginning or the end of, if its end is told. `told_at` (of the
        clock): it was due then, and whoever led told it."""
        identity, moment = alarm.alarm_id, self._clock() if told_at is None else told_at
        with self._lock:
            told = self._told.get(trouble, "")
            outdated = self._late.pop(trouble, None)
            if outdated is not None:
                self._suppress(outdated.alarm_id, told_at is None)
            if identity != trouble and trouble and told != trouble:
                return
            past = self._past.get(identity)
            if past is not None and self._converges(past, moment):
                if trouble and told != identity:
                    self._late[trouble] = alarm
                else:
                    self._suppress(identity, told_at is None)
                return
            _remember(self._past, identity, _Past(moment, 0))
            if trouble:
                _remember(self._told, trouble, identity)
        if told_at is not None:
            return
        try:
            self._queue.put_nowait(msgspec.structs.replace(alarm, suppressed=past.suppressed if past else 0))
        except queue.Full:
            self._lose("dropped")

    def _converges(self, past: _Past, moment: float) -> bool:
        return moment - past.sent_at < self._options.convergence

    def _suppress(self, identity: str, here: bool) -> None:
        """`here`: not by an earlier leader."""
        past = self._past.get(identity)
        if past is not None:
            self._past[identity] = past._replace(suppressed=past.suppressed + 1)
        if here:
            self._count("suppressed")

    def _put_late(self) -> None:
        """What was held back and is still so: nobody may go on believing the opposite."""
        with self._lock:
            due = []
            for trouble, alarm in self._late.items():
                past = self._past.get(alarm.alarm_id)
                if past is None or not self._converges(past, self._clock()):
                    due.append((trouble, alarm))
            for trouble, _ in due:
                del self._late[trouble]
        for trouble, alarm in due:
            self._put(alarm, trouble)

    def _lose(self, outcome: str) -> None:
        with self._lock:
            self._dropped += 1
        self._count(outcome)

    # --- the thread -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        with asyncio.Runner() as runner:
            while not self._stopping.is_set():
                self._put_late()
                try:
                    alarm = self._queue.get(timeout=0.5)
                except queue.Empty:
                    continue
                if self._delivered(runner, alarm):
                    self._count("sent")
                elif not self._stopping.is_set():
                    self._lose("failed")

    def _delivered(self, runner: asyncio.Runner, alarm: Alarm) -> bool:
        """False also after an unexpected error, which costs this alarm alone."""
        try:
            return self._deliver(runner, alarm)
        except Exception:
            log.exception(threads.FAILED, thread="alarms", alarm=alarm.alarm_id)
            return False

    def _deliver(self, runner: asyncio.Runner, alarm: Alarm) -> bool:
        pause = FIRST_PAUSE
        for attempt in range(ATTEMPTS):
            if attempt and self._stopping.wait(pause * 2 ** (attempt - 1)):
                return False
            with self._lock:
                dropped = self._dropped
            failure = runner.run(self._post(msgspec.structs.replace(alarm, dropped=dropped)))
            if not failure:
                with self._lock:
                    self._dropped -= dropped
                return True
        log.warning("alarm not delivered", alarm=alarm.alarm_id, url=self._options.url, error=failure)
        return False

    async def _post(self, alarm: Alarm) -> str:
        """The error in words; empty if it was taken. What the receiver says beyond the status is of no interest."""
        options, headers = self._options, {}
        url = options.url if "://" in options.url else f"http://{options.url}"
        try:
            if options.token_file:
                headers["Authorization"] = f"Bearer {Path(options.token_file).read_text().strip()}"
            body = msgspec.json.encode(alarm)
            answer = await post(url, body, headers, timeout=options.timeout, ca="", local=True, limit=None)
        except (PostFailed, OSError, ValueError) as error:
            return f"{type(error).__name__}: {error}"
        return "" if 200 <= answer.status < 300 else f"HTTP {answer.status}"


def _remember(known: dict[str, T], identity: str, value: T) -> None:
    """As the newest; the oldest is forgotten when there are too many."""
    known.pop(identity, None)
    known[identity] = value
    if len(known) > REMEMBERED:
        del known[next(iter(known))]


def _subject(happening: Happening) -> str:
    """What the id of an alarm begins with. Replacements of a taskgroup share it: it names application and index."""
    taskgroup = TaskGroupId.parse(happening.key) if happening.object == "taskgroup" else None
    if taskgroup is not None:
        return f"{happening.namespace}.{taskgroup.name}"
    if happening.object == "framework":
        return "framework"
    return ".".join(filter(None, (happening.namespace, name_of(happening))))
