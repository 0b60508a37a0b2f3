"""Objects that requests only store: checks, changes and events that are alike for all their kinds."""

from __future__ import annotations

import msgspec

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.requests.concurrency import Kept, R, revised
from store.reasons import KEPT
from store.records import Record
from transactions.base import Refused


def check_existence(shown: str, exists: bool, create: bool | None) -> None:
    """Raises Refused (exists, not_found) if the object must not exist (`create` True), or must exist (False), and the
    opposite is true; None: either is accepted. `shown`: the object in messages."""
    if create is True and exists:
        raise Refused("exists", f"{shown} exists already", "$.metadata.name")
    if create is False and not exists:
        raise Refused("not_found", f"{shown} does not exist", "$.metadata.name")


def check_size(shown: str, record: Record, limit: int) -> None:
    """Raises Refused (invalid) if the record has more than `limit` bytes as JSON. `shown`: the object in messages."""
    size = len(msgspec.json.encode(record))
    if size > limit:
        raise Refused("invalid", f"{shown} has {size} bytes, of {limit} allowed", "$")


def put(turn: TurnContext, wanted: R, before: R | None, expected: str, shown: str, words: str) -> R | None:
    """Stores the object with an event of the message `words`, and returns the stored record; None if the stored object
    has the same content. The arguments `before`, `expected` and `shown` are those of `revised`. Raises Refused
    (conflict)."""
    record = revised(wanted, before, expected, shown, turn.now)
    if record is None:
        return None
    turn.uow.put(record)
    created, updated, _ = KEPT[record.kind]
    turn.record_event(record.kind, record.key, created if before is None else updated, words)
    return record


def delete(turn: TurnContext, record: Kept, words: str = "") -> None:
    """Removes the object, with an event of the message `words`."""
    turn.uow.delete(record)
    turn.record_event(record.kind, record.key, KEPT[record.kind][2], words)
