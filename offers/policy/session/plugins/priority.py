"""The plug-in priority: the higher priority first, and only lower priorities are evicted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from offers.policy.obstacles import Obstacle
from offers.policy.session.plugins.interface import Argument, Claim, Functions, Victim

if TYPE_CHECKING:
    from offers.policy.session.session import Session

name = "priority"
arguments: Mapping[str, Argument] = {}


def open(session: Session, arguments: Mapping[str, Any]) -> Functions:  # noqa: ARG001
    """See `Plugin.open`."""
    return Functions(
        job_order=lambda job: -job.priority,
        task_order=lambda _, task: -task.priority,
        preemptable=preemptable,
        obstacle=Obstacle.PRIORITY,
    )


def preemptable(claim: Claim, candidates: list[Victim]) -> list[Victim]:
    """Between jobs the priority of the job counts, within a job that of the task. Equal ones are not evicted."""
    own, job, task = claim.job.priority, claim.job, claim.task.priority
    return [
        victim
        for victim in candidates
        if (victim.job.priority < own if victim.job is not job else victim.task.priority < task)
    ]
