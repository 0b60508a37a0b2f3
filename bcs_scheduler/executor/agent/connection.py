"""The connection to the agent: one stream of events, one link for calls (executor HTTP API of Mesos, v1, JSON)."""

from __future__ import annotations

import base64
import json
import logging
import random
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from .. import threads
from ..settings import Settings
from .http1 import HttpError, Link
from .recordio import Decoder, FramingError
from .updates import Updates

log = logging.getLogger("executor")

TARGET = "/api/v1/executor"
TIMEOUT = 10.0
"""Seconds for a call, and for the answer to SUBSCRIBE to begin. An agent that takes longer counts as away."""
SILENCE = 65 * 60.0
"""Seconds after which a stream without a byte counts as broken: an agent sends a heartbeat every 30 minutes
(DEFAULT_EXECUTOR_HEARTBEAT_INTERVAL), and calls, which close the stream when they fail, find a lost agent sooner."""
FIRST = 15.0
"""Seconds in which the first subscription must succeed, also without checkpointing: an agent that has just been started
refuses executors while it recovers."""
BACKOFF = 0.05
"""Seconds; doubled with each attempt up to the maximum that the agent names."""
MESSAGES = 1000
"""Messages kept while the agent is away. They are best effort; the oldest go first."""
BODY = 1024 * 1024

ERRORS = (OSError, HttpError, FramingError, ValueError)


