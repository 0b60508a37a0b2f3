"""Evictions: how a task gets room that other work has. One subject, in the order of a session.

1. *Who may ask.* The action `preempt` gives jobs below their minimum the room of less important jobs of their queue.
   The action `reclaim` gives a queue back, up to its deserved share, the amounts that other queues have above theirs.
   Each job has one turn in a round of portions. A turn is left out if a job that is alike had one in vain and nothing
   has changed since that could make it help.
2. *One turn.* A statement per job: `make_room` for one task after the other. A job that reaches its minimum commits the
   statement if something had to be evicted; from then on each further task of `reclaim` is a statement of its own. All
   else is undone: work that needs no victims is left to `allocate`.
3. *One task* (`make_room`, `_Choice`). The agents are compared by the costs of the victims (`Cost`): the highest
   priority among them, their number, the sum of their amounts, then the score of the agent. On one agent the least
   important tasks leave first; if they use up all that may be lost, one that is enough alone is tried. Victims that are
   not needed after all are given back, the most important first. Where a limit of the queue stops a task, victims of
   the queue may run on any agent: the task waits where room is idle, if there is such an agent. A task that its queue
   could not hold without the victims either evicts nothing.
4. *Which agents* (`Search`). A search knows a lower bound of the cost on each agent, for all agents from one
   computation over the columns of running tasks (`Movable`). An agent is judged exactly only while its bound is below
   the best exact cost so far. Bounds count too much: evictions of this session count twice, and a plug-in may refuse
   tasks that the columns allow. They never count less.
5. *At the end of an action* (`give_back`) the victims of this one and of those before stay that others have made
   needless.
6. *Old work* (`places`). The places for given tasks by the same rules; nothing of it is carried out.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from offers.policy.amounts import THOUSAND
from offers.policy.session.allocation import BestJobs
from offers.policy.session.columns import Array
from offers.policy.session.composition import Filters
from offers.policy.session.decisions import Eviction
from offers.policy.session.kept import Rows
from offers.policy.session.model import Template
from offers.policy.session.plugins.interface import Argument, Claim, Victim
from offers.policy.session.running import NOT_READY
from offers.policy.session.state.candidates import NOT
from offers.policy.session.state.jobs import JobState, QueueState
from offers.policy.session.state.statements import EVICT, PIPELINE, RELEASE_PROMISE, Operation, Statement
from offers.policy.session.state.templates import Need

if TYPE_CHECKING:
    from offers.policy.session.session import Session

PREEMPT, RECLAIM = "preempt", "reclaim"
EVICTING = frozenset({PREEMPT, RECLAIM})
"""The actions that end other work."""
WITHIN_JOBS = f"{PREEMPT} within jobs"
FIRST_MOVABLE = 64
"""Number of tasks that are looked at first where victims may run anywhere; then twice as many, and so on."""
NOBODY = -(2**62)
"""Stands for the priority of the most important victim where there is none, or where priorities are not known."""
CLASSES = 64
"""Number of priorities that bounds tell apart; higher ones count as the last of these."""
WHOLE = 2**56
"""The sum of all agents in the measure of amounts."""

Attempt = tuple[Hashable, ...]
Choose = Callable[[Claim, list[Victim]], list[Victim]]


class Scope(NamedTuple):
    """The tasks that may leave for a claim."""

    may_leave: Callable[[Victim], bool]
    """True for candidates."""
    choose: Choose
    """The candidates that are victims. Candidates are in the order of their importance, the least important first."""


# --- the action preempt ---------------------------------------------------------------------------------------


class Preempt:
    """Within a queue, jobs below their minimum take the room of less important jobs. With the argument ``withinJobs`` a
    pending task may also take the room of a less important running task of its own job."""

    name = PREEMPT
    arguments: Mapping[str, Argument] = {"withinJobs": Argument("boolean", False)}

    @staticmethod
    def run(session: Session, arguments: Mapping[str, Any]) -> None:
        """See `Action.run`."""
        queues = list(session.queues.values())
        while queues:
            queue = min(queues, key=session.rules.queue_key)
            queues.remove(queue)
            with session.changes.promises_count(queue):
                _between_jobs(session, queue)
                if arguments["withinJobs"]:
                    _within_jobs(session, queue)
        give_back(session)


def _between_jobs(session: Session, queue: QueueState) -> None:
    if not queue.running:
        return  # Without evictions every statement would be undone.
    rules, searches, had_turn = session.rules, _preempting(session, queue), session.memory.had_turn(PREEMPT)
    waiting = [job for job in queue.jobs if job.starving and session.may_evict(job) and job.name not in had_turn]
    starving = BestJobs(waiting, rules.job_key, session.changes.job_log)
    turns = _Turns(session, PREEMPT, lambda: not session.changes.evictions)
    while (job := starving.pop()) is not None:
        may_share = rules.victims_by_priority and not job.running
        attempt = _attempt(session, PREEMPT, job, job.priority) if may_share else None
        if turns.begin(job, attempt, session.snapshot.work_changes.get(queue.name, 0)):
            turns.end(is_barren=_take_room(session, job, searches))
        elif turns.is_late:
            return


def _take_room(session: Session, job: JobState, searches: Searches) -> bool:
    """Gives a job its turn. True: no agent had enough for any of its tasks."""
    statement = session.statement(job)
    tasks = session.claiming(job)
    failed: dict[int, int] = {}
    barren = True
    for tried, position in enumerate(tasks):
        if not job.starving or job.ready + job.waiting + len(tasks) - tried < job.min_available:
            break
        need = session.needs.of(job.job.tasks[position].template)
        if failed.get(need.number) == session.changes.version:
            continue
        scope = _of_own_queue(session, job)
        search = searches.of(job, need)
        if not make_room(session, statement, Claim(job, position, need), scope, search):
            failed[need.number] = session.changes.version
            barren = barren and search.barren
        else:
            barren = False
    _end(statement, session.rules.pipelined(job))
    return barren


def _of_own_queue(session: Session, job: JobState) -> Scope:
    """The tasks of its queue that may leave for a job."""
    return Scope(lambda victim: victim.job.queue is job.queue and victim.job is not job, session.rules.preempt_victims)


def _preempting(session: Session, queue: QueueState) -> Searches:
    """The searches for the jobs of a queue."""
    return Searches(session, _of_lower_priority(session, queue), shared=session.rules.victims_by_priority)


def _of_lower_priority(
    session: Session, queue: QueueState
) -> Callable[[JobState, Need], tuple[Hashable, Callable[[], Array]]]:
    """The tasks of other jobs of a queue that could leave; see `Searches`."""
    filters = session.rules.preempt_filters

    def tasks(job: JobState, _: Need) -> tuple[Hashable, Callable[[], Array]]:
        def numbers() -> Array:
            running, tasks = session.snapshot.running, _tasks_of(session, [queue], filters)
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

    had_turn = session.memory.had_turn(WITHIN_JOBS)
    while (job := jobs.pop()) is not None:
        if not job.running or job.name in had_turn or job.name in session.closed:
            continue
        if session.portion.ends():
            return
        had_turn.add(job.name)
        searches = Searches(session, own, shared=False, between=False)
        for position in session.claiming(job):
            need = session.needs.of(job.job.tasks[position].template)
            statement = session.statement(job)
            scope = Scope(lambda victim, job=job: victim.job is job, rules.preempt_victims)  # type: ignore[misc]
            make_room(session, statement, Claim(job, position, need), scope, searches.of(job, need))
            if not statement.evictions:
                statement.undo()
                break
            statement.commit()


# --- the action reclaim ---------------------------------------------------------------------------------------


class Reclaim:
    """Queues take back, up to their deserved shares, amounts that other queues have above theirs."""

    name = RECLAIM
    arguments: Mapping[str, Argument] = {}

    @staticmethod
    def run(session: Session, arguments: Mapping[str, Any]) -> None:  # noqa: ARG004
        """See `Action.run`."""
        rules, had_turn = session.rules, session.memory.had_turn(RECLAIM)
        queues, begin = list(session.queues.values()), len(session.changes.committed)
        giving = {queue.name for queue in queues if queue.running and queue.queue.reclaimable}
        whole = Need(session.snapshot, Template(tuple((name, 1) for name in session.snapshot.dimensions)), -1, {})
        if session.decides_alone and not any(rules.may_lose(queue, whole) for queue in queues if queue.name in giving):
            return  # No queue comes above its share by this action, so there is nothing to evict.
        idle: list[Operation] = []
        while queues:
            queue = min(queues, key=rules.queue_key)
            queues.remove(queue)
            if not giving - {queue.name}:
                continue  # Without evictions every statement would be undone.
            wanting = [job for job in queue.jobs if job.pending and session.may_evict(job) and job.name not in had_turn]
            jobs = BestJobs(wanting, rules.job_key, session.changes.job_log)
            with session.changes.promises_count(queue):
                if not _for_queue(session, queue, jobs, idle):
                    break
        give_back(session)
        for operation in reversed(idle):
            session.changes.take_back(operation)
        for kind, job, need, (position, *_), (rank, *_) in idle if len(session.changes.committed) > begin else ():
            if kind == PIPELINE and (job.number, position) not in session.changes.promised:
                session.changes.promise(job, need, position, rank)


def _for_queue(session: Session, queue: QueueState, jobs: BestJobs, idle: list[Operation]) -> bool:
    """Gives the jobs of a queue their turns. `idle`: gets the operations of the jobs that need no eviction; their room
    and their part of the limit are not for jobs that come later. False: some jobs have to wait for the next portion."""
    rules, searches = session.rules, _reclaiming(session, queue)
    may_share = rules.victims_by_queue and rules.missing is not None
    turns = _Turns(session, RECLAIM, lambda: not session.changes.version)
    while not rules.overused(queue) and (job := jobs.pop()) is not None:
        attempt = _attempt(session, RECLAIM, job) if may_share else None
        if turns.begin(job, attempt, session.snapshot.changes):
            turns.end(is_barren=_take_back(session, queue, job, searches, idle))
        elif turns.is_late:
            return False
    return True


def _take_back(session: Session, queue: QueueState, job: JobState, searches: Searches, idle: list[Operation]) -> bool:
    """Gives a job its turn. `idle`: as for `_for_queue`. True: no agent had enough for any of its tasks."""
    rules, scope = session.rules, _of_others(session, queue)
    statement, barren = session.statement(job), True
    failed: dict[int, int] = {}
    for position in session.claiming(job):
        need = session.needs.of(job.job.tasks[position].template)
        if failed.get(need.number) == session.changes.version:
            continue
        claim = Claim(job, position, need)
        if not _may_take(session, queue, claim):
            failed[need.number] = session.changes.version
            continue
        search = searches.of(job, need)
        if not make_room(session, statement, claim, scope, search):
            failed[need.number] = session.changes.version
            barren = barren and search.barren
            continue
        barren = False
        if rules.pipelined(job):
            _end(statement, idle=idle)
            statement = session.statement(job)
    _end(statement, rules.pipelined(job), idle)
    return barren


def _may_take(session: Session, queue: QueueState, claim: Claim) -> bool:
    """True if the limits and the deserved share of the queue hold the task beside the promises to others."""
    rules, own = session.rules, (claim.job.number, claim.position) in session.changes.promised
    for d, amount in claim.need.row if own else ():
        queue.allocated[d] -= amount
    try:
        return rules.room(queue, claim.need) > 0 and rules.allocatable(queue, claim.need)
    finally:
        for d, amount in claim.need.row if own else ():
            queue.allocated[d] += amount


def _of_others(session: Session, queue: QueueState) -> Scope:
    """The tasks that may leave for a queue."""
    return Scope(
        lambda victim: victim.job.queue is not queue and victim.job.queue.queue.reclaimable,
        session.rules.reclaim_victims,
    )


def _reclaiming(session: Session, queue: QueueState) -> Searches:
    """The searches for a queue."""
    return Searches(session, _of_giving_queues(session, queue), shared=session.rules.victims_by_queue)


def _of_giving_queues(
    session: Session, queue: QueueState
) -> Callable[[JobState, Need], tuple[Hashable, Callable[[], Array]]]:
    """The tasks of other queues that could leave; see `Searches`."""
    rules = session.rules

    def tasks(_: JobState, need: Need) -> tuple[Hashable, Callable[[], Array]]:
        giving = [
            other
            for other in session.queues.values()
            if other is not queue and other.running and other.queue.reclaimable and rules.may_lose(other, need)
        ]

        def numbers() -> Array:
            return _tasks_of(session, giving, rules.reclaim_filters)

        return tuple(other.name for other in giving), numbers

    return tasks


# --- turns of jobs --------------------------------------------------------------------------------------------


class _Turns:
    """The turns of jobs in an action. A job has none if one that is alike had one in vain: in this session until
    something is decided, and in later ones until something changes that could make the attempt help."""

    def __init__(self, session: Session, action: str, is_first: Callable[[], bool]) -> None:
        """`is_first`: True while this session has changed nothing on which the attempts depend."""
        self._session, self._is_first = session, is_first
        self._had_turn = session.memory.had_turn(action)
        self._attempt: Attempt | None = None
        self._lasting: tuple[Hashable, Hashable] | None = None
        self._begin = 0
        self.is_late = False
        """The next job has to wait for the next portion."""

    def begin(self, job: JobState, attempt: Attempt | None, work: int) -> bool:
        """True if a job has its turn; `end` must follow. `attempt`: see `_attempt`. `work`: number of changes of the
        tasks that could be victims."""
        session, memory = self._session, self._session.memory
        self._attempt, self._begin = attempt, session.changes.version
        if attempt is not None and session.dead_ends.get(attempt) == self._begin:
            return False
        self.is_late = session.portion.is_late()
        if self.is_late:
            return False
        self._lasting = session.lasting(attempt, job, work)
        if self._lasting is not None and self._is_first() and memory.is_vain(*self._lasting):
            self._had_turn.add(job.name)
            return False
        self.is_late = session.portion.ends()
        if not self.is_late:
            self._had_turn.add(job.name)
        return not self.is_late

    def end(self, *, is_barren: bool) -> None:
        """The turn is over. `is_barren`: no agent has enough for any task of the job, even if no plug-in objects."""
        session = self._session
        if self._attempt is not None and session.changes.version == self._begin:
            session.dead_ends[self._attempt] = self._begin
            if self._lasting is not None and is_barren and self._is_first():
                session.memory.in_vain(*self._lasting)


def _attempt(session: Session, action: str, job: JobState, *more: Hashable) -> Attempt | None:
    """A key of the attempt, equal for jobs that are alike; None if the job is like no other. `more`: further figures on
    which the attempt depends."""
    if job.job.template is None or job.name in session.paused:
        return None
    need, missing = session.needs.of(job.job.template), job.min_available - job.ready - job.waiting
    held = session.served(job), bool(session.beside(job)), session.barred(job)
    return (action, job.queue.name, need.number, missing, job.pending, *held, *more)


def _end(statement: Statement, complete: bool = True, idle: list[Operation] | None = None) -> None:
    """Ends a statement. `idle`: gets the operations of one without evictions, which stay in force; None: they are
    undone."""
    if complete and statement.evictions:
        statement.commit()
    elif complete and idle is not None:
        idle += statement.taken()
    else:
        statement.undo()


# --- the room of one task -------------------------------------------------------------------------------------


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
    choice = _Choice(session, claim, scope, search).best(promised, only)
    if choice is None:
        statement.undo(before)
        return False
    rank, victims = choice
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
        self._barred = session.barred(claim.job)
        self._over = session.rules.room(claim.job.queue, claim.need) <= 0
        """A limit of the queue stops the task unless victims leave."""

    def best(self, promised: int | None, only: int | None) -> tuple[int, list[Victim]] | None:
        """The rank of an agent and the victims, the least important first; None if there is none. `promised`: the
        agent on which room was promised to the task; it is taken before others of the same cost. `only`: as for
        `make_room`."""
        session, claim = self._session, self._claim
        if self._over and (not self._ever() or not self._search.helps(self._within_limit([]) is not None)):
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
            choice = self._on(rank, bound.key)
            if choice is None:
                self._search.set_aside(rank)
            elif best is None or not bound.number or choice[0] < best[0]:
                best = choice
        return best[1:] if best is not None else None

    def _ever(self) -> bool:
        """False if the queue could not hold the task without all tasks that may leave."""
        session, movable = self._session, self._search.movable
        gone = [movable.total(d) for d in range(len(session.snapshot.dimensions))]
        return session.rules.room(self._claim.job.queue, self._claim.need, gone) > 0

    def _raised(self) -> list[tuple[Cost, int]]:
        """The bounds where a limit stops the task: the best agent with idle room alone, if there is one; else all
        agents, with bounds that count the amounts that must leave for the limit."""
        raised: list[tuple[Cost, int]] = []
        number = amounts = 0
        for bound, rank in self._search:
            if not bound.number:
                return [(bound, rank)]
            if not raised:
                number, amounts = self._least_for_limit()
            cost = Cost(bound.priority, max(bound.number, number), max(bound.amounts, amounts), bound.key)
            raised.append((cost, rank))
        return sorted(raised)

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
        if short and rank in self._barred:
            return None
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
        victims = self._first(short, scope.choose(self._claim, candidates))
        if victims is not None or len(candidates) == 1:
            return victims

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
        left, chosen = dict(short), []
        for victim in victims:
            helps = False
            for d, amount in self._row(victim):
                if d in left:
                    helps = True
                    left[d] -= amount
                    if left[d] <= 0:
                        del left[d]
            if helps:
                chosen.append(victim)
            if not left:
                return chosen
        return None

    def _within_limit(self, victims: list[Victim]) -> list[Victim] | None:
        """The victims, and more of them anywhere until the limits of the queue admit the task."""
        rules, queue, need = self._session.rules, self._claim.job.queue, self._claim.need
        gone = self._gone(victims)
        if rules.room(queue, need, gone) > 0:
            return victims
        dimensions = {d for d, _ in need.row}
        kept, looked_at = list(victims), list(victims)
        for victim in self._anywhere(looked_at):
            row = self._row(victim)
            if victim.job.queue is queue and any(d in dimensions for d, _ in row):
                kept.append(victim)
                for d, amount in row:
                    gone[d] += amount
                if rules.room(queue, need, gone) > 0:
                    return kept

        def is_enough(victim: Victim) -> bool:
            return victim.job.queue is queue and rules.room(queue, need, self._gone([*victims, victim])) > 0

        return self._one_more(victims, looked_at[len(victims) :], is_enough)

    def _anywhere(self, some: list[Victim]) -> Iterator[Victim]:
        """The victims on all agents beside those in `some`, which are taken; the least important first. Candidates are
        added to `some`."""
        session, scope = self._session, self._scope
        running = session.snapshot.running
        jobs = [job for number in self._search.movable.jobs() if (job := session.job(running.name(number))) is not None]
        jobs.sort(key=self._order.of_job, reverse=True)
        known = {(victim.job.number, victim.position) for victim in some}
        looked = FIRST_MOVABLE
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
            some += more
            if len(some) >= looked or number == len(turns):
                looked = 2 * len(some)
                for victim in scope.choose(self._claim, some):
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
        return Cost(highest, len(victims), sum(self._session.measure.of(self._row(victim)) for victim in victims), key)

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


class Importance:
    """Keys of tasks: the greater, the less important. Tasks that are not ready are the least important; then job order,
    then task order."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._jobs: dict[int, tuple[Any, ...]] = {}

    def of_job(self, job: JobState) -> tuple[Any, ...]:
        """The key of a job, as things stood when it was first asked for."""
        key = self._jobs.get(job.number)
        if key is None:
            key = self._jobs[job.number] = self._session.rules.job_key(job)
        return key

    def key(self, victim: Victim) -> tuple[Any, ...]:
        """The key of a task."""
        return (
            not victim.task.ready,
            self.of_job(victim.job),
            self._session.rules.task_key(victim.job.job, victim.position),
        )


