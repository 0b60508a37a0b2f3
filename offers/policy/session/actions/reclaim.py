"""The action reclaim: queues take back, up to their deserved shares, amounts that other queues have above theirs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any

from offers.policy.session.actions.eviction import Scope, Searches, give_back, make_room, tasks_of
from offers.policy.session.actions.ordering import BestJobs
from offers.policy.session.columns import Array
from offers.policy.session.plugins.interface import Argument, Claim
from offers.policy.session.state.jobs import JobState, QueueState
from offers.policy.session.state.statements import Statement
from offers.policy.session.state.templates import Need

if TYPE_CHECKING:
    from offers.policy.session.session import Session

name = "reclaim"
arguments: Mapping[str, Argument] = {}


def run(session: Session, arguments: Mapping[str, Any]) -> None:  # noqa: ARG001
    """See `Action.run`."""
    rules = session.rules
    queues, begin = list(session.queues.values()), len(session.changes.committed)
    had_turn = session.memory.had_turn(name)
    giving = {queue.name: queue.running for queue in queues if queue.running and queue.queue.reclaimable}
    while queues:
        queue = min(queues, key=rules.queue_key)
        queues.remove(queue)
        if not giving.keys() - {queue.name}:
            continue  # Without evictions every statement would be undone.
        wanting = [job for job in queue.jobs if job.pending and job.job.preempts and job.name not in had_turn]
        jobs = BestJobs(wanting, rules.job_key, session.changes.job_log)
        searches = searches_of(session, queue)
        with session.changes.promises_count(queue):
            while not rules.overused(queue) and (job := jobs.take()) is not None:
                if not _take_back(session, queue, job, searches, had_turn):
                    queues.clear()
                    break
    give_back(session, begin)


def _take_back(session: Session, queue: QueueState, job: JobState, searches: Searches, had_turn: set[str]) -> bool:
    """Gives a job its turn. False: it has to wait for the next portion."""
    rules = session.rules
    scope = scope_of(session, queue)
    attempt = _attempt(session, job)
    before = session.changes.version
    if attempt is not None and session.dead_ends.get(attempt) == before:
        return True
    if session.portion.is_late():
        return False
    lasting = session.lasting(attempt, job, session.snapshot.changes)
    if lasting is not None and not before and session.memory.is_vain(*lasting):
        had_turn.add(job.name)
        return True
    if session.portion.ends():
        return False
    had_turn.add(job.name)
    barren = True
    statement = session.statement(job)
    failed: dict[int, int] = {}
    for position in session.pending(job):
        need = session.needs.of(job.job.tasks[position].template)
        if failed.get(need.number) == session.changes.version:
            continue
        claim = Claim(job, position, need)
        if not may_take(session, queue, claim):
            job.over_limit = True
            failed[need.number] = session.changes.version
            continue
        search = searches.of(job, need)
        if not make_room(session, statement, claim, scope, search):
            failed[need.number] = session.changes.version
            barren = barren and search.barren
            continue
        barren = False
        if rules.pipelined(job):
            _end(statement)
            statement = session.statement(job)
    _end(statement, rules.pipelined(job))
    if attempt is not None and session.changes.version == before:
        session.dead_ends[attempt] = before
        if lasting is not None and barren and not before:
            session.memory.in_vain(*lasting)
    return True


def may_take(session: Session, queue: QueueState, claim: Claim) -> bool:
    """True if the limits and the deserved share of the queue hold the task beside the promises to others."""
    rules, own = session.rules, (claim.job.number, claim.position) in session.changes.promised
    for d, amount in claim.need.row if own else ():
        queue.allocated[d] -= amount
    try:
        return rules.room(queue, claim.need) > 0 and rules.allocatable(queue, claim.need)
    finally:
        for d, amount in claim.need.row if own else ():
            queue.allocated[d] += amount


def _attempt(session: Session, job: JobState) -> tuple[Hashable, ...] | None:
    """A key of the attempt, equal for jobs that are alike; None if the job is like no other."""
    if not session.rules.victims_by_queue or session.rules.missing is None or job.job.template is None:
        return None
    if job.name in session.paused:
        return None
    missing = job.min_available - job.ready - job.waiting
    need, uses = session.needs.of(job.job.template), bool(session.beside(job))
    return (name, job.queue.name, need.number, missing, job.pending, uses)


def scope_of(session: Session, queue: QueueState) -> Scope:
    """The tasks that may leave for a queue."""
    return Scope(
        lambda victim: victim.job.queue is not queue and victim.job.queue.queue.reclaimable,
        session.rules.reclaim_victims,
    )


def _end(statement: Statement, complete: bool = True) -> None:
    if complete and statement.evictions:
        statement.commit()
    else:
        statement.undo()


def searches_of(session: Session, queue: QueueState) -> Searches:
    """The searches for a queue."""
    return Searches(session, _others(session, queue), shared=session.rules.victims_by_queue)


def _others(session: Session, queue: QueueState) -> Callable[[JobState, Need], tuple[Hashable, Callable[[], Array]]]:
    """The tasks of other queues that could leave; see `Searches`."""
    rules = session.rules

    def tasks(_: JobState, need: Need) -> tuple[Hashable, Callable[[], Array]]:
        giving = [
            other
            for other in session.queues.values()
            if other is not queue and other.running and other.queue.reclaimable and rules.may_lose(other, need)
        ]

        def numbers() -> Array:
            return tasks_of(session, giving, rules.reclaim_filters)

        return tuple(other.name for other in giving), numbers

    return tasks
