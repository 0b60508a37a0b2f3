"""Aging: an ask that has waited for long gets the room of one agent, however many smaller ones come; a gang gets the
room of its minimum.

A demand that has waited for `CoreOptions.aging` seconds, and that the limits of its queue admit, is old. The oldest old
demand of a role reserves room on one agent of the role: a hold of the pool takes the room out of all offers, so that no
policy gives it to others. When the offers cover the room, one taskgroup of the demand is placed there. So the cost for
others is one agent for each role, and an agent on which nothing becomes free is open to others half of the time: it may
be the only one.

A gang, of one application or of a group of applications, reserves the room of all places that it lacks at the same
time: gathered one after the other, the first would wait for the last. The gang is placed when its held room and all
other free room cover them together. A gang for which the agents do not suffice reserves nothing; one that has not
gathered its room within `GATHERED` gives it back for as long.

If the policy may end other work for an old demand, the agents are those where this costs least, and the taskgroups
there are ended as their disruption budgets admit: one by one if need be, and the holds keep the room of each. The
policy is asked for all that are still needed before each of these ends. If they are not legal any more, or do not
suffice, the reservation ends, and nothing more is ended. Meanwhile the policy ends nothing else for the demand. If one
of the agents goes, the places move to others, and the rest of the held room counts.

The age is the time since the operation began, for demands that a new leader finds, and since the demand was opened, for
later ones. The cost of a step does not grow with demands that are not old: heaps keep the moments at which demands
become old, and a search looks at `LOOKED_AT` old demands.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import chain, islice
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bcs_scheduler.core.placement.launcher import Launcher, prompt
from bcs_scheduler.core.placement.pauses import Pauses
from bcs_scheduler.core.placement.placer import Mode
from bcs_scheduler.core.placement.snapshots.pending import task_name
from bcs_scheduler.core.placement.source import Source, Tenant
from bcs_scheduler.core.placement.turn import Turn
from offers.ledger.holds import GAIN, GATHERED, REST, UNOFFERED_SECONDS, Cause
from offers.ledger.table import Row
from offers.model import Demand, Provisional, ResourceRequest, Site, Unit
from offers.policy.obstacles import NAMED, Attempt, Met, Obstacle
from offers.policy.session.decisions import Bind, Eviction
from offers.resources import SCALARS, amounts_of
from transactions.base import Failure, Slot

if TYPE_CHECKING:
    from bcs_scheduler.core.placement.engines.engine import Deciding, Engine
    from bcs_scheduler.core.placement.evictor import Evictor
    from bcs_scheduler.core.placement.groups import Groups

SEARCH_SECONDS = 5.0
"""Seconds between two searches for an old demand and its agent."""
IN_VAIN = 15.0
"""Seconds after which the policy is asked again for room that it could not make: an agent on which nothing becomes free
is reserved for `GAIN`."""
AGAIN = 1.0
"""Seconds after which a demand is tried again that did not get the room."""
LOOKED_AT = 64
"""Old demands that one search looks at; the next search looks at the others."""
SEARCHES = 4
"""Searches for agents at a time; one among 5,000 agents takes some 10 ms."""
BECOME_OLD = 1024
"""Demands of a role that become old in one step, at most: some 2 ms. All that a new leader finds may be due at once."""
SCANNED = 1024
"""Demands that are looked at before a decision, for those that may use held room: some 3 ms."""
MOST_USES = 16
"""Times that demands are looked for that may use held room; each time places one slot of some of them."""
USED = 8
"""Demands that get held room at a time."""
GANGS = 4
"""Gangs that are tried at a time, each once within `AGAIN`; a try takes some 5 ms."""
TRIED = 64
"""Agents that one search looks at closely in vain, those first that lack the least."""
MADE = 32
"""Places that a gang lacks at most if other work is to be ended for it: a search for one takes some milliseconds."""
MOST_PLACES = 256
"""Places that a gang may need at the same time; larger gangs reserve nothing, since each step looks at each place."""
NO_BOUND = 1 << 62
"""Above every number of taskgroups."""

NONE = (0,) * len(SCALARS)
NOBODY: frozenset[str] = frozenset()

ANYWHERE: frozenset[str] = frozenset()
Awaiting = Mapping[str, Mapping[int, str]]
"""The slots for which room is made, by id of the demand and index of the slot: the agent of each."""


class NotKnown(Exception):
    """The policy cannot answer now: a plug-in has failed."""


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


class AgentHold(NamedTuple):
    """Room of an agent that is kept for work of an application, given by its key. `since`: Unix seconds at which the
    work began to wait; `until`: at which the reservation of the agent ends at the latest, if nothing more becomes free
    there. `unit`: that of the hold of the pool; empty: a queue of a tree keeps the room by itself."""

    application: str
    role: str
    agent: str
    since: float
    until: float
    why: Why
    unit: Unit = ""


class EvictionPlan(NamedTuple):
    """Agents for all places of a demand, and the evictions that make their room; empty if nothing has to end any
    more."""

    agents: tuple[str, ...]
    evictions: tuple[Eviction, ...]


def as_plan(source: Source, agents: tuple[str, ...], evictions: tuple[Eviction, ...]) -> EvictionPlan | None:
    """The plan, or None if a unit must not be ended with any budget."""
    return (
        EvictionPlan(agents, evictions) if all(source.may_ever_end(eviction.task) for eviction in evictions) else None
    )


def may_ever_end(source: Source, application: str) -> int:
    """The number of ready units of an application that may end one after the other, as its budget admits."""
    return NO_BOUND if source.admits_some(application) else 0


class Holder(NamedTuple):
    """Old work with a reservation. `wants`: the demand of each place. `applications`: those of the places, by key."""

    demand: Demand[Slot]
    wants: Sequence[Demand[Slot]]
    applications: frozenset[str]
    has_victims: bool
    """Other work was ended for it."""
    makes_room: bool
    """Its reservation has other work ended for it, if the policy admits that."""


class OldHold(NamedTuple):
    """The reservation of a role. `agents`: that of each place; `amounts`: those that are held, by agent and
    dimension; `lacks`: those that are missing."""

    holder: Holder
    agents: tuple[str, ...]
    amounts: Mapping[str, Mapping[str, int]]
    lacks: Mapping[str, Mapping[str, int]]


class Better(NamedTuple):
    """A demand that may use held room, with the slot; None: a gang. `agent`: the only one, because room was made there
    for the slot; empty: any with held room."""

    demand: Demand[Slot]
    slot: Slot | None
    agent: str = ""


class _Place:
    """Room for one taskgroup on an agent."""

    def __init__(self, unit: Unit, site: Site, request: ResourceRequest, now: float) -> None:
        """`unit`: that of the hold."""
        self.unit, self.site, self.request = unit, site, request
        self.gained_at = now
        self.lack = 2.0
        """The least that was missing so far, as a part of the request."""
        self.is_covered = False
        """The room was there at the latest look."""
        self.has_some = False
        """Some room was there when the agent offered some the last time, and nothing has used it."""
        self.away_since = 0.0
        """The moment from which free room of the agent is not offered, Unix seconds; 0: it is."""


class _Kept:
    """The reservation of a role."""

    def __init__(
        self, opening: Opening, demand: Demand[Slot], wants: Sequence[Demand[Slot]], places: list[_Place], now: float
    ) -> None:
        """`wants`: the demand of each place."""
        self.opening, self.application, self.places = opening, demand.application, places
        self.slots = len(demand.slots)
        """Number of places that the demand wanted at the latest review."""
        self.applications = frozenset(want.application for want in wants)
        """The applications of the places, by key."""
        self.kinds = [_kind(want) for want in wants]
        """The kind of each place."""
        self.followed_at = now
        """The moment of the latest look at the places, Unix seconds."""
        self.given_at = 0.0
        """The moment of the latest try to place the demand, Unix seconds."""
        self.asked_at = 0.0
        """The moment at which the policy was asked for evictions the last time, or could have been, Unix seconds."""
        self.ended: list[Tenant] = []
        """The taskgroups that were ended for these places."""
        self.left: tuple[Eviction, ...] = ()
        """The evictions that are still to be carried out."""
        self.is_vain = False
        """The next question is about all agents: nothing has ended for these places, and nothing may end there now."""
        self.moved_at = now
        """The moment of the latest such end, or of the beginning, Unix seconds."""

    def until(self, place: _Place) -> float:
        """Unix seconds at which a place is given up if nothing more becomes free, or nothing more ends."""
        if self.ended or self.left:
            return self.moved_at + GATHERED
        if len(self.places) == 1:
            return place.gained_at + GAIN
        last = max(other.gained_at for other in self.places) if place.lack <= 0 else place.gained_at
        return min(last + GAIN, self.moved_at + GATHERED)


class Aging:
    """The reservations of the roles of one placement pass; belongs to the thread that owns the state."""

    def __init__(
        self,
        turn: Turn,
        covers: Callable[[str], bool],
        engine: Engine,
        groups: Groups,
        evictor: Evictor,
        pauses: Pauses,
        launcher: Launcher,
        deciding: Deciding,
    ) -> None:
        """`covers`: the roles. `engine`: has the rules of the policy about old work. `deciding`: the demands that are
        decided about."""
        self._turn, self._covers, self._engine, self._groups = turn, covers, engine, groups
        self._evictor, self._pauses, self._launcher, self._deciding = evictor, pauses, launcher, deciding
        self._openings: dict[str, Opening] = {}
        """The openings of demands that were seen; also of some that are closed."""
        self._coming: dict[str, list[tuple[float, Opening]]] = {}
        """Heaps of openings with the Unix seconds from which they are looked at, by role."""
        self._old: dict[str, list[Opening]] = {}
        """Heaps of old openings that are looked at, by role; also of some demands that are closed."""
        self._kept: dict[str, _Kept] = {}
        self._tried: dict[str, dict[str, float]] = {}
        """Agents that gained nothing while they were reserved, by role, with the Unix seconds of the latest end."""
        self._resting: dict[str, float] = {}
        """Applications with work that has gathered room or ended others in vain, with the Unix seconds until which
        nothing is reserved for them: another demand of the same application or group would do it again."""
        self._looked_at = 0.0
        self._place = 0
        """The first demand that the next look for those that outrank others begins with."""
        self._gangs: dict[str, float] = {}
        """Gangs that have tried to use held room, by group or demand, with the Unix seconds of the latest try."""
        self._first = True
        """No demand was looked at in this term: those that are found now were opened under another leader."""

    def holds(self) -> list[AgentHold]:
        """The reservations (any thread)."""
        return [
            AgentHold(kept.application, role, place.site[0], kept.opening.since, kept.until(place), Why.OLD, place.unit)
            for role, kept in list(self._kept.items())
            for place in list(kept.places)
        ]

    def held(self, role: str) -> OldHold | None:
        """The reservation of a role, with the room that is held now; None if there is none, or its demand is gone."""
        kept = self._kept.get(role)
        holder = self._holder(kept) if kept is not None else None
        if kept is None or holder is None:
            return None
        amounts, lacks = defaultdict[str, Counter[str]](Counter), defaultdict[str, Counter[str]](Counter)
        for place in kept.places:
            for name, needed, there in zip(SCALARS, amounts_of(place.request), self._there(place), strict=True):
                held = min(needed, max(there, 0))
                amounts[place.site[0]][name] += held
                lacks[place.site[0]][name] += needed - held
        return OldHold(holder, tuple(place.site[0] for place in kept.places), amounts, lacks)

    def gathering(self) -> set[str]:
        """The applications for which other work is being ended on agents with held room: nothing else is ended for
        them."""
        return set().union(*(kept.applications for kept in self._kept.values() if kept.ended))

    def attempts(self) -> dict[str, Attempt]:
        """The attempts to make room for these applications, and for those for which this is due."""
        attempts: dict[str, Attempt] = {}
        for kept in self._kept.values():
            done, left = len(kept.ended), len(kept.left)
            owners = Counter(eviction.job for eviction in kept.left)
            named = tuple(sorted(owners, key=lambda owner: (-owners[owner], owner)))
            for name in kept.applications if done or left else ():
                if left:
                    met = Met(Obstacle.IN_PARTS, done + left, named[:NAMED], max(0, len(named) - NAMED), done=done)
                    attempts[name] = Attempt(kept.asked_at, (met,))
                else:
                    attempts[name] = Attempt(kept.moved_at, evicted=done, agent=kept.places[0].site[0])
        return attempts

    def next_timer(self) -> float | None:
        """Unix seconds at which others may be ended for a demand; None: at no particular time."""
        return min(map(_asks_at, self._kept.values()), default=None)

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
            since = min(now, self._turn.source.age_of(identity) / 1e9) if self._first else now
            opening = self._openings[identity] = Opening(since, identity, number)
            self._wait(demand.role, opening, since + self._turn.options.aging)
        if len(self._openings) > 2 * len(engine.demands) + LOOKED_AT:
            self._openings = {name: opened for name, opened in self._openings.items() if self._is_open(opened)}

    def step(self) -> None:
        """Serves old demands whose room is there, and reserves room for others."""
        self._first = self._first and not self._openings
        if not self._coming and not self._old and not self._kept:
            return
        now, pool = self._turn.now, self._turn.pool
        for role, heap in list(self._coming.items()):
            for _ in range(BECOME_OLD):
                if not heap or heap[0][0] > now:
                    break
                self._put(role, heappop(heap)[1])
            if not heap:
                del self._coming[role]
        if not self._kept and not self._old:
            return
        pool.table.flush()
        for role, kept in list(self._kept.items()):
            self._follow(role, kept)
        if now < self._looked_at + SEARCH_SECONDS:
            return
        self._looked_at = now
        for role in list(self._old):
            if role not in self._kept:
                self._choose(role)

    def betters(self, demands: Sequence[Demand[Slot]], awaiting: Awaiting) -> list[Better]:
        """Some of the demands that may use the held room now, and that fit; gangs may need more room than that: slots
        for which room was made there, and demands that outrank those with the reservations. Of very many demands, each
        call looks at others."""
        if not self._kept or not demands:
            return []
        self._turn.pool.table.flush()
        begin = self._place % len(demands)
        self._place = begin + SCANNED if len(demands) > SCANNED else 0
        betters: list[Better] = []
        promised = {role: self._engine.promised_amounts(role, NOBODY) for role in self._kept}
        holders = {role: self._holder(kept) for role, kept in self._kept.items()}
        seen: dict[object, bool] = {}
        """Sizes of demands with the answer whether they fit, and groups that were looked at."""
        gangs = 0
        others = islice(chain(demands[begin:], demands[:begin]), min(len(demands), SCANNED))
        first = [demand for demand in demands if demand.id in awaiting] if awaiting else []
        for demand in first:
            if (kept := self._kept.get(demand.role)) is not None and not is_gang(demand) and self._groups.wants(demand):
                agents = awaiting[demand.id]
                slots = [slot for slot in demand.slots if slot.index in agents]
                betters += [
                    Better(demand, slot, agents[slot.index])
                    for slot in slots
                    if self._fitting(kept, demand, {}, agents[slot.index]) is not None
                ]
        for demand in chain(first, (demand for demand in others if demand.id not in awaiting)):
            if len(betters) >= USED:
                break
            holder = holders.get(demand.role)
            if holder is None or holder.demand is demand:
                continue
            kept = self._kept[demand.role]
            if is_gang(demand):
                if gangs >= GANGS or demand.group in seen or not self._is_due(demand, holder.demand):
                    continue
                gangs += 1
                seen[demand.group or demand.id] = True
            else:
                size = (demand.role, demand.request)
                if size not in seen:
                    seen[size] = self._fitting(kept, demand, promised[demand.role]) is not None
                if not seen[size]:
                    continue
            wants = self._groups.wants(demand)
            served = awaiting.get(demand.id, {})
            awaits = any(place.site[0] == agent for agent in served.values() for place in kept.places)
            if wants and self._engine.outranks(demand, wants, holder, awaits=awaits):
                slot = next((candidate for candidate in demand.slots if candidate.index not in served), None)
                if slot is not None or is_gang(demand):
                    betters.append(Better(demand, slot))
        return betters[:USED]

    def _is_due(self, gang: Demand[Slot], holder: Demand[Slot]) -> bool:
        """True if a gang, of another group than the holder, has not tried the held room lately."""
        alike = bool(gang.group) and gang.group == holder.group
        return not alike and self._turn.now >= self._gangs.get(gang.group or gang.id, 0.0) + AGAIN

    def use(self, demands: Sequence[Demand[Slot]], awaiting: Awaiting) -> bool:
        """Places a slot of each of these demands with the held room, as far as it fits; of a gang all that it lacks,
        with the held room and all other free room. Room that is promised to others stays free. True if one has a place.
        `awaiting`: as for `betters`."""
        engine, placed = self._turn.engine, False
        for (identity, *_), slot, agent in self.betters(demands, awaiting):
            self._turn.pool.table.flush()
            demand = engine.demands.get(identity)
            if demand is None or not (slot is None or slot in demand.slots):
                continue  # it got a place together with another one
            kept = self._kept[demand.role]
            if is_gang(demand):
                if len(self._gangs) > len(engine.demands) + LOOKED_AT:
                    self._gangs.clear()
                self._gangs[demand.group or demand.id] = self._turn.now
                wants = self._groups.wants(demand)
                with self._promises_kept(demand.role, wants):
                    has_places = self._give(demand, wants, kept.places, ANYWHERE, again=True)
                _used(kept.places if has_places else ())
                placed = placed or has_places
                continue
            promised = {} if agent else self._engine.promised_amounts(demand.role, NOBODY)
            if (place := self._fitting(kept, demand, promised, agent)) is not None:
                assert slot is not None
                places, agents = self._from(kept, place), frozenset({place.site[0]})
                if self._give(_first(demand, slot), self._groups.wants(demand), places, agents, again=True):
                    placed = True
                    _used(other for other in kept.places if other.site == place.site)
        return placed

    @contextmanager
    def _promises_kept(self, role: str, wants: Sequence[Demand[Slot]]) -> Iterator[None]:
        """Holds room that is promised to others than a gang, as far as it is there. `wants`: the places of the gang."""
        holds = self._turn.pool.holds
        promised = self._engine.promised_amounts(role, frozenset(want.application for want in wants))
        units = [Provisional(wants[0].id, agent) for agent in promised]
        for unit, (agent, amounts) in zip(units, promised.items(), strict=True):
            there = zip(SCALARS, self._turn.pool.hand.amounts(agent, role), strict=True)
            cpus, mem, disk, gpus = (min(room, amounts.get(line, 0)) for line, room in there)
            holds.add(unit, Cause.PROMISED, (agent, role), ResourceRequest(cpus, mem, disk, gpus))
        try:
            yield
        finally:
            for unit in units:
                holds.drop(unit)

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
        if not self._serves(role, kept):
            return
        demand, now = self._turn.engine.demands[kept.opening.demand], self._turn.now
        wants = self._groups.wants(demand)
        if len(wants) > 1 and now >= kept.moved_at + GATHERED:
            self._end_in_vain(role, now + GATHERED)
        elif (kept.ended or kept.left) and now >= kept.moved_at + GATHERED:
            self._give_up(role, kept)
        else:
            self._gather(role, kept, demand, wants)

    def _serves(self, role: str, kept: _Kept) -> bool:
        """False if a reservation has no purpose any more; then it ends."""
        if not self._is_open(kept.opening) and kept.ended:
            self._hand_over(role, kept)
        demand = self._turn.engine.demands.get(kept.opening.demand)
        if demand is None or not self._is_open(kept.opening):
            self._end(role)
            self._looked_at = 0.0
            return False
        wants = self._groups.wants(demand)
        # The limits may admit it only without all its victims: `_make_room` asks for that.
        if not wants or not (kept.ended or kept.left or self._engine.admits_more(wants)):
            self._end(role, self._turn.now + REST)
            return False
        if [want.request for want in wants] != [place.request for place in kept.places]:
            self._end(role)  # the gang has changed
            self._looked_at = 0.0
            return False
        kept.applications = frozenset(want.application for want in wants)
        kept.kinds = [_kind(want) for want in wants]
        return True

    def _hand_over(self, role: str, kept: _Kept) -> None:
        """Others were ended for the applications of a reservation, and not for one demand: an operation may be replaced
        by another one, and a member of a group may go. The reservation passes to a demand with the same places."""
        for identity, demand in self._turn.engine.demands.items():
            opening = self._openings.get(identity)
            if demand.application not in kept.applications or demand.role != role or opening is None:
                continue
            if self._is_open(opening) and [_kind(want) for want in self._groups.wants(demand)] == kept.kinds:
                kept.opening, kept.application, kept.slots = opening, demand.application, len(demand.slots)
                return

    def review(self, role: str) -> bool:
        """Ends the reservation of a role if it has no purpose any more: the demand has found all its places, or others
        have used the limits up that admitted it. True if it is for the same places as at the latest review."""
        kept = self._kept.get(role)
        if kept is None or not self._serves(role, kept):
            return False
        before, kept.slots = kept.slots, len(self._turn.engine.demands[kept.opening.demand].slots)
        return kept.slots >= before

    def _gather(self, role: str, kept: _Kept, demand: Demand[Slot], wants: Sequence[Demand[Slot]]) -> None:
        """Serves the demand if all its room is there; looks for another agent where nothing becomes free."""
        now, short = self._turn.now, self._turn.pool.holds.short
        missing = [number for number, place in enumerate(kept.places) if place.unit in short]
        away = self._away(kept)
        for number, place in enumerate(kept.places):
            if away:
                place.gained_at += now - kept.followed_at  # the time of the places does not pass
            if number not in missing:
                place.lack = 0.0
            if (number in missing) is place.is_covered and place not in away:
                place.is_covered, place.gained_at = not place.is_covered, now
        kept.followed_at = now
        if (not missing or len(wants) > 1) and now >= kept.given_at + AGAIN:
            kept.given_at = now
            # The last part of the room may have been made for a demand that outranks this one.
            self._engine.use_held(self, self._deciding)
            self._turn.pool.table.flush()
            if self._turn.engine.demands.get(demand.id) != demand:
                return
            if self._give_all(role, kept, demand, wants):
                self._end(role)
                self._looked_at = 0.0
                return
            if not missing and now >= max(place.gained_at for place in kept.places) + GAIN:
                self._give_up(role, kept)  # the agents do not suit any more
                return
        for number in missing:
            place = kept.places[number]
            if place in away:
                continue
            lack = self._lack(place)
            if lack < place.lack:
                place.lack, place.gained_at = lack, now
            elif kept.ended or kept.left:
                continue  # the policy is asked whether its room comes
            elif now >= place.gained_at + GAIN and not self._move(role, kept, number, wants):
                break

    def _give_all(self, role: str, kept: _Kept, demand: Demand[Slot], wants: Sequence[Demand[Slot]]) -> bool:
        """Places a demand with its held room; a gang with all other free room as well, since its holds keep that apart
        for which it would have places elsewhere. True if it has places."""
        if len(wants) > 1 and not self._may_fit(kept, demand):
            return False
        if not self._engine.fits_queues(wants):  # promises are known as of now
            return False
        if not is_gang(demand):
            # The others have a place when the room comes that is promised to them.
            awaiting = self._engine.awaiting().get(demand.id, {})
            demand = _first(
                demand, next((slot for slot in demand.slots if slot.index not in awaiting), demand.slots[0])
            )
        agents = frozenset(place.site[0] for place in kept.places)
        is_there = not any(place.unit in self._turn.pool.holds.short for place in kept.places)
        if is_there and self._is_rest(role, kept) and self._give(demand, wants, kept.places, agents):
            return True
        if len(wants) == 1:
            return False
        with self._promises_kept(role, wants):
            return self._give(demand, wants, kept.places, ANYWHERE)

    def _may_fit(self, kept: _Kept, demand: Demand[Slot]) -> bool:
        """False if the held room and all free room together do not suffice for as many places of the least amounts of a
        member. It costs little: a gang asks each second, and the queues that are asked then follow all that waits."""
        table = self._turn.pool.table
        free = table.free[[table.line_of[name] for name in SCALARS]] * table.active
        for place in kept.places:
            row = self._turn.pool.row(*place.site)
            if row is not None:
                there = zip(amounts_of(place.request), self._there(place), strict=True)
                free[:, row.number] += [min(needed, max(amount, 0)) for needed, amount in there]
        members = self._groups.demands(demand.group) if demand.group else (demand,)
        least = np.min([amounts_of(member.request) for member in members], axis=0)
        fitting = [amounts // need for amounts, need in zip(free, least.tolist(), strict=True) if need]
        return not fitting or int(np.minimum.reduce(fitting).clip(0).sum()) >= len(kept.places)

    def make_room(self) -> None:
        """Ends other work for old demands that lack room. Nothing else is to be decided now: the limits that admit an
        old demand could be used up by it."""
        now, short = self._turn.now, self._turn.pool.holds.short
        for role, kept in list(self._kept.items()):
            demand = self._turn.engine.demands.get(kept.opening.demand)
            if now < _asks_at(kept) or demand is None:
                continue
            kept.asked_at, wants = now, self._groups.wants(demand)
            is_same = [want.request for want in wants] == [place.request for place in kept.places]
            if is_same and _may_be_made(wants) and (kept.left or any(place.unit in short for place in kept.places)):
                self._make_room(role, kept, wants)

    def _make_room(self, role: str, kept: _Kept, wants: Sequence[Demand[Slot]]) -> None:
        """Ends other work on the agents, as the disruption budgets admit. The reservation ends if the rest of them may
        not be ended, or is not enough."""
        now, is_several = self._turn.now, len(wants) > 1
        if not {want.id for want in wants} <= {demand.id for demand in self._deciding(role)}:
            return  # it waits to be spread
        numbers, awaiting = Counter(want.id for want in wants), self._engine.awaiting()
        if any(numbers[want.id] > len(want.slots) - len(awaiting.get(want.id, ())) for want in wants):
            return  # room comes elsewhere
        away = self._away(kept)
        if any(not self._turn.pool.hand.coming.is_expected(place.site) for place in away):
            return  # the policy does not see its room
        anywhere, kept.is_vain = kept.is_vain, False
        try:
            plan = self._engine.evictions_for(wants, self.held(role), self._deciding, anywhere=anywhere)
            if plan is None and kept.ended and not (anywhere or away) and (is_several or kept.places[0].away_since):
                anywhere = True
                plan = self._engine.evictions_for(wants, self.held(role), self._deciding, anywhere=True)
        except NotKnown:
            return
        if plan is None and kept.ended:
            if not away:
                self._end_in_vain(role, now + GATHERED)
            return
        evictions = plan.evictions if plan is not None else ()
        ended = self._evictor.end_some(evictions)
        if not anywhere:
            kept.left = evictions
            kept.is_vain = not (ended or kept.ended) and (plan is None or bool(evictions))
        elif plan is not None and (ended or kept.ended):
            for number, agent in enumerate(plan.agents):
                self._reserve_on(role, kept, number, agent)
            kept.left = evictions
        if ended:
            names = {tenant.unit for tenant in ended}
            kept.left = tuple(eviction for eviction in kept.left if eviction.task not in names)
            kept.ended += ended
            kept.moved_at = now

    def _away(self, kept: _Kept) -> list[_Place]:
        """The places on agents of which all or some room is free, which offer none now, and have not for long: offers
        with held room go back to the cluster manager from time to time, which may be away for a while itself. Room is
        free if some was, or if no unit is left there."""
        now = self._turn.now
        for place in kept.places:
            row = self._turn.pool.row(*place.site)
            is_shown = row is not None and bool(row.offers)
            if is_shown:
                place.has_some = self._lack(place) < 1.0
            is_away = not is_shown and (place.has_some or not any(self._turn.source.used_on(place.site[0])[0]))
            place.away_since = place.away_since or now if is_away else 0.0
        return [place for place in kept.places if now < place.away_since + UNOFFERED_SECONDS]

    def _give(
        self,
        demand: Demand[Slot],
        wants: Sequence[Demand[Slot]],
        places: Sequence[_Place],
        agents: frozenset[str],
        *,
        again: bool = False,
    ) -> bool:
        """Places a demand on some agents, with the held room of some places. `wants`: its own places. `again`: the rest
        of the room is held again."""
        holds = self._turn.pool.holds
        if not self._engine.fits_queues(wants):
            return False
        for place in places:
            holds.drop(place.unit)
        placed = self._serve(demand, agents)
        if again or not placed:
            for place in places:
                holds.add(place.unit, Cause.OLD, place.site, place.request)
        return placed

    def _serve(self, demand: Demand[Slot], agents: frozenset[str]) -> bool:
        """Places the first slot of a demand, or all that its gang lacks, on agents, given by id; empty: on any agents.
        True if they have places."""
        engine, placer, launcher = self._turn.engine, self._turn.placer, self._launcher
        lacks = self._groups.lacks(demand.group) if demand.group else None
        if lacks is not None:
            parts = [
                member._replace(only_agents=agents or member.only_agents)
                for member in self._groups.demands(demand.group)
            ]
            work = partial(placer.plan_group, parts, lacks, Mode.COMMIT)
        else:
            slots = demand.slots[: max(demand.min_members, 1)]
            for slot in reversed(slots):
                engine.put_first(demand.id, slot)  # the caller may have chosen another one than the next
            least = len(slots) if demand.min_members else 0
            parts = [demand._replace(slots=slots, only_agents=agents or demand.only_agents, min_members=least)]
            work = partial(placer.plan, parts, Mode.COMMIT)
        result = self._turn.attempt("transaction", demand.id, work)
        if isinstance(result, Failure):
            self._turn.source.fail(demand.id, result)
            return False
        by_id = {part.id: part for part in parts}
        for name in launcher.plan(by_id, result.placements):
            (launcher.launch_now if prompt(by_id[name]) else launcher.settle)(by_id[name])
        launches = ((by_id[placement.demand], placement) for placement in result.placements)
        self._engine.bound(
            [Bind(part.application, task_name(part, placed.slot), placed.agent_id) for part, placed in launches]
        )
        return bool(result.placements)

    def _move(self, role: str, kept: _Kept, number: int, wants: Sequence[Demand[Slot]]) -> bool:
        """Chooses another agent for a place: nothing has become free on this one. False: the reservation has ended."""
        place = kept.places[number]
        self._tried.setdefault(role, {})[place.site[0]] = self._turn.now
        others = [other for other in kept.places if other is not place]
        agents = self._agents_for(wants[number : number + 1], others) if others else None
        if agents is None:
            self._give_up(role, kept)
            return False
        self._reserve_on(role, kept, number, agents[0])
        return True

    def _reserve_on(self, role: str, kept: _Kept, number: int, agent: str) -> None:
        """Holds the room of a place on this agent, and no more on the present one."""
        holds, place = self._turn.pool.holds, kept.places[number]
        if place.site[0] != agent:
            holds.drop(place.unit)
            kept.places[number] = moved = _Place(place.unit, (agent, role), place.request, self._turn.now)
            holds.add(moved.unit, Cause.OLD, moved.site, moved.request)

    def _give_up(self, role: str, kept: _Kept) -> None:
        """Ends a reservation on agents that do not help. A gang rests: with other agents it would keep the same room
        again at once."""
        now = self._turn.now
        self._tried.setdefault(role, {}).update((place.site[0], now) for place in kept.places)
        self._end_in_vain(role, now + REST if len(kept.places) > 1 else 0.0)
        self._looked_at = 0.0

    def _end_in_vain(self, role: str, again: float) -> None:
        """Ends a reservation whose work has got no place. If it is a gang, or others were ended for it, all demands of
        its applications rest: the next one would do the same again. `again`: as for `_end`, at least."""
        now, kept = self._turn.now, self._kept[role]
        if kept.ended:
            again = max(again, now + GATHERED)
        if again > now:
            self._resting = {name: until for name, until in self._resting.items() if until > now}
            self._resting.update(dict.fromkeys(kept.applications, again))
        self._end(role, again)

    def _end(self, role: str, again: float = 0.0) -> None:
        """Ends a reservation. `again`: Unix seconds from which the demand is looked at, if it is still open."""
        kept = self._kept.pop(role)
        if kept.ended and not kept.left:
            self._pauses.evicted(kept.application, kept.ended, kept.moved_at)
        for place in kept.places:
            self._turn.pool.holds.drop(place.unit)
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
        old, searches, is_asked = self._old[role], 0, False
        rest = max(REST, SEARCH_SECONDS * len(old) / SEARCHES)
        for _ in range(min(LOOKED_AT, len(old))):
            opening = heappop(old)
            demand = self._turn.engine.demands.get(opening.demand)
            if demand is None or not self._is_open(opening):
                continue
            wants = self._groups.wants(demand)
            applications = {demand.application, *(want.application for want in wants)}
            if (until := max(self._resting.get(name, 0.0) for name in applications)) > self._turn.now:
                self._wait(role, opening, until)
                continue
            agents, plan = None, None
            if wants and self._engine.admits_more(wants):
                searches += 1
                if not is_asked and _may_be_made(wants):
                    is_asked, plan = True, self._made(role, wants)
                agents = plan.agents if plan is not None else self._agents_for(wants, ())
            if agents is not None:
                self._keep(role, opening, demand, zip(wants, agents, strict=True))
                if plan is not None:
                    self._kept[role].left = plan.evictions
                else:
                    self._kept[role].asked_at = self._turn.now
                break
            self._wait(role, opening, self._turn.now + rest)
            if searches >= SEARCHES:
                break
        if not old:
            del self._old[role]

    def _keep(
        self, role: str, opening: Opening, demand: Demand[Slot], chosen: Iterable[tuple[Demand[Slot], str]]
    ) -> None:
        now, holds, chosen = self._turn.now, self._turn.pool.holds, list(chosen)
        places = [
            _Place(Provisional(opening.demand, number), (agent, role), want.request, now)
            for number, (want, agent) in enumerate(chosen)
        ]
        self._kept[role] = _Kept(opening, demand, [want for want, _ in chosen], places, now)
        for place in places:
            holds.add(place.unit, Cause.OLD, place.site, place.request)

    def _made(self, role: str, wants: Sequence[Demand[Slot]]) -> EvictionPlan | None:
        """The agents on which the policy would make room; None if there are none, or if they were tried in vain."""
        tried = self._tried.get(role, {})
        try:
            plan = self._engine.evictions_for(wants, None, self._deciding, anywhere=True)
        except NotKnown:
            return None
        if plan is None or any(self._turn.now < tried.get(agent, -inf) + REST for agent in plan.agents):
            return None
        return plan

    def _agents_for(self, wants: Sequence[Demand[Slot]], others: Iterable[_Place]) -> list[str] | None:
        """An agent for each place, beside other places of the same reservation: it is large enough without the
        taskgroups that always stay there, meets the constraints and lacks the least, counting the runs that end soon.
        None if there are not enough. Agents that have gained nothing come last, and not within `REST` seconds. Places
        of a demand whose constraints count taskgroups are on different agents."""
        taken: dict[str, list[int]] = {}
        for place in others:
            _add(taken, place.site[0], amounts_of(place.request))
        near = self._turn.source.ending_within(wants[0].role, GAIN)
        chosen: list[str] = []
        for demand in dict.fromkeys(want.id for want in wants):
            number = sum(want.id == demand for want in wants)
            agents = self._agents_of(next(want for want in wants if want.id == demand), number, taken, near)
            if len(agents) < number:
                return None
            chosen += agents
        return chosen

    def _agents_of(
        self, demand: Demand[Slot], number: int, taken: dict[str, list[int]], soon: Mapping[str, dict[str, int]]
    ) -> list[str]:
        """Agents for so many places of one demand, as far as there are some. `taken`: amounts of the places that were
        chosen before, by agent; the new ones are added."""
        turn, role, amounts = self._turn, demand.role, amounts_of(demand.request)
        heap = self._suitable(demand, taken, soon)
        heapify(heap)
        agents: list[str] = []
        vain = 0
        while heap and len(agents) < number and vain < TRIED:
            at, _, agent, row = heappop(heap)
            before = taken.get(agent, NONE)
            if any(
                amount + used > most for amount, used, most in zip(amounts, before, self._most_on(row), strict=False)
            ):
                vain += 1
                continue
            agents.append(agent)
            _add(taken, agent, amounts)
            if not demand.rules.live:
                free = _free(row, soon.get(agent, {}), taken[agent])
                heappush(heap, (at, _lack(amounts, free), agent, row))
        if len(self._tried.get(role, {})) > 2 * len(turn.pool.rows_in(role)):
            present = {row.agent_id for row in turn.pool.rows_in(role)}
            self._tried[role] = {agent: at for agent, at in self._tried[role].items() if agent in present}
        return agents

    def _suitable(
        self, demand: Demand[Slot], taken: Mapping[str, list[int]], soon: Mapping[str, dict[str, int]]
    ) -> list[tuple[float, float, str, Row]]:
        """The agents that meet the constraints of a demand and are large enough for one place: the moment at which each
        was tried in vain, the part of the request that it lacks, its id and its row."""
        turn, amounts, tried = self._turn, amounts_of(demand.request), self._tried.get(demand.role, {})
        rows = turn.pool.rows_in(demand.role)
        if not rows:
            return []
        suits = np.ones(len(turn.pool.table.rows), dtype=np.bool_)
        for _, ok in turn.placer.tests().tests(demand):
            suits &= ok
        suitable: list[tuple[float, float, str, Row]] = []
        for row in rows:
            at = tried.get(row.agent_id, -inf)
            if turn.now < at + REST or (demand.rules.live and row.agent_id in taken):
                continue
            known = turn.pool.totals.get(row.agent_id)
            if suits[row.number] and (known is None or (known[0] >= amounts[0] and known[1] >= amounts[1])):
                free = _free(row, soon.get(row.agent_id, {}), taken.get(row.agent_id, NONE))
                suitable.append((at, _lack(amounts, free), row.agent_id, row))
        return suitable

    def _most_on(self, row: Row) -> tuple[int, int]:
        """CPU and memory of an agent without the units that always stay. If its size is not known, the free room and
        that of all units is."""
        (cpus, mem), (used, lasting) = row.totals, self._turn.source.used_on(row.agent_id)
        cpus, mem = max(cpus, row.amounts[0] + used[0]), max(mem, row.amounts[1] + used[1])
        return cpus - lasting[0], mem - lasting[1]

    # --- questions --------------------------------------------------------------------------------------------

    def _holder(self, kept: _Kept) -> Holder | None:
        """The work of a reservation; None if its demand is gone."""
        demand = self._turn.engine.demands.get(kept.opening.demand)
        if demand is None:
            return None
        wants = self._groups.wants(demand)
        return Holder(demand, wants, kept.applications, bool(kept.ended), _may_be_made(wants))

    def _is_open(self, opening: Opening) -> bool:
        return self._turn.engine.openings.get(opening.demand) == opening.number

    def _fitting(
        self, kept: _Kept, demand: Demand[Slot], promised: Mapping[str, Mapping[str, int]], agent: str = ""
    ) -> _Place | None:
        """The first place whose room suffices for a demand, without the room that is promised there; None if none
        does. `agent`: the only one; empty: any."""
        amounts = amounts_of(demand.request)
        places = (place for place in kept.places if not agent or place.site[0] == agent)
        return next((place for place in places if self._has_room(place, amounts, promised)), None)

    def _is_rest(self, role: str, kept: _Kept) -> bool:
        """True if all the room of a reservation is there beside the room that is promised to others."""
        promised = self._engine.promised_amounts(role, kept.applications)
        return all(self._has_room(place, amounts_of(place.request), promised) for place in kept.places)

    def _has_room(self, place: _Place, amounts: Iterable[int], promised: Mapping[str, Mapping[str, int]]) -> bool:
        """True if the room of a place suffices for amounts without the room that is promised there."""
        less = promised.get(place.site[0], {})
        free = (there - less.get(name, 0) for name, there in zip(SCALARS, self._there(place), strict=True))
        return _lack(amounts, free) <= 0

    def _from(self, kept: _Kept, place: _Place) -> list[_Place]:
        """A place, and those on its agent with later holds: the agent may have less room than all of them hold."""
        mine = {own.unit: own for own in kept.places}
        names = list(self._turn.pool.holds.on(place.site))
        return [mine[name] for name in names[names.index(place.unit) :] if name in mine]

    def _lack(self, place: _Place) -> float:
        """The greatest part of its request that a place lacks; 1 without offers."""
        return min(_lack(amounts_of(place.request), self._there(place)), 1.0)

    def _there(self, place: _Place) -> Iterable[int]:
        """The free amounts on the agent of a place, if its hold and later ones count as free."""
        pool, row = self._turn.pool, self._turn.pool.row(*place.site)
        if row is None or not row.offers:
            return NONE
        whole = dict(zip(SCALARS, pool.hand.amounts(*place.site), strict=True))
        for allocation in row.claims:
            for key, amount in allocation.scalars:
                whole[key.name] -= amount
        for name, request in pool.holds.on(place.site).items():
            if name == place.unit:
                break
            for line, amount in zip(SCALARS, amounts_of(request), strict=True):
                whole[line] -= amount
        return whole.values()


def _used(places: Iterable[_Place]) -> None:
    """Others have used room of these places."""
    for place in places:
        place.has_some = False


def _asks_at(kept: _Kept) -> float:
    """Unix seconds at which the policy is asked for evictions the next time."""
    return kept.asked_at + (SEARCH_SECONDS if kept.ended or kept.left else IN_VAIN)


def _kind(want: Demand[Slot]) -> object:
    """Places of equal kinds suit the same agents."""
    return want.request, want.rules, want.only_host, want.only_agents, want.except_agents


def is_gang(demand: Demand[Slot]) -> bool:
    """True if several places of a demand, or of its group, are needed at the same time."""
    return bool(demand.group) or demand.min_members > 1


def _first(demand: Demand[Slot], slot: Slot) -> Demand[Slot]:
    """The demand, with this slot as its next one."""
    return demand._replace(slots=(slot, *(other for other in demand.slots if other != slot)))


def _may_be_made(wants: Sequence[Demand[Slot]]) -> bool:
    """True if other work may be ended for some places. Whether agents suit several places whose constraints count
    taskgroups is known only when these are placed."""
    return len(wants) <= MADE and (len(wants) == 1 or not any(want.rules.live for want in wants))


def _add(sums: dict[str, list[int]], agent: str, amounts: Iterable[int]) -> None:
    sums[agent] = [have + amount for have, amount in zip(sums.get(agent, NONE), amounts, strict=True)]


def _free(row: Row, soon: Mapping[str, int], taken: Sequence[int]) -> list[int]:
    """The amounts of an agent that are free or expected soon, less those of places that were chosen before."""
    return [amount + soon.get(name, 0) - less for name, amount, less in zip(SCALARS, row.amounts, taken, strict=False)]


def _lack(amounts: Iterable[int], free: Iterable[int]) -> float:
    lacks: Iterator[float] = ((want - there) / want for want, there in zip(amounts, free, strict=False) if want > 0)
    return max(0.0, *lacks, 0.0)
