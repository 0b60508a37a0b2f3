"""Questions are asked of a copy of the pass that decides: of its snapshots, its trees and its promises.

The records, the offers, the planned launches and the held room are shared: a question only reads them. A request that
supposes other records changes them in its unit of work, and undoes that (docs/decisions/0132-questions-on-copies.md).
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from typing import TypeVar, cast

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.options import RolePartition
from bcs_scheduler.core.placement.aging import Aging, KeptRoom
from bcs_scheduler.core.placement.groups import Groups
from bcs_scheduler.core.placement.hierarchy.admission import Admission
from bcs_scheduler.core.placement.hierarchy.asks import Counted
from bcs_scheduler.core.placement.hierarchy.continuation import Continuation
from bcs_scheduler.core.placement.hierarchy.role_tree import RoleTree
from bcs_scheduler.core.placement.hierarchy.trees import Trees
from bcs_scheduler.core.placement.launcher import Launcher
from bcs_scheduler.core.placement.pauses import Pauses
from bcs_scheduler.core.placement.sessions.held import Held, HeldTasks
from bcs_scheduler.core.placement.sessions.pending import Kind, PendingTasks
from bcs_scheduler.core.placement.sessions.role import Parts, RoleSnapshot
from bcs_scheduler.core.placement.sessions.rooms import LeavingRooms
from bcs_scheduler.core.placement.sessions.set_aside import SetAside
from bcs_scheduler.core.placement.sessions.snapshots import Snapshots
from bcs_scheduler.core.placement.spreading import Spreading
from bcs_scheduler.core.time_budget import TimeBudget, UnlimitedTime
from offers.ledger.pool import Pool
from offers.ledger.table import Row
from offers.model import DecidedBy, Demand, GroupGap, HeldBack, Placement
from offers.policy.copies import Copies, Rules
from offers.policy.hierarchy.copied import TREES
from offers.policy.session.configuration.policy import Policy
from offers.policy.session.copied import SNAPSHOTS
from offers.policy.session.decisions import Later
from offers.policy.session.memory import Memory
from store.records import QueueHalt
from store.state import State
from transactions.engine.fair import FairQueue

T = TypeVar("T")
_SHARED = (
    Admission, Aging, Continuation, Counted, DecidedBy, Demand, FairQueue, GroupGap, Groups, Held, HeldBack, KeptRoom,
    Kind, Later, Launcher, Memory, Parts, Pauses, Placement, Policy, Pool, QueueHalt, RolePartition, Row,
    SetAside, Spreading, State, TimeBudget, TurnContext, UnlimitedTime,
)  # fmt: skip
PASSES = SNAPSHOTS.joined(TREES).joined(
    Rules(
        (HeldTasks, LeavingRooms, PendingTasks, RoleSnapshot, RoleTree, Snapshots, Trees),
        _SHARED,
        # The tasks of an application, and the amounts of an agent, are replaced and not changed in place.
        shallow={HeldTasks: ("_tasks", "_templates", "used"), RoleTree: ("_tasks",)},
    )
)


def copied(live: T) -> T:
    """A copy of a pass, or of a part of it, for one question. The pass must not change while the copy is used."""
    return Copies(_rules(cast(Hashable, type(live)))).of(live)


@cache
def _rules(kind: Hashable) -> Rules:
    structure = cast(type, kind)
    # The time of the turn has many forms; a question does not look at it.
    return PASSES.joined(Rules((structure,), (), made={structure: {"_pace": lambda _, pace: pace}}))
