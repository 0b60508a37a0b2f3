"""The search for room that evictions would make: common to `preempt` and `reclaim`.

The agents are compared by the costs of the victims (`Cost`): the highest priority among them, their number, the sum of
their amounts, then the score of the agent. On one agent the least important tasks leave first; if they use up all that
may be lost, one that is enough alone is tried. Victims that are not needed after all are given back, the most important
first.

Where a limit of the queue stops a task, victims of the queue may run on any agent: the task waits where room is idle,
if there is such an agent. A task that its queue could not hold without the victims either evicts nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from offers.policy.session.columns import Array
from offers.policy.session.composition import Filters
from offers.policy.session.plugins.interface import Claim, Victim
from offers.policy.session.running import NOT_READY
from offers.policy.session.state.jobs import JobState, QueueState
from offers.policy.session.state.search import NOBODY, Cost, Movable, Search
from offers.policy.session.state.statements import EVICT, PIPELINE, RELEASE_PROMISE, Operation, Statement
from offers.policy.session.state.templates import Need

if TYPE_CHECKING:
    from offers.policy.session.session import Session

Choose = Callable[[Claim, list[Victim]], list[Victim]]
FIRST_LOOK = 64
"""Number of tasks that are looked at first where victims may run anywhere; then twice as many, and so on."""


class Scope(NamedTuple):
    """The tasks that may leave for a claim."""

    may_leave: Callable[[Victim], bool]
    """True for candidates."""
    choose: Choose
    """The candidates that are victims. Candidates are in the order of their importance, the least important first."""


def make_room(
    session: Session, statement: Statement, claim: Claim, scope: Scope, search: Search, only: int | None = None
) -> bool:
    """Pipelines a task on the agent where room costs least, and evicts no more than that needs. `search`: for the need
    of the claim, among the tasks that may leave. `only`: the rank of the only agent that may be chosen; None: each may.
    False, and nothing is changed, if there is no such agent."""
    job, position, need = claim
    before = statement.savepoint()
    promised = session.changes.promised.get((job.number, position))
    if promised is not None:
        statement.apply(RELEASE_PROMISE, job, need, position, promised)
    found = _Choice(session, claim, scope, search).best(promised, only)
    if found is None:
        statement.undo(before)
        return False
    rank, victims = found
    for victim in victims:
        row = session.needs.of(victim.task.template)
        statement.apply(EVICT, victim.job, row, victim.position, victim.rank)
    statement.apply(PIPELINE, job, need, position, rank)
    return True


class _Choice:
    """The choice of an agent and of the victims for one claim, as things stand."""

    def __init__(self, session: Session, claim: Claim, scope: Scope, search: Search) -> None:
        self._session, self._claim, self._scope, self._search = session, claim, scope, search
        self._order, self._beside = Importance(session), session.beside(claim.job)
        self._over = session.rules.room(claim.job.queue, claim.need) <= 0
        """A limit of the queue stops the task unless victims leave."""

    def best(self, promised: int | None, only: int | None) -> tuple[int, list[Victim]] | None:
        """The rank of an agent and the victims, the least important first; None if there is none. `promised`: the
        agent on which room was promised to the task; it is taken before others of the same cost. `only`: as for
        `make_room`."""
        session, claim = self._session, self._claim
        if self._over and (not self._ever() or not self._search.helps(self._within_limit([]) is not None)):
            claim.job.over_limit = True
            return None
        best: tuple[Cost, int, list[Victim]] | None = None
        if only is not None:
            best = self._on(only, NOBODY) if session.candidates(claim.need).accepts(only) else None
            return None if best is None else best[1:]
        if promised is not None and session.candidates(claim.need).accepts(promised):
            best = self._on(promised, NOBODY)
            if best is not None and session.fits_later(claim.job, promised, claim.need):
                return best[1:]
        for bound, rank in self._search if not self._over else self._raised():
            if best is not None and best[0] <= bound:
                break
            if rank == promised:
                continue
            found = self._on(rank, bound.key)
            if found is None:
                self._search.set_aside(rank)
            elif best is None or not bound.number or found[0] < best[0]:
                best = found
        return best[1:] if best is not None else None

    def _ever(self) -> bool:
        """False if the queue could not hold the task without all tasks that may leave."""
        session, movable = self._session, self._search.movable
        gone = [movable.total(d) for d in range(len(session.snapshot.dimensions))]
        return session.rules.room(self._claim.job.queue, self._claim.need, gone) > 0

    def _raised(self) -> list[tuple[Cost, int]]:
        """The bounds where a limit stops the task: the best agent with idle room alone, if there is one; else all
        agents, with bounds that count the amounts that must leave for the limit."""
        found: list[tuple[Cost, int]] = []
        number = amounts = 0
        for bound, rank in self._search:
            if not bound.number:
                return [(bound, rank)]
            if not found:
                number, amounts = self._least_for_limit()
            cost = Cost(bound.priority, max(bound.number, number), max(bound.amounts, amounts), bound.key)
            found.append((cost, rank))
        return sorted(found)

    def _least_for_limit(self) -> tuple[int, int]:
        """A lower bound of the number and of the measure of the victims that the limits of the queue ask for."""
        rules, queue, need = self._session.rules, self._claim.job.queue, self._claim.need
        movable, measure = self._search.movable, self._session.measure
        everything = [movable.total(d) for d in range(len(queue.allocated))]
        number = amounts = 0
        for d, _ in need.row:
            gone, low, high = everything.copy(), 0, everything[d]
            while low < high:
                gone[d] = (low + high) // 2
                if rules.room(queue, need, gone) > 0:
                    high = gone[d]
                else:
                    low = gone[d] + 1
            if low:
                number = max(number, -(-low // int(movable.largest(d).max())))
                amounts += measure.weights[d] * measure.at_most(d, low)
        return number, max(amounts, number * int(movable.lightest().min()))

    def _on(self, rank: int, key: int) -> tuple[Cost, int, list[Victim]] | None:
        """The victims that leave if the task waits on one agent, and their cost; None if they are not enough."""
        session, need = self._session, self._claim.need
        future, kept = session.agents.future, self._beside.get(rank)
        lacks = ((d, q - future[d][rank] - (kept[d] if kept is not None else 0)) for d, q in need.row)
        short = {d: amount for d, amount in lacks if amount > 0}
        victims: list[Victim] | None = self._making_room(rank, short) if short else []
        if victims is not None and self._over:
            victims = self._within_limit(victims)
        if victims is None:
            return None
        if len(victims) > 1:
            victims = self._needed(victims, rank, short)
        return self._cost(victims, key), rank, victims

    def _making_room(self, rank: int, short: dict[int, int]) -> list[Victim] | None:
        """Victims on an agent that free the missing amounts, each of which frees some of them."""
        session, scope = self._session, self._scope
        candidates = [victim for victim in session.running_on(rank) if scope.may_leave(victim)]
        if self._first(short, candidates) is None:
            return None
        if len(candidates) > 1:
            candidates.sort(key=self._order.key, reverse=True)
        found = self._first(short, scope.choose(self._claim, candidates))
        if found is not None or len(candidates) == 1:
            return found

        def is_enough(victim: Victim) -> bool:
            row = dict(self._row(victim))
            return all(row.get(d, 0) >= amount for d, amount in short.items())

        return self._one_more([], candidates, is_enough)

    def _one_more(
        self, taken: list[Victim], candidates: Iterable[Victim], is_enough: Callable[[Victim], bool]
    ) -> list[Victim] | None:
        """The victims that are taken and the least important one that is enough beside them; None if there is none. The
        smaller ones before it may have used up all that its job or its queue can lose."""
        tried: set[Hashable] = set()
        for victim in candidates:
            task = victim.task
            need = self._session.needs.of(task.template)
            kind = (victim.job.number, need.number, task.ready, task.critical, task.priority)
            if kind in tried:
                continue
            tried.add(kind)
            if is_enough(victim) and victim in self._scope.choose(self._claim, [*taken, victim]):
                return [*taken, victim]
        return None

    def _first(self, short: dict[int, int], victims: list[Victim]) -> list[Victim] | None:
        """The first of some victims that together free the missing amounts, each of which frees some of them; None if
        all are not enough."""
        left, found = dict(short), []
        for victim in victims:
            helps = False
            for d, amount in self._row(victim):
                if d in left:
                    helps = True
                    left[d] -= amount
                    if left[d] <= 0:
                        del left[d]
            if helps:
                found.append(victim)
            if not left:
                return found
        return None

    def _within_limit(self, victims: list[Victim]) -> list[Victim] | None:
        """The victims, and more of them anywhere until the limits of the queue admit the task."""
        rules, queue, need = self._session.rules, self._claim.job.queue, self._claim.need
        gone = self._gone(victims)
        if rules.room(queue, need, gone) > 0:
            return victims
        wanted = {d for d, _ in need.row}
        found, looked_at = list(victims), list(victims)
        for victim in self._anywhere(looked_at):
            row = self._row(victim)
            if victim.job.queue is queue and any(d in wanted for d, _ in row):
                found.append(victim)
                for d, amount in row:
                    gone[d] += amount
                if rules.room(queue, need, gone) > 0:
                    return found

        def is_enough(victim: Victim) -> bool:
            return victim.job.queue is queue and rules.room(queue, need, self._gone([*victims, victim])) > 0

        return self._one_more(victims, looked_at[len(victims) :], is_enough)

    def _anywhere(self, look: list[Victim]) -> Iterator[Victim]:
        """The victims on all agents beside those in `look`, which are taken; the least important first. Candidates are
        added to `look`."""
        session, scope = self._session, self._scope
        running = session.snapshot.running
        jobs = [job for number in self._search.movable.jobs() if (job := session.job(running.name(number))) is not None]
        jobs.sort(key=self._order.of_job, reverse=True)
        known = {(victim.job.number, victim.position) for victim in look}
        looked = FIRST_LOOK
        unready = self._search.movable.unready_jobs()
        turns = [(job, False) for job in jobs if job.name in unready]
        turns += [(job, True) for job in jobs]
        for number, (job, ready) in enumerate(turns, 1):
            more = [
                victim
                for victim in session.running_of(job)
                if victim.task.ready is ready and (job.number, victim.position) not in known and scope.may_leave(victim)
            ]
            more.sort(key=self._order.key, reverse=True)
            look += more
            if len(look) >= looked or number == len(turns):
                looked = 2 * len(look)
                for victim in scope.choose(self._claim, look):
                    if (victim.job.number, victim.position) not in known:
                        known.add((victim.job.number, victim.position))
                        yield victim

    def _needed(self, victims: list[Victim], rank: int, short: dict[int, int]) -> list[Victim]:
        """The victims without those that can stay, the most important of which are given back first."""
        rules, queue, need = self._session.rules, self._claim.job.queue, self._claim.need
        spare = {d: -amount for d, amount in short.items()}
        for victim in victims:
            if victim.rank == rank:
                for d, amount in self._row(victim):
                    if d in spare:
                        spare[d] += amount
        gone = self._gone(victims) if self._over else []
        stay: set[tuple[int, int]] = set()
        for victim in sorted(victims, key=self._order.key):
            row = self._row(victim)
            if victim.rank == rank and any(amount > spare[d] for d, amount in row if d in spare):
                continue
            if self._over and victim.job.queue is queue:
                less = gone.copy()
                for d, amount in row:
                    less[d] -= amount
                if rules.room(queue, need, less) <= 0:
                    continue
                gone = less
            stay.add((victim.job.number, victim.position))
            if victim.rank == rank:
                for d, amount in row:
                    if d in spare:
                        spare[d] -= amount
        return [victim for victim in victims if (victim.job.number, victim.position) not in stay] if stay else victims

    def _cost(self, victims: list[Victim], key: int) -> Cost:
        highest = max(map(self._priority, victims), default=NOBODY)
        return Cost(highest, len(victims), sum(self._session.measure.of(self._row(one)) for one in victims), key)

    def _priority(self, victim: Victim) -> int:
        if not victim.task.ready:
            return NOT_READY
        return victim.job.priority if victim.job is not self._claim.job else victim.task.priority

    def _row(self, victim: Victim) -> list[tuple[int, int]]:
        return self._session.needs.of(victim.task.template).row

    def _gone(self, victims: Iterable[Victim]) -> list[int]:
        """The amounts of victims of the own queue, by dimension."""
        gone = [0] * len(self._session.snapshot.dimensions)
        for victim in victims:
            if victim.job.queue is self._claim.job.queue:
                for d, amount in self._row(victim):
                    gone[d] += amount
        return gone


def give_back(session: Session, begin: int) -> None:
    """Lets the victims of an action stay that others have made needless, the most important first. `begin`: number of
    operations that were committed before the action."""
    evictions = [operation for operation, _ in session.changes.committed[begin:] if operation.kind == EVICT]
    if len(evictions) < 2:
        return
    order, future, stay = Importance(session), session.agents.future, set[int]()
    keyed = [
        (order.key(Victim(one.job, one.positions[0], one.ranks[0])), number) for number, one in enumerate(evictions)
    ]
    for _, number in sorted(keyed):
        one = evictions[number]
        rank = one.ranks[0]
        if all(amount <= future[d][rank] for d, amount in one.need.row) and _admitted(session, one):
            session.changes.take_back(one)
            stay.add(id(one))
    session.changes.committed[begin:] = [made for made in session.changes.committed[begin:] if id(made[0]) not in stay]


def _admitted(session: Session, eviction: Operation) -> bool:
    """True if the limits of a queue hold the tasks that the session has placed for it beside a victim that stays."""
    queue, needs = eviction.job.queue, session.needs
    promised = queue.promised
    placed = {needs.of(job.job.tasks[position].template) for job in queue.jobs for position in job.placed}
    for need in placed:
        gone = [-amount for amount in promised]
        for d, amount in need.row:
            gone[d] += amount
        for d, amount in eviction.need.row:
            gone[d] -= amount
        if session.rules.room(queue, need, gone) <= 0:
            return False
    return True


class Importance:
    """Keys of tasks: the greater, the less important. Tasks that are not ready are the least important; then job order,
    then task order."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._jobs: dict[int, tuple[Any, ...]] = {}

    def of_job(self, job: JobState) -> tuple[Any, ...]:
        """The key of a job, as things stood when it was first asked for."""
        found = self._jobs.get(job.number)
        if found is None:
            found = self._jobs[job.number] = self._session.rules.job_key(job)
        return found

    def key(self, victim: Victim) -> tuple[Any, ...]:
        """The key of a task."""
        return (
            not victim.task.ready,
            self.of_job(victim.job),
            self._session.rules.task_key(victim.job.job, victim.position),
        )


