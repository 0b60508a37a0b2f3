"""The policy `simple`: demands are matched in the order of their arrival, namespaces in turn.

Matching costs microseconds per taskgroup, launching (records, messages) some hundred. Therefore matching and launching
are apart: a matched placement is planned, and planned placements are launched agent by agent as time and store allow
(core.placement.launcher). Both queues serve namespaces in turn, and new demands are matched while earlier ones are
being launched.

Demands of one taskgroup per agent, and those for which room was freed, are matched in this way with every policy: their
agents are given.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from bcs_scheduler.core.placement.engines.engine import (
    Decisions,
    Engine,
    Portion,
    no,
    none,
    nothing,
    nowhere,
    yes,
)
from bcs_scheduler.core.placement.groups import Groups
from bcs_scheduler.core.placement.launcher import Launcher, prompt
from bcs_scheduler.core.placement.placer import SLICE, Mode, first_slots
from bcs_scheduler.core.placement.spreading import Spreading
from bcs_scheduler.core.placement.turn import Turn
from bcs_scheduler.core.time_budget import MATCHING, TimeBudget
from offers.model import Demand, MatchResult
from offers.policy.hierarchy.configuration.partition import Partition
from store import ids
from transactions.base import Failure, Slot
from transactions.engine.fair import FairQueue

PROMPT_SLICE = 128
"""Slots of prompt demands that are matched at once: the launches of a slice take some 20 ms."""


class Untried:
    """The demands that are to be matched, namespaces in turn."""

    def __init__(self, turn: Turn, covers: Callable[[str], bool]) -> None:
        """`covers`: the roles of the partition."""
        self._turn, self._covers = turn, covers
        self._queue: FairQueue[str] = FairQueue()

    def __bool__(self) -> bool:
        return bool(self._queue)

    def push(self, demand: Demand[Slot]) -> None:
        """Has a demand matched, once."""
        self._queue.push(ids.namespace_of(demand.application), demand.id)

    def push_promised(self) -> None:
        """Has the demands matched for which room was freed."""
        engine = self._turn.engine
        for identity in engine.promised:
            demand = engine.demands[identity]
            if self._covers(demand.role):
                self.push(demand)

    def pop(self) -> Demand[Slot] | None:
        """The next demand, as it is now; None: there is none. Demands that are not open are passed over."""
        while (item := self._queue.pop()) is not None:
            demand = self._turn.engine.demands.get(item[2])
            if demand is not None:
                return demand
        return None

    def holds(self, demand: Demand[Slot]) -> bool:
        """True if a demand is to be matched."""
        return self._queue.holds(ids.namespace_of(demand.application), demand.id)

    def discard(self, demand: Demand[Slot]) -> None:
        """A demand is not to be matched."""
        self._queue.discard(ids.namespace_of(demand.application), demand.id)

    def clear(self) -> None:
        """No demand is to be matched."""
        self._queue = FairQueue()


class Matching:
    """Matches demands in slices, and hands placements to the launcher."""

    def __init__(
        self,
        turn: Turn,
        launcher: Launcher,
        untried: Untried,
        groups: Groups,
        spreading: Spreading,
        engine: Engine,
        settle: Callable[[Demand[Slot]], None],
    ) -> None:
        """`settle`: a demand has been matched as far as possible now."""
        self._turn, self._launcher, self._untried, self._groups = turn, launcher, untried, groups
        self._spreading, self._engine, self._settle = spreading, engine, settle

    def match_open(self, pace: TimeBudget) -> None:
        """Matches for as long as the turn lasts."""
        while self.match_promised(pace) and self._untried:
            self._match_slice()
            if pace.spent() >= MATCHING:
                break

    def match_promised(self, pace: TimeBudget) -> bool:
        """Matches the slots for which room was freed, each on its agent, before any other demand can take the room.
        False: the time is used up, and the rest and all other demands follow in the next turn."""
        engine, matched = self._turn.engine, False
        for identity in list(engine.promised):
            demand = engine.demands[identity]
            if not self._untried.holds(demand):
                continue
            if matched and pace.spent() >= MATCHING:
                return False
            matched = True
            self._untried.discard(demand)
            for slot, agent in demand.promised:
                if slot.replaces and not self._engine.takes_back(demand, slot.replaces):
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
        while room > 0 and (demand := self._untried.pop()) is not None:
            if demand.promised or self._match_group(demand.group):
                continue
            if not self._spreading.waits(demand):
                part = first_slots(demand, min(room, PROMPT_SLICE) if prompt(demand) else room)
                parts.append(part)
                room -= len(part.slots)
        if not parts:
            return
        result = self._turn.attempt("core", "matching", partial(self.match, parts))
        if not isinstance(result, Failure):
            self._plan(parts, result)
        elif len(parts) == 1:
            self._turn.source.fail(parts[0].id, result)
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
        if any(self._spreading.waits(part) for part in parts):
            for part in parts:
                self._untried.discard(part)
            return True
        work = partial(self._turn.placer.plan_group, parts, lacks, Mode.COMMIT)
        result = self._turn.attempt("core", "matching", work)
        for part in parts:
            self._untried.discard(part)
            if isinstance(result, Failure):
                self._turn.source.fail(part.id, result)
        if not isinstance(result, Failure):
            self._plan(parts, result)
            if not result.placements:
                engine.gangs.update(dict.fromkeys(part.id for part in parts))
        return True

    def _match_alone(self, part: Demand[Slot]) -> bool:
        """True if anything was placed."""
        result = self._turn.attempt("transaction", part.id, partial(self.match, [part]))
        if isinstance(result, Failure):
            self._turn.source.fail(part.id, result)
            return False
        self._plan([part], result)
        return bool(result.placements)

    def match(self, parts: list[Demand[Slot]]) -> MatchResult[Slot]:
        """The places of these demands, which are taken."""
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
            self._untried.push(part)
        if not (more or prompt(part)):
            self._settle(part)


class Simple:
    """The engine that holds nothing back: it has no queues, ends nothing, and `Matching` serves all demands."""

    decides = by_queues = False
    begin = notice = outranks = staticmethod(no)
    catch_up = takes_back = admits_more = fits_queues = staticmethod(yes)
    idle = faults = promised = agent_holds = read_changes = staticmethod(none)
    next_timer = evictions_for = staticmethod(nothing)
    awaiting = promised_amounts = staticmethod(nowhere)
    accept = bound = drop = failed = use_held = use_rest = conclude = recover = void = staticmethod(nothing)
    forget = drop_figures = staticmethod(nothing)

    def __init__(self, turn: Turn) -> None:
        self._turn = turn

    def decide(self, portion: Portion) -> Decisions:  # noqa: ARG002
        """See `Engine`: nothing is decided, since no demand is asked about."""
        return Decisions()

    def answer(self, portion: Portion, queues: Partition | None = None) -> Decisions:  # noqa: ARG002
        """See `Engine`."""
        return Decisions()

    def spreads(self) -> bool:
        """See `Engine`."""
        return self._turn.options.scoring == "spread"

    def queue_of(self, application: str) -> str:  # noqa: ARG002
        """See `Engine`; empty: there are no queues."""
        return ""

    def pause(self) -> float:
        """See `Engine`."""
        return 0.0
