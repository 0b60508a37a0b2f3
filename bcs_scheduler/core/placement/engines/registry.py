"""The engines by the name of their policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.options import RolePartition
from bcs_scheduler.core.placement.engines.engine import Engine
from bcs_scheduler.core.placement.engines.hierarchical import Hierarchical
from bcs_scheduler.core.placement.engines.session import Session
from bcs_scheduler.core.placement.engines.simple import Simple, Untried
from bcs_scheduler.core.placement.groups import Groups
from bcs_scheduler.core.placement.inputs import Inputs
from bcs_scheduler.core.placement.launcher import Launcher
from bcs_scheduler.core.placement.pauses import Pauses
from bcs_scheduler.core.placement.promises import PartitionHolds
from bcs_scheduler.core.placement.snapshots.snapshots import Snapshots
from offers.policy.session.policy import Policy


class Around(NamedTuple):
    """The parts of a loop that its engine uses. `covers`: the roles of the partition."""

    policy: Policy
    covers: Callable[[str], bool]
    launcher: Launcher
    groups: Groups
    untried: Untried
    promises: PartitionHolds
    pauses: Pauses


class Engines(Protocol):
    """Makes the engines of all partitions."""

    def __call__(self, part: RolePartition, around: Around) -> Engine:
        """The engine of a partition of roles."""


class EnginesOfRecords:
    """Makes engines that follow records."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn
        decides = any(part.kind != "simple" for part in turn.options.parts())
        self._snapshots = Snapshots(turn) if decides else None
        """Shared by all partitions, since changes of the pool have one reader."""

    def __call__(self, part: RolePartition, around: Around) -> Engine:
        """See `Engines`."""
        turn, snapshots = self._turn, self._snapshots
        if part.kind == "simple" or snapshots is None:
            return Simple(turn)
        plain = part.hierarchy is not None
        inputs = Inputs(turn, snapshots, around.launcher, around.promises, around.covers, plain=plain)
        if part.hierarchy is not None:
            engine = Hierarchical(turn, part, part.hierarchy, around.covers, around.untried, inputs, around.pauses)
            turn.queues.trees[engine.trees.name] = engine.trees
            return engine
        return Session(turn, around.policy, around.groups, inputs, around.pauses)
