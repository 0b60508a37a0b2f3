"""Questions are asked of a copy of the engine that decides: of its snapshots, its trees and its promises.

The records, the offers, the planned launches and the held room are shared: a question only reads them. A request that
supposes other records changes them in its unit of work, and undoes that (docs/decisions/0132-questions-on-copies.md).
"""

from __future__ import annotations

from typing import TypeVar

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.options import RolePartition
from bcs_scheduler.core.placement.aging import AgentHold
from bcs_scheduler.core.placement.engines.set_aside import SetAside
from bcs_scheduler.core.placement.engines.simple import Untried
from bcs_scheduler.core.placement.groups import Groups
from bcs_scheduler.core.placement.hierarchy.admission import Admission
from bcs_scheduler.core.placement.hierarchy.asks import Counted
from bcs_scheduler.core.placement.hierarchy.continuation import Continuation
from bcs_scheduler.core.placement.hierarchy.role_tree import RoleTree
from bcs_scheduler.core.placement.launcher import Launcher
from bcs_scheduler.core.placement.pauses import Pauses
from bcs_scheduler.core.placement.records import Records
from bcs_scheduler.core.placement.snapshots.held import ApplicationTasks, HeldTasks
from bcs_scheduler.core.placement.snapshots.pending import Kind
from bcs_scheduler.core.placement.snapshots.role import Parts
from offers.dimensions import Dimensions
from offers.ledger.pool import Pool
from offers.ledger.table import Row
from offers.model import Demand, Placement
from offers.policy.copies import Copies, Rules
from offers.policy.hierarchy.configuration.partition import Partition, QueueConfig
from offers.policy.hierarchy.explanation import Cause
from offers.policy.hierarchy.placement import Submission
from offers.policy.hierarchy.preemption.promises import Promise, Vacated
from offers.policy.hierarchy.state.application import Alike, Alternative, Application
from offers.policy.hierarchy.state.blocks import Block
from offers.policy.hierarchy.state.columns import Columns
from offers.policy.hierarchy.state.model import Allocation, Ask, Kept, Preemption, Terms
from offers.policy.hierarchy.state.nodes import Node, Running
from offers.policy.hierarchy.state.ordered import Ordered
from offers.policy.hierarchy.state.queue import Queue as TreeQueue
from offers.policy.hierarchy.tree import Tree
from offers.policy.obstacles import Attempt
from offers.policy.session import running
from offers.policy.session.columns import Scored
from offers.policy.session.decisions import PluginFault
from offers.policy.session.memory import Memory
from offers.policy.session.model import Agent, Job, Nomination, Queue, Task, Template
from offers.policy.session.policy import Policy
from offers.policy.session.snapshot import Snapshot
from offers.policy.session.state.templates import Need
from store.records import QueueHalt
from store.state import State

T = TypeVar("T")
PACKAGES = ("bcs_scheduler.core.placement", "offers.policy")
VALUES = (
    Admission, Agent, AgentHold, Alike, Allocation, Alternative, ApplicationTasks, Ask, Attempt, Cause, Continuation,
    Counted, Demand, Dimensions, Groups, Job, Kept, Kind, Launcher, Memory, Need, Nomination, Partition, Parts, Pauses,
    Placement,
    PluginFault, Policy, Pool, Preemption, Promise, Queue, QueueConfig, QueueHalt, Records, RolePartition, Row, Scored,
    SetAside, State, Submission, Task, Template, Terms, TurnContext, Untried, Vacated,
)  # fmt: skip
RULES = Rules(
    PACKAGES,
    VALUES,
    shallow={
        Application: ("allocated", "allocations", "paused_until", "preempted_at", "reserved_at", "reserves"),
        Block: ("keys", "most"),
        Columns: ("allocations", "rows"),
        # The tasks of an application, and the tasks and amounts of an agent, are replaced and not changed in place.
        HeldTasks: ("_tasks", "used"),
        Node: (
            "free", "largest", "lasting", "leaving", "open", "promised", "promises", "reserved", "reserving", "total",
        ),
        Ordered: ("_keys",),
        RoleTree: ("_tasks",),
        running.Running: ("_agents", "_members", "_names", "_number", "jobs", "queues"),
        Snapshot: ("tenants",),
        TreeQueue: ("allocated", "leaving", "pending", "places", "promised", "requests"),
    },
    keyed={Ordered: ("_members",)},
    made={
        Node: {
            **dict.fromkeys(("factors", "key"), lambda _, value: value),  # tuples of numbers and names
            "running": lambda copy, running: [
                Running(order, allocation, copy(leaf)) for order, allocation, leaf in running
            ],
        },
        # A question begins its own work, and ends it.
        Tree: {"behind": lambda *_: None, "halted": lambda *_: {}, "rests": lambda *_: {}},
    },
)  # fmt: skip


def copied(live: T) -> T:
    """A copy of an engine, or of a part of it, for one question. The engine must not change while the copy is used."""
    return Copies(RULES).of(live)
