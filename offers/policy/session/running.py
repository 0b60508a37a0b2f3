"""The running tasks of a snapshot as columns, so that one computation answers for the tasks of all agents.

They follow changes of jobs and agents. A search for victims derives bounds from them (`preemption.Search`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from offers.policy.session.columns import Array
from offers.policy.session.model import Job, Status, Task

NOT_READY = -(2**61)
"""Stands for the priority of a task that is not ready, below all priorities."""
FIRST = 64
"""Number of places that columns have at first; they double when they are full."""


class _Places:
    """Numbers of things that come and go; a number that became free is given again."""

    def __init__(self) -> None:
        self._free: list[int] = []
        self.end = 0
        """All numbers are below."""

    def next(self) -> int:
        if self._free:
            return self._free.pop()
        self.end += 1
        return self.end - 1

    def give(self, number: int) -> None:
        self._free.append(number)


class Running:
    """The columns `rank`, `job`, `critical` and `amounts` have one entry per running task; the job is -1 where there is
    no task. The columns `queue`, `priority`, `least` and `ready` have one entry per job with such tasks."""

    def __init__(self, dimensions: Mapping[str, int], rank: Mapping[str, int]) -> None:
        """`dimensions`: positions of the names of amounts. `rank`: positions of agents by name."""
        self._dimensions = dimensions
        self._tasks, self._jobs, self._queues = _Places(), _Places(), _Places()
        self._number: dict[tuple[str, str], int] = {}
        self._members: dict[str, int] = {}
        """Number of running tasks by job."""
        self.jobs: dict[str, int] = {}
        """The numbers of jobs by name."""
        self._names: dict[int, str] = {}
        self.queues: dict[str, int] = {}
        """The numbers of queues by name; they stay."""
        self._agents: dict[str, int] = {}
        self._agent = np.zeros(FIRST, dtype=np.int64)
        self._job = np.full(FIRST, -1, dtype=np.int64)
        self._critical, self._waits = np.zeros(FIRST, dtype=bool), np.zeros(FIRST, dtype=bool)
        self._amounts = np.zeros((len(dimensions), FIRST), dtype=np.int64)
        self._queue, self._priority, self._least, self._ready = (np.zeros(FIRST, dtype=np.int64) for _ in range(4))
        self._ranks: Array | None = None
        self._sorted: tuple[Array, Array] | None = None
        self._rank_of = rank

    def renew(self, rank: Mapping[str, int]) -> None:
        """Agents have joined or gone: takes over the new ranks."""
        self._rank_of, self._ranks = rank, None
        if len(self._agents) > 2 * len(rank) + FIRST:
            used = np.unique(self._agent[: self._tasks.end][self.job >= 0])
            names = list(self._agents)
            self._agents = {names[number]: place for place, number in enumerate(used.tolist())}
            self._agent = np.searchsorted(used, self._agent)

    def follow(self, name: str, job: Job | None, ready: int, gone: Iterable[Task], came: Iterable[Task]) -> None:
        """A job is different; None: it is gone. `gone` and `came`: the tasks that differ. `ready`: the tasks of the job
        that count for its minimum."""
        self._sorted = None
        members = self._members.get(name, 0)
        leaving = [task for task in gone if task.status is Status.RUNNING]
        coming = [task for task in came if task.status is Status.RUNNING]
        for task in leaving:
            number = self._number.pop((name, task.name))
            self._job[number] = -1
            self._tasks.give(number)
        members += len(coming) - len(leaving)
        if not members or job is None:
            if name in self.jobs:
                self._jobs.give(self.jobs.pop(name))
                del self._members[name]
            return
        self._members[name] = members
        number = self._job_number(name)
        queue = self.queues.get(job.queue)
        if queue is None:
            queue = self.queues[job.queue] = self._queues.next()
        self._queue[number], self._priority[number] = queue, job.priority
        self._least[number], self._ready[number] = job.min_available, ready
        if coming:
            self._add(name, number, coming)

    def _job_number(self, name: str) -> int:
        number = self.jobs.get(name)
        if number is None:
            number = self.jobs[name] = self._jobs.next()
            self._names[number] = name
            if number == len(self._queue):
                self._queue, self._priority, self._least, self._ready = (
                    _doubled(column) for column in (self._queue, self._priority, self._least, self._ready)
                )
        return number

    def _add(self, name: str, job: int, tasks: list[Task]) -> None:
        numbers = [self._tasks.next() for _ in tasks]
        while self._tasks.end > len(self._job):
            self._agent, self._critical = _doubled(self._agent), _doubled(self._critical)
            self._waits = _doubled(self._waits)
            self._job = np.concatenate([self._job, np.full(len(self._job), -1, dtype=np.int64)])
            self._amounts = np.concatenate([self._amounts, np.zeros_like(self._amounts)], axis=1)
        agents = self._agents
        for number, task in zip(numbers, tasks, strict=True):
            self._number[name, task.name] = number
            if task.agent not in agents:
                agents[task.agent] = len(agents)
                self._ranks = None
        chosen = np.array(numbers, dtype=np.int64)
        self._job[chosen] = job
        self._agent[chosen] = [agents[task.agent] for task in tasks]
        self._critical[chosen] = [task.critical for task in tasks]
        self._waits[chosen] = [not task.ready for task in tasks]
        self._amounts[:, chosen] = 0
        by_template: dict[int, list[int]] = {}
        for number, task in zip(numbers, tasks, strict=True):
            by_template.setdefault(id(task.template), []).append(number)
        templates = {id(task.template): task.template for task in tasks}
        for key, alike in by_template.items():
            for dimension, amount in templates[key].request:
                self._amounts[self._dimensions[dimension], alike] = amount

    # --- questions --------------------------------------------------------------------------------------------

    def name(self, job: int) -> str:
        """The name of the job of a number."""
        return self._names[job]

    @property
    def rank(self) -> Array:
        """The rank of the agent of each task; -1 for agents that are not known."""
        if self._ranks is None:
            rank_of = self._rank_of
            self._ranks = np.array([rank_of.get(name, -1) for name in self._agents], dtype=np.int64)
        if not len(self._ranks):
            return np.zeros(0, dtype=np.int64)
        ranks: Array = self._ranks[self._agent[: self._tasks.end]]
        return ranks

    @property
    def job(self) -> Array:
        """The number of the job of each task; -1 where there is no task."""
        return self._job[: self._tasks.end]

    @property
    def critical(self) -> Array:
        """True for each critical task."""
        return self._critical[: self._tasks.end]

    @property
    def waits(self) -> Array:
        """True for each task that is not ready."""
        return self._waits[: self._tasks.end]

    def importance(self, tasks: Array) -> Array:
        """The priorities of the jobs of some tasks, given by number; `NOT_READY` for tasks that are not ready."""
        return np.where(self._waits[tasks], NOT_READY, self.priority[self.job[tasks]])

    @property
    def amounts(self) -> Array:
        """The amounts by dimension and task."""
        return self._amounts[:, : self._tasks.end]

    def tasks_in(self, queues: Iterable[int]) -> Array:
        """The numbers of the tasks in the queues of some numbers."""
        if self._sorted is None:
            tasks = np.nonzero(self.job >= 0)[0]
            of_queue = self._queue[self.job[tasks]]
            order = np.argsort(of_queue, kind="stable")
            self._sorted = tasks[order], np.searchsorted(of_queue[order], np.arange(self._queues.end + 1))
        tasks, ends = self._sorted
        parts = [tasks[ends[queue] : ends[queue + 1]] for queue in queues]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)

    @property
    def queue(self) -> Array:
        """The number of the queue of each job. Numbers that no job has have any values, here and below."""
        return self._queue[: self._jobs.end]

    @property
    def priority(self) -> Array:
        """The priority of each job."""
        return self._priority[: self._jobs.end]

    @property
    def least(self) -> Array:
        """The minimum of each job."""
        return self._least[: self._jobs.end]

    @property
    def ready(self) -> Array:
        """The number of tasks of each job that count for its minimum, when a session opens."""
        return self._ready[: self._jobs.end]


def _doubled(column: Array) -> Array:
    return np.concatenate([column, np.zeros_like(column)])
