"""What readers cost: watchers of events beside launches, and lists of very many taskgroups.

Launches are measured beside a steady stream of events, without and with watchers.

Changes of configmaps in a namespace of their own make the events, so that both sides do the same work but for the
watchers. Sides alternate; of each the median counts.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from selectors import EVENT_READ, DefaultSelector
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from benchmarks.processes import API, Bench, Failure, await_

ROUNDS = 7
DELIVERIES = 5_000
"""Per second, over all watchers."""
SLOWER = 1.10
"""How much longer a launch may take with watchers."""
MIXES = ((50, 100), (500, 10))
"""Watchers, events per second: their product is DELIVERIES."""
LISTS = 7
LIST_SECONDS = 0.5
CONNECTIONS = 32
"""Of the writer of events."""
LOOK = 0.1
"""Seconds after which the writer of events looks whether it shall stop."""
TOLD_SECONDS = 10.0
"""After the last event all watchers must have been told of all of them."""
SETTLE = 1.0
"""Seconds that the stream of events goes on before a launch is measured."""


class Side(NamedTuple):
    """Medians: seconds of a launch; in it, seconds of the core's turns and of the scheduler's processor time;
    deliveries per second while events are made."""

    seconds: float
    turns: float
    cpu: float
    delivered: float


def slowdown(bench: Bench, launch: Callable[[], None], undo: Callable[[], None]) -> tuple[float, float]:
    """How much longer a launch takes with watchers, and the seconds it takes then, of the slowest mix. Raises Failure
    above SLOWER, and if the watchers are not told everything in time."""
    found = []
    for watchers, rate in MIXES:
        without, beside = compare(bench, watchers, rate, launch, undo)
        found.append((beside.seconds / without.seconds, beside.seconds))
        print(
            f"{watchers} watchers, {rate} events/s: {without.seconds:.2f} s without, {beside.seconds:.2f} s with; "
            f"turns {without.turns:.3f} s and {beside.turns:.3f} s, cpu {without.cpu:.2f} s and {beside.cpu:.2f} s; "
            f"{beside.delivered:.0f} deliveries/s",
            file=sys.stderr,
        )
        if beside.delivered < 0.9 * DELIVERIES:
            raise Failure(f"{beside.delivered:.0f} deliveries a second instead of {DELIVERIES}")
    if max(found)[0] > SLOWER:
        raise Failure(f"launches take {max(found)[0]:.2f} times as long with watchers")
    return max(found)


def list_seconds(bench: Bench, taskgroups: int) -> tuple[float, int]:
    """Median of the time of a list, and the number of lists. The first one, of taskgroups that nobody has listed yet,
    is not counted but told."""
    times = []
    for _ in range(LISTS + 1):
        began = time.monotonic()
        answer = bench.session.get(f"{bench.scheduler.url}{API}/taskgroups", timeout=60)
        times.append(time.monotonic() - began)
        if answer.content.count(b'"ReschededTimes"') != taskgroups:
            raise Failure(f"the list is not complete: {answer.status_code}")
    seconds = statistics.median(times[1:])
    print(f"first list: {times[0]:.3f} s, slowest other: {max(times[1:]):.3f} s", file=sys.stderr)
    if seconds > LIST_SECONDS:
        raise Failure(f"{seconds:.2f} s for a list of {taskgroups} taskgroups")
    return seconds, LISTS + 1


def compare(bench: Bench, watchers: int, rate: int, launch: Callable[[], None], undo: Callable[[], None]) -> list[Side]:
    """Without and with watchers. `launch` is measured, `undo` is not."""
    measured: dict[int, list[Side]] = {0: [], watchers: []}
    for _ in range(ROUNDS):
        for count, rounds in measured.items():
            rounds.append(_round(bench, count, rate, launch))
            undo()
    return [Side(*map(statistics.median, zip(*rounds, strict=True))) for rounds in measured.values()]


def _round(bench: Bench, watchers: int, rate: int, launch: Callable[[], None]) -> Side:
    with reading(bench, watchers) as told:
        with Writer(bench.scheduler.url, rate) as writer:
            time.sleep(SETTLE)
            turns, cpu, began = _turns(bench), bench.scheduler.cpu_seconds(), time.monotonic()
            launch()
            seconds = time.monotonic() - began
            cpu, turns = bench.scheduler.cpu_seconds() - cpu, _turns(bench) - turns
        await_("every event to every watcher", lambda: told() == watchers * writer.made, TOLD_SECONDS)
    return Side(seconds, turns, cpu, watchers * writer.made / writer.seconds)


def _turns(bench: Bench) -> float:
    return bench.metric("bkbcs_scheduler_turn_duration_seconds_sum")


class Writer:
    """Changes a configmap so many times a second, with as little work as can be: it runs beside what is measured."""

    def __init__(self, url: str, rate: int) -> None:
        self._host = urlsplit(url).netloc
        self._pause = 1 / rate
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._error: Exception | None = None
        self.made = 0
        """Changes, each of them one event."""
        self.seconds = 0.0
        """How long it has written."""

    def __enter__(self) -> Writer:
        connection = HTTPConnection(self._host)
        if _read(self._ask(connection, "PUT")) == 404:
            _read(self._ask(connection, "POST"))
        self.made += 1
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._error is not None:
            raise Failure(f"the writer of events: {self._error}") from self._error

    def _run(self) -> None:
        try:
            self._write()
        except Exception as error:
            self._error = error

    def _write(self) -> None:
        """Each request waits until its change is durable, so several are under way on connections of their own."""
        began = due = time.monotonic()
        idle, busy = [HTTPConnection(self._host) for _ in range(CONNECTIONS)], DefaultSelector()
        while busy.get_map() or not self._stop.is_set():
            now = time.monotonic()
            while idle and now >= due and not self._stop.is_set():
                connection = self._ask(idle.pop(), "PUT")
                busy.register(connection.sock, EVENT_READ, connection)
                due += self._pause
            for key, _ in busy.select(max(0.0, due - now) if idle and not self._stop.is_set() else LOOK):
                busy.unregister(key.fileobj)
                if _read(key.data) == 404:
                    raise Failure("the configmap is gone")
                idle.append(key.data)
                self.made += 1
        self.seconds = time.monotonic() - began

    def _ask(self, connection: HTTPConnection, method: str) -> HTTPConnection:
        text = b64encode(b"%d" % time.monotonic_ns()).decode()
        document = {
            "apiVersion": "v4",
            "kind": "configmap",
            "metadata": {"name": "news", "namespace": "news"},
            "datas": {"text": {"type": "file", "content": text}},
        }
        body = msgspec.json.encode(document)
        connection.request(method, f"{API}/namespaces/news/configmaps", body, {"Content-Type": "application/json"})
        return connection


def _read(connection: HTTPConnection) -> int:
    """Status of the answer. Raises Failure unless the change was made, or there is nothing to change."""
    answer = connection.getresponse()
    text = answer.read()
    if answer.status >= 400 and answer.status != 404:
        raise Failure(f"configmap: {answer.status} {text[:300]!r}")
    return answer.status


@contextmanager
def reading(bench: Bench, watchers: int) -> Iterator[Callable[[], int]]:
    """Events that all watchers together have been told so far."""
    if not watchers:
        yield lambda: 0
        return
    url = f"{bench.scheduler.url}{API}/namespaces/news/events/watch"
    command = [sys.executable, "-m", "benchmarks.watchers", url, str(watchers)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as readers:
        assert readers.stdin is not None and readers.stdout is not None
        stdin, stdout = readers.stdin, readers.stdout
        if stdout.readline().strip() != "watching":
            raise Failure("the watchers do not get their streams")

        def told() -> int:
            stdin.write("\n")
            stdin.flush()
            return int(stdout.readline())

        try:
            yield told
        finally:
            stdin.close()
            readers.kill()
