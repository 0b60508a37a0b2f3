"""A State that is kept equal to a store by a follower: what a standby answers reads from and takes over with.

One thread applies what the follower finds; any thread may read the state meanwhile, as on the leader.
"""

from __future__ import annotations

from store.base import Followed, Quarantined
from store.records import KINDS
from store.state import State


class Replica:
    """The records that a follower has told, with their indexes, and those that cannot be decoded."""

    def __init__(self) -> None:
        self.state = State()
        self.quarantined: dict[tuple[str, str], Quarantined] = {}
        """Records that are stored and cannot be decoded, by kind and key."""

    def apply(self, found: Followed) -> None:
        """Takes over one portion of a read."""
        state = self.state
        broken = {(bad.kind, bad.key): bad for bad in found.quarantined}
        for kind, key, record in found.changes:
            bad = broken.get((kind, key))
            if bad is not None:
                self.quarantined[kind, key] = bad
            elif self.quarantined:
                self.quarantined.pop((kind, key), None)
            if bad is not None and bad.sealed:
                state.kept[kind, key] = bad.error
            elif state.kept:
                state.kept.pop((kind, key), None)
            if kind in KINDS and state.get(kind, key) != record:
                state.apply(kind, key, record)

    def __len__(self) -> int:
        """How many records there are, with those that cannot be decoded."""
        return self.state.size + len(self.quarantined)
