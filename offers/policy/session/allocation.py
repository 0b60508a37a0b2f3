"""The actions that give pending tasks free room: `enqueue`, `allocate` and `backfill`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from fractions import Fraction
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

from offers.policy.session.decisions import Overused
from offers.policy.session.plugins.interface import Argument
from offers.policy.session.state.jobs import JobState
from offers.policy.session.state.statements import ALLOCATE, PIPELINE, RELEASE_PROMISE, Statement
from offers.policy.session.state.templates import Need

if TYPE_CHECKING:
    from offers.policy.session.session import Session

LEAST = 4
"""Jobs that have their turn of `allocate` in each portion: the way to the first one costs as much as some more."""


class BestJobs:
    """Jobs of which the best is taken. `log` names jobs whose figures changed; these are put in order again."""

    def __init__(
        self, jobs: Iterable[JobState], key: Callable[[JobState], tuple[Any, ...]], log: list[JobState]
    ) -> None:
        self._key = key
        self._log, self._seen = log, len(log)
        self._left = {job.number: job for job in jobs}
        self._keys = {number: key(job) for number, job in self._left.items()}
        self._heap = [(entry, number) for number, entry in self._keys.items()]
        heapify(self._heap)

    def pop(self) -> JobState | None:
        """The best job that is left; None if none is left."""
        for job in self._log[self._seen :]:
            if job.number in self._left:
                entry = self._key(job)
                if entry != self._keys[job.number]:
                    self._keys[job.number] = entry
                    heappush(self._heap, (entry, job.number))
        self._seen = len(self._log)
        while self._heap:
            entry, number = heappop(self._heap)
            if number in self._left and self._keys[number] == entry:
                return self._left.pop(number)
        return None


class Enqueue:
    """Lets jobs in whose minimum the cluster could hold soon. Without this action every job is in.

    Jobs that are not in create no tasks and are not placed; they cannot take room back either. Do not combine it with
    `reclaim` without need."""

    name = "enqueue"
    arguments: Mapping[str, Argument] = {"overcommit-factor": Argument("decimal", Fraction(6, 5), 1)}

    @staticmethod
    def run(session: Session, arguments: Mapping[str, Any]) -> None:
        """See `Action.run`."""
        table, rules = session.agents, session.rules
        factor = arguments["overcommit-factor"]
        left = [factor * total - (total - sum(table.idle[d])) for d, total in enumerate(session.snapshot.totals)]
        taken = {name: queue.allocated.copy() for name, queue in session.queues.items()}
        waiting: dict[str, BestJobs] = {}
        for name_of_queue, queue in session.queues.items():
            for job in queue.jobs:
                if job.pending and (job.job.admitted or not job.starving):
                    session.let_in.add(job.name)
                    _deduct(left, taken[name_of_queue], minimum(session, job))
            waiting[name_of_queue] = BestJobs(
                (job for job in queue.jobs if job.pending and job.name not in session.let_in),
                rules.job_key,
                session.changes.job_log,
            )
        queues = list(session.queues.values())
        while queues:
            queue = min(queues, key=rules.queue_key)
            chosen = waiting[queue.name].pop()
            if chosen is None:
                queues.remove(queue)
                continue
            needed = minimum(session, chosen)
            capability = {session.snapshot.index[name]: most for name, most in queue.queue.capability}
            mine = taken[queue.name]
            if all(amount <= left[d] for d, amount in enumerate(needed) if amount) and all(
                mine[d] + needed[d] <= most for d, most in capability.items() if needed[d]
            ):
                session.let_in.add(chosen.name)
                session.admitted.append(chosen.name)
                _deduct(left, mine, needed)
        session.gated = True


def minimum(session: Session, job: JobState) -> list[int]:
    """Returns the request of the tasks that the job needs to reach its minimum, by dimension."""
    needed = [0] * len(session.snapshot.dimensions)
    for position in session.pending(job)[: max(0, job.min_available - job.ready)]:
        for d, amount in session.needs.of(job.job.tasks[position].template).row:
            needed[d] += amount
    return needed


def _deduct(left: list[Fraction], of_queue: list[int], needed: list[int]) -> None:
    for d, amount in enumerate(needed):
        left[d] -= amount
        of_queue[d] += amount


class Allocate:
    """Places pending tasks, queue by queue and job by job, best first.

    A job gets its minimum in one go, further tasks one per turn. A job that cannot start leaves its room to others in
    the same session. Where nothing fits now, room is held on agents on which something is leaving.

    Tasks that have left another agent come first: they keep their part of the limits and of the deserved share
    (`Moves`). Tasks to which room is promised have a turn although the queue has its share: others were ended for them,
    and `preempt` ends tasks of the same queue. The limits and the share of a queue hold its promises beside its further
    tasks."""

    name = "allocate"
    arguments: Mapping[str, Argument] = {}

    @staticmethod
    def run(session: Session, arguments: Mapping[str, Any]) -> None:  # noqa: ARG004
        """See `Action.run`."""
        had_turn = session.memory.had_turn(Allocate.name)
        _allocate(session, (job for job in session.jobs.values() if job.name not in had_turn), had_turn)


class Moves:
    """Places tasks that have left another agent, before all actions: an action that evicts would give their part of the
    limits to others of their queue."""

    name = Allocate.name
    arguments: Mapping[str, Argument] = {}

    @staticmethod
    def run(session: Session, arguments: Mapping[str, Any]) -> None:  # noqa: ARG004
        """See `Action.run`."""
        _allocate(session, session.moving, None)


def _allocate(session: Session, jobs: Iterable[JobState], had_turn: set[str] | None) -> None:
    """Gives jobs their turns. `had_turn`: the jobs that have had theirs in this round, which is continued; None: only
    tasks that have left another agent have a turn."""
    rules = session.rules
    waiting: dict[str, list[tuple[bool, tuple[Any, ...], Turn]]] = {}
    for job in jobs:
        if job.pending and session.wants_room(job):
            turn = Turn(session, job)
            waiting.setdefault(job.queue.name, []).append((not turn.is_move, rules.job_key(job), turn))
    for turns in waiting.values():
        heapify(turns)
    queues = [(turns[0][0], rules.queue_key(session.queues[queue]), queue) for queue, turns in waiting.items()]
    heapify(queues)
    overused: set[str] = set()
    while queues:
        is_further, _, queue = heappop(queues)
        if is_further and had_turn is None:
            return
        state, turns = session.queues[queue], waiting[queue]
        with session.changes.promises_count(state):
            if is_further and queue not in overused and rules.overused(state):
                session.sequence.append((len(session.changes.committed), Overused(queue)))
                overused.add(queue)
                promised = {number for number, _ in session.changes.promised}
                turns[:] = [entry for entry in turns if entry[2].job.number in promised and entry[2].keep_promised()]
                heapify(turns)
            if not turns:
                continue
            if session.portion.ends(cheap=turns[0][2].is_cheap, least=LEAST):
                return
            _, _, turn = heappop(turns)
            if turn.run():
                heappush(turns, (not turn.is_move, rules.job_key(turn.job), turn))
            elif session.portion.bounded and had_turn is not None:
                had_turn.add(turn.job.name)
        heappush(queues, (not turns or turns[0][0], rules.queue_key(state), queue))


class Turn:
    """The tasks of a job that were not tried yet."""

    __slots__ = ("_begun", "_moves", "_needs", "_next", "_session", "_tasks", "job")

    def __init__(self, session: Session, job: JobState) -> None:
        self._session, self.job, self._next, self._begun = session, job, 0, False
        self._tasks: list[int] = []
        self._moves = False
        """The present turn is for tasks that have left another agent."""
        template = job.job.template
        self._needs = None if template is None else session.needs.of(template)

    @property
    def is_move(self) -> bool:
        """True if the next task has left another agent."""
        moving = self.job.job.moving
        if not moving or not self._begun:
            return any(position not in self.job.placed for position in moving)
        return self._next < len(self._tasks) and self._tasks[self._next] in moving

    @property
    def is_cheap(self) -> bool:
        """True if the agents for its tasks are in order already."""
        return self._needs is not None and self._session.knows(self._needs)

    def keep_promised(self) -> bool:
        """Leaves out the tasks to which no room is promised. False: none is left."""
        session, number = self._session, self.job.number
        tasks = self._tasks[self._next :] if self._begun else session.pending(self.job, best_effort=False)
        self._tasks = [position for position in tasks if (number, position) in session.changes.promised]
        self._begun, self._next = True, 0
        return bool(self._tasks)

    def run(self) -> bool:
        """Gives the job its turn. True: it may have another one."""
        session, job, rules = self._session, self.job, self._session.rules
        if not self._begun:
            self._begun, self._tasks = True, session.pending(job, best_effort=False)
        self._moves = self.is_move
        attempt = self._attempt() if not self._moves else None
        if attempt is not None and session.dead_ends.get(attempt) == session.changes.version:
            job.misfit = self._needs
            return False
        statement = session.statement(job)
        tasks = self._tasks
        while self._next < len(tasks):
            position = tasks[self._next]
            if self._moves and job.min_available <= 1 and position not in job.job.moving:
                break  # the further tasks have a turn of their own
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
            return self._moves and self._next < len(tasks)
        return False

    def _attempt(self) -> tuple[Hashable, ...] | None:
        """A key of the attempt, equal for jobs that are alike; None if the tasks of the job have several templates or
        promises, the order is not known, or tasks were placed already."""
        job, need, promised = self.job, self._needs, self._session.changes.promised
        if need is None or self._session.rules.missing is None or self._next:
            return None
        if promised and any((job.number, position) in promised for position in self._tasks):
            return None
        return (
            Allocate.name,
            job.queue.name,
            need.number,
            job.min_available - job.ready,
            job.waiting,
            len(self._tasks),
        )

    def _need(self, position: int) -> Need:
        return self._needs or self._session.needs.of(self.job.job.tasks[position].template)

    def _alike(self, need: Need, most: int) -> int:
        """Counts the next tasks that need the same, up to `most`."""
        tasks, begin = self._tasks, self._next
        end = min(len(tasks), begin + most)
        promised, number = self._session.changes.promised, self.job.number
        if self._needs is not None and not promised:
            return end - begin
        at = begin
        while at < end and self._need(tasks[at]) is need:
            if at > begin and (number, tasks[at]) in promised:
                break
            at += 1
        return at - begin

    def _place(self, statement: Statement, need: Need) -> bool:
        """Places the next tasks, as many as can be placed in one go. False: not even one."""
        session, job = self._session, self.job
        # Others were ended for old work, also where the limit was the bottleneck. A move takes no more than it had.
        room = session.rules.room(job.queue, need, None if self._moves else session.withheld(job))
        if room <= 0:
            job.over_limit = True
            return False
        missing = session.rules.missing
        needed = 1 if missing is None else max(1, missing(job))
        number = 1 if needed == 1 else self._alike(need, min(needed, room))
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
        job.over_limit = job.over_limit or room < needed
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
        self._next += self._alike(need, len(self._tasks)) if not self._moves else 1


class Backfill:
    """Places best-effort tasks on agents that pass the predicates.

    A best-effort task requests nothing or next to nothing; its small amounts must be free, because an agent cannot give
    more than it has."""

    name = "backfill"
    arguments: Mapping[str, Argument] = {}

    @staticmethod
    def run(session: Session, arguments: Mapping[str, Any]) -> None:  # noqa: ARG004
        """See `Action.run`."""
        rules = session.rules
        jobs = [job for job in session.jobs.values() if job.pending and session.pending(job, best_effort=True)]
        while jobs:
            job = min(jobs, key=rules.job_key)
            jobs.remove(job)
            statement = session.statement(job)
            for position in session.pending(job, best_effort=True):
                need = session.needs.of(job.job.tasks[position].template)
                ranks = session.candidates(need).place(1) if rules.room(job.queue, need) > 0 else []
                if ranks:
                    statement.note(job, need, [position], ranks)
                elif job.misfit is None:
                    job.misfit = need
            if rules.ready(job):
                statement.commit(ready=True)
            elif rules.pipelined(job):
                statement.keep()
            else:
                statement.undo()
