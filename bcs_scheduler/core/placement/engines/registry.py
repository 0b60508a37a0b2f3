"""The engines by the name of their policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

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


Engines = Callable[[RolePartition, Around], Engine]
"""Makes the engine of a partition of roles."""


def engines_of_records(turn: TurnContext) -> Engines:
    """Makes engines that follow records."""
    decides = any(part.kind != "simple" for part in turn.options.parts())
    snapshots = Snapshots(turn) if decides else None  # shared, since changes of the pool have one reader

    def engine_of(part: RolePartition, around: Around) -> Engine:
        if part.kind == "simple" or snapshots is None:
            return Simple(turn)
        plain = part.hierarchy is not None
        inputs = Inputs(turn, snapshots, around.launcher, around.promises, around.covers, plain=plain)
        if part.hierarchy is None:
            return Session(turn, around.policy, inputs, around.pauses)
        engine = Hierarchical(turn, part, part.hierarchy, around.covers, around.untried, inputs, around.pauses)
        turn.queues.trees[engine.trees.name] = engine.trees
        return engine

    return engine_of
