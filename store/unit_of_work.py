"""Changes made in one turn: visible in the state at once (read-your-writes), committed later as atomic units.

The core works through one UnitOfWork per turn. Each handled event is closed with `cut()`, which yields a Unit: changes
that belong together and the effects that may leave once they are durable. A handler that fails is undone with
`rollback()`; nothing of it remains in the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from store.base import Change, RecordKept
from store.records import Record
from store.sizes import Sizer
from store.state import State

RecordT = TypeVar("RecordT", bound=Record)


class Unit(NamedTuple):
    """Changes applied all or none, and the effects (opaque here) that leave after they are durable."""

    changes: tuple[Change, ...]
    effects: tuple[object, ...]


class UnitOfWork:
    """Collects changes on top of a State. Not thread-safe: it belongs to the thread that owns the state."""

    def __init__(self, state: State, sizer: Sizer | None = None) -> None:
        """`sizer`: of the store the changes are for; may be set later."""
        self.state = state
        self.sizer = sizer or Sizer()
        self._changes: dict[tuple[str, str], Change] = {}
        self._undo: list[tuple[str, str, Record | None]] = []
        self._effects: list[object] = []
        self._unmeasured: list[tuple[str, str]] = []
        self._sizes: dict[tuple[str, str], int] = {}
        self._size = 0

    def put(self, record: RecordT) -> RecordT:
        """Stores the record (replacing one of the same key) and returns it. An equal record is no change. Raises
        RecordKept for what lies in the store and cannot be read."""
        kind, key = record.kind, record.key
        if (kind, key) in self.state.kept:
            raise RecordKept(f"{kind} {key} is stored and cannot be read: {self.state.kept[kind, key]}")
        before = self.state.get(kind, key)
        if before == record:
            return record
        self.overwrite(kind, key, before, record)
        return record

    def overwrite(self, kind: str, key: str, before: Record | None, record: Record, bound: int = 0) -> None:
        """As `put`, for who knows the record before and that this one differs. `bound`: as in Change."""
        self.state.apply(kind, key, record)
        self._undo.append((kind, key, before))
        self._changes[kind, key] = Change(kind, key, record, None, bound)
        self._unmeasured.append((kind, key))

    def delete(self, record: Record) -> None:
        kind, key = record.kind, record.key
        before = self.state.apply(kind, key, None)
        if before is not None:
            self._undo.append((kind, key, before))
            self._changes[kind, key] = Change(kind, key, None)
            self._unmeasured.append((kind, key))

    def effect(self, effect: object) -> None:
        """Lets an effect leave once everything put so far is durable."""
        self._effects.append(effect)

    def __len__(self) -> int:
        """Changes since the last cut."""
        return len(self._changes)

    def size(self) -> int:
        """Bytes that the changes since the last cut take of the store's batch. Each record is encoded once for this and
        for the store, unless it changes again. Raises RecordUnencodable."""
        while self._unmeasured:
            name = self._unmeasured[-1]
            change = self._changes[name] = self.sizer.encoded(self._changes[name])
            size = self.sizer.size(change)
            self._size += size - self._sizes.get(name, 0)
            self._sizes[name] = size
            self._unmeasured.pop()
        return self._size

    def refuse_oversized(self, reserve: int = 0) -> None:
        """Raises RecordTooLarge or BatchTooLarge, which name what is too large, if the changes since the last cut do
        not fit into one batch of the store, of which `reserve` bytes are taken."""
        if self.size() + reserve > self.sizer.limit:
            self.sizer.refuse_oversized(list(self._changes.values()), reserve)

    @property
    def empty(self) -> bool:
        return not self._changes and not self._effects

    def changed(self) -> list[tuple[str, str]]:
        """(kind, key) of everything changed since the last cut, in order of the first change."""
        return list(self._changes)

    def is_new(self, record: Record) -> bool:
        """Whether the record did not exist at the last cut."""
        place = (record.kind, record.key)
        return next((before is None for kind, key, before in self._undo if (kind, key) == place), False)

    @property
    def effects(self) -> Sequence[object]:
        """Effects since the last cut, in order."""
        return self._effects

    def cut(self) -> Unit | None:
        """Closes the unit: what was collected since the last cut, or None if that is nothing."""
        if not self._changes and not self._effects:
            return None
        unit = Unit(tuple(self._changes.values()), tuple(self._effects))
        self._clear()
        return unit

    def rollback(self) -> None:
        """Undoes everything since the last cut, in the state too."""
        for kind, key, before in reversed(self._undo):
            self.state.apply(kind, key, before)
        self._clear()

    def _clear(self) -> None:
        self._changes.clear()
        self._undo.clear()
        self._effects.clear()
        self._unmeasured.clear()
        self._sizes.clear()
        self._size = 0
