"""A State that is kept equal to a store by a follower. A standby answers reads from this state and takes over with it.

One thread applies the changes that the follower finds; any thread may read the state meanwhile, as on the leader.
"""

from __future__ import annotations

from itertools import islice

from store.base import Followed, Quarantined
from store.records import KINDS, Framework
from store.state import State

DOUBTS = 1_000
"""Records that are looked at again with every read, at most."""


class Replica:
    """The records that a follower has yielded, with their indexes, and those that cannot be decoded."""

    def __init__(self) -> None:
        self.state = State()
        self.quarantined: dict[tuple[str, str], Quarantined] = {}
        """Records that are stored and cannot be decoded, by kind and key."""

    def apply(self, found: Followed) -> int:
        """Takes over one portion of a read; returns how many records that has changed."""
        state, changed = self.state, 0
        broken = {(bad.kind, bad.key): bad for bad in found.quarantined}
        for kind, key, record, *_ in found.changes:
            bad = broken.get((kind, key))
            if bad is not None:
                changed += self.quarantined.get((kind, key)) != bad
                self.quarantined[kind, key] = bad
            elif self.quarantined:
                self.quarantined.pop((kind, key), None)
            if kind in KINDS and state.get(kind, key) != record:
                state.apply(kind, key, record)
                changed += 1
        return changed

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
