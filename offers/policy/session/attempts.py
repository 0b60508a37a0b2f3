"""The reasons why a session evicts nothing for jobs that wait, for users. No decision depends on them.

An eviction is due for a job if `reclaim` runs and its queue is below the deserved share, or if `preempt` runs and the
job is below its minimum. At the end of the session, the running tasks that would have to leave are counted by the first
function that refuses each. Jobs that are alike share one count. The work of a session is bounded: `LOOKED_AT` tasks
in all, and those of a job are the tasks of the first agents; sessions begin with different jobs in turn. Of a round in
portions, the last one counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from offers.policy.obstacles import OF_APPLICATIONS, Attempt, Obstacle, Tally, in_vain
from offers.policy.session.decisions import Eviction
from offers.policy.session.plugins.interface import Claim, Victim
from offers.policy.session.state.jobs import JobState, QueueState
from offers.policy.session.state.templates import Need

if TYPE_CHECKING:
    from offers.policy.session.session import Session

RECLAIM, PREEMPT = "reclaim", "preempt"
"""Names of the actions that evict."""
LOOKED_AT = 1500
"""Running tasks that one session looks at; an agent without tasks counts as one."""
OF_ONE = 500
"""The same for one job."""


def attempts(session: Session, evictions: list[Eviction]) -> dict[str, Attempt | None]:
    """The attempts by job: those that have led to evictions, and those in vain; None for jobs for which none was due.
    Jobs that the session did not look at are missing."""
    now = session.snapshot.now
    results: dict[str, Attempt | None] = {}
    agents: dict[str, str] = {}
    for eviction in evictions:
        agents[eviction.beneficiary] = eviction.agent
    for name, number in Counter(eviction.beneficiary for eviction in evictions).items():
        results[name] = Attempt(now, evicted=number, agent=agents[name])
    if session.portion.over:
        return results
    due: dict[Hashable, list[JobState]] = {}
    keep = {number for number, _ in session.changes.promised} if session.partial else set[int]()
    for job in session.jobs.values():
        if job.number in keep or job.name in session.closed:
            continue  # an earlier portion has made room, or none is made now
        if job.name not in results and len(job.job.pending) > len(job.placed) and not job.waiting:
            need = _need(session, job)
            missing = job.min_available - job.ready
            own = job.name if job.name in session.paused else ""
            due.setdefault((job.queue.name, need.number, job.priority, job.job.preempts, missing, own), []).append(job)
    search = _Search(session)
    keys = list(due)
    first = int(now) % len(keys) if keys else 0
    for key in (*keys[first:], *keys[:first]):
        results.update(dict.fromkeys((job.name for job in due[key]), search.of(due[key][0])))
        if search.left <= 0:
            break
    return results


def _need(session: Session, job: JobState) -> Need:
    position = next(position for position in job.job.pending if position not in job.placed)
    return session.needs.of(job.job.tasks[position].template)


class _Search:
    """Looks at the running tasks that would have to leave for jobs of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        names = {choice.action.name for choice in session.policy.actions}
        self._reclaims, self._preempts = RECLAIM in names, PREEMPT in names
        self._deserved = session.rules.deserved()
        self.left = LOOKED_AT
        """Number of tasks that may still be looked at."""

    def of(self, job: JobState) -> Attempt | None:
        """The attempt for a job; None if none was due."""
        session, rules, now = self._session, self._session.rules, self._session.snapshot.now
        need = _need(session, job)
        if rules.limit(job, need):
            return None  # a limit of the queue is the cause
        entitled = job.queue.name in self._deserved and not rules.overused(job.queue)
        reclaims, preempts = self._reclaims and entitled, self._preempts and job.starving
        if not (reclaims or preempts):
            may_help = entitled and not self._reclaims and self._is_another_above(job.queue, need)
            return in_vain(now, Obstacle.NOT_ALLOWED) if may_help else None
        if not job.job.preempts:
            return in_vain(now, Obstacle.NOT_ALLOWED)
        beyond = reclaims and not rules.allocatable(job.queue, need)
        position = next(position for position in job.job.pending if position not in job.placed)
        tally = self._counted(Claim(job, position, need), reclaims=reclaims and not beyond, preempts=preempts)
        if not tally:  # no work of others runs where the task could; it matters if there is some elsewhere
            others = any(other.running for other in session.queues.values() if other is not job.queue)
            if not (reclaims and others):
                return None
            if beyond:
                tally.count(Obstacle.OWN_GUARANTEE, 1, job.queue.name)
            else:
                tally.count(Obstacle.NO_CANDIDATE)
        return tally.attempt(now)

    def _is_another_above(self, queue: QueueState, need: Need) -> bool:
        """True if another queue has more than its deserved share of an amount that is needed."""
        dimensions = self._session.snapshot.dimensions
        return any(
            other.running and other.allocated[d] > self._deserved.get(other.name, {}).get(dimensions[d], 0)
            for other in self._session.queues.values()
            if other is not queue
            for d, _ in need.row
        )

    def _counted(self, claim: Claim, *, reclaims: bool, preempts: bool) -> Tally:
        rules, queue = self._session.rules, claim.job.queue
        tally, paused = Tally(), self._session.paused.get(claim.job.name, {})
        mine: list[Victim] = []
        others: list[Victim] = []
        for victim in self._running(claim.need):
            if victim.job.queue is not queue:
                if reclaims and victim.job.queue.queue.reclaimable:
                    others.append(victim)
                elif reclaims:
                    tally.count(Obstacle.OUTSIDE, 1, victim.job.queue.name)
            elif preempts and victim.job is not claim.job:
                mine.append(victim)
        free = {(victim.job.number, victim.position): victim.rank for victim in (*mine, *others)}
        for candidates, is_reclaim in ((mine, False), (others, True)):
            candidates.sort(key=lambda victim: (victim.job.priority, -victim.job.created, victim.position))
            for victim, code in rules.refused(claim, candidates, reclaims=is_reclaim):
                until = paused.get(victim.job.name, 0.0) if code is Obstacle.PAUSED else 0.0
                tally.count(code, 1, _owner(code, victim), until)
                free.pop((victim.job.number, victim.position), None)
        if free:
            tally.count(Obstacle.APART, len(set(free.values())))
        return tally

    def _running(self, need: Need) -> Iterator[Victim]:
        """Yields the running tasks on agents that pass the predicates, the first ones."""
        candidates, seen = self._session.candidates(need), 0
        for rank in np.flatnonzero(candidates.mask()).tolist():
            if seen >= OF_ONE or self.left <= 0:
                return
            if candidates.accepts(rank):
                victims = list(self._session.running_on(rank))
                seen += len(victims) or 1
                self.left -= len(victims) or 1
                yield from victims


def _owner(code: Obstacle, victim: Victim) -> str:
    """The owner that is named for an obstacle: a queue or an application."""
    if code is Obstacle.GUARANTEE:
        return victim.job.queue.name
    return victim.job.name if code in OF_APPLICATIONS else ""
