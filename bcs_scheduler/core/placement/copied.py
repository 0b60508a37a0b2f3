"""Questions are asked of a copy of the engine that decides: of its snapshots, its trees and its promises.

The records, the offers, the planned launches and the held room are shared: a question only reads them. A request that
supposes other records changes them in its unit of work, and undoes that (docs/decisions/0132-questions-on-copies.md).
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from typing import TypeVar, cast

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.options import RolePartition
from bcs_scheduler.core.placement.aging import AgentHold
from bcs_scheduler.core.placement.engines.simple import Untried
from bcs_scheduler.core.placement.groups import Groups
from bcs_scheduler.core.placement.hierarchy.admission import Admission
from bcs_scheduler.core.placement.hierarchy.asks import Counted
from bcs_scheduler.core.placement.hierarchy.continuation import Continuation
from bcs_scheduler.core.placement.hierarchy.role_tree import RoleTree
from bcs_scheduler.core.placement.hierarchy.trees import Trees
from bcs_scheduler.core.placement.inputs import Inputs
from bcs_scheduler.core.placement.launcher import Launcher
from bcs_scheduler.core.placement.pauses import Pauses
from bcs_scheduler.core.placement.promises import PartitionHolds
from bcs_scheduler.core.placement.records import Records
from bcs_scheduler.core.placement.snapshots.held import Held, HeldTasks
from bcs_scheduler.core.placement.snapshots.pending import Kind, PendingTasks
from bcs_scheduler.core.placement.snapshots.role import Parts, RoleSnapshot
from bcs_scheduler.core.placement.snapshots.set_aside import SetAside
from bcs_scheduler.core.placement.snapshots.snapshots import Snapshots
from offers.ledger.pool import Pool
from offers.ledger.table import Row
from offers.model import Demand, Placement
from offers.policy.copies import Copies, Rules
from offers.policy.hierarchy.copy_rules import TREES
from offers.policy.session.copy_rules import SNAPSHOTS
from offers.policy.session.decisions import PluginFault
from offers.policy.session.memory import Memory
from offers.policy.session.policy import Policy
from store.records import QueueHalt
from store.state import State

T = TypeVar("T")
_SHARED = (
    Admission, Continuation, Counted, Demand, Groups, Held, AgentHold, Kind, Launcher, Memory, Parts, Pauses,
    Placement, PluginFault, Policy, Pool, QueueHalt, Records, RolePartition, Row, SetAside, State, TurnContext,
    Untried,
)  # fmt: skip
PASSES = SNAPSHOTS.joined(TREES).joined(
    Rules(
        (HeldTasks, Inputs, PendingTasks, PartitionHolds, RoleSnapshot, RoleTree, Snapshots, Trees),
        _SHARED,
        # The tasks of an application, and the amounts of an agent, are replaced and not changed in place.
        shallow={HeldTasks: ("_tasks", "used"), RoleTree: ("_tasks",)},
    )
)


def copied(live: T) -> T:
    """A copy of an engine, or of a part of it, for one question. The engine must not change while the copy is used."""
    return Copies(_rules(cast(Hashable, type(live)))).of(live)


@cache
def _rules(kind: Hashable) -> Rules:
    return PASSES.joined(Rules((cast(type, kind),), ()))
