"""The effects of the core, as data: calls to the cluster manager, replies, log lines, counts. An effect leaves after
the changes of its unit are durable, in order."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from store.reasons import EventReason, Level
from store.records import Event, Record
from transactions.base import Refusal


class Effect(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Leaves the core when the unit that it belongs to is durable. `cause`: id of the request; empty = none."""

    cause: str = ""


class Problem(msgspec.Struct, frozen=True):
    """One fault of a request: its place (JSON path) and a message."""

    path: str
    message: str


ErrorReason = Refusal | Literal["internal", "unavailable", "stepped_down"]
"""Codes for failed requests; bcs_scheduler.api.http.errors turns each code into an HTTP status and a BCS code."""


class Reply(Effect, frozen=True, kw_only=True):
    """The answer to a request. `error`: empty on success, else a code (see `Reason`); `message`: a sentence for users;
    `data`: plain data that can be encoded as JSON."""

    token: int
    error: Literal[""] | ErrorReason = ""
    message: str = ""
    problems: tuple[Problem, ...] = ()
    data: Any = None
    not_storable: bool = False
    """True if the request is refused because the store cannot take its changes."""


class Reason:
    """The reasons by name."""

    NOT_FOUND: Final = "not_found"  # 404
    EXISTS: Final = "exists"  # 409
    CONFLICT: Final = "conflict"  # 409: wrong state, another operation runs
    QUOTA: Final = "quota_exceeded"  # 409: the usage of the namespace would exceed its quota
    OPEN: Final = "too_many_open"  # 429: open commands have reached their bound
    INVALID: Final = "invalid"  # 422: the request cannot be honoured as it stands
    INTERNAL: Final = "internal"  # 500: an error of the scheduler itself; nothing was changed
    UNAVAILABLE: Final = "unavailable"  # 503
    STEPPED_DOWN: Final = "stepped_down"  # 504: leadership was lost before the change was durable


class Changed(Effect, frozen=True, kw_only=True):
    """A record that others follow (an endpoint, a deployment) has been changed and is durable. `record` None: the
    record was removed."""

    kind: str
    key: str
    record: Record | None


class Observed(Effect, frozen=True, kw_only=True):
    """An occurrence to be counted. `name`: a metric of bcs_scheduler.observability.metrics. `value`: seconds if the
    metric is a duration, else the number of occurrences."""

    name: str
    labels: tuple[str, ...] = ()
    value: float = 1.0


class LogLine(Effect, frozen=True, kw_only=True):
    """One line about an object, for the log and for events. `kind`/`key` name the record. `transaction`: id of the
    transaction that caused the line, if it is not the one that owns the application; empty otherwise."""

    kind: str
    key: str
    reason: EventReason
    message: str
    level: Level = "info"
    """Level of the line in the log. The event has this level, or a more serious one that the table of reasons names."""
    transaction: str = ""
    public: str = ""
    """Message of the event if `message` is for the log only; empty: the event has the same message."""


class EventsRecorded(Effect, frozen=True, kw_only=True):
    """Events of the event log (bcs_scheduler.core.event_log) that are durable now."""

    events: tuple[Event, ...]