# --- victims that are not needed after all --------------------------------------------------------------------


def give_back(session: Session) -> None:
    """Lets the victims of the actions so far stay that others have made needless, the most important first."""
    committed = session.changes.committed
    evictions = [operation for operation, _ in committed if operation.kind == EVICT]
    if len(evictions) < 2:
        return
    order, future, stay = Importance(session), session.agents.future, set[int]()
    keyed = [
        (order.key(Victim(eviction.job, eviction.positions[0], eviction.ranks[0])), number)
        for number, eviction in enumerate(evictions)
    ]
    for _, number in sorted(keyed):
        eviction = evictions[number]
        rank = eviction.ranks[0]
        if all(amount <= future[d][rank] for d, amount in eviction.need.row) and _admitted(session, eviction):
            session.changes.take_back(eviction)
            stay.add(id(eviction))
    if stay:
        gone = [number for number, (operation, _) in enumerate(committed) if id(operation) in stay]
        session.sequence = [(number - bisect_left(gone, number), step) for number, step in session.sequence]
        committed[:] = [made for made in committed if id(made[0]) not in stay]


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


# --- the agents, the cheapest first ---------------------------------------------------------------------------


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
        self._searches: dict[tuple[int, Hashable, bool], Search] = {}

    def of(self, job: JobState, need: Need) -> Search:
        """The search for a task of a job."""
        key, numbers = self._tasks(job, need)
        movable = self._movable.get(key)
        if movable is None or not movable.holds():
            running = self._session.snapshot.running
            tasks = numbers()
            priorities = running.importance(tasks) if self._between else np.full(len(tasks), NOBODY)
            movable = self._movable[key] = Movable(self._session, tasks, priorities)
        beside, barred = self._session.beside(job), self._session.barred(job)
        if job.name in self._session.paused:
            return Search(self._session, need, movable, beside, barred)
        kind = need.number, key, bool(beside)
        search = self._searches.get(kind)
        if search is None or search.movable is not movable or not self._shared:
            search = self._searches[kind] = Search(self._session, need, movable, beside, barred)
        return search


