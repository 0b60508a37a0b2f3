"""Sizes of changes in a batch of the store, computed exactly before anything is written.

A record is encoded once, where its size is asked first: `Sizer.measured` returns the change with its encoding, and the
writer uses that encoding. The bytes that sealing adds are computed without sealing.
"""

from __future__ import annotations

from collections.abc import Sequence

from store.base import BatchTooLarge, Change, RecordTooLarge
from store.encoding.codec import encode_record, room_of
from store.encoding.seal import UNSEALED, Sealer

SMALLEST_LIMIT = 700_000
"""Bytes of a batch of the store that takes least: ZooKeeper."""


class Sizer:
    """Computes sizes against the limit of one store. May be used from any thread."""

    def __init__(self, limit: int = SMALLEST_LIMIT, sealer: Sealer = UNSEALED) -> None:
        """`limit`: bytes that one commit may have (Store.batch_bytes)."""
        self.limit = limit
        self._sealer = sealer

    def sealed_size(self, kind: str, length: int) -> int:
        """Bytes of a record of `length` bytes in the store."""
        return self._sealer.sealed_size(kind, length)

    def measured(self, change: Change) -> tuple[Change, int]:
        """Returns the change with its encoding, and its `size`. A change with an upper bound (`Change.bound`) is not
        encoded, because a later change nearly always replaces it before it is written. Raises RecordUnencodable."""
        kind, key, record, data, bound = change
        if record is None:
            return change, room_of(key, 0)
        if data is None and not bound:
            data = encode_record(change)
            change = Change(kind, key, record, data)
        length = len(data) if data is not None else bound
        return change, room_of(key, self._sealer.sealed_size(kind, length))

    def size(self, change: Change) -> int:
        """Bytes the change takes of a batch; an upper bound for one that has `bound`. Raises RecordUnencodable."""
        kind, key, record, data, bound = change
        if record is None:
            return room_of(key, 0)
        length = len(data) if data is not None else bound or len(encode_record(change))
        return room_of(key, self._sealer.sealed_size(kind, length))

    def refuse_oversized(self, changes: Sequence[Change], reserve: int = 0) -> None:
        """Raises RecordTooLarge if one change does not fit into a batch of which `reserve` bytes are taken, and
        BatchTooLarge if they do not fit together."""
        limit = self.limit - reserve
        sizes = [self.size(change) for change in changes]
        total = sum(sizes)
        if total > limit:
            size, largest = max(zip(sizes, changes, strict=True), key=lambda pair: pair[0])
            if size > limit:
                raise RecordTooLarge(largest.kind, largest.key, size, limit)
            raise BatchTooLarge(largest.kind, largest.key, total, limit, len(changes))
