"""States of tasks as a cluster manager reports them, in words that every cluster manager shares."""

from __future__ import annotations

from enum import StrEnum


class TaskState(StrEnum):
    """State of one task in a status report. transactions.rules.lifecycle.STATES has the meaning of each
    state for the record."""

    STAGING = "STAGING"
    """The agent has the task and has not started it."""
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    KILLING = "KILLING"
    """The task has been asked to end and still runs."""
    FINISHED = "FINISHED"
    """The task ended by itself with success."""
    FAILED = "FAILED"
    KILLED = "KILLED"
    """The task ended because it was asked to."""
    ERROR = "ERROR"
    """The cluster manager refused the task as invalid."""
    LOST = "LOST"
    """The task is gone; the cluster manager gives no finer state."""
    DROPPED = "DROPPED"
    """The task never reached an agent, so it never ran."""
    UNREACHABLE = "UNREACHABLE"
    """The agent does not answer. The task may run."""
    GONE = "GONE"
    """The agent is there and does not have the task."""
    GONE_BY_OPERATOR = "GONE_BY_OPERATOR"
    """An operator declared the agent gone for good."""
    UNKNOWN = "UNKNOWN"
    """The cluster manager knows neither the task nor the agent. The task may run."""
