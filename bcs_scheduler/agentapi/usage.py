"""The usage of containers, as the agents of Mesos count it: GET_CONTAINERS of their operator API.

Verified against Mesos 1.11. An agent gives a CPU time that grows, so the number of cores in use takes two samples;
memory and disk need one. The isolators of the agent decide which processes are counted. With cgroups, all processes of
a container are counted. With ``posix/cpu`` and ``posix/mem``, only the living processes below an executor are counted:
the CPU time decreases when one of them ends, and tasks in containers of their own, as Mesos's default executor starts
them, are not counted at all. ``/monitor/statistics`` has the same numbers, does not say which containers are nested,
and answers at most twice a second.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

import httptools
import msgspec
import structlog

from bcs_scheduler.net.addresses import HostPort
from bcs_scheduler.tasks import background

log = structlog.get_logger(__name__)

STEP = 1.0
"""Seconds between two samples at least. For that time, an answer serves all callers."""
REMEMBERED = 60.0
"""Seconds after which a sample is too old to be the first of two."""
PATIENCE = 3.0
"""Seconds one question to an agent may take, from connecting to the last byte."""
WHOLE = 10.0
"""Seconds all questions of a request may take, waiting for others included."""
ABREAST = 64
"""Agents that are asked at the same time."""
MOST_AGENTS = 20_000
"""Agents of which samples are remembered."""
LARGEST_ANSWER = 4 * 1024 * 1024
"""Bytes: several thousand containers."""
LARGEST_PIECE = 64 * 1024
"""Bytes that are read at once."""
LEAST_INTERVAL = 0.1
"""Seconds on the agent's clock: with less between two samples nothing can be said."""
MIB = 1024 * 1024

QUESTION = b'{"type":"GET_CONTAINERS","get_containers":{"show_nested":true}}'
REQUEST = (
    "POST /api/v1 HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nAccept: application/json\r\n"
    "Content-Length: {}\r\nConnection: close\r\n\r\n"
)
NO_STATISTICS = "the agent has no usage of its container"
EXECUTOR_ONLY = (
    "the agent counts only the executor; the usage of tasks on the default executor of Mesos needs isolation by cgroups"
)

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""The errors of the decoder for data that is no JSON, or not of the expected form."""

Key = tuple[str, str]
"""Framework id and executor id."""


class Place(NamedTuple):
    """An agent."""

    id: str
    address: HostPort


class Used(NamedTuple):
    """Cores, on average over `interval` seconds, and MiB. None = not known; `problem` says why, if that is known."""

    cpus: float | None = None
    mem: float | None = None
    disk: float | None = None
    interval: float = 0.0
    problem: str = ""


class Measured(NamedTuple):
    """The answer of an agent: the usage of each executor with its containers. `problem`: why there is no answer."""

    containers: Mapping[Key, Used]
    problem: str = ""


class Sample(NamedTuple):
    """Of one container. `at`: seconds, `cpu`: seconds spent, both by the agent's clock; MiB."""

    at: float = 0.0
    cpu: float | None = None
    mem: float | None = None
    disk: float | None = None
    problem: str = ""


Samples = dict[Key, Sample]


