"""Places for given tasks, with the evictions that make their room: for work that has waited for long.

The rules are those of the actions `reclaim` and `preempt`; all tasks get their places by one of them, or none does. The
session decides nothing else, and nothing of it is carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from offers.policy.session.actions import preempt, reclaim
from offers.policy.session.actions.eviction import Scope, Searches, make_room
from offers.policy.session.decisions import Eviction
from offers.policy.session.plugins.interface import Claim
from offers.policy.session.state.jobs import JobState
from offers.policy.session.state.statements import EVICT, Statement

if TYPE_CHECKING:
    from offers.policy.session.session import Session


EVICTING = frozenset({reclaim.name, preempt.name})
"""The actions that end other work."""


class Wanted(NamedTuple):
    """A task that wants a place. `agent`: the only agent that may be chosen; empty: any."""

    job: str
    task: str
    agent: str = ""


class Places(NamedTuple):
    """The agent of each task, and the evictions on these agents, the least important first on each."""

    agents: tuple[str, ...]
    evictions: tuple[Eviction, ...]


def places(session: Session, wanted: Sequence[Wanted]) -> Places | None:
    """The places of some tasks, of jobs of one queue; None if the rules do not give room to all of them. The session is
    open, and no action has run."""
    names = {choice.action.name for choice in session.policy.actions}
    tasks: list[tuple[JobState, int]] = []
    for one in wanted:
        job = session.jobs.get(one.job)
        if job is None or not job.job.preempts or not job.pending:
            return None
        tasks.append((job, job.job.position(one.task)))
    queue = tasks[0][0].queue
    if any(job.queue is not queue for job, _ in tasks):
        return None
    found: Places | None = None
    with session.changes.promises_count(queue):
        if reclaim.name in names and not session.rules.overused(queue):
            searches, scope = reclaim.searches_of(session, queue), reclaim.scope_of(session, queue)
            found = _all(session, wanted, tasks, searches, lambda _: scope, partial(reclaim.may_take, session, queue))
        if found is None and preempt.name in names and all(job.starving for job, _ in tasks):
            searches = preempt.searches_of(session, queue)
            found = _all(session, wanted, tasks, searches, lambda job: preempt.scope_of(session, job), lambda _: True)
    return found


def _all(
    session: Session,
    wanted: Sequence[Wanted],
    tasks: Sequence[tuple[JobState, int]],
    searches: Searches,
    scope: Callable[[JobState], Scope],
    admits: Callable[[Claim], bool],
) -> Places | None:
    statement = session.statement(tasks[0][0])
    agents: list[str] = []
    for one, (job, position) in zip(wanted, tasks, strict=True):
        need = session.needs.of(job.job.tasks[position].template)
        rank = session.snapshot.rank.get(one.agent) if one.agent else None
        claim = Claim(job, position, need)
        may_have = (rank is not None or not one.agent) and admits(claim)
        if not may_have or not make_room(session, statement, claim, scope(job), searches.of(job, need), rank):
            statement.undo()
            return None
        agents.append(session.agents.agents[job.placed[position]].name)
    found = Places(tuple(agents), tuple(_evictions(session, statement)))
    statement.undo()
    return found


def _evictions(session: Session, statement: Statement) -> list[Eviction]:
    return [
        Eviction(one.job.name, one.job.job.tasks[position].name, session.agents.agents[rank].name, statement.job.name)
        for one in statement.operations
        if one.kind == EVICT
        for position, rank in zip(one.positions, one.ranks, strict=True)
    ]
