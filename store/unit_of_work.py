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
from store.state import State

RecordT = TypeVar("RecordT", bound=Record)


class Unit(NamedTuple):
    """Changes applied all or none, and the effects (opaque here) that leave after they are durable."""

    changes: tuple[Change, ...]
    effects: tuple[object, ...]


class UnitOfWork:
    """Collects changes on top of a State. Not thread-safe: it belongs to the thread that owns the state."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._changes: dict[tuple[str, str], Change] = {}
        self._undo: list[tuple[str, str, Record | None]] = []
        self._effects: list[object] = []

    def put(self, record: RecordT) -> RecordT:
        """Stores the record (replacing one of the same key) and returns it. An equal record is no change. Raises
        RecordKept for what lies in the store and cannot be read."""
        kind, key = record.kind, record.key
        if (kind, key) in self.state.kept:
            raise RecordKept(f"{kind} {key} is stored and cannot be read: {self.state.kept[kind, key]}")
        before = self.state.get(kind, key)
        if before == record:
            return record
        self.state.apply(kind, key, record)
        self._undo.append((kind, key, before))
        self._changes[kind, key] = Change(kind, key, record)
        return record

    def overwrite(self, kind: str, key: str, before: Record | None, record: Record) -> None:
        """As `put`, for who knows the record before and that this one differs."""
        self.state.apply(kind, key, record)
        self._undo.append((kind, key, before))
        self._changes[kind, key] = Change(kind, key, record)

    def delete(self, record: Record) -> None:
        kind, key = record.kind, record.key
        before = self.state.apply(kind, key, None)
        if before is not None:
            self._undo.append((kind, key, before))
            self._changes[kind, key] = Change(kind, key, None)

    def effect(self, effect: object) -> None:
        """Lets an effect leave once everything put so far is durable."""
        self._effects.append(effect)

    def __len__(self) -> int:
        """Changes since the last cut."""
        return len(self._changes)

    @property
    def empty(self) -> bool:
        return not self._changes and not self._effects

    def changed(self) -> list[tuple[str, str]]:
        """(kind, key) of everything changed since the last cut, in order of the first change."""
        return list(self._changes)

    @property
    def effects(self) -> Sequence[object]:
        """Effects since the last cut, in order."""
        return self._effects

    def cut(self) -> Unit | None:
        """Closes the unit: what was collected since the last cut, or None if that is nothing."""
        if not self._changes and not self._effects:
            return None
        unit = Unit(tuple(self._changes.values()), tuple(self._effects))
        self._changes.clear()
        self._undo.clear()
        self._effects.clear()
        return unit

    def rollback(self) -> None:
        """Undoes everything since the last cut, in the state too."""
        for kind, key, before in reversed(self._undo):
            self.state.apply(kind, key, before)
        self._changes.clear()
        self._undo.clear()
        self._effects.clear()
