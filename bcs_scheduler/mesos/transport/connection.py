"""One connection to the leading master for scheduler calls, pipelined.

Mesos answers every call other than SUBSCRIBE with an empty 202, after no more than validating its form. Waiting for
each answer would cost a round trip per call; instead calls are written as they come, and a reader thread matches the
answers, which arrive in order (RFC 9112, section 9.3.2), to the calls.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

import structlog

from bcs_scheduler.mesos.errors import ConnectionBroken
from bcs_scheduler.mesos.transport import http
from store import threads

log = structlog.get_logger(__name__)

ACCEPTED = 202
UNKNOWN = 0
"""Outcome of a call whose answer was never read: Mesos may or may not have it."""
NEVER_SENT = -1
"""Outcome of a call of which no byte was written: Mesos certainly does not have it."""

MAX_OUTSTANDING = 4096
"""Calls without an answer before writing waits: bounds the number of calls with an unknown fate after a break, and the
memory of both sides."""
BATCH = 256
"""Calls written by one system call."""
CALL_TIMEOUT = 30.0
"""Seconds without any answer while one is due, after which the connection counts as broken."""

Tag = TypeVar("Tag")


class Outcome(NamedTuple, Generic[Tag]):
    """The outcome of a call: an HTTP status, UNKNOWN or NEVER_SENT."""

    tag: Tag
    status: int
    reason: str


class CallConnection(Generic[Tag]):
    """A connection for calls; only one thread may write. `on_outcome` is called exactly once per call, in order, from
    the reader thread (or from the writer for calls that were never sent). `on_broken(reason, unknown)` is called once,
    after the outcomes, with the number of calls whose outcome is UNKNOWN; not after close()."""

    def __init__(
        self,
        master: http.Master,
        headers: dict[str, str],
        on_outcome: Callable[[Outcome[Tag]], None],
        on_broken: Callable[[str, int], None],
        *,
        max_outstanding: int = MAX_OUTSTANDING,
        timeout: float = CALL_TIMEOUT,
    ) -> None:
        self._head = http.request_head(master, http.SCHEDULER_PATH, headers)
        self._on_outcome = on_outcome
        self._on_broken = on_broken
        self._max_outstanding = max_outstanding
        self._unanswered: deque[Tag] = deque()
        self._room = threading.Condition()
        self._broken = ""
        self._closing = False
        self._sock = http.connect(master, timeout)
        self._answers = http.Answers(self._answered)
        self._reader = threads.ending("mesos-answers", self._read)
        self._reader.start()

    @property
    def outstanding(self) -> int:
        return len(self._unanswered)

    def send(self, calls: Iterable[tuple[bytes, Tag]]) -> None:
        """Writes serialized calls in order. Blocks while too many are unanswered. Never raises: calls that cannot be
        written are reported like all others."""
        batch: list[tuple[bytes, Tag]] = []
        for call in calls:
            batch.append(call)
            if len(batch) == BATCH:
                self._write(batch)
                batch = []
        if batch:
            self._write(batch)

    def close(self) -> None:
        """Closes without waiting for answers; their calls are reported as UNKNOWN."""
        self._closing = True
        http.close(self._sock)
        if threading.current_thread() is not self._reader:
            self._reader.join()

    def _write(self, batch: Sequence[tuple[bytes, Tag]]) -> None:
        head = self._head
        data = b"".join([http.request(head, body) for body, _ in batch])
        with self._room:
            while len(self._unanswered) + len(batch) > self._max_outstanding and self._unanswered and not self._broken:
                self._room.wait()
            broken = self._broken
            if not broken:
                # Registered before writing: an answer can arrive before sendall returns.
                self._unanswered.extend([tag for _, tag in batch])
        if broken:
            for _, tag in batch:
                self._on_outcome(Outcome(tag, NEVER_SENT, broken))
            return
        try:
            self._sock.sendall(data)
        except OSError:
            http.close(self._sock)  # the reader reports it, with every call that has no answer

    def _read(self) -> None:
        reason = "the master closed the connection"
        try:
            while data := self._receive():
                self._answers.feed(data)
                with self._room:
                    self._room.notify_all()
        except (OSError, ConnectionBroken) as error:
            reason = f"calls: {error}"
        except Exception as error:
            # If this thread ended without a report, the writer would wait for its answers without end.
            log.exception("mesos.answers.failed")
            reason = f"calls: {type(error).__name__}: {error}"
        self._break(reason)

    def _receive(self) -> bytes:
        while True:
            due = len(self._unanswered)
            try:
                return self._sock.recv(65536)
            except TimeoutError:
                # Silence matters only if the calls that were due before it are due still.
                if due:
                    raise

    def _break(self, reason: str) -> None:
        http.close(self._sock)
        with self._room:
            self._broken = reason
            unknown = list(self._unanswered)
            self._unanswered.clear()
            self._room.notify_all()
        try:
            for tag in unknown:
                self._on_outcome(Outcome(tag, UNKNOWN, reason))
        finally:  # without this the subscription would continue although no call can be made
            if not self._closing:
                self._on_broken(reason, len(unknown))

    def _answered(self, status: int, headers: http.Headers, body: bytes) -> None:
        if not self._unanswered:
            raise ConnectionBroken("an answer without a call")
        tag = self._unanswered.popleft()
        reason = "" if status == ACCEPTED else body.decode("utf-8", "replace")
        self._on_outcome(Outcome(tag, status, reason))
