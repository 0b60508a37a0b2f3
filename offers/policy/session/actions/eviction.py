"""The search for room that evictions would make: common to `preempt` and `reclaim`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from offers.policy.session.plugins.interface import Claim, Victim
from offers.policy.session.state.ranking import Search
from offers.policy.session.state.statements import EVICT, PIPELINE, RELEASE_PROMISE, Statement
from offers.policy.session.state.templates import Need

if TYPE_CHECKING:
    from offers.policy.session.session import Session

Choose = Callable[[Claim, list[Victim]], list[Victim]]


def make_room(
    session: Session,
    statement: Statement,
    claim: Claim,
    may_leave: Callable[[Victim], bool],
    choose: Choose,
    search: Search | None = None,
) -> bool:
    """Pipelines a task on the best agent on which it fits after evictions, and evicts no more than that needs.

    `may_leave` says which running tasks are candidates, `choose` which candidates are victims. Candidates are in the
    order of their importance, the least important first: so they are counted, and so they are evicted. `search`: the
    search that all tasks like this one share; None if there are none. False, and nothing is changed, if there is no
    such agent."""
    job, position, need = claim
    before = statement.savepoint()
    table, order = session.agents, _Importance(session)
    promised = session.changes.promised.get((job.number, position))
    if promised is not None:
        statement.apply(RELEASE_PROMISE, job, need, position, promised)
    for rank in _ranks(session, need, promised, search if search is not None else session.ranking(need)):
        if not table.fits_later(rank, need):
            short = {d: q - table.future[d][rank] for d, q in need.row if q > table.future[d][rank]}
            candidates = [victim for victim in session.running_on(rank) if may_leave(victim)]
            victims: list[Victim] = []
            if _enough(session, short, candidates):
                candidates.sort(key=order.key, reverse=True)
                victims = choose(claim, candidates)
            if not _enough(session, short, victims):
                if search is not None and rank != promised:
                    search.set_aside(rank)
                continue
            for victim in victims:
                row = session.needs.of(victim.task.template)
                if any(d in short for d, _ in row.row):
                    statement.apply(EVICT, victim.job, row, victim.position, rank)
                    for d, amount in row.row:
                        if d in short:
                            short[d] -= amount
                            if short[d] <= 0:
                                del short[d]
                if not short:
                    break
        statement.apply(PIPELINE, job, need, position, rank)
        return True
    statement.undo(before)
    return False


def _ranks(session: Session, need: Need, first: int | None, ranking: Iterable[int]) -> Iterator[int]:
    """Agents that pass the predicates, best first; the one with promised room before all others."""
    candidates = session.candidates(need)
    if first is not None and candidates.accepts(first):
        yield first
    for rank in ranking:
        if rank != first:
            yield rank


def _enough(session: Session, short: dict[int, int], victims: list[Victim]) -> bool:
    """True if the victims together free the missing amounts."""
    left = dict(short)
    for victim in victims:
        for d, amount in session.needs.of(victim.task.template).row:
            if d in left:
                left[d] -= amount
                if left[d] <= 0:
                    del left[d]
        if not left:
            return True
    return not left


class _Importance:
    """Keys of tasks: the greater, the less important. Job order first, then task order."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._version = -1
        self._jobs: dict[int, tuple[Any, ...]] = {}

    def key(self, victim: Victim) -> tuple[Any, ...]:
        """The key as things stand."""
        rules = self._session.rules
        if self._version != self._session.changes.version:
            self._version = self._session.changes.version
            self._jobs.clear()
        job = self._jobs.get(victim.job.number)
        if job is None:
            job = self._jobs[victim.job.number] = rules.job_key(victim.job)
        return (job, rules.task_key(victim.job.job, victim.position))
