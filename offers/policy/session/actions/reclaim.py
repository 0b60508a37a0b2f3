"""The action reclaim: queues take back, up to their deserved shares, amounts that other queues have above theirs."""

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

name = "reclaim"
arguments: Mapping[str, Argument] = {}


def run(session: Session, arguments: Mapping[str, Any]) -> None:  # noqa: ARG001
    """See `Action.run`."""
    rules = session.rules
    queues = list(session.queues.values())
    giving = {queue.name: queue.running for queue in queues if queue.running and queue.queue.reclaimable}
    while queues:
        queue = min(queues, key=rules.queue_key)
        queues.remove(queue)
        if not giving.keys() - {queue.name}:
            continue  # Without evictions every statement would be undone.
        jobs = BestJobs(
            (job for job in queue.jobs if job.pending and job.job.preempts), rules.job_key, session.changes.job_log
        )
        searches: dict[int, Search] = {}
        while not rules.overused(queue) and (job := jobs.take()) is not None:
            _take_back(session, queue, job, searches)


def _take_back(session: Session, queue: QueueState, job: JobState, searches: dict[int, Search]) -> None:
    rules = session.rules
    tasks = session.pending(job)
    attempt = _attempt(session, job, len(tasks))
    before = session.changes.version
    if attempt is not None and session.dead_ends.get(attempt) == before:
        return
    statement = session.statement(job)
    failed: dict[int, int] = {}
    for position in tasks:
        need = session.needs.of(job.job.tasks[position].template)
        if failed.get(need.number) == session.changes.version:
            continue
        if rules.room(queue, need) <= 0 or not rules.allocatable(queue, need):
            job.over_limit = True
            failed[need.number] = session.changes.version
            continue
        search = None
        if attempt is not None and session.decides_alone:
            search = searches.get(need.number)
            if search is None:
                search = searches[need.number] = session.search(need)
        if not _find(session, queue, Claim(job, position, need), statement, search):
            failed[need.number] = session.changes.version
        elif rules.pipelined(job):
            _end(statement)
            statement = session.statement(job)
    _end(statement, rules.pipelined(job))
    if attempt is not None and session.changes.version == before:
        session.dead_ends[attempt] = before


def _attempt(session: Session, job: JobState, tasks: int) -> tuple[Hashable, ...] | None:
    """A key of the attempt, equal for jobs that are alike; None if the job is like no other."""
    if not session.rules.victims_by_queue or session.rules.missing is None or job.job.template is None:
        return None
    missing = job.min_available - job.ready - job.waiting
    return (name, job.queue.name, session.needs.of(job.job.template).number, missing, tasks)


def _end(statement: Statement, complete: bool = True) -> None:
    if complete and statement.evictions:
        statement.commit()
    else:
        statement.undo()


def _find(session: Session, queue: QueueState, claim: Claim, statement: Statement, search: Search | None) -> bool:
    """`make_room` for one task, with victims of other queues that give room back."""
    return make_room(
        session,
        statement,
        claim,
        lambda victim: victim.job.queue is not queue and victim.job.queue.queue.reclaimable,
        session.rules.reclaim_victims,
        search,
    )
