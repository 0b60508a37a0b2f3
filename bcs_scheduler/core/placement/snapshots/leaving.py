"""The room of agents as sessions see it: as much as offers and taskgroups show, and the room that is still to come.

Between the end of a taskgroup and the offer of its room, the room belongs to no taskgroup. It must not seem to be lost:
something else would be ended for the work that gets it. A cluster manager may offer the room in parts:
first that of a task, then that of its executor.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import NamedTuple

from bcs_scheduler.core.placement.snapshots.held import extended_dimension, request_of
from bcs_scheduler.core.placement.snapshots.pending import Planned
from bcs_scheduler.core.placement.source import Source
from offers.dimensions import amounts
from offers.ledger.holds import RETURN_SECONDS, UNOFFERED_SECONDS
from offers.ledger.pool import AnyPool
from offers.ledger.table import Row
from offers.model import Site
from offers.policy.session.decisions import Later, Passing
from offers.policy.session.model import Agent, Status, Task, Template
from offers.policy.session.snapshot import Snapshot
from offers.resources import SCALARS

IN_ORDER = tuple(sorted(SCALARS))
NOTHING: Mapping[str, int] = {}
Used = Mapping[str, Mapping[str, int]]
"""Amounts of our taskgroups by agent and dimension."""


def agent_of(
    name: str,
    row: Row | None,
    used: Mapping[str, int],
    size: tuple[int, ...] | None,
    expected: Mapping[str, int] = NOTHING,
    lines: Sequence[str] = SCALARS,
) -> Agent:
    """The agent with `used` of our taskgroups, by dimension: the rest that is not free now is in the hands of others.
    `row`: the offered amounts; None = nothing is offered. `size`: amounts of the whole agent in the order of
    `SCALARS`, the first two or more; None = they are not known, and the greatest offered amounts stand in. `expected`:
    amounts that the next offers are expected to have beside the present ones. `lines`: the dimensions of the row.

    The room of a taskgroup may be offered before the report of its end is read. The agent is not larger meanwhile."""
    if row is not None and row.node is not None:
        return _of_node(name, row, used, lines)
    total = _offered(row)
    for dimension, amount in used.items():
        total[dimension] = total.get(dimension, 0) + amount
    least: tuple[int, ...] = size or (0, 0)
    if row is not None:
        least = (*row.totals, *least[2:])
    foreign = []
    for line, amount in zip(SCALARS, least, strict=False):
        if amount > total[line]:
            foreign.append((line, amount - total[line]))
            total[line] = amount
        elif size is not None:
            total[line] = max(amount, used.get(line, 0))
    for extended, capacity in row.overrides.extended.items() if row is not None else ():
        total[extended_dimension(extended)] = max(capacity, used.get(extended_dimension(extended), 0))
    names = IN_ORDER if len(total) == len(SCALARS) else sorted(total)
    whole = tuple([(line, total[line]) for line in names if total[line]])
    coming = amounts((line, max(0, min(amount, expected.get(line, 0)))) for line, amount in foreign)
    if row is None:
        return Agent(name, whole, tuple(foreign), coming=coming)
    return Agent(name, whole, tuple(foreign), row.attributes, coming=coming, facts=(row.overrides, row.unavailable))


def _of_node(name: str, row: Row, used: Mapping[str, int], lines: Sequence[str]) -> Agent:
    """Like `agent_of`, for a node: all its free room is in hand."""
    free, whole = dict(zip(lines, row.amounts, strict=True)), row.node.allocatable
    foreign = [(line, amount - max(free.get(line, 0), 0) - used.get(line, 0)) for line, amount in whole]
    others = tuple((line, amount) for line, amount in foreign if amount > 0)
    return Agent(name, whole, others, row.attributes, facts=(row.overrides, row.taints))


def _offered(row: Row | None) -> dict[str, int]:
    if row is None or not row.offers:
        return dict.fromkeys(SCALARS, 0)
    return dict(zip(SCALARS, row.amounts, strict=False))


class _Leaving(NamedTuple):
    """A taskgroup whose room is expected, as a task of its job."""

    role: str
    job: str
    task: Task
    until: float
    """Unix seconds from which the room is not expected any more."""
    is_sure: bool = False
    """False: `until` is later if the taskgroup has ended later."""


class LeavingTasks:
    """Follows taskgroups that leave room, until the offers have it: those that leave promised room from the session
    that promised it, others from their end."""

    def __init__(self, source: Source, pool: AnyPool) -> None:
        self._source, self._pool = source, pool
        self._leaving: dict[str, _Leaving] = {}
        """Taskgroups by id."""
        self._on: dict[Site, set[str]] = defaultdict(set)
        """Ids of the same taskgroups, by agent and role."""
        self._first = inf
        """Unix seconds before which nothing expires."""
        self._whole: dict[Site, dict[str, int]] = {}
        """The amounts of agents in roles, by dimension: free room, also that held for work that waits, our taskgroups,
        and room that was to come, as the latest session that promised room there found them."""

    def __len__(self) -> int:
        return len(self._leaving)

    def __contains__(self, identity: str) -> bool:
        """True if the room of a taskgroup, given by id, is expected."""
        return identity in self._leaving

    def awaits(self, site: Site) -> bool:
        """True if promised room of an agent in a role could not be offered yet."""
        return any(not self._leaving[identity].is_sure for identity in self._on.get(site, ()))

    def promise(self, role: str, snapshot: Snapshot, agents: Iterable[str], victims: set[str], now: float) -> None:
        """A session has promised room on these agents. `snapshot`: its input; `victims`: ids of the taskgroups that it
        has evicted; `now`: Unix seconds. The room is expected until the agent has offered it, and for
        `UNOFFERED_SECONDS` after the end of the taskgroup at most."""
        until = now + UNOFFERED_SECONDS
        for name in agents:
            leaves = False
            for (job, identity), task in snapshot.tenants.get(name, {}).items():
                if task.status is Status.RELEASING or identity in victims:
                    leaves = True
                    releasing = task._replace(status=Status.RELEASING)
                    self._leaving.setdefault(identity, _Leaving(role, job, releasing, until))
                    self._on[name, role].add(identity)
            if leaves:
                self._note_whole(role, snapshot.agents[snapshot.rank[name]])
                self._first = min(self._first, until)

    def end(self, role: str, snapshot: Snapshot, tasks: Iterable[tuple[str, Task, float]], now: float) -> None:
        """Tasks have ended since the latest session. `snapshot`: its input; `tasks`: names of their jobs, the tasks as
        they were before, and the moments of their ends; `now`: Unix seconds, like these."""
        for job, task, at in tasks:
            rank, until = snapshot.rank.get(task.agent), at + RETURN_SECONDS
            if rank is None or task.name in self._leaving or until <= now:
                continue
            self._leaving[task.name] = _Leaving(role, job, task._replace(status=Status.RELEASING), until, is_sure=True)
            self._on[task.agent, role].add(task.name)
            self._note_whole(role, snapshot.agents[rank])
            self._first = min(self._first, until)

    def _note_whole(self, role: str, agent: Agent) -> None:
        foreign, site = Counter(dict(agent.foreign)), (agent.name, role)
        foreign.subtract(dict(agent.coming))
        # Held room seems to be in the hands of others. More may be held now than the session has seen.
        kept = self._kept(self._pool.row(*site))
        foreign.subtract({line: min(amount, foreign[line]) for line, amount in kept.items()})
        self._whole[site] = {line: amount - foreign[line] for line, amount in agent.total}

    def _kept(self, row: Row | None) -> Mapping[str, int]:
        """The offered amounts that are held for work that waits: they are unused, and have come back. Other holds
        are those of taskgroups, which count as used."""
        held = self._pool.holds.on(row.site) if row is not None else {}
        if row is None or not held:
            return {}
        promised = Counter(row.promised())
        for name, request in held.items():
            if isinstance(name, str) and self._source.tenant(name) is not None:
                promised.subtract(dict(request_of(request, ())))
        return {name: amount for name, amount in promised.items() if amount > 0}

    def offered(self, sites: Iterable[Site], now: float) -> None:
        """There are new offers of these agents in these roles. `now`: Unix seconds."""
        until = now + RETURN_SECONDS
        for identity in [name for site in self._on.keys() & set(sites) for name in self._on[site]]:
            entry = self._leaving[identity]
            if entry.until > until and self._ended(identity):
                self._leaving[identity] = entry._replace(until=until, is_sure=True)
                self._first = min(self._first, until)

    def expire(self, now: float) -> bool:
        """Forgets room that is not expected any more. `now`: Unix seconds. True if some was forgotten."""
        forgotten = False
        if now < self._first:
            return forgotten
        over = [identity for identity, entry in self._leaving.items() if entry.until <= now]
        for identity in over:
            if (until := self._until(identity, now)) > now and not self._leaving[identity].is_sure:
                self._leaving[identity] = self._leaving[identity]._replace(until=until)
                continue
            forgotten = True
            entry = self._leaving.pop(identity)
            site = (entry.task.agent, entry.role)
            self._on[site].discard(identity)
            if not self._on[site]:
                del self._on[site], self._whole[site]
        self._first = min((entry.until for entry in self._leaving.values()), default=inf)
        return forgotten

    def later(self) -> Later | None:
        """The moment from which the first room is not expected any more; None: no room is expected."""
        return Later(Passing.ROOM, self._first) if self._leaving else None

    def clear(self) -> None:
        """Forgets all room."""
        self._leaving.clear()
        self._on.clear()
        self._whole.clear()
        self._first = inf

    def tasks(self, role: str, planned: Iterable[Planned], used: Used) -> dict[str, list[Task]]:
        """The room of ended taskgroups that the offers of a role still lack, as tasks by application. `planned`: the
        placements of the role that are not launched yet."""
        ended: dict[str, list[_Leaving]] = defaultdict(list)
        for identity, entry in self._leaving.items():
            if entry.role == role and self._ended(identity):
                ended[entry.task.agent].append(entry)
        if not ended:
            return {}
        self._pool.table.flush()
        taken: dict[str, Counter[str]] = defaultdict(Counter)
        for demand, placement in planned:
            if placement.agent_id in ended:
                taken[placement.agent_id].update(dict(request_of(demand.request, ())))
        tasks: dict[str, list[Task]] = defaultdict(list)
        for agent, leaving in ended.items():
            row = self._pool.row(agent, role)
            if row is None:
                continue
            lacking = Counter(self._whole[agent, role])
            for known in (_offered(row), self._kept(row), used.get(agent, {}), taken[agent]):
                lacking.subtract(known)
            for entry in leaving:
                part = {name: min(amount, lacking[name]) for name, amount in entry.task.template.request}
                rest = amounts((name, part[name]) for name in SCALARS if part.get(name, 0) > 0)
                lacking.subtract(dict(rest))
                if rest:
                    tasks[entry.job].append(entry.task._replace(template=Template(rest)))
        return tasks

    def _until(self, identity: str, now: float) -> float:
        """Unix seconds until which the room of a taskgroup is expected if no offer comes; that of one that has not
        ended is looked at again then. 0 if its end is not known."""
        unit = self._source.tenant(identity)
        return 0.0 if unit is None else (unit.ended_at or now) + UNOFFERED_SECONDS

    def _ended(self, identity: str) -> bool:
        return self._source.has_ended(identity)
