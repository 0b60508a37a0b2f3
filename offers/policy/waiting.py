"""The causes for which queues hold requests back, as codes."""

from __future__ import annotations

from enum import StrEnum


class WaitCode(StrEnum):
    """The kinds of causes."""

    TURN = "Turn"
    """The ask is not held back: it is placed when its turn comes."""
    QUEUE_STOPPED = "QueueStopped"
    QUEUE_APPLICATIONS = "QueueApplications"
    """The queue runs as many applications as it may."""
    QUEUE_MAXIMUM = "QueueMaximum"
    """The queue, below root, has no room below its maximum (sessions: its capability)."""
    QUEUE_KEPT = "QueueKept"
    """The rest of the maximum of the queue is kept for other work, for which taskgroups end."""
    GUARANTEES = "GuaranteesOfOthers"
    """The rest of the cluster is guaranteed to other queues (sessions)."""
    LIMIT_APPLICATIONS = "LimitApplications"
    """The user or the group runs as many applications as it may."""
    LIMIT_RESOURCES = "LimitResources"
    """The user or the group uses as much as it may."""
    PROMISED_NODE = "PromisedNode"
    """The node that was promised to the ask does not have the room yet."""
    REQUIRED_NODE = "RequiredNode"
    """The only node that is admitted does not exist, takes no work or has no room."""
    NODES = "Nodes"
    """No node has the room and meets the constraint."""
    NO_QUEUE = "NoQueue"
    """No queue takes the application. The ask is not in the tree."""
