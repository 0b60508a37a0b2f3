"""Aging: an ask that has waited for long gets the room of one agent, however many smaller ones come.

A demand that has waited for `CoreOptions.aging` seconds, and that the limits of its queue admit, is old. The oldest old
demand of a role reserves room on one agent of the role: a hold of the pool takes the room out of all offers, so that no
policy gives it to others. When the offers cover the room, one taskgroup of the demand is placed there. So the cost for
others is one agent for each role, and an agent on which nothing becomes free is open to others half of the time: it may
be the only one.

Demands that outrank the one with the reservation use the held room before a policy decides about them, so nothing is
ended for them beside it. Gangs that need several places are not looked at: they have reservations of their own.

The age is the time since the operation began, for demands that a new leader finds, and since the demand was opened, for
later ones. The cost of a step does not grow with demands that are not old: heaps keep the moments at which demands
become old, and a search looks at `LOOKED_AT` old demands.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from heapq import heappop, heappush
from itertools import chain, islice
from math import inf
from typing import NamedTuple

import numpy as np

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.run_times import OF_APPLICATION
from offers.leased.rooms import Site
from offers.leased.row import LeasedRow
from offers.model import Demand, ResourceRequest
from offers.resources import SCALARS, amounts_of
from store import ids
from transactions.base import Slot
from transactions.rules.application_types import bound_to_agents

LOOK = 5.0
"""Seconds between two searches for an old demand and its agent."""
GAIN = 60.0
"""Seconds after which another agent is reserved, if nothing has become free on this one meanwhile."""
AGAIN = 1.0
"""Seconds after which a demand is tried again that did not get the room."""
REST = 60.0
"""Seconds after which an old demand is looked at again that its queue does not admit, or for which no agent suits, and
for which an agent is not reserved that has gained nothing."""
LOOKED_AT = 64
"""Old demands that one search looks at; the next search looks at the others."""
SEARCHES = 4
"""Searches for agents at a time; one among 5,000 agents takes some 10 ms."""
SCANNED = 1024
"""Demands that are looked at before a decision, for those that may use held room: some 3 ms."""
USED = 8
"""Demands that get held room at a time."""
TRIED = 64
"""Agents that one search looks at closely, those first that lack the least."""
APPLICATIONS = 500
"""Applications that are looked at for runs that end soon, those with runs of their own first."""
TASKGROUPS = 500
"""Running taskgroups that are looked at for the same."""

Serve = Callable[[Demand[Slot], str], bool]
"""Places the first slot of a demand on an agent, given by id. True if it has a place."""


class Opening(NamedTuple):
    """A demand as it was opened. `since`: Unix seconds. `number`: that of the opening, by which a demand differs from
    an earlier one of the same operation."""

    since: float
    demand: str
    number: int


class Why(StrEnum):
    """The reasons for which room of an agent is kept for work that waits."""

    OLD = "Old"
    """The work has waited for `CoreOptions.aging`."""
    RESERVED = "Reserved"
    """A queue of a tree has reserved the agent for a short time, because the room there is known to become enough."""


class KeptRoom(NamedTuple):
    """Room of an agent that is kept for work of an application, given by its key. `since`: Unix seconds at which the
    work began to wait; `until`: at which the reservation ends at the latest; None: when the work fits, or another agent
    is chosen."""

    application: str
    role: str
    agent: str
    since: float
    until: float | None
    why: Why


class _Kept:
    """The reservation of a role."""

    def __init__(self, opening: Opening, demand: Demand[Slot], site: Site, now: float) -> None:
        self.opening, self.application, self.slots, self.site = opening, demand.application, len(demand.slots), site
        self.gained_at = now
        self.given_at = 0.0
        """The moment of the latest try to place the demand, Unix seconds."""
        self.lack = 2.0
        """The least that was missing so far, as a part of the request."""


class Aging:
    """The reservations of the roles of one placement pass; belongs to the thread that owns the state."""

    def __init__(
        self,
        turn: TurnContext,
        covers: Callable[[str], bool],
        admits: Callable[[Demand[Slot]], bool],
        takes: Callable[[Demand[Slot]], bool],
        outranks: Callable[[Demand[Slot], Demand[Slot]], bool],
        serve: Serve,
    ) -> None:
        """`covers`: the roles. `admits`: True if the limits of the queue of a demand admit one more of its taskgroups.
        `takes`: the same, where the present room of the cluster is a limit, too. `outranks`: True if the first demand
        may use room that is kept for the second."""
        self._turn, self._covers = turn, covers
        self._admits, self._takes, self._outranks, self._serve = admits, takes, outranks, serve
        self._openings: dict[str, Opening] = {}
        """The openings of demands that were seen; also of some that are closed."""
        self._coming: dict[str, list[tuple[float, Opening]]] = {}
        """Heaps of openings with the Unix seconds from which they are looked at, by role."""
        self._old: dict[str, list[Opening]] = {}
        """Heaps of old openings that are looked at, by role; also of some demands that are closed."""
        self._kept: dict[str, _Kept] = {}
        self._tried: dict[str, dict[str, float]] = {}
        """Agents that gained nothing while they were reserved, by role, with the Unix seconds of the latest end."""
        self._looked_at = 0.0
        self._place = 0
        """The first demand that the next look for those that outrank others begins with."""
        self._first = True
        """No demand was looked at in this term: those that are found now were opened under another leader."""

    def rooms(self) -> list[KeptRoom]:
        """The reservations (any thread)."""
        return [
            KeptRoom(kept.application, role, kept.site[0], kept.opening.since, None, Why.OLD)
            for role, kept in list(self._kept.items())
        ]

    def note(self, identities: Iterable[str]) -> None:
        """Demands that may be new."""
        engine, now = self._turn.engine, self._turn.now
        if not self._turn.options.aging:
            return
        for identity in identities:
            number = engine.openings.get(identity)
            known = self._openings.get(identity)
            if number is None or (known is not None and known.number == number):
                continue
            demand = engine.demands[identity]
            if demand.per_agent or not self._covers(demand.role):
                continue
            since = min(now, ids.nanoseconds_of(identity) / 1e9) if self._first else now
            opening = self._openings[identity] = Opening(since, identity, number)
            self._wait(demand.role, opening, since + self._turn.options.aging)
        if len(self._openings) > 2 * len(engine.demands) + LOOKED_AT:
            self._openings = {name: one for name, one in self._openings.items() if self._is_open(one)}

    def step(self) -> None:
        """Serves old demands whose room is there, and reserves room for others."""
        self._first = self._first and not self._openings
        if not self._coming and not self._old and not self._kept:
            return
        now, pool = self._turn.now, self._turn.pool
        for role, heap in list(self._coming.items()):
            while heap and heap[0][0] <= now:
                self._put(role, heappop(heap)[1])
            if not heap:
                del self._coming[role]
        if not self._kept and not self._old:
            return
        pool.table.flush()
        for role, kept in list(self._kept.items()):
            self._follow(role, kept)
        if now < self._looked_at + LOOK:
            return
        self._looked_at = now
        for role in list(self._old):
            if role not in self._kept:
                self._choose(role)

    def betters(self, demands: Sequence[Demand[Slot]]) -> list[Demand[Slot]]:
        """Some of the demands that may use the held room now: they fit, and outrank those with the reservations. Of
        very many demands, each call looks at others. Demands of gangs that need several places are left out."""
        if not self._kept or not demands:
            return []
        self._turn.pool.table.flush()
        begin = self._place % len(demands)
        self._place = begin + SCANNED if len(demands) > SCANNED else 0
        fits: dict[tuple[str, ResourceRequest], bool] = {}
        found: list[Demand[Slot]] = []
        for demand in islice(chain(demands[begin:], demands[:begin]), min(len(demands), SCANNED)):
            kept, size = self._kept.get(demand.role), (demand.role, demand.request)
            if kept is None or not (fits[size] if size in fits else fits.setdefault(size, self._fits(kept, demand))):
                continue
            holder = self._turn.engine.demands.get(kept.opening.demand)
            if holder is None or holder is demand or self._is_gang(demand) or not self._outranks(demand, holder):
                continue
            found.append(demand)
            if len(found) >= USED:
                break
        return found

    def use(self, demands: Sequence[Demand[Slot]]) -> bool:
        """Places a slot of each of these demands with the held room, as far as it fits. True if one has a place."""
        placed = False
        for demand in self.betters(demands):
            self._turn.pool.table.flush()
            kept = self._kept[demand.role]
            if self._fits(kept, demand):
                placed = self._give(demand, kept, again=True) or placed
        return placed

    def forget(self) -> None:
        """After an error, when the engine is made anew: ends all reservations, and forgets the demands."""
        for role in list(self._kept):
            self._end(role)
        self._openings.clear()
        self._coming.clear()
        self._old.clear()
        self._tried.clear()
        self._first = True

    # --- a reservation ----------------------------------------------------------------------------------------

    def _follow(self, role: str, kept: _Kept) -> None:
        """Serves the demand if its room is there; ends a reservation that has no purpose any more."""
        demand, now = self._turn.engine.demands.get(kept.opening.demand), self._turn.now
        if demand is None or not self._is_open(kept.opening) or len(demand.slots) < kept.slots:
            self._end(role)
            self._looked_at = 0.0
        elif self._is_gang(demand) or not self._admits(demand):
            self._end(role, now + REST)
        elif hold_name(role) not in self._turn.pool.holds.short:
            kept.lack = 0.0
            if now < kept.given_at + AGAIN:
                return
            kept.given_at = now
            if self._give(demand, kept):
                self._end(role)
                self._looked_at = 0.0
            elif now >= kept.gained_at + GAIN:
                self._move(role, kept)  # the agent does not suit any more
        else:
            lack = self._lack(kept, demand)
            if lack < kept.lack:
                kept.lack, kept.gained_at = lack, now
            elif now >= kept.gained_at + GAIN:
                self._move(role, kept)

    def _give(self, demand: Demand[Slot], kept: _Kept, *, again: bool = False) -> bool:
        """Places one slot of a demand with the held room. `again`: the rest of the room is held again."""
        role, pool = kept.site[1], self._turn.pool
        holder = self._turn.engine.demands.get(kept.opening.demand)
        if not self._takes(demand):
            return False
        pool.holds.drop(hold_name(role))
        placed = self._serve(demand, kept.site[0])
        if (again or not placed) and holder is not None:
            pool.holds.add(hold_name(role), kept.site, holder.request)
        return placed

    def _move(self, role: str, kept: _Kept) -> None:
        """Chooses another agent: nothing has become free on this one, or it does not suit."""
        self._tried.setdefault(role, {})[kept.site[0]] = self._turn.now
        self._end(role)
        self._looked_at = 0.0

    def _end(self, role: str, again: float = 0.0) -> None:
        """Ends a reservation. `again`: Unix seconds from which the demand is looked at, if it is still open."""
        kept = self._kept.pop(role)
        self._turn.pool.holds.drop(hold_name(role))
        self._wait(role, kept.opening, again)

    # --- a new reservation ------------------------------------------------------------------------------------

    def _wait(self, role: str, opening: Opening, until: float) -> None:
        if until > self._turn.now:
            heappush(self._coming.setdefault(role, []), (until, opening))
        else:
            self._put(role, opening)

    def _put(self, role: str, opening: Opening) -> None:
        if self._is_open(opening):
            heappush(self._old.setdefault(role, []), opening)

    def _choose(self, role: str) -> None:
        """Reserves an agent for the oldest old demand for which one suits."""
        old, searches = self._old[role], 0
        rest = max(REST, LOOK * len(old) / SEARCHES)
        for _ in range(min(LOOKED_AT, len(old))):
            opening = heappop(old)
            demand = self._turn.engine.demands.get(opening.demand)
            if demand is None or not self._is_open(opening):
                continue
            agent = None
            if not self._is_gang(demand) and self._admits(demand):
                searches += 1
                agent = self._agent_for(demand)
            if agent is not None:
                site = (agent, role)
                self._kept[role] = _Kept(opening, demand, site, self._turn.now)
                self._turn.pool.holds.add(hold_name(role), site, demand.request)
                break
            self._wait(role, opening, self._turn.now + rest)
            if searches >= SEARCHES:
                break
        if not old:
            del self._old[role]

    def _agent_for(self, demand: Demand[Slot]) -> str | None:
        """The agent that is large enough without the taskgroups that always stay there, meets the constraints and lacks
        the least, counting the runs that end soon; None without one. Agents that have gained nothing come last, and not
        within `REST` seconds."""
        turn, role = self._turn, demand.role
        rows = turn.pool.rows_in(role)
        if not rows:
            return None
        suits = np.ones(len(turn.pool.table.rows), dtype=np.bool_)
        for _, ok in turn.placer.tests().tests(demand):
            suits &= ok
        wanted = amounts_of(demand.request)
        soon, tried = ending_within(turn, role, GAIN), self._tried.get(role, {})
        if len(tried) > 2 * len(rows):
            present = {row.agent_id for row in rows}
            tried = self._tried[role] = {agent: at for agent, at in tried.items() if agent in present}
        found: list[tuple[float, float, str, LeasedRow]] = []
        for row in rows:
            at = tried.get(row.agent_id, -inf)
            if turn.now < at + REST:
                continue
            known = turn.pool.totals.get(row.agent_id)
            if suits[row.number] and (known is None or (known[0] >= wanted[0] and known[1] >= wanted[1])):
                near = soon.get(row.agent_id, {})
                free = [amount + near.get(name, 0) for name, amount in zip(SCALARS, row.amounts, strict=False)]
                found.append((at, _lack(wanted, free), row.agent_id, row))
        for *_, agent, row in islice(sorted(found, key=lambda entry: entry[:3]), TRIED):
            if all(amount <= most for amount, most in zip(wanted, self._most_on(row), strict=False)):
                return agent
        return None

    def _most_on(self, row: LeasedRow) -> tuple[int, int]:
        """CPU and memory of an agent without the taskgroups of daemonsets, which always stay. If its size is not known,
        the free room and that of all taskgroups is."""
        state, (cpus, mem) = self._turn.state, row.totals
        used, lasting = Counter[str](), Counter[str]()
        for group in state.groups_on(row.agent_id).values():
            if not group.ended:
                application = state.applications.get(group.application_key)
                for sums in (used, lasting) if application and bound_to_agents(application) else (used,):
                    sums.update(cpus=group.resources.cpus, mem=group.resources.mem)
        cpus, mem = max(cpus, row.amounts[0] + used["cpus"]), max(mem, row.amounts[1] + used["mem"])
        return cpus - lasting["cpus"], mem - lasting["mem"]

    # --- questions --------------------------------------------------------------------------------------------

    def _is_open(self, opening: Opening) -> bool:
        return self._turn.engine.openings.get(opening.demand) == opening.number

    def _is_gang(self, demand: Demand[Slot]) -> bool:
        """True if the demand needs several places at the same time, or room was freed for it."""
        return demand.min_members > 1 or bool(demand.promised) or demand.id in self._turn.engine.gangs

    def _fits(self, kept: _Kept, demand: Demand[Slot]) -> bool:
        return self._lack(kept, demand) <= 0

    def _lack(self, kept: _Kept, demand: Demand[Slot]) -> float:
        """The greatest part of a request that the agent lacks if the held room counts as free; 1 without offers."""
        pool, site = self._turn.pool, kept.site
        row = pool.row(*site)
        if row is None or not row.offers:
            return 1.0
        whole = dict(zip(SCALARS, pool.room(*site), strict=True))
        for allocation in row.allocations:
            for key, amount in allocation.scalars:
                whole[key.name] -= amount
        for name, request in pool.holds.on(site).items():
            if name != hold_name(site[1]):
                for line, amount in zip(SCALARS, amounts_of(request), strict=True):
                    whole[line] -= amount
        return _lack(amounts_of(demand.request), whole.values())


def hold_name(role: str) -> str:
    """The name of the hold of the old demand of a role."""
    return f"aging/{role}"


def _lack(wanted: Iterable[int], free: Iterable[int]) -> float:
    lacks: Iterator[float] = ((want - there) / want for want, there in zip(wanted, free, strict=False) if want > 0)
    return max(0.0, *lacks, 0.0)


def ending_within(turn: TurnContext, role: str, seconds: float) -> Mapping[str, dict[str, int]]:
    """Amounts by agent and dimension of taskgroups of a role that are expected to end within so many seconds, and that
    nothing replaces. The median of the runs that have lasted longer than the present one is the expected end."""
    state, run_times, now = turn.state, turn.run_times, turn.now
    found: dict[str, dict[str, int]] = {}
    if not len(run_times):
        return found
    own = run_times.applications()
    kinds: dict[str, tuple[float, ...]] = {}
    left = TASKGROUPS
    for key in dict.fromkeys((*islice(own, APPLICATIONS), *islice(list(state.applications), APPLICATIONS))):
        application = state.applications.get(key)
        version = state.version(key, application.version) if application is not None else None
        if application is None or version is None or version.restart_policy.policy == "Always" or left <= 0:
            continue
        runs = run_times.own(key)
        if runs is None:
            kind = application.type
            runs = kinds[kind] if kind in kinds else kinds.setdefault(kind, run_times.basis("", kind))
        for group in islice(state.groups_of(key).values(), left) if runs else ():
            left -= 1
            if group.ended or group.killing_since or not group.running_since or (group.role or "*") != role:
                continue
            rest = runs[bisect_right(runs, now - group.created_at) :]
            if len(rest) >= OF_APPLICATION and rest[len(rest) // 2] - (now - group.created_at) <= seconds:
                sums = found.setdefault(group.agent_id, {})
                for name in SCALARS:
                    sums[name] = sums.get(name, 0) + getattr(group.resources, name)
    return found
