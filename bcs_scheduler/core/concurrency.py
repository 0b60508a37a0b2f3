"""Versions of objects that are kept as their documents say: two who edit the same one do not overwrite each other
unseen. Whoever hands in the version they have read is refused if it is not the present one any more.

A version is the moment of the last change, so it needs no field of its own, is the same for every scheduler, and says
nothing about what a secret holds.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from store.records import ConfigMap, CustomObject, Namespace, Secret, Service, Webhook
from transactions.base import Refused

Kept = ConfigMap | Secret | Service | Namespace | Webhook | CustomObject
R = TypeVar("R", ConfigMap, Secret, Service, Namespace, Webhook, CustomObject)
STEP = 1e-6
"""Seconds that two changes of an object are apart at least, whatever the clock says: several may come in one turn."""


def version_of(record: Kept) -> str:
    """Another one after every change, and greater; digits alone."""
    # Floats of our days are 2.4e-7 s apart, so seven digits tell any two of them apart.
    return f"{record.updated_at:.7f}".replace(".", "")


def revised(record: R, before: R | None, expected: str, shown: str, now: float) -> R | None:
    """The record with its times; None if it says what is there already. `expected`: the version that is to be
    replaced, "" = any; what is not there is not overwritten, so any will do. `shown`: the object in words. Raises
    Refused (conflict)."""
    if before is None:
        return msgspec.structs.replace(record, created_at=now, updated_at=now)
    present = version_of(before)
    if expected not in ("", present):
        raise Refused(
            "conflict",
            f"{shown} has been changed: its resourceVersion is {present}, not {expected[:40]}; "
            "read it again, or leave resourceVersion out to replace it whatever it is",
            "$.metadata.resourceVersion",
        )
    record = msgspec.structs.replace(record, created_at=before.created_at, updated_at=before.updated_at)
    if record == before:
        return None
    return msgspec.structs.replace(record, updated_at=max(now, before.updated_at + STEP))
