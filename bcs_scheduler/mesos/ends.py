"""The end of a taskgroup in the terms of Mesos: KILL names a task, SHUTDOWN names an executor with all its tasks."""

from __future__ import annotations

from collections.abc import Iterator

from bcs_scheduler.core.interface.cluster_manager import End
from bcs_scheduler.core.interface.effects import Effect


class Kill(Effect, frozen=True, kw_only=True):
    """Ends a task. `grace_period`: seconds between SIGTERM and SIGKILL. `agent_id`: empty = the master knows the
    agent."""

    task_id: str
    agent_id: str
    grace_period: float = 1.0


class Shutdown(Effect, frozen=True, kw_only=True):
    """Ends an executor. The agent destroys processes that do not end by themselves."""

    executor_id: str
    agent_id: str


def calls_of(end: End) -> Iterator[Kill | Shutdown]:
    """The calls that end the taskgroup, in the order in which they are sent. The id of a taskgroup is the id of its
    executor."""
    for task_id in end.tasks:
        yield Kill(task_id=task_id, agent_id=end.agent_id, grace_period=end.grace_period, cause=end.cause)
    if end.forced:
        yield Shutdown(executor_id=end.taskgroup, agent_id=end.agent_id, cause=end.cause)
