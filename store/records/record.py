"""The base of every persisted thing.

Records carry `schema`, the version of their layout; store.encoding.codec keeps fields that a newer layout added.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

SCHEMA = 1


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Base of all persisted things. Immutable trees have no cycles, so the garbage collector need not look at them:
    with 100,000s of them each of its full passes would take tenths of a second."""

    kind: ClassVar[str] = ""

    schema: int = SCHEMA
    extra: dict[str, Any] = {}
    """Fields of a newer layout, kept by path (store.encoding.codec); empty for records of our own layout."""

    @property
    def key(self) -> str:
        """Key of the record, unique within its kind. Never empty, and constant for the life of the record."""
        raise NotImplementedError
