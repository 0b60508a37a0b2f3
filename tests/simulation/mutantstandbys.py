"""Faults of standbys, put in on purpose (see tests.simulation.mutants)."""

from __future__ import annotations

import pytest

from store.base import Followed
from store.state.replica import Replica


def keep_the_removed(patch: pytest.MonkeyPatch) -> None:
    """Records that do not exist any more stay in the state of a standby."""
    honest = Replica.apply

    def careless(self: Replica, found: Followed) -> int:
        return honest(self, found._replace(changes=[change for change in found.changes if change.record is not None]))

    patch.setattr(Replica, "apply", careless)


def keep_the_first(patch: pytest.MonkeyPatch) -> None:
    """A record that a standby knows is not replaced by what has become of it."""
    honest = Replica.apply

    def careless(self: Replica, found: Followed) -> int:
        new = [c for c in found.changes if c.record is None or self.state.get(c.kind, c.key) is None]
        return honest(self, found._replace(changes=new))

    patch.setattr(Replica, "apply", careless)
