"""The state that sessions work on, with figures that are kept from session to session."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import count
from operator import attrgetter

from offers.dimensions import THOUSANDTHS, Amounts, Dimensions
from offers.policy.session.blocked import Groups, grouped
from offers.policy.session.columns import CPU, MEMORY, Columns, scored
from offers.policy.session.model import HOLDING, ON_AGENT, Agent, Job, Queue, Status, Task, Template
from offers.policy.session.running import Running
from offers.policy.session.state.templates import Needs

LARGEST = 2**48
"""The greatest total of an agent. Sums and products with ten then fit in 64 bits; for products of CPUs and memory
`Snapshot.wide` tells whether they do."""
MOST_MOVES = 32
"""Number of agents that join or leave at a time; if there are more, making the snapshot anew takes less time."""

TaskName = tuple[str, str]
"""Names of job and task."""
_name = attrgetter("name")
_itself = attrgetter(*(name for name in Agent._fields if name not in ("foreign", "coming")))
"""An agent without the work on it."""


class BadSnapshot(ValueError):
    """The state contradicts itself. The text names the object."""


class Standing:
    """The jobs of a queue that wait for nothing, as one sum."""

    __slots__ = ("allocated", "jobs", "running")

    def __init__(self, width: int) -> None:
        self.allocated = [0] * width
        self.running = self.jobs = 0

    def add(self, figures: JobFigures, sign: int) -> None:
        """Adds a job (`sign` 1) or takes it away (-1)."""
        self.jobs += sign
        self.running += sign * figures.running
        for d, amount in enumerate(figures.allocated):
            self.allocated[d] += sign * amount


class Snapshot:
    """Agents, queues and jobs at one moment. Agents are ordered by name; the position in that order is their rank.

    No session changes the snapshot. `advance` brings the snapshot to a later moment; sessions and decisions of the
    moment before are then void."""

    def __init__(
        self,
        agents: Iterable[Agent],
        queues: Iterable[Queue],
        jobs: Iterable[Job],
        now: float = 0.0,
        *,
        plain: bool = False,
        units: Dimensions = THOUSANDTHS,
    ) -> None:
        """`now` decides which nominations are valid. `plain`: without figures and templates of jobs, for readers that
        hold no session. `units`: the dimensions with their units, CPU and memory first; others are counts. Raises
        BadSnapshot for a name used twice, a weight below 1, an amount that no column can hold, a request below 0, and
        if neither agents nor tasks have the first two dimensions."""
        self._plain = plain
        self.units, self.scored = units, scored(units)
        self.changes = 0
        """Number of changes of any kind. The next three count those that may make a try help that was in vain."""
        self.room_changes = 0
        """Room on agents may have become free."""
        self.queue_changes = 0
        self.work_changes: dict[str, int] = {}
        """The same by queue: its jobs have other tasks on agents, or other minimums or priorities."""
        self.agent_changes = 0
        """Number of changes of agents themselves, not of the work on them, be it of others."""
        agents, queues, jobs = list(agents), tuple(queues), list(jobs)
        for title, names in (
            ("agent", [agent.name for agent in agents]),
            ("queue", [queue.name for queue in queues]),
            ("job", [job.name for job in jobs]),
        ):
            if len(set(names)) < len(names):
                twice = next(name for position, name in enumerate(names) if name in names[:position])
                raise BadSnapshot(f"two of the name {twice} ({title})")
        _check(agents, queues, jobs)
        self._enter(agents, queues, jobs, now)

    def _enter(self, agents: Iterable[Agent], queues: Sequence[Queue], jobs: Iterable[Job], now: float) -> None:
        self.now = now
        self.changes += 1
        self.room_changes += 1
        self.queue_changes += 1
        self.agent_changes += 1
        self.agents = sorted(agents, key=lambda agent: agent.name)
        self.queues = tuple(queues)
        self.jobs: dict[str, Job] = {}
        self.rank = {agent.name: rank for rank, agent in enumerate(self.agents)}
        self.templates: dict[Template, int] = {}
        """The distinct templates of all tasks, numbered."""
        self.figures: dict[str, JobFigures] = {}
        self.waking: dict[str, Job] = {}
        """The jobs that a session must look at: with pending tasks, or below their minimum."""
        self.standing: dict[str, Standing] = {}
        """Sums of the other jobs by queue."""
        self._uses: dict[Template, int] = {}
        """Number of jobs by template."""
        self._numbers = 0
        self._with_affinity = 0
        """Number of distinct templates that have rules about other work."""
        self._groups: Groups | None = None
        jobs = list(jobs)
        names, first = _named(self.agents, self.queues, jobs), self.scored[:2]
        if self.agents and jobs and names and names.isdisjoint(first):
            raise BadSnapshot(f"nothing has an amount of {' or '.join(first)}, but of {', '.join(sorted(names))}")
        self.dimensions = (*first, *sorted(names.difference(first)))
        """Names of all dimensions of agents, queues and templates: CPU and memory first, then by name."""
        self.index = {name: position for position, name in enumerate(self.dimensions)}
        self.needs = Needs(self)
        self.columns = Columns(self.agents, self.rank, self.index, self.scored)
        self.running = Running(self.index, self.rank)
        """The running tasks; empty if the snapshot is plain."""
        self.__dict__.pop("tenants", None)
        for job in jobs:
            self._set_job(job.name, None, job)
        self.columns.settle()

    def advance(
        self,
        now: float,
        agents: Mapping[str, Agent | None] | None = None,
        jobs: Mapping[str, Job | None] | None = None,
        queues: Iterable[Queue] | None = None,
    ) -> None:
        """Takes over the changes until the moment `now` in seconds: agents and jobs by name, None for those that
        are gone, and all queues if one has changed. The cost is that of the changes; decisions are those of a snapshot
        that is made anew. Raises BadSnapshot as the constructor; nothing is changed then."""
        agents, jobs = agents or {}, jobs or {}
        sized = [agent for agent in agents.values() if agent is not None and not self._has_size(agent)]
        came = [job for job in jobs.values() if job is not None]
        following = self.queues if queues is None else tuple(queues)
        _check(sized, () if queues is None else following, came)
        moved = [name for name, agent in agents.items() if (agent is None) is (name in self.rank)]
        if len(moved) > MOST_MOVES or any(name not in self.index for name in _named(sized, following, came)):
            every = {**{agent.name: agent for agent in self.agents}, **agents}
            work = {**self.jobs, **jobs}
            left = [agent for agent in every.values() if agent is not None]
            self._enter(left, following, [job for job in work.values() if job is not None], now)
            return
        self.now = now
        if following != self.queues:
            self.queues = following
            self.queue_changes += 1
            self.changes += 1
        self.__dict__.pop("wide", None)
        self._set_agents(agents, moved)
        for name, job in jobs.items():
            before = self.jobs.get(name)
            if job is not before:
                self._set_job(name, before, job)
        self.columns.settle()

    def _has_size(self, agent: Agent) -> bool:
        """True if an agent has the same size as before."""
        rank = self.rank.get(agent.name)
        return rank is not None and self.agents[rank].total == agent.total

    # --- changes ----------------------------------------------------------------------------------------------

    def _set_agents(self, agents: Mapping[str, Agent | None], moved: list[str]) -> None:
        if moved:
            self.changes += 1
            self.room_changes += 1
            self.agent_changes += 1
            tenants = self.tenants
            for name in moved:
                agent, rank = agents[name], bisect_left(self.agents, name, key=_name)
                if agent is None:
                    self.columns.delete(rank, self.agents.pop(rank))
                else:
                    self.agents.insert(rank, agent)
                    self.columns.insert(rank, agent)
            self.rank = dict(zip(map(_name, self.agents), count(), strict=False))
            self.columns.renew(self.rank)
            self.running.renew(self.rank)
            for name in moved:
                self.columns.count_tasks(tenants.get(name, {}).values(), 1)
        for name, agent in agents.items():
            rank = self.rank.get(name, -1)
            if agent is not None and self.agents[rank] is not agent:
                self.changes += 1
                self.room_changes += 1
                before, self.agents[rank] = self.agents[rank], agent
                self.agent_changes += _itself(before) != _itself(agent)
                self.columns.replace_agent(rank, before, agent)

    def _set_job(self, name: str, before: Job | None, after: Job | None) -> None:
        """Replaces a job. The cost beside a comparison of identities is that of the tasks that differ."""
        self._groups = None
        old = before.tasks if before is not None else ()
        new = after.tasks if after is not None else ()
        kept = set(map(id, old)).intersection(map(id, new)) if old and new else set()
        gone = [task for task in old if id(task) not in kept]
        came = [task for task in new if id(task) not in kept]
        if self._plain:
            self._move(name, gone, came)
            if after is None:
                self.jobs.pop(name, None)
            else:
                self.jobs[name] = after
            return
        figures = self.figures.get(name)
        if figures is None:
            figures = self.figures[name] = JobFigures(len(self.dimensions))
        else:
            assert before is not None
            self._account(before, figures, -1)
        for template in figures.count(gone, self.index, -1):
            self._forget(template)
        for template in figures.count(came, self.index, 1):
            self._learn(template)
        self._count_change(before, after, gone, came)
        self._move(name, gone, came)
        self.running.follow(name, after, figures.ready, gone, came)
        if after is None:
            self.jobs.pop(name, None)
            del self.figures[name]
        else:
            self.jobs[name] = after
            self._account(after, figures, 1)

    def _count_change(self, before: Job | None, after: Job | None, gone: list[Task], came: list[Task]) -> None:
        self.changes += 1
        stays = {task.name: task for task in came if task.status in HOLDING}
        for task in gone:
            now = stays.get(task.name)
            if task.nomination is not None or (
                task.status in ON_AGENT and (now is None or (now.agent, now.template) != (task.agent, task.template))
            ):
                self.room_changes += 1
                break
        moved = any(task.status in ON_AGENT for task in (*gone, *came))
        if moved or before is None or after is None or _facts(before) != _facts(after):
            for job in (before, after):
                if job is not None:
                    self.work_changes[job.queue] = self.work_changes.get(job.queue, 0) + 1

    def _account(self, job: Job, figures: JobFigures, sign: int) -> None:
        """Counts a job among those that wait, or in the sum of the others."""
        if not figures.stands(job.min_available):
            if sign > 0:
                self.waking[job.name] = job
            else:
                del self.waking[job.name]
            return
        standing = self.standing.get(job.queue)
        if standing is None:
            standing = self.standing[job.queue] = Standing(len(self.dimensions))
        standing.add(figures, sign)
        if not standing.jobs:
            del self.standing[job.queue]

    def _move(self, job: str, gone: list[Task], came: list[Task]) -> None:
        gone = [task for task in gone if task.status in ON_AGENT]
        came = [task for task in came if task.status in ON_AGENT]
        self.columns.count_tasks(gone, -1)
        self.columns.count_tasks(came, 1)
        if "tenants" in self.__dict__:
            tenants = self.tenants  # copies share the tasks of each agent, which are therefore replaced
            for task in gone:
                there = tenants[task.agent] = tenants[task.agent].copy()
                del there[job, task.name]
                if not there:
                    del tenants[task.agent]
            for task in came:
                tenants[task.agent] = {**tenants.get(task.agent, {}), (job, task.name): task}

    def _learn(self, template: Template) -> None:
        number = self._uses.get(template, 0)
        if not number:
            self.templates[template] = self._numbers
            self._numbers += 1
            self._with_affinity += bool(template.affinity)
        self._uses[template] = number + 1

    def _forget(self, template: Template) -> None:
        self._uses[template] -= 1
        if not self._uses[template]:
            del self._uses[template]
            self.needs.forget(self.templates.pop(template))
            self._with_affinity -= bool(template.affinity)

    # --- questions --------------------------------------------------------------------------------------------

    @property
    def has_affinity(self) -> bool:
        """True if a template has rules about other work."""
        return self._with_affinity > 0

    @cached_property
    def wide(self) -> bool:
        """True if ten times the product of CPUs and memory of an agent may exceed 64 bits."""
        cpus, mem = (int(self.columns.total_arrays[d].max(initial=0)) for d in (CPU, MEMORY))
        return cpus * mem >= 2**59

    @property
    def totals(self) -> list[int]:
        """The sum over all agents, by dimension."""
        return self.columns.totals

    @property
    def groups(self) -> Groups:
        """The jobs that are alike, for the index of blocked work."""
        if self._groups is None:
            self._groups = grouped(self.waking.values(), lambda name: self.figures[name].requested)
        return self._groups

    @cached_property
    def tenants(self) -> dict[str, dict[TaskName, Task]]:
        """The tasks that take room, by the name of their agent."""
        tenants: dict[str, dict[TaskName, Task]] = {}
        for job in self.jobs.values():
            for task in job.tasks:
                if task.status in ON_AGENT:
                    tenants.setdefault(task.agent, {})[job.name, task.name] = task
        return tenants

    def row(self, amounts: Amounts) -> list[int]:
        """Amounts as a list with one number per dimension."""
        row = [0] * len(self.dimensions)
        for name, amount in amounts:
            row[self.index[name]] += amount
        return row


def _facts(job: Job) -> tuple[str, int, int]:
    return job.queue, job.min_available, job.priority


def _check(agents: Iterable[Agent], queues: Iterable[Queue], jobs: Iterable[Job]) -> None:
    names: set[str] = set()
    for queue in queues:
        if queue.name in names:
            raise BadSnapshot(f"two of the name {queue.name} (queue)")
        names.add(queue.name)
        if queue.weight < 1:
            raise BadSnapshot(f"queue {queue.name}: weight is {queue.weight}")
    for agent in agents:
        for name, amount in agent.total:
            if not 0 <= amount <= LARGEST:
                raise BadSnapshot(f"agent {agent.name}: total of {name} is {amount}")
    for job in jobs:
        for template in {id(task.template): task.template for task in job.tasks}.values():
            if any(amount < 0 for _, amount in template.request):
                raise BadSnapshot(f"job {job.name}: a task requests less than nothing")


def _named(agents: Iterable[Agent], queues: Iterable[Queue], jobs: Iterable[Job]) -> set[str]:
    """The dimensions of totals, of queues and of templates."""
    names: set[str] = set()
    for agent in agents:
        names.update(name for name, _ in agent.total)
    for queue in queues:
        names.update(name for name, _ in (*queue.guarantee, *queue.capability))
    seen: set[int] = set()
    for job in jobs:
        for template in {id(task.template): task.template for task in job.tasks}.values():
            if id(template) not in seen:
                seen.add(id(template))
                names.update(name for name, _ in template.request)
    return names


class JobFigures:
    """Counts of a job as they are when a session opens. Amounts are by dimension."""

    __slots__ = ("_templates", "allocated", "moving", "pending", "ready", "requested", "running", "settled")

    def __init__(self, width: int) -> None:
        self.allocated = [0] * width
        self.requested = [0] * width
        """The amounts that pending tasks ask for."""
        self.pending = self.ready = self.settled = self.running = self.moving = 0
        """`settled`: tasks that are in an allocated state; `ready`: these and those that have succeeded; `moving`:
        those that leave for another agent."""
        self._templates: dict[int, tuple[Template, int]] = {}
        """Templates with the number of their tasks, by identity."""

    def stands(self, minimum: int) -> bool:
        """True if the job waits for nothing, and has its minimum or nothing at all."""
        return not self.pending and (self.ready >= minimum or not self.ready)

    def count(self, tasks: Iterable[Task], index: Mapping[str, int], sign: int) -> list[Template]:
        """Adds tasks (`sign` 1) or takes them away (-1). Returns the templates that are new, or that no task has any
        more."""
        templates = self._templates
        before = set(templates)
        known: dict[int, Template] = {}
        for task in tasks:
            template, status = task.template, task.status
            known[id(template)] = template
            number = templates.get(id(template), (template, 0))[1] + sign
            if number:
                templates[id(template)] = (template, number)
            else:
                del templates[id(template)]
            if status in HOLDING:
                self.settled += sign
                self.ready += sign
                self.running += sign * (status is Status.RUNNING)
                amounts = self.allocated
            elif status is Status.PENDING:
                self.pending += sign
                amounts = self.requested
            else:
                self.ready += sign * (status is Status.SUCCEEDED)
                if not task.moves:
                    continue
                self.moving += sign
                amounts = self.allocated
            for name, amount in template.request:
                amounts[index[name]] += sign * amount
        return [template for key, template in known.items() if (key in before) is not (key in templates)]