def _tasks_of(session: Session, queues: Iterable[QueueState], filters: Filters) -> Array:
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


class Cost(NamedTuple):
    """The cost of victims: the least is the best."""

    priority: int
    """The highest priority among the victims; `NOBODY` without victims."""
    number: int
    amounts: int
    """The sum of the amounts of all victims; see `Measure`."""
    key: int
    """The score of the agent as `Candidates` has it: the higher score, then the lower name."""


class Measure:
    """Makes amounts of several dimensions one number: the sum of their parts of all that the agents have. Amounts count
    in thousandths of displayed units, rounded up, so that the unit of a dimension changes no comparison."""

    def __init__(self, totals: Iterable[int], units: Iterable[int]) -> None:
        """`units`: how many integer units one displayed unit has, by dimension (1: a count)."""
        self._units = list(units)
        self.plain = all(unit in (1, THOUSAND) for unit in self._units)
        """True if all amounts count as they are."""
        self.weights = [0 for _ in self._units]
        for d, total in enumerate(totals):
            whole = self.at_most(d, total)
            self.weights[d] = WHOLE // whole if whole else 0

    def of(self, row: Iterable[tuple[int, int]]) -> int:
        """The measure of pairs of dimension and amount."""
        weights = self.weights
        if self.plain:
            return sum(weights[d] * amount for d, amount in row)
        return sum(weights[d] * -self.at_most(d, -amount) for d, amount in row)

    @overload
    def at_most(self, d: int, amount: int) -> int: ...
    @overload
    def at_most(self, d: int, amount: Array) -> Array: ...
    def at_most(self, d: int, amount: int | Array) -> int | Array:
        """An amount of a dimension as the weights count it, rounded down."""
        unit = self._units[d]
        return amount if unit in (1, THOUSAND) else amount * THOUSAND // unit


