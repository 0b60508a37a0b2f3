"""Matches open demands with held offers and launches what was matched, both in slices.

Mesos takes an offer whole: whatever a launch leaves of it comes back in another offer, seconds later. So all placements
of an agent must leave in one ACCEPT, and a big demand must be matched completely before its first agent is launched.
Matching costs microseconds per taskgroup, launching (records, messages) some hundred. Therefore matching and launching
are apart: a matched placement is planned, which the pool remembers as a claim and `PlannedCensus` counts; planned
placements are launched agent by agent as time and store allow. Both queues serve namespaces in turn, and new demands
are matched while earlier ones are being launched.

A plan is void if an offer of its agent is rescinded, if the agent goes or if its settings change; its slots are matched
again.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import islice
from operator import le

from bcs_scheduler.core.desk import Desk
from bcs_scheduler.core.effects import Accept, Decline, Launch
from bcs_scheduler.core.pace import LAUNCHES, MATCHING, Pace
from offers.matcher import match
from offers.model import Demand, Diagnosis, MatchResult, Placement
from store import ids
from transactions.fair import FairQueue
from transactions.injection import Injections

SLICE = 512
"""Slots matched at once: some milliseconds, against about one that each call of the matcher costs at 5,000 agents."""
PROMPT_SLICE = 128
"""Slots of prompt demands that are matched at once: the launches of a slice take some 20 ms."""

EXPLAINED = 256
"""Demands, in the order in which they have been opened, that are matched with every new offer, even one that is too
small for them: their diagnoses tell of all agents. The diagnosis of another one tells of the agents there were when an
offer was last large enough for it."""

UNIT = 50
"""Taskgroups written in one unit at most, so that any store takes it whole."""

Site = tuple[str, str]
"""Agent id and role: what one ACCEPT is for. Mesos takes no ACCEPT that mixes offers of several roles."""


class Placer:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._untried: FairQueue[str] = FairQueue()
        """Ids of demands to be matched."""
        self._ready: FairQueue[Site] = FairQueue()
        """Agents to be launched on."""
        self._planned: dict[Site, list[tuple[Demand, Placement]]] = {}
        self._partly: dict[str, dict[Site, None]] = {}
        """Agents that hold planned placements of a demand which is still being matched, by the id of the demand."""

    @property
    def busy(self) -> bool:
        """Something can be matched or launched right now."""
        return bool(self._untried or self._ready)

    @property
    def planning(self) -> bool:
        """Something is planned and not launched."""
        return bool(self._planned)

    def try_all(self) -> None:
        """Facts about agents have changed: every open demand is matched again, the oldest first."""
        engine = self._desk.engine
        engine.changed_demands.clear()
        self._try(sorted(engine.demands, key=ids.nanoseconds_of))

    def try_again(self, sites: Iterable[Site]) -> None:
        """Offers for these sites have come: matches the open demands for which they may be large enough, and those that
        are new or have changed, the oldest first. Very many demands that fit nowhere must not cost anything whenever an
        agent offers a little."""
        engine = self._desk.engine
        greatest: dict[str, list[int]] = {}
        for agent, role in sites:
            room = self._desk.pool.room(agent, role)
            known = greatest.setdefault(role, room)
            greatest[role] = list(map(max, known, room))
        found = dict.fromkeys(engine.changed_demands)
        engine.changed_demands.clear()
        found.update(dict.fromkeys(islice(engine.demands, EXPLAINED)))
        for size, members in engine.by_size.items():
            room = greatest.get(size.role, [])
            if size.counting or (room and all(map(le, size.amounts, room))):
                found.update(members)
        self._try(sorted(found, key=ids.nanoseconds_of))

    def try_changed(self) -> None:
        """Matches demands that are new or have changed."""
        changed = self._desk.engine.changed_demands
        if changed:
            self._try(sorted(changed, key=ids.nanoseconds_of))
            changed.clear()

    def _try(self, identities: list[str]) -> None:
        for identity in identities:
            demand = self._desk.engine.demands.get(identity)
            if demand is not None:
                self._untried.push(_namespace(demand), identity)

    def place(self, pace: Pace) -> bool:
        """Matches and launches for as long as the turn lasts. True if anything was launched."""
        while self._untried:
            self._match_slice()
            if pace.spent() >= MATCHING:
                break
        launched = False
        while self._ready and not (launched and (pace.spent() >= LAUNCHES or pace.pressed())):
            launched = self._launch_next() or launched
        return launched

    # --- matching -----------------------------------------------------------------------------------------------

    def _match_slice(self) -> None:
        parts: list[Demand] = []
        room = SLICE
        while room > 0 and (item := self._untried.pop()) is not None:
            demand = self._desk.engine.demands.get(item[2])
            if demand is not None:
                part = demand._replace(slots=demand.slots[: min(room, PROMPT_SLICE) if _prompt(demand) else room])
                parts.append(part)
                room -= len(part.slots)
        if not parts:
            return
        results: list[MatchResult] = []
        failure = self._desk.attempt("core", "matching", lambda: results.append(self._match(parts)))
        if not failure:
            self._plan(parts, results[0])
        elif len(parts) == 1:
            self._desk.engine.fail(self._desk.context, parts[0].id, failure)
        else:
            for part in parts:  # one of them is the cause: the others must not suffer from that
                self._match_alone(part)

    def _match_alone(self, part: Demand) -> None:
        results: list[MatchResult] = []
        failure = self._desk.attempt("transaction", part.id, lambda: results.append(self._match([part])))
        if failure:
            self._desk.engine.fail(self._desk.context, part.id, failure)
        else:
            self._plan([part], results[0])

    def _match(self, parts: list[Demand]) -> MatchResult:
        desk = self._desk
        return match(parts, desk.pool, desk.census, desk.options.scoring)

    def _plan(self, parts: list[Demand], result: MatchResult) -> None:
        engine = self._desk.engine
        by_id = {part.id: part for part in parts}
        counts = dict.fromkeys(by_id, 0)
        for placement in result.placements:
            demand = by_id[placement.demand]
            site = (placement.agent_id, demand.role)
            self._planned.setdefault(site, []).append((demand, placement))
            self._partly.setdefault(demand.id, {})[site] = None
            self._desk.census.add(demand, placement)
            counts[demand.id] += 1
        for diagnosis in result.diagnoses:
            engine.diagnoses[diagnosis.demand] = _fuller(engine.diagnoses.get(diagnosis.demand), diagnosis)
        for part in parts:
            self._planned_part(part, counts[part.id])
        for part in parts:
            if _prompt(part):
                self._launch_now(part)

    def _planned_part(self, part: Demand, count: int) -> None:
        """`count` slots of the part have been matched."""
        engine = self._desk.engine
        complete = count == len(part.slots)
        if complete:
            engine.diagnoses.pop(part.id, None)
        if part.per_agent:
            return
        more = complete and count < len(engine.demands[part.id].slots)
        if count:
            engine.plan(part.id, count)
        if more:
            self._untried.push(_namespace(part), part.id)
        if more or _prompt(part):
            return
        for site in self._partly.pop(part.id, ()):  # matched as far as possible: its agents may be launched on
            self._ready.push(_namespace(part), site)

    # --- launching ----------------------------------------------------------------------------------------------

    def _launch_now(self, demand: Demand) -> None:
        """Launches on all agents that hold placements of a prompt demand."""
        for site in self._partly.pop(demand.id, ()):
            if site in self._planned:
                self._launch(site)

    def _launch_next(self) -> bool:
        item = self._ready.pop()
        return item is not None and item[2] in self._planned and self._launch(item[2])

    def _launch(self, site: Site) -> bool:
        """Writes the taskgroups of one agent and sends one ACCEPT for all of its offers after they are durable. True if
        anything was launched."""
        desk = self._desk
        planned = self._planned.pop(site)
        claims = {id(claim) for claim in desk.pool.claims(*site)}
        valid: list[Placement] = []
        for demand, placement in planned:
            desk.census.remove(demand, placement)
            if id(placement.claim) in claims:
                valid.append(placement)
            else:
                desk.engine.unplan(demand.id, placement.slot)
        if not valid:
            return False
        offers = tuple(offer.id for offer in desk.pool.take(*site))
        launches: list[Launch] = []
        for first in range(0, len(valid), UNIT):
            self._write(valid[first : first + UNIT], launches)
        if launches:
            desk.emit(Accept(agent_id=site[0], offer_ids=offers, launches=tuple(launches), cause=desk.cause))
        else:
            desk.emit(Decline(offer_ids=offers, refuse_seconds=0.0, cause=desk.cause))
        desk.cut()
        return bool(launches)

    def _write(self, placements: list[Placement], launches: list[Launch]) -> None:
        """Writes the taskgroups of placements as one unit; what is to be launched is added to `launches`. A placement
        that cannot be written ends its transaction; the others of the unit are matched again."""
        desk = self._desk
        written: list[Launch | None] = []
        failure = desk.attempt("agent", placements[0].agent_id, partial(self._record, placements, written))
        if not failure:
            launches += [launch for launch in written if launch is not None]
            return
        for number, placement in enumerate(placements):
            if number == len(written):
                desk.engine.fail(desk.context, placement.demand, failure)
            else:
                desk.engine.restore(desk.context, placement.demand, placement.slot)

    def _record(self, placements: list[Placement], written: list[Launch | None]) -> None:
        desk = self._desk
        injections = Injections(desk.state)
        for placement in placements:
            placed = desk.engine.placed(desk.context, placement, injections)
            launch = None
            if placed is not None:
                group, version, injected = placed
                launch = Launch(taskgroup=group, version=version, claim=placement.claim, injected=injected)
            written.append(launch)

    def void(self) -> None:
        """All offers are gone, and with them everything that is planned."""
        engine = self._desk.engine
        for planned in self._planned.values():
            for demand, placement in planned:
                self._desk.census.remove(demand, placement)
                engine.unplan(demand.id, placement.slot)
        self._planned.clear()
        self._partly.clear()
        self._untried, self._ready = FairQueue(), FairQueue()


def _fuller(before: Diagnosis | None, now: Diagnosis) -> Diagnosis:
    """While a demand waits unchanged, the judgement that saw the most agents stands: a pass caused by the offers of one
    agent would otherwise explain the whole cluster by it."""
    if before is not None and before.agents > now.agents and before.wanted - before.placed == now.wanted - now.placed:
        return before
    return now


def _prompt(demand: Demand) -> bool:
    """Whether the placements of a slice are launched before anything else is matched. The slots of a demand of one per
    agent are alike to the matcher: which of them belongs to an agent is decided by the records. Constraints that count
    taskgroups hold for the placements of a slice together, in the order of matching, not for a part of them."""
    return demand.per_agent or bool(demand.rules.live)


def _namespace(demand: Demand) -> str:
    return ids.namespace_of(demand.application)