class Meter:
    """Asks agents, and remembers the last sample of each for a while. For one event loop."""

    def __init__(self) -> None:
        self._known: dict[Place, _Known] = {}
        self._turn = asyncio.Semaphore(ABREAST)

    async def measure(self, places: Iterable[Place]) -> dict[Place, Measured]:
        """All at the same time. Takes as long as a question, and `STEP` more for agents without a sample that is
        old enough; never longer than `WHOLE`."""
        self._forget()
        asked = {place: self._asked(place) for place in places}
        if asked:
            await asyncio.wait(asked.values())
        return {place: task.result() for place, task in asked.items()}

    def _asked(self, place: Place) -> asyncio.Task[Measured]:
        """Callers that ask for the same agent at the same time get the same answer."""
        known = self._known.pop(place, None) or _Known()
        self._known[place] = known  # the last in order is the last that was asked for
        if known.task is None or (known.task.done() and time.monotonic() - known.done_at >= STEP):
            known.task = background(self._measured(place, known), "usage")
        return known.task

    def _forget(self) -> None:
        now = time.monotonic()
        for place, known in list(self._known.items()):
            old = now - known.done_at > REMEMBERED or len(self._known) > MOST_AGENTS
            if old and known.task is not None and known.task.done():
                del self._known[place]

    async def _measured(self, place: Place, known: _Known) -> Measured:
        try:
            async with asyncio.timeout(WHOLE):
                return await self._pair(place, known)
        except _Unanswered as error:
            return Measured({}, f"agent {place.address} {error}")
        except TimeoutError:
            return Measured(
                {}, f"agent {place.address} was not asked within {WHOLE:g} s: too many other agents do not answer"
            )
        except Exception as error:
            log.exception("usage.failed", agent=str(place.address))
            return Measured({}, f"agent {place.address} could not be asked: {type(error).__name__}")
        finally:
            known.done_at = time.monotonic()

    async def _pair(self, place: Place, known: _Known) -> Measured:
        newer = await self._sample(place)
        older = known.samples if time.monotonic() - known.taken <= REMEMBERED else {}
        older = {key: sample for key, sample in older.items() if key in newer and follows(newer[key], sample)}
        if any(sample.cpu is not None and key not in older for key, sample in newer.items()):
            await asyncio.sleep(STEP)
            older = newer | older
            newer = await self._sample(place)
        known.samples, known.taken = newer, time.monotonic()
        return Measured({key: used(older.get(key), sample) for key, sample in newer.items()})

    async def _sample(self, place: Place) -> Samples:
        async with self._turn:
            return read(await _ask(place.address))


class _Known:
    """Of one agent; times of the monotonic clock."""

    def __init__(self) -> None:
        self.task: asyncio.Task[Measured] | None = None
        self.samples: Samples = {}
        self.taken = self.done_at = -math.inf


class _Unanswered(Exception):
    """The message continues a sentence that begins with "agent HOST:PORT"."""


def follows(newer: Sample, older: Sample) -> bool:
    """True if the two say how many cores were in use between them."""
    if newer.cpu is None or older.cpu is None:
        return False
    return newer.at - older.at >= LEAST_INTERVAL and newer.cpu >= older.cpu


def used(older: Sample | None, newer: Sample) -> Used:
    """Between two samples. A counter that went backwards says nothing, as one that has just begun."""
    cpus, interval = None, 0.0
    if older is not None and newer.cpu is not None and older.cpu is not None and follows(newer, older):
        interval = newer.at - older.at
        cpus = (newer.cpu - older.cpu) / interval
    return Used(cpus, newer.mem, newer.disk, interval, newer.problem)


# --- the wire -----------------------------------------------------------------------------------------------------


class _Named(msgspec.Struct):
    value: str = ""


class _ContainerId(msgspec.Struct):
    value: str = ""
    parent: _Named | None = None


class _Statistics(msgspec.Struct):
    """`mem_total_bytes` comes from cgroups only."""

    timestamp: float
    cpus_user_time_secs: float | None = None
    cpus_system_time_secs: float | None = None
    mem_rss_bytes: float | None = None
    mem_total_bytes: float | None = None
    disk_used_bytes: float | None = None


class _Status(msgspec.Struct):
    """The one place where an agent says in which container another one is nested."""

    container_id: _ContainerId = msgspec.field(default_factory=_ContainerId)


class _Container(msgspec.Struct):
    """Without an executor it was started by an operator, or is nested in another one."""

    container_id: _ContainerId
    container_status: _Status = msgspec.field(default_factory=_Status)
    framework_id: _Named = msgspec.field(default_factory=_Named)
    executor_id: _Named = msgspec.field(default_factory=_Named)
    resource_statistics: _Statistics | None = None


