"""The plug-in gang: a job starts with its minimum or not at all, and is not evicted below its minimum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from offers.policy.obstacles import Obstacle
from offers.policy.session.plugins.interface import Argument, Claim, Counts, Functions, Verdict, Victim
from offers.policy.session.state.jobs import JobState

if TYPE_CHECKING:
    from offers.policy.session.session import Session

name = "gang"
arguments: Mapping[str, Argument] = {}

NOT_ENOUGH_TASKS = "NotEnoughTasks"


def open(session: Session, arguments: Mapping[str, Any]) -> Functions:  # noqa: ARG001
    """See `Plugin.open`."""
    return Functions(
        job_order=lambda job: job.ready >= job.min_available,
        job_valid=_valid,
        job_ready=lambda job: job.ready >= job.min_available,
        job_pipelined=lambda job: job.ready + job.waiting >= job.min_available,
        missing=lambda job: job.min_available - job.ready,
        preemptable=surplus,
        reclaimable=surplus,
        counts=Counts.JOBS,
        obstacle=Obstacle.GANG,
    )


def _valid(job: JobState) -> Verdict | None:
    """A job is judged only if it has a task that is pending or allocated."""
    valid = job.ready + job.waiting + job.pending
    if valid == job.succeeded or valid >= job.min_available:
        return None
    return Verdict(NOT_ENOUGH_TASKS, f"{valid} of at least {job.min_available} tasks are valid")


def surplus(claim: Claim, candidates: list[Victim]) -> list[Victim]:  # noqa: ARG001
    """Counts down per job: each victim leaves one task less, and the minimum stays. Jobs with a minimum of 1 are no
    gangs: their last task may be taken."""
    left: dict[int, int] = {}
    victims = []
    for victim in candidates:
        job = victim.job
        ready = left.get(job.number, job.ready)
        if job.min_available <= 1 or ready > job.min_available:
            left[job.number] = ready - 1
            victims.append(victim)
    return victims
