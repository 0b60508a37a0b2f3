"""Versions of stored objects: two users who edit the same object do not overwrite each other's changes unnoticed.

A request that names a version is refused if that is not the present one. A version is the time of the last change, so
it needs no field of its own, is the same for every scheduler, and reveals nothing about the content of a secret.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from store.records import ConfigMap, CustomObject, Namespace, PodGroup, PriorityClass, Queue, Secret, Service, Webhook
from transactions.base import Refused

Kept = ConfigMap | Secret | Service | Namespace | PodGroup | PriorityClass | Queue | Webhook | CustomObject
R = TypeVar("R", ConfigMap, Secret, Service, Namespace, PodGroup, PriorityClass, Queue, Webhook, CustomObject)
STEP = 1e-6
"""Least difference in seconds between the times of two changes of an object. Several changes may come in one turn, at
one time of the clock."""


def version_of(record: Kept) -> str:
    """Returns the version of the record: digits, with a greater value after every change."""
    # Present Unix times as floats are 2.4e-7 s apart, so seven digits distinguish any two of them.
    return f"{record.updated_at:.7f}".replace(".", "")


def revised(record: R, before: R | None, expected: str, shown: str, now: float) -> R | None:
    """Returns the record with its times; None if the stored record has the same content. `before`: the stored record;
    None: there is none, and any `expected` is accepted. `expected`: the resource version that is to be replaced, "" =
    any. `shown`: the object in messages. `now`: Unix seconds. Raises Refused (conflict)."""
    if before is None:
        return msgspec.structs.replace(record, created_at=now, updated_at=now)
    present = version_of(before)
    if expected not in ("", present):
        raise Refused(
            "conflict",
            f"{shown} has been changed: its resourceVersion is {present}, not {expected[:40]}; "
            "read the object again, or leave out resourceVersion to replace any version",
            "$.metadata.resourceVersion",
        )
    record = msgspec.structs.replace(record, created_at=before.created_at, updated_at=before.updated_at)
    if record == before:
        return None
    return msgspec.structs.replace(record, updated_at=max(now, before.updated_at + STEP))
