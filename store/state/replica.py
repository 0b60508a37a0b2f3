"""A State that is kept equal to a store by a follower. A standby answers reads from this state and takes over with it.

One thread applies the changes that the follower finds; any thread may read the state meanwhile, as on the leader. A
read of the store may end between two units of one turn of the leader. Until the next read finds no further changes,
the records of the last `TURN` seconds before the newest change may lack consequences (`Moment`).

A record that can be decoded and that the indexes of a state cannot take, such as one with a time of 1e306 seconds, is
quarantined like one that cannot be decoded. Otherwise it would end every reading of the store, and so every term.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import islice

from store.base import Change, Followed, Loaded, Quarantined
from store.records import KINDS, Framework, Record
from store.state import State

TURN = 1.0
"""Seconds within which the consequences of a change are recorded; longer ones are shown too early."""
DOUBTS = 1_000
"""Records that are looked at again with every read, at most."""


class Replica:
    """The records that a follower has yielded, with their indexes, and those that cannot be decoded."""

    def __init__(self) -> None:
        self.state = State()
        self.quarantined: dict[tuple[str, str], Quarantined] = {}
        """Records that are stored and cannot be decoded or indexed, by kind and key."""
        self._changed = False
        """The present read of the store has changed the state."""

    @classmethod
    def of(cls, loaded: Loaded) -> Replica:
        """The records of a store that no other process writes."""
        replica = cls()
        changes = [Change(record.kind, record.key, record) for record in loaded.records]
        changes += [Change(bad.kind, bad.key, None) for bad in loaded.quarantined]
        replica.apply(Followed(changes, loaded.quarantined))
        for _ in range(2):  # the second read finds no changes
            replica.read_ended()
        return replica

    def apply(self, found: Followed) -> int:
        """Takes over one portion of a read; returns how many records that has changed."""
        state, changed, newest = self.state, 0, self.state.newest
        failed: dict[tuple[str, str], Record | None] = {}
        broken = {(bad.kind, bad.key): bad for bad in found.quarantined}
        for kind, key, record, *_ in found.changes:
            bad = broken.get((kind, key))
            if bad is not None:
                changed += self.quarantined.get((kind, key)) != bad
                self.quarantined[kind, key] = bad
            elif self.quarantined:
                self.quarantined.pop((kind, key), None)
            if kind in KINDS and state.get(kind, key) != record:
                if not self._changed:
                    self._changed = True
                    state.moment.begin(newest - TURN)
                changed += 1
                try:
                    state.apply(kind, key, record)
                except Exception:
                    failed[kind, key] = record
        if failed:
            self._without(failed, newest)
        return changed

    def read_ended(self) -> None:
        """All portions of a read of the store have been applied."""
        since = self.state.newest - TURN if self._changed else math.inf
        if self._changed or self.state.moment.since < since:
            self.state.moment.settle(since)
        self._changed = False

    def _without(self, failed: Mapping[tuple[str, str], Record | None], newest: float) -> None:
        """Makes the state anew, because changes that failed are half done in it. Each of these records is tried alone:
        the fault of one may have made the change of another fail. `newest`: `State.newest` before these changes."""
        kept = State(record for record in self.state.records() if (record.kind, record.key) not in failed)
        kept.newest = max(kept.newest, newest)
        kept.moment = self.state.moment
        for (kind, key), record in failed.items():
            try:
                State([record] if record is not None else ())
            except Exception as error:
                words = f"the indexes cannot take it: {type(error).__name__}: {error}"
                self.quarantined[kind, key] = Quarantined(kind, key, words)
            else:
                kept.apply(kind, key, record)
        self.state = kept

    def repairable(self) -> list[tuple[str, str]]:
        """Records that an operator may repair past the store: those that cannot be decoded (the first DOUBTS), and the
        framework record if there is none. By kind and key."""
        found = list(islice(self.quarantined, DOUBTS))
        if self.state.get(Framework.kind, Framework.kind) is None:
            found.append((Framework.kind, Framework.kind))
        return found

    def __len__(self) -> int:
        """Number of records, with those that cannot be decoded."""
        return self.state.size + len(self.quarantined)
