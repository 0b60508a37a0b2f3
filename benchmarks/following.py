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
from typing import NamedTuple

import requests

from benchmarks.processes import API, Bench, Failure

ROUNDS = 5
DELIVERIES = 5_000
"""Per second, over all watchers."""
SLOWER = 1.10
"""How much longer a launch may take with watchers."""
MIXES = ((50, 100), (500, 10))
"""Watchers, events per second: their product is DELIVERIES."""
LISTS = 7
LIST_SECONDS = 0.5
WRITERS = 20
"""Requests under way at once at most: each waits until its change is durable."""
SETTLE = 1.0
"""Seconds that the stream of events goes on before a launch is measured."""


class Side(NamedTuple):
    """Medians: seconds of a launch, seconds of the core's turns in it; deliveries per second in all rounds."""

    seconds: float
    turns: float
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
            f"turns {without.turns:.3f} s and {beside.turns:.3f} s; {beside.delivered:.0f} deliveries/s",
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
    measured: dict[bool, list[tuple[float, float, float]]] = {False: [], True: []}
    for _ in range(ROUNDS):
        for watched in (False, True):
            with Writer(bench.scheduler.url, rate), reading(bench, watchers if watched else 0) as told:
                time.sleep(SETTLE)
                measured[watched].append(_measure(bench, launch, told))
            undo()
    return [Side(*map(statistics.median, zip(*rounds, strict=True))) for rounds in measured.values()]


def _measure(bench: Bench, launch: Callable[[], None], told: Callable[[], int]) -> tuple[float, float, float]:
    before, turns, began = told(), _turns(bench), time.monotonic()
    launch()
    seconds = time.monotonic() - began
    return seconds, _turns(bench) - turns, (told() - before) / (time.monotonic() - began)


def _turns(bench: Bench) -> float:
    return bench.metric("bkbcs_scheduler_turn_duration_seconds_sum")


class Writer:
    """Changes a configmap so many times a second."""

    def __init__(self, url: str, rate: int) -> None:
        self._url = f"{url}{API}/namespaces/news/configmaps"
        writers = min(WRITERS, rate)
        self._pause = writers / rate
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(n,), daemon=True) for n in range(writers)]

    def __enter__(self) -> Writer:
        self._put(requests.Session(), 0)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, writer: int) -> None:
        session, due = requests.Session(), time.monotonic() + self._pause * writer / len(self._threads)
        while not self._stop.is_set():
            self._stop.wait(max(0.0, due - time.monotonic()))
            due += self._pause
            self._put(session, time.time_ns() + writer)

    def _put(self, session: requests.Session, number: int) -> None:
        document = {
            "apiVersion": "v4",
            "kind": "configmap",
            "metadata": {"name": "news", "namespace": "news"},
            "datas": {"text": {"type": "file", "content": b64encode(b"%d" % number).decode()}},
        }
        answer = session.put(self._url, json=document, timeout=60)
        if answer.status_code == 404:
            answer = session.post(self._url, json=document, timeout=60)
        if answer.status_code >= 400:
            raise Failure(f"configmap: {answer.status_code} {answer.text[:300]}")


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