class Movable:
    """Sums over the running tasks that could be victims, by agent. They stay true for later states that are reached by
    further operations: then fewer tasks can be victims."""

    def __init__(self, session: Session, tasks: Array, classes: Array) -> None:
        """`tasks`: numbers of tasks in the columns. `classes`: the priority of each of these."""
        running, count = session.snapshot.running, len(session.agents)
        self._running = running
        rank = running.rank[tasks]
        known = rank >= 0
        self._tasks, self._rank = tasks[known], rank[known]
        self._job = running.job[self._tasks]
        self._amounts = running.amounts
        self._count, self._measure = count, session.measure
        priorities, self._class = np.unique(classes[known], return_inverse=True)
        self.priorities: list[int] = priorities[:CLASSES].tolist()
        """The priorities of the tasks, ascending."""
        self._class = np.minimum(self._class, CLASSES - 1)
        self._sums: dict[int, Array] = {}
        self._largest: dict[int, Array] = {}
        self._lightest: Array | None = None
        self._of_rank: dict[int, tuple[list[list[int]], list[int], list[int]]] = {}
        self._version, self._changes = session.changes.version, session.changes
        self._undone = len(session.changes.undone)

    def holds(self) -> bool:
        """False: the state was undone to one before these sums were made."""
        undone = self._changes.undone
        if any(version < self._version for version in undone[self._undone :]):
            return False
        self._undone = len(undone)
        return True

    def __bool__(self) -> bool:
        return len(self._tasks) > 0

    def sums(self, d: int) -> Array:
        """The amounts of a dimension by priority and rank, each with those of lower priorities."""
        sums = self._sums.get(d)
        if sums is None:
            place = self._class * self._count + self._rank
            width = len(self.priorities)
            plain = np.bincount(place, weights=self._amounts[d][self._tasks], minlength=width * self._count)
            sums = self._sums[d] = np.cumsum(plain.astype(np.int64).reshape(width, self._count), axis=0)
        return sums

    def total(self, d: int) -> int:
        """The amount of a dimension on all agents."""
        return int(self.sums(d)[-1].sum()) if self else 0

    def largest(self, d: int) -> Array:
        """The largest amount of a dimension of one task, by rank."""
        largest = self._largest.get(d)
        if largest is None:
            largest = self._largest[d] = np.zeros(self._count, dtype=np.int64)
            np.maximum.at(largest, self._rank, self._amounts[d][self._tasks])
        return largest

    def lightest(self) -> Array:
        """The least measure of one task, by rank."""
        if self._lightest is None:
            measures = np.zeros(len(self._tasks), dtype=np.int64)
            for d, weight in enumerate(self._measure.weights):
                measures += weight * self._measure.at_most(d, self._amounts[d][self._tasks])
            self._lightest = np.full(self._count, NOT, dtype=np.int64)
            np.minimum.at(self._lightest, self._rank, measures)
        return self._lightest

    def by_rank(self, d: int) -> tuple[list[list[int]], list[int], list[int]]:
        """The results of `sums`, `largest` and `lightest` as lists by rank."""
        columns = self._of_rank.get(d)
        if columns is None:
            sums: list[list[int]] = self.sums(d).T.tolist()
            columns = self._of_rank[d] = (sums, self.largest(d).tolist(), self.lightest().tolist())
        return columns

    def unready_jobs(self) -> set[str]:
        """The names of the jobs of which a task is not ready."""
        running = self._running
        return {running.name(number) for number in np.unique(self._job[running.waits[self._tasks]]).tolist()}

    def jobs(self) -> list[int]:
        """The numbers of the jobs of these tasks."""
        jobs: list[int] = np.unique(self._job).tolist()
        return jobs


