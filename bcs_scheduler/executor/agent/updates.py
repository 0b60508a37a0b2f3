"""Status updates on their way: kept in order until the agent has acknowledged them (executor HTTP API of Mesos)."""

from __future__ import annotations

import base64
import os
import threading
import time
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass
class _Update:
    uuid: str
    task: str
    status: Json
    sent: bool = False
    """True if the update was sent in the present subscription."""


class Updates:
    """Filled by the taskgroup, emptied by the connection; used by many threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._pending: list[_Update] = []
        self._launched: dict[str, Json] = {}
        """Task infos of tasks of which no update has been acknowledged yet."""
        self._arrived: set[str] = set()
        """All tasks that the agent has ever handed over to this executor."""

    def launched(self, info: Json) -> None:
        with self._changed:
            self._launched[info["task_id"]["value"]] = info
            self._arrived.add(info["task_id"]["value"])

    def add(self, task: str, status: Json) -> None:
        """`status` is a TaskStatus without `task_id`, `source`, `timestamp` and `uuid`. A TASK_RUNNING that has not
        been sent yet is replaced by a newer one: while the agent is away, frequent updates must not fill the memory.

        Raises ValueError for a task that the agent has not handed over yet: an agent that has it still queued, or does
        not know it, fails a CHECK at such an update and dies.
        """
        with self._changed:
            if task not in self._arrived:
                raise ValueError("an update of a task that was not launched here")
            last = next((item for item in reversed(self._pending) if item.task == task), None)
            if last is not None and not last.sent and last.status["state"] == status["state"] == "TASK_RUNNING":
                self._pending.remove(last)
            uuid = base64.b64encode(_random_uuid()).decode()
            status = {"task_id": {"value": task}, "source": "SOURCE_EXECUTOR", "timestamp": time.time(), **status}
            self._pending.append(_Update(uuid, task, {**status, "uuid": uuid}))
            self._changed.notify_all()

    def acknowledged(self, task: str, uuid: str) -> None:
        with self._changed:
            self._launched.pop(task, None)
            self._pending = [item for item in self._pending if item.uuid != uuid]
            self._changed.notify_all()

    def subscription(self) -> Json:
        """The body of a SUBSCRIBE call, which carries all that is pending: none of it is sent again after it."""
        with self._changed:
            for item in self._pending:
                item.sent = True
            return {
                "unacknowledged_tasks": list(self._launched.values()),
                "unacknowledged_updates": [{"status": item.status} for item in self._pending],
            }

    def next(self) -> tuple[str, Json] | None:
        """Uuid and status of the oldest update that was not sent yet."""
        with self._changed:
            return next(((item.uuid, item.status) for item in self._pending if not item.sent), None)

    def sent(self, uuid: str) -> None:
        with self._changed:
            for item in self._pending:
                if item.uuid == uuid:
                    item.sent = True

    def wait_until_empty(self, timeout: float) -> bool:
        """True if all were acknowledged within `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._pending, timeout)


def _random_uuid() -> bytes:
    """Version 4 (RFC 4122); the module uuid is spared for its size in memory."""
    value = bytearray(os.urandom(16))
    value[6] = value[6] & 0x0F | 0x40
    value[8] = value[8] & 0x3F | 0x80
    return bytes(value)
