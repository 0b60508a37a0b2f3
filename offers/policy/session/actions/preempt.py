"""The action preempt: within a queue, jobs below their minimum take the room of less important jobs.

A statement per job: either its minimum is reached and something had to be evicted for it, or nothing is evicted. With
the argument ``withinJobs`` a pending task may also take the room of a less important running task of its own job.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

from offers.policy.session.actions.eviction import make_room
from offers.policy.session.actions.ordering import BestJobs
from offers.policy.session.plugins.interface import Argument, Claim
from offers.policy.session.state.jobs import JobState, QueueState
from offers.policy.session.state.ranking import Search
from offers.policy.session.state.statements import Statement

if TYPE_CHECKING:
    from offers.policy.session.session import Session

name = "preempt"
arguments: Mapping[str, Argument] = {"withinJobs": Argument("boolean", False)}


def run(session: Session, arguments: Mapping[str, Any]) -> None:
    """See `Action.run`."""
    queues = list(session.queues.values())
    while queues:
        queue = min(queues, key=session.rules.queue_key)
        queues.remove(queue)
        _between_jobs(session, queue)
        if arguments["withinJobs"]:
            _within_jobs(session, queue)


def _between_jobs(session: Session, queue: QueueState) -> None:
    if not queue.running:
        return  # Without evictions every statement would be undone.
    searches: dict[tuple[int, int], Search] = {}
    starving = BestJobs(
        (job for job in queue.jobs if job.starving and job.job.preempts), session.rules.job_key, session.changes.job_log
    )
    while (job := starving.take()) is not None:
        tasks = session.pending(job)
        attempt = _attempt(session, job, len(tasks))
        if attempt is not None and session.dead_ends.get(attempt) == session.changes.version:
            continue
        statement = session.statement(job)
        failed: dict[int, int] = {}
        for tried, position in enumerate(tasks):
            if not job.starving or job.ready + job.waiting + len(tasks) - tried < job.min_available:
                break
            need = session.needs.of(job.job.tasks[position].template)
            if failed.get(need.number) == session.changes.version:
                continue
            search = None
            if attempt is not None and session.decides_alone:
                search = searches.get((need.number, job.priority))
                if search is None:
                    search = searches[need.number, job.priority] = session.search(need)
            if not _find(session, queue, Claim(job, position, need), statement, search):
                failed[need.number] = session.changes.version
        if session.rules.pipelined(job) and statement.evictions:
            statement.commit()
        else:
            statement.undo()
            if attempt is not None:
                session.dead_ends[attempt] = session.changes.version


def _attempt(session: Session, job: JobState, tasks: int) -> tuple[Hashable, ...] | None:
    """A key of the attempt, equal for jobs that are alike; None if the job is like no other."""
    if not session.rules.victims_by_priority or job.running or job.job.template is None:
        return None
    need = session.needs.of(job.job.template)
    missing = job.min_available - job.ready - job.waiting
    return (name, job.queue.name, need.number, job.priority, missing, tasks)


def _find(session: Session, queue: QueueState, claim: Claim, statement: Statement, search: Search | None) -> bool:
    """`make_room` for one task, with victims of other jobs of the queue."""
    return make_room(
        session,
        statement,
        claim,
        lambda victim: victim.job.queue is queue and victim.job is not claim.job,
        session.rules.preempt_victims,
        search,
    )


def _within_jobs(session: Session, queue: QueueState) -> None:
    jobs = BestJobs((job for job in queue.jobs if job.pending), session.rules.job_key, session.changes.job_log)
    while (job := jobs.take()) is not None:
        if not job.has_running:
            continue
        for position in session.pending(job):
            need = session.needs.of(job.job.tasks[position].template)
            statement = session.statement(job)
            make_room(
                session,
                statement,
                Claim(job, position, need),
                lambda victim, job=job: victim.job is job,  # type: ignore[misc]
                session.rules.preempt_victims,
            )
            if not statement.evictions:
                statement.undo()
                break
            statement.commit()
