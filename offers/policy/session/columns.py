"""The agents of a snapshot as columns: one list per dimension, one entry per rank. Sessions copy these lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from offers.dimensions import Amounts, Dimensions
from offers.policy.session.model import Agent, Status, Task, Template

Array = np.ndarray[Any, Any]

NO_LIMIT = 2**62
"""Stands for a missing limit in columns of numbers of tasks."""
CPU, MEMORY = 0, 1
"""Positions of the two dimensions that scores look at."""
_facts = attrgetter("ready", "schedulable", "max_tasks", "taints", "pressure", "ports")
"""The facts of an agent in columns beside its amounts."""
LEAST_CORES, LEAST_MB = Fraction(1, 10), 200
"""A task without a request counts so many cores, and so much memory, in scores (the original's defaults)."""


class Scored(NamedTuple):
    """The two dimensions that scores look at. Amounts in their units: those that a task without a request counts."""

    cpu: str
    memory: str
    least_cpus: int
    least_mem: int

    def of(self, request: Amounts) -> tuple[int, int]:
        """CPUs and memory of a request in scores."""
        amounts = dict(request)
        return amounts.get(self.cpu) or self.least_cpus, amounts.get(self.memory) or self.least_mem


def scored(dimensions: Dimensions) -> Scored:
    """The first two dimensions: CPU in cores, and memory in MB."""
    cpu, memory = dimensions.names[:2]
    return Scored(cpu, memory, dimensions.at_least(cpu, LEAST_CORES), dimensions.at_least(memory, LEAST_MB))


class Columns:
    """Amounts, counts and limits of the agents. They follow changes of agents and tasks; `settle` ends each round of
    changes."""

    def __init__(
        self, agents: Sequence[Agent], rank: Mapping[str, int], index: Mapping[str, int], scored: Scored
    ) -> None:
        """`rank` gives the position of an agent, `index` that of a dimension. Nothing runs yet."""
        count = len(agents)
        self._rank, self._index, self._scored = rank, index, scored
        self.total = [[0] * count for _ in index]
        self.idle = [[0] * count for _ in index]
        self.future = [[0] * count for _ in index]
        """Idle amounts, and amounts that are being released."""
        self.count = [0] * count
        """Tasks on the agent."""
        self.score_cpus = [0] * count
        """Requested CPUs for scores: a task without a request counts `Scored.least_cpus`."""
        self.score_mem = [0] * count
        self.leaving: dict[str, int] = {}
        """Tasks that are being released, by the name of the agent, and one more for room that comes; agents without
        such room are missing."""
        self.max_tasks = [NO_LIMIT] * count
        self.totals = [0] * len(index)
        """The sum over all agents, by dimension."""
        self.special: dict[str, None] = {}
        """Names of the agents that are not ready, set aside, tainted, or short of something."""
        self.ports: dict[str, dict[int, int]] = {}
        """Ports in use by agent, with the number of users."""
        self._limited = 0
        self._touched: set[int] = set()
        for position, agent in enumerate(agents):
            self._add_agent(position, agent, 1)
        self.total_arrays: list[Array] = []
        self.mirrors = Mirrors(self)
        self._renew_arrays()

    @property
    def limited(self) -> bool:
        """True if an agent has a limit of the number of its tasks."""
        return self._limited > 0

    # --- changes ----------------------------------------------------------------------------------------------

    def count_tasks(self, tasks: Iterable[Task], sign: int) -> None:
        """Adds tasks that take room on agents (`sign` 1), or takes them away (-1). Tasks on unknown agents do not
        count."""
        ranks, touched = self._rank, self._touched
        known: dict[int, tuple[list[tuple[int, int]], int, int]] = {}
        for task in tasks:
            rank = ranks.get(task.agent)
            if rank is None:
                continue
            touched.add(rank)
            vector = known.get(id(task.template))
            if vector is None:
                vector = known[id(task.template)] = self._signed(task.template, sign)
            row, cpus, mem = vector
            for d, amount in row:
                self.idle[d][rank] -= amount
            if task.status is Status.RELEASING:
                _count(self.leaving, task.agent, sign)
            else:
                for d, amount in row:
                    self.future[d][rank] -= amount
            self.count[rank] += sign
            self.score_cpus[rank] += cpus
            self.score_mem[rank] += mem
            for port in task.template.ports:
                self._count_port(task.agent, port, sign)

    def replace_agent(self, rank: int, before: Agent, after: Agent) -> None:
        """An agent has other amounts or facts; its tasks stay. Mostly, others have come or gone there."""
        if before.total != after.total:
            self._add_total(rank, before.total, -1)
            self._add_total(rank, after.total, 1)
        self._add_others(rank, before, -1)
        self._add_others(rank, after, 1)
        if _facts(before) != _facts(after):
            self._add_facts(rank, before, -1)
            self._add_facts(rank, after, 1)
        self._touched.add(rank)

    def insert(self, rank: int, agent: Agent) -> None:
        """An agent without tasks joins at a rank; the later ones move up. `renew` must follow."""
        for column in self._columns():
            column.insert(rank, 0)
        self.max_tasks[rank] = NO_LIMIT
        self._add_agent(rank, agent, 1)

    def delete(self, rank: int, agent: Agent) -> None:
        """An agent is gone; the later ones move down. `renew` must follow."""
        self._add_agent(rank, agent, -1)
        self.leaving.pop(agent.name, None)
        self.ports.pop(agent.name, None)
        for column in self._columns():
            del column[rank]

    def renew(self, rank: Mapping[str, int]) -> None:
        """Agents have joined or gone: takes over the new ranks."""
        self._rank = rank
        self._touched.clear()
        self.mirrors = Mirrors(self)
        self._renew_arrays()

    def settle(self) -> None:
        """Brings the arrays up to date after tasks were counted or agents replaced."""
        ranks = list(self._touched)
        if not ranks:
            return
        self._touched.clear()
        self.mirrors.patch(self, ranks)
        chosen = np.array(ranks, dtype=np.int64)
        for array, column in zip(self.total_arrays, self.total, strict=True):
            array[chosen] = [column[rank] for rank in ranks]
        self.max_tasks_array[chosen] = [self.max_tasks[rank] for rank in ranks]

    def _columns(self) -> list[list[int]]:
        single = (self.count, self.score_cpus, self.score_mem, self.max_tasks)
        return [*self.total, *self.idle, *self.future, *single]

    def _renew_arrays(self) -> None:
        self.total_arrays = [np.array(column, dtype=np.int64) for column in self.total]
        self.max_tasks_array = np.array(self.max_tasks, dtype=np.int64)

    def _add_agent(self, rank: int, agent: Agent, sign: int) -> None:
        self._add_total(rank, agent.total, sign)
        self._add_others(rank, agent, sign)
        self._add_facts(rank, agent, sign)

    def _add_total(self, rank: int, total: Amounts, sign: int) -> None:
        for name, amount in total:
            d, change = self._index[name], sign * amount
            self.totals[d] += change
            for column in (self.total, self.idle, self.future):
                column[d][rank] += change

    def _add_others(self, rank: int, agent: Agent, sign: int) -> None:
        """Counts the amounts of an agent that others have."""
        index = self._index
        for name, amount in agent.foreign:
            if name in index:
                d, change = index[name], sign * amount
                self.idle[d][rank] -= change
                self.future[d][rank] -= change
                self.score_cpus[rank] += change if d == CPU else 0
                self.score_mem[rank] += change if d == MEMORY else 0
        for name, amount in agent.coming:
            self.future[index[name]][rank] += sign * amount

    def _add_facts(self, rank: int, agent: Agent, sign: int) -> None:
        if agent.max_tasks is not None:
            self._limited += sign
            self.max_tasks[rank] = agent.max_tasks if sign > 0 else NO_LIMIT
        if not agent.ready or not agent.schedulable or agent.taints or agent.pressure:
            if sign > 0:
                self.special[agent.name] = None
            else:
                del self.special[agent.name]
        for port in agent.ports:
            self._count_port(agent.name, port, sign)

    def _signed(self, template: Template, sign: int) -> tuple[list[tuple[int, int]], int, int]:
        row = [(self._index[name], sign * amount) for name, amount in template.request]
        cpus, mem = self._scored.of(template.request)
        return row, sign * cpus, sign * mem

    def _count_port(self, agent: str, port: int, sign: int) -> None:
        used = self.ports.setdefault(agent, {})
        _count(used, port, sign)
        if not used:
            del self.ports[agent]


def _count(counts: dict[Any, int], key: Any, sign: int) -> None:
    number = counts.get(key, 0) + sign
    if number:
        counts[key] = number
    else:
        del counts[key]


class Mirrors:
    """Arrays of the columns that sessions change, as they are when a session opens."""

    def __init__(self, columns: Columns) -> None:
        self.idle = [np.array(column, dtype=np.int64) for column in columns.idle]
        self.future = [np.array(column, dtype=np.int64) for column in columns.future]
        self.count = np.array(columns.count, dtype=np.int64)
        self.score_cpus = np.array(columns.score_cpus, dtype=np.int64)
        self.score_mem = np.array(columns.score_mem, dtype=np.int64)

    def patch(self, columns: Columns, ranks: Sequence[int]) -> None:
        """Takes over the values of the columns at some ranks."""
        chosen = np.array(ranks, dtype=np.int64)
        pairs = [*zip(self.idle, columns.idle, strict=True), *zip(self.future, columns.future, strict=True)]
        pairs += [
            (self.count, columns.count),
            (self.score_cpus, columns.score_cpus),
            (self.score_mem, columns.score_mem),
        ]
        for array, column in pairs:
            array[chosen] = [column[rank] for rank in ranks]
