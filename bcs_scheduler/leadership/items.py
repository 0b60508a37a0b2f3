"""The items that the hub hands out, and the reasons for which it ends a watch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from bcs_scheduler.leadership.touches import Touch
from store.records import Event, Record

EVENTS = "event"
"""Kind of the items that are events; those of records have the record's kind."""
TOUCHED = "touched"
"""Kind of the items that name an object whose view may have changed (bcs_scheduler.leadership.touches)."""

Match = Callable[["Item"], bool]
Why = Literal["slow", "stepped_down", "timeout", "revoked", "failed"]


class HubClosed(Exception):
    """The term has ended; another scheduler leads, or will."""


class HubFull(Exception):
    """There are as many watchers as may be."""


class WatchEnded(Exception):
    """The watch has ended. `why` is a stable code, the message is for users."""

    def __init__(self, why: Why, message: str) -> None:
        super().__init__(message)
        self.why: Why = why


class Item:
    """One durable thing: a record as it is now (`value` None: it is gone), a touch, or an event, which has a number."""

    __slots__ = ("_encoded", "key", "kind", "number", "value")

    def __init__(self, kind: str, key: str, value: Record | Event | Touch | None, number: int = 0) -> None:
        self.kind, self.key, self.value, self.number = kind, key, value, number
        self._encoded: dict[Callable[[Item], bytes], bytes] = {}

    def encoded(self, encode: Callable[[Item], bytes]) -> bytes:
        """Returns the result of `encode`, computed only once however many watchers ask: all callers pass the same
        function."""
        found = self._encoded.get(encode)
        if found is None:
            found = self._encoded[encode] = encode(self)
        return found
