"""Changes made in one turn: visible in the state at once (read-your-writes), committed later as atomic units.

The core works through one UnitOfWork per turn. Each handled input, or each few of them, is closed with `cut()`, which
yields a Unit: changes that belong together and the effects that may leave once they are durable. A handler that fails
is undone; nothing of it remains in the state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn, TypeVar

from store.base import Change, RecordUnreadable
from store.encoding.sizes import Sizer
from store.records import Record
from store.state import State

RecordT = TypeVar("RecordT", bound=Record)
Names = TypeVar("Names", bound=tuple[str, ...])

Pair = tuple[str, str]
"""A status and the one that follows it; empty stands for no record."""


class Transitions(NamedTuple):
    """The allowed changes of status, by kind of record. `refuse` is called for a change that no table allows, with the
    state, kind and key of the record, and both statuses; it raises the error."""

    tables: Mapping[str, frozenset[Pair]]
    refuse: Callable[[State, str, str, str, str], NoReturn]


class Savepoint(NamedTuple):
    """A moment of a unit of work: the number of changes and of effects until then."""

    changes: int
    effects: int


class UnitHeld(RuntimeError):
    """A cut within a block whose changes are only tried (`UnitOfWork.held`)."""


class Unit(NamedTuple):
    """Changes applied all or none, and the effects (opaque here) that leave after they are durable."""

    changes: tuple[Change, ...]
    effects: tuple[object, ...]


class UnitOfWork:
    """Collects changes on top of a State. Not thread-safe: it belongs to the thread that owns the state."""

    def __init__(self, state: State, sizer: Sizer | None = None, transitions: Transitions | None = None) -> None:
        """`sizer`: of the store the changes are for; may be set later. `transitions`: the check of changes of status;
        None = they are not checked."""
        self._checked: Mapping[str, frozenset[Pair]] = transitions.tables if transitions is not None else {}
        self._refuse = transitions.refuse if transitions is not None else None
        self.state = state
        self.sizer = sizer or Sizer()
        self._changes: dict[tuple[str, str], Change] = {}
        self._undo: list[tuple[str, str, Record | None]] = []
        self._effects: list[object] = []
        self._unmeasured: list[tuple[str, str]] = []
        self._sizes: dict[tuple[str, str], int] = {}
        self._size = 0
        self._held = 0
        """Number of `held` blocks in progress, one inside the other."""
        self._ends = 0
        """Cuts and rollbacks so far."""

    def put(self, record: RecordT) -> RecordT:
        """Stores the record, replacing one of the same key, and returns it. An equal record is no change. Raises
        RecordUnreadable if the store has an unreadable record of this key."""
        kind, key = record.kind, record.key
        self.check_readable(kind, key)
        before = self.state.get(kind, key)
        if before == record:
            return record
        self.overwrite(kind, key, before, record)
        return record

    def check_readable(self, kind: str, key: str) -> None:
        """Raises RecordUnreadable if the store has an unreadable record of this key, which is not missing then."""
        if self.state.unreadable and (kind, key) in self.state.unreadable:
            raise RecordUnreadable(f"{kind} {key} is stored and cannot be read: {self.state.unreadable[kind, key]}")

    def overwrite(self, kind: str, key: str, before: Record | None, record: Record, bound: int = 0) -> None:
        """Like `put`, but the caller passes the previous record and guarantees that the new one differs. `bound`: see
        `Change.bound`. Raises the errors of `transitions`."""
        if kind in self._checked:
            self._follow(kind, key, before, record)
        name = (kind, key)
        self.state.change(kind, key, before, record)
        self._undo.append((kind, key, before))
        self._changes[name] = Change(kind, key, record, None, bound)
        self._unmeasured.append(name)

    def delete(self, record: Record) -> None:
        """Removes the record of this kind and key; none is no change."""
        kind, key = record.kind, record.key
        if kind in self._checked:
            self._follow(kind, key, self.state.get(kind, key), None)
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
        unmeasured, changes, sizes, measured = self._unmeasured, self._changes, self._sizes, self.sizer.measured
        while unmeasured:
            name = unmeasured[-1]
            changes[name], size = measured(changes[name])
            self._size += size - sizes.get(name, 0)
            sizes[name] = size
            unmeasured.pop()
        return self._size

    def refuse_oversized(self, reserve: int = 0) -> None:
        """Raises RecordTooLarge or BatchTooLarge, which name the largest record, if the changes since the last cut do
        not fit into one batch of the store, of which `reserve` bytes are taken."""
        if self.size() + reserve > self.sizer.limit:
            self.sizer.refuse_oversized(list(self._changes.values()), reserve)

    @property
    def empty(self) -> bool:
        """Returns True if nothing was changed or emitted since the last cut."""
        return not self._changes and not self._effects

    def changed(self) -> list[tuple[str, str]]:
        """(kind, key) of everything changed since the last cut, in order of the first change."""
        return list(self._changes)

    def before(self, since: Savepoint) -> dict[tuple[str, str], Record | None]:
        """The records that were changed since the savepoint, by kind and key, as they were then; None: there was
        none."""
        found: dict[tuple[str, str], Record | None] = {}
        for kind, key, before in self._undo[since.changes :]:
            found.setdefault((kind, key), before)
        return found

    def is_new(self, record: Record) -> bool:
        """True if the record did not exist at the last cut."""
        place = (record.kind, record.key)
        return next((before is None for kind, key, before in self._undo if (kind, key) == place), False)

    @property
    def effects(self) -> Sequence[object]:
        """Effects since the last cut, in order."""
        return self._effects

    def cut(self) -> Unit | None:
        """Closes the unit. Returns everything that was collected since the last cut; None if that is nothing. Raises
        UnitHeld within `held`."""
        if not self._changes and not self._effects:
            return None
        if self._held:
            raise UnitHeld
        unit = Unit(tuple(self._changes.values()), tuple(self._effects))
        self._clear()
        return unit

    def rollback(self) -> None:
        """Undoes everything since the last cut, in the state too."""
        for kind, key, before in reversed(self._undo):
            self.state.apply(kind, key, before)
        self._clear()

    def savepoint(self) -> Savepoint:
        """Returns the present moment for `undo`. A cut or a rollback ends all savepoints."""
        return Savepoint(len(self._undo), len(self._effects))

    def undo(self, to: Savepoint) -> None:
        """Undoes everything since the savepoint, in the state too; earlier changes stay."""
        undone = self._undo[to.changes :]
        for kind, key, before in reversed(undone):
            self.state.apply(kind, key, before)
        del self._undo[to.changes :], self._effects[to.effects :]
        earlier = {(kind, key) for kind, key, _ in self._undo}
        names = dict.fromkeys((kind, key) for kind, key, _ in undone)
        self._unmeasured = [name for name in self._unmeasured if name not in names]
        for name in names:
            if name in earlier:
                self._changes[name] = Change(*name, self.state.get(*name))
                self._unmeasured.append(name)
            else:
                del self._changes[name]
                self._size -= self._sizes.pop(name, 0)

    def each(
        self, objects: Iterable[Names], work: Callable[..., object], failed: Callable[[Names, Exception], None]
    ) -> None:
        """Calls `work` with the names of each object. An error undoes the changes that the work for this object has
        made since the last cut, and is passed to `failed`; the other objects follow. Costs little beside the work: no
        savepoint is made, only its numbers are."""
        changes, effects = self._undo, self._effects
        for names in objects:
            point, emitted, ends = len(changes), len(effects), self._ends
            try:
                work(*names)
            except Exception as error:
                self.undo(Savepoint(point, emitted) if self._ends == ends else Savepoint(0, 0))
                failed(names, error)

    @contextmanager
    def held(self) -> Iterator[None]:
        """A block whose changes are only tried: they are undone at the end, and a cut within the block is refused. The
        changes before the block must have been cut."""
        self._held += 1
        try:
            yield
        finally:
            self.rollback()
            self._held -= 1

    def _follow(self, kind: str, key: str, before: Any, after: Any) -> None:
        """Refuses a change of status that the table of the kind does not allow."""
        was = before.status if before is not None else ""
        now = after.status if after is not None else ""
        if was != now and (was, now) not in self._checked[kind] and self._refuse is not None:
            self._refuse(self.state, kind, key, was, now)

    def _clear(self) -> None:
        self._ends += 1
        self._changes.clear()
        self._undo.clear()
        self._effects.clear()
        self._unmeasured.clear()
        self._sizes.clear()
        self._size = 0
