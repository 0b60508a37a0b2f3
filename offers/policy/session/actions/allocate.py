"""The action allocate: places pending tasks, queue by queue and job by job, best first.

A job gets its minimum in one go, further tasks one per turn. A job that cannot start leaves its room to others in the
same session. Where nothing fits now, room is held on agents on which something is leaving.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

from offers.policy.session.decisions import Overused
from offers.policy.session.plugins.interface import Argument
from offers.policy.session.state.jobs import JobState
from offers.policy.session.state.statements import ALLOCATE, PIPELINE, RELEASE_PROMISE, Statement
from offers.policy.session.state.templates import Need

if TYPE_CHECKING:
    from offers.policy.session.session import Session

name = "allocate"
arguments: Mapping[str, Argument] = {}
LEAST = 4
"""Jobs that have their turn in each portion: the way to the first one costs as much as some more of them."""


def run(session: Session, arguments: Mapping[str, Any]) -> None:  # noqa: ARG001
    """See `Action.run`."""
    rules = session.rules
    waiting: dict[str, list[tuple[tuple[Any, ...], Turn]]] = {}
    had_turn = session.memory.had_turn(name)
    for job in session.jobs.values():
        if job.pending and job.name not in had_turn and session.wants_room(job):
            waiting.setdefault(job.queue.name, []).append((rules.job_key(job), Turn(session, job)))
    queues = [(rules.queue_key(session.queues[queue]), queue) for queue in waiting]
    heapify(queues)
    for jobs in waiting.values():
        heapify(jobs)
    while queues:
        _, queue = heappop(queues)
        state, jobs = session.queues[queue], waiting[queue]
        if rules.overused(state):
            session.sequence.append((len(session.changes.committed), Overused(queue)))
            continue
        if not jobs:
            continue
        if session.portion.ends(cheap=jobs[0][1].is_cheap, least=LEAST):
            return
        _, turn = heappop(jobs)
        if turn.take():
            heappush(jobs, (rules.job_key(turn.job), turn))
        elif session.portion.bounded:
            had_turn.add(turn.job.name)
        heappush(queues, (rules.queue_key(state), queue))


class Turn:
    """The tasks of a job that were not tried yet."""

    __slots__ = ("_begun", "_needs", "_next", "_session", "_tasks", "job")

    def __init__(self, session: Session, job: JobState) -> None:
        self._session, self.job, self._next, self._begun = session, job, 0, False
        self._tasks: list[int] = []
        template = job.job.template
        self._needs = None if template is None else session.needs.of(template)

    @property
    def is_cheap(self) -> bool:
        """True if the agents for its tasks are in order already."""
        return self._needs is not None and self._session.knows(self._needs)

    def take(self) -> bool:
        """Gives the job its turn. True: it may have another one."""
        session, job, rules = self._session, self.job, self._session.rules
        if not self._begun:
            self._begun, self._tasks = True, session.pending(job, best_effort=False)
        attempt = self._attempt()
        if attempt is not None and session.dead_ends.get(attempt) == session.changes.version:
            job.misfit = self._needs
            return False
        statement = session.statement(job)
        tasks = self._tasks
        while self._next < len(tasks):
            position = tasks[self._next]
            need = self._need(position)
            if (job.number, position) in session.changes.promised:
                placed = self._use_promise(statement, position, need)
            else:
                placed = self._place(statement, need)
            if not placed:
                self._pass_over(need)
                left = len(tasks) - self._next
                if not rules.ready(job) and job.ready + job.waiting + left < job.min_available:
                    break
            if rules.ready(job):
                break
        if rules.ready(job):
            statement.commit(ready=True)
            return self._next < len(tasks)
        if rules.pipelined(job) and statement.operations:
            statement.keep()
        else:
            statement.undo()
            if attempt is not None and not job.over_limit:
                session.dead_ends[attempt] = session.changes.version
        return False

    def _attempt(self) -> tuple[Hashable, ...] | None:
        """A key of the attempt, equal for jobs that are alike; None if the tasks of the job have several templates, the
        order is not known, or tasks were placed already."""
        job, need = self.job, self._needs
        if need is None or self._session.rules.missing is None or self._next:
            return None
        return (name, job.queue.name, need.number, job.min_available - job.ready, job.waiting, len(self._tasks))

    def _need(self, position: int) -> Need:
        return self._needs or self._session.needs.of(self.job.job.tasks[position].template)

    def _alike(self, need: Need, most: int) -> int:
        """Counts the next tasks that need the same, up to `most`."""
        tasks, begin = self._tasks, self._next
        end = min(len(tasks), begin + most)
        if self._needs is not None:
            return end - begin
        promised, number = self._session.changes.promised, self.job.number
        at = begin
        while at < end and self._need(tasks[at]) is need and (at == begin or (number, tasks[at]) not in promised):
            at += 1
        return at - begin

    def _place(self, statement: Statement, need: Need) -> bool:
        """Places the next tasks, as many as can be placed in one go. False: not even one."""
        session, job = self._session, self.job
        room = session.rules.room(job.queue, need)
        if room <= 0:
            job.over_limit = True
            return False
        missing = session.rules.missing
        wanted = 1 if missing is None else max(1, missing(job))
        number = 1 if wanted == 1 else self._alike(need, min(wanted, room))
        candidates = session.candidates(need)
        ranks = candidates.place(number)
        if ranks:
            begin = self._next
            self._next += len(ranks)
            statement.note(job, need, self._tasks[begin : self._next], ranks)
            return True
        rank = candidates.best_later()
        if rank is not None:
            statement.apply(PIPELINE, job, need, self._tasks[self._next], rank)
            self._next += 1
            return True
        if job.misfit is None:
            job.misfit = need
        return False

    def _use_promise(self, statement: Statement, position: int, need: Need) -> bool:
        """Tries the agent first on which room was promised to the task."""
        session, job = self._session, self.job
        rank = session.changes.promised[job.number, position]
        statement.apply(RELEASE_PROMISE, job, need, position, rank)
        if session.rules.room(job.queue, need) > 0 and session.candidates(need).accepts(rank):
            fits = session.agents.fits_now(rank, need), session.fits_later(job, rank, need)
            for kind, is_fit in zip((ALLOCATE, PIPELINE), fits, strict=True):
                if is_fit:
                    statement.apply(kind, job, need, position, rank)
                    self._next += 1
                    return True
        return self._place(statement, need)

    def _pass_over(self, need: Need) -> None:
        """Leaves out the following tasks that need the same: nothing changed, so they find no place either."""
        self._next += self._alike(need, len(self._tasks))
