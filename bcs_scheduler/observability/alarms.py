"""Alarms: events that operators must know, posted to a webhook (docs/original.md#alarms; the body is in
docs/operations.md).

Alarms are derived from durable events. The same alarm (its id) leaves at most once per convergence period; the next one
carries the number of suppressed alarms. A new leader reads in the events which alarms the previous leader has sent.
Only for the last seconds this is unknown, so those alarms are sent again rather than lost. `notice` only puts due
alarms into a bounded queue; a thread of its own posts, repeats with backoff, and gives up. Alarms that a full queue or
the receiver refuses are counted.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, TypeVar

import msgspec
import structlog

from bcs_scheduler.net.addresses import without_path
from bcs_scheduler.net.http_post import PostFailed, post
from bcs_scheduler.wire.times import rfc3339
from store import threads
from store.ids import TaskGroupId, without_namespace
from store.mentions import plain
from store.records import Event

log = structlog.get_logger(__name__)
T = TypeVar("T")

QUEUE = 1_000
"""Alarms that may wait to be posted."""
ATTEMPTS = 5
FIRST_PAUSE = 1.0
"""Seconds before an alarm is posted again: doubled each time, so one is given up after 15 s and ATTEMPTS time-outs."""
UNSURE = 30.0
"""Seconds before a change of leaders for which the delivery of alarms is unknown: alarms may have waited in the queue
of a process that died, or have been tried in vain (FIRST_PAUSE)."""
REMEMBERED = 50_000
"""Ids whose last alarm is remembered; beyond it, the oldest are forgotten."""

Kind = Literal["Info", "Warn", "Error"]


class AlarmKind(NamedTuple):
    """The form of the alarms for events of one reason. `suffix` distinguishes alarm ids of one object. `ends`: the
    suffix of the alarm for the problem whose end this alarm reports; the alarm is sent only if that other alarm was the
    last one of the two."""

    name: str
    kind: Kind
    suffix: str
    ends: str = ""


SORTS: Mapping[str, AlarmKind] = {
    "TaskGroupFailed": AlarmKind("taskgroup failed", "Warn", ""),
    "TaskGroupError": AlarmKind("taskgroup failed", "Warn", ""),
    "TaskGroupLost": AlarmKind("taskgroup lost", "Warn", ""),
    "TaskGroupUnknown": AlarmKind("taskgroup unknown", "Warn", ""),
    "TaskGroupKilled": AlarmKind("taskgroup killed", "Warn", ""),
    "TaskGroupRestarted": AlarmKind("taskgroup restarted", "Info", "-restart"),
    "TaskGroupUnhealthy": AlarmKind("health check failed", "Warn", "-health"),
    "TaskGroupHealthy": AlarmKind("health check passes again", "Info", "-healthy", ends="-health"),
    "TransactionTimedOut": AlarmKind("transaction time-out", "Warn", "-timeout"),
    "FrameworkDisconnected": AlarmKind("connection to Mesos lost", "Warn", "-connection"),
    "FrameworkSubscribed": AlarmKind("connected to Mesos again", "Info", "-connected", ends="-connection"),
    "FrameworkRemoved": AlarmKind("framework removed", "Error", "-removed"),
    "ReplacementsHalted": AlarmKind("large loss, replacements halted", "Error", "-halted"),
    "ReplacementsResumed": AlarmKind("replacements resumed", "Info", "-resumed", ends="-halted"),
    "UnknownTasksFound": AlarmKind("unknown tasks run, launches halted", "Error", "-unknown"),
    "UnknownTasksDecided": AlarmKind("unknown tasks decided", "Info", "-decided", ends="-unknown"),
    "UpdateSuspended": AlarmKind("update suspended", "Warn", "-suspended"),
    "DaemonsetStuck": AlarmKind("update stuck", "Warn", "-stuck"),
    "UpdateGoingBack": AlarmKind("update rolled back", "Warn", "-back"),
    "DrainFailed": AlarmKind("drain failed", "Warn", "-drain"),
    "DrainBlocked": AlarmKind("drain blocked", "Warn", "-blocked"),
    "DrainFinished": AlarmKind("drain finished", "Info", "-drained", ends="-blocked"),
    "DrainCancelled": AlarmKind("drain cancelled", "Info", "-drained", ends="-blocked"),
    "ServiceUnavailable": AlarmKind("service without ready member", "Warn", "-service"),
    "ServiceAvailable": AlarmKind("service has ready members again", "Info", "-serving", ends="-service"),
}
ENDING = frozenset(sort.ends for sort in SORTS.values() if sort.ends)
"""Suffixes of the problems whose end is reported."""


class Alarm(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The body of a post. `event`: number of the event, 0 for a change of leaders. `suppressed`: alarms of this id
    since the last one that was sent. `dropped`: alarms of any id that were lost since the last delivered one, because
    too many waited or the receiver did not accept them."""

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
    """bcs_scheduler.settings.sections.AlarmSettings."""

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
    """The alarms of a process. Any thread may call all methods."""

    def __init__(
        self,
        options: Options,
        cluster: str,
        source: str,
        count: Callable[[str], None] = lambda outcome: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`source`: URL of this scheduler's API. `count` gets the outcome of each alarm: sent, failed (the receiver did
        not accept it), dropped (the queue was full), suppressed. `clock`: monotonic seconds."""
        self._options, self._cluster, self._source = options, cluster, source
        self._count, self._clock = count, clock
        self._lock = threading.Lock()
        """Guards the fields below."""
        self._past: dict[str, _Past] = {}
        self._announced: dict[str, str] = {}
        """Id of the last alarm of a pair (problem, end of the problem), by the id of the problem."""
        self._late: dict[str, Alarm] = {}
        """Alarms of such pairs that are sent when convergence allows it, if they are still true then; by the id of the
        problem."""
        self._dropped = 0
        self._queue: queue.Queue[Alarm] = queue.Queue(QUEUE)
        self._stopping = threading.Event()
        self._thread = threads.lasting("alarms", self._run, self._stopping.wait)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Drops the alarms that have not been posted. Does not wait for a post in progress."""
        self._stopping.set()

    @property
    def waiting(self) -> int:
        return self._queue.qsize()

    # --- inputs -----------------------------------------------------------------------------------------------

    def notice(self, events: Sequence[Event]) -> None:
        """Takes durable events, in order. Never waits."""
        for event in events:
            self._hear(event)

    def _hear(self, event: Event, announced_at: float | None = None) -> None:
        sort = SORTS.get(event.reason)
        # An expected kill, such as one that a user requested, is no alarm.
        if sort is not None and not (event.reason == "TaskGroupKilled" and event.level == "info"):
            self._raise(sort, event, announced_at)

    def leading(self, epoch: int, before: Iterable[Event] = (), now: float = 0.0) -> None:
        """This process has taken over at `now` (Unix seconds of the term's clock). `before`: the durable events until
        then, in order."""
        leader = f"{self._cluster}-leader"
        with self._lock:
            self._late.clear()
            self._announced.clear()
            # All others follow from the events, including those that another leader has sent.
            self._past = {identity: past for identity, past in self._past.items() if identity == leader}
        for event in before:
            age = now - event.at
            self._hear(event, None if age < UNSURE else self._clock() - age)
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

    def not_leading(self) -> None:
        """Drops the delayed alarms: this process does not lead any more, so they may not be true any more."""
        with self._lock:
            self._late.clear()

    def _raise(self, sort: AlarmKind, event: Event, announced_at: float | None) -> None:
        subject = _subject(event)
        suffix = sort.ends or sort.suffix
        self._put(
            Alarm(
                alarm_id=subject + sort.suffix,
                alarm_name=sort.name,
                alarm_kind=sort.kind,
                cluster=self._cluster,
                convergence_seconds=self._options.convergence,
                module_url=self._source,
                namespace=event.namespace,
                resource_type=event.object,
                resource_name=without_namespace(event.key, event.namespace),
                reason=event.reason,
                message=plain(event.message),
                level=event.level,
                transaction=event.transaction,
                event=event.number,
                at_time=rfc3339(event.at),
            ),
            subject + suffix if suffix in ENDING else "",
            announced_at,
        )

    def _put(self, alarm: Alarm, problem: str = "", announced_at: float | None = None) -> None:
        """`problem`: id of the problem whose begin or end this alarm reports, if the end is reported at all; else
        empty. `announced_at`: seconds of the clock at which an earlier leader sent the alarm; None: the alarm is due
        now."""
        identity, moment = alarm.alarm_id, self._clock() if announced_at is None else announced_at
        with self._lock:
            announced = self._announced.get(problem, "")
            outdated = self._late.pop(problem, None)
            if outdated is not None:
                self._suppress(outdated.alarm_id, announced_at is None)
            if identity != problem and problem and announced != problem:
                return
            past = self._past.get(identity)
            if past is not None and self._converges(past, moment):
                if problem and announced != identity:
                    self._late[problem] = alarm
                else:
                    self._suppress(identity, announced_at is None)
                return
            _remember(self._past, identity, _Past(moment, 0))
            if problem:
                _remember(self._announced, problem, identity)
        if announced_at is not None:
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
        """Sends the delayed alarms that are still true: otherwise the last alarm of a pair would report the
        opposite."""
        with self._lock:
            due = []
            for problem, alarm in self._late.items():
                past = self._past.get(alarm.alarm_id)
                if past is None or not self._converges(past, self._clock()):
                    due.append((problem, alarm))
            for problem, _ in due:
                del self._late[problem]
        for problem, alarm in due:
            self._put(alarm, problem)

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
        log.warning("alarm not delivered", alarm=alarm.alarm_id, url=without_path(self._options.url), error=failure)
        return False

    async def _post(self, alarm: Alarm) -> str:
        """Posts the alarm. Returns the error in words; empty if the receiver accepted it. The body of the answer is not
        read."""
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
    """Stores the value as the newest; the oldest is removed when there are too many."""
    known.pop(identity, None)
    known[identity] = value
    if len(known) > REMEMBERED:
        del known[next(iter(known))]


def _subject(event: Event) -> str:
    """Returns the begin of the id of an alarm. Replacements of a taskgroup share it: it names application and index."""
    taskgroup = TaskGroupId.parse(event.key) if event.object == "taskgroup" else None
    if taskgroup is not None:
        return f"{event.namespace}.{taskgroup.name}"
    if event.object == "framework":
        return "framework"
    return ".".join(filter(None, (event.namespace, without_namespace(event.key, event.namespace))))
