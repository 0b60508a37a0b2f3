"""The SUBSCRIBE call and the stream of events that answers it."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Iterator

from bcs_scheduler.mesos.errors import CallRefused, ConnectionBroken, DetectionError, MesosError
from bcs_scheduler.mesos.transport import http
from bcs_scheduler.net.recordio import Decoder, FramingError

SUBSCRIBE_TIMEOUT = 15.0
"""Seconds until the head of the answer; a master that is recovering its registry takes a while."""
MAX_REDIRECTS = 5
RECEIVE = 1 << 18
"""Bytes read at once."""


class EventStream:
    """A subscription. One thread opens it and iterates; any thread may call close(), which ends the iteration."""

    def __init__(self, master: http.Master) -> None:
        self.master = master
        """Master of the subscription; after open() the leader, if `master` redirected."""
        self.stream_id = ""
        self._closed = False
        self._sock: socket.socket | None = None

    def open(self, subscribe: bytes, headers: dict[str, str]) -> None:
        """Sends the serialized SUBSCRIBE to the master, or wherever it redirects to. Raises ConnectionBroken,
        CallRefused (401, 403, 503), DetectionError for redirects that lead nowhere."""
        for _ in range(MAX_REDIRECTS + 1):
            location = self._subscribe(subscribe, headers)
            if not location:
                return
            self.master = http.redirect_target(location)
        raise DetectionError(f"more than {MAX_REDIRECTS} redirects, the last to {self.master}")

    def set_timeout(self, seconds: float) -> None:
        """Silence for longer than this counts as a broken stream: heartbeats have been missed."""
        if self._sock is not None:
            self._sock.settimeout(seconds)

    def records(self) -> Iterator[bytes]:
        """Events as they come, until close() (then it just ends) or until the stream breaks (ConnectionBroken)."""
        sock = self._sock
        broken: ConnectionBroken | None = None
        while sock is not None:
            while self._records:
                yield self._records.popleft()
            if self._closed:
                return
            if self._answers.ended:
                raise ConnectionBroken(f"{self.master} ended the stream")
            if broken is not None:
                raise broken
            try:
                self._feed_more(sock)
            except ConnectionBroken as error:
                broken = error  # the last words may have come with it, e.g. an ERROR event that says why

    @property
    def waiting(self) -> int:
        """Events that have arrived and that `records` has not yielded yet. For the iterating thread only."""
        return len(self._records)

    def close(self) -> None:
        self._closed = True
        if self._sock is not None:
            http.close(self._sock)

    def _subscribe(self, call: bytes, headers: dict[str, str]) -> str:
        """Sends the call to self.master; returns where to go instead, or an empty string once the stream is open."""
        self._decoder = Decoder()
        self._records: deque[bytes] = deque()
        self._answer: tuple[int, http.Headers, bytes] | None = None
        self._answers = http.Answers(self._head_arrived, self._piece_arrived)
        self._sock = sock = http.connect(self.master, SUBSCRIBE_TIMEOUT)
        try:
            if self._closed:
                raise ConnectionBroken("closed")
            head = http.request_head(self.master, http.SCHEDULER_PATH, {**headers, "Connection": "close"})
            sock.sendall(http.request(head, call))
            while self._answer is None:
                self._feed_more(sock)
            return self._judge(*self._answer)
        except OSError as error:
            http.close(sock)
            raise ConnectionBroken(f"SUBSCRIBE at {self.master}: {error}") from error
        except MesosError:
            http.close(sock)
            raise

    def _judge(self, status: int, headers: http.Headers, body: bytes) -> str:
        if status == 200:
            self.stream_id = http.header(headers, b"mesos-stream-id")
            if not self.stream_id:
                raise ConnectionBroken(f"{self.master} answered SUBSCRIBE without a Mesos-Stream-Id")
            return ""
        location = http.header(headers, b"location")
        if status in (301, 302, 307, 308) and location and self._sock is not None:
            http.close(self._sock)
            return location
        raise CallRefused(status, body.decode("utf-8", "replace") or "no reason given")

    def _feed_more(self, sock: socket.socket) -> None:
        try:
            data = sock.recv(RECEIVE)
        except TimeoutError as error:
            raise ConnectionBroken(f"no data from {self.master} for {sock.gettimeout()} s") from error
        except OSError as error:
            raise ConnectionBroken(f"the stream from {self.master} broke: {error}") from error
        if not data:
            raise ConnectionBroken(f"{self.master} closed the stream")
        self._answers.feed(data)

    def _head_arrived(self, status: int, headers: http.Headers, body: bytes) -> None:
        self._answer = (status, headers, body)

    def _piece_arrived(self, piece: bytes) -> None:
        try:
            self._records.extend(self._decoder.feed(piece))
        except FramingError as error:
            raise ConnectionBroken(str(error)) from None
