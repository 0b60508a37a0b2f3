"""The functions of all plug-ins of a session as one: how tiers are joined.

Orders: the keys in tier and list order, so the first difference decides. Predicates, ready and pipelined: all must
agree. Overused: one suffices. Valid: the first objection. Victims of `preempt`: those on which all plug-ins of the
first tier with an opinion agree, even if the opinion is that there are none. Victims of `reclaim`: those on which all
plug-ins of all tiers agree. Plug-ins that judge a candidate by itself come before those that count, in both cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from offers.policy.obstacles import Obstacle
from offers.policy.session.model import Job
from offers.policy.session.plugins import conformance, gang, priority
from offers.policy.session.plugins.interface import (
    Claim,
    Counts,
    Feasibility,
    Functions,
    Scorer,
    Verdict,
    Victim,
    Victims,
)
from offers.policy.session.state.agents import AgentTable, AgentView
from offers.policy.session.state.jobs import JobState, QueueState
from offers.policy.session.state.templates import Need

Tiers = Sequence[Sequence[Functions]]
UNLIMITED = 2**62
OURS = (priority.preemptable, gang.surplus, conformance.not_critical)
"""The functions of `Filters`, in their order."""


class Filters(NamedTuple):
    """The plug-ins of ours that judge victims by themselves or by their own job."""

    priority: bool
    gang: bool
    conformance: bool


class Composition:
    """Made once per session."""

    def __init__(self, tiers: Tiers, table: AgentTable) -> None:
        self._table = table
        every = [functions for tier in tiers for functions in tier]
        self._every = every
        self._job_orders = [f.job_order for f in every if f.job_order]
        self._queue_orders = [f.queue_order for f in every if f.queue_order]
        self.task_orders = [f.task_order for f in every if f.task_order]
        self._overused = [f.overused for f in every if f.overused]
        self._room_rules = [f.room for f in every if f.room]
        self._allocatable = [f.allocatable for f in every if f.allocatable]
        self._ready = [f.job_ready for f in every if f.job_ready]
        self._pipelined = [f.job_pipelined for f in every if f.job_pipelined]
        self._valid = [f.job_valid for f in every if f.job_valid]
        self.on_allocate = [f.on_allocate for f in every if f.on_allocate]
        self.on_deallocate = [f.on_deallocate for f in every if f.on_deallocate]
        first = next((of_tier for tier in tiers if (of_tier := [f for f in tier if f.preemptable])), [])
        preemptable = [(f.counts, f.preemptable) for f in first if f.preemptable]
        reclaimable = [(f.counts, f.reclaimable) for f in every if f.reclaimable]
        evictable = [(Counts.NOTHING, f.evictable) for f in every if f.evictable]
        self._preemptable, self._reclaimable = (_in_order(of_tier, evictable) for of_tier in (preemptable, reclaimable))
        self._obstacles: dict[Victims, Callable[[Victim], Obstacle]] = {}
        """The codes of the victims that a function refuses, for users."""
        for f in every:
            for function in filter(None, (f.preemptable, f.reclaimable)):
                self._obstacles[function] = partial(_always, f.obstacle)
            if f.evictable and f.keeps:
                self._obstacles[f.evictable] = f.keeps
        self.preempt_filters, self.reclaim_filters = _filters(preemptable), _filters(reclaimable)
        self._may_lose = [f.may_lose for f in every if f.may_lose and f.reclaimable]
        self.victims_by_priority = all(function in OURS for _, function in preemptable)
        """True if the victims for a task depend only on the priority of its job."""
        self.victims_by_queue = all(f.reclaims_by_queue or f.reclaimable in OURS for f in every if f.reclaimable)
        """True if the victims for a task of another queue depend only on its need and queue."""
        counted = [f.missing for f in every if f.missing]
        watched = self.on_allocate or self.on_deallocate
        self.missing = counted[0] if len(counted) == len(self._ready) == 1 and not watched else None
        """The number of further tasks that make a job ready, if one plug-in alone decides that."""

    # --- orders -----------------------------------------------------------------------------------------------

    def job_key(self, job: JobState) -> tuple[Any, ...]:
        """The key of a job as things stand: the smaller key comes first. No two jobs have the same."""
        return (*[order(job) for order in self._job_orders], job.created, job.name)

    def queue_key(self, queue: QueueState) -> tuple[Any, ...]:
        """The key of a queue as things stand."""
        return (*[order(queue) for order in self._queue_orders], queue.created, queue.name)

    def task_key(self, job: Job, position: int) -> tuple[Any, ...]:
        """The key of a task within its job."""
        task = job.tasks[position]
        return (*[order(job, task) for order in self.task_orders], task.created, position)

    # --- jobs and queues --------------------------------------------------------------------------------------

    def overused(self, queue: QueueState) -> bool:
        """True if `allocate` and `reclaim` pass a queue over."""
        return any(function(queue) for function in self._overused)

    def room(self, queue: QueueState, need: Need, gone: Sequence[int] | None = None) -> int:
        """Counts the further tasks that the limits of a queue admit. `gone`: amounts by dimension that the queue would
        not have any more; None: it keeps all."""
        if gone is None:
            return min((function(queue, need) for function in self._room_rules), default=UNLIMITED)
        kept = queue.allocated
        queue.allocated = [amount - less for amount, less in zip(kept, gone, strict=True)]
        try:
            return self.room(queue, need)
        finally:
            queue.allocated = kept

    def may_lose(self, queue: QueueState, need: Need) -> bool:
        """False: no task of a queue is evicted for such a task of another queue as things stand."""
        return all(function(queue, need) for function in self._may_lose)

    def limit(self, job: JobState, need: Need) -> str:
        """The code of the limit of the queue that keeps the next task of a job back, or those that reach its minimum;
        empty if none does."""
        tasks = max(1, job.min_available - job.ready - job.waiting)
        return next((code for f in self._every if f.limit and (code := f.limit(job.queue, need, tasks))), "")

    def allocatable(self, queue: QueueState, need: Need) -> bool:
        """True if a queue may take back room for one more task."""
        return all(function(queue, need) for function in self._allocatable)

    def valid(self, job: JobState) -> Verdict | None:
        """The first objection to a job; None if there is none."""
        for function in self._valid:
            verdict = function(job)
            if verdict is not None:
                return verdict
        return None

    def ready(self, job: JobState) -> bool:
        """True if the tasks of a job may be launched."""
        return all(function(job) for function in self._ready)

    def pipelined(self, job: JobState) -> bool:
        """True if a job may wait for room that is being released."""
        return all(function(job) for function in self._pipelined)

    # --- agents -----------------------------------------------------------------------------------------------

    def tests(self, need: Need) -> list[Feasibility]:
        """The predicates for one template."""
        tests = [f.feasibility(need) for f in self._every if f.feasibility]
        return tests + [self._single(f.predicate, need) for f in self._every if f.predicate]

    def _single(self, predicate: Callable[..., str | None], need: Need) -> Feasibility:
        table, template = self._table, need.template
        views = [AgentView(table, rank) for rank in range(len(table))]
        return Feasibility(
            np.ones(len(table), dtype=bool),
            lambda rank: predicate(template, views[rank]),
            lambda rank: predicate(template, views[rank]) is None,
            lambda: np.fromiter((predicate(template, view) is None for view in views), dtype=bool, count=len(views)),
        )

    def scorers(self, need: Need) -> list[tuple[int, Scorer]]:
        """The scores for one template, each with its weight."""
        scorers = [(1, f.scorer(need)) for f in self._every if f.scorer]
        return scorers + [(1, self._scored(f.node_order, need)) for f in self._every if f.node_order]

    def _scored(self, node_order: Callable[..., int], need: Need) -> Scorer:
        table, template = self._table, need.template
        views = [AgentView(table, rank) for rank in range(len(table))]
        return Scorer(
            lambda rank: node_order(template, views[rank]),
            lambda _: np.fromiter((node_order(template, view) for view in views), dtype=np.int64, count=len(views)),
        )

    # --- victims ----------------------------------------------------------------------------------------------

    def preempt_victims(self, claim: Claim, candidates: list[Victim]) -> list[Victim]:
        """Returns the tasks that may be evicted for a task of the same queue."""
        return _agreed(self._preemptable, claim, candidates)

    def reclaim_victims(self, claim: Claim, candidates: list[Victim]) -> list[Victim]:
        """Returns the tasks that may be evicted for a task of another queue."""
        return _agreed(self._reclaimable, claim, candidates)

    def refused(self, claim: Claim, candidates: list[Victim], *, reclaims: bool) -> Iterator[tuple[Victim, Obstacle]]:
        """Yields the candidates that may not be evicted for a task, each with the code of the first function that
        refuses it. `reclaims`: by `reclaim_victims`, else by `preempt_victims`. No decision depends on this."""
        for function in self._reclaimable if reclaims else self._preemptable:
            left = function(claim, candidates)
            kept = {(victim.job.number, victim.position) for victim in left}
            code = self._obstacles.get(function, partial(_always, Obstacle.PLUGIN))
            for victim in candidates:
                if (victim.job.number, victim.position) not in kept:
                    yield victim, code(victim)
            candidates = left

    # --- figures ----------------------------------------------------------------------------------------------

    def deserved(self) -> Mapping[str, Mapping[str, Fraction]]:
        """Returns the deserved shares of the queues, as the first plug-in says that knows."""
        return next((f.deserved() for f in self._every if f.deserved), {})


def _always(code: Obstacle, _: Victim) -> Obstacle:
    return code


def _filters(named: list[tuple[Counts, Victims]]) -> Filters:
    functions = [function for _, function in named]
    return Filters(*(function in functions for function in OURS))


def _in_order(named: list[tuple[Counts, Victims]], evictable: list[tuple[Counts, Victims]]) -> list[Victims]:
    """The functions that count less first; none if no plug-in of the tiers names victims."""
    return [function for _, function in sorted([*evictable, *named], key=itemgetter(0))] if named else []


def _agreed(functions: Sequence[Victims], claim: Claim, candidates: list[Victim]) -> list[Victim]:
    """The candidates that every function names, in the order of the candidates; none if there is no function."""
    if not functions:
        return []
    for function in functions:
        if not candidates:
            break
        candidates = function(claim, candidates)
    return candidates