class Searches:
    """The searches of one queue in one action. Tasks that are alike share one, as far as the plug-ins allow."""

    def __init__(
        self,
        session: Session,
        tasks: Callable[[JobState, Need], tuple[Hashable, Callable[[], Array]]],
        *,
        shared: bool,
        between: bool = True,
    ) -> None:
        """`tasks`: a key of the tasks that could leave for a claim, equal for claims with the same, and their numbers
        in the columns. `shared`: the possible victims of a claim depend on its need and that key alone. `between`: the
        victims belong to other jobs, so the priorities of jobs count."""
        self._session, self._tasks, self._between = session, tasks, between
        self._shared = shared and session.decides_alone
        self._movable: dict[Hashable, Movable] = {}
        self._found: dict[tuple[int, Hashable, bool], Search] = {}

    def of(self, job: JobState, need: Need) -> Search:
        """The search for a task of a job."""
        key, numbers = self._tasks(job, need)
        movable = self._movable.get(key)
        if movable is None or not movable.holds():
            running = self._session.snapshot.running
            tasks = numbers()
            priorities = running.importance(tasks) if self._between else np.full(len(tasks), NOBODY)
            movable = self._movable[key] = Movable(self._session, tasks, priorities)
        beside = self._session.beside(job)
        if job.name in self._session.paused:
            return self._session.search(need, movable, beside)
        kind = need.number, key, bool(beside)
        search = self._found.get(kind)
        if search is None or search.movable is not movable or not self._shared:
            search = self._found[kind] = self._session.search(need, movable, beside)
        return search


def tasks_of(session: Session, queues: Iterable[QueueState], filters: Filters) -> Array:
    """The numbers of the running tasks in some queues that the plug-ins do not refuse for every claim."""
    running = session.snapshot.running
    tasks = running.tasks_in(running.queues[queue.name] for queue in queues if queue.name in running.queues)
    if filters.gang:
        spare = (running.least <= 1) | (running.ready > running.least)
        for job in session.changes.grown.values():
            number = running.jobs.get(job.name)
            if number is not None:
                spare[number] = job.min_available <= 1 or job.ready > job.min_available
        tasks = tasks[spare[running.job[tasks]]]
    return tasks[~running.critical[tasks]] if filters.conformance else tasks
