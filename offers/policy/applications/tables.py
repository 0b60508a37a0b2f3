"""The tables of allowed changes of state, one per kind of object of the manager's side.

States and events have the names of Apache YuniKorn, so that its documentation applies. An application has two
machines: one for the decisions about its room (`CORE_APPLICATION`), one for its life towards the manager that brought
the application (`APPLICATION`). docs/decisions/0045-application-managers.md says who sends which event.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from offers.policy.applications.machines import Table


class CoreState(StrEnum):
    """States of an application towards its queue."""

    NEW = "New"
    ACCEPTED = "Accepted"
    RUNNING = "Running"
    RESUMING = "Resuming"
    COMPLETING = "Completing"
    COMPLETED = "Completed"
    FAILING = "Failing"
    FAILED = "Failed"
    REJECTED = "Rejected"
    EXPIRED = "Expired"


CORE_APPLICATION = Table(
    "application in its queue",
    CoreState.NEW,
    [
        ("reject", "New", "Rejected"),
        ("run", "New Resuming", "Accepted"),
        ("run", "Accepted Running Completing", "Running"),
        ("complete", "Accepted Running", "Completing"),
        ("complete", "Completing", "Completed"),
        ("fail", "New Accepted Running", "Failing"),
        ("fail", "Failing", "Failed"),
        ("resume", "New Accepted", "Resuming"),
        ("expire", "Completed Failed Rejected", "Expired"),
    ],
)
"""An application that completes may run again when another ask arrives. One whose gang did not come together resumes
as an ordinary one (Soft), or fails (Hard)."""


class AppState(StrEnum):
    """States of an application towards its manager."""

    NEW = "New"
    SUBMITTED = "Submitted"
    RECOVERING = "Recovering"
    ACCEPTED = "Accepted"
    RESERVING = "Reserving"
    RESUMING = "Resuming"
    RUNNING = "Running"
    COMPLETED = "Completed"
    REJECTED = "Rejected"
    FAILING = "Failing"
    FAILED = "Failed"
    KILLING = "Killing"
    KILLED = "Killed"


UNDECIDED = (AppState.NEW, AppState.SUBMITTED, AppState.RECOVERING, AppState.ACCEPTED, AppState.RESERVING)
"""States of an application before its tasks may start."""

APPLICATION = Table(
    "application",
    AppState.NEW,
    [
        ("Submit", "New", "Submitted"),
        ("Recover", "New", "Recovering"),
        ("Accept", "Submitted Recovering", "Accepted"),
        ("TryReserve", "Accepted", "Reserving"),
        ("UpdateReservation", "Reserving", ""),
        ("Resuming", "Reserving", "Resuming"),
        ("AppTaskCompleted", "Resuming", ""),
        ("Run", "Accepted Reserving Resuming Running", "Running"),
        ("ReleaseAllocation", "Running Failing Resuming Accepted Reserving", ""),
        ("ReleaseAsk", "Running Accepted Reserving", "Running"),
        ("ReleaseAsk", "Failing Resuming", ""),
        ("Complete", "Running", "Completed"),
        ("Reject", "Submitted Recovering", "Rejected"),
        ("Fail", "Submitted Accepted Running Reserving", "Failing"),
        ("Fail", "Failing Rejected", "Failed"),
        ("Kill", "Accepted Running Reserving", "Killing"),
        ("Killed", "Killing", "Killed"),
    ],
)
"""An allocation may be released before the application runs, because placeholders are allocations."""


class TaskState(StrEnum):
    """States of a task of an application."""

    NEW = "New"
    PENDING = "Pending"
    SCHEDULING = "Scheduling"
    ALLOCATED = "Allocated"
    BOUND = "Bound"
    COMPLETED = "Completed"
    KILLING = "Killing"
    KILLED = "Killed"
    REJECTED = "Rejected"
    FAILED = "Failed"


TASK = Table(
    "task",
    TaskState.NEW,
    [
        ("InitTask", "New", "Pending"),
        ("SubmitTask", "Pending", "Scheduling"),
        ("TaskAllocated", "Scheduling", "Allocated"),
        ("TaskAllocated", "Completed", ""),
        ("TaskBound", "Allocated", "Bound"),
        ("TaskReturned", "Allocated Bound", "Scheduling"),
        ("CompleteTask", " ".join(TaskState), "Completed"),
        ("KillTask", "Pending Scheduling Allocated Bound", "Killing"),
        ("TaskKilled", "Killing", "Killed"),
        ("TaskRejected", "New Pending Scheduling", "Rejected"),
        ("TaskFail", "Rejected Allocated", "Failed"),
    ],
)
"""A task may end at any time, because its end is a fact and not a request. An allocation for a completed task is
released again at once. A task whose launch did not happen is returned: its allocation is released, and the task asks
again."""

TERMINATED = frozenset({TaskState.REJECTED, TaskState.KILLED, TaskState.FAILED, TaskState.COMPLETED})
"""States of tasks that do not keep their application from being removed."""


class NodeState(StrEnum):
    """States of a node towards the policy engine."""

    NEW = "New"
    RECOVERING = "Recovering"
    ACCEPTED = "Accepted"
    HEALTHY = "Healthy"
    REJECTED = "Rejected"
    DRAINING = "Draining"


NODE = Table(
    "node",
    NodeState.NEW,
    [
        ("RecoverNode", "New", "Recovering"),
        ("NodeAccepted", "Recovering", "Accepted"),
        ("NodeReady", "Accepted", "Healthy"),
        ("NodeRejected", "New Recovering", "Rejected"),
        ("DrainNode", "Healthy Accepted", "Draining"),
        ("RestoreNode", "Draining", "Healthy"),
    ],
)
"""Recovery ends when each node is Healthy, Draining or Rejected."""

QUEUE = Table(
    "queue",
    "Active",
    [
        ("Remove", "Active Stopped Draining", "Draining"),
        ("Start", "Active Stopped Draining", "Active"),
        ("Stop", "Active Stopped", "Stopped"),
    ],
)
"""A queue that the configuration no longer has drains until it is empty. A queue that comes back is active again. The
states are those of `offers.policy.hierarchy.state.queue.QueueState`."""


class PlaceholderState(StrEnum):
    """States of a placeholder. Asked: waits for a node; Allocated: has a node and is being created; Bound: exists and
    holds its room; Releasing: its removal is requested; Gone: its removal is confirmed."""

    ASKED = "Asked"
    ALLOCATED = "Allocated"
    BOUND = "Bound"
    RELEASING = "Releasing"
    GONE = "Gone"


PLACEHOLDER = Table(
    "placeholder",
    PlaceholderState.ASKED,
    [
        ("Allocate", "Asked", "Allocated"),
        ("Bind", "Allocated", "Bound"),
        ("Bind", "Releasing", ""),
        ("Lost", "Bound", "Allocated"),
        ("Withdraw", "Asked", "Gone"),
        ("Release", "Allocated Bound", "Releasing"),
        ("Gone", "Allocated Bound Releasing", "Gone"),
    ],
)
"""A placeholder without a node is withdrawn at once. A creation may be confirmed after its release was requested; the
release is repeated then. A placeholder that is lost with its scheduler is created again."""

TABLES: Mapping[str, Table] = {
    table.kind: table for table in (CORE_APPLICATION, APPLICATION, TASK, NODE, QUEUE, PLACEHOLDER)
}
"""Every table by its kind."""
