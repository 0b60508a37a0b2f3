"""The action preempt: within a queue, jobs below their minimum take the room of less important jobs.

A statement per job: either its minimum is reached and something had to be evicted for it, or nothing is evicted. With
the argument ``withinJobs`` a pending task may also take the room of a less important running task of its own job.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from offers.policy.session.actions.eviction import Scope, Searches, give_back, make_room, tasks_of
from offers.policy.session.actions.ordering import BestJobs
from offers.policy.session.columns import Array
from offers.policy.session.plugins.interface import Argument, Claim
from offers.policy.session.state.jobs import JobState, QueueState
from offers.policy.session.state.templates import Need

if TYPE_CHECKING:
    from offers.policy.session.session import Session

name = "preempt"
arguments: Mapping[str, Argument] = {"withinJobs": Argument("boolean", False)}


def run(session: Session, arguments: Mapping[str, Any]) -> None:
    """See `Action.run`."""
    queues, begin = list(session.queues.values()), len(session.changes.committed)
    while queues:
        queue = min(queues, key=session.rules.queue_key)
        queues.remove(queue)
        with session.changes.promises_count(queue):
            _between_jobs(session, queue)
            if arguments["withinJobs"]:
                _within_jobs(session, queue)
    give_back(session, begin)


def _between_jobs(session: Session, queue: QueueState) -> None:
    if not queue.running:
        return  # Without evictions every statement would be undone.
    searches = searches_of(session, queue)
    had_turn = session.memory.had_turn(name)
    waiting = [job for job in queue.jobs if job.starving and job.job.preempts and job.name not in had_turn]
    starving = BestJobs(waiting, session.rules.job_key, session.changes.job_log)
    while (job := starving.take()) is not None:
        attempt = _attempt(session, job)
        if attempt is not None and session.dead_ends.get(attempt) == session.changes.version:
            continue
        if session.portion.is_late():
            return
        lasting = session.lasting(attempt, job, session.snapshot.work_changes.get(queue.name, 0))
        if lasting is not None and not session.changes.evictions and session.memory.is_vain(*lasting):
            had_turn.add(job.name)
            continue
        if session.portion.ends():
            return
        had_turn.add(job.name)
        begin = session.changes.version
        barren = _take_room(session, job, searches)
        if attempt is not None and session.changes.version == begin:
            session.dead_ends[attempt] = begin
            if lasting is not None and barren and not session.changes.evictions:
                session.memory.in_vain(*lasting)


def _take_room(session: Session, job: JobState, searches: Searches) -> bool:
    """Gives a job its turn. True: no agent had enough for any of its tasks."""
    statement = session.statement(job)
    tasks = session.pending(job)
    failed: dict[int, int] = {}
    barren = True
    for tried, position in enumerate(tasks):
        if not job.starving or job.ready + job.waiting + len(tasks) - tried < job.min_available:
            break
        need = session.needs.of(job.job.tasks[position].template)
        if failed.get(need.number) == session.changes.version:
            continue
        scope = scope_of(session, job)
        search = searches.of(job, need)
        if not make_room(session, statement, Claim(job, position, need), scope, search):
            failed[need.number] = session.changes.version
            barren = barren and search.barren
        else:
            barren = False
    if session.rules.pipelined(job) and statement.evictions:
        statement.commit()
    else:
        statement.undo()
    return barren


def scope_of(session: Session, job: JobState) -> Scope:
    """The tasks of its queue that may leave for a job."""
    return Scope(lambda victim: victim.job.queue is job.queue and victim.job is not job, session.rules.preempt_victims)


def searches_of(session: Session, queue: QueueState) -> Searches:
    """The searches for the jobs of a queue."""
    return Searches(session, _others(session, queue), shared=session.rules.victims_by_priority)


def _attempt(session: Session, job: JobState) -> tuple[Hashable, ...] | None:
    """A key of the attempt, equal for jobs that are alike; None if the job is like no other."""
    if not session.rules.victims_by_priority or job.running or job.job.template is None or job.name in session.paused:
        return None
    need = session.needs.of(job.job.template)
    missing = job.min_available - job.ready - job.waiting
    return (name, job.queue.name, need.number, job.priority, missing, job.pending, bool(session.beside(job)))


def _others(session: Session, queue: QueueState) -> Callable[[JobState, Need], tuple[Hashable, Callable[[], Array]]]:
    """The tasks of other jobs of a queue that could leave; see `Searches`."""
    filters = session.rules.preempt_filters

    def tasks(job: JobState, _: Need) -> tuple[Hashable, Callable[[], Array]]:
        def numbers() -> Array:
            running, tasks = session.snapshot.running, tasks_of(session, [queue], filters)
            if filters.priority:
                return tasks[running.priority[running.job[tasks]] < job.priority]
            rest: Array = tasks[running.job[tasks] != running.jobs.get(job.name, -1)]
            return rest

        return job.priority if filters.priority else job.number, numbers

    return tasks


def _within_jobs(session: Session, queue: QueueState) -> None:
    rules, running = session.rules, session.snapshot.running
    jobs = BestJobs((job for job in queue.jobs if job.pending), rules.job_key, session.changes.job_log)

    def own(job: JobState, _: Need) -> tuple[Hashable, Callable[[], Array]]:
        return job.number, lambda: np.nonzero(running.job == running.jobs[job.name])[0]

    had_turn = session.memory.had_turn(f"{name} within jobs")
    while (job := jobs.take()) is not None:
        if not job.has_running or job.name in had_turn:
            continue
        if session.portion.ends():
            return
        had_turn.add(job.name)
        searches = Searches(session, own, shared=False, between=False)
        for position in session.pending(job):
            need = session.needs.of(job.job.tasks[position].template)
            statement = session.statement(job)
            scope = Scope(lambda victim, job=job: victim.job is job, rules.preempt_victims)  # type: ignore[misc]
            make_room(session, statement, Claim(job, position, need), scope, searches.of(job, need))
            if not statement.evictions:
                statement.undo()
                break
            statement.commit()
