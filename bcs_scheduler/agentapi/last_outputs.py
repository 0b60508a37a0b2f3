"""Reads the last output of tasks that have failed from their agents, in the background.

The reads have bounds: READERS tasks at a time, WAITING tasks in the queue, PATIENCE seconds for each task, and RATE kB
per second after a burst. No output is read twice. Agents that are not listed as active are not asked.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Generic, Protocol, TypeVar

import structlog

from bcs_scheduler.agentapi.output import NoIndex, Output
from bcs_scheduler.agentapi.output_index import NAME, STREAMS, Wanted
from bcs_scheduler.agentapi.sandbox import AgentAway, Folder, NoSuchFile, SandboxError
from bcs_scheduler.net.addresses import HostPort
from bcs_scheduler.wire.kept_output import MOST, MOST_ENTRIES, Entry, packed
from store import threads

log = structlog.get_logger(__name__)

READERS = 4
"""Tasks whose output is read at the same time."""
WAITING = 200
"""Tasks that wait. A failure of more tasks has one cause, and the first outputs show this cause."""
PATIENCE = 10.0
"""Seconds after which no further request of a task begins. One request takes 10 s at most."""
RATE = 100.0
"""kB of output per second that are read; the core keeps no more (core.controllers.kept_outputs)."""
BURST = 1000.0
"""kB of output that are read at once."""
RESULTS = ("reported", "empty", "unreachable", "failed", "overflow")
"""Results of requests: the output was reported; there is none; the agent is not listed as active, or does not answer;
the agent refuses; too many tasks waited."""


class Wish(Protocol):
    """A task whose output is to be read."""

    @property
    def agent_id(self) -> str: ...

    @property
    def executor_id(self) -> str: ...

    @property
    def task_id(self) -> str: ...


W = TypeVar("W", bound=Wish)


def read_last(folder: Folder) -> list[Entry]:
    """The last 64 KiB that a task has printed to both streams. Without an index, standard output comes first, and times
    are 0. An empty list if the folder or the output does not exist. Raises SandboxError."""
    try:
        sizes = {entry.path: entry.size for entry in folder.browse()}
    except NoSuchFile:
        return []
    if not any(sizes.get(stream) or sizes.get(f"{stream}.1") for stream in STREAMS):
        return []
    # The newest file of an index is missing while the executor renames the files.
    if sizes.get(NAME) or (NAME not in sizes and f"{NAME}.1" in sizes):
        try:
            page = Output(folder).tail(MOST, Wanted(STREAMS, 0.0), MOST)
        except NoIndex:
            pass  # the agent has removed the files meanwhile
        else:
            return [Entry(*entry) for entry in page.entries[-MOST_ENTRIES:]]
    elif NAME in sizes:
        return []
    return [Entry(0.0, stream, data) for stream, data in _ends(folder, sizes) if data]


def _ends(folder: Folder, sizes: Mapping[str, int]) -> list[tuple[str, bytes]]:
    """The ends of both files: half of the space for each, and the unused part of one half for the other. `sizes`: bytes
    of the files of the folder by name."""
    lengths = [sizes.get(stream, 0) for stream in STREAMS]
    spare = [max(0, MOST // 2 - length) for length in lengths]
    found = []
    for stream, size, other in zip(STREAMS, lengths, reversed(spare), strict=True):
        length = min(size, MOST // 2 + other)
        found.append((stream, folder.piece(stream, size - length, length) if length else b""))
    return found


class LastOutputs(Generic[W]):
    """Takes requests from any thread without delay. `deliver` gets each request with its packed output, in threads of
    this object; it may block."""

    def __init__(self, deliver: Callable[[W, bytes], object]) -> None:
        self._deliver = deliver
        self._addresses: Mapping[str, HostPort] = {}
        self._framework = ""
        self._queue: queue.SimpleQueue[W | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._results: Counter[str] = Counter(dict.fromkeys(RESULTS, 0))
        self._room, self._since = BURST, time.monotonic()
        self._lock = threading.Lock()
        """Guards the results and the rate."""
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Begins to read."""
        self._threads = [
            threads.lasting(f"last-outputs-{number}", self._run, self._stopping.wait) for number in range(READERS)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Nothing is delivered any more. Does not wait for a request in progress."""
        self._stopping.set()
        for _ in range(READERS):
            self._queue.put(None)

    def know(self, framework: str, addresses: Mapping[str, HostPort]) -> None:
        """Takes the id of the framework, and where the active agents answer, by agent id."""
        self._framework, self._addresses = framework, addresses

    def put(self, wish: W) -> None:
        """Never blocks. A request that finds the queue full is dropped and counted."""
        if self._queue.qsize() < WAITING:
            self._queue.put(wish)
        else:
            self._count("overflow")

    def results(self) -> dict[str, int]:
        """Number of requests by result (RESULTS). Any thread."""
        with self._lock:
            return dict(self._results)

    # --- threads of this object -------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping.is_set():
            wish = self._queue.get()
            if wish is not None and not self._stopping.wait(self._pause()):
                self._count(self._fetch(wish))

    def _fetch(self, wish: W) -> str:
        address = self._addresses.get(wish.agent_id)
        if address is None:
            return "unreachable"
        folder = Folder(str(address), self._framework, wish.executor_id, f"tasks/{wish.task_id}", PATIENCE)
        try:
            with folder:
                entries = read_last(folder)
        except SandboxError as error:
            log.info("last_output.unread", task=wish.task_id, agent=wish.agent_id, error=str(error))
            return "unreachable" if isinstance(error, AgentAway) else "failed"
        with self._lock:
            self._room -= sum(len(entry.data) for entry in entries) / 1000
        if not entries or self._stopping.is_set():
            return "empty"
        self._deliver(wish, packed(entries))
        return "reported"

    def _pause(self) -> float:
        """Seconds until the rate allows the next read."""
        with self._lock:
            now = time.monotonic()
            self._room = min(BURST, self._room + RATE * (now - self._since))
            self._since = now
            return max(0.0, -self._room / RATE)

    def _count(self, result: str) -> None:
        with self._lock:
            self._results[result] += 1
