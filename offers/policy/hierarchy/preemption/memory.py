"""Tries in vain that are not repeated before something changes that could make them help.

The result of a search depends on the work below the queue that bounds it, on the usage of the queues of the ask, on the
room of nodes, and on the configuration. Budgets of applications change without a trace in the tree: a result that they
have decided is forgotten after a while.
"""

from __future__ import annotations

from typing import NamedTuple

from offers.policy.hierarchy.configuration.partition import Partition
from offers.policy.hierarchy.state.queue import Queue
from offers.policy.hierarchy.tree import Tree

FORGOTTEN = 15.0
"""Seconds after which a result is forgotten that depends on more than the tree knows."""


class Fruitless(NamedTuple):
    """A try in vain. `top`: the queue below which nothing may change; `changes`: of that queue; `freed`: that of the
    tree, or None if the room of nodes does not matter; `until`: the result is forgotten then, seconds."""

    partition: Partition
    top: Queue
    changes: int
    freed: int | None
    until: float

    def holds(self, tree: Tree, now: float) -> bool:
        """True if another try would be in vain, too. `now`: seconds."""
        return (
            self.partition is tree.partition
            and self.changes == self.top.changes
            and (self.freed is None or self.freed == tree.freed)
            and now < self.until
        )
