"""One session: opens over a snapshot, lets the actions decide, and closes with decisions.

    decisions = decide(snapshot, policy)

Nothing of the snapshot is changed, and two sessions over the same snapshot decide the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cached_property, partial
from itertools import chain

from offers.policy.session.blocked import Conditions, Group
from offers.policy.session.composition import Composition
from offers.policy.session.configuration.policy import Policy
from offers.policy.session.decisions import (
    NOT_ENOUGH_RESOURCES,
    QUEUE_LIMIT,
    QUEUE_NOT_FOUND,
    QUEUE_OVERUSED,
    SCHEDULED,
    UNSCHEDULABLE,
    Bind,
    Condition,
    Decisions,
    Eviction,
    Overused,
    PluginFault,
)
from offers.policy.session.guard import Guard, PluginFailed
from offers.policy.session.model import Job, Nomination, Queue, Status
from offers.policy.session.plugins import priority
from offers.policy.session.plugins.interface import Functions, Victim
from offers.policy.session.snapshot import Snapshot
from offers.policy.session.state.agents import AgentTable
from offers.policy.session.state.candidates import Candidates
from offers.policy.session.state.jobs import JobState, QueueState
from offers.policy.session.state.ranking import Ranking
from offers.policy.session.state.statements import EVICT, Changes, Statement
from offers.policy.session.state.templates import Need, Needs

_WITHOUT_EVICTIONS = frozenset({"allocate", "backfill"})
_KNOWN_TO_PLACE = _WITHOUT_EVICTIONS | {"preempt", "reclaim"}


def decide(snapshot: Snapshot, policy: Policy, clock: Callable[[], float] | None = None) -> Decisions:
    """The decisions of one session. `clock` gives seconds; with it, plug-ins of third parties are
    bounded in time, and None sets no bound.

    A plug-in that fails is named in the decisions. By the setting `on_fault` the session goes on without what the
    plug-in was asked for, or is repeated without the plug-in."""
    faults: list[PluginFault] = []
    while True:
        try:
            session = Session(snapshot, policy, clock)
            session.run()
            decisions = session.close()
        except PluginFailed as failed:
            faults.append(failed.fault)
            policy = policy.without(failed.fault.plugin)
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
    ) -> None:
        """Opens the session. `least_group`: so many jobs that are alike are set aside if none of them can be placed; 0
        sets none aside."""
        self._least_group = least_group
        self.aside: list[Group] = []
        """Groups of jobs that are in the session and that no action sees, because none of them can be placed."""
        self.snapshot = snapshot
        self.policy = policy
        self.agents = AgentTable(snapshot)
        self.needs = Needs(snapshot)
        self.changes = Changes(self.agents)
        self.sequence: list[tuple[int, Overused]] = []
        """Queues passed over, each with the number of operations committed before."""
        self.queues: dict[str, QueueState] = {}
        """The queues that have jobs in the session."""
        self.jobs: dict[str, JobState] = {}
        """The jobs of the session by name."""
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
        self._rankings: dict[int, Ranking] = {}
        self._conditions: dict[str, Condition] = {}
        self._refusals: dict[int, dict[str, int]] = {}
        self._guard = Guard(clock, policy.plugin_seconds, repeat=policy.on_fault == "repeat")
        self._statements: list[Statement] = []
        self._open()

    # --- opening ----------------------------------------------------------------------------------------------

    def _open(self) -> None:
        tiers: list[list[Functions]] = []
        for tier in self.policy.tiers:
            tiers.append([])
            for choice in tier:
                functions = self._guard.open(choice, self)
                if functions is not None:
                    tiers[-1].append(functions)
        self.rules = Composition(tiers, self.agents)
        self.changes.on_allocate = self.rules.on_allocate
        self.changes.on_deallocate = self.rules.on_deallocate
        self._enter()
        self._keep_promises()

    def _enter(self) -> None:
        """Lets the valid jobs in, and sums up what their queues hold and want."""
        snapshot, width = self.snapshot, len(self.snapshot.dimensions)
        known = {queue.name: queue for queue in snapshot.queues}
        found: dict[str, QueueState] = {}
        numbers: Sequence[int] = range(len(snapshot.jobs))
        if self._least_group and self.rules.missing is not None:
            numbers = self._set_aside(known, found)
        for number in numbers:
            job = snapshot.jobs[number]
            if job.queue not in known:
                message = f"the queue {job.queue} does not exist"
                self._conditions[job.name] = Condition(UNSCHEDULABLE, QUEUE_NOT_FOUND, message)
                continue
            queue = found.get(job.queue)
            if queue is None:
                queue = found[job.queue] = QueueState(known[job.queue], width)
            figures = snapshot.figures[number]
            state = JobState(job, number, figures, queue)
            verdict = self.rules.valid(state)
            if verdict is not None:
                self._conditions[job.name] = Condition(UNSCHEDULABLE, verdict.reason, verdict.message)
                continue
            self.jobs[job.name] = state
            queue.jobs.append(state)
            queue.running += state.running
            for d in range(width):
                queue.allocated[d] += figures.allocated[d]
                queue.requested[d] += figures.allocated[d] + figures.requested[d]
        aside = {group.queue for group in self.aside}
        self.queues = {name: found[name] for name in known if name in found and (found[name].jobs or name in aside)}

    def _set_aside(self, known: dict[str, Queue], found: dict[str, QueueState]) -> list[int]:
        """Sets groups of jobs aside that this session cannot place. The positions of the others."""
        names = {choice.action.name for choice in self.policy.actions}
        ours = all(one.trusted for one in self.policy.actions) and all(one.trusted for one in chain(*self.policy.tiers))
        groups = self.snapshot.groups
        numbers = list(groups.others)
        for group in groups.groups:
            need = self.needs.of(group.template)
            if (
                not ours
                or len(group.numbers) < self._least_group
                or group.queue not in known
                or need.best_effort
                or not names <= _KNOWN_TO_PLACE
                or self.candidates(need).capacity(ever=not names <= _WITHOUT_EVICTIONS) >= group.min_available
            ):
                numbers += group.numbers
                continue
            self.aside.append(group)
            queue = found.get(group.queue)
            if queue is None:
                queue = found[group.queue] = QueueState(known[group.queue], len(self.snapshot.dimensions))
            for d, amount in enumerate(group.requested):
                queue.requested[d] += amount
        numbers.sort()
        return numbers

    def _keep_promises(self) -> None:
        """Keeps the room of valid nominations, as far as it will exist."""
        for state in self.jobs.values():
            if state.job.template is not None:
                continue
            for position in state.job.pending:
                task = state.job.tasks[position]
                nomination = task.nomination
                if nomination is None or nomination.until <= self.snapshot.now:
                    continue
                rank = self.snapshot.rank.get(nomination.agent)
                need = self.needs.of(task.template)
                if rank is not None and self.agents.fits_later(rank, need):
                    self.agents.promise(rank, need, 1)
                    self.changes.promised[state.number, position] = rank

    # --- for actions ------------------------------------------------------------------------------------------

    def statement(self, job: JobState) -> Statement:
        """A new statement in the name of a job. It is undone if the action fails before it is kept or committed."""
        statement = Statement(self.changes, job)
        self._statements.append(statement)
        return statement

    def candidates(self, need: Need) -> Candidates:
        """The agents for a template, with caches that all actions share."""
        found = self._candidates.get(need.number)
        if found is None:
            found = Candidates(self.agents, need, self.rules.tests(need), self.rules.scorers(need))
            self._candidates[need.number] = found
        return found

    def ranking(self, need: Need) -> Ranking:
        """The agents that pass the predicates for a template, whatever their room, best first."""
        found = self._rankings.get(need.number)
        if found is None:
            found = self._rankings[need.number] = Ranking(self.candidates(need))
        return found

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
            found = [i for i in job.job.pending if i not in placed] if placed else list(job.job.pending)
        else:
            of = self.needs.of
            found = [
                i
                for i in job.job.pending
                if i not in placed and (best_effort is None or of(tasks[i].template).best_effort is best_effort)
            ]
        if len(found) > 1:
            if self._orders_by_priority:
                found.sort(key=lambda i: (-tasks[i].priority, tasks[i].created, i))
            else:
                found.sort(key=lambda i: self.rules.task_key(job.job, i))
        return found

    @cached_property
    def _orders_by_priority(self) -> bool:
        plain = [choice for tier in self.policy.tiers for choice in tier if choice.plugin is priority]
        return len(self.rules.task_orders) == 1 and any("enableTaskOrder" not in one.off for one in plain)

    def running_on(self, rank: int) -> Iterable[Victim]:
        """The running tasks on an agent whose jobs are in the session, without those that are evicted already."""
        for job, position in self.snapshot.tenants[rank]:
            state = self.jobs.get(job.name)
            if state is not None and position not in state.evicted and job.tasks[position].status is Status.RUNNING:
                yield Victim(state, position, rank)

    # --- running ----------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Runs the actions in their order."""
        for choice in self.policy.actions:
            self._statements.clear()
            if not self._guard.act(choice, self):
                for statement in reversed(self._statements):
                    statement.undo()

    # --- closing ----------------------------------------------------------------------------------------------

    def close(self) -> Decisions:
        """The decisions of the session."""
        agents = self.agents.agents
        binds: list[Bind] = []
        evictions: list[Eviction] = []
        sequence: list[Bind | Overused] = []
        launched: set[tuple[int, int]] = set()
        passed_over = iter(self.sequence)
        following = next(passed_over, None)
        for number, (operation, beneficiary) in enumerate(self.changes.committed):
            while following is not None and following[0] <= number:
                sequence.append(following[1])
                following = next(passed_over, None)
            job = operation.job
            tasks, name = job.job.tasks, job.name
            if operation.kind == EVICT:
                for position, rank in zip(operation.positions, operation.ranks, strict=True):
                    evictions.append(Eviction(name, tasks[position].name, agents[rank].name, beneficiary.name))
                continue
            made = [
                Bind(name, tasks[position].name, agents[rank].name)
                for position, rank in zip(operation.positions, operation.ranks, strict=True)
            ]
            launched.update((job.number, position) for position in operation.positions)
            binds += made
            sequence += made
        if following is not None:
            sequence += [following[1], *(one for _, one in passed_over)]
        held = {
            (job.name, job.job.tasks[position].name): agents[rank].name
            for job in self.jobs.values()
            if len(job.placed)
            for position, rank in job.placed.items()
            if (job.number, position) not in launched
        }
        until = self.snapshot.now + self.policy.nomination_seconds
        return Decisions(
            binds=tuple(binds),
            evictions=tuple(evictions),
            pipelined=held,
            nominations={task: Nomination(agent, until) for task, agent in held.items()},
            conditions=self._closing_conditions(),
            admitted=tuple(self.admitted),
            sequence=tuple(sequence),
            deserved=self.rules.deserved(),
            faults=tuple(self._guard.faults),
            allocated={
                name: dict(zip(self.snapshot.dimensions, queue.allocated, strict=True))
                for name, queue in self.queues.items()
            },
            held_back={
                job.name: reason
                for job in self.jobs.values()
                if len(job.job.pending) > len(job.placed)
                for reason in self._held_back(job)
            },
        )

    @property
    def names(self) -> list[str]:
        """Names of all jobs in the session, in the order of the snapshot."""
        inside = {job.number for job in self.jobs.values()}.union(*(group.numbers for group in self.aside))
        return [self.snapshot.jobs[number].name for number in sorted(inside)]

    def _closing_conditions(self) -> Conditions:
        found = self._conditions
        scheduled = Condition(SCHEDULED)
        for job in self.jobs.values():
            if self.rules.ready(job):
                found[job.name] = scheduled
            elif job.pending or job.placed or self.snapshot.figures[job.number].settled > len(job.evicted):
                found[job.name] = self._unschedulable(
                    job.min_available - job.ready, len(job.job.tasks), job.waiting, job.misfit, self._held_back(job)
                )
        late: list[tuple[list[int], Callable[[Job], Condition]]] = []
        for group in self.aside:
            need = self.needs.of(group.template)
            self._refusals_of(need)
            late.append((group.numbers, partial(self._set_aside_condition, need)))
        return Conditions(found, self.snapshot.jobs, late)

    def _set_aside_condition(self, need: Need, job: Job) -> Condition:
        return self._unschedulable(job.min_available, len(job.tasks), 0, need, {})

    def _refusals_of(self, need: Need) -> dict[str, int]:
        found = self._refusals.get(need.number)
        if found is None:
            found = self._refusals[need.number] = self.candidates(need).refusals()
        return found

    def _held_back(self, job: JobState) -> dict[str, int]:
        """The reasons that lie with the queue of a job."""
        if job.over_limit:
            return {QUEUE_LIMIT: 1}
        passed_over = job.misfit is None and any(one.queue == job.queue.name for _, one in self.sequence)
        return {QUEUE_OVERUSED: 1} if passed_over else {}

    def _unschedulable(
        self, missing: int, tasks: int, waiting: int, misfit: Need | None, held_back: dict[str, int]
    ) -> Condition:
        why = held_back if misfit is None else {**held_back, **self._refusals_of(misfit)}
        reasons = ", ".join(f"{number} {reason}" for reason, number in why.items())
        message = f"{missing}/{tasks} tasks in gang unschedulable{f': {reasons}' if reasons else ''}"
        if waiting:
            message = f"{message}; {waiting} wait for room that is being released"
        return Condition(UNSCHEDULABLE, NOT_ENOUGH_RESOURCES, message, why, waiting)
