"""The placement pass: has open demands placed and launched, both in slices.

Matching costs microseconds per taskgroup, launching (records, messages) some hundred. Therefore matching and launching
are apart: a matched placement is planned, and planned placements are launched agent by agent as time and store allow
(core.placement.launcher). Both queues serve namespaces in turn, and new demands are matched while earlier ones are
being launched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.placement.aging import MOST_PLACES, Aging, Held, KeptRoom, Room
from bcs_scheduler.core.placement.groups import Groups
from bcs_scheduler.core.placement.launcher import Launcher, Site
from bcs_scheduler.core.placement.placer import SLICE, Mode, first_slots
from bcs_scheduler.core.placement.spreading import Spreading
from bcs_scheduler.core.time_budget import MATCHING, TimeBudget
from offers.model import Demand, MatchResult
from offers.policy.session.decisions import Eviction
from store import ids
from store.records import PodGroup, TaskGroup
from transactions.base import Failure, Slot
from transactions.engine.fair import FairQueue

PROMPT_SLICE = 128
"""Slots of prompt demands that are matched at once: the launches of a slice take some 20 ms."""

Covers = Callable[[str], bool]
"""True for the roles of a partition."""


def every_role(role: str) -> bool:  # noqa: ARG001
    """Covers all roles."""
    return True


class PlacementPass:
    """Matches open demands with offers in slices, namespaces in turn, and hands placements to the launcher."""

    def __init__(self, turn: TurnContext, launcher: Launcher, covers: Covers = every_role) -> None:
        """`launcher`: shared with the passes of other partitions. `covers`: the roles of the partition."""
        self._turn = turn
        self._covers = covers
        self._launcher = launcher
        self._groups = Groups(turn, covers)
        self._untried: FairQueue[str] = FairQueue()
        """Ids of demands to be matched."""
        self.spreading = Spreading(turn, self._spreads)
        self.aging = Aging(turn, covers, self, self)

    @property
    def busy(self) -> bool:
        """Something can be matched right now."""
        return bool(self._untried) or self.spreading.is_over

    def next_timer(self) -> float | None:
        """Unix seconds at which something can be matched that must wait until then; None: nothing waits for a
        moment."""
        timers = (self.spreading.until, self.aging.next_timer())
        return min((one for one in timers if one is not None), default=None)

    def _spreads(self) -> bool:
        """True if the emptiest agents are preferred."""
        return self._turn.options.scoring == "spread"

    def waits_to_be_spread(self, demand: str) -> bool:
        """True if the demand of this id waits for requested offers of emptier agents (any thread)."""
        return demand in self.spreading.waiting

    def promised(self) -> Collection[str]:
        """The ids of agents with room that is promised to demands which wait for more room."""
        return ()

    def kept_rooms(self) -> list[KeptRoom]:
        """The room of agents that is kept for work that waits (any thread)."""
        return self.aging.rooms()

    def offered(self, sites: Iterable[Site]) -> None:  # noqa: ARG002 (other policies use them)
        """Offers for these sites have come."""
        self._judge_again()

    def _judge_again(self) -> None:
        """Demands that have waited to be spread are decided about again."""
        if self.spreading.waiting:
            self.consider(self.spreading.release())

    def consider(self, identities: list[str]) -> None:
        """Has these demands decided about; others are left as they are. Demands that are not open are ignored."""
        self.aging.note(identities)
        for identity in identities:
            demand = self._turn.engine.demands.get(identity)
            if demand is not None:
                self._untried.push(ids.namespace_of(demand.application), identity)

    def consider_promised(self) -> None:
        """Has the demands of the partition decided about for which room was freed."""
        engine = self._turn.engine
        self.consider([identity for identity in engine.promised if self._covers(engine.demands[identity].role)])

    def decide(self, pace: TimeBudget) -> None:
        """Finds places, and plans the launches."""
        if self.spreading.is_over:
            self._judge_again()
        self.aging.step()
        self._match_open(pace)

    def _match_open(self, pace: TimeBudget) -> None:
        while self._match_promised(pace) and self._untried:
            self._match_slice()
            if pace.spent() >= MATCHING:
                break

    def conclude(self, pace: TimeBudget) -> None:
        """Follows up the launches of the turn, for as long as the turn lasts."""

    def notice(self, changed: Iterable[tuple[str, str]]) -> None:
        """Follows records that have changed, each named by kind and key: the demands of a changed group are matched
        again."""
        for kind, key in changed:
            if kind == PodGroup.kind:
                self.consider([demand.id for demand in self._groups.demands(key)])

    def recover(self) -> None:
        """A term begins: takes over the records of the policy."""

    def void(self) -> None:
        """All offers are gone, and with them everything that is planned."""
        self._untried = FairQueue()
        self.spreading.waiting.clear()

    def forget(self) -> None:
        """After an error: drops everything that is planned, promised or derived from the records. The engine is made
        anew, too."""
        self._untried = FairQueue()
        self.spreading.waiting.clear()
        self.aging.forget()

    # --- old demands ------------------------------------------------------------------------------------------

    def wants(self, demand: Demand[Slot]) -> Sequence[Demand[Slot]]:
        """See `aging.Hands`: the places that its gang lacks; none if room was freed for the demand, or the gang cannot
        reach its minimum in one role."""
        if demand.promised:
            return ()
        lacks = self._groups.lacks(demand.group) if demand.group else None
        wants = (demand,) * max(demand.min_members, 1) if lacks is None else self._groups.places(demand.group, lacks)
        of_role = all(one.role == demand.role and not one.per_agent for one in dict.fromkeys(wants))
        return wants if of_role and len(wants) <= MOST_PLACES else ()

    def takes_back(self, demand: Demand[Slot], replaced: str) -> bool:  # noqa: ARG002
        """True if a demand may have the room that was held for a taskgroup whose launch did not happen, given by id."""
        return True

    def admits_more(self, wants: Sequence[Demand[Slot]]) -> bool:  # noqa: ARG002
        """See `aging.Rules`."""
        return True

    def takes(self, wants: Sequence[Demand[Slot]]) -> bool:  # noqa: ARG002
        """See `aging.Rules`."""
        return True

    def outranks(self, demand: Demand[Slot], other: Demand[Slot]) -> bool:  # noqa: ARG002
        """See `aging.Rules`."""
        return False

    def room_for(self, wants: Sequence[Demand[Slot]], held: Held | None) -> Room | None:  # noqa: ARG002
        """See `aging.Hands`; None: the policy ends no work."""
        return None

    def end_some(self, role: str, evictions: Sequence[Eviction]) -> list[TaskGroup]:  # noqa: ARG002
        """See `aging.Hands`."""
        return []

    def all_ended(self, application: str, groups: Sequence[TaskGroup]) -> None:
        """See `aging.Hands`."""

    def use_first(self) -> None:
        """See `aging.Hands`."""

    def promised_rooms(self, role: str, without: Collection[str]) -> Mapping[str, Mapping[str, int]]:  # noqa: ARG002
        """See `aging.Rules`."""
        return {}

    def serve(self, demand: Demand[Slot], agents: frozenset[str]) -> bool:
        """See `aging.Hands`."""
        engine, placer = self._turn.engine, self._turn.placer
        lacks = self._groups.lacks(demand.group) if demand.group else None
        if lacks is not None:
            parts = [one._replace(only_agents=agents or one.only_agents) for one in self._groups.demands(demand.group)]
            work = partial(placer.plan_group, parts, lacks, Mode.COMMIT)
        else:
            slots = demand.slots[: max(demand.min_members, 1)]
            for slot in reversed(slots):
                engine.put_first(demand.id, slot)  # the caller may have chosen another one than the next
            least = len(slots) if demand.min_members else 0
            parts = [demand._replace(slots=slots, only_agents=agents or demand.only_agents, min_members=least)]
            work = partial(self._match, parts)
        result = self._turn.attempt("transaction", demand.id, work)
        if isinstance(result, Failure):
            engine.fail(self._turn.context, demand.id, result)
            return False
        by_id = {part.id: part for part in parts}
        counts = Counter(placement.demand for placement in result.placements)
        for placement in result.placements:
            self._launcher.add(by_id[placement.demand], placement)
        for name, count in counts.items():
            engine.plan(name, count)
            if prompt(by_id[name]):
                self._launcher.launch_now(by_id[name])
            else:
                self._launcher.settle(by_id[name])
        return bool(result.placements)

    # --- matching -----------------------------------------------------------------------------------------------

    def _match_promised(self, pace: TimeBudget) -> bool:
        """Matches the slots for which room was freed, each on its agent, before any other demand can take the room.
        False: the time is used up, and the rest and all other demands follow in the next turn."""
        engine, matched = self._turn.engine, False
        for identity in list(engine.promised):
            demand = engine.demands[identity]
            namespace = ids.namespace_of(demand.application)
            if not self._untried.holds(namespace, identity):
                continue
            if matched and pace.spent() >= MATCHING:
                return False
            matched = True
            self._untried.discard(namespace, identity)
            for slot, agent in demand.promised:
                if slot.replaces and not self.takes_back(demand, slot.replaces):
                    continue
                if any(self._turn.pool.hand.amounts(agent, demand.role)) and slot in engine.demands[identity].slots:
                    self._match_on(demand, slot, agent)
                if identity not in engine.demands:
                    break
            self._launcher.settle(demand)
        return True

    def _match_on(self, demand: Demand[Slot], slot: Slot, agent: str) -> None:
        """Matches a slot for which room was freed on an agent. Only this slot may use the room."""
        pool, site = self._turn.pool, (agent, demand.role)
        self._turn.engine.put_first(demand.id, slot)
        left = pool.hand.lend(site, demand.request, slot.replaces)
        used = self._match_alone(demand._replace(slots=(slot,), only_agents=frozenset({agent})))
        pool.hand.end_lending(site, left, used=used)

    def _match_slice(self) -> None:
        parts: list[Demand[Slot]] = []
        room = SLICE
        while room > 0 and (item := self._untried.pop()) is not None:
            demand = self._turn.engine.demands.get(item[2])
            if demand is None or demand.promised or self._match_group(demand.group):
                continue
            if not self.spreading.waits(demand):
                part = first_slots(demand, min(room, PROMPT_SLICE) if prompt(demand) else room)
                parts.append(part)
                room -= len(part.slots)
        if not parts:
            return
        result = self._turn.attempt("core", "matching", partial(self._match, parts))
        if not isinstance(result, Failure):
            self._plan(parts, result)
        elif len(parts) == 1:
            self._turn.engine.fail(self._turn.context, parts[0].id, result)
        else:
            for part in parts:  # one of them causes the error: the others must still be placed
                self._match_alone(part)

    def _match_group(self, group: str) -> bool:
        """Matches all open demands of a group (``namespace/name``, empty = none) that is below its minimum, together.
        False: there is no such group."""
        lacks = self._groups.lacks(group) if group else None
        if lacks is None:
            return False
        engine, parts = self._turn.engine, self._groups.demands(group)
        if any(self.spreading.waits(part) for part in parts):
            for part in parts:
                self._untried.discard(ids.namespace_of(part.application), part.id)
            return True
        work = partial(self._turn.placer.plan_group, parts, lacks, Mode.COMMIT)
        result = self._turn.attempt("core", "matching", work)
        for part in parts:
            self._untried.discard(ids.namespace_of(part.application), part.id)
            if isinstance(result, Failure):
                engine.fail(self._turn.context, part.id, result)
        if not isinstance(result, Failure):
            self._plan(parts, result)
            if not result.placements:
                engine.gangs.update(dict.fromkeys(part.id for part in parts))
        return True

    def _match_alone(self, part: Demand[Slot]) -> bool:
        """True if anything was placed."""
        result = self._turn.attempt("transaction", part.id, partial(self._match, [part]))
        if isinstance(result, Failure):
            self._turn.engine.fail(self._turn.context, part.id, result)
            return False
        self._plan([part], result)
        return bool(result.placements)

    def _match(self, parts: list[Demand[Slot]]) -> MatchResult[Slot]:
        return self._turn.placer.plan(parts, Mode.COMMIT)

    def _plan(self, parts: list[Demand[Slot]], result: MatchResult[Slot]) -> None:
        by_id = {part.id: part for part in parts}
        counts = dict.fromkeys(by_id, 0)
        for placement in result.placements:
            self._launcher.add(by_id[placement.demand], placement)
            counts[placement.demand] += 1
        for part in parts:
            self._planned_part(part, counts[part.id])
        for part in parts:
            if prompt(part):
                self._launcher.launch_now(part)

    def _planned_part(self, part: Demand[Slot], count: int) -> None:
        """Records that `count` slots of the part have been matched."""
        engine = self._turn.engine
        if part.per_agent:
            return
        more = count == len(part.slots) and count < len(engine.demands[part.id].slots)
        if count:
            engine.plan(part.id, count)
        if more:
            self._untried.push(ids.namespace_of(part.application), part.id)
        if not (more or prompt(part)):
            self._settle(part)

    def _settle(self, demand: Demand[Slot]) -> None:
        """A demand has been matched as far as possible now."""
        self._launcher.settle(demand)


def prompt(demand: Demand[Slot]) -> bool:
    """True if the placements of a slice are launched before anything else is matched. The slots of a demand of one per
    agent are alike to the matcher: which of them belongs to an agent is decided by the records. Constraints that count
    taskgroups hold for the placements of a slice together, in the order of matching, not for a part of them."""
    return demand.per_agent or bool(demand.rules.live)
