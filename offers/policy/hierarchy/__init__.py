"""Hierarchical queues: one allocation after the other, chosen from the top of a tree of queues downwards.

The rules are those of YuniKorn's core; decision 44 says where they differ. Everything here is pure: the caller gives
the time, and carries out the decisions. A runtime uses one tree per partition, from one thread:

    partition = partition_of(document, resources)     # raises BadQueues, with every problem and its path
    tree = Tree(partition, nodes, admits)             # `admits` judges constraints of asks on nodes
    application = place(tree, name, now, Submission(user, groups, queue, tags))   # raises NotPlaced
    tree.ask(Ask(name, task, request, now, priority, constraint=template))        # one per task that is wanted
    tree.recover(Allocation(ask, node))               # at a start: each running task, before the first cycle

    for allocation in tree.run(): ...                 # launch each on its node; it counts as used from now on
    for preemption in maintain(tree, now).preemptions: ...   # end the victims; the node is promised to the ask
    tree.release(name, task)                          # an allocation has ended, or its launch has failed
    tree.withdraw(name, task)                         # a pending task is no longer wanted
    finish(tree, name)                                # the application has ended

`run` is called after every change that may give room: new asks, releases, nodes. `maintain` is called about once a
second, after `run`. A victim keeps its room until `release`; then `run` places the ask on the promised node before
anything else. `cause_of` says why an ask waits. Nodes change by `add_node`, `set_nodes`, `remove_node`,
`set_schedulable`, `occupy`, `occupy_anew` (use by others) and `node_changed` (attributes).

A new configuration is tried by `trial`, which changes nothing, and carried out by `apply`. Both refuse a configuration
that does not suit the existing applications (CannotChange). `copied` gives a tree for a dry run.
"""

from __future__ import annotations

from offers.policy.hierarchy.changes.applying import CannotChange, apply
from offers.policy.hierarchy.changes.copying import Captured, Steps, captured, copied, recounted
from offers.policy.hierarchy.changes.trial import Trial, Victim, Wait, trial, trying
from offers.policy.hierarchy.cluster import (
    add_node,
    conditions_changed,
    node_changed,
    occupy,
    occupy_anew,
    remove_node,
    set_nodes,
    set_schedulable,
)
from offers.policy.hierarchy.configuration.document import partition_of
from offers.policy.hierarchy.configuration.fields import BadQueues, Problem
from offers.policy.hierarchy.configuration.partition import Partition
from offers.policy.hierarchy.explanation import Cause, cause_in_queues, cause_of
from offers.policy.hierarchy.gangs.attempts import Attempts
from offers.policy.hierarchy.gangs.bound import most_that_fit
from offers.policy.hierarchy.maintenance import Maintenance, keep, maintain, spare
from offers.policy.hierarchy.placement import NotPlaced, Refusal, Submission, may_administrate, may_submit
from offers.policy.hierarchy.preemption.promises import (
    Promise,
    Vacated,
    hand_over,
    promise_again,
    promises,
    promises_to,
    regain,
)
from offers.policy.hierarchy.queues import finish, place
from offers.policy.hierarchy.state.application import Application
from offers.policy.hierarchy.state.model import Allocation, Ask, Preemption
from offers.policy.hierarchy.state.queue import Queue, QueueState
from offers.policy.hierarchy.steps import recover_all, rename, withdraw_all
from offers.policy.hierarchy.tree import Tree
from offers.policy.holds import Hold

__all__ = [
    "Allocation",
    "Application",
    "Ask",
    "Attempts",
    "BadQueues",
    "CannotChange",
    "Captured",
    "Cause",
    "Hold",
    "Maintenance",
    "NotPlaced",
    "Partition",
    "Preemption",
    "Problem",
    "Promise",
    "Queue",
    "QueueState",
    "Refusal",
    "Steps",
    "Submission",
    "Tree",
    "Trial",
    "Vacated",
    "Victim",
    "Wait",
    "add_node",
    "apply",
    "captured",
    "cause_in_queues",
    "cause_of",
    "conditions_changed",
    "copied",
    "finish",
    "hand_over",
    "keep",
    "maintain",
    "may_administrate",
    "may_submit",
    "most_that_fit",
    "node_changed",
    "occupy",
    "occupy_anew",
    "partition_of",
    "place",
    "promise_again",
    "promises",
    "promises_to",
    "recounted",
    "recover_all",
    "regain",
    "remove_node",
    "rename",
    "set_nodes",
    "set_schedulable",
    "spare",
    "trial",
    "trying",
    "withdraw_all",
]
