"""The frozen state that a session works on, with figures that are computed once for all sessions over it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from offers.dimensions import Amounts
from offers.policy.session.blocked import Groups, grouped
from offers.policy.session.columns import Columns
from offers.policy.session.model import HOLDING, ON_AGENT, Agent, Job, Queue, Status, Template

LARGEST = 2**48
"""The greatest total of an agent. Sums and products with ten then fit in 64 bits; for products of CPUs and memory
`Snapshot.wide` tells whether they do."""
GENERATIONS = 1000
"""After so many changes a snapshot is made anew, so that templates which are gone are forgotten."""


class BadSnapshot(ValueError):
    """The state contradicts itself. The text names the object."""


class Snapshot:
    """Agents, queues and jobs at one moment. Agents are ordered by name; the position in that order is their rank."""

    def __init__(self, agents: Iterable[Agent], queues: Iterable[Queue], jobs: Iterable[Job], now: float = 0.0) -> None:
        """`now` decides which nominations are valid. Raises BadSnapshot for a name used twice, a weight below 1, or an
        amount that no column can hold."""
        self.agents = tuple(sorted(agents, key=lambda agent: agent.name))
        self.queues = tuple(queues)
        self.jobs = tuple(jobs)
        self.now = now
        self._generation = 0
        self.rank = {agent.name: rank for rank, agent in enumerate(self.agents)}
        for title, names in (
            ("agent", [agent.name for agent in self.agents]),
            ("queue", [queue.name for queue in self.queues]),
            ("job", [job.name for job in self.jobs]),
        ):
            if len(set(names)) < len(names):
                twice = next(name for position, name in enumerate(names) if name in names[:position])
                raise BadSnapshot(f"two of the name {twice} ({title})")
        for queue in self.queues:
            if queue.weight < 1:
                raise BadSnapshot(f"queue {queue.name}: weight is {queue.weight}")
        for agent in self.agents:
            for name, amount in agent.total:
                if not 0 <= amount <= LARGEST:
                    raise BadSnapshot(f"agent {agent.name}: total of {name} is {amount}")

    def after(self, jobs: Iterable[Job], now: float) -> Snapshot:
        """The snapshot with other jobs, at a later moment in seconds; agents and queues are the same.

        Jobs that are the same object as before cost next to nothing, so a session after a few changes need not look at
        everything that runs. The result equals a snapshot that is made anew. Raises BadSnapshot as the constructor."""
        new = Snapshot.__new__(Snapshot)
        new.agents, new.queues, new.rank = self.agents, self.queues, self.rank
        new.jobs, new.now, new._generation = tuple(jobs), now, self._generation + 1
        before = {job.name: number for number, job in enumerate(self.jobs)}
        numbers: list[int | None] = []
        joined = []
        for job in new.jobs:
            number = before.pop(job.name, None)
            if number is not None and self.jobs[number] is not job:
                before[job.name] = number
                number = None
            numbers.append(number)
            if number is None:
                joined.append(job)
        left = [self.jobs[number] for number in before.values()]
        if len({job.name for job in new.jobs}) < len(new.jobs) or new._generation > GENERATIONS:
            return Snapshot(self.agents, self.queues, new.jobs, now)
        templates = _with_templates(self.templates, joined)
        if any(name not in self.index for template in templates for name, _ in template.request):
            return Snapshot(self.agents, self.queues, new.jobs, now)
        new.__dict__.update(
            templates=templates,
            dimensions=self.dimensions,
            index=self.index,
            has_affinity=any(template.affinity for template in templates),
            totals=self.totals,
            wide=self.wide,
            columns=self.columns.after(left, joined),
        )
        new.__dict__["figures"] = [
            JobFigures(new, job) if number is None else self.figures[number]
            for job, number in zip(new.jobs, numbers, strict=True)
        ]
        if "tenants" in self.__dict__:
            new.__dict__["tenants"] = self._tenants_after(left, joined)
        return new

    def _tenants_after(self, left: list[Job], joined: list[Job]) -> list[list[tuple[Job, int]]]:
        gone = {id(job) for job in left}
        found = list(self.tenants)
        touched = {
            self.rank[task.agent]
            for job in (*left, *joined)
            for task in job.tasks
            if task.status in ON_AGENT and task.agent in self.rank
        }
        for rank in touched:
            found[rank] = [pair for pair in found[rank] if id(pair[0]) not in gone]
        for job in joined:
            for position, task in enumerate(job.tasks):
                if task.status in ON_AGENT and task.agent in self.rank:
                    found[self.rank[task.agent]].append((job, position))
        return found

    # --- dimensions -------------------------------------------------------------------------------------------

    @cached_property
    def dimensions(self) -> tuple[str, ...]:
        """Names of all dimensions of agents, queues and templates: cpus and mem first, then by name."""
        names = {"cpus", "mem"}
        for agent in self.agents:
            names.update(name for name, _ in agent.total)
        for queue in self.queues:
            names.update(name for name, _ in (*queue.guarantee, *queue.capability))
        for template in self.templates:
            names.update(name for name, _ in template.request)
        return ("cpus", "mem", *sorted(names - {"cpus", "mem"}))

    @cached_property
    def index(self) -> dict[str, int]:
        """Position of each dimension."""
        return {name: position for position, name in enumerate(self.dimensions)}

    @cached_property
    def templates(self) -> dict[Template, int]:
        """The distinct templates of all tasks, numbered. Raises BadSnapshot for a request below 0."""
        return _with_templates({}, self.jobs)

    @cached_property
    def has_affinity(self) -> bool:
        """True if a template has rules about other work."""
        return any(template.affinity for template in self.templates)

    @cached_property
    def wide(self) -> bool:
        """True if ten times the product of CPUs and memory of an agent may exceed 64 bits."""
        cpus, mem = (max(self.columns.total[d], default=0) for d in (0, 1))
        return cpus * mem >= 2**59

    def row(self, amounts: Amounts) -> list[int]:
        """Amounts as a list with one number per dimension."""
        row = [0] * len(self.dimensions)
        for name, amount in amounts:
            row[self.index[name]] += amount
        return row

    # --- agents -----------------------------------------------------------------------------------------------

    @cached_property
    def columns(self) -> Columns:
        """The amounts that the agents have and that are used on them."""
        return Columns(self.agents, self.rank, self.index, self.jobs)

    @cached_property
    def totals(self) -> list[int]:
        """The sum over all agents, by dimension."""
        return [int(column.sum()) for column in self.columns.total_arrays]

    @cached_property
    def tenants(self) -> list[list[tuple[Job, int]]]:
        """The tasks that take room, by the rank of their agent, as pairs of job and position of the task."""
        found: list[list[tuple[Job, int]]] = [[] for _ in self.agents]
        for job in self.jobs:
            for position, task in enumerate(job.tasks):
                if task.status in ON_AGENT and task.agent in self.rank:
                    found[self.rank[task.agent]].append((job, position))
        return found

    # --- jobs -------------------------------------------------------------------------------------------------

    @cached_property
    def figures(self) -> list[JobFigures]:
        """The figures of each job, in the order of the jobs."""
        return [JobFigures(self, job) for job in self.jobs]

    @cached_property
    def groups(self) -> Groups:
        """The jobs that are alike, for the index of blocked work."""
        return grouped(self.jobs, lambda number: self.figures[number].requested)


def _with_templates(known: dict[Template, int], jobs: Iterable[Job]) -> dict[Template, int]:
    found = dict(known)
    seen: set[int] = set()
    for job in jobs:
        for task in job.tasks:
            template = task.template
            if id(template) not in seen:
                seen.add(id(template))
                if template not in found:
                    found[template] = len(found)
                    if any(amount < 0 for _, amount in template.request):
                        raise BadSnapshot(f"job {job.name}: task {task.name} requests less than nothing")
    return found


class JobFigures:
    """Counts of a job as they are when a session opens. Amounts are by dimension."""

    __slots__ = ("allocated", "pending", "ready", "requested", "running", "settled")

    def __init__(self, snapshot: Snapshot, job: Job) -> None:
        width = len(snapshot.dimensions)
        self.allocated = [0] * width
        self.requested = [0] * width
        """The amounts that pending tasks ask for."""
        self.ready = self.settled = self.running = 0
        """`settled`: tasks that are in an allocated state."""
        self.pending = len(job.pending)
        for task in job.tasks:
            if task.status in HOLDING:
                self.settled += 1
                self.running += task.status is Status.RUNNING
                self.ready += 1
                for name, amount in task.template.request:
                    self.allocated[snapshot.index[name]] += amount
            elif task.status is Status.SUCCEEDED:
                self.ready += 1
        if job.template is not None:
            for name, amount in job.template.request:
                self.requested[snapshot.index[name]] += amount * self.pending
        else:
            for position in job.pending:
                for name, amount in job.tasks[position].template.request:
                    self.requested[snapshot.index[name]] += amount