class _Containers(msgspec.Struct):
    containers: list[msgspec.Raw] = []


class _Answer(msgspec.Struct):
    """An agent without containers leaves out `get_containers`."""

    type: Literal["GET_CONTAINERS"]
    get_containers: _Containers = msgspec.field(default_factory=_Containers)


def read(body: bytes) -> Samples:
    """Of an agent's answer; an entry that is not understood is left out. Raises _Unanswered."""
    try:
        listed = msgspec.json.decode(body, type=_Answer).get_containers.containers
    except UNREADABLE as error:
        raise _Unanswered("gives an invalid answer") from error
    containers = [container for container in map(_container, listed) if container is not None]
    identities = [container.container_status.container_id for container in containers]
    parents = {identity.parent.value for identity in identities if identity.parent is not None}
    return {
        (container.framework_id.value, container.executor_id.value): _sample(
            container.resource_statistics, container.container_id.value in parents
        )
        for container in containers
        if container.executor_id.value
    }


def _container(raw: msgspec.Raw) -> _Container | None:
    try:
        return msgspec.json.decode(raw, type=_Container)
    except UNREADABLE:
        return None


def _sample(statistics: _Statistics | None, has_nested: bool) -> Sample:
    if statistics is None:
        return Sample(problem=NO_STATISTICS)
    disk = _amount(statistics.disk_used_bytes, MIB)
    if has_nested and statistics.mem_total_bytes is None:
        return Sample(disk=disk, problem=EXECUTOR_ONLY)
    at, user, system = (
        _amount(number)
        for number in (statistics.timestamp, statistics.cpus_user_time_secs, statistics.cpus_system_time_secs)
    )
    mem = _amount(statistics.mem_rss_bytes, MIB)
    if at is None or user is None or system is None:
        return Sample(mem=mem, disk=disk)
    return Sample(at, user + system, mem, disk)


def _amount(value: float | None, unit: float = 1.0) -> float | None:
    """None for a number that can be no amount."""
    return value / unit if value is not None and 0 <= value < 1e18 else None


async def _ask(address: HostPort) -> bytes:
    """Raises _Unanswered."""
    try:
        async with asyncio.timeout(PATIENCE):
            answer = await _posted(address)
    except TimeoutError:
        raise _Unanswered(f"does not answer within {PATIENCE:g} s") from None
    except (httptools.HttpParserError, httptools.HttpParserUpgrade):
        raise _Unanswered("gives an answer that is not HTTP") from None
    except (OSError, ValueError, OverflowError):  # the latter for a text that is no address
        raise _Unanswered("does not answer: the connection failed") from None
    if not answer.complete:
        raise _Unanswered("interrupted its answer" if answer.status else "does not answer: the connection ended")
    if answer.status != 200:
        raise _Unanswered(_refusal(answer.status))
    return bytes(answer.body)


class _Response:
    """Called by the parser. `status` is 0 until it is known."""

    def __init__(self) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self.body = bytearray()
        self.status = 0
        self.complete = False

    def on_headers_complete(self) -> None:
        self.status = self.parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.complete = True


async def _posted(address: HostPort) -> _Response:
    """As far as it came. A general client would take longer for a thousand agents than they do to answer."""
    answer, size = _Response(), 0
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        writer.write(REQUEST.format(address, len(QUESTION)).encode() + QUESTION)
        while not answer.complete and (data := await reader.read(LARGEST_PIECE)):
            answer.parser.feed_data(data)
            size += len(data)
            if size > LARGEST_ANSWER:
                raise _Unanswered(f"gives an answer that exceeds {LARGEST_ANSWER} bytes")
    finally:
        writer.transport.abort()
    return answer


def _refusal(status: int) -> str:
    if status in (401, 403):
        return f"does not allow the scheduler to list its containers (HTTP {status})"
    if status in (404, 501):
        return f"does not show the usage of its containers (HTTP {status})"
    return f"answers HTTP {status}"
