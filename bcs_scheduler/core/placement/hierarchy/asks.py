"""Tasks of snapshots as asks of trees."""

from __future__ import annotations

from bcs_scheduler.core.placement.sessions.pending import demand_of
from offers.dimensions import Amounts
from offers.policy.hierarchy import Ask
from offers.policy.session.model import Job, Status, Task
from store import ids

COUNTED = ("cpus", "mem")
"""The resources that queues and nodes count, in thousandths."""


def ask_of(job: Job, task: Task) -> Ask:
    """A task as the tree has it. Conditions on nodes matter only while the task waits."""
    pending = task.status is Status.PENDING
    created = ids.nanoseconds_of(demand_of(task.name)) / 1e9 if pending else task.created
    constraint, request = task.template if pending else None, counted(task.template.request)
    return Ask(
        job.name,
        safe(task.name),
        request,
        created,
        job.priority,
        constraint=constraint,
        may_preempt=job.preempts,
        preemptable=not task.critical,
    )


def same(before: Task, after: Task | None) -> bool:
    """True if the tree has nothing to change for the later task; None: the task is gone."""
    return after is not None and (before.template, before.agent) == (after.template, after.agent)


def counted(amounts: Amounts) -> Amounts:
    """The amounts that queues and nodes count."""
    return tuple([pair for pair in amounts if pair[0] in COUNTED])


def safe(task: str) -> str:
    """The name of a task as a name of an ask: these have no slash, and names of slots have one."""
    return task.replace("/", "|")


def task_name(ask: str) -> str:
    """The name of the task of an ask."""
    return ask.replace("|", "/")