class Connection:
    """`handler` gets each event in the thread of the stream. `lost` is called once, when the agent does not return."""

    def __init__(
        self, settings: Settings, updates: Updates, handler: Callable[[dict[str, Any]], None], lost: Callable[[], None]
    ) -> None:
        self._settings = settings
        self._updates = updates
        self._handler = handler
        self._lost = lost
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if settings.token:
            self._headers["Authorization"] = f"Bearer {settings.token}"
        self._wake = threading.Condition()
        self._messages: deque[bytes] = deque(maxlen=MESSAGES)
        self._stream: Link | None = None
        self._subscribed = False
        self._been_subscribed = False
        """True if the current stream was subscribed, also if the stream was interrupted since."""
        self._ever_subscribed = False
        self._calls: Link | None = None
        self._closed = False

    def start(self) -> None:
        for target in (self._run_events, self._run_calls):
            threads.lasting(target.__name__, target).start()

    def close(self) -> None:
        with self._wake:
            self._closed = True
        self._drop()

    def update(self, task: str, status: dict[str, Any]) -> None:
        """Sent in order, until it is acknowledged."""
        self._updates.add(task, status)
        with self._wake:
            self._wake.notify_all()

    def message(self, document: dict[str, Any]) -> None:
        """Sent once, when there is a subscription."""
        with self._wake:
            self._messages.append(json.dumps(document).encode())
            self._wake.notify_all()

    def wait_until_said(self, timeout: float) -> bool:
        """True if all messages were sent within `timeout` seconds; without a subscription they cannot be."""
        with self._wake:
            self._wake.wait_for(lambda: not (self._messages and self._subscribed), timeout)
            return not self._messages

    def renew(self) -> None:
        """Ends the subscription; another begins at once."""
        self._drop()

    @property
    def subscribed(self) -> bool:
        return self._subscribed

    # ---- events

    def _run_events(self) -> None:
        attempt = 0
        away_since = time.monotonic()
        while not self._closed:
            try:
                self._subscribe()
            except ERRORS as error:
                log.warning("connection to the agent failed: %s", error)
            except Exception as error:  # without this thread the executor receives no events
                log.error("connection to the agent failed: %s", type(error).__name__)
            if self._been_subscribed:
                attempt, away_since = 0, time.monotonic()
                self._been_subscribed, self._ever_subscribed = False, True
            self._drop()
            away = time.monotonic() - away_since
            if self._closed:
                return
            if away > self._patience():
                log.error("the agent is gone, all tasks end after %.1f s", away)
                self._lost()
                return
            limit = min(self._settings.backoff_max, BACKOFF * 2 ** min(attempt, 16))
            attempt += 1
            time.sleep(random.uniform(limit / 2, limit))

    def _patience(self) -> float:
        """Seconds for which the agent may be away."""
        known = self._settings.recovery_timeout if self._settings.checkpoint else 0.0
        return known if self._ever_subscribed else max(FIRST, known)

    def _subscribe(self) -> None:
        """Subscribes and follows the stream. Returns when the agent ends the stream in order; every other end raises
        one of ERRORS."""
        link = self._link()
        try:
            response = link.post(TARGET, self._call("SUBSCRIBE", subscribe=self._updates.subscription()))
            if response.status != 200:
                raise HttpError(f"SUBSCRIBE was answered {response.status}: {_words(response.body(BODY))}")
            link.set_timeout(SILENCE)
            with self._wake:
                self._stream = link
            decoder = Decoder()
            for piece in response.pieces():
                for record in decoder.feed(piece):
                    self._receive(record)
            raise HttpError("the agent has ended the stream")
        finally:
            with self._wake:
                self._stream = None
            link.close()

    def _receive(self, record: bytes) -> None:
        """Handles one event. Events that cannot be used are logged and skipped."""
        try:
            event = json.loads(record)
            kind = event["type"]
            if kind == "SUBSCRIBED":
                self._handler(event)
                with self._wake:
                    self._subscribed = self._been_subscribed = True
                    self._wake.notify_all()
            elif kind == "ACKNOWLEDGED":
                found = event["acknowledged"]
                self._updates.acknowledged(found["task_id"]["value"], found["uuid"])
            elif kind == "ERROR":
                log.error("the agent reports: %s", event.get("error", {}).get("message", ""))
            elif kind != "HEARTBEAT":
                self._handler(event)
        except Exception as error:
            # Without this thread the executor receives no events. The text of the error may quote confidential content.
            log.warning("an event of %d bytes cannot be used: %s", len(record), type(error).__name__)

    def _drop(self) -> None:
        with self._wake:
            self._subscribed = False
            if self._stream is not None:
                self._stream.break_off()
            self._wake.notify_all()

    # ---- calls

    def _run_calls(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._closed or (self._subscribed and self._outgoing()))
                if self._closed:
                    return
                message = self._messages[0] if self._messages else b""
            update = self._updates.next()
            try:
                if update is not None:
                    self._send("UPDATE", update={"status": update[1]})
                    self._updates.sent(update[0])
                else:
                    self._send("MESSAGE", message={"data": base64.b64encode(message).decode()})
                    with self._wake:
                        if self._messages and self._messages[0] is message:
                            self._messages.popleft()
                            self._wake.notify_all()
            except ERRORS as error:
                log.warning("call to the agent failed: %s", error)
                self._drop()
            except Exception as error:  # without this thread the executor sends no calls
                log.error("call to the agent failed: %s", type(error).__name__)
                self._drop()

    def _send(self, kind: str, **content: Any) -> None:
        """Sends a call. Raises one of ERRORS unless the agent accepts the call, or refuses its content, because a
        repeated call would be refused again."""
        body = self._call(kind, **content)
        status, answer = self._post(body)
        if status in (400, 413):
            log.error("the agent refuses a %s with %d: %s", kind, status, _words(answer))
        elif status not in (200, 202):
            raise HttpError(f"{kind} was answered {status}: {_words(answer)}")

    def _post(self, body: bytes) -> tuple[int, bytes]:
        used_before = self._calls is not None
        try:
            self._calls = link = self._calls or self._link()
            response = link.post(TARGET, body)
            answer = response.body(BODY)
        except ERRORS as error:
            self._close_calls()
            # An agent may close a connection that was idle. Both calls may be repeated: updates have ids, and the
            # effect of a message does not change by its repetition.
            if used_before and not isinstance(error, socket.timeout):
                return self._post(body)
            raise
        if not response.stays_open:
            self._close_calls()
        return response.status, answer

    def _close_calls(self) -> None:
        if self._calls is not None:
            self._calls.close()
            self._calls = None

    def _outgoing(self) -> bool:
        return bool(self._messages) or self._updates.next() is not None

    def _link(self) -> Link:
        return Link(self._settings.endpoint, self._settings.domain_socket, self._headers, TIMEOUT)

    def _call(self, kind: str, **content: Any) -> bytes:
        identity = {
            "executor_id": {"value": self._settings.executor},
            "framework_id": {"value": self._settings.framework},
        }
        return json.dumps({"type": kind, **identity, **content}).encode()


def _words(answer: bytes) -> str:
    return answer[:200].decode(errors="replace").strip()
