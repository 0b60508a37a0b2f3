"""The agents of a snapshot as columns: one list per dimension, one entry per rank. Sessions copy these lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np

from offers.policy.session.model import ON_AGENT, Agent, Job, Status, Template

Array = np.ndarray[Any, Any]

NO_LIMIT = 2**62
"""Stands for a missing limit in columns of numbers of tasks."""
LEAST_CPUS = 100
"""Thousandths of a core that a task without CPU request counts in scores (the original's default of 0.1 cores)."""
LEAST_MEM = 200_000
"""Thousandths of a MB that a task without memory request counts in scores."""


class Columns:
    """Amounts, counts and limits of the agents."""

    def __init__(
        self, agents: Sequence[Agent], rank: Mapping[str, int], index: Mapping[str, int], jobs: Iterable[Job]
    ) -> None:
        """`rank` gives the position of an agent, `index` that of a dimension."""
        count = len(agents)
        self._rank, self._index = rank, index
        self.total = [[0] * count for _ in index]
        for position, agent in enumerate(agents):
            for name, amount in agent.total:
                self.total[index[name]][position] = amount
        self.idle = [list(column) for column in self.total]
        self.future = [list(column) for column in self.total]
        """Idle, and what is being released."""
        self.count = [0] * count
        """Tasks on the agent."""
        self.score_cpus = [0] * count
        """Requested CPUs for scores: a task without a request counts `LEAST_CPUS`."""
        self.score_mem = [0] * count
        self.leaving = [0] * count
        """Tasks that are being released."""
        for position, agent in enumerate(agents):
            for name, amount in agent.foreign:
                if name in index:
                    self.idle[index[name]][position] -= amount
                    self.future[index[name]][position] -= amount
                    self.score_cpus[position] += amount if name == "cpus" else 0
                    self.score_mem[position] += amount if name == "mem" else 0
        self._count(jobs, 1)
        self.max_tasks = [NO_LIMIT if agent.max_tasks is None else agent.max_tasks for agent in agents]
        self.limited = any(agent.max_tasks is not None for agent in agents)
        self.total_arrays = [np.array(column, dtype=np.int64) for column in self.total]
        self.max_tasks_array = np.array(self.max_tasks, dtype=np.int64)
        self.mirrors = Mirrors(self)

    def after(self, left: Iterable[Job], joined: Iterable[Job]) -> Columns:
        """Returns the columns without the tasks of some jobs and with those of others."""
        new = copy(self)
        new.idle = [list(column) for column in self.idle]
        new.future = [list(column) for column in self.future]
        new.count, new.leaving = list(self.count), list(self.leaving)
        new.score_cpus, new.score_mem = list(self.score_cpus), list(self.score_mem)
        touched = sorted(new._count(left, -1) | new._count(joined, 1))
        new.mirrors = self.mirrors.after(new, touched)
        return new

    def _count(self, jobs: Iterable[Job], sign: int) -> set[int]:
        """Adds the tasks of jobs (`sign` 1) or takes them away (-1). The ranks that changed."""
        ranks, index, touched = self._rank, self._index, set()
        known: dict[int, tuple[list[tuple[int, int]], int, int]] = {}
        for job in jobs:
            for task in job.tasks:
                if task.status not in ON_AGENT or task.agent not in ranks:
                    continue
                rank = ranks[task.agent]
                touched.add(rank)
                found = known.get(id(task.template))
                if found is None:
                    found = known[id(task.template)] = _signed(task.template, index, sign)
                row, cpus, mem = found
                for d, amount in row:
                    self.idle[d][rank] -= amount
                if task.status is Status.RELEASING:
                    self.leaving[rank] += sign
                else:
                    for d, amount in row:
                        self.future[d][rank] -= amount
                self.count[rank] += sign
                self.score_cpus[rank] += cpus
                self.score_mem[rank] += mem
        return touched


def _signed(template: Template, index: Mapping[str, int], sign: int) -> tuple[list[tuple[int, int]], int, int]:
    request = dict(template.request)
    row = [(index[name], sign * amount) for name, amount in template.request]
    return row, sign * (request.get("cpus") or LEAST_CPUS), sign * (request.get("mem") or LEAST_MEM)


class Mirrors:
    """Arrays of the columns that sessions change, as they are when a session opens."""

    def __init__(self, columns: Columns) -> None:
        self.idle = [np.array(column, dtype=np.int64) for column in columns.idle]
        self.future = [np.array(column, dtype=np.int64) for column in columns.future]
        self.count = np.array(columns.count, dtype=np.int64)
        self.score_cpus = np.array(columns.score_cpus, dtype=np.int64)
        self.score_mem = np.array(columns.score_mem, dtype=np.int64)

    def after(self, columns: Columns, ranks: Sequence[int]) -> Mirrors:
        """Returns the arrays of other columns, which differ at some ranks only."""
        new = copy(self)
        chosen = np.array(ranks, dtype=np.int64)

        def patched(array: Array, column: list[int]) -> Array:
            array = array.copy()
            array[chosen] = [column[rank] for rank in ranks]
            return array

        new.idle = [patched(*pair) for pair in zip(self.idle, columns.idle, strict=True)]
        new.future = [patched(*pair) for pair in zip(self.future, columns.future, strict=True)]
        new.count = patched(self.count, columns.count)
        new.score_cpus = patched(self.score_cpus, columns.score_cpus)
        new.score_mem = patched(self.score_mem, columns.score_mem)
        return new
