"""The snapshot of one role, kept from decision to decision.

A job is an application. Its tasks are the taskgroups that hold room, those that are planned and not launched yet, and
the slots of the open demands of its operations. An agent has in total as much as is known of it, at least the offered
amounts and those of our taskgroups; the rest is in the hands of others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import chain, islice
from typing import NamedTuple

import numpy as np

from bcs_scheduler.core.placement.snapshots.agents import agent_of, held_on
from bcs_scheduler.core.placement.snapshots.held import ApplicationTasks, HeldTasks
from bcs_scheduler.core.placement.snapshots.pending import Kind, PendingTasks, Planned, planned_task
from bcs_scheduler.core.placement.source import Facts, Source
from offers.ledger.pool import AnyPool
from offers.ledger.table import Row
from offers.model import Demand
from offers.policy.session.columns import Array
from offers.policy.session.model import Agent, Job, Nomination, Task, Template
from offers.policy.session.snapshot import Snapshot
from offers.resources import SCALARS
from store.ids import namespace_of
from transactions.base import Slot

NOT_OFFERED = -1
"""Number of the row of an agent that was not offered: nothing can be launched on it."""
STEP = 500
"""Number of taskgroups, or of agents, that are taken over at once before a decision: some 5 to 10 ms."""
NONE: Mapping[str, int] = {}


class Moving(NamedTuple):
    """The facts about one role for one decision that neither records nor offers tell."""

    demands: Iterable[Demand[Slot]]
    """The open demands of the role."""
    most: Mapping[str, int]
    """Number of slots that take part, by the id of the demand, where not all do."""
    planned: Iterable[Planned]
    """The placements of the role that are not launched yet."""
    nominations: Mapping[tuple[str, str], Nomination]
    """Promises by names of job and task."""


class Changes(NamedTuple):
    """A snapshot with the names of changed agents and jobs; the reader takes out the names that it has followed."""

    snapshot: Snapshot
    agents: set[str]
    jobs: set[str]


NOTHING = Moving((), {}, (), {})


class RoleInput(NamedTuple):
    """A snapshot, and the objects that its names stand for."""

    snapshot: Snapshot
    rows: Mapping[str, Row]
    """The rows by agent; agents that were not offered in this term are missing."""
    numbers: Array
    """Numbers of the rows by rank; NOT_OFFERED where there is none."""
    tests: Mapping[Kind, Demand[Slot]]
    """A demand for each value of `Template.tests`."""
    missing: Mapping[str, int]
    """Number of tasks by job that its minimum lacks without this decision."""
    agents: set[str]
    """Agents that may be different from those of the decisions before, or gone; the reader empties the set."""
    jobs: set[str]
    """Jobs that are different from those of the decisions before, or gone; the reader empties the set."""


class Parts(NamedTuple):
    """The parts that a job with open demands was made of. Equal parts make an equal job."""

    held: ApplicationTasks
    planned: tuple[Task, ...]
    demands: tuple[Demand[Slot], ...]
    most: tuple[int | None, ...]
    nominations: tuple[tuple[str, Nomination], ...]
    queue: str
    facts: Facts | None


class RoleSnapshot:
    """Follows records and offers. `take` costs as much as there is pending and has changed."""

    def __init__(self, source: Source, pool: AnyPool, role: str, *, plain: bool = False) -> None:
        """`plain`: the decisions come from a tree of queues, which has its own figures of jobs."""
        self._source, self._pool, self._role = source, pool, role
        self.plain = plain
        self.held = HeldTasks(source, role, plain=plain)
        self._dropped_agents: set[str] = set()
        self._dropped_jobs: set[str] = set()
        """Agents and jobs that the reader may know, and that are read again."""
        self._derive()

    def drop_figures(self) -> None:
        """Has the next input read everything again."""
        self._dropped_agents.update(self._looked_at, self._snapshot.rank)
        self._dropped_jobs.update(self._remade, self._snapshot.jobs)
        self.held.drop_figures()
        self._derive()

    def _derive(self) -> None:
        """Begins without figures that follow from records, offers and the facts above."""
        rows = (row.agent_id for row in self._pool.rows_in(self._role))
        self._touched: set[str] = {*self._pool.totals, *rows, *self._dropped_agents}
        """Agents of which something has changed."""
        self._since: set[str] = set()
        """The same since the latest `mark`."""
        self._changed: set[str] = {*self._source.applications(), *self._dropped_jobs}
        """Applications of which a record other than a taskgroup has changed."""
        self._queues_changed = True
        self._looked_at: set[str] = set()
        self._remade: set[str] = set()
        """Agents and jobs of `RoleInput`."""
        self._read: dict[str, Agent | None] = {}
        """Agents that have changed and were read, and that the snapshot does not have yet."""
        self._snapshot = Snapshot((), (), (), plain=self.plain, units=self._pool.hand.dimensions)
        self._pending = PendingTasks()
        self._parts: dict[str, Parts] = {}
        """The parts of the jobs with something planned or pending."""
        self._kinds: dict[str, list[tuple[Kind, Demand[Slot]]]] = {}
        self._missing: dict[str, int] = {}
        self._extra_before: dict[str, dict[str, int]] = {}
        """Amounts of planned tasks in the latest decision."""
        self._rows: dict[str, Row] = {}
        self._numbers: Array = np.zeros(0, dtype=np.int64)
        self._names: dict[str, set[str]] = {}
        """Names of jobs by namespace."""

    def namespace_changed(self, namespace: str) -> None:
        """The work of a namespace may belong to another queue."""
        self._changed |= self._names.get(namespace, set())

    def note_queues(self) -> None:
        """A queue has changed, or is gone."""
        self._queues_changed = True

    def application_changed(self, key: str) -> None:
        """An application or its definition has changed, or is gone."""
        if key in self._source.applications() or key in self._snapshot.jobs:
            self._changed.add(key)
        else:
            self._changed.discard(key)

    def touch(self, agent: str) -> None:
        """Something about an agent has changed, or the agent is gone."""
        pool = self._pool
        self._since.add(agent)
        if agent in self._snapshot.rank or agent in pool.totals or pool.row(agent, self._role) is not None:
            self._touched.add(agent)
        else:
            self._touched.discard(agent)

    def mark(self) -> None:
        """See `Snapshots.mark`."""
        self._since.clear()

    @property
    def unchanged(self) -> bool:
        """See `Snapshots.unchanged`."""
        return not (self._changed or self._queues_changed or self._since)

    def catch_up(self, now: float, left: int | None = None) -> bool:
        """Takes over a part of the changes, if there are many: taskgroups first, then agents, then applications. Fewer
        than `STEP` agents come in one part with applications: some agents change in every turn, and applications do not
        wait for a turn without such changes. False: the next input costs little beside the open demands. `now`: Unix
        seconds. `left`: the number of taskgroups and of agents that may be left for it; None: `STEP`."""
        left = STEP if left is None else left
        if self.held.behind > left:
            self._changed |= self.held.refresh(STEP)
            return True
        touched, used = self._touched, self.held.touched
        jobs = some_of(self._changed, lambda name: len(self.held.of(name).tasks), left)
        if len(touched) + len(used) > (0 if jobs else left):  # agents come before the tasks on them
            names = set(islice(chain(touched, used), STEP))
            touched -= names
            used -= names
            self._pool.table.flush()
            self._read_agents(names, self._extra_before)
            if len(names) >= STEP or not jobs:
                return True
        if self._read and (jobs or len(self._read) > left):
            moved = any((agent is None) is (name in self._snapshot.rank) for name, agent in self._read.items())
            part = self._read if moved else dict(islice(self._read.items(), STEP))
            self._read = {name: agent for name, agent in self._read.items() if name not in part}
            self._advance(now, part, {})
            if len(part) >= STEP or not jobs:
                return True
        if jobs:
            self._changed.difference_update(jobs)
            self._advance(now, {}, self._made(jobs, NOTHING))
        return bool(jobs)

    def changes(self, is_new: bool) -> Changes:
        """The changes of the snapshot that its reader has not taken over; all of it for a new reader."""
        snapshot = self._snapshot
        if is_new:
            self._looked_at |= snapshot.rank.keys()
            self._remade |= snapshot.jobs.keys()
        return Changes(snapshot, self._looked_at, self._remade)

    def inputs(self, moving: Moving, now: float) -> RoleInput:
        """The state at the moment `now` in Unix seconds, for one decision. The next call changes the snapshot."""
        jobs = self._jobs(moving)
        extra = self._extra()
        agents = self._agents(extra)
        self._advance(now, agents, jobs)
        self._looked_at |= self._dropped_agents
        self._remade |= self._dropped_jobs
        self._dropped_agents, self._dropped_jobs = set(), set()
        tests = {kind: demand for pairs in self._kinds.values() for kind, demand in pairs}
        missing = {key: number for key, number in self._missing.items() if number > 0}
        sets = (self._looked_at, self._remade)
        return RoleInput(self._snapshot, self._rows, self._numbers, tests, missing, *sets)

    def _advance(self, now: float, agents: dict[str, Agent | None], jobs: dict[str, Job | None]) -> None:
        """Takes agents, jobs and all queues over into the snapshot."""
        queues = self._source.queues() if self._queues_changed else None
        self._queues_changed = False
        moved = any((agent is None) is (name in self._snapshot.rank) for name, agent in agents.items())
        self._looked_at |= agents.keys()
        self._remade |= jobs.keys()
        self._snapshot.advance(now, agents, jobs, queues)
        self._number(agents, moved)

    # --- jobs -------------------------------------------------------------------------------------------------

    def _jobs(self, moving: Moving) -> dict[str, Job | None]:
        """The jobs that are different. Each job with open demands is looked at."""
        changed = {*self.held.refresh(), *self._changed, *self._parts}
        self._changed.clear()
        return self._made(changed, moving)

    def _made(self, changed: Iterable[str], moving: Moving) -> dict[str, Job | None]:
        """The jobs that are different, of these and of the jobs with open demands."""
        demands: dict[str, list[Demand[Slot]]] = defaultdict(list)
        for demand in moving.demands:
            demands[demand.application].append(demand)
        planned: dict[str, list[Task]] = defaultdict(list)
        templates: dict[int, Template] = {}
        for demand, placement in moving.planned:
            planned[demand.application].append(planned_task(demand, placement, templates))
        nominations: dict[str, dict[str, Nomination]] = defaultdict(dict)
        for (job, task), promise in moving.nominations.items():
            nominations[job][task] = promise
        restless = {*demands, *planned}
        jobs: dict[str, Job | None] = {}
        for key in sorted({*changed, *restless}):
            of_key = tuple(demands.get(key, ()))
            parts = Parts(
                self.held.of(key),
                tuple(planned.get(key, ())),
                of_key,
                tuple(moving.most.get(demand.id) for demand in of_key),
                tuple(nominations.get(key, {}).items()) if of_key else (),
                self._source.queue_of(key),
                self._source.facts(key),
            )
            if key in restless and self._parts.get(key) == parts:
                continue
            self._forget(key)
            made = self._job(key, parts, nominations.get(key, {}))
            if key in restless:
                self._parts[key] = parts
            if made is not None or key in self._snapshot.jobs:
                jobs[key] = made
                self._name(key, present=made is not None)
        return jobs

    def _name(self, key: str, *, present: bool) -> None:
        namespace = namespace_of(key)
        names = self._names.setdefault(namespace, set())
        if present:
            names.add(key)
        else:
            names.discard(key)
        if not names:
            del self._names[namespace]

    def _forget(self, key: str) -> None:
        self._parts.pop(key, None)
        self._kinds.pop(key, None)
        self._missing.pop(key, None)

    def _job(self, key: str, parts: Parts, nominations: Mapping[str, Nomination]) -> Job | None:
        if parts.facts is None:
            return None
        held = self.held.of(key)
        least, priority, preempts, created, lasting = parts.facts
        there = len(parts.planned) + len(held.tasks)
        # The application may have been made smaller than its minimum.
        least = max(1, min(least, there + sum(len(demand.slots) for demand in parts.demands)))
        tasks = [*parts.planned, *held.tasks]
        kinds = []
        for demand, most in zip(parts.demands, parts.most, strict=True):
            pending, kind = self._pending.tasks_of(demand, most, nominations)
            tasks += pending
            kinds.append((kind, demand))
        if parts.demands:
            self._kinds[key] = kinds
            self._missing[key] = least - len(parts.planned) - held.members
        if not tasks:
            return None
        return Job(
            key,
            parts.queue,
            tuple(tasks),
            min_available=least,
            priority=priority,
            created=created,
            preempts=preempts,
            lasting=lasting,
        )

    # --- agents -----------------------------------------------------------------------------------------------

    def _extra(self) -> dict[str, dict[str, int]]:
        """Amounts of planned tasks by agent and dimension."""
        by_agent: dict[str, dict[str, int]] = {}
        for parts in self._parts.values():
            for task in parts.planned:
                sums = by_agent.setdefault(task.agent, {})
                for name, amount in task.template.request:
                    sums[name] = sums.get(name, 0) + amount
        return by_agent

    def _agents(self, extra: dict[str, dict[str, int]]) -> dict[str, Agent | None]:
        """The agents that have changed, and that the snapshot does not have yet."""
        self._pool.table.flush()
        before, self._extra_before = self._extra_before, extra
        names = {*self._touched, *self.held.touched, *(name for name in before if name not in extra)}
        names.update(name for name, sums in extra.items() if before.get(name) != sums)
        self._touched.clear()
        self.held.touched.clear()
        self._looked_at |= names
        self._read_agents(names, extra)
        agents, self._read = self._read, {}
        return agents

    def _read_agents(self, names: Iterable[str], extra: Mapping[str, Mapping[str, int]]) -> None:
        """Reads agents for the snapshot. `extra`: amounts of planned tasks, by agent and dimension."""
        read, snapshot, pool, sizes = self._read, self._snapshot, self._pool, self._pool.sizes
        coming, lines = pool.hand.coming, pool.table.lines
        rows, everything, rank_of, agents = self._rows, self.held.used, snapshot.rank, snapshot.agents
        for name in names:
            read.pop(name, None)
            row = pool.row(name, self._role)
            if row is None:
                rows.pop(name, None)
            else:
                rows[name] = row
            rank = rank_of.get(name)
            used = everything.get(name, NONE)
            if more := extra.get(name):
                used = {line: used.get(line, 0) + more.get(line, 0) for line in (*used, *more)}
            if row is None and not used and name not in sizes:
                if rank is not None:
                    read[name] = None
                continue
            room, kept = NONE, NONE
            if coming.is_expected(site := (name, self._role)):
                room, kept = dict(zip(SCALARS, coming.on(site), strict=True)), held_on(row, pool)
            agent = agent_of(name, row, used, sizes.get(name), room, kept, lines)
            read[name] = agents[rank] if rank is not None and agents[rank] == agent else agent

    def _number(self, changed: Iterable[str], moved: bool) -> None:
        rows, rank = self._rows, self._snapshot.rank
        if moved:
            names = (rows.get(name) for name in rank)
            numbers = [NOT_OFFERED if row is None else row.number for row in names]
            self._numbers = np.array(numbers, dtype=np.int64)
            return
        for name in changed:
            if name in rank:
                row = rows.get(name)
                self._numbers[rank[name]] = NOT_OFFERED if row is None else row.number


def some_of(names: Iterable[str], size: Callable[[str], int], left: int) -> list[str]:
    """Some of these applications, with `STEP` tasks or a little more, or all if they have fewer; none if they have not
    more than `left`. `size`: number of tasks of an application."""
    part, tasks = [], 0
    for name in names:
        part.append(name)
        tasks += 1 + size(name)
        if tasks > STEP:
            return part
    return part if tasks > left else []
