"""Launches placed units, agent by agent.

The cluster manager takes an offer whole: the remainder of the offer after a launch comes back in another offer, seconds
later. So all placements of an agent must leave in one ACCEPT, and a big demand must be placed completely before its
first agent is launched. Until then placements are planned: the pool remembers them as claims, and `PlannedCensus`
counts them.

A plan is void if an offer of its agent is rescinded, if the agent goes or if its settings change; its slots are matched
again.

The source of the units carries the launches out (`source.Source.bind`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from bcs_scheduler.core.placement.turn import Turn
from offers.model import Demand, Placement, Site
from store import ids
from transactions.base import Slot
from transactions.engine.fair import FairQueue


def prompt(demand: Demand[Slot]) -> bool:
    """True if the placements of a slice are launched before anything else is matched. The slots of a demand of one per
    agent are alike to the matcher: which of them belongs to an agent is decided by the records. Constraints that count
    taskgroups hold for the placements of a slice together, in the order of matching, not for a part of them."""
    return demand.per_agent or bool(demand.rules.live)


class Launcher:
    """Sends planned placements to agents, a slice per turn."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._ready: FairQueue[Site] = FairQueue()
        """Agents to be launched on."""
        self._planned: dict[Site, list[tuple[Demand[Slot], Placement[Slot]]]] = {}
        self._partly: dict[str, dict[Site, None]] = {}
        """Agents that hold planned placements of a demand which is still being matched, by the id of the demand."""

    @property
    def ready(self) -> bool:
        """An agent can be launched on right now."""
        return bool(self._ready)

    @property
    def planning(self) -> bool:
        """Something is planned and not launched."""
        return bool(self._planned)

    def placements(self) -> Iterator[tuple[Demand[Slot], Placement[Slot]]]:
        """Everything that is planned and not launched."""
        for planned in self._planned.values():
            yield from planned

    def add(self, demand: Demand[Slot], placement: Placement[Slot]) -> None:
        """Plans a placement. The launch follows after `settle` of its demand, or together with another launch on its
        agent."""
        site = (placement.agent_id, demand.role)
        self._planned.setdefault(site, []).append((demand, placement))
        self._partly.setdefault(demand.id, {})[site] = None
        self._turn.census.add(demand, placement)

    def plan(self, demands: Mapping[str, Demand[Slot]], placements: Iterable[Placement[Slot]]) -> Mapping[str, int]:
        """Plans placements of demands, given by id. Returns the number of slots of each."""
        counts: Counter[str] = Counter()
        for placement in placements:
            self.add(demands[placement.demand], placement)
            counts[placement.demand] += 1
        for identity, count in counts.items():
            self._turn.engine.plan(identity, count)
        return counts

    def settle(self, demand: Demand[Slot]) -> None:
        """The demand has been matched as far as possible: its agents may be launched on."""
        for site in self._partly.pop(demand.id, ()):
            self._ready.push(ids.namespace_of(demand.application), site)

    def launch_now(self, demand: Demand[Slot]) -> None:
        """Launches on all agents that hold placements of a demand."""
        for site in self._partly.pop(demand.id, ()):
            if site in self._planned:
                self._launch(site)

    def launch_next(self) -> bool:
        """Launches on one agent. True if anything was launched."""
        item = self._ready.pop()
        return item is not None and item[2] in self._planned and self._launch(item[2])

    def void(self) -> None:
        """All offers are gone, and with them everything that is planned."""
        for planned in self._planned.values():
            for demand, placement in planned:
                self._turn.census.remove(demand, placement)
                self._turn.engine.unplan(demand.id, placement.slot)
        self._planned.clear()
        self._partly.clear()
        self._ready = FairQueue()

    def forget(self) -> None:
        """After an error, when the engine is made anew: nothing is planned."""
        self._turn.census.clear()
        self._planned.clear()
        self._partly.clear()
        self._ready = FairQueue()

    # --- one agent --------------------------------------------------------------------------------------------

    def _launch(self, site: Site) -> bool:
        """Has the units of one agent bound. True if anything was bound."""
        valid = self._valid(site)
        return bool(valid) and self._turn.source.bind(site, valid)

    def _valid(self, site: Site) -> list[Placement[Slot]]:
        """The placements on an agent whose claims still stand. They leave the plan."""
        turn, planned = self._turn, self._planned.pop(site)
        stands = turn.pool.hand.standing(site)
        valid: list[Placement[Slot]] = []
        for demand, placement in planned:
            turn.census.remove(demand, placement)
            if stands(placement):
                valid.append(placement)
            else:
                turn.engine.unplan(demand.id, placement.slot)
        return valid
