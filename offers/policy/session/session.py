"""One session: opens over a snapshot, lets the actions decide, and closes with decisions.

    decisions = decide(snapshot, policy)

Nothing of the snapshot is changed, and two sessions over the same snapshot decide the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property

from offers.policy.session.allocation import Allocate, Moves
from offers.policy.session.blocked import Group
from offers.policy.session.closing import close, no_queue
from offers.policy.session.composition import Composition
from offers.policy.session.decisions import (
    UNSCHEDULABLE,
    Condition,
    Later,
    Overused,
    Passing,
    PluginFault,
    SessionResult,
    earliest,
)
from offers.policy.session.guard import UNWATCHED, Calls, Guard, PluginFailed
from offers.policy.session.kept import NO_ROWS, NOTHING_KEPT, Kept, Rows
from offers.policy.session.memory import Memory, Portion
from offers.policy.session.model import Job, Queue, Status
from offers.policy.session.plugins import priority
from offers.policy.session.plugins.interface import Functions, Victim
from offers.policy.session.policy import ActionChoice, Policy
from offers.policy.session.preemption import Measure
from offers.policy.session.snapshot import Snapshot
from offers.policy.session.state.agents import AgentTable
from offers.policy.session.state.candidates import Candidates
from offers.policy.session.state.jobs import JobState, QueueState
from offers.policy.session.state.statements import Changes, Statement
from offers.policy.session.state.templates import Need

Paused = Mapping[str, Mapping[str, float]]
"""The jobs of which no task is evicted for a job, by its name, each with the moment at which that ends in seconds."""
NOTHING_PAUSED: Paused = {}
NOBODY: frozenset[str] = frozenset()
_WITHOUT_EVICTIONS = frozenset({"allocate", "backfill"})
_KNOWN_TO_PLACE = _WITHOUT_EVICTIONS | {"preempt", "reclaim"}


def decide(
    snapshot: Snapshot,
    policy: Policy,
    clock: Callable[[], float] | None = None,
    calls: Calls = UNWATCHED,
    *,
    memory: Memory | None = None,
    is_used_up: Callable[[], bool] | None = None,
    paused: Paused = NOTHING_PAUSED,
    kept: Kept = NOTHING_KEPT,
    closed: Set[str] = NOBODY,
) -> SessionResult:
    """The decisions of one session. `clock` gives seconds; with it, plug-ins of third parties are
    bounded in time, and None sets no bound. `calls` follows each call of a third party. `paused`: the pairs of jobs
    of which a plug-in keeps the victims of the second back from the first. `kept`: room that is kept for one job, and
    that jobs which outrank it may use. `closed`: the jobs for which nothing is evicted now; they hold no room for which
    others would have to leave.

    `memory`: that of earlier sessions over the snapshot; None: there is none. `is_used_up`: True if the session should
    end before all jobs had their turns; the next session with the same memory then continues
    (`SessionResult.unfinished`). None: the session ends with the last job.

    A plug-in that fails is named in the decisions. By the setting `on_fault` the session continues without the result
    of the call, or is repeated without the plug-in."""
    faults: list[PluginFault] = []
    while True:
        turns = memory.turns() if memory is not None and not policy.trusted else {}
        try:
            session = Session(
                snapshot,
                policy,
                clock,
                calls=calls,
                memory=memory,
                is_used_up=is_used_up,
                paused=paused,
                kept=kept,
                closed=closed,
            )
            session.run()
            decisions = session.close()
        except PluginFailed as failed:
            faults.append(failed.fault)
            policy = policy.without(failed.fault.plugin)
            if memory is not None:
                memory.restore(turns)
            continue
        return decisions._replace(faults=(*faults, *decisions.faults))


class Session:
    """The state of one session. Plug-ins and actions use the attributes and methods that have docstrings."""

    def __init__(
        self,
        snapshot: Snapshot,
        policy: Policy,
        clock: Callable[[], float] | None = None,
        *,
        least_group: int = 8,
        calls: Calls = UNWATCHED,
        memory: Memory | None = None,
        is_used_up: Callable[[], bool] | None = None,
        paused: Paused = NOTHING_PAUSED,
        kept: Kept = NOTHING_KEPT,
        closed: Set[str] = NOBODY,
    ) -> None:
        """Opens the session. `least_group`: so many jobs that are alike are set aside if none of them can be placed; 0
        sets none aside. `memory`, `is_used_up`, `kept` and `closed` are those of `decide`."""
        self.memory = memory if memory is not None else Memory()
        self.portion = Portion(is_used_up)
        self._follows = self.memory.in_round
        self._least_group = least_group
        self.paused = paused
        """The pairs as in `decide`. Attempts of these jobs are not shared with other jobs which are alike."""
        self.closed = closed
        """The jobs for which nothing is evicted now."""
        self.aside: list[Group] = []
        """Groups of jobs that are in the session and that no action sees, because none of them can be placed."""
        self.snapshot = snapshot
        self.policy = policy
        self.agents = AgentTable(snapshot)
        self.needs = snapshot.needs
        self._kept, self._kept_rows = kept, kept.rows(snapshot)
        self._gathered: frozenset[int] = frozenset()
        """The ranks of the agents on which more has to end for work that has waited for long."""
        units = snapshot.units
        self.measure = Measure(snapshot.totals, (units.get(name).unit for name in snapshot.dimensions))
        """Compares amounts of victims."""
        self.changes = Changes(self.agents)
        self.sequence: list[tuple[int, Overused]] = []
        """Queues passed over, each with the number of operations committed before."""
        self.queues: dict[str, QueueState] = {}
        """The queues that have jobs in the session."""
        self.jobs: dict[str, JobState] = {}
        """The jobs that the session looks at, by name: those that wait for something, and victims (`job`). Where a
        third party decides, all jobs."""
        self.moving: list[JobState] = []
        """The jobs with tasks that have left another agent and wait for a place."""
        self.gated = False
        """True if only jobs that were let in are placed: the action `enqueue` ran."""
        self.let_in: set[str] = set()
        """Names of the jobs that `enqueue` found in or let in."""
        self.admitted: list[str] = []
        """Names of the jobs that `enqueue` let in, in order."""
        self.dead_ends: dict[tuple[Hashable, ...], int] = {}
        """Attempts that failed, with the version of the state in which they did: while that is the present version, the
        same attempt fails again."""
        self._candidates: dict[int, Candidates] = {}
        self.conditions: dict[str, Condition] = {}
        """Conditions of the jobs that were not let in."""
        self.later = self.memory.later
        """See `SessionResult.later`."""
        self.evicts = not {choice.action.name for choice in policy.actions} <= _WITHOUT_EVICTIONS
        """True if an action may evict."""
        self.guard = Guard(clock, policy.plugin_seconds, repeat=policy.on_fault == "repeat", calls=calls)
        self._statements: list[Statement] = []
        self._numbers = 0
        """Number of jobs that have entered."""
        self._ours = policy.trusted
        """True if no third party decides. Third parties may look at every job."""
        self._open()

    # --- opening ----------------------------------------------------------------------------------------------

    def _open(self) -> None:
        tiers: list[list[Functions]] = []
        for tier in self.policy.tiers:
            tiers.append([])
            for choice in tier:
                functions = self.guard.open(choice, self)
                if functions is not None:
                    tiers[-1].append(functions)
        self.rules = Composition(tiers, self.agents)
        self.changes.on_allocate = self.rules.on_allocate
        self.changes.on_deallocate = self.rules.on_deallocate
        self._enter()
        self._keep_promises()
        short = self._kept.withhold(self.snapshot, self.agents, self._kept_rows)
        if not self.closed.isdisjoint(self._kept.jobs):
            self._gathered = short

    def _enter(self) -> None:
        """Lets the valid jobs in, and sums up allocations and requests of their queues. Those that stay outside hold
        amounts of their queue, and request nothing more."""
        snapshot, width = self.snapshot, len(self.snapshot.dimensions)
        known = {queue.name: queue for queue in snapshot.queues}
        queues: dict[str, QueueState] = {}
        with_jobs: set[str] = set()
        names: Iterable[str] = snapshot.waking if self._ours else snapshot.jobs
        if self._ours:
            with_jobs.update(name for name in known if name in snapshot.standing)
            for name in with_jobs:
                self._enter_standing(known[name], queues)
            if self._least_group and self.rules.missing is not None:
                names = self._set_aside(known, queues)
        for name in names:
            job = snapshot.jobs[name]
            if job.queue not in known:
                self.conditions[name] = no_queue(job)
                continue
            queue = queues.get(job.queue)
            if queue is None:
                queue = queues[job.queue] = QueueState(known[job.queue], width)
            figures = snapshot.figures[name]
            state = JobState(job, self._numbers, figures, queue)
            self._numbers += 1
            for d, amount in enumerate(figures.allocated):
                queue.allocated[d] += amount
                queue.requested[d] += amount
            verdict = self.rules.valid(state)
            if verdict is not None:
                self.conditions[name] = Condition(UNSCHEDULABLE, verdict.reason, verdict.message)
                if any(figures.allocated):
                    with_jobs.add(job.queue)
                continue
            self.jobs[name] = state
            queue.jobs.append(state)
            if job.moving:
                self.moving.append(state)
            queue.running += state.running
            for d, amount in enumerate(figures.requested):
                queue.requested[d] += amount
        with_jobs.update(group.queue for group in self.aside)
        self.queues = {
            name: queues[name] for name in known if name in queues and (queues[name].jobs or name in with_jobs)
        }

    def _enter_standing(self, queue: Queue, queues: dict[str, QueueState]) -> None:
        """The jobs of a queue that wait for nothing enter as one sum. They are valid under all of our plug-ins."""
        standing = self.snapshot.standing[queue.name]
        state = queues[queue.name] = QueueState(queue, len(self.snapshot.dimensions))
        state.running = standing.running
        state.allocated = standing.allocated.copy()
        state.requested = standing.allocated.copy()

    def _set_aside(self, known: dict[str, Queue], queues: dict[str, QueueState]) -> list[str]:
        """Sets groups of jobs aside that this session cannot place. The names of the others that wait."""
        names = {choice.action.name for choice in self.policy.actions}
        groups = self.snapshot.groups
        others = list(groups.others)
        for group in groups.groups:
            if (
                len(group.jobs) < self._least_group
                or group.queue not in known
                or not names <= _KNOWN_TO_PLACE
                or (need := self.needs.of(group.template)).best_effort
                or self.candidates(need).capacity(ever=not names <= _WITHOUT_EVICTIONS) >= group.min_available
            ):
                others += group.jobs
                continue
            self.aside.append(group)
            queue = queues.get(group.queue)
            if queue is None:
                queue = queues[group.queue] = QueueState(known[group.queue], len(self.snapshot.dimensions))
            for d, amount in enumerate(group.requested):
                queue.requested[d] += amount
        return others

    def _keep_promises(self) -> None:
        """Keeps the room of valid nominations, as far as it will exist."""
        promised = [state for state in self.jobs.values() if state.pending and state.job.template is None]
        for state in sorted(promised, key=lambda state: (state.created, state.name)):
            for position in state.job.pending:
                task = state.job.tasks[position]
                nomination = task.nomination
                if nomination is None or nomination.until <= self.snapshot.now:
                    continue
                rank = self.snapshot.rank.get(nomination.agent)
                need = self.needs.of(task.template)
                if rank is not None and self.fits_later(state, rank, need):
                    self.changes.promise(state, need, position, rank)

    # --- for actions ------------------------------------------------------------------------------------------

    def job(self, name: str) -> JobState | None:
        """A job of the session; None if it was not let in. A job that waits for nothing enters when it is asked for."""
        state = self.jobs.get(name)
        if state is not None or name in self.snapshot.waking or not self._ours:
            return state
        job = self.snapshot.jobs[name]
        queue = self.queues.get(job.queue)
        if queue is None:
            return None
        state = self.jobs[name] = JobState(job, self._numbers, self.snapshot.figures[name], queue)
        self._numbers += 1
        queue.jobs.append(state)
        return state

    def may_evict(self, job: JobState) -> bool:
        """True if other tasks may be evicted for a job now."""
        if not job.job.preempts or job.name in self.closed:
            return False
        gone = self.withheld(job)
        need = self._next_need(job) if gone is not None else None
        return need is None or self.rules.room(job.queue, need, gone) > 0

    def withheld(self, job: JobState) -> Sequence[int] | None:
        """The amounts by dimension, all below 0, by which the limits of its queue are less for a job, because others
        were ended for old work of the queue; None: there is no such work."""
        return [-amount for amount in self._kept.sums(self.snapshot.dimensions)] if self._kept.limits(job) else None

    def _next_need(self, job: JobState) -> Need | None:
        """The need of the next pending task of a job; None if there is none."""
        position = next((position for position in job.job.pending if position not in job.placed), None)
        return None if position is None else self.needs.of(job.job.tasks[position].template)

    def claiming(self, job: JobState) -> list[int]:
        """The pending tasks of a job for which other tasks may be evicted, in task order."""
        tasks = self.pending(job)
        if not self.served(job):
            return tasks
        return [at for at in tasks if (job.name, job.job.tasks[at].name) not in self._kept.served]

    def served(self, job: JobState) -> int:
        """The number of tasks of a job for which others end in their kept room alone."""
        return sum(name == job.name for name, _ in self._kept.served)

    def may_change(self, code: Passing, at: float) -> None:
        """A function refuses something until a moment, in the seconds of the snapshot, at which the refusal may end
        although nothing else changes."""
        self.later = earliest((self.later, Later(code, at)))

    def statement(self, job: JobState) -> Statement:
        """A new statement in the name of a job. The statement is undone if the action fails before it is kept or
        committed."""
        statement = Statement(self.changes, job)
        self._statements.append(statement)
        return statement

    def candidates(self, need: Need) -> Candidates:
        """The agents for a template, with caches that all actions share."""
        candidates = self._candidates.get(need.number)
        if candidates is None:
            candidates = Candidates(self.agents, need, self.rules.tests(need), self.rules.scorers(need))
            self._candidates[need.number] = candidates
        return candidates

    def knows(self, need: Need) -> bool:
        """True if the candidates of a need were asked for in this session."""
        return need.number in self._candidates

    def beside(self, job: JobState) -> Rows:
        """The kept room that a job may use beside the future amounts, by rank and dimension; the same object for all
        jobs that may use it."""
        if not self._kept_rows:
            return NO_ROWS
        need = self._next_need(job)
        if need is None:
            return NO_ROWS
        return self._kept_rows if self._kept.is_for(job, need, self.rules, self.snapshot.dimensions) else NO_ROWS

    def barred(self, job: JobState) -> frozenset[int]:
        """The ranks of the agents on which nothing is evicted for a job: others end there for work that has waited for
        long, and more of them are to end. It would end the victims of this work, and be ended for it in their place."""
        return frozenset() if not self._gathered or self.beside(job) else self._gathered

    def fits_later(self, job: JobState, rank: int, need: Need) -> bool:
        """True if a request of a job fits once everything has left that is leaving, with the kept room that the job may
        use."""
        row = self.beside(job).get(rank)
        if row is None:
            return self.agents.fits_later(rank, need)
        return all(amount <= self.agents.future[d][rank] + row[d] for d, amount in need.row)

    def lasting(
        self, attempt: tuple[Hashable, ...] | None, job: JobState, work: int
    ) -> tuple[Hashable, Hashable] | None:
        """An attempt, and the state on which it depends, as the memory knows them; None if that is not known.
        `attempt`: a key that holds for the session. `work`: number of changes of the tasks that could be victims."""
        template = job.job.template
        if attempt is None or template is None or not self._ours or self.changes.widened:
            return None
        snapshot, mask = self.snapshot, self.candidates(self.needs.of(template)).mark
        state = (snapshot.room_changes, snapshot.queue_changes, work, len(self.changes.promised), mask)
        return (template, *attempt), state

    @property
    def decides_alone(self) -> bool:
        """True if no third party takes part."""
        return self._ours

    def pending(self, job: JobState, *, best_effort: bool | None = None) -> list[int]:
        """Positions of the tasks of a job that nothing was decided for, in task order; none of a job that `enqueue` did
        not let in. `best_effort`: only tasks that are (or are not) best effort; None means all."""
        placed, tasks = job.placed, job.job.tasks
        if self.gated and job.name not in self.let_in:
            return []
        if job.job.template is not None:
            alike = self.needs.of(job.job.template).best_effort
            if best_effort is not None and alike is not best_effort:
                return []
            pending = [i for i in job.job.pending if i not in placed] if placed else list(job.job.pending)
        else:
            of = self.needs.of
            pending = [
                i
                for i in job.job.pending
                if i not in placed and (best_effort is None or of(tasks[i].template).best_effort is best_effort)
            ]
        if len(pending) > 1:
            if self._orders_by_priority:
                pending.sort(key=lambda i: (-tasks[i].priority, tasks[i].created, i))
            else:
                pending.sort(key=lambda i: self.rules.task_key(job.job, i))
        return pending

    def wants_room(self, job: JobState) -> bool:
        """True if a task that is not best effort is pending, for a job with pending tasks."""
        template = job.job.template
        if template is None or self.gated:
            return bool(self.pending(job, best_effort=False))
        return not self.needs.of(template).best_effort

    @cached_property
    def _orders_by_priority(self) -> bool:
        plain = [choice for tier in self.policy.tiers for choice in tier if choice.plugin is priority]
        return len(self.rules.task_orders) == 1 and any("enableTaskOrder" not in plugin.off for plugin in plain)

    def running_on(self, rank: int) -> Iterable[Victim]:
        """The running tasks on an agent whose jobs are in the session, without those that are evicted already."""
        for (name, identity), task in self.snapshot.tenants.get(self.agents.agents[rank].name, {}).items():
            if task.status is not Status.RUNNING:
                continue
            state = self.job(name)
            if state is not None and (position := state.job.position(identity)) not in state.evicted:
                yield Victim(state, position, rank)

    def running_of(self, job: JobState) -> Iterable[Victim]:
        """The running tasks of a job, without those that are evicted already."""
        rank = self.snapshot.rank
        for position, task in enumerate(job.job.tasks):
            if task.status is Status.RUNNING and task.agent in rank and position not in job.evicted:
                yield Victim(job, position, rank[task.agent])

    # --- running ----------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Runs the actions in their order, until the time is used up."""
        for choice in self._actions():
            if self.portion.over:
                return
            self._statements.clear()
            if not self.guard.act(choice, self):
                for statement in reversed(self._statements):
                    statement.undo()
        if not self.portion.over:
            self.memory.end_round()

    def _actions(self) -> Iterator[ActionChoice]:
        """Yields the actions, moves first."""
        actions = self.policy.actions
        allocate = next((choice for choice in actions if isinstance(choice.action, Allocate)), None)
        if self.moving and allocate is not None and actions[0] is not allocate:
            yield allocate._replace(action=Moves())
        yield from actions

    # --- closing ----------------------------------------------------------------------------------------------

    def close(self) -> SessionResult:
        """The decisions of the session."""
        return close(self)

    @property
    def partial(self) -> bool:
        """True if some jobs had no turn in this session: it is one of several portions."""
        return self._follows or self.portion.over

    @property
    def names(self) -> list[str]:
        """Names of all jobs in the session, in the order of the snapshot."""
        inside = set(self.jobs).union(*(group.jobs for group in self.aside))
        inside.update(job.name for job in self.standing() if job.queue in self.queues)
        return [name for name in self.snapshot.jobs if name in inside]

    def standing(self) -> list[Job]:
        """The jobs that have not entered, because they wait for nothing and nothing was decided about them."""
        if not self._ours:
            return []
        waking = self.snapshot.waking
        return [job for name, job in self.snapshot.jobs.items() if name not in waking and name not in self.jobs]