class Search:
    """The agents that pass the predicates for one template and that could have room, in the order of their bounds.

    For tasks that are alike: same template, same possible victims. While operations are added, victims become fewer. So
    an agent without enough victims is set aside until something changes on the agent, or until the state in which it
    was set aside is undone."""

    def __init__(self, session: Session, need: Need, movable: Movable, beside: Rows, barred: frozenset[int]) -> None:
        """`beside`, `barred`: see the methods of `Session`."""
        self._beside, self._barred = beside, barred
        self._candidates, self._changes, self.movable = session.candidates(need), session.changes, movable
        self._table, self._need, self._measure = session.agents, need, session.measure
        self._heap: list[tuple[int, int, int, int]] = []
        self._bounds: dict[int, tuple[int, int, int, int]] = {}
        """The bounds, by rank; plain tuples, because a search of all agents makes thousands of them."""
        self._seen = -1
        self._undone = len(session.changes.undone)
        self._refused = False
        self._aside: dict[int, int] = {}
        """The versions of the state in which ranks were set aside, in this order; all precede the present one."""

    def __iter__(self) -> Iterator[tuple[Cost, int]]:
        """Yields bounds and ranks, the lowest bound first. The agents may change while the iteration is not
        continued."""
        self._refresh()
        heap, bounds = self._heap, self._bounds
        count = len(self._table)
        shown: list[tuple[int, int, int, int]] = []
        try:
            while heap:
                bound = heappop(heap)
                rank = bound[-1] % count
                if bounds.get(rank) != bound or (shown and shown[-1] == bound) or rank in self._aside:
                    continue
                shown.append(bound)
                yield Cost(*bound), rank
        finally:
            for bound in shown:
                if bound[-1] % count not in self._aside:
                    heappush(heap, bound)

    @property
    def barren(self) -> bool:
        """True if no agent has enough, as the latest iteration has begun. Plug-ins may refuse less later."""
        return not (self._bounds or self._refused)

    def helps(self, victims: bool) -> bool:
        """Notes whether plug-ins have named enough victims on all agents together; returns the same."""
        self._refused = self._refused or not victims
        return victims

    def set_aside(self, rank: int) -> None:
        """The agent, which the iteration has just given, has not enough victims as things stand."""
        self._aside[rank] = self._changes.version

    def _refresh(self) -> None:
        undone = self._changes.undone
        if self._undone < len(undone):
            reached = min(undone[self._undone :])
            self._undone = len(undone)
            self._return([rank for rank, version in self._aside.items() if version > reached])
        log = self._candidates.log
        if self._seen == len(log):
            return
        changed = dict.fromkeys(log[self._seen :]) if self._seen >= 0 else {}
        every = self._seen < 0 or self._candidates.depends_on_others or len(changed) * 4 > len(self._table)
        self._seen = len(log)
        if every:
            self._rebuild()
            return
        for rank in changed:
            self._aside.pop(rank, None)
            bound = self._bound(rank)
            if bound is not None:
                self._bounds[rank] = bound
                heappush(self._heap, bound)
            else:
                self._bounds.pop(rank, None)

    def _return(self, ranks: Iterable[int]) -> None:
        for rank in ranks:
            del self._aside[rank]
            bound = self._bounds.get(rank)
            if bound is not None:
                heappush(self._heap, bound)

    def _bound(self, rank: int) -> Cost | None:
        """The bound of one agent; None if it has not enough."""
        key = self._candidates.key(rank)
        if key == NOT:
            return None
        future, movable = self._table.future, self.movable
        kept = self._beside.get(rank)
        place = number = least = 0
        lightest = 0
        for d, amount in self._need.row:
            short = amount - future[d][rank] - (kept[d] if kept is not None else 0)
            if short > 0:
                if not movable or rank in self._barred:
                    return None
                sums, largest, measures = movable.by_rank(d)
                first = bisect_left(sums[rank], short)
                if first == len(sums[rank]):
                    return None
                place = max(place, first)
                number = max(number, -(-short // largest[rank]))
                measure = self._measure
                least += measure.weights[d] * (short if measure.plain else measure.at_most(d, short))
                lightest = measures[rank]
        if not number:
            return Cost(NOBODY, 0, 0, key)
        return Cost(movable.priorities[place], number, max(least, number * lightest), key)

    def _rebuild(self) -> None:
        self._aside.clear()
        self._heap, self._bounds = [], {}
        count, movable = len(self._table), self.movable
        future = self._table.arrays().future
        open_ = self._candidates.static_mask
        lacking: list[tuple[int, Array, Array]] = []
        may_lose = np.ones(count, dtype=np.bool_)
        may_lose[list(self._barred)] = False
        for d, amount in self._need.row:
            short = amount - future[d]
            for rank, row in self._beside.items():
                short[rank] -= row[d]
            lacks = short > 0
            open_ = open_ & (~lacks | (may_lose & (movable.sums(d)[-1] >= short))) if movable else open_ & ~lacks
            lacking.append((d, short, lacks))
        if not open_.any():
            return
        keys = np.array(self._candidates.keys_of_accepted(), dtype=np.int64)
        open_ = open_ & (keys != NOT)
        place = np.zeros(count, dtype=np.int64)
        number, least = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        for d, short, lacks in lacking:
            lacks &= open_
            if not lacks.any():
                continue
            first = np.argmax(movable.sums(d) >= short, axis=0)
            place[lacks] = np.maximum(place[lacks], first[lacks])
            number[lacks] = np.maximum(number[lacks], -(-short[lacks] // movable.largest(d)[lacks]))
            least[lacks] += self._measure.weights[d] * self._measure.at_most(d, short[lacks])
        some = number > 0
        priority = np.full(count, NOBODY, dtype=np.int64)
        if some.any():
            least[some] = np.maximum(least[some], number[some] * movable.lightest()[some])
            priority[some] = np.array(movable.priorities)[place[some]]
        ranks = np.nonzero(open_)[0]
        columns = (priority[ranks], number[ranks], least[ranks], keys[ranks])
        self._heap = list(zip(*(column.tolist() for column in columns), strict=True))
        self._bounds = dict(zip(ranks.tolist(), self._heap, strict=True))
        heapify(self._heap)


# --- places for work that has waited for long -----------------------------------------------------------------


class AskedPlace(NamedTuple):
    """A task that wants a place. `agent`: the only agent that may be chosen; empty: any."""

    job: str
    task: str
    agent: str = ""


class Places(NamedTuple):
    """The agent of each task, and the evictions on these agents, the least important first on each."""

    agents: tuple[str, ...]
    evictions: tuple[Eviction, ...]


def places(session: Session, needed: Sequence[AskedPlace]) -> Places | None:
    """The places of some tasks, of jobs of one queue, with the evictions that make their room: all of them by the rules
    of one action; None if these do not give room to all. The session is open, and no action has run. The session
    decides nothing else, and nothing of it is carried out."""
    names = {choice.action.name for choice in session.policy.actions}
    tasks: list[tuple[JobState, int]] = []
    for place in needed:
        job = session.jobs.get(place.job)
        if job is None or not session.may_evict(job) or not job.pending:
            return None
        tasks.append((job, job.job.position(place.task)))
    queue = tasks[0][0].queue
    if any(job.queue is not queue for job, _ in tasks):
        return None
    made: Places | None = None
    with session.changes.promises_count(queue):
        if RECLAIM in names and not session.rules.overused(queue):
            searches, scope = _reclaiming(session, queue), _of_others(session, queue)
            made = _all(session, needed, tasks, searches, lambda _: scope, partial(_may_take, session, queue))
        if made is None and PREEMPT in names and all(job.starving for job, _ in tasks):
            searches = _preempting(session, queue)
            made = _all(session, needed, tasks, searches, partial(_of_own_queue, session), lambda _: True)
    return made


def _all(
    session: Session,
    needed: Sequence[AskedPlace],
    tasks: Sequence[tuple[JobState, int]],
    searches: Searches,
    scope: Callable[[JobState], Scope],
    admits: Callable[[Claim], bool],
) -> Places | None:
    statement = session.statement(tasks[0][0])
    agents: list[str] = []
    for place, (job, position) in zip(needed, tasks, strict=True):
        need = session.needs.of(job.job.tasks[position].template)
        rank = session.snapshot.rank.get(place.agent) if place.agent else None
        claim = Claim(job, position, need)
        may_have = (rank is not None or not place.agent) and admits(claim)
        if not may_have or not make_room(session, statement, claim, scope(job), searches.of(job, need), rank):
            statement.undo()
            return None
        agents.append(session.agents.agents[job.placed[position]].name)
    made = Places(tuple(agents), tuple(_evictions(session, statement)))
    statement.undo()
    return made


def _evictions(session: Session, statement: Statement) -> list[Eviction]:
    return [
        Eviction(
            operation.job.name,
            operation.job.job.tasks[position].name,
            session.agents.agents[rank].name,
            statement.job.name,
        )
        for operation in statement.operations
        if operation.kind == EVICT
        for position, rank in zip(operation.positions, operation.ranks, strict=True)
    ]
