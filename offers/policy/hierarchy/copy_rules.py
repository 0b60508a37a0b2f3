"""The parts of a tree in a copy for a question (offers.policy.copies)."""

from __future__ import annotations

from offers.policy.copies import Rules
from offers.policy.hierarchy.configuration.partition import Partition, QueueConfig
from offers.policy.hierarchy.explanation import Cause
from offers.policy.hierarchy.gangs import Attempts
from offers.policy.hierarchy.placement import Refusal, Submission
from offers.policy.hierarchy.preemption.promises import Promise, Vacated
from offers.policy.hierarchy.state.application import Alike, Alternative, Application, Group, RequestClass
from offers.policy.hierarchy.state.blocks import Blocks, _Block
from offers.policy.hierarchy.state.columns import Columns, Numbers
from offers.policy.hierarchy.state.limits import Tracker, Trackers
from offers.policy.hierarchy.state.model import Allocation, Ask, Kept, Preemption, Terms
from offers.policy.hierarchy.state.nodes import Closings, Node, Nodes, Running
from offers.policy.hierarchy.state.ordered import Greatest, Ordered
from offers.policy.hierarchy.state.queue import Queue
from offers.policy.hierarchy.state.waiting import Waiting
from offers.policy.hierarchy.tree import Tree
from offers.policy.obstacles import Attempt

STRUCTURES = (
    Application, Attempts, Blocks, Closings, Columns, Greatest, Group, Node, Nodes, Numbers, Ordered, Queue,
    RequestClass, Tracker, Trackers, Tree, Waiting, _Block,
)  # fmt: skip
VALUES = (
    Alike, Allocation, Alternative, Ask, Attempt, Cause, Kept, Partition, Preemption, Promise, QueueConfig, Refusal,
    Submission, Terms, Vacated,
)  # fmt: skip
TREES = Rules(
    STRUCTURES,
    VALUES,
    shallow={
        Application: ("allocated", "allocations", "paused_until", "preempted_at", "reserved_at", "reserves"),
        Columns: ("allocations", "rows"),
        Node: (
            "free",
            "largest",
            "lasting",
            "leaving",
            "open",
            "promised",
            "promises",
            "reserved",
            "reserving",
            "total",
        ),
        Ordered: ("_keys",),
        Queue: ("allocated", "leaving", "pending", "places", "promised", "requests"),
        _Block: ("keys", "most"),
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
)
